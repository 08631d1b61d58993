"""Devices: one small protocol; `local` really trains, `simulated` computes and says so."""

from __future__ import annotations

from typing import Protocol

from ampere_energy.errors import RequestError
from ampere_energy.measure.measurement import DeviceInfo, Measurement, MeterInfo, Procedure, Workload


class Device(Protocol):
    """Something that can be asked what a workload costs."""

    @property
    def info(self) -> DeviceInfo:
        """Its identity."""
        ...

    @property
    def meter(self) -> MeterInfo:
        """The meter its energy comes from."""
        ...

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        """Trains the workload and reports; what cannot run is reported as infeasible, not raised."""
        ...

    def close(self) -> None:
        """Lets go of processes and handles."""
        ...


def open_device(name: str, *, watts_per_core: float | None = None, threads: int | None = None) -> Device:
    """The device of a name: `cpu`, or `simulated` with an optional noise such as `simulated:0.03`."""
    if name == "cpu":
        from ampere_energy.measure.devices.local import LocalDevice

        return LocalDevice(watts_per_core=watts_per_core, threads=threads)
    if name.split(":")[0] == "simulated":
        from ampere_energy.measure.devices.simulated import SimulatedDevice

        return SimulatedDevice.named(name)
    raise RequestError(f"no device is called {name!r}", "choose cpu or simulated")


def reopen(info: DeviceInfo, meter: MeterInfo) -> Device:
    """The device a profile was made on, with the same settings; it must still be checked to be the same one."""
    about, settings = dict(info.details), dict(meter.details)
    if info.name == "simulated":
        return open_device(f"simulated:{about.get('noise', '0')}")
    watts, threads = settings.get("watts per core"), about.get("threads")
    return open_device(
        info.name, watts_per_core=float(watts) if watts else None, threads=int(threads) if threads else None
    )
