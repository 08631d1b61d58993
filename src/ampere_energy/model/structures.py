"""A factory with whole-number arguments as the models it can build: some arguments change sizes, others the structure.

    structures(ref, [Axis("width", (16, 24, 32)), Axis("depth", (2, 3))])       two structures, each at three widths

Which argument is which is found by building the model with it changed: one that changes numbers of channels and
features alone is a width, which blocks follow; each value of any other gives a structure of its own.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ampere_energy.errors import RequestError
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.source import ModelRef
from ampere_energy.model.variants import followed
from ampere_energy.model.widths import WidthRange

MOST = 64
"""The most structures of one campaign: each is built and read, and has blocks of its own to measure."""


@dataclass(frozen=True)
class Axis:
    """An argument of a factory, or a width of a family, and the values it may take, in ascending order."""

    name: str
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values or list(self.values) != sorted(set(self.values)) or self.values[0] < 1:
            shown = ",".join(map(str, self.values))
            raise RequestError(
                f"--vary {self.name}={shown}", "give whole numbers from 1 up, such as depth=2:6 or kernel=3,5,7"
            )

    @property
    def range(self) -> WidthRange:
        """The smallest even range that has all values."""
        low, high = self.values[0], self.values[-1]
        step = math.gcd(*(value - low for value in self.values[1:])) if high > low else 1
        return WidthRange(low, high, step)

    @property
    def even(self) -> bool:
        """Whether the values are evenly spaced."""
        return len(self.range) == len(self.values)

    def __str__(self) -> str:
        if len(self.values) < 4 or not self.even:
            return f"{self.name}={','.join(map(str, self.values))}"
        low, high, step = self.range.low, self.range.high, self.range.step
        return f"{self.name}={low}:{high}{f':{step}' if step > 1 else ''}"


@dataclass(frozen=True)
class Structure:
    """Models that differ in widths alone: one of them, parsed at its largest, and what each width may be.

    Attributes:
        ranges: none where no block follows a width.
        ref: where the model comes from; None where nothing can build it whole.
    """

    spec: ModelSpec
    ranges: tuple[WidthRange, ...]
    ref: ModelRef | None = None


@dataclass(frozen=True)
class Varied:
    """What a factory builds over some values of its arguments.

    Attributes:
        axes: its arguments; first those that make structures, then those that blocks follow.
        counts: how many make structures.
        specs: the blocks of each structure at its largest widths, by the values that make it.
    """

    axes: tuple[Axis, ...]
    counts: int
    specs: Mapping[tuple[int, ...], ModelSpec]


def structures(ref: ModelRef, axes: Sequence[Axis], read: Callable[[ModelRef], ModelSpec]) -> list[Structure]:
    """Every structure that a factory builds over some values of its arguments.

    Args:
        ref: the factory, without arguments.
        axes: the arguments that vary; others keep the factory's own defaults.
        read: makes the blocks of a model.
    """
    if len({axis.name for axis in axes}) != len(axes):
        raise RequestError(f"--vary {' --vary '.join(map(str, axes))}", "name each argument once")
    names = tuple(axis.name for axis in axes)
    largest = replace(ref, names=names, widths=tuple(axis.values[-1] for axis in axes))
    read = functools.cache(read)
    widths = followed(read(largest))
    while True:
        found = _structures(largest, axes, widths, read)
        shared = widths.intersection(*(followed(one.spec) for one in found))
        if shared == widths:
            return found
        widths = shared  # what some structures do not follow makes structures as well


def varied(ref: ModelRef, axes: Sequence[Axis], read: Callable[[ModelRef], ModelSpec]) -> Varied:
    """Every structure that a factory builds, by the values that make it; as `structures`, which it asks."""
    found = structures(ref, axes, read)
    widths = set.intersection(*(followed(one.spec) for one in found))
    order = sorted(range(len(axes)), key=lambda place: place in widths)
    counts = len(axes) - len(widths)
    specs = {}
    for one in found:
        assert one.ref is not None
        values = one.ref.widths
        specs[tuple(values[place] for place in order[:counts])] = _ordered(one.spec, order)
    return Varied(tuple(axes[place] for place in order), counts, specs)


def _ordered(spec: ModelSpec, order: Sequence[int]) -> ModelSpec:
    """The same blocks, their widths in another order."""
    if not spec.widths:
        return spec
    places = {old: new for new, old in enumerate(order)}
    follows = tuple(tuple((places[old], factor) for old, factor in block) for block in spec.follows)
    return replace(spec, widths=tuple(spec.widths[old] for old in order), follows=follows)


def _structures(
    largest: ModelRef, axes: Sequence[Axis], widths: set[int], read: Callable[[ModelRef], ModelSpec]
) -> list[Structure]:
    """A structure for each choice of the values of all arguments but some widths."""
    others = [(axis.values[-1:] if place in widths else axis.values) for place, axis in enumerate(axes)]
    count = math.prod(map(len, others))
    if count > MOST:
        named = ", ".join(axis.name for place, axis in enumerate(axes) if place not in widths)
        raise RequestError(f"{count} structures of {named}", f"give fewer values, at most {MOST} together")
    found = []
    for values in itertools.product(*others):
        own = replace(largest, widths=values)
        spec = read(own)
        ranges = tuple(
            axis.range if place in widths else WidthRange(value, value)
            for place, (axis, value) in enumerate(zip(axes, values, strict=True))
        )
        found.append(Structure(spec, ranges if spec.widths else (), own))
    return found
