"""Any program that prints joules or watts: wall-plug meters, power supplies, vendors' tools.

The program prints a number and a unit, such as `12.5 W` or `3.2 kJ`, and nothing else. Joules and watt-hours are what
its counter shows, watts are integrated over time.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.counters import MOST_W, Integrated, Unrolled
from ampere_energy.measurement.records import MeterInfo, Provenance

JOULES = {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "MJ": 1e6, "mWh": 3.6, "Wh": 3600.0, "kWh": 3.6e6}
WATTS = {"mW": 1e-3, "W": 1.0, "kW": 1e3}
EVERY_S = 0.1
"""The program is started no more often than this, so that reading it does not become the load."""
_TIMEOUT_S = 5.0
_PRINTED = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]+)")
_UNITS = " ".join((*WATTS, *JOULES))
_HOW = "give a program that prints a number and a unit, such as --meter 'command:PROGRAM ARGUMENTS' printing 12.5 W"


class CommandMeter:
    """One program, run for every reading.

    Args:
        command: the program and its arguments.
    """

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._label = shlex.join(command)
        self._started_s = -EVERY_S
        _, _, self._counts = self._run()
        self._unrolled = Unrolled(self._label, None, most_w=MOST_W["command"])
        self._integrated = Integrated(self._label, longest_gap_s=2 * _TIMEOUT_S, most_w=MOST_W["command"])

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        how = "counted by the program" if self._counts else "integrated power"
        details = (("program", self._label), ("energy", how))
        return MeterInfo("command", Provenance.MEASURED, ("external",), EVERY_S, details)

    def read(self) -> Reading:
        """Joules so far; waits where the program was started a moment ago."""
        value, at_s, counts = self._run()
        if counts != self._counts:
            raise MeterError(f"{self._label} printed joules once and watts once", _HOW)
        counter = self._unrolled if counts else self._integrated
        return Reading(at_s, (counter.add(value, at_s),))

    def close(self) -> None:
        """Nothing to let go of."""

    def _run(self) -> tuple[float, float, bool]:
        """The number in joules or watts, the moment, and whether it was joules."""
        time.sleep(max(0.0, self._started_s + EVERY_S - time.monotonic()))
        self._started_s = time.monotonic()
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            process = subprocess.Popen(self._command, stdin=nothing, stdout=pipe, stderr=pipe, start_new_session=True)
        except (OSError, ValueError) as error:
            raise MeterError(f"{self._label} cannot be run ({error})", _HOW) from error
        with process:
            try:
                out, err = process.communicate(timeout=_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)  # a script's children would hold its output open
                raise MeterError(f"{self._label} took longer than {_TIMEOUT_S:g} s", "give a faster program") from error
        at_s = (self._started_s + time.monotonic()) / 2  # it looked somewhere in between
        if process.returncode != 0:
            how = f"failed with exit code {process.returncode}, saying {_shown(err or out)}"
            raise MeterError(f"{self._label} {how}", "run it by hand")
        found = _PRINTED.fullmatch(out.decode(errors="replace").strip())
        if found and found[2] in JOULES:
            return float(found[1]) * JOULES[found[2]], at_s, True
        if found and found[2] in WATTS:
            return float(found[1]) * WATTS[found[2]], at_s, False
        raise MeterError(f"{self._label} printed {_shown(out)}, not a number and one of {_UNITS}", _HOW)


def open_meter(argument: str) -> CommandMeter:
    """`command:PROGRAM ARGUMENTS`, quoted as in a shell; no shell runs it."""
    try:
        command = tuple(shlex.split(argument))
    except ValueError as error:
        raise MeterError(f"command:{argument} is not quoted well ({error})", _HOW) from error
    if not command:
        raise MeterError("no program was given to the meter command", _HOW)
    return CommandMeter(command)


def _shown(printed: bytes) -> str:
    text = " ".join(printed.decode(errors="replace").split())
    return repr(text[:80]) if text else "nothing"
