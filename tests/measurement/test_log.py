from __future__ import annotations

import gzip
import multiprocessing
import os
import random
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from ampere_energy import files
from ampere_energy.errors import FileError
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import POINT
from ampere_energy.measurement.records import Measurement
from ampere_energy.model.variants import lessons
from benchmarks.specs import spec_of
from benchmarks.studies import hostile_profiles


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


@pytest.mark.parametrize("joules", [0.0, 1e-20, 1e20])
def test_a_line_with_joules_that_no_step_takes_is_refused(tmp_path: Path, joules: float) -> None:
    log, [kept] = MeasurementLog(tmp_path / "log.jsonl"), measurements(1)
    log.append(replace(kept, windows=tuple(replace(window, energy_j=joules) for window in kept.windows)))
    with pytest.raises(FileError, match="line 1 has joules or seconds that no step takes") as error:
        log.read()
    assert "take that line out" in error.value.remedy


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


def packed(path: Path, keep: bool = False) -> Path:
    """A log, packed as gzip does it."""
    found = path.with_name(f"{path.name}.gz")
    found.write_bytes(gzip.compress(path.read_bytes()))
    if not keep:
        path.unlink()
    return found


def test_a_packed_log_is_the_same_log(tmp_path: Path) -> None:
    log, kept = MeasurementLog(tmp_path / "log.jsonl"), measurements(4)
    assert log.empty()
    for measurement in kept[:3]:
        log.append(measurement)
    other = packed(log.path)
    assert log.exists()
    assert not log.empty()
    assert log.read() == kept[:3]
    log.append(kept[3])
    assert log.read() == kept
    assert not other.exists()  # nothing is there twice


def test_a_log_beside_its_packed_copy_counts_once(tmp_path: Path) -> None:
    log, kept = MeasurementLog(tmp_path / "log.jsonl"), measurements(4)
    log.append(kept[0])
    log.append(kept[1])
    packed(log.path, keep=True)
    assert log.read() == kept[:2]
    first = log.path.read_bytes()
    log.append(kept[2])
    assert log.read() == kept[:3]
    packed(log.path, keep=True)
    log.path.write_bytes(first)  # an older copy
    assert log.read() == kept[:3]
    log.append(kept[3])
    assert log.read() == kept


def test_lines_that_were_added_beside_a_packed_log_count_too(tmp_path: Path) -> None:
    """As they were while a packed log was not found."""
    log, kept = MeasurementLog(tmp_path / "log.jsonl"), measurements(3)
    log.append(kept[0])
    packed(log.path)
    MeasurementLog(tmp_path / "new.jsonl").append(kept[1])
    (tmp_path / "new.jsonl").rename(log.path)
    with pytest.warns(UserWarning, match="hold different measurements: both count"):
        assert log.read() == kept[:2]
    with pytest.warns(UserWarning, match="both count"):
        log.append(kept[2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert log.read() == kept


def test_a_log_is_set_aside_packed_or_not(tmp_path: Path) -> None:
    log, (first, second) = MeasurementLog(tmp_path / "log.v1.jsonl"), measurements(2)
    assert log.set_aside() is None
    log.append(first)
    assert log.set_aside() == tmp_path / "log.v1.1.jsonl"
    assert log.empty()
    log.append(second)
    packed(log.path)
    assert log.set_aside() == tmp_path / "log.v1.2.jsonl.gz"
    assert MeasurementLog(tmp_path / "log.v1.1.jsonl").read() == [first]
    assert MeasurementLog(tmp_path / "log.v1.2.jsonl").read() == [second]


@pytest.mark.timeout(60)
def test_what_is_no_log_is_refused_at_once(tmp_path: Path) -> None:
    log = MeasurementLog(tmp_path / "log.jsonl")
    os.mkfifo(log.path)
    for use in (log.read, lambda: log.append(measurements(1)[0])):
        with pytest.raises(FileError, match="it is a FIFO"):
            use()
    log.path.unlink()
    bomb = tmp_path / "log.jsonl.gz"
    bomb.write_bytes(gzip.compress(b"\0" * (2**27 + 1), 1))
    with pytest.raises(FileError, match="larger than any log"):
        log.read()
    bomb.unlink()
    log.path.write_bytes(b"{}\n" * 2**16)
    with pytest.raises(FileError, match="lines, more than"):
        log.read()


def test_a_log_has_texts_that_a_terminal_may_show(tmp_path: Path) -> None:
    log, (one,) = MeasurementLog(tmp_path / "log.jsonl"), measurements(1)
    failed = replace(one, windows=(), busy=(), infeasible="\x1b[2Jgone\udc80" + "x" * 10**4)
    log.append(failed)
    (kept,) = log.read()
    assert (kept.infeasible or "").startswith("\\x1b[2Jgone\\udc80xxx")
    text = log.path.read_text()
    for odd in ("\\u001b[2J", "x" * 5000, "\\ud800"):
        log.path.write_text(text.replace("\\\\x1b[2Jgone", odd))
        with pytest.raises(FileError, match="too long or has control characters; take that line out"):
            log.read()


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, kept = MeasurementLog(tmp_path / "log.jsonl"), measurements(3)
    log.append(kept[0])
    for way in ("put", "sync"):

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(files, way, full)
            with pytest.raises(FileError, match="make room on the disk, then run this again"):
                log.append(kept[1])
        assert log.read() == kept[:1]
    log.append(kept[1])
    packed(log.path)
    for way in ("put", "sync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(files, way, full)
            with pytest.raises(FileError, match="make room on the disk"):
                log.append(kept[2])
        assert log.read() == kept[:2]
    log.append(kept[2])
    assert log.read() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_every_refusal_of_a_damaged_line_has_a_next_step(tmp_path: Path) -> None:
    log, draw, refused = MeasurementLog(tmp_path / "log.jsonl"), random.Random(0), 0
    for one in measurements(3):
        log.append(one)
    lines = log.path.read_text().splitlines()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torn lines
        for _ in range(200):
            log.path.write_bytes(hostile_profiles.case(draw, lines) + b"\n")
            try:
                log.read()
            except FileError as error:
                refused += 1
                assert error.remedy  # noqa: PT017 - of all that are refused
    assert refused > 100
