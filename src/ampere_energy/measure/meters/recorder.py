"""The worker's view of energy: mark moments while training, ask afterwards what was spent between them."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Protocol

from ampere_energy.measure.measurement import MeterInfo, Provenance
from ampere_energy.measure.meters import meter_names
from ampere_energy.measure.meters.cputime import CpuTimeMeter, open_meter
from ampere_energy.measure.meters.sampler import SampledMeter
from ampere_energy.measure.meters.trace import EnergyOver

LATE = 0.3
"""Ticks that a tick may be seen late by: a reading takes milliseconds, and now and then much longer."""

Span = tuple[float, float]


class Recorder(Protocol):
    """Marks moments and tells the energy between them."""

    info: MeterInfo

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
        self._read: dict[float, float] = {}

    def mark(self) -> float:
        """The moment now, with the CPU time so far."""
        reading = self._meter.read()
        self._read[reading.at_s] = reading.total_j
        return reading.at_s

    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        """Differences of CPU time."""
        spent_j = [self._read[b] - self._read[a] for a, b in spans]
        return [EnergyOver((joules,), 0.0, cpu_s=joules / self._meter.watts_per_core) for joules in spent_j]

    def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
        """Nothing ticks."""
        return None

    def next_tick(self, after_s: float) -> float:
        """At once."""
        return after_s

    def power_w(self, since_s: float) -> float | None:
        """CPU time since a mark."""
        now = self._meter.read()
        return (now.total_j - self._read[since_s]) / (now.at_s - since_s)

    def close(self) -> None:
        """Nothing to let go of."""


class SampledRecorder:
    """One or more meters, each sampled in a process of its own; their energies are added up."""

    def __init__(self, meters: Sequence[SampledMeter]) -> None:
        self._meters = meters
        infos = [meter.info for meter in meters]
        modelled = any(info.provenance is not Provenance.MEASURED for info in infos)
        self.info = infos[0] if len(infos) == 1 else MeterInfo(
            "+".join(info.name for info in infos),
            Provenance.MODELLED if modelled else Provenance.MEASURED,
            tuple(domain for info in infos for domain in info.domains),
            max(info.tick_s for info in infos),
            tuple(detail for info in infos for detail in info.details),
        )  # fmt: skip

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


def _sum(parts: Sequence[EnergyOver]) -> EnergyOver:
    """What several meters say of one span, added up."""
    integrated = [part.integrated_j for part in parts if part.integrated_j is not None]
    return EnergyOver(
        tuple(joules for part in parts for joules in part.energy_j),
        sum(part.error_j**2 for part in parts) ** 0.5,
        sum(integrated) if len(integrated) == len(parts) else None,
    )


def open_recorder(request: str) -> Recorder:
    """The recorder of a request such as `nvml`, `nvml+rapl` or `cputime:15`."""
    if request.split(":")[0] == "cputime":
        return ProcessRecorder(open_meter(request.partition(":")[2]))
    # A meter's own argument may hold a plus sign: only one before a meter's name separates.
    names = re.split(rf"\+(?=(?:{'|'.join(map(re.escape, meter_names()))})(?:[:+]|$))", request)
    meters: list[SampledMeter] = []
    try:
        for name in names:
            meters.append(SampledMeter(name))
    except BaseException:
        for meter in meters:
            meter.close()
        raise
    return SampledRecorder(meters)
