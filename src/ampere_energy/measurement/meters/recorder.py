"""The worker's view of energy: mark moments while training, ask afterwards what was spent between them."""

from __future__ import annotations

import bisect
import re
import time
from collections.abc import Sequence
from typing import Protocol

from ampere_energy.errors import RequestError
from ampere_energy.measurement.meters import meter_names
from ampere_energy.measurement.meters.cputime import CpuTimeMeter, open_meter
from ampere_energy.measurement.meters.sampler import SampledMeter
from ampere_energy.measurement.meters.trace import EnergyOver
from ampere_energy.measurement.records import MeterInfo, Provenance

_REMEMBERED = 200_000
LATE = 0.3
"""Ticks that a tick may be seen late by: a reading takes milliseconds, and now and then much longer."""

Span = tuple[float, float]


class Recorder(Protocol):
    """Marks moments and tells the energy between them."""

    info: MeterInfo

    @property
    def counters(self) -> Sequence[Recorder]:
        """The meters that really count, each by itself; none where energy is modelled."""
        ...

    def mark(self) -> float:
        """The moment now; costs next to nothing."""
        ...

    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        """The energy between two marks, for each pair; raises `MeterError` where it is not known."""
        ...

    def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
        """The energy of some seconds at the power of the ticks between two moments; None where these are too few."""
        ...

    def next_tick(self, after_s: float) -> float:
        """The first moment from one on at which the meters will have ticked."""
        ...

    def power_w(self, since_s: float) -> float | None:
        """Mean power since a mark as far as it is known without waiting."""
        ...

    def close(self) -> None:
        """Lets go of the meters."""
        ...


class ProcessRecorder:
    """The modelled meter, read in this process: CPU time is known at every moment."""

    def __init__(self, meter: CpuTimeMeter) -> None:
        self._meter = meter
        self.info = meter.info
        self.counters: Sequence[Recorder] = ()
        self._marks: list[float] = []
        self._joules: list[float] = []

    def mark(self) -> float:
        """The moment now, with the CPU time so far."""
        reading = self._meter.read()
        if len(self._marks) >= _REMEMBERED:
            del self._marks[: _REMEMBERED // 2], self._joules[: _REMEMBERED // 2]
        self._marks.append(reading.at_s)
        self._joules.append(reading.total_j)
        return reading.at_s

    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        """Differences of CPU time."""
        spent_j = [self._at(b) - self._at(a) for a, b in spans]
        return [EnergyOver((joules,), 0.0, cpu_s=joules / self._meter.watts_per_core) for joules in spent_j]

    def _at(self, moment_s: float) -> float:
        """The joules at a moment: those of its mark, or between the marks around it."""
        if len(self._marks) == 1:
            return self._joules[0]
        right = min(max(1, bisect.bisect_left(self._marks, moment_s)), len(self._marks) - 1)
        (before_s, after_s), (before_j, after_j) = (
            self._marks[right - 1 : right + 1],
            self._joules[right - 1 : right + 1],
        )
        if after_s == before_s:
            return after_j
        return before_j + (after_j - before_j) * (moment_s - before_s) / (after_s - before_s)

    def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
        """Nothing ticks."""
        return None

    def next_tick(self, after_s: float) -> float:
        """At once."""
        return after_s

    def power_w(self, since_s: float) -> float | None:
        """CPU time since a mark."""
        now = self._meter.read()
        return (now.total_j - self._at(since_s)) / (now.at_s - since_s)

    def close(self) -> None:
        """Nothing to let go of."""


class SampledRecorder:
    """One or more meters, each sampled in a process of its own; their energies are added up."""

    def __init__(self, meters: Sequence[SampledMeter]) -> None:
        self._meters = meters
        self.info = together([meter.info for meter in meters])

    @property
    def counters(self) -> Sequence[Recorder]:
        """Each meter by itself."""
        return [SampledRecorder([meter]) for meter in self._meters]

    def mark(self) -> float:
        """The moment now."""
        return time.monotonic()

    def power_w(self, since_s: float) -> float | None:
        """What the counters have shown since a moment."""
        powers = [meter.trace(since_s).power_w() for meter in self._meters]
        return sum(p for p in powers if p is not None) if all(p is not None for p in powers) else None

    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        """Energies interpolated between the counters' ticks."""
        traces = [meter.trace_over(spans[0][0], spans[-1][1]) for meter in self._meters]
        return [_sum([trace.over(start_s, end_s) for trace in traces]) for start_s, end_s in spans]

    def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
        """Energies by the whole ticks of each counter, the last of which may be seen a moment later."""
        patience_s = time.monotonic() + LATE * self.info.tick_s
        while True:
            parts = [meter.trace_around(span[0]).steady(*span, ticks, seconds) for meter in self._meters]
            told = [part for part in parts if part is not None]
            if len(told) == len(parts):
                return _sum(told)
            if time.monotonic() > patience_s:
                return None
            time.sleep(0.005)

    def next_tick(self, after_s: float) -> float:
        """When the slowest counter will have ticked."""
        now_s = time.monotonic()
        return max(meter.trace_around(now_s).next_tick(after_s) for meter in self._meters)

    def close(self) -> None:
        """Ends the samplers."""
        for meter in self._meters:
            meter.close()


class MixedRecorder:
    """Meters of the machine, each sampled in a process of its own, and the model of this process's own CPU time."""

    def __init__(self, sampled: SampledRecorder, own: ProcessRecorder) -> None:
        self._sampled, self._own = sampled, own
        self.info = together([sampled.info, own.info])

    @property
    def counters(self) -> Sequence[Recorder]:
        """Each meter of the machine by itself."""
        return self._sampled.counters

    def mark(self) -> float:
        """The moment now, with the CPU time so far."""
        return self._own.mark()

    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        """Both energies; the time is the clock's, as that of the machine's meters."""
        return [_sum(pair) for pair in zip(self._sampled.over(spans), self._own.over(spans), strict=True)]

    def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
        """The energy of some seconds at the power of whole ticks, and of the CPU time meanwhile."""
        found = self._sampled.steady(span, ticks, seconds)
        if found is None:
            return None
        (own,) = self._own.over([span])
        share = seconds / (span[1] - span[0])
        return _sum([found, EnergyOver(tuple(joules * share for joules in own.energy_j), 0.0)])

    def next_tick(self, after_s: float) -> float:
        """When the slowest counter will have ticked."""
        return self._sampled.next_tick(after_s)

    def power_w(self, since_s: float) -> float | None:
        """What the counters have shown since a moment, and the CPU time."""
        counted, own = self._sampled.power_w(since_s), self._own.power_w(since_s)
        return None if counted is None or own is None else counted + own

    def close(self) -> None:
        """Ends the samplers."""
        self._sampled.close()


def together(infos: Sequence[MeterInfo]) -> MeterInfo:
    """Several meters as one, which is modelled where any of them is."""
    if len(infos) == 1:
        return infos[0]
    modelled = any(info.provenance is not Provenance.MEASURED for info in infos)
    return MeterInfo(
        "+".join(info.name for info in infos),
        Provenance.MODELLED if modelled else Provenance.MEASURED,
        tuple(domain for info in infos for domain in info.domains),
        max(info.tick_s for info in infos),
        tuple(detail for info in infos for detail in info.details),
    )


def _sum(parts: Sequence[EnergyOver]) -> EnergyOver:
    """What several meters say of one span, added up."""
    integrated = [part.integrated_j if part.cpu_s is None else part.total_j for part in parts]
    known = [joules for joules in integrated if joules is not None]
    return EnergyOver(
        tuple(joules for part in parts for joules in part.energy_j),
        sum(part.error_j**2 for part in parts) ** 0.5,
        sum(known) if len(known) == len(parts) else None,
    )


def open_recorder(request: str) -> Recorder:
    """The recorder of a request such as `nvml`, `nvml+rapl`, `cputime:15` or `nvml+cputime`.

    A meter of the machine is read in a process of its own. CPU time is this process's, and is read in it.
    """
    # A meter's own argument may hold a plus sign: only one before a meter's name separates.
    names = re.split(rf"\+(?=(?:{'|'.join(map(re.escape, meter_names()))})(?:[:+]|$))", request)
    own = [name for name in names if name.partition(":")[0] == "cputime"]
    if len(own) > 1:
        raise RequestError(f"--meter {request}", "name cputime once")
    modelled = [ProcessRecorder(open_meter(name.partition(":")[2])) for name in own]
    meters: list[SampledMeter] = []
    try:
        for name in names:
            if name not in own:
                meters.append(SampledMeter(name))
    except BaseException:
        for meter in meters:
            meter.close()
        raise
    if not meters:
        return modelled[0]
    sampled = SampledRecorder(meters)
    return MixedRecorder(sampled, modelled[0]) if modelled else sampled
