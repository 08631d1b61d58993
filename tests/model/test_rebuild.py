from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from whole import CPU, rebuilt, run

from ampere_energy.errors import ModelError
from ampere_energy.model.kinds import Fragment
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.program import Program, Source
from ampere_energy.model.rebuild import Rebuilt, function_of
from ampere_energy.model.record import record
from ampere_energy.model.source import model_ref
from ampere_energy.model.splitting import cut, extract
from benchmarks.architectures import MODELS

pytestmark = pytest.mark.usefixtures("one_thread")
TRACED = {"bert", "distilbert", "roberta", "gpt2", "t5", "llama"}
"""Hugging Face's models notice fake tensors, and build masks that they leave out in a real run."""


USUAL = {"cnn5", "resnet18", "transformer", "lstm", "unet", "bert", "t5", "mixture_of_experts", "tied_language_model"}
THIRD = set(list(MODELS)[2::3])


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in USUAL | THIRD else pytest.mark.thorough) for n in MODELS]
)
def test_rebuilt_pieces_compute_what_the_model_computes(name: str) -> None:
    """The model's weights in the rebuilt pieces, run one after the other: the same loss, and the same gradients.

    Random numbers are drawn in the same order, so dropout is the same too.
    """
    model, inputs = MODELS[name]()
    fake = record(model, inputs)
    real = run(model, inputs)
    assert (fake == real.tape) or name in TRACED
    loss, gradients = rebuilt(real)
    assert torch.equal(loss, real.loss)
    expected = {key: gradient for key, gradient in real.gradients.items() if gradient is not None}
    assert gradients.keys() == expected.keys()
    for key, gradient in expected.items():
        torch.testing.assert_close(gradients[key], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max()))


class Net(nn.Module):
    """Three linear layers, a table, and whatever a test does with them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.table, self.function = nn.Embedding(20, 8), function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(self, *args)


def pieces(model: nn.Module, *inputs: torch.Tensor) -> list[Program]:
    tape = record(model, inputs)
    return extract(tape, cut(tape))


def doubles_a_view(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = net.a(x)
    halves = x.view(-1, 2, 4)
    halves.mul_(3.0)
    return net.c(halves.flatten(1) + net.b(x))


def changes_its_input(net: Net, x: torch.Tensor) -> torch.Tensor:
    x /= 255
    return net.c(net.a(x))


def sets_a_part_of_its_input(net: Net, x: torch.Tensor) -> torch.Tensor:
    x[:, 0] = 0
    return net.c(net.a(x))


def rectifies_in_place(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = net.a(x)
    x = torch.stack([functional.relu(x, inplace=True), net.b(x)]).sum(0)
    return net.c(x)


def adds_in_place(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = net.a(x)
    y = net.b(x)
    y += x
    return net.c(y)


def counts_positions_in_place(net: Net, x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(6)
    x = net.a(x)
    places += 1
    places[0] = 5
    return net.c(net.b(x + net.table(places)))


def fills_slots(net: Net, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(len(x), 2, 8)
    y = net.a(x).tanh()
    out[:, 0] = y
    out[:, 1] = net.b(y)
    return net.c(out.sum(1))


def looks_without_a_gradient(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.a(x)
    with torch.no_grad():
        scale = y.std() + net.b(y).std()
    return net.c(net.b(y / scale))


def changes_a_view_of_what_is_read_later(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = net.a(x)
    copy = x.clone()
    part = copy[:, :4]
    part.mul_(2).add_(net.b(x)[:, :4])
    return net.c(copy)


def writes_into_slots(net: Net, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(2, 6, 8)
    out[0].copy_(net.a(x))
    out[1].copy_(net.b(out[0].clone()))
    return net.c(out.sum(0))


IN_PLACE = [
    doubles_a_view, changes_its_input, sets_a_part_of_its_input, rectifies_in_place, adds_in_place,
    counts_positions_in_place, fills_slots, looks_without_a_gradient, changes_a_view_of_what_is_read_later,
    writes_into_slots,
]  # fmt: skip


@pytest.mark.parametrize("function", IN_PLACE)
def test_changes_in_place_are_the_same_in_pieces(function: Callable[..., Any]) -> None:
    model, x = Net(function), torch.randn(6, 8)
    real = run(model, (x.clone(),))
    loss, gradients = rebuilt(real)
    assert torch.equal(loss, real.loss)
    for key, gradient in real.gradients.items():
        assert (gradient is None) == (key not in gradients)
        if gradient is not None:
            torch.testing.assert_close(gradients[key], gradient)


class Rectify(torch.autograd.Function):
    """A custom function: its own calls run without a gradient, and it brings its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        [x] = ctx.saved_tensors
        return gradient * (x > 0)


class Packs(nn.Module):
    """An LSTM over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        read, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.head(read.mean(1))


def watches(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.a(x)
    if y.requires_grad:
        y.register_hook(lambda gradient: None)
    return net.c(y)


def fourier(net: Net, x: torch.Tensor) -> torch.Tensor:
    return net.c(torch.fft.irfft(torch.fft.rfft(net.a(x)) * net.table.weight[:6, :5], n=8))


def scales_by_its_own_numbers(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = net.a(x)
    return net.c(y * float(y.detach().numpy().std()))


def loops(net: Net, x: torch.Tensor) -> torch.Tensor:
    for _ in range(10):
        x = net.a(x) / 2
        if x.norm() < 1:
            break
    return net.c(x)


def six() -> tuple[torch.Tensor]:
    return (torch.randn(6, 8),)


SORTS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "custom function": (lambda: Net(lambda net, x: net.c(Rectify.apply(net.b(net.a(x))))), six),
    "packed": (Packs, lambda: (torch.randn(4, 7, 8), torch.tensor([7, 5, 3, 1]))),
    "weight norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), nn.Linear(8, 3)),
        six,
    ),
    "spectral norm": (lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 8)), nn.Linear(8, 3)), six),
    "hooked": (lambda: Net(watches), six),
    "fourier": (lambda: Net(fourier), six),
    "numbers": (lambda: Net(scales_by_its_own_numbers), six),
    "loop": (lambda: Net(loops), six),
    "double": (lambda: nn.Sequential(nn.Linear(8, 8, dtype=torch.float64)), lambda: (torch.randn(6, 8).double(),)),
    "decoder": (
        lambda: nn.TransformerDecoderLayer(16, 2, 32, batch_first=True),
        lambda: (torch.randn(2, 5, 16), torch.randn(2, 7, 16)),
    ),
}


@pytest.mark.parametrize("name", SORTS)
def test_models_of_many_sorts_compute_the_same_in_pieces(name: str) -> None:
    make, given = SORTS[name]
    torch.manual_seed(0)
    real = run(make(), given())
    loss, gradients = rebuilt(real)
    assert torch.equal(loss, real.loss)
    assert gradients.keys() == {key for key, gradient in real.gradients.items() if gradient is not None}
    for key, gradient in gradients.items():
        torch.testing.assert_close(gradient, real.gradients[key])
    for program in pieces(make(), *given()):
        module = Rebuilt(program, CPU).train()
        ends = [out for out in module(*module.inputs(CPU)) if out.requires_grad]
        assert len(ends) == sum(program.values[n].grad for n in program.outputs) > 0


EXPORTED = ["lenet5", "resnet18", "transformer", "bilstm", "gan_generator", "lora"]


@pytest.mark.parametrize("name", EXPORTED)
def test_an_exported_program_is_the_model_it_was_exported_from(name: str) -> None:
    model, inputs = MODELS[name]()
    assert isinstance(inputs, tuple)
    exported = torch.export.export(model, inputs).module()
    one, other = pieces(model, *inputs), pieces(exported, *inputs)
    assert [program.flops for program in other] == [program.flops for program in one]
    assert [program.parameters for program in other] == [program.parameters for program in one]
    real = run(exported, inputs)
    loss, gradients = rebuilt(real)
    assert torch.equal(loss, real.loss)
    assert gradients.keys() == {key for key, gradient in real.gradients.items() if gradient is not None}


def test_an_exported_call_in_place_at_the_start_of_a_block_changes_a_copy() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = x.relu_()
        return net.c(net.a(x))

    x = torch.randn(6, 8)
    exported = torch.export.export(Net(forward), (x,)).module()
    first = pieces(exported, x)[0]
    assert first.calls[0].op == "aten.relu_.default"
    module = Rebuilt(first, CPU)
    inputs = module.inputs(CPU)
    before = inputs[0].clone()
    module(*inputs)
    assert torch.equal(inputs[0], before)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Sequential(torch.jit.script(nn.Linear(8, 8)), nn.Linear(8, 3)), "a scripted module"),
        (lambda: Net(lambda net, x: net.c(torch.vmap(net.a)(x))), "inside torch.vmap"),
        (lambda: Net(gradient_of_its_input), "a call of grad cannot be written down"),
    ],
)
def test_what_cannot_be_recorded_says_so(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        record(make(), six())


def gradient_of_its_input(net: Net, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_(True)
    [gradient] = torch.autograd.grad(net.a(x).tanh().sum(), x, create_graph=True)
    return net.c(gradient)


@pytest.mark.parametrize("function", IN_PLACE)
def test_a_step_changes_neither_its_inputs_nor_what_was_prepared(function: Callable[..., Any]) -> None:
    """Steps repeat on the same data: an index that grows from step to step would leave its table."""
    for program in pieces(Net(function), torch.randn(6, 8)):
        module = Rebuilt(program, CPU).train()
        inputs = module.inputs(CPU)
        before = [t.detach().clone() for t in (*inputs, *module.state.buffers())]
        for _ in range(3):
            ends = [out for out in module(*inputs) if out.requires_grad]
            torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])
        assert all(torch.equal(a, b) for a, b in zip(before, (*inputs, *module.state.buffers()), strict=True))
        assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    "name", ["resnet18", "transformer", "unet", "lstm", "t5", "lora", "frozen_backbone", "wavenet"]
)
def test_gradients_reach_exactly_what_needs_one(name: str) -> None:
    model, inputs = MODELS[name]()
    for program in pieces(model, *inputs) if isinstance(inputs, tuple) else _named(model, inputs):
        module = Rebuilt(program, CPU).train()
        given = module.inputs(CPU)
        ends = [out for out in module(*given) if out.requires_grad]
        assert len(ends) == sum(program.values[n].grad for n in program.outputs)
        if ends:
            torch.autograd.backward(ends, [torch.randn_like(end) for end in ends])
        for number, tensor in zip(program.numbers(Source.INPUT), given, strict=True):
            assert (tensor.grad is not None) == (program.values[number].grad and program.trains)
        for number in program.numbers(Source.WEIGHT, Source.SHARED):
            assert (module.state.weight(number).grad is not None) == program.values[number].grad
        assert all(torch.isfinite(end).all() for end in ends)


def _named(model: nn.Module, inputs: dict[str, torch.Tensor]) -> list[Program]:
    tape = record(model, inputs)
    return extract(tape, cut(tape))


def test_only_weights_of_its_own_are_updated() -> None:
    def tied(net: Net, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(net.b(net.a(x)), net.a.weight)

    model = Net(tied)
    model.b.weight.requires_grad_(False)
    first, second, third = (Rebuilt(program, CPU) for program in pieces(model, torch.randn(6, 8)))
    assert [[tuple(w.shape) for w in m.trained()] for m in (first, second, third)] == [[(8, 8), (8,)], [(8,)], []]
    [shared] = third.state.parameters()
    out = third(*third.inputs(CPU))[0]
    out.backward()
    assert shared.grad is not None  # the gradient is computed here, the update is the first block's


def test_integers_stay_in_their_range() -> None:
    model = Net(lambda net, ids: net.c(net.table(ids).mean(1)))
    [ids] = Rebuilt(pieces(model, torch.tensor([[7] * 30, [11] * 30]))[0], CPU).inputs(CPU)
    assert (ids.dtype, tuple(ids.shape)) == (torch.int64, (2, 30))
    assert (int(ids.min()), int(ids.max())) == (0, 19)  # of the table's 20 rows


def test_masks_leave_something_of_every_row() -> None:
    """Of all-true paddings nothing would be left, and a softmax over nothing is not a number."""
    for name in ("masked_encoder", "bert"):
        for program in _named(*MODELS[name]()):  # type: ignore[arg-type]
            module = Rebuilt(program, CPU).train()
            assert all(torch.isfinite(out).all() for out in module(*module.inputs(CPU)) if out.is_floating_point())


def test_lengths_fall() -> None:
    [first, *_] = pieces(Packs(), torch.randn(4, 7, 8), torch.tensor([7, 4, 3, 2]))
    lengths = next(x for x in Rebuilt(first, CPU).inputs(CPU) if x.dtype is torch.int64)
    assert lengths.tolist() == [7, 5, 4, 2]  # from the longest that was given to the shortest


def test_positions_are_prepared_once() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(6) * 3
        return net.c(net.b(net.a(x)) + net.table(places))

    reads = next(p for p in pieces(Net(forward), torch.randn(6, 8)) if "embedding" in p.operations)
    module = Rebuilt(reads, CPU)
    assert [node.name for node in module.body.graph.nodes if "arange" in node.name] == []
    assert [0, 3, 6, 9, 12, 15] in [buffer.tolist() for buffer in module.state.buffers()]


def test_a_piece_is_rebuilt_at_other_widths() -> None:
    spec = parse_ref(model_ref("lstm", widths=(12, 16, 20), input=(3, 7)))
    block = next(b for b in spec.blocks if isinstance(b.kind, Fragment) and b.kind.main == "lstm")
    assert isinstance(block.kind, Fragment)
    assert block.point == (16, 12)  # what it gives, what it reads: in the order that its calls tell them
    for hidden, reads in ((9, 5), (3, 40)):
        module = Rebuilt(block.kind.program.at((hidden, reads)), CPU)
        inputs = module.inputs(CPU)
        assert (3, 7, reads) in [tuple(x.shape) for x in inputs]
        held = 4 * hidden * (hidden + reads + 2)
        assert sum(w.numel() for w in module.trained()) == held == block.kind.parameters((hidden, reads))
        assert module(*inputs)[0].shape[-1] == hidden


@pytest.mark.parametrize(
    "op",
    [
        "os.system", "torch.load", "torch.save", "torch.Tensor.__reduce_ex__", "torch.hub.load", "builtins.eval",
        "torch.Tensor.__class__", "torch.Tensor.__init_subclass__", "torch.Tensor._make_subclass", "torch.os.system",
        "torch.nn.functional.torch", "torch.nn.functional._verify_batch_size", "torch.nn.functional.boolean_dispatch",
        "torch.nn.functional.importlib", "torch.nn.functional.warnings", "torch.compile", "torch.classes.load_library",
        "torch.ops.load_library", "torch.utils.cpp_extension.load", "torch.from_file",
        "torch.Tensor.numpy.__globals__", "torch.set_default_device", "torch.manual_seed", "torch", "torch.",
        "print", "operator.attrgetter", "subprocess.run", "aten.from_file.default", "aten.add.__class__", "aten.add",
        "aten._foreach_add.List", "aten.__class__.mro",
    ],
)  # fmt: skip
def test_names_that_are_no_function_on_tensors_are_refused(op: str) -> None:
    with pytest.raises(ModelError, match=f"has no function {op} on tensors; record the model with this torch"):
        function_of(op)


def test_recorded_names_are_found() -> None:
    ops = {call.op for name in ("t5", "resnet18", "bilstm", "swin") for call in record(*MODELS[name]()).calls}
    assert len(ops) > 40
    assert all(op.endswith(".__get__") or callable(function_of(op)) for op in ops)
    assert function_of("torch.nn.functional.relu") is functional.relu
    assert function_of("torch.arange") is torch.arange


@pytest.mark.parametrize(
    ("op", "arguments", "message"),
    [
        ("os.system", [["touch PATH"], {}], "has no function os.system on tensors"),
        ("torch.Tensor.system.__get__", [[{"value": 0}], {}], "has no function torch.Tensor.system.__get__"),
        ("torch.Tensor.__class__.__get__", [[{"value": 0}], {}], "has no function torch.Tensor.__class__.__get__"),
        ("torch.Tensor.to", [[{"value": 0}, {"dtype": "load"}], {}], "has no type load"),
        ("torch.Tensor.to", [[{"torch": "os"}], {}], "has no type os"),
        ("torch.Tensor.sum", [[{"value": 0}], {"dim=0) or open('PATH', 'w') or dict(a": 1}], "takes no argument dim=0"),
    ],
)
def test_files_cannot_make_it_run_anything_else(op: str, arguments: list[Any], message: str, tmp_path: Path) -> None:
    """Recorded calls become code, and are read from files that anybody may have written."""
    program = pieces(Net(lambda net, x: net.c(x)), torch.randn(6, 8))[0]
    text = json.dumps(arguments).replace("PATH", str(tmp_path / "made"))
    hostile = replace(program, calls=(replace(program.calls[0], op=op, arguments=text), *program.calls[1:]))
    with pytest.raises(ModelError, match=re.escape(message)):
        Rebuilt(hostile, CPU)(*Rebuilt(program, CPU).inputs(CPU))
    assert not (tmp_path / "made").exists()


def test_a_type_that_torch_lacks() -> None:
    program = pieces(Net(lambda net, x: net.c(x)), torch.randn(6, 8))[0]
    values = (replace(program.values[0], dtype="os"), *program.values[1:])
    with pytest.raises(ModelError, match="has no type os"):
        Rebuilt(replace(program, values=values), CPU).inputs(CPU)
