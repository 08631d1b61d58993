"""Families of models: a builder's name, the ranges of its widths, and the input it reads.

The paper samples channels from 1 to the original model's; so do the ranges here. Its appendix with the
architectures is not public: `lenet5` is LeCun's, `cnn5` five layers with batch normalisation in between, and the
builders of the others say whose shape they have.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ampere_energy.errors import RequestError, WidthError
from ampere_energy.model.widths import WidthRange

Widths = tuple[int, ...]


@dataclass(frozen=True)
class Family:
    """Models of one structure that differ in their widths.

    Attributes:
        name: what the command line calls it.
        about: one line for people.
        builder: `module:function`; called with the widths and the shape of one sample.
        ranges: the values each width may take.
        input: shape of the usual input, batch first.
        tokens: the size of the vocabulary, where a sample of one dimension is token ids.
        counts: how many of the widths, the first ones, count layers.
    """

    name: str
    about: str
    builder: str
    ranges: tuple[WidthRange, ...]
    input: tuple[int, ...]
    tokens: int = 0
    counts: int = 0

    @property
    def largest(self) -> Widths:
        """The widths of the original model."""
        return tuple(r.high for r in self.ranges)

    def aligned(self, step: int) -> Family:
        """The family restricted to widths that are multiples of `step`."""
        if step == 1:
            return self
        aligned = (r.aligned(math.lcm(step, r.step)) for r in self.ranges[self.counts :])
        return replace(self, ranges=(*self.ranges[: self.counts], *aligned))

    def up_to(self, widths: Sequence[int]) -> list[WidthRange]:
        """The ranges of the networks that are no wider than one, with as many layers."""
        counts = [WidthRange(width, width) for width in widths[: self.counts]]
        varied = zip(self.ranges[self.counts :], widths[self.counts :], strict=True)
        return [*counts, *(allowed.up_to(width) for allowed, width in varied)]

    def check(self, widths: Sequence[int]) -> Widths:
        """The widths, if a network has them."""
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
        """Random networks, all different, the same for the same seed."""
        return random_choices(self.name, [range(r.low, r.high + 1, r.step) for r in self.ranges], count, seed)


def random_choices(name: str, choices: Sequence[Sequence[int]], count: int, seed: int) -> list[Widths]:
    """Random choices, all different, the same for the same name and seed."""
    generator, total = random.Random(f"{name}:{seed}"), math.prod(map(len, choices))
    if count > total:
        raise RequestError(f"{count} networks asked of {name}, which has {total}", "ask for fewer")
    members: dict[Widths, None] = {}
    while len(members) < count:
        members[tuple(values[generator.randrange(len(values))] for values in choices)] = None
    return list(members)


def _up_to(*highest: int) -> tuple[WidthRange, ...]:
    return tuple(WidthRange(1, high) for high in highest)


VOCABULARY = 10_000


def _resnet(layers: int, blocks: str) -> Family:
    return Family(
        f"resnet{layers}",
        f"ResNet-{layers}: a stem and four stages of {blocks}; small stem under 64 pixels",
        f"ampere_energy.model.families.resnets:resnet{layers}",
        _up_to(64, 128, 256, 512),
        (10, 3, 32, 32),
    )


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "lenet5",
            "LeNet-5: two 5×5 convolutions with max pooling, three linear layers",
            "ampere_energy.model.families.convnets:lenet5",
            _up_to(6, 16, 120, 84),
            (10, 1, 28, 28),
        ),
        Family(
            "cnn5",
            "five layers: four 3×3 convolutions (three with batch norm, three pooled), one linear",
            "ampere_energy.model.families.convnets:cnn5",
            _up_to(64, 128, 256, 256),
            (10, 1, 28, 28),
        ),
        Family(
            "har",
            "activity from sensor windows: three pooled 1-D convolutions, two linear layers",
            "ampere_energy.model.families.sequences:har",
            _up_to(64, 128, 256, 128),
            (10, 9, 128),
        ),
        Family(
            "lstm",
            "text classifier: embedding of 10,000 words, two LSTM layers, one linear",
            "ampere_energy.model.families.sequences:lstm",
            _up_to(200, 200, 200),
            (10, 64),
            tokens=VOCABULARY,
        ),
        Family(
            "transformer",
            "text classifier: encoder layers of 8 heads; widths are the number of layers and the hidden size",
            "ampere_energy.model.families.sequences:transformer",
            (WidthRange(1, 6), WidthRange(64, 512, 8)),
            (10, 128),
            tokens=VOCABULARY,
            counts=1,
        ),
        _resnet(18, "basic blocks"),
        _resnet(34, "basic blocks"),
        _resnet(50, "bottlenecks"),
        _resnet(101, "bottlenecks"),
        _resnet(152, "bottlenecks"),
    )
}


def family(name: str) -> Family:
    """The family of a name; `resnet` is short for the smallest."""
    name = "resnet18" if name == "resnet" else name
    if name not in FAMILIES:
        raise RequestError(
            f"no family is called {name!r}",
            f"choose from {', '.join(FAMILIES)}, or give path/to/file.py:factory or package.module:factory",
        )
    return FAMILIES[name]
