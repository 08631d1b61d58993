"""A recorded forward pass cut into blocks.

A cut is good where a single activation passes it: between two layers of a chain, between residual blocks, where the
residual stream of a Transformer is whole again. What passes over many layers (the skip of a U-Net, an encoder's output
that every decoder layer reads) does not hinder a cut: the blocks that need it read it from outside. A piece with no
matrix work of its own joins the one before it, and a piece with too much is cut before each matrix.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ampere_energy.model.program import MATRIX, Call, Given, Program, Source, Tape, Value
from ampere_energy.model.ranges import ranged

LONG = 8
"""A value that passes over more matrices than this is a long skip."""
MOST = 8
"""The most matrices of one block."""

Piece = range
"""The places of a block's calls on the tape."""


def cut(tape: Tape) -> list[Piece]:
    """The tape's pieces, in order; together they are all of it."""
    openers = [_opens(call, tape.values) for call in tape.calls]
    activations = activations_of(tape)
    chosen = _choices(tape, activations)
    pieces: list[Piece] = []
    waiting: int | None = None
    cuts = [place for place in _cuts(tape, openers, activations) if place not in chosen]
    for found in _between(cuts, len(tape.calls)):
        if all(activations.isdisjoint(tape.calls[place].makes) for place in found) and found.stop < len(tape.calls):
            waiting = found.start if waiting is None else waiting  # constants go with what reads them
            continue
        piece, waiting = range(found.start if waiting is None else waiting, found.stop), None
        count = sum(openers[piece.start : piece.stop])
        if pieces and (not count or not any(openers[: piece.start])):
            pieces[-1] = range(pieces[-1].start, piece.stop)
        elif count > MOST:
            before = [place - 1 for place in piece if openers[place]][1:]
            pieces += _between([place for place in before if place not in chosen], piece.stop, piece.start)
        else:
            pieces.append(piece)
    return pieces


def finer(tape: Tape, pieces: Sequence[Piece], places: Collection[int]) -> list[Piece]:
    """The pieces, some of them cut before each matrix."""
    chosen = _choices(tape, activations_of(tape))
    found: list[Piece] = []
    for place, piece in enumerate(pieces):
        before = [step - 1 for step in piece if _opens(tape.calls[step], tape.values)][1:] if place in places else []
        found += _between([step for step in before if step not in chosen], piece.stop, piece.start)
    return found


def _between(cuts: Sequence[int], stop: int, start: int = 0) -> list[Piece]:
    ends = [*(place + 1 for place in cuts), stop]
    return [range(a, b) for a, b in zip([start, *ends], ends, strict=False) if b > a]


def _opens(call: Call, values: Sequence[Value]) -> bool:
    """Whether a call multiplies by a weight."""
    weighs = any(values[n].source is Source.WEIGHT and len(values[n].shape) > 1 for n in call.reads)
    return call.name in MATRIX and weighs


def activations_of(tape: Tape) -> set[int]:
    """The values that depend on a weight or on real-valued inputs: activations, not positions or masks."""
    found = {
        number
        for number, value in enumerate(tape.values)
        if value.source is Source.WEIGHT or (value.source is Source.INPUT and value.floating)
    }
    for call in tape.calls:
        if not found.isdisjoint(call.reads):
            found.update(call.makes)
    return found


def _choices(tape: Tape, activations: set[int]) -> set[int]:
    """Places that a choice among numbers passes: which token an expert gets stays with what it was chosen for."""
    last = _last_reads(tape)
    found: set[int] = set()
    for place, call in enumerate(tape.calls):
        for number in call.makes:
            if number in activations and not tape.values[number].floating:
                found.update(range(place, last.get(number, place)))
    return found


def _cuts(tape: Tape, openers: Sequence[bool], activations: set[int]) -> list[int]:
    """Places after which at most one activation is still needed, long skips aside."""
    last = _last_reads(tape)
    before = [0]
    for opener in openers:
        before.append(before[-1] + opener)
    open_values: set[int] = set()
    found = []
    for place, call in enumerate(tape.calls[:-1]):
        for number in call.makes:
            end = last.get(number, place)
            short = before[min(end, len(openers))] - before[place + 1] <= LONG
            if number in activations and tape.values[number].floating and end > place and short:
                open_values.add(number)
        open_values = {number for number in open_values if last[number] > place}
        if len(open_values) <= 1:
            found.append(place)
    return found


def extract(tape: Tape, pieces: Sequence[Piece]) -> list[Program]:
    """Each piece as a program of its own; a weight that several use belongs to the first."""
    programs, owned = [], set[int]()
    last, constants = _last_reads(tape), _constants(tape)
    for piece in pieces:
        programs.append(_program(tape, piece, last, constants, owned))
        owned.update(n for place in piece for n in tape.calls[place].reads if tape.values[n].source is Source.WEIGHT)
    return programs


def entire(tape: Tape) -> Program:
    """All of the tape as one program, which can be cut again (`tape_of`)."""
    [program] = extract(tape, [range(len(tape.calls))])
    return program


def tape_of(program: Program) -> Tape:
    """The tape of a model that was recorded as one program: what it was extracted from, but for names."""
    return Tape(program.values, program.calls, program.outputs[0], {}, ("",) * len(program.calls))


def _constants(tape: Tape) -> dict[int, int]:
    """The values that no activation leads to, each with the place of the call that makes it."""
    activations = activations_of(tape)
    return {n: place for place, call in enumerate(tape.calls) for n in call.makes if n not in activations}


def _last_reads(tape: Tape) -> dict[int, int]:
    """The last place that reads each value; the loss is read by nobody, and needed after all."""
    last = {tape.loss: len(tape.calls)}
    for place, call in enumerate(tape.calls):
        last |= {number: max(place, last.get(number, 0)) for number in call.reads}
    return last


def _program(tape: Tape, piece: Piece, last: dict[int, int], constants: dict[int, int], owned: set[int]) -> Program:
    calls = [tape.calls[place] for place in piece]
    inside = {number for call in calls for number in call.makes}
    calls = [*_preparation(tape, piece, inside, constants), *calls]
    outputs = [n for call in calls if not call.once for n in call.makes if last.get(n, -1) >= piece.stop]
    entire = len(piece) == len(tape.calls)
    numbers: dict[int, int] = {}
    values: list[Value] = []

    def renumber(number: int, made: bool = False) -> int:
        if number not in numbers:
            value = tape.values[number]
            if value.source is Source.MADE:
                value = (value if entire else replace(value, order=())) if made else replace(value, source=Source.INPUT)
            elif value.source is Source.WEIGHT and number in owned:
                value = replace(value, source=Source.SHARED)
            numbers[number] = len(values)
            values.append(value)
        return numbers[number]

    told = []
    for call in calls:
        arguments = json.dumps(_renumbered(call.parsed, renumber), separators=(",", ":"))
        gives = tuple(Given(given.path, renumber(given.value, made=True)) for given in call.gives)
        told.append(replace(call, arguments=arguments, gives=gives))
    return ranged(Program(tuple(values), tuple(told), tuple(dict.fromkeys(numbers[n] for n in outputs))))


def _renumbered(argument: Any, renumber: Any) -> Any:
    if isinstance(argument, dict):
        if set(argument) == {"value"}:
            return {"value": renumber(argument["value"])}
        return {key: _renumbered(item, renumber) for key, item in argument.items()}
    return [_renumbered(item, renumber) for item in argument] if isinstance(argument, (list, tuple)) else argument


def _preparation(tape: Tape, piece: Piece, inside: set[int], constants: dict[int, int]) -> list[Call]:
    """The calls that make the integers a piece reads from outside, where they follow from inputs and constants alone.

    Random integers would point outside tables or mask everything; these are made once, when the block is built.
    """
    wanted = [n for place in piece for n in tape.calls[place].reads if n not in inside and not tape.values[n].floating]
    needed: set[int] = set()
    while wanted:
        number = wanted.pop()
        place = constants.get(number)
        if place is None or place in needed:
            continue
        needed.add(place)
        wanted += tape.calls[place].reads
    return [replace(tape.calls[place], once=True) for place in sorted(needed)]


def unused(tape: Tape, names: Iterable[str]) -> list[str]:
    """The parameters that no call reads."""
    read = {tape.names[n] for call in tape.calls for n in call.reads if n in tape.names}
    return [name for name in names if name not in read]
