"""NVIDIA GPUs through NVML: the total-energy counter, and integrated power where a card has none.

The counter counts millijoules since the driver was loaded and ticks about every 100 ms; one reading takes a few
milliseconds, so it is read in a process of its own, never in the training loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from typing import Any

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.counters import MOST_W, Integrated, Unrolled
from ampere_energy.measurement.records import MeterInfo, Provenance

TICK_S = 0.1
_POWER_EVERY = 5  # readings; the counter is what matters, and each call costs about 2 ms
_INSTANT_POWER = 186  # NVML_FI_DEV_POWER_INSTANT: not averaged over the last second, as the older call is


class NvmlMeter:
    """One GPU.

    Args:
        gpu: its index, or its UUID (`GPU-…`); the first where empty.
        nvml: the `pynvml` module.
    """

    def __init__(self, gpu: str, nvml: Any) -> None:
        self._nvml = nvml
        try:
            nvml.nvmlInit()
            if gpu.startswith(("GPU-", "MIG-")):
                self._handle = nvml.nvmlDeviceGetHandleByUUID(gpu)
            else:
                self._handle = nvml.nvmlDeviceGetHandleByIndex(int(gpu or 0))
            self._name = _text(nvml.nvmlDeviceGetName(self._handle))
        except (nvml.NVMLError, ValueError) as error:
            raise MeterError(
                f"NVML cannot open GPU {gpu or '0'} ({error})", "is there an NVIDIA driver? nvidia-smi lists GPUs"
            ) from error
        self._label = f"GPU {self._name}"
        self._counts = self._has_counter()
        self._readings = 0
        self._unrolled = Unrolled(self._label, None, MOST_W["nvml"])
        self._integrated = Integrated(self._label, longest_gap_s=1.0, most_w=MOST_W["nvml"])

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        how = "total-energy counter" if self._counts else "integrated power"
        details = (("gpu", self._name), ("energy", how))
        return MeterInfo("nvml", Provenance.MEASURED, ("gpu",), TICK_S if self._counts else 0.0, details)

    def read(self) -> Reading:
        """The counter and the power now."""
        try:
            if self._counts:
                raw_j = self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1e3
                at_s = time.monotonic()
                self._readings += 1
                power_w = self._power_w() if self._readings % _POWER_EVERY == 1 else None
                return Reading(at_s, (self._unrolled.add(raw_j, at_s),), power_w)
            power_w = self._power_w()
            at_s = time.monotonic()
            return Reading(at_s, (self._integrated.add(power_w, at_s),))
        except self._nvml.NVMLError as error:
            raise MeterError(f"NVML cannot read {self._label} ({error})", "see nvidia-smi") from error

    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Temperature, clocks, power limit and driver now, as far as the card tells."""
        n, h = self._nvml, self._handle
        return (
            ("driver", self._driver),
            ("temperature C", self._answer(lambda: n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU))),
            ("sm clock MHz", self._answer(lambda: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM))),
            ("memory clock MHz", self._answer(lambda: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM))),
            ("power limit W", self._answer(lambda: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1e3)),
        )

    @cached_property
    def _driver(self) -> str:
        return self._answer(lambda: _text(self._nvml.nvmlSystemGetDriverVersion()))

    def _answer(self, ask: Callable[[], Any]) -> str:
        try:
            return str(ask())
        except self._nvml.NVMLError:
            return "not told"

    def close(self) -> None:
        """Lets go of NVML."""
        self._nvml.nvmlShutdown()

    def _has_counter(self) -> bool:
        try:
            self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        except self._nvml.NVMLError:
            return False
        return True

    def _power_w(self) -> float:
        values = self._nvml.nvmlDeviceGetFieldValues(self._handle, [_INSTANT_POWER])
        if values and values[0].nvmlReturn == 0:
            return float(values[0].value.uiVal) / 1e3
        return float(self._nvml.nvmlDeviceGetPowerUsage(self._handle)) / 1e3


def open_meter(argument: str) -> NvmlMeter:
    """`nvml`, `nvml:1` or `nvml:GPU-…`."""
    try:
        import pynvml
    except ImportError as error:
        raise MeterError("nvidia-ml-py is not installed", "pip install nvidia-ml-py") from error
    return NvmlMeter(argument, pynvml)


def list_gpus() -> list[str]:
    """Names of this machine's NVIDIA cards; none where there is no driver."""
    try:
        import pynvml
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    finally:
        pynvml.nvmlShutdown()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
