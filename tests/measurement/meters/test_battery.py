from __future__ import annotations

from pathlib import Path

import pytest

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.meters import open_meter
from ampere_energy.measurement.meters.battery import BatteryMeter
from ampere_energy.measurement.records import Provenance


class Clock:
    now_s = 10.0

    def __call__(self) -> float:
        return self.now_s


def supply(root: Path, name: str, kind: str = "Battery", **files: object) -> Path:
    (root / name).mkdir(exist_ok=True)
    for file, value in {"type": kind, **({"status": "Discharging"} if kind == "Battery" else {}), **files}.items():
        (root / name / file).write_text(f"{value}\n")
    return root / name


def test_energy_that_falls_is_energy_used(tmp_path: Path) -> None:
    supply(tmp_path, "AC", "Mains", online=0)
    supply(tmp_path, "mouse", energy_now=1, scope="Device")
    bat = supply(tmp_path, "BAT0", energy_now=50_000_000, power_now=9_000_000, voltage_now=12_000_000)
    meter = BatteryMeter(root=tmp_path)
    assert meter.info.domains == ("battery",)
    assert meter.info.provenance is Provenance.MEASURED
    assert meter.info.details == (("batteries", "BAT0"), ("energy", "energy_now"), ("charger", "refused"))
    assert meter.read().total_j == 0.0
    supply(tmp_path, "BAT0", energy_now=49_990_000)
    assert meter.read().total_j == pytest.approx(36.0)
    (bat / "energy_now").write_text("49980000\n")
    assert meter.read().total_j == pytest.approx(72.0)
    meter.close()


@pytest.mark.parametrize("file", ["charge_now", "charge_counter"])
def test_charge_is_worth_the_voltage_at_which_it_flowed(tmp_path: Path, file: str) -> None:
    supply(tmp_path, "battery", voltage_now=4_000_000, **{file: 3_000_000})
    meter = BatteryMeter(root=tmp_path)
    meter.read()
    # The voltage sags under load: of itself that is no energy.
    supply(tmp_path, "battery", voltage_now=3_600_000)
    assert meter.read().total_j == 0.0
    supply(tmp_path, "battery", **{file: 2_999_000})
    assert meter.read().total_j == pytest.approx(0.001 * 3.6 * 3600)
    supply(tmp_path, "battery", voltage_now=3_800_000, **{file: 2_998_000})
    assert meter.read().total_j == pytest.approx(0.001 * (3.6 + 3.7) * 3600)
    assert meter.info.details[1] == ("energy", f"{file} × voltage_now")


@pytest.mark.parametrize(
    "files", [{"current_now": -500_000, "voltage_now": 4_000_000}, {"current_now": 500_000, "voltage_now": 4_000_000},
              {"power_now": 2_000_000}]
)  # fmt: skip
def test_power_is_integrated_where_there_is_no_gauge(tmp_path: Path, files: dict[str, int]) -> None:
    supply(tmp_path, "BAT0", **files)
    clock = Clock()
    meter = BatteryMeter(root=tmp_path, clock=clock)
    assert "integrated" in dict(meter.info.details)["energy"]
    meter.read()
    clock.now_s += 2.0
    assert meter.read().total_j == pytest.approx(4.0)
    clock.now_s += 60.0
    with pytest.raises(MeterError, match="not read for 60 s"):
        meter.read()
    assert meter.read().total_j == pytest.approx(4.0)
    supply(tmp_path, "BAT0", **{next(iter(files)): 0})
    with pytest.raises(MeterError, match="_now 0; choose another"):
        meter.read()


def test_two_batteries_are_added_up_and_androids_gauges_are_not(tmp_path: Path) -> None:
    supply(tmp_path, "BAT0", energy_now=20_000_000)
    supply(tmp_path, "BAT1", energy_now=30_000_000, status="Not charging")
    meter = BatteryMeter(root=tmp_path)
    meter.read()
    supply(tmp_path, "BAT0", energy_now=19_990_000)
    supply(tmp_path, "BAT1", energy_now=29_970_000)
    assert meter.read().total_j == pytest.approx(4 * 36.0)
    supply(tmp_path, "battery", energy_now=10_000_000)
    assert dict(BatteryMeter(root=tmp_path).info.details)["batteries"] == "battery"


@pytest.mark.parametrize(
    ("status", "online", "refused"),
    [
        ("Charging", 1, True), ("Charging", 0, True), ("Full", 1, True), ("Not charging", 1, True),
        ("Unknown", 1, True), ("Full", 0, False), ("Not charging", 0, False), ("Discharging", 0, False),
    ],
)  # fmt: skip
def test_a_charger_is_refused_unless_told_otherwise(tmp_path: Path, status: str, online: int, refused: bool) -> None:
    supply(tmp_path, "AC", "Mains", online=online)
    supply(tmp_path, "BAT0", energy_now=50_000_000, status=status)
    meter = BatteryMeter(root=tmp_path)
    if refused:
        with pytest.raises(
            MeterError, match=f"BAT0 is {status.lower()} on a charger; unplug it, or use battery:anyway"
        ):
            meter.read()
    else:
        assert meter.read().total_j == 0.0
    anyway = BatteryMeter(anyway=True, root=tmp_path)
    assert anyway.read().total_j == 0.0
    assert anyway.info != meter.info


def test_plugging_in_faults_the_reading_and_what_follows_starts_anew(tmp_path: Path) -> None:
    supply(tmp_path, "AC", "Mains", online=0)
    supply(tmp_path, "BAT0", energy_now=50_000_000)
    meter = BatteryMeter(root=tmp_path)
    meter.read()
    supply(tmp_path, "BAT0", energy_now=49_990_000)
    meter.read()
    supply(tmp_path, "BAT0", status="Charging", energy_now=49_000_000)
    with pytest.raises(MeterError, match="charging"):
        meter.read()
    supply(tmp_path, "BAT0", status="Discharging", energy_now=48_000_000)
    assert meter.read().total_j == pytest.approx(36.0)


@pytest.mark.parametrize("anyway", [False, True])
def test_a_rise_in_use_is_a_fault_and_never_negative_energy(tmp_path: Path, anyway: bool) -> None:
    supply(tmp_path, "BAT0", energy_now=50_000_000)
    meter = BatteryMeter(anyway, tmp_path)
    meter.read()
    supply(tmp_path, "BAT0", energy_now=50_010_000)
    with pytest.raises(MeterError, match="energy_now of a battery in use rose from 50000000 to 50010000"):
        meter.read()
    supply(tmp_path, "BAT0", energy_now=49_000_000)
    assert meter.read().total_j == 0.0
    supply(tmp_path, "BAT0", energy_now=48_990_000)
    assert meter.read().total_j == pytest.approx(36.0)


def test_files_that_cannot_be_filled_are_passed_over(tmp_path: Path) -> None:
    supply(tmp_path, "battery", charge_counter=0, current_now=-250_000, voltage_now=4_000_000)
    (tmp_path / "battery" / "energy_now").write_text("")
    meter = BatteryMeter(root=tmp_path)
    assert dict(meter.info.details)["energy"] == "current_now × voltage_now, integrated"
    (tmp_path / "battery" / "voltage_now").unlink()
    with pytest.raises(MeterError, match="voltage_now cannot be read"):
        meter.read()
    with pytest.raises(MeterError, match="voltage_now cannot be read"):
        BatteryMeter(root=tmp_path)


def test_no_battery(tmp_path: Path) -> None:
    with pytest.raises(MeterError, match="no battery under"):
        BatteryMeter(root=tmp_path)
    supply(tmp_path, "BAT0")
    with pytest.raises(MeterError, match="neither energy, charge nor power"):
        BatteryMeter(root=tmp_path)
    with pytest.raises(RequestError, match="battery:always; give battery or battery:anyway"):
        open_meter("battery:always")
