"""The measurement protocol: warm up until steady, then windows until the value is known well enough.

warm-up   chunk · chunk · chunk …      until step time and power change by less than `steady` between two
windows   | window | window | window |  at least so many, each over so many ticks of the counter; more until the
                                        95 % confidence interval is inside the target, or the budget ends
after     the steps go on until the counter has ticked: a tick that is half idle tells nothing of a window's end
briskly   steps · steps · steps …       of a campaign's point: from the first tick on that comes well after the
                tick | tick | tick      steps began, over two whole ones; again until these agree
verdict   drift, two levels, counter against integrated power: doubts are said, never averaged away
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters.recorder import Recorder, Span
from ampere_energy.measurement.meters.trace import LEAST_TICKS, EnergyOver
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import Window, energies, relative_interval
from ampere_energy.measurement.training_step import Step

DISAGREEMENT = 0.05
"""Counter and integrated power further apart than this: the result is not trusted."""
_DRIFT = 0.02
_LEVELS = 0.03
_REWARM_S = 0.2
_AFTER = 1.3  # ticks: the next one, which an H200 shows some 20 ms late
_LONG = 50  # ticks, in which half a tick is not worth steps that may take seconds
_SHARED = 0.1
SETTLED_S = 0.03  # after the steps began
SEEN = 0.15  # ticks, after which one is seen to have happened
_CHUNK_S = 0.0125
_TICKS_S = (0.05, 0.2)
"""Counters whose ticks are worth waiting for: of shorter ones a window has many, and long ones stay long."""
_SHORT = 8
"""So many steps in a window make one power; of fewer it would depend on which parts of them are in."""
_OPINION_S = 2.0  # power readings lag the counter; over a shorter span they may differ without a fault


def measure_windows(step: Step, recorder: Recorder, procedure: Procedure) -> tuple[tuple[Window, ...], tuple[str, ...]]:
    """The windows of a step, and the doubts about them.

    Raises:
        MeterError: the meter failed during the windows; no window is made up.
    """
    step.repeat(1)  # the first one compiles, and takes as long as it likes
    if procedure.brisk and (briskly := _briskly(step, recorder, procedure)) is not None:
        return briskly
    per_step_s, steady = _warm_up(step, recorder, procedure)
    # A window a tick longer than needed is never too short for the counter.
    length_s = max(procedure.window_s, (procedure.ticks + 1) * recorder.info.tick_s)
    iterations = max(procedure.iterations, math.ceil(length_s / per_step_s))
    start_s = time.monotonic()
    found: list[EnergyOver] = []
    windows: list[Window] = []
    wall_s = 0.0
    while True:
        spans, counts = _run(step, recorder, iterations, procedure.windows if not windows else 1)
        lasted_s = spans[-1][1] - spans[-1][0]
        if lasted_s < _LONG * recorder.info.tick_s:
            step.repeat(math.ceil(_AFTER * recorder.info.tick_s * counts[-1] / lasted_s))
        found += recorder.over(spans)
        spent = zip(found[-len(spans) :], spans, counts, strict=True)
        windows += [_window(over, end - begin, count) for over, (begin, end), count in spent]
        wall_s += spans[-1][1] - spans[0][0]
        precise = procedure.target is None or relative_interval(energies(windows)) <= procedure.target
        if precise or time.monotonic() - start_s >= procedure.budget_s:
            break
        _keep_warm(step)
    doubts = [] if steady else [f"not steady after a warm-up of {procedure.warm_up_s:g} s"]
    if not precise and procedure.target is not None:
        share = relative_interval(energies(windows))
        doubts.append(f"the 95 % interval is ±{100 * share:.1f} % after {procedure.budget_s:g} s of windows")
    time_s = sum(w.time_s for w in windows)
    if time_s < (1 - _SHARED) * wall_s:
        doubts.append(f"other programs took {100 * (1 - time_s / wall_s):.0f} % of the time, which is left out")
    return tuple(windows), (*doubts, *judge(windows), *second_opinion(found, time_s))


def judge(windows: Sequence[Window]) -> list[str]:
    """Drift and two levels in the windows' energies, in words."""
    values = energies(windows)
    middle = statistics.median(values)
    doubts = []
    steps = [b - a for a, b in pairwise(values)]
    one_way = len(values) >= 3 and (all(s > 0 for s in steps) or all(s < 0 for s in steps))
    drift = (values[-1] - values[0]) / middle if middle else 0.0
    if one_way and abs(drift) > _DRIFT:
        doubts.append(f"energy drifts by {100 * drift:+.1f} % over the windows")
    ordered = sorted(values)
    gaps = [b - a for a, b in pairwise(ordered)]
    if len(ordered) >= 6:
        at = max(range(len(gaps)), key=gaps.__getitem__)
        low, high = ordered[: at + 1], ordered[at + 1 :]
        spread = max(low[-1] - low[0], high[-1] - high[0])
        if min(len(low), len(high)) >= 2 and gaps[at] > max(_LEVELS * middle, 2 * spread):
            doubts.append(f"energy jumps between two levels {100 * gaps[at] / middle:.1f} % apart")
    return doubts


def second_opinion(found: Sequence[EnergyOver], seconds: float) -> list[str]:
    """A doubt where the counter and integrated power disagree over all windows together."""
    if any(over.integrated_j is None for over in found) or seconds < _OPINION_S:
        return []
    counted = sum(over.total_j for over in found)
    integrated = sum(over.integrated_j or 0.0 for over in found)
    if abs(integrated - counted) <= DISAGREEMENT * counted:
        return []
    return [f"untrusted: the counter says {counted:.4g} J, integrated power {integrated:.4g} J"]


def _briskly(step: Step, recorder: Recorder, procedure: Procedure) -> tuple[tuple[Window, ...], tuple[str, ...]] | None:
    """One window, worth the whole ticks in it; None of long steps, and where the counter does not tick as it should."""
    tick_s = recorder.info.tick_s
    length_s = procedure.ticks * tick_s
    if not _TICKS_S[0] <= tick_s <= _TICKS_S[1]:
        return None
    give_up_s = time.monotonic() + procedure.warm_up_s
    while True:
        next_s = recorder.next_tick(recorder.mark())
        begun_s = recorder.mark()
        per_step_s = _few(step, _CHUNK_S / 2)
        if per_step_s * _SHORT > length_s:
            return None
        chunk, marks = max(1, round(_CHUNK_S / per_step_s)), [recorder.mark()]
        settled_s = max(begun_s + SETTLED_S, marks[0])
        next_s += tick_s * max(0, math.ceil((settled_s - next_s) / tick_s))
        while marks[-1] < next_s + length_s + SEEN * tick_s:
            step.repeat(chunk)
            marks.append(recorder.mark())
        settled = [mark for mark in marks if mark >= settled_s]
        lasted_s = settled[-1] - settled[0]
        over = recorder.steady((settled_s, marks[-1]), procedure.ticks, lasted_s)
        if over is None or len(settled) < _SHORT:  # something else held the steps up, or the meter
            return None
        steady = over.error_j <= procedure.steady * over.total_j and _even(settled, procedure.steady)
        if steady or time.monotonic() > give_up_s:
            window = _window(over, lasted_s, chunk * (len(settled) - 1))
            return (window,), () if steady else (f"not steady after {procedure.warm_up_s:g} s",)


def _even(marks: Sequence[float], steady: float) -> bool:
    """Whether chunks of steps take as long in the second half as in the first."""
    middle = len(marks) // 2
    first = (marks[middle] - marks[0]) / middle
    second = (marks[-1] - marks[middle]) / (len(marks) - 1 - middle)
    return abs(second - first) <= steady * first


def _few(step: Step, least_s: float) -> float:
    """Seconds of one step, from as many as take so long."""
    count = 1
    while True:
        start_s = time.monotonic()
        step.repeat(count)
        took_s = time.monotonic() - start_s
        if took_s >= least_s:
            return took_s / count
        count *= 8


def _run(step: Step, recorder: Recorder, iterations: int, count: int) -> tuple[list[Span], list[int]]:
    """Windows without a pause between them, and the steps in each: more where the counter would refuse a window."""
    marks, counts, least_s = [recorder.mark()], [], LEAST_TICKS * recorder.info.tick_s
    for _ in range(count):
        done, asked = 0, iterations
        while done < asked:
            step.repeat(asked - done)
            done, lasted_s = asked, time.monotonic() - marks[-1]
            if lasted_s < least_s:
                asked += math.ceil(done * (least_s - lasted_s) / lasted_s) if lasted_s > 0 else done
        marks.append(recorder.mark())
        counts.append(done)
    return list(pairwise(marks)), counts


def _keep_warm(step: Step) -> None:
    """Undoes the pause in which the meter was asked: a device that waited starts cooler and slower."""
    end_s = time.monotonic() + _REWARM_S
    while time.monotonic() < end_s:
        step.repeat(1)


def _window(over: EnergyOver, time_s: float, iterations: int) -> Window:
    """A window; its time is at most what was computed in it: the rest went to other programs.

    Raises:
        MeterError: nothing was counted; that is no measurement of nothing.
    """
    if not over.total_j > 0:
        raise MeterError(
            f"the meter counted {over.total_j:g} J in {time_s:.3g} s of training", "choose another --meter"
        )
    own_s = time_s if over.cpu_s is None else min(time_s, over.cpu_s)
    return Window(over.total_j, own_s, iterations, over.error_j, over.energy_j)


def _warm_up(step: Step, recorder: Recorder, procedure: Procedure) -> tuple[float, bool]:
    """Seconds of one step once warm, and whether it was steady; of none, those of the second step."""
    start_s = time.monotonic()
    if not procedure.warm_up_s:
        step.repeat(1)
        return time.monotonic() - start_s, True
    chunk_s = procedure.warm_up_s / 10
    if not procedure.brisk:
        chunk_s = max(chunk_s, (procedure.ticks // 2 + 1) * recorder.info.tick_s)
    count = 1
    last: tuple[float, float] | None = None
    looks = 0
    while True:
        begin = recorder.mark()
        step.repeat(count)
        end = recorder.mark()
        per_step_s = (end - begin) / count
        if end - begin >= 0.8 * chunk_s:
            now = (per_step_s, (recorder.power_w(begin) or 0.0) if not procedure.brisk else 0.0)
            if last and all(abs(a - b) <= procedure.steady * b for a, b in zip(now, last, strict=True)):
                return per_step_s, True
            last, looks = now, looks + 1
        if end - start_s >= procedure.warm_up_s and looks >= 2:
            return per_step_s, False
        count = max(1, min(round(chunk_s / per_step_s) + 1, 8 * count))
