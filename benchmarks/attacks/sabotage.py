"""What is broken inside a command's own process: killed at a write, a full disk, a clock that jumps, a short patience.

`Operations` wraps the lowest writes: those of `os`, and of files that Python opens. Each is an operation with a number;
an operation may be the process's last, or fail.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import gzip
import io
import json
import os
import random
import signal
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

OF_OS = ("write", "fsync", "replace", "rename", "ftruncate", "mkdir", "link", "unlink")
"""Calls by which this package changes files: all that `ampere_energy.files` does ends in one of them."""


@dataclass(frozen=True)
class At:
    """An operation and what becomes of it.

    Attributes:
        number: of the operation, from 0; the one at which it happens.
        how: `before`, `after` or `torn` (a part is written) it the process is killed, `later` by some milliseconds
            after it; or it is `full`: there is no space left, now and afterwards.
        share: of the bytes of a torn write that are written, or of 40 ms that pass until `later`.
    """

    number: int
    how: str
    share: float = 0.5


class Operations:
    """Counts the writes of this process from when it is made, and does at one what it is told."""

    def __init__(self, at: At | None, told: int | None = None) -> None:
        self.at, self.told, self.count = at, told, 0
        self._busy = threading.local()
        for name in OF_OS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        plain = io.open

        @functools.wraps(plain)
        def opened(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            stream = plain(file, mode, *arguments, **more)
            if any(letter in mode for letter in "wax+") and not isinstance(file, int):
                stream.write = self._wrapped("write of a file", stream.write, _regular(stream.fileno()))
                stream.flush = self._wrapped("flush of a file", stream.flush, _regular(stream.fileno()))
            return stream

        io.open = builtins.open = opened  # type: ignore[assignment]

    def _wrapped(self, name: str, call: Callable[..., Any], counts: bool = True) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(*arguments: Any, **more: Any) -> Any:
            inside = getattr(self._busy, "inside", False)
            ours = name in ("write", "fsync", "ftruncate")
            if inside or not counts or (ours and not _regular(arguments[0])):
                return call(*arguments, **more)
            self._busy.inside = True
            try:
                return self._operate(name, call, arguments, more)
            finally:
                self._busy.inside = False

        return wrapped

    def _operate(self, name: str, call: Callable[..., Any], arguments: Any, more: Any) -> Any:
        number, at = self.count, self.at
        self.count += 1
        if self.told is not None:
            _write(self.told, f"operation {name}\n".encode())
        if at is None or number < at.number or (number > at.number and at.how != "full"):
            return call(*arguments, **more)
        if at.how == "full" and name not in ("unlink", "ftruncate"):
            if name == "write" and number == at.number:
                call(arguments[0], arguments[1][: int(at.share * len(arguments[1]))])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if at.how == "before":
            die()
        if at.how == "torn" and name == "write":
            call(arguments[0], arguments[1][: int(at.share * len(arguments[1]))])
            die()
        result = call(*arguments, **more)
        if at.how in ("after", "torn"):
            die()
        if at.how == "later":
            threading.Timer(0.04 * at.share, die).start()
        return result


_write = os.write
"""The call itself, kept before anything wraps it."""


def _regular(file: Any) -> bool:
    try:
        return stat.S_ISREG(os.fstat(file).st_mode) and file > 2
    except (OSError, TypeError):
        return False


def die() -> None:
    """Ends this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def journal(path: Path) -> int:
    """Tells a file what this process measures: a line before a request, after its answer, and after it is logged.

    Returns:
        The file, to tell more there.
    """
    from ampere_energy.measurement.devices.local import LocalDevice
    from ampere_energy.measurement.devices.simulated import SimulatedDevice
    from ampere_energy.measurement.log import MeasurementLog

    told = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def telling(what: str, call: Callable[..., Any], place: int = 1) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(*arguments: Any, **more: Any) -> Any:
            if what == "measured":
                _write(told, f"asked {call.__name__}\n".encode())
            result = call(*arguments, **more)
            words = name_of(arguments[place]) if what == "logged" else call.__name__
            _write(told, f"{what} {words}\n".encode())
            return result

        return wrapped

    for device in (LocalDevice, SimulatedDevice):
        for name in ("measure", "time"):
            setattr(device, name, telling("measured", getattr(device, name)))
    MeasurementLog.append = telling("logged", MeasurementLog.append)  # type: ignore[method-assign]
    return told


def remembering() -> None:
    """From now on the simulated device draws its noise by how often a network was answered for in the logs here.

    By itself it counts what this process asked: a network asked for again after a kill would scatter otherwise.
    """
    from ampere_energy.measurement.devices.simulated import SimulatedDevice
    from ampere_energy.measurement.log import MeasurementLog
    from ampere_energy.serialization import encode

    if not hasattr(SimulatedDevice(), "_asked"):
        return
    answered: Counter[str] = Counter()
    for path in (*Path().rglob("*.jsonl"), *Path().rglob("*.jsonl.gz")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in data.split(b"\n")[:-1]:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                answered[_key((record.get("timing") or record["measurement"])["workload"])] += 1
    append = MeasurementLog.append

    def counting(self: MeasurementLog, record: Any) -> None:
        append(self, record)
        answered[_key(encode(record.workload))] += 1

    def primed(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(self: SimulatedDevice, workload: Any, *arguments: Any) -> Any:
            self._asked[workload] = answered[_key(encode(workload))] - 1
            return call(self, workload, *arguments)

        return wrapped

    MeasurementLog.append = counting  # type: ignore[method-assign]
    for name in ("measure", "time"):
        setattr(SimulatedDevice, name, primed(getattr(SimulatedDevice, name)))


def _key(workload: Any) -> str:
    return json.dumps(workload, sort_keys=True)


def name_of(record: Any) -> str:
    """A digest of what a record says, dates and durations apart."""
    from ampere_energy.serialization import encode

    return digest(encode(record))


def digest(record: Any) -> str:
    """The same of a record as a log has it."""
    import hashlib

    return hashlib.sha256(json.dumps(timeless(record), sort_keys=True).encode()).hexdigest()[:16]


TIMELY = ("recorded_at", "cost_s", "created", "profile_s", "wall_s")


def timeless(value: Any) -> Any:
    """A record without its dates and durations."""
    if isinstance(value, dict):
        return {name: timeless(inner) for name, inner in value.items() if name not in TIMELY}
    return [timeless(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def jumping(seed: int) -> None:
    """From now on the wall clock jumps by up to a year either way; the monotonic one goes on."""
    draw, real = random.Random(seed), time.time

    def off() -> float:
        return draw.choice((0.0, 1e-3, 3600.0, 86400.0, 3e7)) * draw.uniform(-1, 1)

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=off())

    time.time = lambda: real() + off()
    for name, module in list(sys.modules.items()):
        if name.startswith("ampere_energy") and getattr(module, "datetime", None) is datetime:
            module.datetime = Jumping  # type: ignore[attr-defined]


def impatient(most_s: float) -> None:
    """From now on no answer of a worker is waited for longer than this, once it has started."""
    from ampere_energy.measurement.devices.local import Worker

    ask = Worker.ask

    @functools.wraps(ask)
    def sooner(self: Worker, request: dict[str, Any], deadline_s: float, *more: Any) -> dict[str, Any]:
        return ask(self, request, min(deadline_s, most_s), *more)

    Worker.ask = sooner  # type: ignore[method-assign, assignment]


def slowly(each_s: float) -> None:
    """From now on the simulated device takes its time, so that something can happen meanwhile."""
    from ampere_energy.measurement.devices.simulated import SimulatedDevice

    def slow(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def wrapped(*arguments: Any) -> Any:
            time.sleep(each_s)
            return call(*arguments)

        return wrapped

    for name in ("measure", "time"):
        setattr(SimulatedDevice, name, slow(getattr(SimulatedDevice, name)))


def quick() -> None:
    """From now on every measurement is as short as can be: what it says does not matter, only that it is made."""
    from ampere_energy.measurement.devices.local import LocalDevice

    measure = LocalDevice.measure

    @functools.wraps(measure)
    def short(self: LocalDevice, workload: Any, procedure: Any) -> Any:
        least = replace(procedure, windows=min(2, procedure.windows), window_s=0.05, warm_up_s=0.0, target=None)
        return measure(self, workload, least)

    LocalDevice.measure = short  # type: ignore[method-assign]
