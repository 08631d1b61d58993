"""A measurement, and the procedure by which one is taken.

    build → warm up until step time and power are steady → window → window → … → window
                                                           └ many steps between two moments ┘

The value of a measurement is the median over its windows, per training step. Energy is gross: all that the metered
domains took. What an idle device would have taken in the same time is stored beside it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ampere_energy.errors import RequestError
from ampere_energy.measurement.workloads import Trained
from ampere_energy.serialization import later


class Provenance(StrEnum):
    """How an energy figure was obtained; every figure carries it."""

    MEASURED = "measured"
    MODELLED = "modelled"
    SIMULATED = "simulated"
    PREDICTED = "predicted"


@dataclass(frozen=True)
class Window:
    """What was read over some training steps: totals, not per step.

    Attributes:
        error_j: standard error of the reading itself, from the counter's ticks.
        domains_j: the joules of each of the meter's domains.
    """

    energy_j: float
    time_s: float
    iterations: int
    error_j: float = 0.0
    domains_j: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.iterations < 1 or self.time_s <= 0 or self.energy_j < 0:
            raise ValueError(f"{self.iterations} steps, {self.time_s} s and {self.energy_j} J are no window")


@dataclass(frozen=True)
class DeviceInfo:
    """A device's identity: another card, driver, thread count or framework version is another device."""

    name: str
    details: tuple[tuple[str, str], ...] = ()

    @property
    def processor(self) -> bool:
        """Whether it is a processor, whose caches serve a block alone better than a whole model."""
        return self.name == "cpu"

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(f'{key} {value}' for key, value in self.details)})"


@dataclass(frozen=True)
class MeterInfo:
    """Which meter was read, what it covers, and whether it measures or models.

    Attributes:
        domains: what it covers, such as gpu, cpu, dram, soc, battery.
        tick_s: seconds between two values of the counter; 0 where it is read as it is.
        details: settings and how the joules were obtained, for people.
    """

    name: str
    provenance: Provenance
    domains: tuple[str, ...]
    tick_s: float = 0.0
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
        idle_w: power of the device with everything loaded and nothing to do.
        failed: whether the attempt failed rather than the workload: what trained it died, was killed or did not answer.
            `infeasible` then says so, and the measurement tells nothing of the workload.
        busy: windows of the same step as a captured graph, where the host issues the step asked for and capture worked:
            the device's own energy and time, without waiting for the host.
        host_s: median time the host takes to issue one step.
        doubts: why the figure is not to be trusted; empty where nothing speaks against it.
        conditions: temperature, clocks, limits and versions, for people.
    """

    workload: Trained
    device: DeviceInfo
    meter: MeterInfo
    windows: tuple[Window, ...]
    cost_s: float
    recorded_at: str
    infeasible: str | None = None
    idle_w: float | None = None
    busy: tuple[Window, ...] = ()
    host_s: float | None = None
    doubts: tuple[str, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    failed: bool = later(False)

    def __post_init__(self) -> None:
        if bool(self.windows) == (self.infeasible is not None) or (self.failed and self.windows):
            raise ValueError("a measurement has windows, or else a reason why not")

    @property
    def energy_j(self) -> float:
        """Joules per training step."""
        return statistics.median(energies(self.windows))

    @property
    def time_s(self) -> float:
        """Seconds per training step."""
        return statistics.median(durations(self.windows))

    @property
    def energy_std_j(self) -> float:
        """Standard error of `energy_j`, from the spread of the windows and the meter's own error."""
        meter = statistics.fmean((w.error_j / w.iterations) ** 2 for w in self.windows) / len(self.windows)
        return math.hypot(_standard_error(energies(self.windows)), math.sqrt(meter))

    @property
    def time_std_s(self) -> float:
        """Standard error of `time_s`, from the spread of the windows."""
        return _standard_error(durations(self.windows))

    @property
    def above_idle_j(self) -> float | None:
        """Joules per training step beyond what the idle device takes in the same time."""
        return None if self.idle_w is None else self.energy_j - self.idle_w * self.time_s


@dataclass(frozen=True)
class Timing:
    """How long one step keeps device and host busy: no meter, tens of milliseconds.

    Attributes:
        device_s: seconds of the device alone, from replays of the captured step (or of steps, on a CPU).
        host_s: median seconds the host takes to issue one step; None on a CPU, which is its own host, and where the
            step asked for is launched whole.
        captured: whether the step was captured; else it takes many times what issuing it does, or could not be
            captured, and `device_s` may include waiting for the host.
        cost_s: seconds the timing took, building included.
        infeasible: why it could not be timed; `device_s` is then None.
        failed: whether that was the attempt's fault (see `Measurement`).
        wall_s: seconds of one step as the host issues it, host and device together; None where `host_s` is.
    """

    workload: Trained
    device: DeviceInfo
    device_s: float | None
    host_s: float | None
    captured: bool
    cost_s: float
    recorded_at: str
    infeasible: str | None = None
    wall_s: float | None = later(None)
    failed: bool = later(False)

    def __post_init__(self) -> None:
        if (self.device_s is None) != (self.infeasible is not None) or (self.failed and self.device_s is not None):
            raise ValueError("a timing has a time, or else a reason why not")
        if self.device_s is not None and self.device_s <= 0:
            raise ValueError(f"{self.device_s} s is no timing")


Record = Measurement | Timing
"""What a log holds."""
LEAST, MOST = 1e-15, 1e15
"""Joules and seconds of a step that some device may take."""


def within_reason(record: Record) -> bool:
    """Whether a step could take what a record says."""
    if isinstance(record, Timing):
        said = [record.device_s, record.host_s, record.wall_s]
    else:
        said = [record.host_s]
        for windows in filter(None, (record.windows, record.busy)):
            said += [statistics.median(energies(windows)), statistics.median(durations(windows))]
    return all(LEAST <= value <= MOST for value in said if value is not None)


_FAILURES = ("the worker died", "no answer within")
"""How older logs say that an attempt failed."""


def attempt_failed(record: Record) -> bool:
    """Whether a record tells only that an attempt failed, and nothing of its workload."""
    return record.failed or (record.infeasible or "").startswith(_FAILURES)


def gathered(doubts: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """What is doubted of some measurements: each sort of doubt once, and of how many.

    Args:
        doubts: those of each measurement. Doubts that differ in figures alone are of a sort; the first stands for them.
    """
    alike: dict[str, list[str]] = {}
    for own in doubts:
        for sort, doubt in {_sort(doubt): doubt for doubt in own}.items():
            alike.setdefault(sort, []).append(doubt)
    count = len(doubts)
    return tuple(f"{len(f)} of {count}{_OF}{f[0]}" if len(f) < count else f[0] for f in alike.values())


def joined(doubts: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Doubts, and others of sorts that are not among them."""
    sorts = set(map(_sort, doubts))
    return (*doubts, *(other for other in others if _sort(other) not in sorts))


def _sort(doubt: str) -> str:
    """A doubt without its figures, and without how many have it."""
    return re.sub(r"[+-]?\d[\d.]*(?:e[+-]?\d+)?", "#", doubt.partition(_OF)[2] or doubt)


_OF = " meterings: "


def energies(windows: Sequence[Window]) -> list[float]:
    """Joules per step of each window."""
    return [w.energy_j / w.iterations for w in windows]


def durations(windows: Sequence[Window]) -> list[float]:
    """Seconds per step of each window."""
    return [w.time_s / w.iterations for w in windows]


def relative_interval(values: Sequence[float]) -> float:
    """Half the 95 % confidence interval of the mean of some windows, as a share of it."""
    if len(values) < 2:
        return math.inf
    reach = _T95[min(len(values) - 1, len(_T95)) - 1]
    return reach * statistics.stdev(values) / math.sqrt(len(values)) / statistics.fmean(values)


_T95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)


def median_error(windows: int) -> float:
    """Standard error of the median of normal values, in their standard deviations (good to 3 %)."""
    return 1 / math.sqrt(windows) if windows <= 2 else math.sqrt(math.pi / (2 * windows + 1))


def pooled_error(errors: Sequence[float], windows: int) -> float:
    """One relative standard error for many measurements: two or three windows say too little about their own spread.

    The median does not mind an outlier; that of a chi-squared of k = windows − 1 degrees is (1 − 2/9k)³ of its mean.
    """
    median_to_mean = (1 - 2 / (9 * max(1, windows - 1))) ** 3
    return math.sqrt(statistics.median(error**2 for error in errors) / median_to_mean)


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) * median_error(len(values)) if len(values) > 1 else 0.0


def same_setting(a: Record, device: DeviceInfo, meter: MeterInfo) -> None:
    """Refuses to mix measurements of different devices or meters."""
    if a.device != device:
        raise RequestError(f"the log was recorded on {a.device}, this is {device}", "profile to another --out")
    if isinstance(a, Measurement) and a.meter != meter:
        raise RequestError(f"the log was recorded with {a.meter}, this is {meter}", "profile to another --out")
