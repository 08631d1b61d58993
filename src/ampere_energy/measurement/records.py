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
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import overload

from ampere_energy.errors import RequestError
from ampere_energy.model.blocks import Block, Point, in_mode
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
        windows: the least number of windows.
        ticks: the least number of the counter's ticks in a window.
        window_s: the least length of a window.
        warm_up_s: the longest warm-up, but at least two looks at step time and power; 0 for none.
        steady: the warm-up ends when step time and power change by less than this share.
        brisk: no look at power while warming up; and, of steps that are short beside the ticks of a counter that ticks
            some times a second, one window, begun with the next tick and worth the whole ticks that are in it.
        target: windows are added until the 95 % confidence interval is within this share of the value …
        budget_s: … or until the windows have taken this long.
        deadline_s: when to give the measurement up.
        iterations: the least number of steps in a window.
    """

    windows: int
    ticks: int
    window_s: float
    warm_up_s: float
    steady: float = 0.005
    brisk: bool = False
    target: float | None = None
    budget_s: float = 0.0
    deadline_s: float = 120.0
    iterations: int = 1


POINT = Procedure(windows=2, ticks=3, window_s=0.18, warm_up_s=0.4, steady=0.02)
"""A campaign's point: cheap, its noise estimated and modelled."""
REPORT = Procedure(windows=3, ticks=10, window_s=0.5, warm_up_s=6.0, target=0.02, budget_s=5.0)
"""A measurement somebody will quote."""


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
_FAILURES = ("the worker died", "no answer within")
"""How older logs say that an attempt failed."""


def attempt_failed(record: Record) -> bool:
    """Whether a record tells only that an attempt failed, and nothing of its workload."""
    return record.failed or (record.infeasible or "").startswith(_FAILURES)


def point_of(meter: MeterInfo) -> Procedure:
    """How a campaign's point is measured: where the meter ticks, windows are long already, and one is enough.

    On an H200 power is what it stays from the first whole tick on that begins 30 ms after the steps do, and powers of
    one network measured again differ by a percent, while its neighbours' differ by ten.
    """
    return replace(POINT, windows=1, ticks=2, warm_up_s=0.8, brisk=True) if meter.tick_s else POINT


def whole_of(meter: MeterInfo) -> Procedure:
    """How a campaign measures the model that it is about: a new process takes seconds, so its windows may be longer."""
    return replace(point_of(meter), ticks=5, warm_up_s=1.0) if meter.tick_s else replace(POINT, window_s=0.3)


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
