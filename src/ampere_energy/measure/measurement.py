"""A measurement, and the procedure by which one is taken.

    build → warm up until the step time is steady → window → window → … → window
                                                    └ many steps between two meter readings ┘

The value of a measurement is the median over its windows, per training step.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import StrEnum

from ampere_energy.errors import RequestError
from ampere_energy.model.source import ModelRef
from ampere_energy.model.variants import Variant

Workload = Variant | ModelRef


class Provenance(StrEnum):
    """How an energy figure was obtained; every figure carries it."""

    MEASURED = "measured"
    MODELLED = "modelled"
    SIMULATED = "simulated"
    PREDICTED = "predicted"


@dataclass(frozen=True)
class Procedure:
    """How long to warm up and to look.

    Attributes:
        windows: how many windows to take.
        window_s: the least length of one.
        warm_up_s: the longest warm-up.
        deadline_s: when to give the measurement up.
    """

    windows: int
    window_s: float
    warm_up_s: float
    deadline_s: float = 120.0


POINT = Procedure(windows=3, window_s=0.12, warm_up_s=0.4)
REPORT = Procedure(windows=5, window_s=0.4, warm_up_s=1.0)


@dataclass(frozen=True)
class Window:
    """What was read over some training steps: totals, not per step."""

    energy_j: float
    time_s: float
    iterations: int

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.time_s <= 0 or self.energy_j < 0:
            raise ValueError(f"{self.iterations} steps, {self.time_s} s and {self.energy_j} J are no window")


@dataclass(frozen=True)
class DeviceInfo:
    """A device's identity: another card, driver, thread count or framework version is another device."""

    name: str
    details: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(f'{key} {value}' for key, value in self.details)})"


@dataclass(frozen=True)
class MeterInfo:
    """Which meter was read, what it covers, and whether it measures or models."""

    name: str
    provenance: Provenance
    domains: tuple[str, ...]
    details: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return ", ".join((self.name, *(f"{key} {value}" for key, value in self.details)))


@dataclass(frozen=True)
class Measurement:
    """What one workload cost on one device, or why it could not be run.

    Attributes:
        workload: what was trained.
        windows: the readings; empty exactly when `infeasible` gives the reason.
        cost_s: seconds the measurement took, building and warm-up included.
        recorded_at: date and time, for people.
    """

    workload: Workload
    device: DeviceInfo
    meter: MeterInfo
    windows: tuple[Window, ...]
    cost_s: float
    recorded_at: str
    infeasible: str | None = None

    def __post_init__(self) -> None:
        if bool(self.windows) == (self.infeasible is not None):
            raise ValueError("a measurement has windows, or else a reason why not")

    @property
    def energy_j(self) -> float:
        """Joules per training step."""
        return statistics.median(w.energy_j / w.iterations for w in self.windows)

    @property
    def time_s(self) -> float:
        """Seconds per training step."""
        return statistics.median(w.time_s / w.iterations for w in self.windows)

    @property
    def energy_std_j(self) -> float:
        """Standard error of `energy_j`, from the spread of the windows."""
        return _standard_error([w.energy_j / w.iterations for w in self.windows])

    @property
    def time_std_s(self) -> float:
        """Standard error of `time_s`, from the spread of the windows."""
        return _standard_error([w.time_s / w.iterations for w in self.windows])


def median_error(windows: int) -> float:
    """Standard error of the median of normal values, in their standard deviations (good to 3 % for odd counts)."""
    return math.sqrt(math.pi / (2 * windows + 1))


def _standard_error(values: list[float]) -> float:
    return statistics.stdev(values) * median_error(len(values)) if len(values) > 1 else 0.0


def same_setting(a: Measurement, device: DeviceInfo, meter: MeterInfo) -> None:
    """Refuses to mix measurements of different devices or meters."""
    if a.device != device:
        raise RequestError(f"the log was recorded on {a.device}, this is {device}", "profile to another --out")
    if a.meter != meter:
        raise RequestError(f"the log was recorded with {a.meter}, this is {meter}", "profile to another --out")
