from __future__ import annotations

from pathlib import Path

import pytest

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters.counters import Integrated, Unrolled, read_number, read_text
from benchmarks.studies import counters as study


def test_energy_is_exact_over_wraps_anywhere() -> None:
    found = study.run_wraps(500, seed=1)
    assert found["wraps"] > 1000
    assert found["most wraps of one"] > 5
    assert found["worst relative error"] < 1e-9
    assert found["falls"] == 0


def test_every_reset_that_can_be_seen_raises() -> None:
    found = study.run_resets(500, seed=1)
    assert found["missed"] == found["invented"] == 0
    assert found["raised"] == 500 - found["unseeable"]
    assert found["unseeable"] < 50


def test_no_fault_of_a_real_meter_invents_a_joule(tmp_path: Path) -> None:
    found = study.run_faults(500, seed=1, folder=tmp_path)
    assert found["faults"] == found["raised"] == found["causes told"] == 500
    assert all(found[kind] > 30 for kind in study.FAULTS)
    assert found["most invented J"] < 1e-9
    assert 0.9 * found["used J"] < found["booked J"] < found["used J"]


def test_growth_from_a_torn_reading_is_not_booked() -> None:
    counter = Unrolled("c", 262143.0, 2000.0)
    assert counter.add(120.5, 0.0) == 0.0
    with pytest.raises(MeterError, match=r"c was reset from 120\.5 J to 12 J; measure again"):
        counter.add(12.0, 0.1)
    assert counter.add(121.0, 0.2) == 0.0
    assert counter.add(123.0, 0.3) == 2.0


def test_a_value_no_counter_has_raises_and_changes_nothing() -> None:
    counter = Unrolled("c", 100.0, 2000.0)
    counter.add(10.0, 0.0)
    for value in (float("nan"), float("inf"), -1.0, 100.5):
        with pytest.raises(MeterError, match="c reads"):
            counter.add(value, 0.5)
    assert counter.add(15.0, 1.0) == 5.0


def test_watts_are_added_up_and_gaps_are_not_filled() -> None:
    sensor = Integrated("s", longest_gap_s=1.0)
    assert [sensor.add(w, t) for w, t in ((10.0, 0.0), (20.0, 1.0), (20.0, 1.5))] == [0.0, 15.0, 25.0]
    with pytest.raises(MeterError, match="s was not read for 2 s"):
        sensor.add(20.0, 3.5)
    assert sensor.add(40.0, 4.0) == 40.0
    for value in (float("nan"), -1.0):
        with pytest.raises(MeterError, match="s reads"):
            sensor.add(value, 4.5)


def test_small_files(tmp_path: Path) -> None:
    file = tmp_path / "n"
    file.write_text(" 42\n")
    assert (read_text(file), read_number(file)) == ("42", 42)
    for text, message in (("", "is empty"), ("1.5", r"holds '1\.5', not a whole number"), ("12x", "holds '12x'")):
        file.write_text(text)
        with pytest.raises(MeterError, match=message):
            read_number(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(MeterError, match="cannot be read"):
        read_number(file)
    with pytest.raises(MeterError, match="No such file"):
        read_number(tmp_path / "gone")
