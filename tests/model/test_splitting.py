from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from ampere_energy.model.parse import parse
from ampere_energy.model.program import Program, Source, Tape
from ampere_energy.model.record import record
from ampere_energy.model.splitting import LONG, MOST, activations_of, cut, extract, unused
from benchmarks.architectures import MODELS

pytestmark = pytest.mark.usefixtures("one_thread")


class Net(nn.Module):
    """Some equal linear layers, a norm, a table, and whatever a test does with them."""

    def __init__(self, function: Callable[..., Any], layers: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(layers))
        self.norm, self.table = nn.LayerNorm(8), nn.Embedding(9, 8)
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def taped(function: Callable[..., Any], layers: int = 4) -> Tape:
    return record(Net(function, layers), (torch.randn(6, 8),))


def shown(tape: Tape) -> list[list[str]]:
    """The names of each piece's calls."""
    return [[tape.calls[place].name for place in piece] for piece in cut(tape)]


def programs(tape: Tape) -> list[Program]:
    return extract(tape, cut(tape))


def test_a_chain_is_cut_before_each_layer_with_a_matrix() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        a, b, c, d = net.layers
        return d(net.norm(c(torch.tanh(b(functional.gelu(a(x * 2)))))))

    assert shown(taped(forward)) == [
        ["mul", "linear", "gelu"],
        ["linear", "tanh"],
        ["linear", "layer_norm"],
        ["linear", "cross_entropy"],
    ]


def test_a_residual_block_is_one_piece() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        a, b, c, d = net.layers
        x = a(x)
        x = x + c(b(net.norm(x)).relu())
        return d(x.relu())

    assert shown(taped(forward)) == [
        ["linear"],
        ["layer_norm", "linear", "relu", "linear", "add", "relu"],
        ["linear", "cross_entropy"],
    ]


@pytest.mark.parametrize(("layers", "whole"), [(LONG, True), (LONG + 3, False)])
def test_a_long_skip_does_not_hinder_a_cut(layers: int, whole: bool) -> None:
    """What passes over many layers is read from outside by the block that needs it; a short skip makes one block."""

    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = skip = net.layers[0](x)
        for layer in net.layers[1:-1]:
            x = layer(x).relu()
        return net.layers[-1](x + skip)

    tape = taped(forward, layers)
    if whole:
        assert [piece.count("linear") for piece in shown(tape)] == [1, layers - 2, 1]
        return
    assert shown(tape) == [
        ["linear"],
        *[["linear", "relu"]] * (layers - 3),
        ["linear", "relu", "add"],
        ["linear", "cross_entropy"],
    ]
    joined = programs(tape)[-2]
    assert [joined.values[n].shape for n in joined.numbers(Source.INPUT)] == [(6, 8), (6, 8)]
    assert len(programs(tape)[0].outputs) == 1  # read twice, given once


def test_a_piece_of_too_many_matrices_is_cut_before_each() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        first, last = net.layers[0], net.layers[-1]
        x = first(x)
        return last(torch.stack([layer(x).relu() for layer in net.layers[1:-1]]).sum(0))

    assert [piece.count("linear") for piece in shown(taped(forward, MOST + 2))] == [1, MOST, 1]
    assert [piece.count("linear") for piece in shown(taped(forward, MOST + 3))] == [1] * (MOST + 3)


def test_constants_go_with_what_reads_them() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        a, b, c, _ = net.layers
        x = b(a(x))
        slope = torch.arange(8).float() / 8
        return c(x * slope)

    assert shown(taped(forward))[:2] == [["linear"], ["linear", "arange", "float", "div", "mul"]]


def test_a_choice_stays_with_what_it_was_chosen_for() -> None:
    """Which expert a token goes to is decided by numbers: random ones would route all tokens elsewhere."""
    model, inputs = MODELS["mixture_of_experts"]()
    tape = record(model, inputs)
    for piece in cut(tape):
        made = {n for place in piece for n in tape.calls[place].makes}
        read = {n for place in piece for n in tape.calls[place].reads}
        chosen = {n for n in read & activations_of(tape) if not tape.values[n].floating}
        assert chosen <= made


@pytest.mark.parametrize("name", ["resnet18", "unet", "t5", "mixture_of_experts", "detector", "pointer"])
def test_pieces_are_all_of_the_tape_in_order(name: str) -> None:
    tape = record(*MODELS[name]())
    pieces = cut(tape)
    assert (pieces[0].start, pieces[-1].stop) == (0, len(tape.calls))
    assert all(a.stop == b.start for a, b in pairwise(pieces))
    found = programs(tape)
    assert sum(sum(not call.once for call in program.calls) for program in found) == len(tape.calls)
    last = found[-1]
    assert [last.values[n].shape for n in last.outputs] == [()]  # the loss


def test_a_weight_belongs_to_the_first_block_that_uses_it() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        a, b, *_ = net.layers
        return functional.linear(a(b(a(x))), a.weight)

    found = programs(taped(forward))
    sources = [[p.values[n].source for n in p.numbers(Source.WEIGHT, Source.SHARED)] for p in found]
    assert sources == [[Source.WEIGHT] * 2, [Source.WEIGHT] * 2, [Source.SHARED] * 2, [Source.SHARED]]
    assert [p.parameters for p in found] == [72, 72, 0, 0]


@pytest.mark.parametrize(
    "name", ["tied_language_model", "tied_autoencoder", "roberta", "universal_transformer", "gpt2"]
)
def test_parameters_of_tied_models_are_counted_once(name: str) -> None:
    model, inputs = MODELS[name]()
    spec = parse(model, inputs)
    assert sum(block.parameters for block in spec.blocks) == sum(p.numel() for p in model.parameters())
    assert spec.unattributed == ()


def test_positions_are_made_again_where_they_are_needed() -> None:
    """Integers that follow from inputs and constants alone are prepared once; they are no input of the block."""

    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        a, b, c, _ = net.layers
        places = torch.arange(6) + 1
        x = b(a(x))
        return c(x + net.table(places))

    tape = taped(forward)
    reads = next(p for p in programs(tape) if "embedding" in p.operations)
    assert [(call.name, call.once) for call in reads.calls[:3]] == [
        ("arange", True),
        ("add", True),
        ("embedding", False),
    ]
    assert [reads.values[n].dtype for n in reads.numbers(Source.INPUT)] == ["float32"]
    assert "arange" not in reads.operations


def test_integers_that_are_given_stay_inputs() -> None:
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(ids).mean(1))

    tape = record(Reads(), (torch.tensor([[2, 5], [3, 8]]),))
    first = programs(tape)[0]
    [ids] = [first.values[n] for n in first.numbers(Source.INPUT)]
    assert (ids.dtype, ids.shape, ids.low, ids.high) == ("int64", (2, 2), 0, 9)


def test_unused_parameters_are_named() -> None:
    tape = taped(lambda net, x: net.layers[0](x))
    names = [name for name, _ in Net(lambda: None, 2).named_parameters()]
    assert unused(tape, names) == ["layers.1.weight", "layers.1.bias", "norm.weight", "norm.bias", "table.weight"]


def test_what_needs_a_gradient_is_what_is_trained_below() -> None:
    """A frozen backbone passes no gradient on; its last output is an input without one."""
    model, inputs = MODELS["frozen_backbone"]()
    *backbone, head = programs(record(model, inputs))
    assert all(not program.trains for program in backbone)
    assert all(not value.grad for program in backbone for value in program.values)
    assert head.trains
    assert [head.values[n].grad for n in head.numbers(Source.INPUT)] == [False, False]  # features, and the target
