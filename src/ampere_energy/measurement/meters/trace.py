"""From a counter's ticks to the energy of a window, with an honest error.

A counter that ticks every 100 ms shows the energy up to its last tick, whenever it is read. A sampler that reads it
more often sees each tick happen between two readings:

    counter   ──────────┐E₁ ─────────────────┐E₂ ────────────────────┐E₃
    readings  ·    ·    ·    ·    ·    ·    ·    ·    ·    ·    ·    ·    ·
                   └─┬──┘ tick 1            └─┬──┘ tick 2
    window                 |start … … … … … … … … … … … … … … … … end|

The energy at any moment is interpolated between the ticks around it. Its error has two parts: when exactly the ticks
happened (between two readings), and how the power moved inside the tick (seen from how it moves between ticks). A
counter ticks regularly, so its neighbours tell when a tick happened better than the two readings around it do.

Of steps that run on at one power nothing needs to be interpolated: what whole ticks show of them is all of them.
"""

from __future__ import annotations

import bisect
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters import Reading

LEAST_TICKS = 3
_Z95 = 1.96
NEIGHBOURS = 10
_IRREGULAR = 0.02  # of a tick, by which it may be early or late
_CLOSELY = 10  # readings a tick
_UNIFORM_OF_IQR = 1.6
"""Half the width of a uniform distribution that scatters as a median does, × √n, in distances of the quartiles."""


@dataclass(frozen=True)
class Fault:
    """A reading that failed, and why."""

    at_s: float
    cause: str


@dataclass(frozen=True)
class EnergyOver:
    """Energy of a span of time: one figure a domain, the standard error of their sum, and a second opinion.

    `integrated_j` is the energy that power readings of the same span add up to, where the meter has them; `cpu_s` the
    seconds that this process's threads computed, where that is what the meter counts.
    """

    energy_j: tuple[float, ...]
    error_j: float
    integrated_j: float | None = None
    cpu_s: float | None = None

    @property
    def total_j(self) -> float:
        """Joules over all domains."""
        return sum(self.energy_j)

    @property
    def interval_j(self) -> tuple[float, float]:
        """Where the true energy lies with a probability of 95 %."""
        return self.total_j - _Z95 * self.error_j, self.total_j + _Z95 * self.error_j


@dataclass(frozen=True)
class _Tick:
    """A moment at which a counter's value is known: the energy, and when, give or take half a reading."""

    at_s: float
    give_s: float
    energy_j: float


@dataclass(frozen=True)
class Trace:
    """Readings of one meter in order of time, and the readings that failed."""

    readings: tuple[Reading, ...]
    faults: tuple[Fault, ...]
    tick_s: float

    def over(self, start_s: float, end_s: float, least_ticks: int = LEAST_TICKS) -> EnergyOver:
        """The energy between two monotonic moments.

        Raises:
            MeterError: the span is too short for the counter's tick, a reading in it failed, or the trace does
                not reach over it.
        """
        if end_s - start_s < least_ticks * self.tick_s or end_s <= start_s:
            raise MeterError(
                f"a window of {end_s - start_s:.3g} s is too short for a counter that ticks every {self.tick_s:g} s",
                f"measure for at least {least_ticks * self.tick_s:g} s",
            )
        energies, variance = [], 0.0
        for domain in range(len(self.readings[0].energy_j) if self.readings else 0):
            ticks = self._ticks[domain]
            (low, low_var, first, _), (high, high_var, _, last) = (_at(ticks, moment) for moment in (start_s, end_s))
            self._refuse_faults(first, last)
            energies.append(high - low)
            variance += low_var + high_var
        if not energies:
            cause = f": {self.faults[-1].cause}" if self.faults else ""
            raise MeterError(f"the meter gave no reading{cause}")
        return EnergyOver(tuple(energies), math.sqrt(variance), self._integrated(start_s, end_s))

    def steady(self, start_s: float, end_s: float, ticks: int, seconds: float) -> EnergyOver | None:
        """The energy of some seconds at the power of the whole ticks between two moments.

        None where there are fewer than so many, or where the counter is read fewer than ten times a tick.
        The error is how single ticks differ, or when they happened, whichever is more.

        Raises:
            MeterError: a reading failed meanwhile.
        """
        energies, variance = [], 0.0
        read = sum(start_s <= reading.at_s <= end_s for reading in self.readings)
        if not self.readings or read * self.tick_s < _CLOSELY * (end_s - start_s):
            return None
        for own in self._ticks:
            inside = [tick for tick in own if start_s <= tick.at_s <= end_s]
            if len(inside) <= ticks:
                return None
            first, last = inside[0], inside[-1]
            self._refuse_faults(first, last)
            span_s = last.at_s - first.at_s
            power_w = (last.energy_j - first.energy_j) / span_s
            powers = [_power(inside, i) for i in range(len(inside) - 1)]
            spread_w = statistics.stdev(powers) / math.sqrt(len(powers)) if len(powers) > 1 else 0.0
            timing_w = power_w * math.hypot(first.give_s, last.give_s) / math.sqrt(3) / span_s
            energies.append(power_w * seconds)
            variance += (max(spread_w, timing_w) * seconds) ** 2
        return EnergyOver(tuple(energies), math.sqrt(variance))

    def next_tick(self, after_s: float) -> float:
        """The first moment from one on at which every domain will have ticked, by when they ticked so far."""
        if not self.tick_s:
            return after_s
        last = [own[-1].at_s for own in self._ticks if own] if self.readings else []
        ends = [at_s + self.tick_s * math.ceil((after_s - at_s) / self.tick_s) for at_s in last]
        return max(ends, default=after_s + self.tick_s)

    def _refuse_faults(self, first: _Tick, last: _Tick) -> None:
        for fault in self.faults:
            if first.at_s - first.give_s <= fault.at_s <= last.at_s + last.give_s:
                raise MeterError(f"a reading failed during the window: {fault.cause}", "measure again")

    def power_w(self) -> float | None:
        """Mean power between the first and last tick; None before the counter has ticked twice more."""
        total = 0.0
        for ticks in self._ticks if self.readings else ():
            if len(ticks) < 3:
                return None
            total += (ticks[-1].energy_j - ticks[0].energy_j) / (ticks[-1].at_s - ticks[0].at_s)
        return total if self.readings else None

    def reaches(self, moment_s: float) -> bool:
        """Whether every domain has ticked after a moment."""
        return bool(self.readings) and all(ticks and ticks[-1].at_s >= moment_s for ticks in self._ticks)

    @cached_property
    def _ticks(self) -> list[list[_Tick]]:
        return [self._ticks_of(domain) for domain in range(len(self.readings[0].energy_j))]

    def _ticks_of(self, domain: int) -> list[_Tick]:
        """The moments at which the domain's counter was seen to change, or every reading where it does not tick."""
        ticks = []
        for before, after in pairwise(self.readings):
            if self.tick_s == 0:
                ticks.append(_Tick(after.at_s, 0.0, after.energy_j[domain]))
            elif after.energy_j[domain] != before.energy_j[domain]:
                earliest = max(before.at_s, after.at_s - self.tick_s)
                ticks.append(_Tick((earliest + after.at_s) / 2, (after.at_s - earliest) / 2, after.energy_j[domain]))
        return _regular(ticks, self.tick_s)

    def _integrated(self, start_s: float, end_s: float) -> float | None:
        """Energy from power readings inside the span, by their mean; None where there are too few."""
        powers = [r.power_w for r in self.readings if r.power_w is not None and start_s <= r.at_s <= end_s]
        return sum(powers) / len(powers) * (end_s - start_s) if len(powers) >= 3 else None


def _regular(ticks: Sequence[_Tick], tick_s: float) -> list[_Tick]:
    """The ticks where their neighbours say they happened, as far as the readings around each allow.

    As they were seen where the counter ticks about as often as it is read.
    """
    if not ticks or statistics.median(tick.give_s for tick in ticks) >= tick_s / 4:
        return list(ticks)
    found = []
    for i, tick in enumerate(ticks):
        near = ticks[max(0, i - NEIGHBOURS) : i + NEIGHBOURS + 1]
        said = sorted(other.at_s - tick_s * round((other.at_s - tick.at_s) / tick_s) for other in near)
        middle = min(max(statistics.median(said), tick.at_s - tick.give_s), tick.at_s + tick.give_s)
        quartiles = said[len(said) * 3 // 4] - said[len(said) // 4]
        give_s = max(_UNIFORM_OF_IQR * quartiles, tick.give_s) / math.sqrt(len(said))
        found.append(_Tick(middle, min(tick.give_s, math.hypot(give_s, _IRREGULAR * tick_s)), tick.energy_j))
    return found


def _at(ticks: Sequence[_Tick], moment_s: float) -> tuple[float, float, _Tick, _Tick]:
    """Energy at a moment, its variance, and the ticks before and after it."""
    right = bisect.bisect_left(ticks, moment_s, key=lambda tick: tick.at_s)
    if right == 0 or right == len(ticks):
        raise MeterError("the meter did not tick before and after the window", "measure for longer")
    before, after = ticks[right - 1], ticks[right]
    span_s = after.at_s - before.at_s
    share = (moment_s - before.at_s) / span_s
    power_w = (after.energy_j - before.energy_j) / span_s
    timing = ((1 - share) * before.give_s) ** 2 + (share * after.give_s) ** 2
    neighbours = [_power(ticks, i) for i in range(max(0, right - 3), min(len(ticks) - 1, right + 2))]
    step_w = max((abs(power_w - other) for other in neighbours), default=0.0)
    shape = step_w * span_s * share * (1 - share)  # a step of power anywhere inside the tick errs by no more
    variance = power_w**2 * timing / 3 + shape**2 / 3
    return before.energy_j + share * (after.energy_j - before.energy_j), variance, before, after


def _power(ticks: Sequence[_Tick], index: int) -> float:
    before, after = ticks[index], ticks[index + 1]
    return (after.energy_j - before.energy_j) / (after.at_s - before.at_s)
