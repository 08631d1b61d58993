"""This machine: real training steps in a worker process that can die without taking the campaign down."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ampere_energy.child_process import Child
from ampere_energy.errors import DeviceError, MeterError, ModelError, WorkerError
from ampere_energy.measurement.devices import threads_here
from ampere_energy.measurement.meters import survey
from ampere_energy.measurement.meters.nvml import NvmlMeter
from ampere_energy.measurement.meters.nvml import open_meter as open_nvml
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, Timing, Window
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.source import ModelRef
from ampere_energy.serialization import decode, encode

CPU_METERS = ("rapl", "jetson", "zeus", "battery")
_TIMING_S = 60.0
_GATE_S = 90.0


class LocalDevice:
    """A device of this machine: its CPU, or a CUDA card.

    Args:
        name: `cpu`, `cuda` or `cuda:1`.
        meter: what to read, such as `nvml`, `nvml+rapl` or `cputime:15`; by default the best readable one.
        threads: torch's threads; by default torch's own choice.
    """

    def __init__(self, name: str = "cpu", meter: str | None = None, threads: int | None = None) -> None:
        if threads is not None:
            threads_here(threads)
        self._name = name
        self._arguments = [name, meter or best_meter(name), *([] if threads is None else [str(threads)])]
        self._worker = Worker(self._arguments)
        self._worker.start()  # it takes some seconds, in which the model can be read
        self._next: Worker | None = None
        self._used = False
        self._idle_w: float | None = None
        self._doubts: tuple[str, ...] = ()

    @cached_property
    def info(self) -> DeviceInfo:
        """Its identity."""
        hello = self._worker.hello()
        processor = ("processor", processor_name()), ("cores", str(os.cpu_count() or 1))
        software = ("threads", str(hello["threads"])), ("torch", str(hello["torch"]))
        if "gpu" not in hello:
            return DeviceInfo(self._name, (*processor, *software))
        card = ("gpu", str(hello["gpu"])), ("uuid", str(hello["uuid"])), ("driver", self._card("driver"))
        return DeviceInfo(self._name, (*card, *processor, *software))

    @property
    def meter(self) -> MeterInfo:
        """The meter its energy comes from."""
        return decode(MeterInfo, self._worker.hello()["meter"], "worker")

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        """Trains the workload in the worker; where that dies or hangs, the attempt failed.

        Raises:
            MeterError: the meter failed, and again when asked once more.
        """
        info, meter, idle_w = self.info, self.meter, self.idle_w()
        whole = self._name == "cpu" and isinstance(workload, ModelRef)
        start = time.monotonic()
        if whole and self._used:
            self._renew()
        request = {"do": "measure", "workload": encode(workload), "procedure": encode(procedure)}
        reply = self._ask(request, procedure.deadline_s)
        windows = _windows(reply.get("windows", ()))
        if whole and self._next is None:
            self._next = Worker(self._arguments)
            self._next.start()  # for the next one
        return Measurement(
            workload,
            info,
            meter,
            windows=windows,
            cost_s=time.monotonic() - start,
            recorded_at=_now(),
            infeasible=reply.get("infeasible"),
            failed=bool(reply.get("failed", False)),
            idle_w=idle_w,
            busy=_windows(reply.get("busy", ())),
            host_s=reply.get("host_s"),
            doubts=(*reply.get("doubts", ()), *self._doubts, *_drowned(windows, idle_w)),
            conditions=(*((str(k), str(v)) for k, v in reply.get("conditions", ())), *self._conditions()),
        )

    def time(self, workload: Workload) -> Timing:
        """How long one step keeps the device busy, and the host where it issues the step, without the meter."""
        info = self.info
        start = time.monotonic()
        reply = self._ask({"do": "time", "workload": encode(workload)}, _TIMING_S)
        return Timing(
            workload,
            info,
            device_s=reply.get("device_s"),
            host_s=reply.get("host_s"),
            captured=bool(reply.get("captured", False)),
            cost_s=time.monotonic() - start,
            recorded_at=_now(),
            infeasible=reply.get("infeasible"),
            failed=bool(reply.get("failed", False)),
            wall_s=reply.get("wall_s"),
        )

    def idle_w(self) -> float:
        """Power with everything loaded and nothing to do, measured when first asked for.

        Raises:
            MeterError: the meter does not notice what the device does.
        """
        if self._idle_w is None:
            reply = self._ask({"do": "idle"}, _GATE_S)
            if "infeasible" in reply:
                raise WorkerError(f"idle power could not be measured: {reply['infeasible']}", "try again")
            if reply["refusal"] is not None:
                raise MeterError(str(reply["refusal"]))
            self._idle_w, self._doubts = float(reply["idle_w"]), tuple(reply["doubts"])
        return self._idle_w

    def ready(self) -> None:
        """Waits until no process of its own is starting: whatever else is timed meanwhile would be slower for it."""
        for worker in (self._worker, self._next):
            if worker is not None:
                worker.hello()

    def close(self) -> None:
        """Ends the worker."""
        for worker in (self._worker, self._next):
            if worker is not None:
                worker.stop()

    def _renew(self) -> None:
        """Goes on in another process, before a whole model is measured on a processor.

        A training is a process of its own. One that trained something else before has its memory arranged otherwise:
        steps of six networks took 0.90 to 1.15 of what they take in a new process, where they agree with a plain loop
        (decision 038).
        """
        self._worker.stop()
        self._worker, self._next = self._next or Worker(self._arguments), None
        self._worker.hello()
        self._used = False

    def _ask(self, request: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        """The worker's answer; a failed reading is tried once more, a worker that died is an attempt that failed."""
        reply = self._ask_once(request, deadline_s)
        if "meter_error" in reply:
            reply = self._ask_once(request, deadline_s)
        if "meter_error" in reply:
            raise MeterError(str(reply["meter_error"]))
        return reply

    def _ask_once(self, request: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        self._used = self._used or request["do"] != "idle"
        try:
            reply = self._worker.ask(request, deadline_s)
        except WorkerError as error:
            return {"infeasible": error.what, "failed": True}
        if "model_error" in reply:
            raise ModelError(str(reply["model_error"]))
        if reply.get("broken"):
            self._worker.stop()
        return reply

    def _conditions(self) -> tuple[tuple[str, str], ...]:
        """What the card tells of itself now."""
        return self._nvml.conditions() if self._nvml is not None else ()

    @cached_property
    def _nvml(self) -> NvmlMeter | None:
        """The card, open as long as this process lives: opening takes longer than asking."""
        uuid = self._worker.hello().get("uuid")
        return None if uuid is None else open_nvml(f"GPU-{uuid}")

    def _card(self, name: str) -> str:
        return dict(self._conditions()).get(name, "unknown")


def best_meter(device: str) -> str:
    """The meter closest to what trains that can be read now; a model where a CPU has none."""
    if device.startswith("cuda"):
        return "nvml"
    readable = [state.name for state in survey(CPU_METERS) if state.problem is None]
    return readable[0] if readable else "cputime"


def _drowned(windows: Sequence[Window], idle_w: float) -> list[str]:
    """A doubt where training shows no more power than doing nothing: what it takes is lost in the meter's scatter."""
    seconds = sum(window.time_s for window in windows)
    power_w = sum(window.energy_j for window in windows) / seconds if windows else math.inf
    return [] if power_w > idle_w else [f"its power, {power_w:.4g} W, is not above the idle device's {idle_w:.4g} W"]


def _windows(reply: Any) -> tuple[Window, ...]:
    return tuple(decode(Window, window, "worker reply") for window in reply)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Worker(Child):
    """The process that measures: what it says of itself when it started may be that it cannot."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__("ampere_energy.measurement.devices.worker", arguments)

    def hello(self) -> dict[str, Any]:
        """What the worker said of itself when it started; starts it if need be."""
        found = super().hello()
        for failure, error in (("device_error", DeviceError), ("meter_error", MeterError)):
            if failure in found:
                self.stop()
                raise error(str(found[failure]), "ampere devices tells what this machine has")
        return found


def processor_name() -> str:
    """The processor's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("model name", "hardware")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
