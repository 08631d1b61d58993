"""A fake NVML drives the real meter."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters.nvml import NvmlMeter
from ampere_energy.measurement.records import Provenance
from ampere_energy.testing import check_meter


class FakeError(Exception):
    pass


class FakeNvml:
    """Two cards; one value of energy (mJ) and power (mW) for both."""

    NVMLError = FakeError
    NVML_TEMPERATURE_GPU = NVML_CLOCK_SM = NVML_CLOCK_MEM = 0

    def __init__(self, counter: bool = True, instant: bool = True, cards: int = 2) -> None:
        self.counter, self.instant, self.cards = counter, instant, cards
        self.energy_mj, self.power_mw = 1_000_000, 120_000
        self.fault: str | None = None
        self.opened = 0

    def nvmlInit(self) -> None:
        if self.cards == 0:
            raise FakeError("Driver Not Loaded")
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self.opened -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index >= self.cards:
            raise FakeError("Invalid Argument")
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return {"GPU-one": 0, "GPU-two": 1}[uuid]

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return f"Fake {handle}".encode()

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        self._check()
        if not self.counter:
            raise FakeError("Not Supported")
        return self.energy_mj

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self._check()
        return self.power_mw

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[Any]:
        self._check()
        assert fields == [186]
        return [SimpleNamespace(nvmlReturn=0 if self.instant else 3, value=SimpleNamespace(uiVal=self.power_mw))]

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 41

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:
        raise FakeError("Not Supported")

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return 700_000

    def _check(self) -> None:
        if self.fault:
            raise FakeError(self.fault)


def test_the_counter_is_read_in_joules() -> None:
    nvml = FakeNvml()
    meter = NvmlMeter("", nvml)
    assert (meter.info.tick_s, meter.info.domains, meter.info.provenance) == (0.1, ("gpu",), Provenance.MEASURED)
    assert meter.read().total_j == 0
    nvml.energy_mj += 2500
    assert meter.read().total_j == 2.5
    meter.close()
    assert nvml.opened == 0


@pytest.mark.parametrize("instant", [True, False])
def test_power_comes_along_now_and_then(instant: bool) -> None:
    meter = NvmlMeter("0", FakeNvml(instant=instant))
    powers = [meter.read().power_w for _ in range(10)]
    assert powers.count(120.0) == 2
    assert powers.count(None) == 8


def test_a_card_without_the_counter_is_integrated_and_says_so() -> None:
    nvml = FakeNvml(counter=False)
    meter = NvmlMeter("1", nvml)
    assert dict(meter.info.details) == {"gpu": "Fake 1", "energy": "integrated power"}
    assert meter.info.tick_s == 0
    first = meter.read()
    second = meter.read()
    assert second.total_j == pytest.approx(120.0 * (second.at_s - first.at_s))


def test_cards_are_chosen_by_index_or_uuid() -> None:
    assert dict(NvmlMeter("1", FakeNvml()).info.details)["gpu"] == "Fake 1"
    assert dict(NvmlMeter("GPU-two", FakeNvml()).info.details)["gpu"] == "Fake 1"
    for gpu in ("2", "first"):
        with pytest.raises(MeterError, match=f"cannot open GPU {gpu}"):
            NvmlMeter(gpu, FakeNvml())
    with pytest.raises(MeterError, match=r"Driver Not Loaded.*nvidia-smi"):
        NvmlMeter("", FakeNvml(cards=0))


def test_faults_and_resets_never_become_joules() -> None:
    draw = random.Random(1)
    nvml = FakeNvml()
    meter = NvmlMeter("", nvml)
    true_j, last = 0.0, meter.read().total_j
    for _ in range(300):
        spent = draw.randrange(0, 2_000_000)
        choice = draw.random()
        if choice < 0.2:
            nvml.fault = draw.choice(["GPU is lost", "Unknown Error", "Timeout"])
            with pytest.raises(MeterError, match=nvml.fault):
                meter.read()
            nvml.fault = None
        elif choice < 0.4:
            nvml.energy_mj = draw.randrange(0, max(1, nvml.energy_mj))
            with pytest.raises(MeterError, match="was reset"):
                meter.read()
            last = meter.read().total_j
            true_j = last
        else:
            nvml.energy_mj += spent
            true_j += spent / 1e3
            now = meter.read().total_j
            assert now >= last
            assert now == pytest.approx(true_j, rel=1e-9, abs=1e-9)
            last = now


def test_conditions_admit_what_the_card_does_not_tell() -> None:
    told = dict(NvmlMeter("", FakeNvml()).conditions())
    assert told["power limit W"] == "700.0"
    assert told["temperature C"] == "41"
    assert told["sm clock MHz"] == "not told"


@pytest.mark.parametrize("counter", [True, False])
def test_the_contract(counter: bool) -> None:
    check_meter(lambda: NvmlMeter("", FakeNvml(counter=counter)))
