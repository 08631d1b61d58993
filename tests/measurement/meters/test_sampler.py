from __future__ import annotations

import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.meters import Reading, meter_names, open_meter, survey
from ampere_energy.measurement.meters.cputime import CpuTimeMeter
from ampere_energy.measurement.meters.recorder import ProcessRecorder, SampledRecorder, open_recorder
from ampere_energy.measurement.meters.sampler import SampledMeter
from ampere_energy.measurement.meters.trace import Trace
from ampere_energy.measurement.records import MeterInfo, Provenance
from ampere_energy.measurement.training_step import training_step
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode
from ampere_energy.testing import check_meter


@pytest.fixture
def plug(tmp_path: Path) -> str:
    """A program that prints what a smart plug at 40 W would."""
    program = tmp_path / "plug"
    program.write_text("#!/bin/sh\necho 40 W\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return f"command:{program}"


def test_a_meter_is_read_in_a_process_of_its_own(plug: str) -> None:
    sampler = SampledMeter(plug)
    try:
        assert sampler.info.provenance is Provenance.MEASURED
        time.sleep(0.5)
        start = time.monotonic()
        time.sleep(1.0)
        end = time.monotonic()
        over = sampler.trace_over(start, end).over(start, end)
        assert over.total_j == pytest.approx(40 * (end - start), rel=0.02)
        power = sampler.trace(start).power_w()
        assert power == pytest.approx(40, rel=0.01)
    finally:
        sampler.close()


def test_a_meter_that_cannot_be_read_says_why() -> None:
    with pytest.raises(MeterError, match="no program"):
        SampledMeter("command")


def test_a_sampler_that_died_is_noticed(plug: str) -> None:
    sampler = SampledMeter(plug)
    sampler._process.kill()
    sampler._process.wait()
    with pytest.raises(MeterError, match=r"died|did not answer"):
        sampler.trace(0.0)


def test_the_sampler_leaves_with_its_parent(plug: str) -> None:
    program = f"""
from ampere_energy.measurement.meters.sampler import SampledMeter
import os
print(SampledMeter({plug!r})._process.pid, flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    pid = int(done.stdout)
    end = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists() and time.monotonic() < end:
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            break
        time.sleep(0.1)
    else:
        assert not Path(f"/proc/{pid}").exists()


def test_several_meters_are_added_up(plug: str) -> None:
    recorder = open_recorder(f"{plug}+{plug}")
    try:
        assert isinstance(recorder, SampledRecorder)
        assert recorder.info.name == "command+command"
        assert recorder.info.domains == ("external", "external")
        start = recorder.mark()
        time.sleep(1.0)
        end = recorder.mark()
        (over,) = recorder.over([(start + 0.3, end)])
        assert over.total_j == pytest.approx(80 * (end - start - 0.3), rel=0.03)
        assert recorder.steady((start + 0.3, end), 2, seconds=5.0) is None  # they are read as seldom as they change
        assert end <= recorder.next_tick(end) <= end + recorder.info.tick_s
    finally:
        recorder.close()


class Sampled:
    """A sampler of a counter at some watts, whose last readings come later."""

    def __init__(self, watts: float, tick_s: float, until_s: list[float]) -> None:
        self.info = MeterInfo("counter", Provenance.MEASURED, ("gpu",), tick_s)
        self.watts, self.until_s = watts, until_s

    def trace_around(self, moment_s: float) -> Trace:
        until_s = self.until_s.pop(0) if len(self.until_s) > 1 else self.until_s[0]
        readings = [0.001 * i for i in range(int(until_s / 0.001))]
        tick_s = self.info.tick_s
        return Trace(tuple(Reading(t, (self.watts * (t - t % tick_s),)) for t in readings), (), tick_s)


def test_whole_ticks_of_several_counters_are_added_up_once_they_are_seen() -> None:
    slow, quick = Sampled(300.0, 0.1, [1.25, 1.28, 1.35]), Sampled(50.0, 0.02, [1.35])
    recorder = SampledRecorder([slow, quick])  # type: ignore[list-item]
    found = recorder.steady((1.05, 1.32), 2, seconds=2.0)
    assert found is not None
    assert found.total_j == pytest.approx(2 * 350, rel=0.02)
    assert slow.until_s == [1.35], "asked again until the last tick was seen"
    assert recorder.next_tick(2.03) == pytest.approx(2.1, abs=0.01)
    never = SampledRecorder([Sampled(300.0, 0.1, [1.25]), quick])  # type: ignore[list-item]
    assert never.steady((1.05, 1.32), 2, seconds=2.0) is None


def test_the_modelled_meter_is_read_in_place() -> None:
    recorder = open_recorder("cputime:3")
    assert isinstance(recorder, ProcessRecorder)
    assert recorder.info == CpuTimeMeter(3.0).info


def test_training_is_bit_identical_with_the_meter_on(plug: str) -> None:
    def train(metered: bool) -> list[torch.Tensor]:
        sampler = SampledMeter(plug) if metered else None
        step = training_step(model_ref("lenet5"), torch.device("cpu"), Mode.EAGER)
        for _ in range(30):
            step.run()
        if sampler:
            sampler.close()
        return [p.detach().clone() for p in step.module.parameters()]

    assert all(map(torch.equal, train(False), train(True)))


def test_every_meter_is_listed_with_a_remedy() -> None:
    states = {state.name: state for state in survey()}
    assert tuple(sorted(states)) == tuple(sorted(meter_names()))
    assert states["cputime"].problem is None
    for state in states.values():
        assert state.problem is None or ";" in state.problem or "install" in state.problem
    with pytest.raises(RequestError, match=r"no meter is called 'psychic'; choose from nvml, rapl"):
        open_meter("psychic")


def test_the_contract(plug: str) -> None:
    check_meter(CpuTimeMeter)
    check_meter(lambda: open_meter(plug), readings=5)


class Backwards(CpuTimeMeter):
    def read(self):  # type: ignore[no-untyped-def]
        from ampere_energy.measurement.meters import Reading

        return Reading(time.monotonic(), (-time.monotonic(),))


def test_the_contract_can_fail() -> None:
    with pytest.raises(AssertionError, match="never counts backwards"):
        check_meter(Backwards)


def test_a_package_can_add_a_meter(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from ampere_energy.measurement import meters

    entry = EntryPoint("bench", "ampere_energy.measurement.meters.cputime:open_meter", meters.ENTRY_POINTS)
    monkeypatch.setattr(meters.importlib.metadata, "entry_points", lambda group: [entry])
    assert meter_names()[-1] == "bench"
    assert dict(open_meter("bench:4").info.details) == {"watts per core": "4"}
