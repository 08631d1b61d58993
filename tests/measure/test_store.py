from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from studies.additive import spec_of

from ampere_energy.errors import FileError
from ampere_energy.measure.devices.simulated import SimulatedDevice
from ampere_energy.measure.measurement import POINT, Measurement
from ampere_energy.measure.store import MeasurementLog
from ampere_energy.model.variants import lessons


def measurements(count: int, seed: int = 0) -> list[Measurement]:
    lesson = lessons(spec_of("lenet5"))[0]
    device = SimulatedDevice(0.02, seed)
    return [device.measure(lesson.variant((1 + i,)), POINT) for i in range(count)]


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    log = MeasurementLog(tmp_path / "deep" / "log.jsonl")
    assert log.read() == []
    kept = measurements(3)
    for measurement in kept:
        log.append(measurement)
    assert log.read() == kept


def test_a_line_torn_anywhere_costs_only_itself(tmp_path: Path) -> None:
    first, second, third = measurements(3)
    log = MeasurementLog(tmp_path / "log.jsonl")
    log.append(first)
    whole = log.path.read_bytes()
    log.append(second)
    line = log.path.read_bytes()[len(whole) :]
    for cut in (1, 2, len(line) // 2, len(line) - 2, len(line) - 1):
        log.path.write_bytes(whole + line[:cut])
        with pytest.warns(UserWarning, match="torn"):
            assert log.read() == [first]
        log.append(third)
        assert log.read() == [first, third]


def test_a_torn_only_line_is_dropped(tmp_path: Path) -> None:
    (measurement,) = measurements(1)
    log = MeasurementLog(tmp_path / "log.jsonl")
    log.path.write_bytes(b'{"schema": 1, "meas')
    with pytest.warns(UserWarning, match="torn"):
        assert log.read() == []
    log.append(measurement)
    assert log.read() == [measurement]


def _write(path: Path, seed: int) -> None:
    for measurement in measurements(40, seed):
        MeasurementLog(path).append(measurement)


def test_two_campaigns_on_one_log_do_not_corrupt_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(path, seed)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    found = MeasurementLog(path).read()
    for seed in (1, 2):
        of_one = [m.windows for m in found if m.device == SimulatedDevice(0.02, seed).info]
        assert of_one == [m.windows for m in measurements(40, seed)]


def test_foreign_and_newer_lines_are_refused(tmp_path: Path) -> None:
    log = MeasurementLog(tmp_path / "log.jsonl")
    for line, message in (
        ("hello", "line 1 is not JSON"),
        ("{}", "line 1 is not a measurement"),
        ('{"schema": 99}', "schema 99, this version reads 1; upgrade"),
        ('{"schema": 1, "measurement": {}}', "line 1 has no 'workload'"),
    ):
        log.path.write_text(line + "\n")
        with pytest.raises(FileError, match=message):
            log.read()


def test_a_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="choose another --out"):
        MeasurementLog(tmp_path / "file" / "log.jsonl").append(measurements(1)[0])
