"""A counter that ticks every 100 ms, read by a sampler, at random phases: does the stated interval hold the truth?

Of windows of three ticks and more of any power, and of two whole ticks of steps that begin at a moment and then run on.
"""

from __future__ import annotations

import bisect
import math
import random
import statistics
from collections.abc import Callable
from itertools import pairwise

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.recorder import LATE
from ampere_energy.measurement.meters.trace import Trace
from ampere_energy.measurement.procedures import POINT
from ampere_energy.measurement.windows import SEEN, SETTLED_S

TICK_S = 0.1
STEADY = POINT.steady


def power(draw: random.Random) -> Callable[[float], float]:
    """Joules up to a moment, for a power that is steady, wobbles, or steps now and then."""
    level = draw.uniform(50, 700)
    if draw.random() < 0.3:
        return lambda t: level * t
    if draw.random() < 0.5:
        depth, rate, phase = level * draw.uniform(0, 0.3), draw.uniform(0.2, 40), draw.uniform(0, 6)
        return lambda t: level * t + depth / rate * (math.cos(phase) - math.cos(rate * t + phase))
    moments = sorted(draw.uniform(0, 4) for _ in range(draw.randint(1, 4)))
    levels = [level * draw.uniform(0.7, 1.3) for _ in range(len(moments) + 1)]

    def steps(t: float) -> float:
        edges = [0.0, *moments, math.inf]
        return sum(w * max(0.0, min(t, b) - a) for w, (a, b) in zip(levels, pairwise(edges), strict=True))

    return steps


def sampled(draw: random.Random, energy: Callable[[float], float], seconds: float) -> Trace:
    """What a sampler sees of such a counter: ticks at a random phase, readings a few milliseconds apart."""
    phase = draw.uniform(0, TICK_S)
    ticks = [phase + i * TICK_S + draw.gauss(0, 0.001) for i in range(-1, int(seconds / TICK_S) + 2)]
    readings, now = [], 0.0
    while now < seconds:
        last = ticks[bisect.bisect_right(ticks, now) - 1]
        readings.append(Reading(now, (energy(max(0.0, last)),)))
        now += draw.uniform(0.003, 0.009) + (draw.uniform(0.01, 0.03) if draw.random() < 0.02 else 0.0)
    return Trace(tuple(readings), (), TICK_S)


def run(count: int, seed: int = 0) -> dict[str, float]:
    """The share of windows whose interval holds the true energy, and how wide the intervals are."""
    return _windows(count, random.Random(seed)) | _whole_ticks(count, random.Random(seed))


def _windows(count: int, draw: random.Random) -> dict[str, float]:
    inside, errors, widths, refused = 0, [], [], 0
    for _ in range(count):
        energy = power(draw)
        trace = sampled(draw, energy, 4.0)
        start = draw.uniform(0.3, 1.5)
        end = start + draw.uniform(3, 20) * TICK_S
        over = trace.over(start, end)
        true = energy(end) - energy(start)
        low, high = over.interval_j
        inside += low <= true <= high
        errors.append(abs(over.total_j / true - 1))
        widths.append((high - low) / 2 / true)
        try:
            trace.over(start, start + draw.uniform(0.01, 2.99) * TICK_S)
        except MeterError:
            refused += 1
    return {
        "windows": count,
        "inside the stated interval": inside / count,
        "median relative error": statistics.median(errors),
        "median relative half-width": statistics.median(widths),
        "short windows refused": refused / count,
    }


def _whole_ticks(count: int, draw: random.Random) -> dict[str, float]:
    inside, errors, apart, late = 0, [], 0, 0
    while len(errors) < count:
        idle_w, busy_w, asked = 120.0, draw.uniform(130, 700), draw.uniform(1.5, 1.6)
        begun = asked + draw.uniform(0.003, 0.01)
        trace = sampled(draw, lambda t, i=idle_w, b=busy_w, at=begun: i * min(t, at) + b * max(0.0, t - at), 4.0)
        start = begun + SETTLED_S
        before = Trace(tuple(r for r in trace.readings if r.at_s < asked), (), TICK_S)
        end = before.next_tick(start) + (2 + SEEN) * TICK_S
        seen = Trace(tuple(r for r in trace.readings if r.at_s < end + LATE * TICK_S), (), TICK_S)
        over = seen.steady(start, end, 2, end - start)
        if over is None:  # measured in another way
            late += 1
        elif over.error_j > STEADY * over.total_j:  # the steps are run once more
            apart += 1
        else:
            low, high = over.interval_j
            inside += low <= busy_w * (end - start) <= high
            errors.append(abs(over.total_j / busy_w / (end - start) - 1))
    return {
        "two whole ticks: inside the stated interval": inside / count,
        "two whole ticks: median relative error": statistics.median(errors),
        "two whole ticks: too far apart": apart / (apart + late + count),
        "two whole ticks: seen too late": late / (apart + late + count),
    }
