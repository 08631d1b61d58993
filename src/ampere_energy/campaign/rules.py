"""What a campaign asks for, when it stops, and where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from ampere_energy.cost_model.per_kind import Quantity
from ampere_energy.errors import RequestError
from ampere_energy.measurement.workloads import Workload

_POINTS = 16
PRECISE, PRECISE_IN_TIME = 0.05, 0.02
"""How narrow intervals are by default when a campaign ends: one that was given a budget may use it."""


class Rule(StrEnum):
    """How the guided campaign chooses after its opening.

    By what teaches most about whole models; the single block of largest variance, as the paper does; single blocks by
    chance; whole networks by chance.
    """

    GUIDED = "guided"
    VARIANCE = "variance"
    RANDOM = "random"
    MEMBERS = "members"


@dataclass(frozen=True)
class Request:
    """A network to train: metered, or only timed; `itself` where it is the very model that is asked about."""

    workload: Workload
    metered: bool = True
    itself: bool = False


@dataclass(frozen=True)
class Rules:
    """When a campaign stops, and what guides it.

    Attributes:
        points: the most metered points of one kind; of the guided method, the most a kind on average. None for 16, or
            of the guided method for as many as a budget has room for.
        least: (paper) points every kind gets before the precision counts; two bounds cannot tell noise from shape.
        precision: stop (paper) a kind when its largest predictive standard deviation is under this share of the
            mean profiled value, (guided) when the mean network's 90 % interval is within this share of its energy.
            None for 5 %, or of the guided method for 2 % where there is a budget: what was given is used.
        guide: (paper) whose predictive variance chooses the next point; time is what the paper uses where live
            energy is not to be had.
        budget_s: seconds of measuring, of the guided method its own thinking included; what every kind needs is
            always measured.
        rule: (guided) how the next measurement is chosen.
        timings: (guided) whether blocks are timed as well as metered.
    """

    points: int | None = None
    least: int = 8
    precision: float | None = None
    guide: Quantity = Quantity.ENERGY
    budget_s: float | None = None
    rule: Rule = Rule.GUIDED
    timings: bool = True

    def __post_init__(self) -> None:
        if self.points is not None and self.points < 2:
            raise RequestError(f"--points {self.points}", "give at least 2, the bounds")
        if self.precision is not None and not 0 < self.precision < 1:
            raise RequestError(f"a precision of {self.precision}", "give a share between 0 and 1")
        if self.budget_s is not None and not 0 < self.budget_s < math.inf:
            raise RequestError(f"--budget {self.budget_s:g}s", "give a positive time")

    @property
    def precise(self) -> float:
        """What is precise enough."""
        if self.precision is not None:
            return self.precision
        return PRECISE if self.budget_s is None else PRECISE_IN_TIME

    @property
    def most(self) -> int:
        """The most metered points of one kind, where nothing else ends a campaign."""
        return _POINTS if self.points is None else self.points


@dataclass(frozen=True)
class Status:
    """Where a campaign stands, for a progress display.

    Attributes:
        doing: what is being learnt now.
        unit: what is counted: kinds, or rounds of measurements.
        index, of: which one it is, of how many; None where that is not known.
        points: points of the kind, or measurements in all.
        uncertainty: what is compared with the precision.
        skipped: networks that are left out in this run, since each attempt to measure them failed, with reasons.
    """

    doing: str
    unit: str
    index: int
    of: int | None
    points: int
    uncertainty: float | None
    measurements: int
    spent_s: float
    remaining_s: float | None
    skipped: tuple[str, ...] = ()
