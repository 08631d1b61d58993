"""A factory with whole-number arguments as the models it can build: some arguments change sizes, others the structure.

    structures(ref, [Axis("width", (16, 24, 32)), Axis("depth", (2, 3))])       two structures, each at three widths

Which argument is which is found by building the model with it changed: one that changes numbers of channels and
features alone is a width, which blocks follow; each value of any other gives a structure of its own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ampere_energy.errors import RequestError
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.source import ModelRef
from ampere_energy.model.variants import WidthRange

MOST = 64
"""The most structures of one campaign: each is built and read, and has blocks of its own to measure."""


@dataclass(frozen=True)
class Axis:
    """An argument of a factory and the values it may take, in ascending order."""

    name: str
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values or list(self.values) != sorted(set(self.values)) or self.values[0] < 1:
            raise RequestError(f"--vary {self}", "give whole numbers from 1 up, such as depth=2:6 or kernel=3,5,7")

    @property
    def range(self) -> WidthRange:
        """The smallest even range that has all values."""
        low, high = self.values[0], self.values[-1]
        step = math.gcd(*(value - low for value in self.values[1:])) if high > low else 1
        return WidthRange(low, high, step)

    def __str__(self) -> str:
        return f"{self.name}={','.join(map(str, self.values))}"


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
    whole = read(largest)
    widths = {place for followed in whole.follows for place, _ in followed}
    others = [(axis.values[-1:] if place in widths else axis.values) for place, axis in enumerate(axes)]
    count = math.prod(map(len, others))
    if count > MOST:
        named = ", ".join(axis.name for place, axis in enumerate(axes) if place not in widths)
        raise RequestError(f"{count} structures of {named}", f"give fewer values, at most {MOST} together")
    found = []
    for values in itertools.product(*others):
        own = replace(largest, widths=values)
        spec = whole if own == largest else read(own)
        ranges = tuple(
            axis.range if place in widths else WidthRange(value, value)
            for place, (axis, value) in enumerate(zip(axes, values, strict=True))
        )
        found.append(Structure(spec, ranges if spec.widths else (), own))
    return found
