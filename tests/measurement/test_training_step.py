from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn

from ampere_energy.errors import RequestError
from ampere_energy.measurement import training_step as steps
from ampere_energy.measurement.timing import device_s
from ampere_energy.measurement.training_step import Step, training_step
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import Fragment, Kind
from ampere_energy.model.parse import parse, parse_ref
from ampere_energy.model.source import InputSpec, ModelRef, model_ref
from ampere_energy.model.training import Mode, Optimizer, Precision, Training
from ampere_energy.model.variants import Phase, Variant, alone, whole_network
from ampere_energy.serialization import decode, encode
from benchmarks.architectures import MODELS

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
NARROW = {"lenet5": (2, 3, 8, 5), "resnet18": (2, 3, 4, 5), "lstm": (6, 5, 4), "transformer": (1, 64)}
INPUT = {"lenet5": (4, 1, 28, 28), "resnet18": (4, 3, 16, 16), "lstm": (4, 9), "transformer": (4, 8)}


def ref_of(name: str, training: Training | None = None) -> ModelRef:
    return model_ref(name, widths=NARROW[name], input=INPUT[name], training=training)


@cache
def spec_of(name: str, **settings: Any) -> ModelSpec:
    return parse_ref(ref_of(name, Training(1, **settings)))


def step_of(workload: Variant | ModelRef) -> Step:
    return training_step(workload, CPU, workload.training.mode)


def gradients(step: Step) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in step.module.named_parameters() if p.grad is not None}


def weights(step: Step) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in step.module.named_parameters()}


def block_of(spec: ModelSpec, kind: type[Kind] | type[Fragment], name: str = "") -> Variant:
    found = next(b for b in spec.blocks if isinstance(b.kind, kind) and name in b.kind.label)
    return alone(found.kind, found.point)


@pytest.mark.parametrize("name", NARROW)
def test_blocks_and_wholes_train_all_their_weights(name: str) -> None:
    spec, ref = spec_of(name), ref_of(name)
    workloads: list[Variant | ModelRef] = [ref, *(alone(block.kind, block.point) for block in spec.blocks)]
    for workload in workloads:
        step = step_of(workload)
        step.run()
        assert gradients(step).keys() == weights(step).keys()
        assert all(torch.isfinite(g).all() for g in gradients(step).values())
    counts = [sum(w.numel() for w in weights(step_of(workload)).values()) for workload in workloads]
    assert counts[0] == sum(counts[1:])


def test_every_time_with_the_same_weights_and_data() -> None:
    for workload in (ref_of("lenet5"), block_of(spec_of("resnet18"), Fragment), block_of(spec_of("lenet5"), Kind)):
        one, other = step_of(workload), step_of(workload)
        one.run()
        other.run()
        other.run()  # the second step's gradients are its own, not the sum
        found, again = gradients(one), gradients(other)
        assert found.keys() == again.keys()
        for name, gradient in found.items():
            torch.testing.assert_close(again[name], gradient, rtol=1e-4, atol=1e-7)


def test_weights_hold_still() -> None:
    step = step_of(ref_of("lenet5"))
    before = weights(step)
    for _ in range(5):
        step.run()
    for name, weight in weights(step).items():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=1e-9)


def _sgd(w: torch.Tensor, g: torch.Tensor, steps_: int) -> torch.Tensor:
    return w - steps_ * 0.1 * g


def _momentum(w: torch.Tensor, g: torch.Tensor, steps_: int) -> torch.Tensor:
    return w - 0.1 * g * {1: 1.0, 2: 1 + 1.9}[steps_]


def _adam(w: torch.Tensor, g: torch.Tensor, steps_: int) -> torch.Tensor:
    return w - steps_ * 0.1 * g / (g.abs() + 1e-8)


def _adamw(w: torch.Tensor, g: torch.Tensor, steps_: int) -> torch.Tensor:
    for _ in range(steps_):
        w = w * (1 - 0.1 * 0.01) - 0.1 * g / (g.abs() + 1e-8)
    return w


@pytest.mark.parametrize(
    ("optimizer", "by_hand"),
    [
        (Optimizer.SGD, _sgd),
        (Optimizer.MOMENTUM, _momentum),
        (Optimizer.ADAM, _adam),
        (Optimizer.ADAMW, _adamw),
    ],
)
def test_each_optimizer_updates_as_it_should(
    optimizer: Optimizer,
    by_hand: Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A block whose gradient does not depend on its weights: a linear layer that is handed one."""
    monkeypatch.setattr(steps, "_LEARNING_RATE", 0.1)
    spec = parse(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)), (6, 5), training=Training(1, optimizer))
    step = step_of(alone(spec.blocks[0].kind, spec.blocks[0].point))
    before = weights(step)
    for count in (1, 2):
        step.run()
        for name, gradient in gradients(step).items():
            expected = by_hand(before[name], gradient, count)
            torch.testing.assert_close(weights(step)[name], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("passes", [2, 5])
def test_accumulating_adds_gradients_up(passes: int) -> None:
    for name in ("lenet5", "transformer"):
        for kind in (Kind, Fragment) if name == "transformer" else (Kind,):
            one = step_of(block_of(spec_of(name), kind))
            several = step_of(block_of(spec_of(name, accumulate=passes), kind))
            one.run()
            several.run()
            for key, gradient in gradients(one).items():
                torch.testing.assert_close(gradients(several)[key], passes * gradient, rtol=1e-4, atol=1e-6)
    whole = spec_of("lenet5", accumulate=passes), spec_of("lenet5")
    assert sum(b.training_flops for b in whole[0].blocks) == passes * sum(b.training_flops for b in whole[1].blocks)
    with pytest.raises(RequestError, match="--accumulate 0; give at least 1"):
        Training(1, accumulate=0)


def outputs(step: Step) -> list[torch.dtype]:
    """The types that the modules of a step give, in one run."""
    found: list[torch.dtype] = []
    handles = [
        module.register_forward_hook(
            lambda _, __, out: found.append((out[0] if isinstance(out, tuple) else out).dtype)  # type: ignore[func-returns-value]
        )
        for module in step.module.children()
    ]
    step.run()
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        (Precision.FP32, torch.float32),
        (Precision.TF32, torch.float32),
        (Precision.BF16, torch.bfloat16),
        (Precision.FP16, torch.float16),
    ],
)
def test_products_are_computed_in_the_precision_asked_for(precision: Precision, dtype: torch.dtype) -> None:
    try:
        for name, kind in (("lenet5", Kind), ("resnet18", Fragment)):
            step = step_of(block_of(spec_of(name, precision=precision), kind))
            assert outputs(step) == [dtype]
            assert {w.dtype for w in weights(step).values()} == {torch.float32}  # autocast keeps weights
            assert {g.dtype for g in gradients(step).values()} == {torch.float32}
        whole = step_of(ref_of("lenet5", Training(1, precision=precision)))
        assert outputs(whole) == [dtype]
        assert torch.get_float32_matmul_precision() == ("high" if precision is Precision.TF32 else "highest")
    finally:
        torch.set_float32_matmul_precision("highest")


def test_channels_last_is_how_images_and_filters_lie() -> None:
    step = step_of(block_of(spec_of("resnet18", channels_last=True), Fragment))
    seen: list[bool] = []
    [module] = step.module.children()
    module.register_forward_pre_hook(
        lambda _, given: seen.extend(_inner(x) for x in given if x.dim() == 4 and x.shape[1] > 1)
    )
    step.run()
    assert seen
    assert all(seen)
    filters = [w for w in step.module.parameters() if w.dim() == 4 and min(w.shape[1:]) > 1]
    assert filters
    assert all(_inner(w) for w in filters)
    plain = step_of(block_of(spec_of("resnet18"), Fragment))
    assert not any(_inner(w) for w in plain.module.parameters() if w.dim() == 4 and min(w.shape[1:]) > 1)


def test_compiled_blocks_are_laid_out_as_inside_their_compiled_model() -> None:
    spec = spec_of("resnet18", mode=Mode.COMPILE)

    def compact(workload: Variant | ModelRef) -> list[bool]:
        step = training_step(workload, CPU, Mode.COMPILE)
        return [_inner(w) for w in step.module.parameters() if w.dim() == 4 and min(w.shape[1:]) > 1]

    blocks = [compact(alone(b.kind, b.point)) for b in spec.blocks]
    assert any(blocks)
    assert all(all(found) for found in blocks)
    whole = compact(ref_of("resnet18", Training(4, mode=Mode.COMPILE)))
    assert whole
    assert not any(whole), "the model itself is trained as its user has it"


def _inner(x: torch.Tensor) -> bool:
    """Whether the channels of an image are innermost, and its positions are not."""
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()


def test_a_frozen_backbone_has_no_gradient() -> None:
    whole = step_of(model_ref("benchmarks.architectures.others:frozen_backbone"))
    whole.run()
    assert set(gradients(whole)) == {"0.fc.weight", "0.fc.bias"}
    *backbone, head = parse(*MODELS["frozen_backbone"]()).blocks
    for block in backbone:
        step = step_of(alone(block.kind, block.point))
        step.run()
        assert gradients(step) == {}
        assert not any(p.requires_grad for p in step.module.parameters())
    step = step_of(alone(head.kind, head.point))
    step.run()
    assert len(gradients(step)) == 2


def test_adapters_train_and_what_they_adapt_does_not() -> None:
    model, inputs = MODELS["lora"]()
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    found = 0
    for block in parse(model, inputs).blocks:
        step = step_of(alone(block.kind, block.point))
        step.run()
        found += sum(g.numel() for g in gradients(step).values())
    assert found == trained


FACTORIES = """
import torch
from torch import fx, nn

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        with torch.no_grad():
            self.fc.weight.copy_(torch.arange(6.0).reshape(2, 3))
            self.fc.bias.zero_()
    def forward(self, x, scale=None):
        y = self.fc(x) if scale is None else self.fc(x) * scale
        return {"loss_like": y.square().sum()}

def one(): return Own(), torch.ones(5, 3)
def several(): return Own(), (torch.ones(5, 3), torch.full((5, 1), 2.0))
def named(): return Own(), {"scale": torch.full((5, 1), 3.0), "x": torch.ones(5, 3)}
def embeds(): return nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 7))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "factories.py"
    path.write_text(FACTORIES)
    return path


@pytest.mark.parametrize(("name", "scale"), [("one", 1.0), ("several", 2.0), ("named", 3.0)])
def test_a_factory_may_bring_its_inputs_and_its_loss(file: Path, name: str, scale: float) -> None:
    """Of loss Σ (scale · w x)², the gradient of w is 2 scale² (w x) xᵀ, summed over five samples of ones."""
    step = step_of(model_ref(f"{file}:{name}"))
    step.run()
    products = torch.tensor([0.0 + 1 + 2, 3 + 4 + 5])
    expected = (2 * scale**2 * 5 * products)[:, None].expand(2, 3)
    torch.testing.assert_close(gradients(step)["0.fc.weight"], expected)


def test_tokens_are_read_and_predicted(file: Path) -> None:
    ref = model_ref(f"{file}:embeds", inputs=(InputSpec("", "int64", (4, 6)),))
    step = step_of(ref)
    step.run()
    assert set(gradients(step)) == {"0.0.weight", "0.1.weight", "0.1.bias"}


def test_blocks_side_by_side_are_trained_in_one_step() -> None:
    spec = spec_of("transformer")
    blocks = tuple(dict.fromkeys(Block("subject", b.kind, b.point) for b in spec.blocks))
    variant = Variant(blocks, apart=True)
    step = step_of(variant)
    assert len(list(step.module.children())) == len(blocks)
    step.run()
    assert gradients(step).keys() == weights(step).keys()
    assert sum(w.numel() for w in weights(step).values()) == sum(b.parameters for b in blocks)
    assert str(variant) == " | ".join(f"{b.kind.id}{list(b.point)}" for b in blocks)


def test_a_chain_is_one_module_that_ends_in_its_loss() -> None:
    spec = spec_of("lenet5")
    step = step_of(whole_network(spec, (1, 2, 3, 4)))
    step.run()
    [module] = step.module.children()
    assert len(list(module.children())) == 5
    assert gradients(step).keys() == weights(step).keys()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_parts_of_a_step_by_themselves() -> None:
    block = spec_of("lenet5").blocks[1]
    whole = step_of(Variant((block,)))
    whole.run()
    own = {phase: step_of(Variant((block,), phase=phase)) for phase in Phase}
    before = weights(own[Phase.FORWARD])
    own[Phase.FORWARD].run()
    assert not gradients(own[Phase.FORWARD])
    own[Phase.BACKWARD].run()
    own[Phase.BACKWARD].run()
    assert all(torch.equal(g, gradients(whole)[name]) for name, g in gradients(own[Phase.BACKWARD]).items())
    assert len(gradients(own[Phase.BACKWARD])) == len(gradients(whole)) > 0
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert all(torch.equal(w, before[name]) for name, w in weights(own[phase]).items())
    update = own[Phase.UPDATE]
    kept = gradients(update)
    for parameter in update.module.parameters():
        parameter.data.mul_(1e-12)  # so small that a step of the tiny learning rate shows
    small = weights(update)
    update.run()
    assert any(not torch.equal(w, small[name]) for name, w in weights(update).items())
    assert all(torch.equal(g, kept[name]) for name, g in gradients(update).items())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("mode", [Mode.EAGER, Mode.COMPILE])
def test_parts_of_a_step_can_be_captured(phase: Phase, mode: Mode) -> None:
    block = spec_of("lenet5", mode=mode).blocks[1]
    step = training_step(Variant((block,), phase=phase), torch.device("cuda"), mode)
    step.run()
    alone_ = steps.as_cuda_graph(step)
    assert device_s(alone_) <= 1.5 * device_s(step)


def test_nothing_to_update() -> None:
    spec = parse(*MODELS["frozen_backbone"]())
    frozen = next(b for b in spec.blocks if not b.parameters or not any(p.requires_grad for p in _module(b)))
    with pytest.raises(RuntimeError, match="nothing is updated"):
        step_of(Variant((frozen,), phase=Phase.UPDATE)).run()


def _module(block: Block) -> list[nn.Parameter]:
    return list(step_of(alone(block.kind, block.point)).module.parameters())


def test_every_block_is_compiled_however_many_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[fx.GraphModule] = []

    def backend(graph: fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        compiled.append(graph)
        return graph.forward

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module: compile_(module, backend=backend))
    spec = spec_of("resnet18", mode=Mode.COMPILE)
    blocks = [block for block in spec.blocks if isinstance(block.kind, Fragment)]
    blocks = [block for _ in range(2) for block in blocks]
    assert len(blocks) > torch._dynamo.config.recompile_limit, "no limit is reached"
    for block in blocks:
        before = len(compiled)
        step_of(alone(block.kind, block.point)).run()
        assert len(compiled) > before
    before = len(compiled)
    step_of(Variant(tuple(blocks), apart=True)).run()
    assert len(compiled) == before + 1, "side by side they are compiled as one, as in a model"


def test_graphs_need_a_card() -> None:
    with pytest.raises(RuntimeError, match="CUDA devices only; use --mode eager or compile"):
        training_step(ref_of("lenet5"), CPU, Mode.GRAPH)


@pytest.mark.parametrize("name", ["resnet18", "transformer", "lstm"])
def test_fragments_travel_as_plain_data(name: str) -> None:
    """Through JSON and back: the same kind by name, the same step."""
    spec = spec_of(name, optimizer=Optimizer.ADAMW, precision=Precision.BF16, accumulate=2)
    for block in spec.blocks:
        variant = alone(block.kind, block.point)
        again = decode(Variant, json.loads(json.dumps(encode(variant))), "variant")
        assert again == variant
        assert again.blocks[0].kind.id == block.kind.id
    both = Variant((replace(spec.blocks[0], name="a"), replace(spec.blocks[-1], name="b")), apart=True)
    assert decode(Variant, json.loads(json.dumps(encode(both))), "variant") == both


def test_fields_of_later_versions_are_not_written_where_they_are_usual() -> None:
    plain, other = spec_of("lenet5"), spec_of("lenet5", channels_last=True)
    written = encode(Variant(plain.blocks))
    assert set(written) == {"blocks"}
    assert set(written["blocks"][0]["kind"]["training"]) == {"batch", "optimizer", "mode"}
    assert encode(Variant(other.blocks))["blocks"][0]["kind"]["training"]["channels_last"] is True
    assert encode(Variant(plain.blocks[:1], apart=True))["apart"] is True


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, b: Variant(()), "at least one block"),
        (lambda a, b: Variant((a, b)), "do not feed each other"),
        (lambda a, b: Variant((a, _adamw_twin(b)), apart=True), "trained alike"),
    ],
)
def test_variants_that_cannot_be(make: Callable[[Block, Block], Variant], message: str) -> None:
    first, second, *_ = spec_of("transformer").blocks
    with pytest.raises(ValueError, match=message):
        make(first, second)


def _adamw_twin(block: Block) -> Block:
    return replace(block, kind=replace(block.kind, training=replace(block.kind.training, optimizer=Optimizer.ADAMW)))
