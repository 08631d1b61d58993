"""Meters that do not notice load, contradict themselves or read what cannot be."""

from __future__ import annotations

import contextlib
import os
import random
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from meters.test_nvml import FakeNvml

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement import meter_gate
from ampere_energy.measurement.devices.local import LocalDevice, _drowned
from ampere_energy.measurement.meter_gate import busy, passed
from ampere_energy.measurement.meters import Meter, nvml, request_of
from ampere_energy.measurement.meters.counters import MOST_W, Integrated
from ampere_energy.measurement.meters.cputime import CpuTimeMeter
from ampere_energy.measurement.meters.nvml import NvmlMeter
from ampere_energy.measurement.meters.recorder import (
    MixedRecorder,
    ProcessRecorder,
    Recorder,
    Span,
    open_recorder,
    together,
)
from ampere_energy.measurement.meters.sampler import SampledMeter
from ampere_energy.measurement.meters.trace import EnergyOver, Trace
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import MeterInfo, Provenance, Window, gathered, joined
from ampere_energy.model.source import model_ref


class World:
    """A clock and a device that is idle or loaded; whatever waits lets meters be read meanwhile."""

    def __init__(self, power: Callable[[bool, float], float]) -> None:
        self.now_s, self.energy_j, self.loaded, self.loaded_s = 100.0, 5e4, False, 0.0
        self.power = power
        self.read: list[Callable[[], None]] = []

    @property
    def watts(self) -> float:
        return self.power(self.loaded, self.now_s - self.loaded_s)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / 0.005))):
            self.now_s += 0.005
            self.energy_j += 0.005 * self.watts
            for read in self.read:
                read()

    @contextlib.contextmanager
    def load(self) -> Iterator[None]:
        self.loaded, self.loaded_s = True, self.now_s
        yield
        self.loaded = False


class Shown(Recorder):
    """A meter that shows the world's power as it is, without ticks."""

    def __init__(self, world: World, name: str = "plug", provenance: Provenance = Provenance.MEASURED) -> None:
        self.info = MeterInfo(name, provenance, ("external",))
        self.world, self.joules = world, {}  # type: ignore[var-annotated]

    @property
    def counters(self) -> Sequence[Recorder]:
        return [self] if self.info.provenance is Provenance.MEASURED else []

    def mark(self) -> float:
        self.joules[self.world.now_s] = self.world.energy_j
        return self.world.now_s

    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        return [EnergyOver((self.joules[b] - self.joules[a],), 0.0) for a, b in spans]


def judged(monkeypatch: pytest.MonkeyPatch, power: Callable[[bool, float], float]) -> meter_gate.Verdict:
    """What the gate makes of a meter that shows some power."""
    world = World(power)
    monkeypatch.setattr(meter_gate, "time", world)
    return passed(Shown(world), world.load, 1.0)


@pytest.mark.parametrize("scatter_w", [0.0, 0.01, 0.5, 5.0])
def test_a_meter_stuck_at_fifty_watts_is_refused(scatter_w: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(20):
        draw = random.Random(seed)
        found = judged(monkeypatch, lambda loaded, since_s, draw=draw: 50 + draw.gauss(0, scatter_w))  # type: ignore[misc]
        if found.refusal is None:
            assert found.doubts, "what scatter made look like a rise is doubted at least"
            assert scatter_w
        else:
            assert re.search(r"plug reads [\d.]+ W idle and [\d.]+ W under full load", found.refusal)
            assert "it does not notice load; is it this device's meter" in found.refusal
        if not scatter_w:
            assert found.refusal


def test_most_stuck_meters_are_refused_whatever_their_scatter(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 0
    for seed in range(40):
        draw = random.Random(seed)
        found = judged(monkeypatch, lambda loaded, since_s, draw=draw: 50 + draw.gauss(0, 2))  # type: ignore[misc]
        refused += found.refusal is not None
    assert refused >= 36


@pytest.mark.parametrize(
    ("idle_w", "loaded_w", "scatter_w"),
    [(2.0, 6.0, 0.1), (8.0, 15.0, 2.0), (150.0, 400.0, 10.0), (150.0, 160.0, 5.0), (70.0, 690.0, 3.0), (0.0, 0.5, 0.0)],
    ids=["a phone", "a laptop", "a server", "a server with one core free", "a card", "a plug that shows idle as 0"],
)
def test_real_devices_pass(idle_w: float, loaded_w: float, scatter_w: float, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(10):
        draw = random.Random(seed)

        def power(loaded: bool, _: float, draw: random.Random = draw) -> float:
            return max(0.0, draw.gauss(loaded_w if loaded else idle_w, scatter_w))

        found = judged(monkeypatch, power)
        assert (found.refusal, found.doubts) == (None, ())
        assert found.idle_w == pytest.approx(idle_w, rel=0.1, abs=0.01)


def test_a_rise_that_is_hardly_there_is_doubted_and_a_slow_meter_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = judged(monkeypatch, lambda loaded, _: 100.5 if loaded else 100.0)
    assert found.refusal is None
    assert found.doubts == ("untrusted: plug reads 100 W idle and 100.5 W under full load",)
    found = judged(monkeypatch, lambda loaded, since_s: 90.0 if loaded and since_s > 3.0 else 40.0)
    assert found.refusal is None
    assert "plug noticed load after 3" in found.doubts[0]
    assert judged(monkeypatch, lambda loaded, _: 40.0 if loaded else 60.0).refusal, "power that falls is no notice"


def test_modelled_energy_has_nothing_to_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda loaded, _: 0.1)
    monkeypatch.setattr(meter_gate, "time", world)

    @contextlib.contextmanager
    def never() -> Iterator[None]:
        raise AssertionError("no load")
        yield

    found = passed(Shown(world, "cputime", Provenance.MODELLED), never, 1.0)
    assert found == meter_gate.Verdict(pytest.approx(0.1))


class Several(Shown):
    """Two meters, of which one may be blind."""

    def __init__(self, world: World, others: Sequence[Recorder]) -> None:
        super().__init__(world)
        self.others = others

    @property
    def counters(self) -> Sequence[Recorder]:
        return self.others


class Blind(Shown):
    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        return [EnergyOver((50 * (b - a),), 0.0) for a, b in spans]


def test_of_several_meters_the_one_that_is_blind_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(lambda loaded, _: 300.0 if loaded else 60.0)
    monkeypatch.setattr(meter_gate, "time", world)
    both = Several(world, [])
    seeing = Shown(world, "nvml")
    seeing.joules = both.joules
    both.others = [seeing, Blind(world, "command")]
    found = passed(both, world.load, 1.0)
    assert found.doubts == ("untrusted: command reads 50 W idle and 50 W under full load",)
    assert found.refusal is None
    both.others = [Blind(world, "command"), Blind(world, "rapl")]
    assert "command reads 50 W" in str(passed(both, world.load, 1.0).refusal)


class Sampled(Recorder):
    """A meter read all the time, as its sampler does."""

    def __init__(self, world: World, meter: Meter) -> None:
        self.world, self.meter, self.info, self.readings = world, meter, meter.info, []  # type: ignore[var-annotated]
        world.read.append(lambda: self.readings.append(meter.read()))

    @property
    def counters(self) -> Sequence[Recorder]:
        return [self]

    def mark(self) -> float:
        return self.world.now_s

    def over(self, spans: Sequence[Span]) -> list[EnergyOver]:
        self.world.sleep(0.2)
        trace = Trace(tuple(self.readings), (), self.info.tick_s)
        return [trace.over(a, b) for a, b in spans]


def card(monkeypatch: pytest.MonkeyPatch, says: float, counts: float = 1.0, lag_s: float = 0.0) -> meter_gate.Verdict:
    """A card of 70 to 600 W whose power readings and counter are so many times what flows, the former late."""
    world, fake, before = World(lambda loaded, _: 600.0 if loaded else 70.0), FakeNvml(), [70.0]
    monkeypatch.setattr(meter_gate, "time", world)
    monkeypatch.setattr(nvml, "time", world)

    def tick() -> None:
        late = lag_s and world.loaded and world.now_s - world.loaded_s < lag_s
        fake.power_mw = round(1e3 * says * (before[0] if late else world.watts))
        if round(world.now_s / 0.005) % 20 == 0:
            fake.energy_mj = round(1e3 * counts * world.energy_j)

    world.read.append(tick)
    tick()
    recorder = Sampled(world, NvmlMeter("", fake))
    world.sleep(2.0)
    return passed(recorder, world.load, 1.0)


def test_a_counter_is_held_against_the_power_readings_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    good = card(monkeypatch, 1.0)
    assert (good.refusal, good.doubts) == (None, ())
    assert good.idle_w == pytest.approx(70, rel=0.02)
    late = card(monkeypatch, 1.0, lag_s=1.0)
    assert (late.refusal, late.doubts) == (None, ()), "power readings that lag are waited for"
    off = card(monkeypatch, 1.2)
    assert off.refusal is None
    assert off.doubts == ("untrusted: of nvml, at start its counter says 600 W, its power readings 720 W",)
    for says, counts in ((1.0, 0.3), (1e-3, 1.0), (3.0, 1.0)):
        found = card(monkeypatch, says, counts)
        assert "nvml contradicts itself: at start its counter says" in str(found.refusal)


def test_power_beyond_what_such_a_meter_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match=r"reads 1e\+10 W, more than the 20000 W that such a meter can; is its unit"):
        SampledMeter("command:echo 1e10 W")
    sensor = Integrated("s", longest_gap_s=1.0, most_w=MOST_W["jetson"])
    assert sensor.add(40.0, 0.0) == 0.0
    with pytest.raises(MeterError, match="s reads 4e"):
        sensor.add(40_000.0, 0.5)
    assert sensor.add(40.0, 1.0) == 40.0


@pytest.fixture
def plug(tmp_path: Path) -> str:
    """A program that prints what a smart plug stuck at 50 W would."""
    program = tmp_path / "plug"
    program.write_text("#!/bin/sh\necho 50 W\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"command:{program}"


def test_cpu_time_is_that_of_the_process_that_trains(plug: str) -> None:
    """Read in the sampler's process it was nothing: 50.01 W for about 60."""
    recorder = open_recorder(f"{plug}+cputime:10")
    try:
        assert isinstance(recorder, MixedRecorder)
        assert (recorder.info.name, recorder.info.provenance) == ("command+cputime", Provenance.MODELLED)
        assert recorder.info.domains == ("external", "cpu")
        assert [meter.info.name for meter in recorder.counters] == ["command"]
        time.sleep(0.5)
        start_s, before_s = recorder.mark(), time.process_time()
        while time.process_time() - before_s < 1.0:
            sum(range(10_000))
        end_s, computed_s = recorder.mark(), time.process_time() - before_s
        (over,) = recorder.over([(start_s, end_s)])
        assert over.energy_j[0] == pytest.approx(50 * (end_s - start_s), rel=0.05)
        assert over.energy_j[1] == pytest.approx(10 * computed_s, rel=0.02)
        assert over.cpu_s is None, "the time is the clock's"
        assert recorder.power_w(start_s) is not None
    finally:
        recorder.close()
    assert isinstance(open_recorder("cputime:3"), ProcessRecorder)


def test_a_meter_is_opened_again_as_it_was() -> None:
    mixed = together([MeterInfo("nvml", Provenance.MEASURED, ("gpu",), 0.1), CpuTimeMeter(7.0).info])
    assert request_of(mixed) == "nvml+cputime:7"
    assert request_of(CpuTimeMeter(12.5).info) == "cputime:12.5"
    for watts in (0.0, -1.0, float("nan"), float("inf"), 1e5):
        with pytest.raises(RequestError, match="--watts-per-core"):
            CpuTimeMeter(watts)


def test_cpu_time_is_known_between_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([(0.0, 0.0), (1.0, 0.5), (2.0, 1.5), (3.0, 1.5)])

    class Told(CpuTimeMeter):
        def read(self):  # type: ignore[no-untyped-def]
            from ampere_energy.measurement.meters import Reading

            at_s, cpu_s = next(moments)
            return Reading(at_s, (10 * cpu_s,))

    recorder = ProcessRecorder(Told(10.0))
    marks = [recorder.mark() for _ in range(4)]
    assert [over.total_j for over in recorder.over([(0.5, 1.5), (marks[1], marks[2])])] == [7.5, 10.0]
    assert recorder.over([(1.0, 2.0)])[0].cpu_s == 1.0


def test_a_processor_is_loaded_and_let_go() -> None:
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    if not any(True for _ in children):
        pytest.skip("no list of children")

    def count() -> int:
        return sum(len(file.read_text().split()) for file in Path("/proc/self/task").glob("*/children"))

    before = count()
    with busy(torch.device("cpu")):
        assert count() > before
    assert count() == before


def test_a_stuck_meter_ends_a_measurement_by_its_name(plug: str) -> None:
    device = LocalDevice("cpu", plug, threads=1)
    try:
        with pytest.raises(MeterError, match=r"command reads [\d.]+ W idle and [\d.]+ W under full load: it does not"):
            device.measure(model_ref("lenet5"), Procedure(windows=2, ticks=2, window_s=0.1, warm_up_s=0.1))
    finally:
        device.close()


def test_training_that_shows_no_more_than_idle_power_is_doubted() -> None:
    assert _drowned([Window(10.0, 1.0, 5), Window(11.0, 1.0, 5)], 8.0) == []
    assert _drowned([], 8.0) == []
    assert _drowned([Window(8.0, 1.0, 5)], 8.0) == ["its power, 8 W, is not above the idle device's 8 W"]


def test_doubts_of_many_measurements_are_told_once_a_sort() -> None:
    found = gathered([("x", "not steady after 0.8 s"), ("x",), ("not steady after 1.25e3 s", "x")])
    assert found == ("x", "2 of 3 meterings: not steady after 0.8 s")
    assert gathered([(), ()]) == ()
    assert joined(found, ("not steady after 9 s", "y")) == (*found, "y")
