from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from ampere_energy.errors import ModelError
from ampere_energy.model.kinds import Fragment, Role
from ampere_energy.model.load import instantiate
from ampere_energy.model.parse import parse
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Optimizer, Precision, Training


class Functional(nn.Module):
    """LeNet-like, with everything non-parametric as a functional call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = F.max_pool2d(self.conv2(x).relu(), kernel_size=2)
        x = x.view(x.size(0), -1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.a(x)
        return self.c((x + self.b(x)).mean((2, 3), keepdim=True).flatten(1))


def flops_of_a_step(model: nn.Module, shape: tuple[int, ...]) -> int:
    with FlopCounterMode(display=False) as counter:
        out = model(torch.randn(shape))
        F.cross_entropy(out, torch.zeros(shape[0], dtype=torch.long)).backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("name", ["lenet5", "cnn5"])
def test_parameters_and_flops_sum_to_the_models(name: str) -> None:
    ref = model_ref(name, input=(4, 3, 32, 32))
    model = instantiate(ref)
    spec = parse(model, ref.input)
    assert sum(b.parameters for b in spec.blocks) == sum(p.numel() for p in model.parameters())
    assert sum(b.training_flops for b in spec.blocks) == flops_of_a_step(model, ref.input)
    assert spec.unattributed == ()


def test_blocks_of_lenet5() -> None:
    ref = model_ref("lenet5")
    spec = parse(instantiate(ref), ref.input)
    found = [(b.name, b.kind.role, b.point, b.kind.label) for b in spec.blocks]
    assert found == [
        ("conv1", Role.INPUT, (6,), "conv2d 5 padding 2 @1×28×28 · relu · max_pool2d 2"),
        ("conv2", Role.HIDDEN, (6, 16), "conv2d 5 @14×14 · relu · max_pool2d 2 · flatten"),
        ("fc1", Role.HIDDEN, (400, 120), "linear · relu"),
        ("fc2", Role.HIDDEN, (120, 84), "linear · relu"),
        ("fc3", Role.OUTPUT, (84,), "linear → 10 · cross_entropy"),
    ]
    assert len(spec.kinds) == 4  # the two hidden linear layers are one kind
    assert [b.kind.input_grad for b in spec.blocks] == [False, True, True, True, True]


def test_functional_calls_are_the_same_kinds_as_modules() -> None:
    ref = model_ref("lenet5")
    assert parse(Functional(), ref.input).kinds == parse(instantiate(ref), ref.input).kinds


def test_every_setting_makes_another_kind() -> None:
    def kinds(shape: tuple[int, ...], **options: object) -> set[str]:
        training = Training(1, **options) if options else None  # type: ignore[arg-type]
        return {k.id for k in parse(instantiate(model_ref("cnn5", input=shape)), shape, training=training).kinds}

    base = kinds((10, 1, 28, 28))
    assert not base & kinds((20, 1, 28, 28))
    assert not base & kinds((10, 1, 28, 28), optimizer=Optimizer.ADAM)
    assert not base & kinds((10, 1, 28, 28), precision=Precision.BF16)
    assert not base & kinds((10, 1, 28, 28), channels_last=True)
    assert not base & kinds((10, 1, 28, 28), accumulate=2)
    assert len(base & kinds((10, 1, 32, 32))) == 1  # only the output linear does not see the image size


def test_a_residual_add_belongs_to_its_block() -> None:
    spec = parse(Residual(), (2, 3, 8, 8))
    assert [b.name for b in spec.blocks] == ["a", "b", "c"]
    assert [b.kind.label for b in spec.blocks] == [
        "conv2d 3 @3×8×8",
        "conv2d + 3 more @2×8×6×6",
        "linear → 5 · cross_entropy",
    ]
    assert spec.blocks[1].kind.program.operations == ("conv2d", "add", "mean", "flatten")
    assert spec.unattributed == ()
    assert (spec.chain, spec.widths, spec.follows) == (False, (), ())


def test_parameters_that_no_call_reads_are_admitted() -> None:
    class Loose(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.fc, self.spare = nn.Parameter(torch.ones(4)), nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(x)

    spec = parse(Loose(), (3, 4))
    assert spec.unattributed == ("14 of 24 parameters (scale, spare.weight, spare.bias)",)
    assert sum(b.parameters for b in spec.blocks) == 10


def test_a_single_layer_is_a_model() -> None:
    spec = parse(nn.Linear(4, 2), (3, 4))
    assert [(b.kind.role, b.point, b.kind.label) for b in spec.blocks] == [
        (Role.OUTPUT, (4,), "linear → 2 · cross_entropy")
    ]
    assert spec.blocks[0].training_flops == 2 * (2 * 3 * 4 * 2)  # forward and the weight's gradient
    assert spec.widths == ()  # what it reads and gives is the data's


def test_widths_of_a_chain_are_what_its_blocks_give() -> None:
    ref = model_ref("lenet5", widths=(3, 8, 60, 40))
    spec = parse(instantiate(ref), ref.input)
    assert spec.widths == (3, 8, 60, 40)
    assert spec.follows == (((0, 1),), ((0, 1), (1, 1)), ((1, 25), (2, 1)), ((2, 1), (3, 1)), ((3, 1),))


def test_leading_reshape_belongs_to_the_first_block() -> None:
    spec = parse(nn.Sequential(nn.Flatten(), nn.Linear(784, 16), nn.ReLU(), nn.Linear(16, 10)), (5, 1, 28, 28))
    first = spec.blocks[0]
    assert first.kind.label == "linear @1×28×28 · flatten · relu"
    assert first.parameters == 784 * 16 + 16
    assert first.reads == (1, 28, 28)


def test_parsing_leaves_the_model_as_it_was() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(144, 3)).eval()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    random_state = torch.get_rng_state()
    parse(model, torch.zeros(2, 1, 8, 8))
    assert not model.training
    assert torch.equal(random_state, torch.get_rng_state())
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())


def test_a_layer_without_a_recipe_is_a_piece_measured_as_it_is() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTM(8, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.cell(x)[0]

    for model, shape, name, label in (
        (Recurrent(), (4, 3, 8), "cell", "lstm + 3 more @4×3×8"),
        (nn.Sequential(nn.Conv2d(4, 4, 3, groups=2)), (2, 4, 8, 8), "0", "conv2d + 1 more @2×4×8×8"),
        (nn.Sequential(nn.Linear(8, 4)), (2, 5, 8), "0", "linear + 1 more @2×5×8"),
    ):
        [block] = parse(model, shape).blocks
        assert isinstance(block.kind, Fragment)
        assert (block.kind.opaque, block.point, block.kind.axes) == (True, (), ())
        assert (block.kind.role, block.name, block.kind.label) == (Role.PIECE, name, label)
        assert block.parameters == sum(p.numel() for p in model.parameters())
        assert block.reads == shape


def test_an_input_the_model_rejects_is_named() -> None:
    with pytest.raises(ModelError, match="does not run on an input of shape 10,3,28,28"):
        parse(instantiate(model_ref("lenet5")), (10, 3, 28, 28))
    with pytest.raises(ModelError, match="batch first"):
        parse(nn.Linear(3, 3), (3,))


def test_a_model_without_layers_is_refused() -> None:
    with pytest.raises(ModelError, match="Sequential has no parameters; AMPERE estimates training"):
        parse(nn.Sequential(nn.ReLU()), (2, 3))


def test_a_global_mean_is_a_pool_however_it_is_written() -> None:
    class Pooled(nn.Module):
        def __init__(self, keepdim: bool) -> None:
            super().__init__()
            self.conv, self.fc, self.keepdim = nn.Conv2d(1, 4, 3), nn.Linear(4, 2), keepdim

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.fc(self.conv(x).mean((2, 3), keepdim=self.keepdim).flatten(1))

    specs = [parse(Pooled(keepdim), (2, 1, 8, 8)) for keepdim in (True, False)]
    assert all(spec.unattributed == () for spec in specs)
    for spec in specs:
        assert spec.blocks[0].gives == (4,)


def frozen() -> nn.Module:
    return nn.Linear(8, 2).requires_grad_(False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Sequential(nn.LazyLinear(3)), "has lazy layers; run it once"),
        (frozen, "Linear is frozen: none of its parameters is trained; set requires_grad"),
        (lambda: Returns(lambda y: None), "Returns gives nothing that depends on a trained parameter; let its"),
        (lambda: Returns(lambda y: y.detach()), "gives nothing that depends on a trained parameter"),
        (lambda: Returns(lambda y: y.argmax(1)), "gives nothing that depends on a trained parameter"),
        (lambda: Returns(lambda y: 1 / 0), r"does not run on an input of shape 4,8 \(division by zero\)"),
    ],
)
def test_what_cannot_be_parsed_says_why(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        parse(make(), (4, 8))


def test_a_layer_used_twice_is_counted_once_and_works_twice() -> None:
    model = Shared()
    spec = parse(model, (4, 8))
    assert [b.name for b in spec.blocks] == ["fc", "fc"]
    assert [b.parameters for b in spec.blocks] == [72, 0]
    # The first has no input to pass a gradient to; the second passes it on to the first.
    assert [b.training_flops for b in spec.blocks] == [2 * 512, 3 * 512]
    assert sum(b.training_flops for b in spec.blocks) == flops_of_a_step(model, (4, 8))


def test_the_first_trained_output_of_several_is_trained() -> None:
    spec = parse(Returns(lambda y: {"said": "text", "scores": (None, y, -y)}), (4, 8))
    assert spec.blocks[0].kind.program.operations == ("linear", "neg", "cross_entropy")  # type: ignore[union-attr]


@pytest.mark.parametrize(("sign", "operations"), [(1.0, ()), (-1.0, ("neg",))])
def test_control_flow_that_depends_on_data_is_followed(sign: float, operations: tuple[str, ...]) -> None:
    model = Returns(lambda y: y if y.sum() > 0 else -y)
    with torch.no_grad():
        model.fc.weight.fill_(sign)
        model.fc.bias.zero_()
    [block] = parse(model, torch.ones(4, 8)).blocks
    assert isinstance(block.kind, Fragment)
    assert set(operations) == {"neg"} & set(block.kind.program.operations)


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.fc(x))


class Returns(nn.Module):
    def __init__(self, end: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.fc, self.end = nn.Linear(8, 2), end

    def forward(self, x: torch.Tensor) -> object:
        return self.end(self.fc(x))


def test_torch_does_not_log_what_we_report(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match="does not run on an input of shape 4,9"):
        parse(nn.Sequential(nn.Linear(8, 2)), (4, 9))
    assert capfd.readouterr().err == ""


BERT_BASE = """
import json, time
import torch
from pathlib import Path
from transformers import BertConfig, BertForSequenceClassification
from ampere_energy.model.parse import parse

def memory(field):
    [line] = [l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(field)]
    return 1024 * int(line.split()[1])

torch.set_num_threads(1)
parse(torch.nn.Linear(2, 2), (3, 2))  # whatever is imported by the first parse
model = BertForSequenceClassification(BertConfig())
ids = torch.randint(30522, (8, 128))
Path("/proc/self/clear_refs").write_text("5")  # the peak is now
before, start = memory("VmRSS"), time.monotonic()
spec = parse(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
print(json.dumps({
    "grown": memory("VmHWM") - before, "seconds": time.monotonic() - start, "kinds": len(spec.kinds),
    "parameters": sum(b.parameters for b in spec.blocks), "flops": sum(b.training_flops for b in spec.blocks),
}))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's account of memory")
def test_parsing_bert_base_takes_seconds_and_hardly_any_memory() -> None:
    done = subprocess.run([sys.executable, "-c", BERT_BASE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["parameters"] == 109_483_778
    assert found["grown"] < 0.2 * 4 * found["parameters"]  # shapes only: no second copy, no activations
    assert found["seconds"] < 20
    assert found["kinds"] < 12  # twelve equal layers
    # Twelve layers of 12 h² weights and of attention over 128 words, pooler and classifier: forward and twice backward.
    h, words, batch = 768, 128, 8
    layers = 12 * (2 * batch * words * 12 * h * h + 4 * batch * words * words * h)
    assert found["flops"] == 3 * (layers + 2 * batch * (h * h + 2 * h))
