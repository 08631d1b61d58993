"""Variants: the small networks that are really trained, and which of them teach about which kind.

    output kinds   alone                          [output]
    input kinds    read out by an output          [input, reader]            minus the reader     (eq. 1)
    hidden kinds   fed and read out               [feeder, hidden, reader]   minus both           (eq. 2)

A model's own input and output serve as feeder and reader wherever their signal fits. Where it does not (a
hidden kind deep inside sees fewer positions than the input gives), an auxiliary cheap stem or pooled head of
the right size takes the place; auxiliary kinds are profiled and subtracted like any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ampere_energy.errors import RequestError, WidthError
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import USUAL, AnyKind, Fragment, Kind, Point, Role
from ampere_energy.model.layers import Layer, Signal, layer
from ampere_energy.model.training import Training
from ampere_energy.model.widths import Domain, WidthRange
from ampere_energy.serialization import later

HEAD_CLASSES = 10
STEM_CHANNELS = 1


class Phase(StrEnum):
    """What of a training step is run: all of it, or one part over and over, as operator profilers do."""

    STEP = "step"
    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


@dataclass(frozen=True)
class Variant:
    """A trainable network of one or more blocks, as plain data any device can be asked to run.

    Attributes:
        apart: the blocks do not feed each other: each reads and is trained on its own, all in one step.
        phase: what of the step is run.
    """

    blocks: tuple[Block, ...]
    apart: bool = later(False)
    phase: Phase = later(Phase.STEP)

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ValueError("a variant has at least one block")
        if len({block.kind.training for block in self.blocks}) != 1:
            raise ValueError("the blocks of a variant are trained alike")
        if self.apart or len(self.blocks) == 1:
            return
        if any(isinstance(block.kind, Fragment) for block in self.blocks):
            raise ValueError("recorded pieces of a model do not feed each other")
        for before, after in itertools.pairwise(self.blocks):
            if before.gives != after.reads:
                raise ValueError(f"{before.name} gives {before.gives}, but {after.name} reads {after.reads}")

    @property
    def training(self) -> Training:
        """How it is trained."""
        return self.blocks[0].kind.training

    def __str__(self) -> str:
        blocks = (" | " if self.apart else " → ").join(f"{block.kind.id}{list(block.point)}" for block in self.blocks)
        return blocks if self.phase is Phase.STEP else f"{self.phase} of {blocks}"


@dataclass(frozen=True)
class Lesson:
    """How one kind is learnt: over which widths, and between which companions."""

    kind: Kind
    domain: Domain
    feeder: Kind | None = None
    reader: Kind | None = None

    def variant(self, point: Point) -> Variant:
        """The network that teaches about the kind at a point."""
        blocks = [Block("subject", self.kind, point)]
        if self.feeder is not None:
            blocks.insert(0, Block("feeder", self.feeder, (self.kind.width_in(point),)))
        if self.reader is not None:
            blocks.append(Block("reader", self.reader, (blocks[-1].gives[0],)))
        return Variant(tuple(blocks))


def stem(signal: Signal, training: Training, dtype: str = USUAL) -> Kind:
    """The auxiliary input that produces a signal cheaply: a 1×1 convolution, or one feature's linear map."""
    return Kind(Role.INPUT, (_pointwise(signal),), signal.spatial, STEM_CHANNELS, False, training, dtype)


def head(signal: Signal, training: Training, dtype: str = USUAL) -> Kind:
    """The auxiliary output that reads a signal cheaply: global pooling and a linear map to ten classes."""
    pool: tuple[Layer, ...] = ()
    if signal.spatial:
        d = len(signal.spatial)
        pool = (layer(f"adaptive_avg_pool{d}d", size=(1,) * d), layer("flatten"))
    layers = (*pool, layer("linear", bias=True), layer("cross_entropy"))
    return Kind(Role.OUTPUT, layers, signal.spatial, HEAD_CLASSES, True, training, dtype)


def _pointwise(signal: Signal) -> Layer:
    if not signal.spatial:
        return layer("linear", bias=True)
    ones, zeros = (1,) * len(signal.spatial), (0,) * len(signal.spatial)
    return layer(f"conv{len(signal.spatial)}d", kernel=ones, stride=ones, padding=zeros, dilation=ones, bias=True)


def lessons(spec: ModelSpec, ranges: Sequence[WidthRange] | None = None) -> tuple[Lesson, ...]:
    """What must be profiled to estimate every network of a model's family, in the order of the equations.

    Args:
        spec: the parsed model, at its largest widths.
        ranges: the values each of the model's widths may take; by default, as in the paper, from 1 to its own.
    """
    domains: dict[Kind, Domain] = {}
    for whose, covered in block_domains(spec, ranges).items():
        if isinstance(whose, Fragment):
            raise RequestError(
                f"the paper's method has no small networks for {whose.label}", "profile with --method ampere"
            )
        domains[whose] = covered
    inputs = {k: d for k, d in domains.items() if k.role is Role.INPUT}
    outputs = {k: d for k, d in domains.items() if k.role is Role.OUTPUT}
    hidden = []
    for kind, domain in ((k, d) for k, d in domains.items() if k.role is Role.HIDDEN):
        feeder, reader = _feeder(kind, inputs), _reader(kind, outputs)
        _widen(inputs, feeder, domain[0])
        _widen(outputs, reader, domain[1].scaled(kind.result.per_width))
        hidden.append(Lesson(kind, domain, feeder, reader))
    openings = []
    for kind, domain in inputs.items():
        reader = _reader(kind, outputs)
        _widen(outputs, reader, domain[0].scaled(kind.result.per_width))
        openings.append(Lesson(kind, domain, reader=reader))
    closings = [Lesson(kind, domain) for kind, domain in outputs.items()]
    return (*closings, *openings, *hidden)


def _feeder(kind: Kind, inputs: Iterable[Kind]) -> Kind:
    """An input of the model that gives what the kind reads, or else an auxiliary stem."""
    fits = (k for k in inputs if k.result == kind.source and k.dtype == kind.dtype)
    return next(fits, None) or stem(kind.source, kind.training, kind.dtype)


def _reader(kind: Kind, outputs: Iterable[Kind]) -> Kind:
    """An output of the model that reads what the kind gives, or else an auxiliary head."""
    fits = (k for k in outputs if k.spatial == kind.result.spatial and k.input_grad and k.dtype == kind.dtype)
    return next(fits, None) or head(Signal(kind.result.spatial), kind.training, kind.dtype)


def _widen(domains: dict[Kind, Domain], kind: Kind, used: WidthRange) -> None:
    domains[kind] = (domains[kind][0].hull(used),) if kind in domains else (used,)


def block_domains(spec: ModelSpec, ranges: Sequence[WidthRange] | None = None) -> dict[AnyKind, Domain]:
    """The widths each kind of a model takes, when the model's take those of the ranges (by default 1 to their own).

    A model whose widths cannot be varied has only its own.
    """
    ranges = spec_ranges(spec) if ranges is None else ranges
    if len(ranges) != len(spec.widths):
        raise WidthError(f"{len(ranges)} width ranges for {len(spec.widths)} widths", "give one for each")
    domains: dict[AnyKind, Domain] = {}
    for index, block in enumerate(spec.blocks):
        domain = (
            tuple(ranges[variable].scaled(factor) for variable, factor in spec.follows[index])
            if spec.widths
            else tuple(WidthRange(width, width) for width in block.point)
        )
        seen = domains.get(block.kind, domain)
        domains[block.kind] = tuple(a.hull(b) for a, b in zip(seen, domain, strict=True))
    return domains


def spec_ranges(spec: ModelSpec) -> list[WidthRange]:
    """As in the paper, widths from 1 to the model's own."""
    return [WidthRange(1, width) for width in spec.widths]


def block_points(spec: ModelSpec, widths: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Each block's point in a network of the model's family.

    Widths may be numbers or arrays of numbers, one for each of many networks.
    """
    if len(widths) != len(spec.widths):
        raise WidthError(f"{len(widths)} widths for a model of {len(spec.widths)}", "give one for each")
    if not spec.widths:
        return [block.point for block in spec.blocks]
    return [tuple(widths[variable] * factor for variable, factor in followed) for followed in spec.follows]


def followed(spec: ModelSpec) -> set[int]:
    """Which of a model's widths its blocks follow; a number of layers, for one, is followed by none."""
    return {variable for block in spec.follows for variable, _ in block}


def alone(kind: AnyKind, point: Point) -> Variant:
    """A block trained by itself: whatever follows it hands a random gradient back."""
    return Variant((Block("subject", kind, point),))


def resized(spec: ModelSpec, widths: Sequence[int]) -> ModelSpec:
    """The model at other widths."""
    points = block_points(spec, widths)
    blocks = tuple(replace(block, point=point) for block, point in zip(spec.blocks, points, strict=True))
    return replace(spec, blocks=blocks, widths=tuple(widths))


def whole_network(spec: ModelSpec, widths: Sequence[int]) -> Variant:
    """A whole network of the family of a chain."""
    return Variant(resized(spec, widths).blocks)
