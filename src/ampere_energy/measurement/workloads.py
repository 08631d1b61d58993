"""Workloads: what a device is asked to run, and a whole model as a log keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import overload

from ampere_energy.model.blocks import Block
from ampere_energy.model.kinds import Point, in_mode
from ampere_energy.model.source import ModelRef, fingerprint
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import Variant
from ampere_energy.serialization import incidental, later

Workload = Variant | ModelRef
"""What a device is asked to run. A `ModelRef` names code, so it comes from the command line or the caller."""


@dataclass(frozen=True)
class Whole:
    """A whole model as a log keeps it: what it is made of, not what it is called. No device can be asked to run it.

    Attributes:
        blocks: its blocks in order, by their kinds' ids, with their widths.
        training: how it was trained.
        step: the user's own training step and a digest of its file; empty for the usual one.
        name: where it came from, for people.
    """

    blocks: tuple[tuple[str, Point], ...]
    training: Training
    step: str = later("")
    name: str = incidental("")

    def __post_init__(self) -> None:
        if not self.blocks or any(min(point, default=1) < 1 for _, point in self.blocks):
            raise ValueError("a whole model has blocks of positive widths")

    def __str__(self) -> str:
        return self.name


Trained = Whole | Variant | ModelRef
"""What a record is of: what was trained. Older logs name a whole model by its `ModelRef`, which nothing then runs."""


def content(ref: ModelRef, blocks: Sequence[Block]) -> Whole:
    """A model that was parsed, as a log keeps it."""
    training = replace(blocks[0].kind.training, mode=ref.training.mode)
    own = tuple((block.kind.id, block.point) for block in blocks)
    return Whole(own, training, fingerprint(ref.step), str(ref))


@overload
def run_as(workload: Workload, mode: Mode) -> Workload: ...
@overload
def run_as(workload: Trained, mode: Mode) -> Trained: ...
def run_as(workload: Trained, mode: Mode) -> Trained:
    """The same network, its steps run otherwise."""
    if isinstance(workload, Variant):
        return replace(workload, blocks=tuple(replace(b, kind=in_mode(b.kind, mode)) for b in workload.blocks))
    return replace(workload, training=replace(workload.training, mode=mode))


Manner = tuple[bool, bool, bool, Mode]


def manner(workload: Trained, metered: bool) -> Manner:
    """How a network is measured: metered or timed, by its blocks or by its own code, side by side or not, the mode."""
    blocks = isinstance(workload, Variant)
    return metered, blocks, isinstance(workload, Variant) and workload.apart, workload.training.mode
