"""What a profile keeps of its kinds so that others can be compared with them: their traits at some widths.

Traits are what any block has, whatever its kind: how much it issues, computes, moves and updates. What the blocks
cost is not kept twice: the fit tells, as it stands after every later measurement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.model.kinds import AnyKind, Fragment, Kind, Point
from ampere_energy.model.layers import NORMALISATIONS
from ampere_energy.model.program import Source, size_of

PER_KIND = 8
_CALLS_A_TENSOR = 3  # its gradient is added up, read by the optimizer, and cleared


@dataclass(frozen=True)
class Traits:
    """What one training step of a block does.

    Attributes:
        op: the operation that does most of its work.
        calls: operations issued: forward, backward and update.
        flops: matrix work.
        bytes: read and written, as if nothing stayed in caches.
        parameters: numbers that are updated.
    """

    op: str
    calls: float
    flops: float
    bytes: float
    parameters: float

    def __post_init__(self) -> None:
        amounts = (self.flops, self.bytes, self.parameters)
        if not (1 <= self.calls <= 1e12 and min(amounts) >= 0 and max(amounts) <= 1e24):
            raise ValueError(f"what a block of {self.op} does is out of reason")


@dataclass(frozen=True)
class Reference:
    """A block that a profile knows: its subject, by its place, its widths and its traits."""

    subject: int
    point: Point
    traits: Traits


def traits_of(kind: AnyKind, point: Point) -> Traits:
    """The traits of a block."""
    op, operations, passes, tensors, updated = (
        _recorded(kind, point) if isinstance(kind, Fragment) else _recipe(kind, point)
    )
    times = passes * kind.training.accumulate
    calls = max(1, operations * times + _CALLS_A_TENSOR * tensors)
    return Traits(op, float(calls), float(kind.flops(point)), float(kind.bytes(point) * times), float(updated))


def _recipe(kind: Kind, point: Point) -> tuple[str, int, int, int, int]:
    """Operation, calls forward, passes, trained tensors and their numbers."""
    norms = [step for step in kind.layers if step.op in NORMALISATIONS]
    tensors = 1 + bool(kind.main["bias"]) + 2 * sum(bool(step["affine"]) for step in norms)
    name, passes = _operation(kind.main.op, kind), 3 if kind.input_grad else 2
    return name, len(kind.layers), passes, tensors, kind.parameters(point)


def _operation(name: str, kind: AnyKind) -> str:
    """An operation in double or in half precision is another one."""
    return " ".join((name, *kind.dtypes))


def _recorded(kind: Fragment, point: Point) -> tuple[str, int, int, int, int]:
    program = kind.program.at(point)
    trained = [value for value in program.values if value.source is Source.WEIGHT and value.grad]
    below = any(value.grad for value in program.values if value.source is Source.INPUT)
    passes = 1 + program.trains * (1 + below)
    return _operation(kind.main, kind), len(program.operations), passes, len(trained), sum(map(size_of, trained))


def collect(kinds: Sequence[AnyKind], fit: JointFit) -> tuple[Reference, ...]:
    """The blocks that were measured by themselves, some of each kind from its smallest to its largest.

    Args:
        kinds: the fit's subjects, in their order.
        fit: what a campaign learnt.
    """
    found = []
    for index, kind in enumerate(kinds):
        points = dict.fromkeys(o.blocks[0][1] for o in fit.observations if [k for k, _ in o.blocks] == [index])
        known = [Reference(index, point, traits_of(kind, point)) for point in points]
        known.sort(key=lambda reference: (reference.traits.flops, reference.traits.bytes, reference.point))
        found += spread_out(known, PER_KIND)
    return tuple(found)


def spread_out(ordered: Sequence[Reference], most: int) -> list[Reference]:
    """At most so many of them, both ends included, evenly by their places."""
    if len(ordered) <= most:
        return list(ordered)
    if most == 1:
        return [ordered[len(ordered) // 2]]
    return [ordered[round(i * (len(ordered) - 1) / (most - 1))] for i in range(most)]
