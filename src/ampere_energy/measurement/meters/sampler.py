"""A meter read in a process of its own, so that readings never sit in the training loop.

    python -m ampere_energy.measurement.meters.sampler METER

reads the meter over and over and remembers; asked for what it has read since a moment, it answers a line. Moments
are of the monotonic clock, which all processes of a machine share; the wall clock is never looked at.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections import deque
from typing import Any

from ampere_energy.child_process import die_with_parent, environment
from ampere_energy.errors import AmpereError, MeterError
from ampere_energy.measurement.meters import Reading, open_meter
from ampere_energy.measurement.meters.trace import NEIGHBOURS, Fault, Trace
from ampere_energy.measurement.records import MeterInfo
from ampere_energy.serialization import decode, encode

_REMEMBERED = 100_000
_START_S = 60.0


class SampledMeter:
    """The client's side: a running sampler.

    Args:
        request: the meter, as `open_meter` takes it.

    Raises:
        MeterError: the meter cannot be read here.
    """

    def __init__(self, request: str) -> None:
        command = [sys.executable, "-m", "ampere_energy.measurement.meters.sampler", request]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment())
        hello = self._receive(_START_S)
        if "error" in hello:
            self.close()
            raise MeterError(str(hello["error"]))
        self.info = decode(MeterInfo, hello["info"], "sampler")

    def trace(self, since_s: float) -> Trace:
        """What was read since a moment, with the last reading before it."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps({"since_s": since_s}) + "\n")
            stdin.flush()
        except OSError as error:
            raise MeterError(f"the sampler of {self.info.name} died", "measure again") from error
        answer = self._receive(10.0)
        return Trace(
            tuple(decode(Reading, r, "sampler") for r in answer["readings"]),
            tuple(decode(Fault, f, "sampler") for f in answer["faults"]),
            self.info.tick_s,
        )

    def trace_around(self, moment_s: float) -> Trace:
        """What was read since a moment, and for some ticks before it, by which others are placed."""
        return self.trace(moment_s - NEIGHBOURS * self.info.tick_s - 0.05)

    def trace_over(self, start_s: float, end_s: float) -> Trace:
        """What was read over a span, waiting until the counter has ticked after its end."""
        patience_s = time.monotonic() + 10 * self.info.tick_s + 2.0
        while True:
            trace = self.trace_around(start_s)
            if trace.reaches(end_s) or time.monotonic() > patience_s:
                return trace
            time.sleep(max(0.005, self.info.tick_s / 2))

    def close(self) -> None:
        """Ends the sampler."""
        self._process.kill()
        self._process.communicate()

    def _receive(self, patience_s: float) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        ready, _, _ = select.select([stdout], [], [], patience_s)
        line = stdout.readline() if ready else ""
        if not line:
            self.close()
            raise MeterError("the meter's sampler did not answer", "measure again")
        answer: dict[str, Any] = json.loads(line)
        return answer


def main(request: str) -> None:
    """The sampler's side: reads until standard input closes."""
    die_with_parent()
    try:
        meter = open_meter(request)
        meter.read()
    except AmpereError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    # Well inside a tick, so that each is seen to happen within a few milliseconds.
    pause_s = min(0.02, max(0.002, meter.info.tick_s / 50))
    readings: deque[Reading] = deque(maxlen=_REMEMBERED)
    faults: deque[Fault] = deque(maxlen=_REMEMBERED)
    print(json.dumps({"info": encode(meter.info)}), flush=True)
    while True:
        try:
            readings.append(meter.read())
        except MeterError as error:
            faults.append(Fault(time.monotonic(), str(error)))
        ready, _, _ = select.select([sys.stdin], [], [], pause_s)
        if ready:
            line = sys.stdin.readline()
            if not line:
                return
            since_s = json.loads(line)["since_s"]
            wanted = [r for r in readings if r.at_s >= since_s]
            recent = [f for f in faults if f.at_s >= since_s]
            print(json.dumps({"readings": encode(wanted), "faults": encode(recent)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
