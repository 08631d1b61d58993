"""AMD GPUs (gpu), Apple silicon (soc) and processors (cpu), through the zeus package's cumulative counters."""

from __future__ import annotations

import importlib
import time
from typing import Any

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.counters import MOST_W, Unrolled
from ampere_energy.measurement.records import MeterInfo, Provenance

DOMAINS = ("gpu", "soc", "cpu")
"""In order of preference."""
TICK_S = 0.1
_CHIP_PARTS = ("cpu_total_mj", "gpu_mj", "gpu_sram_mj", "ane_mj", "dram_mj")  # the chip's other fields are in these


class ZeusMeter:
    """One domain of what zeus can read.

    Args:
        domain: gpu, soc or cpu; the first that can be read where empty.
        device: the module `zeus.device`, its submodules loaded.
    """

    def __init__(self, domain: str, device: Any) -> None:
        self._device = device
        problems = []
        for self._domain in (domain,) if domain else DOMAINS:
            try:
                self._counters = {part: Unrolled(f"zeus {part}", None, MOST_W["zeus"]) for part in self._parts_mj()}
                return
            except MeterError as error:
                problems.append(error.what)
        raise MeterError(", ".join(problems), "on Apple silicon: pip install 'zeus[apple]'; or choose another --meter")

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        details = (("counters", ", ".join(self._counters)),)
        return MeterInfo("zeus", Provenance.MEASURED, (self._domain,), TICK_S, details)

    def read(self) -> Reading:
        """The counters now, added up."""
        parts = self._parts_mj()
        at_s = time.monotonic()
        if parts.keys() != self._counters.keys():
            raise MeterError(f"zeus reads {', '.join(parts)}, at first {', '.join(self._counters)}", "measure again")
        return Reading(at_s, (sum(self._counters[part].add(mj / 1e3, at_s) for part, mj in parts.items()),))

    def close(self) -> None:
        """Nothing to let go of: zeus keeps its handles for the process."""

    def _parts_mj(self) -> dict[str, float]:
        try:
            parts = _parts_mj(self._domain, self._device)
        except Exception as error:  # zeus passes on what any vendor's library raises
            raise MeterError(f"zeus cannot read {self._domain} ({error or type(error).__name__})") from error
        if not parts:
            raise MeterError(f"zeus finds no counter of {self._domain}")
        return parts


def open_meter(argument: str) -> ZeusMeter:
    """`zeus`, or `zeus:gpu`, `zeus:soc`, `zeus:cpu`."""
    if argument not in ("", *DOMAINS):
        raise RequestError(f"--meter zeus:{argument}", f"give zeus, or zeus: and one of {', '.join(DOMAINS)}")
    try:
        for domain in DOMAINS:
            importlib.import_module(f"zeus.device.{domain}")
    except ImportError as error:
        raise MeterError(f"zeus cannot be loaded ({error})", "pip install 'ampere-energy[zeus]'") from error
    return ZeusMeter(argument, importlib.import_module("zeus.device"))


def _parts_mj(domain: str, device: Any) -> dict[str, float]:
    if domain == "soc":
        chip = _total(device.soc.get_soc())
        return {part: float(mj) for part in _CHIP_PARTS if (mj := getattr(chip, part, None)) is not None}
    found = device.gpu.get_gpus() if domain == "gpu" else device.cpu.get_cpus()
    totals = [_total(found, index) for index in range(len(found))]
    return {f"{domain} {i}": float(total if domain == "gpu" else total.cpu_mj) for i, total in enumerate(totals)}


def _total(found: Any, *index: int) -> Any:
    # Zeus renamed the method: old versions lack the new name, new ones warn about the old.
    return (getattr(found, "get_total_energy_consumption", None) or found.getTotalEnergyConsumption)(*index)
