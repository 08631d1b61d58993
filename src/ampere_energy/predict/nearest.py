"""Which of several profiles answers for a model: the one whose estimate of it is least in doubt.

An estimate's doubt knows all that makes a profile near: a block that is known counts for less than one guessed from
kinds like it, that for less than one guessed from others, and a batch farther away for more. One rule so weighs a
known tenth of the model against a batch four times as near, by what recorded models taught of both.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

from ampere_energy.errors import CoverageError
from ampere_energy.fit.nets import NetFit
from ampere_energy.fit.profile import Profile
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.predict.estimate import Origin, estimate

UNEVEN = 0.13
"""How far off a profile of aligned widths is at the widths between, as a standard deviation (decision 037)."""

ALIKE = 1.1
"""Doubts that differ by less than this factor tell nothing of which profile is nearer."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A profile that may answer for a model.

    Attributes:
        name: what it is called.
        there: the model at the profile's batch, where that is another one and was read.
    """

    name: str
    profile: Profile
    there: ModelSpec | None = None


def nearest(spec: ModelSpec, candidates: Iterable[Candidate]) -> Candidate | None:
    """The candidate whose estimate of a model is least in doubt, the first of those alike; None where none has any.

    Args:
        spec: the model.
        candidates: profiles made with its settings, but for the batch; those that are preferred first.
    """
    found: list[tuple[float, Candidate]] = []
    for candidate in candidates:
        with contextlib.suppress(CoverageError):
            found.append((_doubt(spec, candidate), candidate))
    least = min((doubt for doubt, _ in found), default=0.0)
    return next((candidate for doubt, candidate in found if doubt <= ALIKE * least), None)


def covered(block: Block, nets: NetFit) -> bool:
    """Whether the very width was among those profiled: a profile of multiples of 8 does not know the others."""
    place = nets.find(block.kind.id)
    return place is not None and all(w in r for r, w in zip(nets.subjects[place].domain, block.point, strict=True))


def _doubt(spec: ModelSpec, candidate: Candidate) -> float:
    """The standard deviation of the logarithm of the energy, with that of widths between those profiled."""
    found = estimate(spec, candidate.profile, approximate=True, there=candidate.there)
    at, nets = candidate.there or spec, candidate.profile.nets
    known = (own for own, block in zip(at.blocks, found.blocks, strict=False) if block.origin is not Origin.GUESSED)
    between = nets is not None and not all(covered(block, nets) for block in known)
    return math.hypot(found.std_j / found.energy_j, UNEVEN * between)
