"""Which of several profiles answers for a model: the one whose estimate of its blocks is least in doubt.

The doubt of what the device takes knows all that makes a profile near: a block that is known counts for less than one
guessed from kinds like it, that for less than one guessed from others, and a batch farther away for more. One rule so
weighs a known tenth of the model against a batch four times as near, by what recorded models taught of both.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.errors import CoverageError
from ampere_energy.estimation.another_batch import bridged
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Origin
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Training
from ampere_energy.profiles.profile import Profile

UNEVEN = 0.13
"""How far off a profile of aligned widths is at the widths between, as a standard deviation (decision 037)."""

ALIKE = 1.1
"""Doubts that differ by less than this factor tell nothing of which profile is nearer."""

KNOWN = 0.2
"""A profile in less doubt than this knows most of a model: those that could only guess would be in more."""

Read = Callable[[ModelRef], ModelSpec]
"""Makes the blocks of a model."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A profile that may answer for a model.

    Attributes:
        name: what it is called.
        load: reads it.
        there: the model at the profile's batch, where that is another one and was read.
        blind: it can only guess the model's blocks.
    """

    name: str
    load: Callable[[], Profile]
    there: ModelSpec | None = None
    blind: bool = False


def nearest(spec: ModelSpec, candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate whose estimate of a model is least in doubt, the first of those alike; None where none has any.

    Args:
        spec: the model.
        candidates: profiles made with its settings, but for the batch; those that are preferred first.
    """
    found: list[tuple[float, Candidate]] = []
    least = math.inf
    for candidate in candidates:
        if candidate.blind and least < KNOWN:
            continue
        with contextlib.suppress(CoverageError):
            found.append((_doubt(spec, candidate), candidate))
            least = min(least, found[-1][0])
    return next((candidate for doubt, candidate in found if doubt <= ALIKE * least), None)


def read_there(ref: ModelRef, spec: ModelSpec, profile: Training, read: Read) -> ModelSpec | None:
    """A model at a profile's batch; None where that is the same or too far, or the model cannot be read at it.

    Args:
        ref: the model, with its input where that does not come from its factory.
        spec: its blocks at the batch that is asked for.
        profile: the profile's settings.
        read: makes the blocks of a model.
    """
    if not bridged(spec.training, profile) or not (ref.input or ref.inputs):
        return None
    return read(ref.at_batch(profile.batch))


def covered(block: Block, nets: JointFit) -> bool:
    """Whether the very width was among those profiled: a profile of multiples of 8 does not know the others."""
    place = nets.find(block.kind.id)
    return place is not None and all(w in r for r, w in zip(nets.subjects[place].domain, block.point, strict=True))


def _doubt(spec: ModelSpec, candidate: Candidate) -> float:
    """How well a profile knows a model's blocks, with what it does not know of widths between those profiled.

    Not the doubt of the whole step: a profile that takes the device to be quicker than it is would have a step wait
    for the host, be sure of that, and win.
    """
    profile = candidate.load()
    found = estimate(spec, profile, approximate=True, there=candidate.there)
    at, nets = candidate.there or spec, profile.joint
    known = (own for own, block in zip(at.blocks, found.blocks, strict=False) if block.origin is not Origin.GUESSED)
    between = not all(covered(block, nets) for block in known)
    return math.hypot(found.doubt, UNEVEN * between)
