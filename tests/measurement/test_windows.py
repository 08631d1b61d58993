from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat

import pytest
import torch

from ampere_energy.errors import MeterError
from ampere_energy.measurement import windows as looking
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.recorder import Span
from ampere_energy.measurement.meters.trace import EnergyOver, Trace
from ampere_energy.measurement.procedures import Procedure, point_of
from ampere_energy.measurement.records import Measurement, MeterInfo, Provenance, Window, relative_interval
from ampere_energy.measurement.training_step import Step
from ampere_energy.measurement.windows import judge, measure_windows, second_opinion

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
        self.counters = ()

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
        raise AssertionError("no point is asked for")

    def next_tick(self, after_s: float) -> float:
        raise AssertionError("no point is asked for")

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


IDLE_W = 120.0


class Counter:
    """A counter that ticks every 100 ms and is read every 5, of a device that is idle but for its steps.

    Args:
        tick_s: how often it ticks.
        asking_s: what asking it takes.
        read_s: how often it is read.
    """

    def __init__(self, tick_s: float = 0.1, asking_s: float = 0.005, read_s: float = 0.005) -> None:
        self.info = MeterInfo("counter", Provenance.MEASURED, ("gpu",), tick_s)
        self.asking_s, self.read_s = asking_s, read_s
        self.busy: list[tuple[float, float, float]] = []
        self.begun_s = CLOCK.now_s
        self.asked = 0
        CLOCK.sleep(2.03)

    def step(self, *first: tuple[float, float], then_s: float = 0.002, watts: float = 400.0) -> Step:
        """Steps of some seconds and watts each, then all alike."""
        lasting = chain(first, repeat((then_s, watts)))

        def run() -> None:
            seconds, power = next(lasting)
            start_s = CLOCK.now_s
            CLOCK.sleep(seconds)
            if self.busy and self.busy[-1][1:] == (start_s, power):
                start_s = self.busy.pop()[0]
            self.busy.append((start_s, CLOCK.now_s, power))

        return Step(run, torch.nn.Identity(), torch.device("cpu"))

    def joules(self, moment_s: float) -> float:
        more = sum(
            (w - IDLE_W) * max(0.0, min(moment_s, end) - start) for start, end, w in self.busy if start < moment_s
        )
        return IDLE_W * (moment_s - self.begun_s) + more

    def trace(self, since_s: float) -> Trace:
        CLOCK.sleep(self.asking_s)
        self.asked += 1
        tick_s, first = self.info.tick_s, max(since_s - 11 * self.info.tick_s, self.begun_s)
        moments = [first + i * self.read_s for i in range(int((CLOCK.now_s - first) / self.read_s) + 1)]
        return Trace(tuple(Reading(m, (self.joules(m - m % tick_s),)) for m in moments), (), tick_s)

    def mark(self) -> float:
        return CLOCK.now_s

    def over(self, spans: list[Span]) -> list[EnergyOver]:
        return [EnergyOver((self.joules(b) - self.joules(a),), 0.0) for a, b in spans]

    def steady(self, span: Span, ticks: int, seconds: float) -> EnergyOver | None:
        return self.trace(span[0]).steady(*span, ticks, seconds)

    def next_tick(self, after_s: float) -> float:
        return self.trace(CLOCK.now_s).next_tick(after_s)

    def power_w(self, since_s: float) -> float | None:
        raise AssertionError("power was looked at")

    def close(self) -> None:
        pass


def metered(recorder: Counter, step: Step) -> tuple[Window, tuple[str, ...], float]:
    """A campaign's point: its window, doubts and seconds."""
    begun_s = CLOCK.now_s
    (window,), doubts = measure_windows(step, recorder, point_of(recorder.info))
    return window, doubts, CLOCK.now_s - begun_s


def watts(window: Window) -> float:
    return window.energy_j / window.time_s


@pytest.mark.parametrize("then_s", [0.0002, 0.002, 0.011, 0.024])
def test_a_point_of_short_steps_is_two_whole_ticks(then_s: float) -> None:
    took = []
    for phase in range(12):
        recorder = Counter()
        CLOCK.sleep(0.0137 * phase)
        window, doubts, seconds = metered(recorder, recorder.step(then_s=then_s))
        took.append(seconds)
        assert watts(window) == pytest.approx(400, rel=0.02)
        assert window.time_s / window.iterations == pytest.approx(then_s)
        assert window.time_s >= 0.2
        assert not doubts
    assert 0.24 < min(took) < 0.34
    assert max(took) < 0.47, "the next tick may be a whole one away"


@pytest.mark.parametrize("first_s", [0.3, 0.7, 3.0, 30.0])
def test_a_first_step_may_take_as_long_as_it_likes(first_s: float) -> None:
    """It compiles, at the power of a device that waits."""
    recorder = Counter()
    window, doubts, seconds = metered(recorder, recorder.step((first_s, IDLE_W + 1)))
    assert watts(window) == pytest.approx(400, rel=0.02)
    assert not doubts
    assert seconds < first_s + 0.45


@pytest.mark.parametrize("asking_s", [0.05, 0.1, 0.3])
def test_a_meter_that_answers_late_is_no_part_of_it(asking_s: float) -> None:
    for phase in range(10):
        recorder = Counter(asking_s=asking_s)
        CLOCK.sleep(0.01 * phase)
        window, _, _ = metered(recorder, recorder.step())
        assert watts(window) == pytest.approx(400, rel=0.02)


def test_power_that_is_late_is_waited_for() -> None:
    took = []
    for phase in range(20):
        recorder = Counter()
        CLOCK.sleep(0.005 * phase)
        window, doubts, seconds = metered(recorder, recorder.step(*[(0.002, 300.0)] * 75))  # 0.15 s
        assert watts(window) == pytest.approx(400, rel=0.02)
        assert not doubts
        took.append(seconds)
    assert 0.5 < min(took) <= max(took) < 0.8, "they ran once more"


def test_power_that_swings_is_doubted() -> None:
    recorder = Counter()
    swinging = [(0.002, 400.0 + 150.0 * (n // 50 % 2)) for n in range(2000)]
    window, doubts, seconds = metered(recorder, recorder.step(*swinging))
    assert doubts == ("not steady after 0.8 s",)
    assert seconds < 1.4
    assert window.error_j > 0.02 * window.energy_j


def test_a_step_time_that_falls_is_waited_for() -> None:
    recorder = Counter()
    falling = [(0.002 - 0.001 * n / 400, 400.0) for n in range(400)]  # 0.6 s
    window, doubts, _ = metered(recorder, recorder.step(*falling, then_s=0.001))
    assert window.time_s / window.iterations == pytest.approx(0.001, rel=0.02)
    assert not doubts


@pytest.mark.parametrize("stall_s", [0.25, 0.4, 2.0])
def test_steps_that_something_held_up_are_measured_all_the_same(stall_s: float) -> None:
    recorder = Counter()
    stalled = [*[(0.002, 400.0)] * 12, (stall_s, IDLE_W + 1)]
    window, _, _ = metered(recorder, recorder.step(*stalled))
    assert window.time_s / window.iterations == pytest.approx(0.002)
    assert watts(window) == pytest.approx(400, rel=0.02)


@pytest.mark.parametrize(
    ("recorder", "then_s", "window_s"),
    [
        (lambda: Counter(), 0.05, 0.3),
        (lambda: Counter(tick_s=0.001, read_s=0.0023), 0.002, 0.18),
        (lambda: Counter(tick_s=1.0), 0.002, 3.0),
        (lambda: Counter(read_s=0.06), 0.002, 0.3),
    ],
    ids=["long steps", "quick ticks", "slow ticks", "ticks that are not seen closely"],
)
def test_other_points_are_windows_between_steps(
    recorder: Callable[[], Counter], then_s: float, window_s: float
) -> None:
    counter = recorder()
    window, doubts, _ = metered(counter, counter.step(then_s=then_s))
    assert window.time_s == pytest.approx(window_s, abs=0.051)
    assert watts(window) == pytest.approx(400)
    assert not doubts
    assert counter.asked <= 2


def test_a_point_of_long_steps_waits_for_them_to_be_steady() -> None:
    took = []
    for falling in ((), tuple((0.1 * 0.96**n, 400.0) for n in range(12))):
        recorder = Counter()
        took.append(metered(recorder, recorder.step(*falling, then_s=0.04))[2])
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


def test_a_window_that_took_nothing_is_no_window() -> None:
    with pytest.raises(MeterError, match=r"the meter counted 0 J in .* s of training; choose another --meter"):
        measure_windows(step(), FakeRecorder(0.0), QUICK)


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
    from ampere_energy.measurement.devices.simulated import SimulatedDevice
    from ampere_energy.model.variants import Variant
    from benchmarks.specs import spec_of

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
