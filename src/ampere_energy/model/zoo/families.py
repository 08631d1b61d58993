"""Families of models: a builder's name, the ranges of its widths, and the input it reads.

The paper samples channels from 1 to the original model's; so do the ranges here. Its appendix with the
architectures is not public: `lenet5` is LeCun's, `cnn5` five layers with batch normalisation in between.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ampere_energy.errors import RequestError, WidthError
from ampere_energy.model.variants import WidthRange

Widths = tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """Models of one structure that differ in their widths.

    Attributes:
        name: what the command line calls it.
        about: one line for people.
        builder: `module:function`; called with the widths and the shape of one sample.
        ranges: for each block but the last, the widths it may give.
        input: shape of the usual input, batch first.
    """

    name: str
    about: str
    builder: str
    ranges: tuple[WidthRange, ...]
    input: tuple[int, ...]

    @property
    def largest(self) -> Widths:
        """The widths of the original model."""
        return tuple(r.high for r in self.ranges)

    def aligned(self, step: int) -> Family:
        """The family restricted to widths that are multiples of `step`."""
        return replace(self, ranges=tuple(r.aligned(step) for r in self.ranges)) if step != 1 else self

    def check(self, widths: Sequence[int]) -> Widths:
        """The widths, if a member has them."""
        if len(widths) != len(self.ranges):
            raise WidthError(
                f"{self.name} has {len(self.ranges)} widths, not {len(widths)}",
                f"give --widths {','.join(map(str, self.largest))} or smaller",
            )
        for position, (width, allowed) in enumerate(zip(widths, self.ranges, strict=True), start=1):
            if width not in allowed:
                raise WidthError(f"width {position} of {self.name} is {width}", f"give {allowed}")
        return tuple(widths)

    def sample(self, count: int, seed: int) -> list[Widths]:
        """Random members, all different, the same for the same seed."""
        generator = random.Random(f"{self.name}:{seed}")
        total = 1
        for allowed in self.ranges:
            total *= len(allowed)
        if count > total:
            raise RequestError(f"{count} members asked of {self.name}, which has {total}", "ask for fewer")
        members: dict[Widths, None] = {}
        while len(members) < count:
            members[tuple(r[generator.randrange(len(r))] for r in self.ranges)] = None
        return list(members)


def _up_to(*highest: int) -> tuple[WidthRange, ...]:
    return tuple(WidthRange(1, high) for high in highest)


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "lenet5",
            "LeNet-5: two 5×5 convolutions with max pooling, three linear layers",
            "ampere_energy.model.zoo.convnets:lenet5",
            _up_to(6, 16, 120, 84),
            (10, 1, 28, 28),
        ),
        Family(
            "cnn5",
            "five layers: four 3×3 convolutions (three with batch norm, three pooled), one linear",
            "ampere_energy.model.zoo.convnets:cnn5",
            _up_to(64, 128, 256, 256),
            (10, 1, 28, 28),
        ),
    )
}


def family(name: str) -> Family:
    """The family of a name."""
    if name not in FAMILIES:
        raise RequestError(
            f"no family is called {name!r}",
            f"choose from {', '.join(FAMILIES)}, or give path/to/file.py:factory or package.module:factory",
        )
    return FAMILIES[name]
