"""Devices: one small protocol; `local` really trains, `simulated` computes and says so."""

from __future__ import annotations

import os
import re
from typing import Protocol

from ampere_energy.errors import RequestError
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, Timing
from ampere_energy.measurement.workloads import Workload


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

    def time(self, workload: Workload) -> Timing:
        """How long one step keeps device and host busy, without the meter; what cannot run is infeasible."""
        ...

    def close(self) -> None:
        """Lets go of processes and handles."""
        ...


def compute_devices() -> list[DeviceInfo]:
    """What this machine can train on, as far as can be told without torch."""
    from ampere_energy.measurement.devices.local import processor_name
    from ampere_energy.measurement.meters.nvml import list_gpus

    cores = str(os.cpu_count() or 1)
    cards = [DeviceInfo(f"cuda:{index}", (("gpu", name),)) for index, name in enumerate(list_gpus())]
    return [DeviceInfo("cpu", (("processor", processor_name()), ("cores", cores))), *cards]


def open_device(name: str, *, meter: str | None = None, threads: int | None = None) -> Device:
    """The device of a name.

    Args:
        name: `cpu`, `cuda`, `cuda:1`, or `simulated` with an optional noise such as `simulated:0.03`.
        meter: what to read, such as `nvml+rapl` or `cputime:15`; by default the best readable one.
        threads: torch's threads on the host.
    """
    kind = kind_of(name)
    if kind != "simulated":
        from ampere_energy.measurement.devices.local import LocalDevice

        return LocalDevice(name, meter, threads)
    from ampere_energy.measurement.devices.simulated import SimulatedDevice

    return SimulatedDevice.named(name)


def kind_of(name: str) -> str:
    """Which sort of device a name means: cpu, cuda or simulated."""
    if name.partition(":")[0] not in ("cpu", "cuda", "simulated"):
        raise RequestError(f"no device is called {name!r}", "choose cpu, cuda or simulated")
    if not re.fullmatch(r"cpu|cuda(:\d{1,3})?|simulated(:.*)?", name):
        raise RequestError(f"--device {name}", "give cpu, cuda, a card by its number, such as cuda:1, or simulated")
    return name.partition(":")[0]


def threads_here(threads: int) -> int:
    """The number of torch's threads, where this machine has a core for each: with many more it comes to a halt."""
    cores = os.cpu_count() or 1
    if threads < 1:
        raise RequestError(f"--threads {threads}", "give at least 1")
    if threads > cores:
        raise RequestError(f"--threads {threads} on a machine with {cores} cores", f"give at most {cores}")
    return threads


def reopen(info: DeviceInfo, meter: MeterInfo) -> Device:
    """The device a profile was made on, with the same settings; it must still be checked to be the same one."""
    from ampere_energy.measurement.meters import request_of

    if info.name == "simulated":
        return open_device(f"simulated:{dict(info.details).get('noise', '0')}")
    return open_device(info.name, meter=request_of(meter), threads=threads_of(info))


def threads_of(info: DeviceInfo) -> int | None:
    """How many threads torch had there; None where the device does not say."""
    threads = dict(info.details).get("threads")
    return int(threads) if threads else None
