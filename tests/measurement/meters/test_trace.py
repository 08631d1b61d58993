from __future__ import annotations

import time

import pytest

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.trace import Fault, Trace
from benchmarks.studies import counter_phases


def steady(tick_s: float = 0.1, watts: float = 100.0, seconds: float = 3.0) -> list[Reading]:
    """A counter at constant power, read every 5 ms."""
    return [Reading(i * 0.005, (watts * tick_s * (i * 0.005 // tick_s),)) for i in range(int(seconds / 0.005))]


def test_the_stated_interval_holds_the_truth() -> None:
    found = counter_phases.run(300, seed=3)
    assert found["inside the stated interval"] >= 0.93  # 95 % over the study's 1,000
    assert found["short windows refused"] == 1.0
    assert found["median relative half-width"] < 0.01
    assert found["two whole ticks: inside the stated interval"] >= 0.93
    assert found["two whole ticks: median relative error"] < 0.01
    assert found["two whole ticks: too far apart"] < 0.2
    assert found["two whole ticks: seen too late"] < 0.03


def test_a_steady_counter_is_exact_at_any_phase() -> None:
    trace = Trace(tuple(steady()), (), 0.1)
    for start in (0.41, 0.437, 0.4999, 0.51):
        over = trace.over(start, start + 1.23)
        assert over.total_j == pytest.approx(123.0, rel=0.005)
        assert over.error_j < 0.01 * over.total_j


def test_windows_shorter_than_three_ticks_are_refused() -> None:
    with pytest.raises(MeterError, match=r"too short for a counter that ticks every 0.1 s; measure for at least 0.3 s"):
        Trace(tuple(steady()), (), 0.1).over(1.0, 1.29)


def begun(idle_w: float, busy_w: float, at_s: float) -> Trace:
    """A counter whose power rises at a moment."""
    readings = []
    for i in range(600):
        ticked_s = (i // 20) * 0.1
        readings.append(Reading(i * 0.005, (idle_w * min(ticked_s, at_s) + busy_w * max(0.0, ticked_s - at_s),)))
    return Trace(tuple(readings), (), 0.1)


def test_what_runs_at_one_power_is_told_by_the_whole_ticks_in_it() -> None:
    trace = begun(100.0, 400.0, at_s=1.05)
    for start, end in ((1.09, 1.31), (1.07, 1.33), (1.19, 1.45)):
        over = trace.steady(start, end, 2, 0.5)
        assert over is not None
        assert over.total_j == pytest.approx(400 * 0.5, rel=0.01)
        assert 0 < over.error_j < 0.015 * over.total_j
    assert trace.steady(1.11, 1.31, 2, 0.2) is None  # one whole tick, and parts of two
    assert trace.steady(1.11, 1.31, 1, 0.2) is not None
    assert Trace((), (), 0.1).steady(1.0, 2.0, 1, 1.0) is None
    seldom = Trace(trace.readings[::8], (), 0.1)  # read every 40 ms
    assert seldom.steady(1.07, 1.53, 2, 0.5) is None


def test_ticks_of_another_power_show_in_the_error() -> None:
    trace = begun(100.0, 400.0, at_s=1.2)
    over = trace.steady(1.08, 1.32, 2, 0.24)
    assert over is not None
    assert over.error_j == pytest.approx(0.5 * (400 - 100) * 0.24, rel=0.05), "half of what the two ticks differ by"


def test_a_failed_reading_among_whole_ticks_is_an_error() -> None:
    trace = Trace(tuple(steady()), (Fault(1.15, "GPU is lost"),), 0.1)
    with pytest.raises(MeterError, match="GPU is lost"):
        trace.steady(1.0, 1.4, 2, 0.4)
    assert trace.steady(1.2, 1.6, 2, 0.4) is not None


def test_when_a_counter_will_tick() -> None:
    trace = Trace(tuple(steady(seconds=1.37)), (), 0.1)
    assert trace.next_tick(1.42) == pytest.approx(1.5, abs=0.006)
    assert trace.next_tick(2.03) == pytest.approx(2.1, abs=0.006)
    assert Trace((), (), 0.1).next_tick(5.0) == 5.1
    assert Trace((), (), 0.0).next_tick(5.0) == 5.0


def late(*stalls: float) -> tuple[Reading, ...]:
    """A steady counter whose sampler was held up for 60 ms at some moments."""
    return tuple(r for r in steady() if not any(stall <= r.at_s < stall + 0.06 for stall in stalls))


def test_a_tick_that_was_seen_late_happened_when_its_neighbours_say() -> None:
    trace = Trace(late(0.98, 1.28), (), 0.1)
    for start, end in ((0.9, 1.3), (1.0, 1.3), (1.05, 1.4)):
        assert trace.over(start, end).total_j == pytest.approx(100 * (end - start), rel=0.005)


def test_ticks_that_are_not_regular_stay_where_they_were_seen() -> None:
    """A counter whose ticks are 80 and 120 ms apart: each is between its two readings, whatever the others say."""
    moments = [i * 0.2 + late for i in range(15) for late in (0.0, 0.08)]
    at = [i * 0.005 + 0.0025 for i in range(600)]
    readings = tuple(Reading(t, (100.0 * max([m for m in moments if m <= t], default=0.0),)) for t in at)
    trace = Trace(readings, (), 0.1)
    for start in (1.0, 1.03, 1.11):
        over = trace.over(start, start + 0.45)
        assert over.total_j == pytest.approx(45, rel=0.01)
        low, high = over.interval_j
        assert low <= 45 <= high


def test_a_failed_reading_rejects_exactly_the_windows_it_falls_in() -> None:
    trace = Trace(tuple(steady()), (Fault(1.5, "EIO"),), 0.1)
    for start, end in ((1.0, 2.0), (0.9, 1.5), (1.45, 2.5)):
        with pytest.raises(MeterError, match="a reading failed during the window: EIO"):
            trace.over(start, end)
    assert trace.over(0.4, 1.2).total_j == pytest.approx(80, rel=0.01)
    assert trace.over(1.8, 2.6).total_j == pytest.approx(80, rel=0.01)


def test_a_window_the_trace_does_not_reach_over_is_refused() -> None:
    trace = Trace(tuple(steady(seconds=2.0)), (), 0.1)
    for start, end in ((-1.0, 1.0), (1.0, 5.0)):
        with pytest.raises(MeterError, match="did not tick before and after"):
            trace.over(start, end)
    with pytest.raises(MeterError, match="gave no reading: EACCES"):
        Trace((), (Fault(0.0, "EACCES"),), 0.1).over(0.0, 1.0)


def test_integrated_power_is_a_second_opinion() -> None:
    readings = tuple(Reading(r.at_s, r.energy_j, 130.0) for r in steady())
    over = Trace(readings, (), 0.1).over(0.5, 2.0)
    assert over.integrated_j == pytest.approx(195.0)
    assert over.total_j == pytest.approx(150.0, rel=0.01)


def test_the_wall_clock_is_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from ampere_energy.measurement.meters.cputime import CpuTimeMeter

    meter = CpuTimeMeter()
    before = meter.read()
    real = time.time()
    for jump in (3600.0, -3600.0):
        monkeypatch.setattr(time, "time", lambda jump=jump: real + jump)
        after = meter.read()
        assert 0 <= after.at_s - before.at_s < 5
        assert after.total_j >= before.total_j
