from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.meters import open_meter
from ampere_energy.measurement.meters.zeus import ZeusMeter
from ampere_energy.measurement.records import Provenance


class Many:
    """GPUs or CPUs as zeus hands them out: a length, and millijoules by index."""

    def __init__(self, *totals: Any) -> None:
        self.totals = list(totals)

    def __len__(self) -> int:
        return len(self.totals)

    def get_total_energy_consumption(self, index: int) -> Any:
        return self.totals[index]


class OldMany:
    """The same, of a zeus that had not renamed its methods."""

    def __len__(self) -> int:
        return 1

    def getTotalEnergyConsumption(self, index: int) -> int:
        return 5000


def absent() -> Any:
    raise RuntimeError("nothing found")


def zeus(gpus: Any = None, cpus: Any = None, chip: Any = None) -> Any:
    """A module like `zeus.device`."""
    soc = SimpleNamespace(get_total_energy_consumption=lambda: chip)
    return SimpleNamespace(
        gpu=SimpleNamespace(get_gpus=absent if gpus is None else lambda: gpus),
        cpu=SimpleNamespace(get_cpus=absent if cpus is None else lambda: cpus),
        soc=SimpleNamespace(get_soc=absent if chip is None else lambda: soc),
    )


def test_gpus_come_first_and_are_added_up() -> None:
    gpus = Many(1000, 7000)
    meter = ZeusMeter("", zeus(gpus, cpus=Many(SimpleNamespace(cpu_mj=1.0))))
    assert meter.info.domains == ("gpu",)
    assert meter.info.provenance is Provenance.MEASURED
    assert meter.read().energy_j == (0.0,)
    gpus.totals = [1500, 9000]
    assert meter.read().energy_j == (2.5,)
    gpus.totals = [1500, 0]
    with pytest.raises(MeterError, match="zeus gpu 1 was reset"):
        meter.read()
    meter.close()


def test_a_chip_is_the_sum_of_its_parts_and_not_of_their_parts() -> None:
    chip = SimpleNamespace(cpu_total_mj=1000, efficiency_cores_mj=[500, 500], gpu_mj=2000, dram_mj=None)
    meter = ZeusMeter("", zeus(chip=chip))
    meter.read()
    chip.cpu_total_mj, chip.gpu_mj, chip.efficiency_cores_mj = 1500, 4000, [900, 900]
    assert meter.read().energy_j == (2.5,)
    assert (meter.info.domains, meter.info.details) == (("soc",), (("counters", "cpu_total_mj, gpu_mj"),))
    chip.dram_mj = 9000
    with pytest.raises(MeterError, match="zeus reads cpu_total_mj, gpu_mj, dram_mj, at first cpu_total_mj, gpu_mj"):
        meter.read()


def test_processors_when_asked_for() -> None:
    cpus = Many(SimpleNamespace(cpu_mj=100.0, dram_mj=None))
    meter = ZeusMeter("cpu", zeus(Many(1), cpus))
    meter.read()
    cpus.totals = [SimpleNamespace(cpu_mj=350.0, dram_mj=None)]
    assert meter.read().energy_j == (pytest.approx(0.25),)


def test_an_older_zeus_is_read_too() -> None:
    assert ZeusMeter("gpu", zeus(OldMany())).read().energy_j == (0.0,)


@pytest.mark.parametrize(
    ("domain", "device"),
    [
        ("", zeus()), ("", zeus(Many(), Many(), SimpleNamespace())), ("gpu", zeus(Many())),
        ("cpu", zeus(Many(1), Many())), ("soc", zeus(Many(1), chip={})), ("gpu", zeus(Many(None))),
    ],
)  # fmt: skip
def test_nothing_to_read_is_an_error_and_never_zero(domain: str, device: Any) -> None:
    with pytest.raises(MeterError, match=r"zeus (finds no counter of|cannot read).*choose another --meter"):
        ZeusMeter(domain, device)


def test_what_vanishes_later_is_an_error() -> None:
    gpus = Many(1000)
    meter = ZeusMeter("gpu", zeus(gpus))
    gpus.totals = []
    with pytest.raises(MeterError, match="zeus finds no counter of gpu"):
        meter.read()


@pytest.mark.skipif(importlib.util.find_spec("zeus") is not None, reason="zeus is installed")
def test_without_zeus_it_says_how_to_install_it() -> None:
    with pytest.raises(MeterError, match=r"pip install 'ampere-energy\[zeus\]'"):
        open_meter("zeus")


def test_requests() -> None:
    with pytest.raises(RequestError, match="zeus:tpu; give zeus, or zeus: and one of gpu, soc, cpu"):
        open_meter("zeus:tpu")
