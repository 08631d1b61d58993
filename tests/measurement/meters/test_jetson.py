from __future__ import annotations

from pathlib import Path

import pytest

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters.jetson import TOTALS, JetsonMeter, find_rails
from ampere_energy.measurement.records import Provenance


class Clock:
    now_s = 10.0

    def __call__(self) -> float:
        return self.now_s


def hwmon(root: Path, chip: str, rails: dict[str, tuple[int, int]]) -> Path:
    """A chip of the hwmon driver: labels, and mV and mA."""
    folder = root / "ina3221" / chip / "hwmon" / f"hwmon{chip[-1]}"
    folder.mkdir(parents=True)
    for i, (label, (millivolts, milliamperes)) in enumerate(rails.items(), 1):
        (folder / f"in{i}_label").write_text(f"{label}\n")
        (folder / f"in{i}_input").write_text(f"{millivolts}\n")
        (folder / f"curr{i}_input").write_text(f"{milliamperes}\n")
    (folder / "in7_label").write_text("sum of shunt voltages\n")
    (folder / "in7_input").write_text("760\n")
    return folder


def iio(root: Path, chip: str, rails: dict[str, int]) -> Path:
    """A chip of the older iio driver: names, and mW."""
    folder = root / "ina3221x" / chip / "iio:device0"
    folder.mkdir(parents=True)
    for i, (label, milliwatts) in enumerate(rails.items()):
        (folder / f"rail_name_{i}").write_text(f"{label}\n")
        (folder / f"in_power{i}_input").write_text(f"{milliwatts}\n")
    return folder


def joules_of_a_tenth(meter: JetsonMeter, clock: Clock) -> float:
    before = meter.read().total_j
    clock.now_s += 0.1
    return meter.read().total_j - before


def test_a_board_with_an_input_rail_is_read_there(tmp_path: Path) -> None:
    hwmon(tmp_path, "1-0040", {"VDD_IN": (5000, 2000), "VDD_CPU_GPU_CV": (5000, 900), "VDD_SOC": (5000, 300)})
    clock = Clock()
    meter = JetsonMeter(root=tmp_path, clock=clock)
    assert joules_of_a_tenth(meter, clock) == pytest.approx(1.0)
    assert meter.info.domains == ("soc",)
    assert meter.info.provenance is Provenance.MEASURED
    assert meter.info.details == (("rails", "VDD_IN"), ("energy", "integrated power"))
    meter.close()


def test_agx_orin_adds_up_what_feeds_it_side_by_side(tmp_path: Path) -> None:
    hwmon(tmp_path, "1-0040", {"VDD_GPU_SOC": (10000, 1000), "VDD_CPU_CV": (10000, 200), "VIN_SYS_5V0": (5000, 800)})
    hwmon(tmp_path, "1-0041", {"NC": (0, 0), "VDDQ_VDD2_1V8AO": (5000, 100)})
    clock = Clock()
    meter = JetsonMeter(root=tmp_path, clock=clock)
    assert joules_of_a_tenth(meter, clock) == pytest.approx(1.6)
    assert meter.info.details[0] == ("rails", "VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0")
    assert "NC" not in find_rails(tmp_path)


def test_the_older_driver_and_agx_xavier(tmp_path: Path) -> None:
    iio(tmp_path, "1-0040", {"GPU": 1000, "CPU": 2000, "SOC": 300})
    iio(tmp_path, "1-0041", {"CV": -8, "VDDRQ": 400, "SYS5V": 5000})
    clock = Clock()
    assert joules_of_a_tenth(JetsonMeter(root=tmp_path, clock=clock), clock) == pytest.approx(0.8692)


@pytest.mark.parametrize(
    ("rails", "total"),
    [
        ({"POM_5V_IN": 3000, "POM_5V_GPU": 1000, "POM_5V_CPU": 500}, "POM_5V_IN"),
        ({"VDD_SYS_GPU": 1000, "VDD_SYS_SOC": 500, "VDD_IN": 7000}, "VDD_IN"),
    ],
)
def test_nano_and_tx2(tmp_path: Path, rails: dict[str, int], total: str) -> None:
    iio(tmp_path, "0-0041", rails)
    clock = Clock()
    meter = JetsonMeter(root=tmp_path, clock=clock)
    assert joules_of_a_tenth(meter, clock) == pytest.approx(rails[total] / 1e4)


def test_rails_may_be_chosen(tmp_path: Path) -> None:
    hwmon(tmp_path, "1-0040", {"VDD_IN": (5000, 2000), "VDD_CPU_GPU_CV": (5000, 900), "VDD_SOC": (5000, 300)})
    clock = Clock()
    meter = JetsonMeter(("VDD_CPU_GPU_CV", "VDD_SOC"), tmp_path, clock)
    assert joules_of_a_tenth(meter, clock) == pytest.approx(0.6)
    for labels in (("VDD_GPU",), ("VDD_SOC", "VDD_SOC")):
        with pytest.raises(MeterError, match="choose from VDD_IN, VDD_CPU_GPU_CV, VDD_SOC"):
            JetsonMeter(labels, tmp_path)


def test_an_unknown_board_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="no INA3221 power sensor under"):
        JetsonMeter(root=tmp_path)
    hwmon(tmp_path, "1-0040", {"VDD_GPU_SOC": (5000, 1000), "VDD_CPU_CV": (5000, 200)})
    with pytest.raises(MeterError, match="it has VDD_GPU_SOC, VDD_CPU_CV; name the ones to add up"):
        JetsonMeter(root=tmp_path)
    assert list(find_rails(tmp_path)) == ["VDD_GPU_SOC", "VDD_CPU_CV"]
    assert all(len(set(total)) == len(total) for total in TOTALS)


def test_gaps_and_broken_sensors_raise(tmp_path: Path) -> None:
    folder = hwmon(tmp_path, "1-0040", {"VDD_IN": (5000, 2000)})
    clock = Clock()
    meter = JetsonMeter(root=tmp_path, clock=clock)
    meter.read()
    clock.now_s += 2.0
    with pytest.raises(MeterError, match="VDD_IN was not read for 2 s"):
        meter.read()
    (folder / "curr1_input").write_text("-500\n")
    with pytest.raises(MeterError, match=r"reads -2\.5 W"):
        meter.read()
    (folder / "curr1_input").unlink()
    with pytest.raises(MeterError, match="curr1_input cannot be read"):
        meter.read()
