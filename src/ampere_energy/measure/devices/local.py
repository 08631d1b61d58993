"""This machine: real training steps in a worker process that can die without taking the campaign down."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import selectors
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from ampere_energy.errors import ModelError, RequestError, WorkerError
from ampere_energy.measure.measurement import (
    DeviceInfo,
    Measurement,
    MeterInfo,
    Procedure,
    Window,
    Workload,
)
from ampere_energy.measure.meters.cputime import DEFAULT_WATTS_PER_CORE, CpuTimeMeter
from ampere_energy.plain import decode, encode

_START_S = 120.0


class LocalDevice:
    """The CPU of this machine.

    Args:
        watts_per_core: power of one busy core, for the modelled energy.
        threads: torch's threads; by default torch's own choice.
    """

    def __init__(self, watts_per_core: float | None = None, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise RequestError(f"--threads {threads}", "give at least 1")
        self._meter = CpuTimeMeter(DEFAULT_WATTS_PER_CORE if watts_per_core is None else watts_per_core)
        self._threads = threads
        self._worker = Worker(self._meter.watts_per_core, threads)

    @property
    def info(self) -> DeviceInfo:
        """Its identity."""
        hello = self._worker.hello()
        details = (
            ("processor", processor_name()),
            ("cores", str(psutil.cpu_count(logical=True) or 1)),
            ("threads", str(hello["threads"])),
            ("torch", str(hello["torch"])),
        )
        return DeviceInfo("cpu", details)

    @property
    def meter(self) -> MeterInfo:
        """The meter its energy comes from."""
        return self._meter.info

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        """Trains the workload in the worker; a worker that dies or hangs makes the workload infeasible."""
        info = self.info
        start = time.monotonic()
        windows: tuple[Window, ...] = ()
        reason: str | None = None
        try:
            reply = self._worker.ask(
                {"workload": encode(workload), "procedure": encode(procedure)}, procedure.deadline_s
            )
        except WorkerError as error:
            reason = error.what
        else:
            if "model_error" in reply:
                raise ModelError(str(reply["model_error"]))
            reason = reply.get("infeasible")
            windows = tuple(decode(Window, w, "worker reply") for w in reply.get("windows", ()))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Measurement(workload, info, self.meter, windows, time.monotonic() - start, now, reason)

    def close(self) -> None:
        """Ends the worker."""
        self._worker.stop()


class Worker:
    """A child process that measures: one JSON line in, one JSON line out; restarted after it died."""

    def __init__(self, watts_per_core: float, threads: int | None) -> None:
        self._command = [sys.executable, "-m", "ampere_energy.measure.devices.worker", str(watts_per_core)]
        if threads is not None:
            self._command.append(str(threads))
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: Any = None
        self._hello: dict[str, Any] = {}

    def hello(self) -> dict[str, Any]:
        """What the worker said of itself when it started; starts it if need be."""
        if self._process is None:
            self._start()
        return self._hello

    def ask(self, request: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        """The answer to a request; `WorkerError` where none came in time."""
        self.hello()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        self._stderr.truncate(0)  # last words are those about this request
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise self._failure("the worker died") from error
        return self._receive(deadline_s)

    def stop(self) -> None:
        """Ends the process, at once."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
            self._stderr.close()

    def _start(self) -> None:
        self._stderr = tempfile.TemporaryFile("ab+")  # noqa: SIM115 - lives as long as the worker
        paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,  # Ctrl-C belongs to the campaign, which then ends the worker
        )
        self._hello = self._receive(_START_S)

    def _receive(self, deadline_s: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, line = self._process.stdout.fileno(), b""
        end = time.monotonic() + deadline_s
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise self._failure(f"no answer within {deadline_s:g} s")
                chunk = os.read(pipe, 65536)
                if not chunk:
                    raise self._failure("the worker died")
                line += chunk
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failure(self, what: str) -> WorkerError:
        """Ends the worker and says why, in its own last words."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            died = self._process.wait(0.5)  # a closed pipe comes a moment before the exit status
            what += f" by signal {-died}" if died < 0 else ""
        self._stderr.seek(0)
        words = self._stderr.read().decode(errors="replace").strip().splitlines()
        self.stop()
        return WorkerError(f"{what} ({words[-1]})" if words else what)


def processor_name() -> str:
    """The processor's model name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("model name", "hardware")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
