"""A model of CPU energy, for machines without a meter: busy core seconds × watts per core.

It is not a measurement, and everything made from it says `modelled`.
"""

from __future__ import annotations

import time

from ampere_energy.errors import RequestError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.records import MeterInfo, Provenance

DEFAULT_WATTS_PER_CORE = 10.0
"""A round figure for one busy core of a laptop or server, uncore share included; override it where known."""
MOST_WATTS_PER_CORE = 1e4


class CpuTimeMeter:
    """Counts this process's CPU seconds, all threads, at a given power per busy core."""

    def __init__(self, watts_per_core: float = DEFAULT_WATTS_PER_CORE) -> None:
        if not 0 < watts_per_core <= MOST_WATTS_PER_CORE:
            how = f"give a positive number of watts, at most {MOST_WATTS_PER_CORE:g}"
            raise RequestError(f"--watts-per-core {watts_per_core:g}", how)
        self.watts_per_core = watts_per_core

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        details = (("watts per core", f"{self.watts_per_core:g}"),)
        return MeterInfo("cputime", Provenance.MODELLED, ("cpu",), details=details)

    def read(self) -> Reading:
        """Joules modelled so far."""
        return Reading(time.monotonic(), (time.process_time() * self.watts_per_core,))

    def close(self) -> None:
        """Nothing to let go of."""


def open_meter(argument: str) -> CpuTimeMeter:
    """`cputime`, or `cputime:15` for 15 watts per core."""
    try:
        return CpuTimeMeter(float(argument) if argument else DEFAULT_WATTS_PER_CORE)
    except ValueError:
        raise RequestError(f"--meter cputime:{argument}", "give watts per core, such as cputime:15") from None
