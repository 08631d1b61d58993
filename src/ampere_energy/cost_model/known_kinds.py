"""What a cost model says of each kind it knows, whichever method fitted it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.model.kinds import Point
from ampere_energy.model.widths import Domain

LEVEL = 0.9
REACH = NormalDist().inv_cdf(0.5 + LEVEL / 2)
"""Half an interval of that probability, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Band:
    """Joules of a training step at n points, and the intervals of `LEVEL` about them: (n,) each."""

    energy_j: Array
    low_j: Array
    high_j: Array


@dataclass(frozen=True)
class KnownKind:
    """One kind of a profile.

    Attributes:
        axes: names of its widths.
        metered: where its energy was measured, and what it was: joules of a step.
        timed: how often it was timed without a meter.
        at: its energy at points (n, widths).
    """

    id: str
    label: str
    axes: tuple[str, ...]
    domain: Domain
    metered: tuple[tuple[Point, float], ...]
    timed: int
    at: Callable[[Array], Band]

    @property
    def largest(self) -> Point:
        """Its largest widths."""
        return tuple(allowed.high for allowed in self.domain)

    def reach(self, points: int = 9) -> float:
        """Half its interval as a share of its energy: the median over points from its smallest to its largest."""
        shares = np.linspace(0, 1, points if self.domain else 1)
        band = self.at(np.array([[r[round(s * (len(r) - 1))] for r in self.domain] for s in shares], dtype=float))
        return float(np.median((band.high_j - band.low_j) / 2 / np.maximum(np.abs(band.energy_j), 1e-30)))


class CostModel(Protocol):
    """The joint fit (`joint`) or the paper's (`per_kind`)."""

    def known_kinds(self) -> tuple[KnownKind, ...]:
        """What is known, kind by kind."""
