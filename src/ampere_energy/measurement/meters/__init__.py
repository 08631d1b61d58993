"""Energy meters: one small protocol, one module each.

A meter is a cumulative counter. `read` returns the joules counted so far, one figure a domain, with the monotonic
moment of the reading; it raises `MeterError` with the cause where it cannot, and never reports 0 for unknown. What a
counter does on the way (wrap, tick, reset) and how watts become joules is the meter's own business: see `counters`.

    name      what it reads                                             domains
    nvml      NVIDIA GPUs: total-energy counter, or integrated power    gpu
    rapl      Intel and AMD processors through powercap                 cpu, dram or soc
    jetson    INA3221 power rails of NVIDIA Jetson boards               soc
    battery   a discharging battery (laptops, Android)                  battery
    command   any program that prints joules or watts                   external
    zeus      AMD GPUs and Apple silicon, through the zeus package      gpu, cpu, soc
    cputime   a model, not a meter: CPU seconds × watts per core        cpu
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.records import MeterInfo

ENTRY_POINTS = "ampere_energy.meters"
BUILT_IN = ("nvml", "rapl", "jetson", "zeus", "battery", "command", "cputime")
"""In order of preference: closest to the silicon that trains first."""


@dataclass(frozen=True)
class Reading:
    """Joules counted so far in each of the meter's domains, and the monotonic moment they were read.

    `power_w` is a power reading of the same moment where the meter has one, for cross-checking the counter.
    """

    at_s: float
    energy_j: tuple[float, ...]
    power_w: float | None = None

    @property
    def total_j(self) -> float:
        """Joules over all domains."""
        return sum(self.energy_j)


class Meter(Protocol):
    """A cumulative energy counter."""

    @property
    def info(self) -> MeterInfo:
        """Which meter this is, what it covers, how often it ticks."""
        ...

    def read(self) -> Reading:
        """The counter now; raises `MeterError` where it cannot be read."""
        ...

    def close(self) -> None:
        """Lets go of handles."""
        ...


def meter_names() -> tuple[str, ...]:
    """The meters that can be asked for: built in, and added by other packages."""
    added = (entry.name for entry in importlib.metadata.entry_points(group=ENTRY_POINTS))
    return (*BUILT_IN, *(name for name in added if name not in BUILT_IN))


def open_meter(request: str) -> Meter:
    """The meter of a request: a name, with what the meter takes after a colon, such as `nvml:1` or `rapl`.

    Raises:
        RequestError: there is no meter of that name.
        MeterError: the meter cannot be read here; the message says why and what to do.
    """
    name, _, argument = request.partition(":")
    if name in BUILT_IN:
        module = importlib.import_module(f"ampere_energy.measurement.meters.{name}")
        return cast(Callable[[str], Meter], module.open_meter)(argument)
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return cast(Callable[[str], Meter], entry.load())(argument)
    raise RequestError(f"no meter is called {name!r}", f"choose from {', '.join(meter_names())}")


def request_of(info: MeterInfo) -> str:
    """The request that opens such a meter again; the words of a `command` are not kept, and nobody's file runs any."""
    watts = dict(info.details).get("watts per core")
    return "+".join(f"{name}:{watts}" if name == "cputime" and watts else name for name in info.name.split("+"))


@dataclass(frozen=True)
class MeterState:
    """Whether a meter can be read now, and if not, why and what to do."""

    name: str
    info: MeterInfo | None
    problem: str | None = None


def survey(names: Sequence[str] | None = None) -> list[MeterState]:
    """Meters, tried (by default all); readable ones first, in order of preference."""
    states = []
    for name in meter_names() if names is None else names:
        try:
            meter = open_meter(name)
        except MeterError as error:
            states.append(MeterState(name, None, str(error)))
            continue
        try:
            meter.read()
            states.append(MeterState(name, meter.info))
        except MeterError as error:
            states.append(MeterState(name, meter.info, str(error)))
        finally:
            meter.close()
    return sorted(states, key=lambda state: state.problem is not None)
