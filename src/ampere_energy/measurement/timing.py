"""How long a step takes, from a few of them and without a meter: the host to issue it, the device to do it."""

from __future__ import annotations

import math
import statistics
import time

import torch

from ampere_energy.measurement.training_step import Step

_ISSUES = 7
_REPLAYS = 10
_FEW = 3
_ENOUGH_S = 0.01
_CPU_ENOUGH_S, _MOST_REPLAYS = 0.05, 200
_OUTLASTS = 8
"""Steps that take so many times what issuing them does are timed as they are issued.

On an H200 those took within 0.5 % of what they took as captured graphs; shorter ones up to 6 % longer
(`data/h200-meter/timings.jsonl.gz`).
"""


def issue_s(step: Step) -> float:
    """Median seconds the host takes to issue one step.

    The first steps of all are slower, and so is the first after a wait; one soon after another may instead have to
    wait for a place in the device's queue. So the host is warmed up, and the faster of the two is taken.
    """
    start = time.perf_counter()
    step.repeat(1)
    count = _often(time.perf_counter() - start, _ISSUES)
    for _ in range(count - 1):
        step.run()
    first, second = [], []
    for _ in range(count):
        step.wait()
        start = time.perf_counter()
        step.run()
        between = time.perf_counter()
        step.run()
        first.append(between - start)
        second.append(time.perf_counter() - between)
    step.wait()
    return min(statistics.median(first), statistics.median(second))


def outlasts_issuing(step: Step) -> bool:
    """Whether a step takes so many times what issuing it does that the device never waits, captured or not."""
    step.repeat(1)  # the first one chooses kernels
    start = time.perf_counter()
    step.run()
    issued_s = time.perf_counter() - start
    step.wait()
    return time.perf_counter() - start > _OUTLASTS * issued_s


def device_s(step: Step) -> float:
    """Seconds of one step on the device, from a few of them in a row: events on CUDA, clocks elsewhere.

    Of a CPU it is what the step itself computes: on a machine that does other things as well, the wall clock goes on
    while it waits for its turn.
    """
    start = time.perf_counter()
    step.repeat(1)
    once_s = time.perf_counter() - start
    if step.device.type != "cuda":
        count = max(_REPLAYS, min(_MOST_REPLAYS, math.ceil(_CPU_ENOUGH_S / once_s)))
        start, before = time.perf_counter(), time.process_time()
        step.repeat(count)
        # The mean, as training takes it: slow steps among quick ones cost what they cost.
        return min(time.perf_counter() - start, time.process_time() - before) / count  # the latter counts all threads
    count = _often(once_s, _REPLAYS)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(count):
        step.run()
    end.record()
    step.wait()
    return float(begin.elapsed_time(end)) / 1e3 / count


def _often(step_s: float, most: int) -> int:
    """How often to run a step to time it: a few long ones tell as much as many short ones."""
    return max(_FEW, min(most, math.ceil(_ENOUGH_S / step_s)))
