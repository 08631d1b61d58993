from __future__ import annotations

import math
from dataclasses import replace
from itertools import chain, repeat

import pytest
import torch

from ampere_energy.errors import MeterError
from ampere_energy.measure import windows as looking
from ampere_energy.measure.measurement import (
    Measurement,
    MeterInfo,
    Procedure,
    Provenance,
    Window,
    point_of,
    relative_interval,
)
from ampere_energy.measure.meters.recorder import Span
from ampere_energy.measure.meters.trace import EnergyOver
from ampere_energy.measure.step import Step
from ampere_energy.measure.windows import idle_w, judge, measure_windows, second_opinion

QUICK = Procedure(windows=3, ticks=10, window_s=0.05, warm_up_s=0.4, steady=0.2)


class Clock:
    """Time that passes only where something waits: a busy machine must not fail these tests."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "time", CLOCK)


class FakeRecorder:
    """Energy at a given power, which may change over time."""

    def __init__(self, watts: float = 100.0, tick_s: float = 0.0, integrated: float | None = None) -> None:
        self.info = MeterInfo("fake", Provenance.MEASURED, ("gpu",), tick_s)
        self.watts, self.integrated, self.asked = watts, integrated, 0
        self.fail = False

    def mark(self) -> float:
        return CLOCK.monotonic()

    def over(self, spans: list[Span]) -> list[EnergyOver]:
        self.asked += 1
        if self.fail:
            raise MeterError("a reading failed during the window: EIO")
        return [
            EnergyOver((self.watts * (b - a),), 0.0, self.integrated and self.integrated * (b - a)) for a, b in spans
        ]

    def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
        """By a counter that ticks at multiples of its tick."""
        tick_s = self.info.tick_s
        if int(span[1] / tick_s + 1e-9) - math.ceil(span[0] / tick_s - 1e-9) < ticks:
            return None
        return self.over([(0.0, seconds)])[0]

    def next_tick(self, after_s: float) -> float:
        return math.ceil(after_s / self.info.tick_s) * self.info.tick_s

    def power_w(self, since_s: float) -> float | None:
        return self.watts

    def close(self) -> None:
        pass


def step(*first_s: float, then_s: float = 0.002) -> Step:
    lasting = chain(first_s, repeat(then_s))
    return Step(lambda: CLOCK.sleep(next(lasting)), torch.nn.Identity(), torch.device("cpu"))


def test_windows_cover_the_counters_ticks() -> None:
    windows, doubts = measure_windows(step(), FakeRecorder(tick_s=0.01), QUICK)
    assert len(windows) == 3
    assert all(w.time_s >= 10 * 0.01 for w in windows)
    assert all(w.energy_j == pytest.approx(100 * w.time_s) for w in windows)
    assert windows[0].time_s / windows[0].iterations == pytest.approx(0.002)
    assert not doubts


def test_a_few_cold_steps() -> None:
    short = Procedure(windows=1, ticks=0, window_s=0.0, warm_up_s=0.0, iterations=20)
    begun_s = CLOCK.now_s
    (window,), doubts = measure_windows(step(), FakeRecorder(), short)
    assert window.iterations == 20
    assert CLOCK.now_s - begun_s == pytest.approx(22 * 0.002), "one to begin with, one to tell its time"
    assert not doubts


@pytest.mark.parametrize("first_s", [(), (3.0, 0.5)], ids=["as quick as ever", "slow at first"])
def test_as_many_cold_steps_as_the_counter_needs(first_s: tuple[float, ...]) -> None:
    short = Procedure(windows=1, ticks=1, window_s=0.0, warm_up_s=0.0, iterations=20)
    (window,), _ = measure_windows(step(*first_s), FakeRecorder(tick_s=0.1), short)
    assert 0.3 <= window.time_s <= 0.31, "three ticks"
    assert window.iterations == pytest.approx(window.time_s / 0.002)


class Ticking(FakeRecorder):
    """Tells when it was asked, and what the last window's end was then."""

    lag_s = -1.0

    def over(self, spans: list[Span]) -> list[EnergyOver]:
        self.lag_s = CLOCK.now_s - spans[-1][1]
        return super().over(spans)


@pytest.mark.parametrize(
    ("tick_s", "then_s", "most_s"), [(0.1, 0.002, 0.14), (0.1, 0.5, 0.5), (0.1, 6.0, 0.0), (0.0, 0.002, 0.0)]
)
def test_the_steps_go_on_until_the_counter_has_ticked(tick_s: float, then_s: float, most_s: float) -> None:
    """Where a tick is much of a window: a tick that is half idle would make the window's end look idle."""
    recorder = Ticking(tick_s=tick_s)
    measure_windows(step(then_s=then_s), recorder, Procedure(windows=2, ticks=2, window_s=0.1, warm_up_s=0.0))
    assert recorder.lag_s == pytest.approx(most_s, abs=0.01)


class Blind(FakeRecorder):
    def __init__(self) -> None:
        super().__init__(tick_s=0.1)

    def power_w(self, since_s: float) -> float | None:
        raise AssertionError("power was looked at")


def test_a_point_of_short_steps_is_two_whole_ticks() -> None:
    recorder = Blind()
    took = []
    for _ in range(20):
        CLOCK.sleep(0.0237)
        begun_s = CLOCK.now_s
        (window,), doubts = measure_windows(step(), recorder, point_of(recorder.info))
        took.append(CLOCK.now_s - begun_s)
        assert window.energy_j == pytest.approx(100 * window.time_s)
        assert window.time_s / window.iterations == pytest.approx(0.002)
        assert window.time_s >= 0.2
        assert not doubts
    assert 0.25 < min(took) < 0.3
    assert 0.3 < max(took) < 0.4, "the next tick may be a whole one away"


def test_a_point_whose_ticks_differ_is_measured_again() -> None:
    class Settling(Blind):
        def over(self, spans: list[Span]) -> list[EnergyOver]:
            self.asked += 1
            error = 0.05 if self.asked <= self.late else 0.005
            return [EnergyOver((100 * (b - a),), error * 100 * (b - a)) for a, b in spans]

        late = 1

    recorder = Settling()
    _, doubts = measure_windows(step(), recorder, point_of(recorder.info))
    assert recorder.asked == 2
    assert not doubts
    never = Settling()
    never.late = 1000
    (window,), doubts = measure_windows(step(), never, point_of(never.info))
    assert 2 <= never.asked <= 4
    assert doubts == ("not steady after 0.8 s",)
    assert window.error_j == pytest.approx(0.05 * window.energy_j)


@pytest.mark.parametrize("slow", [True, False], ids=["long steps", "a counter that stands still"])
def test_other_points_are_windows_between_steps(slow: bool) -> None:
    class Still(Blind):
        def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
            assert not slow, "few steps have no one power"
            return None

    recorder = Still()
    (window,), _ = measure_windows(step(then_s=0.05 if slow else 0.002), recorder, point_of(recorder.info))
    assert window.time_s == pytest.approx(0.3, abs=0.051)
    assert window.energy_j == pytest.approx(100 * window.time_s)


def test_a_point_of_long_steps_waits_for_them_to_be_steady() -> None:
    procedure, took = point_of(Blind().info), []
    for falling in ((), tuple(0.1 * 0.96**n for n in range(12))):
        begun_s = CLOCK.now_s
        measure_windows(step(*falling, then_s=0.04), Blind(), procedure)
        took.append(CLOCK.now_s - begun_s)
    assert took[1] > took[0] + 0.1


def test_time_that_other_programs_took_is_left_out() -> None:
    class Shared(FakeRecorder):
        def over(self, spans: list[Span]) -> list[EnergyOver]:
            return [EnergyOver((6.0 * (b - a),), 0.0, cpu_s=0.6 * (b - a)) for a, b in spans]

    windows, doubts = measure_windows(step(), Shared(), QUICK)
    assert windows[0].time_s / windows[0].iterations == pytest.approx(0.6 * 0.002)
    assert windows[0].energy_j / windows[0].time_s == pytest.approx(10.0)
    assert "other programs took 40 % of the time, which is left out" in doubts

    class Threads(FakeRecorder):
        def over(self, spans: list[Span]) -> list[EnergyOver]:
            return [EnergyOver((40.0 * (b - a),), 0.0, cpu_s=4 * (b - a)) for a, b in spans]

    windows, doubts = measure_windows(step(), Threads(), QUICK)
    assert windows[0].time_s / windows[0].iterations == pytest.approx(0.002)
    assert not doubts


def test_windows_are_added_until_the_target_or_the_budget() -> None:
    noisy = iter(range(1000))

    class Noisy(FakeRecorder):
        def over(self, spans: list[Span]) -> list[EnergyOver]:
            return [EnergyOver(((100 + 30 * (-1) ** next(noisy)) * (b - a),), 0.0) for a, b in spans]

    procedure = replace(QUICK, target=0.02, budget_s=1.5)
    windows, doubts = measure_windows(step(), Noisy(), procedure)
    assert len(windows) > 4
    assert any("95 % interval is ±" in doubt for doubt in doubts)
    calm, doubts = measure_windows(step(), FakeRecorder(), replace(procedure, target=0.2))
    assert len(calm) == 3
    assert not any("95 % interval" in doubt for doubt in doubts)


def test_a_step_that_never_settles_is_doubted() -> None:
    growing = (0.0002 * n for n in range(1, 10_000))
    _, doubts = measure_windows(step(*growing), FakeRecorder(), replace(QUICK, warm_up_s=0.2, steady=0.001))
    assert any("not steady after a warm-up of 0.2 s" in doubt for doubt in doubts)


def test_a_failed_meter_makes_no_window() -> None:
    recorder = FakeRecorder()
    recorder.fail = True
    with pytest.raises(MeterError, match="EIO"):
        measure_windows(step(), recorder, QUICK)


def test_idle_power() -> None:
    assert idle_w(FakeRecorder(73.0), 0.05) == pytest.approx(73.0)


def windows_of(*values: float) -> list[Window]:
    return [Window(value, 1.0, 1) for value in values]


def test_drift_and_two_levels_are_told() -> None:
    assert judge(windows_of(10.0, 10.01, 9.99, 10.0)) == []
    assert judge(windows_of(10.0, 10.2, 10.5)) == ["energy drifts by +4.9 % over the windows"]
    assert judge(windows_of(10.5, 10.2, 10.0)) == ["energy drifts by -4.9 % over the windows"]
    assert judge(windows_of(10.0, 11.0, 10.01, 11.02, 10.02, 11.01)) == ["energy jumps between two levels 9.3 % apart"]
    assert judge(windows_of(10.0, 10.3, 10.1, 10.4, 10.2, 10.5)) == []  # spread, but no gap


def test_counter_and_power_further_apart_than_five_percent_is_untrusted() -> None:
    for integrated, trusted in ((104.0, True), (96.0, True), (106.0, False), (94.0, False)):
        long = replace(QUICK, window_s=0.9)
        _, doubts = measure_windows(step(), FakeRecorder(100.0, integrated=integrated), long)
        assert (not any(doubt.startswith("untrusted") for doubt in doubts)) is trusted
    assert second_opinion([EnergyOver((1.0,), 0.0, None)], 10.0) == []
    assert second_opinion([EnergyOver((1.0,), 0.0, 2.0)], 1.0) == []  # too short to tell


def test_gross_and_above_idle() -> None:
    from studies.additive import spec_of

    from ampere_energy.measure.devices.simulated import SimulatedDevice
    from ampere_energy.model.variants import Variant

    device = SimulatedDevice()
    measurement = Measurement(
        Variant(spec_of("lenet5").blocks), device.info, device.meter, (Window(50.0, 0.5, 10),), 1.0, "now", idle_w=20.0
    )
    assert measurement.energy_j == 5.0
    assert measurement.above_idle_j == pytest.approx(5.0 - 20 * 0.05)
    assert replace(measurement, idle_w=None).above_idle_j is None


def test_relative_interval_is_students() -> None:
    assert relative_interval([1.0]) == float("inf")
    assert relative_interval([9.0, 10.0, 11.0]) == pytest.approx(4.30 * 1.0 / 3**0.5 / 10, rel=1e-3)
