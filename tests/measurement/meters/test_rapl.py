from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.meters import open_meter, survey
from ampere_energy.measurement.meters.rapl import RaplMeter
from ampere_energy.measurement.records import Provenance
from benchmarks.studies.counters import unreadable

RANGE_UJ = 262_143_328_850
ZONES = {
    "intel-rapl:0": "package-0",
    "intel-rapl:0:0": "core",
    "intel-rapl:0:1": "uncore",
    "intel-rapl:0:2": "dram",
    "intel-rapl:1": "package-1",
    "intel-rapl:1:0": "dram",
    "intel-rapl:2": "psys",
    "intel-rapl-mmio:0": "package-0",
}


def tree(root: Path, zones: dict[str, str] = ZONES) -> None:
    (root / "intel-rapl").mkdir(parents=True)
    for zone, name in zones.items():
        (root / zone).mkdir()
        (root / zone / "name").write_text(f"{name}\n")
        (root / zone / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        write(root, **{zone: 1_000_000})


def write(root: Path, **microjoules: int) -> None:
    for zone, value in microjoules.items():
        (root / zone / "energy_uj").write_text(f"{value}\n")


def ticking() -> Callable[[], float]:
    moments = iter(range(1_000_000))
    return lambda: float(next(moments))


def test_packages_and_memory_are_added_up_and_nothing_twice(tmp_path: Path) -> None:
    tree(tmp_path)
    meter = RaplMeter(root=tmp_path, clock=ticking())
    assert meter.info.domains == ("cpu", "dram")
    assert meter.info.provenance is Provenance.MEASURED
    assert meter.info.tick_s == 0.001
    assert meter.read().energy_j == (0.0, 0.0)
    # Each zone grows by another power of two of joules, so that the sums tell which were added.
    write(tmp_path, **{zone: 1_000_000 + 1_000_000 * 2**i for i, zone in enumerate(ZONES)})
    reading = meter.read()
    assert reading.energy_j == (1.0 + 16.0, 8.0 + 32.0)
    assert reading.at_s == 1.0
    meter.close()


def test_the_whole_board_only_when_asked_for(tmp_path: Path) -> None:
    tree(tmp_path)
    meter = RaplMeter(board=True, root=tmp_path, clock=ticking())
    meter.read()
    write(tmp_path, **{zone: 1_000_000 + 1_000_000 * 2**i for i, zone in enumerate(ZONES)})
    assert meter.info.domains == ("soc",)
    assert meter.read().energy_j == (64.0,)


def test_a_machine_without_memory_zones_or_with_dies(tmp_path: Path) -> None:
    tree(tmp_path, {"intel-rapl:0": "package-0-die-0", "intel-rapl:1": "package-0-die-1"})
    meter = RaplMeter(root=tmp_path, clock=ticking())
    meter.read()
    write(tmp_path, **{"intel-rapl:0": 2_000_000, "intel-rapl:1": 5_000_000})
    assert (meter.info.domains, meter.read().energy_j) == (("cpu",), (5.0,))
    with pytest.raises(MeterError, match="no psys zone here, only package-0-die-0, package-0-die-1"):
        RaplMeter(board=True, root=tmp_path)


def test_wraps_at_its_own_range(tmp_path: Path) -> None:
    tree(tmp_path, {"intel-rapl:0": "package-0"})
    meter = RaplMeter(root=tmp_path, clock=ticking())
    write(tmp_path, **{"intel-rapl:0": RANGE_UJ - 3_000_000})
    meter.read()
    write(tmp_path, **{"intel-rapl:0": 4_000_000})
    assert meter.read().energy_j == (pytest.approx(7.0, abs=1e-9),)
    write(tmp_path, **{"intel-rapl:0": 1_000_000})
    with pytest.raises(MeterError, match="zone intel-rapl:0 was reset from 4 J to 1 J"):
        meter.read()


def test_root_only_counters_say_how_to_open_them(tmp_path: Path) -> None:
    tree(tmp_path)
    meter = RaplMeter(root=tmp_path)
    path = tmp_path / "intel-rapl:0" / "energy_uj"
    with unreadable(path, errno.EACCES), pytest.raises(MeterError) as caught:
        meter.read()
    assert str(path) in caught.value.what
    assert f"sudo chmod a+r {tmp_path}/intel-rapl:*/energy_uj" in caught.value.remedy
    assert "run as root" in caught.value.remedy
    meter.read()


def test_no_rapl_says_what_to_use(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "missing"):
        with pytest.raises(MeterError, match=r"no RAPL on this machine.*virtual machines.*use --meter"):
            RaplMeter(root=root)


def test_a_range_of_nothing_is_refused(tmp_path: Path) -> None:
    tree(tmp_path)
    (tmp_path / "intel-rapl:0" / "max_energy_range_uj").write_text("0\n")
    with pytest.raises(MeterError, match="wraps at 0 µJ"):
        RaplMeter(root=tmp_path)


def test_requests() -> None:
    with pytest.raises(RequestError, match="--meter rapl:psyss; give rapl, or rapl:psys"):
        open_meter("rapl:psyss")
    (state,) = survey(["rapl"])
    assert state.problem is None or "no RAPL on this machine" in state.problem or "sudo chmod" in state.problem
