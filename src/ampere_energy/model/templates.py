"""Which sizes of a recorded piece follow which width, found by recording the same model at other widths.

Every whole number of a program (sizes, arguments) is compared with the same number of the model with one width
changed: a number that follows widths is an offset plus multiples or parts of them. The model with all widths changed
at once, twice as much, must agree, or else the piece is left as it was recorded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from ampere_energy.model.program import Affine, Program, Sampled, Size, Value

MOST_AXES = 4
"""The most widths that one block may follow: more cannot be told apart by a reasonable number of measurements."""


@dataclass(frozen=True)
class Moves:
    """How a model was changed to see what follows which width: each by a step in turn, then all by two steps.

    Attributes:
        widths: the widths that were changed, as the model has them.
        steps: by how much each was.
        places: which of the model's widths they are.
    """

    widths: tuple[int, ...]
    steps: tuple[int, ...]
    places: tuple[int, ...]

    def named(self, variables: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """Axes that follow these widths, once each."""
        return tuple((self.places[variable], 1) for variable in variables)

    def followed(
        self, point: Sequence[int], moved: Sequence[Sequence[int] | None]
    ) -> tuple[tuple[int, int], ...] | None:
        """Which width each of a recipe's axes follows, how many times over; None where one follows none or several."""
        found = []
        for axis, own in enumerate(point):
            factors = [
                (variable, (other[axis] - own) // step)
                for variable, (other, step) in enumerate(zip(moved, self.steps, strict=False))
                if other is not None and other[axis] != own
            ]
            if len(factors) != 1 or own != self.widths[factors[0][0]] * factors[0][1]:
                return None
            found.append((self.places[factors[0][0]], factors[0][1]))
        return tuple(found)


@dataclass(frozen=True)
class Template:
    """A program whose sizes follow widths, and which of those that were changed its axes are."""

    program: Program
    axes: tuple[int, ...]


class _UnlikeError(Exception):
    """Two programs differ in more than whole numbers, or in a way that no width explains."""


def template(program: Program, changed: Sequence[Program], moves: Moves) -> Template | None:
    """The program with the sizes that follow widths; None where that cannot be told, or none does.

    Args:
        program: the piece as recorded.
        changed: the same piece with each width changed by its step in turn, then with all changed by two steps.
        moves: how they were changed.
    """
    axes: dict[int, int] = {}
    try:
        values = tuple(_value(own, rest, moves, axes) for own, *rest in _side_by_side(program, changed, "values"))
        calls = []
        for own, *rest in _side_by_side(program, changed, "calls"):
            if any((o.op, o.gives, o.grad, o.once) != (own.op, own.gives, own.grad, own.once) for o in rest):
                raise _UnlikeError
            arguments = _argument(own.parsed, [o.parsed for o in rest], moves, axes)
            calls.append(replace(own, arguments=json.dumps(arguments, separators=(",", ":"))))
    except _UnlikeError:
        return None
    return Template(Program(values, tuple(calls), program.outputs, len(axes)), tuple(axes)) if axes else None


def _side_by_side(program: Program, others: Sequence[Program], part: str) -> Iterator[tuple[Any, ...]]:
    parts = [getattr(p, part) for p in (program, *others)]
    if len({len(p) for p in parts}) != 1 or len({p.outputs for p in (program, *others)}) != 1:
        raise _UnlikeError
    return zip(*parts, strict=True)


def _value(own: Value, rest: Sequence[Value], moves: Moves, axes: dict[int, int]) -> Value:
    if any(replace(o, shape=own.shape) != own or len(o.shape) != len(own.shape) for o in rest):
        raise _UnlikeError
    shape = tuple(_size(size, [o.shape[place] for o in rest], moves, axes) for place, size in enumerate(own.shape))
    return replace(own, shape=shape)


def _size(own: Size, rest: Sequence[Size], moves: Moves, axes: dict[int, int]) -> Size:
    """A number that follows widths, or stays as it is."""
    if isinstance(own, Sampled):
        return own
    assert isinstance(own, int)
    shifts = [other - own for other in rest if isinstance(other, int)]
    if len(shifts) != len(rest):
        raise _UnlikeError
    *single, together = shifts
    if not any(shifts):
        return own
    factors = []
    for variable, (move, step) in enumerate(zip(single, moves.steps, strict=True)):
        if move:
            factors.append((variable, Fraction(move, step)))
    if 2 * sum(single) != together:
        raise _UnlikeError
    per = math.lcm(*(factor.denominator for _, factor in factors))
    offset = per * own - sum(per * factor * moves.widths[variable] for variable, factor in factors)
    for variable, _ in factors:
        axes.setdefault(variable, len(axes))
    return Affine(per, int(offset), tuple((axes[variable], int(per * factor)) for variable, factor in factors))


def _argument(own: Any, rest: Sequence[Any], moves: Moves, axes: dict[int, int]) -> Any:
    if type(own) is int:
        if not all(type(other) is int for other in rest):
            raise _UnlikeError
        size = _size(own, rest, moves, axes)
        if isinstance(size, Affine):
            return {"size": [size.per, size.offset, *(number for pair in size.factors for number in pair)]}
        return size
    if isinstance(own, (list, tuple)):
        if any(not isinstance(other, (list, tuple)) or len(other) != len(own) for other in rest):
            raise _UnlikeError
        return [_argument(item, [o[i] for o in rest], moves, axes) for i, item in enumerate(own)]
    if isinstance(own, dict):
        if any(not isinstance(other, dict) or other.keys() != own.keys() for other in rest):
            raise _UnlikeError
        return {key: _argument(item, [o[key] for o in rest], moves, axes) for key, item in own.items()}
    if isinstance(own, float) and any(other != own for other in rest):
        return 1.0  # a scale that follows a width: it costs the same whatever it is
    if any(other != own for other in rest):
        raise _UnlikeError
    return own
