"""Which whole numbers an input of a piece may hold, by what reads them: a table's rows, a loss's classes, a dimension.

The example's own numbers do not matter: another call of the same factory has others. Only where nothing tells what is
allowed (lengths of sequences, masks) are random ones drawn from the range that the example had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ampere_energy.model.program import Call, Program, Source, Value, settled

_SAME_NUMBERS = {
    "view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "t", "expand",
    "expand_as",
    "contiguous", "clone", "to", "long", "int", "type", "repeat", "cat", "stack", "split", "chunk", "unbind", "select",
    "narrow", "flip", "roll",
}  # fmt: skip
"""Calls whose results hold the numbers they were given, somewhere else."""
_ALONG = {
    "gather", "index_select", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill",
    "take_along_dim",
}  # fmt: skip
"""Calls of (tensor, dimension, index, …): the index points along the dimension."""
_TABLES = {"embedding", "embedding_bag"}
_LOSSES = {"cross_entropy", "nll_loss"}


def ranged(program: Program) -> Program:
    """The program with the ranges of its integers as their readers have them."""
    roots: dict[int, set[int]] = {
        number: {number}
        for number in program.numbers(Source.INPUT, Source.BUFFER)
        if "int" in program.values[number].dtype
    }
    ends: dict[int, int] = {}
    for call in program.calls:
        for number, end in _allowed(call, program.values):
            for root in roots.get(number, ()):
                ends[root] = min(end, ends.get(root, end))
        if call.name in _SAME_NUMBERS or _cuts(call):
            passed = set[int]().union(*(roots.get(number, ()) for number in call.reads))
            roots |= dict.fromkeys(call.makes, passed)
    values = tuple(
        replace(value, low=0, high=max(1, ends[number])) if number in ends else value
        for number, value in enumerate(program.values)
    )
    return replace(program, values=values)


def _cuts(call: Call) -> bool:
    """Whether it takes a part of a tensor by numbers or slices, not by another tensor."""
    return call.name == "getitem" and len(call.reads) == 1


def _allowed(call: Call, values: Sequence[Value]) -> Iterator[tuple[int, int]]:
    """The values whose numbers a call limits, each with the end of what it allows."""
    positional, named = call.parsed

    def argument(place: int, *names: str) -> Any:
        return positional[place] if place < len(positional) else next((named[n] for n in names if n in named), None)

    def shape(argument: Any) -> tuple[int, ...]:
        number = _value(argument)
        return () if number is None else tuple(map(settled, values[number].shape))

    found: list[tuple[Any, int]] = []
    if call.name in _TABLES:
        table = shape(argument(1, "weight"))
        found = [(argument(0, "input"), table[0])] if table else []
    elif call.name in _LOSSES:
        scores = shape(argument(0, "input"))
        found = [(argument(1, "target"), scores[1] if len(scores) > 1 else scores[0])] if scores else []
    elif call.name in _ALONG:
        sizes, dimension = shape(argument(0, "input", "self")), argument(1, "dim")
        if sizes and type(dimension) is int:
            found = [(argument(2, "index"), sizes[dimension])]
    elif call.name == "one_hot" and type(classes := argument(1, "num_classes")) is int and classes > 0:
        found = [(argument(0, "input", "tensor"), classes)]
    elif call.name in ("getitem", "setitem") and len(positional) > 1:
        index = positional[1].get("tuple") if isinstance(positional[1], dict) else None
        found = list(zip([positional[1]] if index is None else index, shape(positional[0]), strict=False))
    for asked, end in found:
        number = _value(asked)
        if number is not None and "int" in values[number].dtype:
            yield number, end


def _value(argument: Any) -> int | None:
    return argument["value"] if isinstance(argument, dict) and set(argument) == {"value"} else None
