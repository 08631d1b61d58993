"""The gate a meter passes before anything is measured with it: it must notice load.

idle   | look |                 everything loaded, nothing to do: its power, and how much that scatters
load   | look | look | …        all this device can do, until each meter's power has risen well above its scatter and
                                its counter agrees with its own power readings, or patience ends

The load is the largest there is, not the workload's: a small step on a large machine may well be lost in the meter's
scatter, and is not refused for it. A meter that shows nothing of full load measures something else, or nothing.
"""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise

import torch

from ampere_energy.measurement.meters.recorder import Recorder, Span
from ampere_energy.measurement.meters.trace import LEAST_TICKS
from ampere_energy.measurement.windows import DISAGREEMENT

PATIENCE_S = 5.0
_PARTS = 5
_SETTLE_S = 0.2
_SIGMAS, _LEAST_SIGMAS = 4.0, 2.0
"""A rise of so many standard errors is load noticed; one of fewer than the lesser is none."""
_LEAST_RISE = 0.01
"""Of idle power: whatever less than this a device's full load shows of itself is not what it takes."""
_FAR = 0.5
"""Counter and power readings further apart than this are not of the same energy."""
_SLOW_S = 2.5
_SPIN = (
    "import os, sys, time\n"
    "parent, end = os.getppid(), time.monotonic() + float(sys.argv[1])\n"
    "while time.monotonic() < end and os.getppid() == parent: sum(range(10000))"
)
_LONGEST_LOAD_S = 60.0
_SIDE = 2048
REMEDY = "is it this device's meter, and the device free? see ampere devices, or model the energy: --watts-per-core 10"


@dataclass(frozen=True)
class Verdict:
    """What a device takes idle, and whether its meters can be believed.

    Attributes:
        idle_w: power with everything loaded and nothing to do, all meters together.
        doubts: what speaks against them.
        refusal: why nothing can be measured with them; None where it can.
    """

    idle_w: float
    doubts: tuple[str, ...] = ()
    refusal: str | None = None


@dataclass(frozen=True)
class _Reading:
    """Power over a moment, its standard error, and the power readings' own opinion of it."""

    power_w: float
    noise_w: float
    opinion_w: float | None


Load = Callable[[], AbstractContextManager[None]]


def passed(recorder: Recorder, load: Load, seconds: float, patience_s: float = PATIENCE_S) -> Verdict:
    """The idle power, and what is to be said of the meters; modelled energy has nothing to notice.

    Args:
        recorder: the meters.
        load: keeps the device as busy as it gets, as long as it is entered.
        seconds: how long to look, at least.
        patience_s: how long to wait for a meter that shows nothing yet.
    """
    spans = _spans(recorder, seconds)
    (whole,) = recorder.over([(spans[0][0], spans[-1][1])])
    idle_w = whole.total_j / (spans[-1][1] - spans[0][0])
    meters = recorder.counters
    if not meters:
        return Verdict(idle_w)
    idle = [_reading(meter, spans) for meter in meters]
    seen: list[list[_Reading]] = [[] for _ in meters]
    noticed_s: list[float | None] = [None for _ in meters]
    with load():
        time.sleep(_SETTLE_S)
        begun_s = time.monotonic()
        while True:
            spans = _spans(recorder, seconds / 2)
            for place, meter in enumerate(meters):
                seen[place].append(_reading(meter, spans))
                if noticed_s[place] is None and _notices(idle[place], seen[place][-1]):
                    noticed_s[place] = time.monotonic() - begun_s
            settled = all(at is not None for at in noticed_s) and all(_agrees(looks[-1]) for looks in seen)
            if settled or time.monotonic() - begun_s >= patience_s:
                break
    return _judged(idle_w, [meter.info.name for meter in meters], idle, seen, noticed_s)


def _judged(
    idle_w: float, names: list[str], idle: list[_Reading], seen: list[list[_Reading]], noticed_s: list[float | None]
) -> Verdict:
    doubts, blind = [], []
    for name, rest, looks, at_s in zip(names, idle, seen, noticed_s, strict=True):
        power_w = statistics.fmean(reading.power_w for reading in looks)
        noise_w = math.hypot(
            rest.noise_w, statistics.fmean(reading.noise_w for reading in looks) / math.sqrt(len(looks))
        )
        told = f"{name} reads {rest.power_w:.4g} W idle and {power_w:.4g} W under full load"
        if at_s is None and power_w - rest.power_w <= _LEAST_SIGMAS * noise_w:
            blind.append(told)
        elif at_s is None:
            doubts.append(f"untrusted: {told}")
        elif at_s > _SLOW_S:
            doubts.append(f"{name} noticed load after {at_s:.1f} s only: what is shorter is blurred")
        last = looks[-1]
        if last.opinion_w is not None and not _agrees(last):
            apart = f"at start its counter says {last.power_w:.4g} W, its power readings {last.opinion_w:.4g} W"
            if abs(last.opinion_w - last.power_w) > _FAR * max(last.power_w, last.opinion_w):
                return Verdict(idle_w, tuple(doubts), f"{name} contradicts itself: {apart}; choose another --meter")
            doubts.append(f"untrusted: of {name}, {apart}")
    if len(blind) == len(names):
        return Verdict(idle_w, tuple(doubts), f"{', '.join(blind)}: it does not notice load; {REMEDY}")
    return Verdict(idle_w, (*(f"untrusted: {told}" for told in blind), *doubts))


def _notices(idle: _Reading, loaded: _Reading) -> bool:
    rise_w, noise_w = loaded.power_w - idle.power_w, math.hypot(idle.noise_w, loaded.noise_w)
    return rise_w > max(_SIGMAS * noise_w, _LEAST_RISE * idle.power_w)


def _agrees(reading: _Reading) -> bool:
    return reading.opinion_w is None or abs(reading.opinion_w - reading.power_w) <= DISAGREEMENT * reading.power_w


def _spans(recorder: Recorder, seconds: float) -> list[Span]:
    """Spans one after another, each as long as the slowest counter needs, and as many as fit."""
    tick_s = recorder.info.tick_s
    time.sleep(2 * tick_s)  # a meter just opened, or a load just begun, has not ticked yet
    length_s = max(seconds, (LEAST_TICKS + 1) * tick_s)
    parts = max(1, min(_PARTS, int(length_s / ((LEAST_TICKS + 0.1) * tick_s)) if tick_s else _PARTS))
    marks = [recorder.mark()]
    for _ in range(parts):
        time.sleep(length_s / parts)
        marks.append(recorder.mark())
    return list(pairwise(marks))


def _reading(meter: Recorder, spans: list[Span]) -> _Reading:
    """What one meter shows over some spans, and how much it scatters: by them, or by its own reckoning of its error."""
    start_s, end_s = spans[0][0], spans[-1][1]
    *parts, whole = meter.over([*spans, (start_s, end_s)])
    powers = [over.total_j / (end - start) for over, (start, end) in zip(parts, spans, strict=True)]
    spread_w = statistics.stdev(powers) / math.sqrt(len(powers)) if len(powers) > 2 else 0.0
    opinion_w = None if whole.integrated_j is None else whole.integrated_j / (end_s - start_s)
    return _Reading(whole.total_j / (end_s - start_s), max(spread_w, whole.error_j / (end_s - start_s)), opinion_w)


@contextlib.contextmanager
def busy(device: torch.device) -> Iterator[None]:
    """Keeps a device as busy as it gets: every core this process may use, or a card with products of matrices."""
    if device.type == "cuda":
        ended = threading.Event()
        worker = threading.Thread(target=_multiply, args=(device, ended), daemon=True)
        worker.start()
        try:
            yield
        finally:
            ended.set()
            worker.join()
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    command, nothing = [sys.executable, "-I", "-S", "-c", _SPIN, str(_LONGEST_LOAD_S)], subprocess.DEVNULL
    spinning = [subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing) for _ in range(cores)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
        for process in spinning:
            process.wait()


def _multiply(device: torch.device, ended: threading.Event) -> None:
    x = torch.randn(_SIDE, _SIDE, device=device) / _SIDE
    while not ended.is_set():
        for _ in range(20):
            x @ x
        torch.cuda.synchronize(device)
