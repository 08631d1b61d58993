from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional

from ampere_energy.errors import WidthError
from ampere_energy.model.program import Affine, Call, Given, Program, Source, Value, settled, size_of
from ampere_energy.model.record import record
from ampere_energy.model.splitting import cut, extract
from ampere_energy.serialization import digest
from flop_counter import counted_flops

pytestmark = pytest.mark.usefixtures("one_thread")


def call(op: str, *reads: int, gives: tuple[int, ...] = (), named: dict[str, object] | None = None) -> Call:
    arguments = json.dumps([[{"value": n} for n in reads], named or {}], separators=(",", ":"))
    return Call(op, arguments, tuple(Given((), n) for n in gives))


LINEAR = Program(
    values=(
        Value(Source.INPUT, "float32", (4, Affine(1, 0, ((0, 1),))), grad=True),
        Value(Source.WEIGHT, "float32", (Affine(2, 2, ((0, 1), (1, 3))), Affine(1, 0, ((0, 1),))), grad=True),
        Value(Source.MADE, "float32", (4, Affine(2, 2, ((0, 1), (1, 3)))), grad=True),
        Value(Source.MADE, "float32", (4, 2, Affine(4, 2, ((0, 1), (1, 3)))), grad=True),
    ),
    calls=(
        call("torch._C._nn.linear", 0, 1, gives=(2,)),
        call("torch.Tensor.view", 2, gives=(3,), named={"shape": [4, 2, {"size": [4, 2, 0, 1, 1, 3]}]}),
    ),
    outputs=(3,),
    axes=2,
)
"""A linear layer from width a to (a + 3 b + 2) / 2, folded into two."""


def test_a_number_that_follows_widths() -> None:
    size = Affine(2, 6, ((0, 4), (1, 1)))
    assert size.at((3, 2)) == (6 + 12 + 2) // 2
    assert Affine(1, -3, ((1, 2),)).at((100, 5)) == 7
    with pytest.raises(WidthError, match="widths of 3,5; give widths that 2 divides"):
        size.at((3, 5))


def test_a_program_at_a_point_has_sizes_in_shapes_and_arguments() -> None:
    at = LINEAR.at((2, 4))
    assert [value.shape for value in at.values] == [(4, 2), (8, 2), (4, 8), (4, 2, 4)]
    assert at.calls[1].parsed[1] == {"shape": [4, 2, 4]}
    assert at.axes == 0
    assert at.at((9, 9)) is at
    assert (at.parameters, at.flops) == (16, 3 * 2 * 4 * 2 * 8)
    assert at.bytes == 4 * (8 + 16 + 32) + 4 * (32 + 32)
    with pytest.raises(TypeError, match="take it at a point first"):
        _ = LINEAR.parameters
    with pytest.raises(WidthError):
        LINEAR.at((2, 5))


def test_any_part_changes_the_digest() -> None:
    at = LINEAR.at((2, 4))
    others = [
        LINEAR,
        LINEAR.at((2, 8)),
        replace(at, outputs=(2,)),
        replace(at, values=(replace(at.values[0], grad=False), *at.values[1:])),
        replace(at, calls=(at.calls[0], replace(at.calls[1], grad=False))),
        replace(at, calls=(at.calls[0], replace(at.calls[1], op="torch.Tensor.reshape"))),
    ]
    assert len({digest(at), *(digest(other) for other in others)}) == 1 + len(others)
    assert digest(replace(at)) == digest(at)
    assert digest(replace(at, values=(replace(at.values[0], high=7), *at.values[1:]))) == digest(at)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: replace(p, calls=p.calls[1:]), "view reads a value that nothing made"),
        (lambda p: replace(p, outputs=(9,)), "gives a value that nothing made"),
        (lambda p: replace(p, calls=p.calls[:1]), "gives a value that nothing made"),
        (lambda p: replace(p, axes=1), "follows a width the program does not have"),
    ],
)
def test_a_program_hangs_together(change: Callable[[Program], Program], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        change(LINEAR)


def test_names_of_calls() -> None:
    names = {
        "torch.Tensor.add_": "add",
        "torch.Tensor.__getitem__": "getitem",
        "torch.Tensor.T.__get__": "T",
        "torch.nn.functional.relu": "relu",
    }
    assert {op: call(op).name for op in names} == names


def test_values_read_are_found_wherever_they_stand() -> None:
    nested = [[{"tuple": [{"value": 4}, {"slice": [None, {"value": 2}, None]}]}, [{"value": 4}]], {"dim": {"value": 7}}]
    assert Call("torch.cat", json.dumps(nested), ()).reads == (4, 2, 7)


def test_sizes_of_values() -> None:
    assert size_of(Value(Source.MADE, "float32", ())) == 1
    assert size_of(Value(Source.MADE, "float32", (3, 0, 2))) == 0
    with pytest.raises(TypeError):
        settled(Affine(1, 0, ()))


class Apply(nn.Module):
    """A function of some weights and the inputs; its result is trained as it is."""

    def __init__(self, function: Callable[..., torch.Tensor], *shapes: tuple[int, ...], frozen: bool = False) -> None:
        super().__init__()
        self.function = function
        self.first = nn.Parameter(torch.zeros(()))  # so that something is trained
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(s), requires_grad=not frozen) for s in shapes)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*(x + self.first for x in inputs), *self.weights).square().sum()


def flops(model: nn.Module, *inputs: torch.Tensor) -> int:
    tape = record(model, inputs)
    return sum(program.flops for program in extract(tape, cut(tape)))


F = functional
PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "linear": (F.linear, [(5, 7)], [(3, 2, 7)]),
    "conv1d": (F.conv1d, [(6, 4, 3)], [(2, 4, 9)]),
    "conv2d": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), [(6, 4, 3, 3)], [(2, 4, 9, 8)]),
    "conv3d": (F.conv3d, [(6, 4, 3, 1, 2)], [(2, 4, 5, 6, 7)]),
    "grouped": (lambda x, w: F.conv2d(x, w, groups=2), [(6, 2, 3, 3)], [(2, 4, 9, 8)]),
    "depthwise": (lambda x, w: F.conv1d(x, w, groups=4), [(8, 1, 3)], [(2, 4, 9)]),
    "conv_transpose1d": (F.conv_transpose1d, [(4, 6, 3)], [(2, 4, 9)]),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [(4, 6, 3, 2)], [(2, 4, 9, 8)]),
    "matmul": (torch.matmul, [(7, 4)], [(2, 3, 7)]),
    "matmul with itself": (lambda x: x @ x, [], [(5, 5)]),
    "matmul broadcast": (torch.matmul, [], [(2, 3, 4, 7), (7, 5)]),
    "mm": (torch.mm, [], [(3, 7), (7, 5)]),
    "bmm": (torch.bmm, [], [(2, 3, 7), (2, 7, 5)]),
    "addmm": (torch.addmm, [], [(5,), (3, 7), (7, 5)]),
    "baddbmm": (torch.baddbmm, [], [(2, 3, 5), (2, 3, 7), (2, 7, 5)]),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), [], [(2, 3, 7), (2, 5, 7)]),
    "attention": (F.scaled_dot_product_attention, [], [(2, 4, 6, 8), (2, 4, 9, 8), (2, 4, 9, 8)]),
    "attention to itself": (lambda x: F.scaled_dot_product_attention(x, x, x), [], [(2, 4, 6, 8)]),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("frozen", [False, True])
def test_flops_of_a_product_are_the_counters(name: str, frozen: bool) -> None:
    function, weights, inputs = PRODUCTS[name]
    model, given = Apply(function, *weights, frozen=frozen), tuple(torch.randn(shape) for shape in inputs)
    assert flops(model, *given) == counted_flops(model, given)


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("frozen", [(), ("other.in_proj_weight",), ("other.out_proj.weight", "own.in_proj_weight")])
def test_flops_of_torchs_attention(batch: tuple[int, ...], frozen: tuple[str, ...]) -> None:
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.other = (nn.MultiheadAttention(16, 4, batch_first=True) for _ in range(2))
            for name in frozen:
                self.get_parameter(name).requires_grad_(False)

        def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
            y = self.own(x, x, x, need_weights=False)[0]
            return self.other(y, seen, seen, need_weights=False)[0].sum()

    model, given = Attends(), (torch.randn(*batch, 6, 16), torch.randn(*batch, 9, 16))
    assert flops(model, *given) == counted_flops(model, given)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_flops_of_recurrent_layers_by_formula(kind: Callable[..., nn.Module], gates: int, bidirectional: bool) -> None:
    class Reads(nn.Module):
        def __init__(self, last: bool) -> None:
            super().__init__()
            self.embed, self.last = nn.Embedding(9, 5), last
            self.layers = kind(5, 7, num_layers=2, batch_first=True, bidirectional=bidirectional)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            every, state = self.layers(self.embed(ids))
            state = state[0] if isinstance(state, tuple) else state
            return state.sum() if self.last else every.sum()

    ids, directions = torch.randint(9, (3, 11)), 1 + bidirectional
    forward = 2 * 3 * 11 * directions * gates * 7 * ((5 + 7) + (directions * 7 + 7))
    for last in (False, True):  # whichever of its results is trained
        assert flops(Reads(last), ids) == 3 * forward


def test_flops_of_a_cell_do_not_count_its_state_as_weights() -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.cell = nn.Linear(5, 5), nn.LSTMCell(5, 7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.first(x)
            h = c = x.new_zeros(len(x), 7)
            for _ in range(3):
                h, c = self.cell(x, (h, c))
            return h.sum()

    linear, cell = 2 * 2 * 6 * 5 * 5, 3 * 2 * 6 * 4 * 7 * (5 + 7)
    assert flops(Steps(), torch.randn(6, 5)) == linear + 3 * cell


def test_frozen_below_means_no_backward() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 2))
    model[0].requires_grad_(False)
    model[1].bias.requires_grad_(False)
    tape = record(model, (torch.randn(4, 8),))
    programs = extract(tape, cut(tape))
    forward = 2 * 4 * 8 * 8
    assert [p.flops for p in programs] == [forward, 2 * forward, 3 * 2 * 4 * 8 * 2]
    assert [p.trains for p in programs] == [False, True, True]
    assert sum(p.flops for p in programs) == counted_flops(model, (torch.randn(4, 8),))


def test_calls_that_prepare_are_no_work() -> None:
    prepared = replace(LINEAR.at((2, 4)).calls[0], once=True)
    program = replace(LINEAR.at((2, 4)), calls=(prepared, LINEAR.at((2, 4)).calls[1]))
    assert (program.flops, program.operations) == (0, ("view",))
    assert program.bytes == 4 * (32 + 32)
