"""A discharging battery: what the whole laptop or phone draws.

The fuel gauge tells what is left, which falls: joules used are what was left before, less what is left now. Where it
counts charge, each fall is worth the voltage at which it happened. Where there is no gauge, power is integrated.
On a charger the battery says nothing about use, so every reading looks at the status first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.counters import MOST_W, Integrated, read_number, read_text
from ampere_energy.measurement.records import MeterInfo, Provenance

ROOT = Path("/sys/class/power_supply")
TICK_S = 1.0


@dataclass(frozen=True)
class Source:
    """A file that tells what is left or flows, and its unit in joules (watts where it flows), per µV if by voltage."""

    file: str
    unit: float
    by_voltage: bool = False
    flows: bool = False

    def read(self, battery: Path) -> tuple[float, float]:
        """The amount, and joules or watts a unit of it."""
        amount = read_number(battery / self.file)
        microvolts = read_number(battery / "voltage_now") if self.by_voltage else 1
        if microvolts <= 0 or (amount <= 0 and not self.flows):
            raise MeterError(f"{battery} in use reads {self.file} {amount}", "choose another --meter")
        return abs(amount), microvolts * self.unit  # the sign of a current is the vendor's taste


SOURCES = (
    Source("energy_now", 3600e-6),  # µWh
    Source("charge_now", 3600e-12, by_voltage=True),  # µAh
    Source("charge_counter", 3600e-12, by_voltage=True),
    Source("current_now", 1e-12, by_voltage=True, flows=True),  # µA
    Source("power_now", 1e-6, flows=True),  # µW
)


class BatteryMeter:
    """The machine's batteries, together.

    Args:
        anyway: read them with a charger connected, too.
        root: where the power supplies are.
        clock: monotonic seconds.
    """

    def __init__(self, anyway: bool = False, root: Path = ROOT, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._anyway, self._clock = root, anyway, clock
        self._batteries = find_batteries(root)
        self._source = choose_source(self._batteries)
        self._total_j = 0.0
        self._start_anew()

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        names = " ".join(battery.name for battery in self._batteries)
        energy = self._source.file + " × voltage_now" * self._source.by_voltage + ", integrated" * self._source.flows
        details = (("batteries", names), ("energy", energy), ("charger", "ignored" if self._anyway else "refused"))
        return MeterInfo("battery", Provenance.MEASURED, ("battery",), TICK_S, details)

    def read(self) -> Reading:
        """Joules drawn so far."""
        try:
            if not self._anyway:
                self._refuse_charger()
            at_s = self._clock()
            now = [self._source.read(battery) for battery in self._batteries]
            self._total_j += self._flown_j(now, at_s) if self._source.flows else self._fallen_j(now)
        except MeterError:
            self._start_anew()  # what flowed meanwhile, and which way, is not known
            raise
        return Reading(at_s, (self._total_j,))

    def close(self) -> None:
        """Nothing to let go of."""

    def _start_anew(self) -> None:
        self._left: list[tuple[float, float]] | None = None
        self._integrated = Integrated("battery", longest_gap_s=5 * TICK_S, most_w=MOST_W["battery"])
        self._integrated_j = 0.0

    def _flown_j(self, now: list[tuple[float, float]], at_s: float) -> float:
        power_w = sum(amount * unit for amount, unit in now)
        if power_w == 0:
            raise MeterError(f"a battery in use reads {self._source.file} 0", "choose another --meter")
        before_j, self._integrated_j = self._integrated_j, self._integrated.add(power_w, at_s)
        return self._integrated_j - before_j

    def _fallen_j(self, now: list[tuple[float, float]]) -> float:
        before, self._left = self._left or now, now
        if rises := [f"{had:.0f} to {has:.0f}" for (had, _), (has, _) in zip(before, now, strict=True) if has > had]:
            raise MeterError(
                f"{self._source.file} of a battery in use rose from {rises[0]}", "measure again, unplugged"
            )
        return sum((had - has) * (old + new) / 2 for (had, old), (has, new) in zip(before, now, strict=True))

    def _refuse_charger(self) -> None:
        for battery in self._batteries:
            status = read_text(battery / "status")
            if status == "Charging" or (status != "Discharging" and external_power(self._root)):
                raise MeterError(f"{battery.name} is {status.lower()} on a charger", "unplug it, or use battery:anyway")


def find_batteries(root: Path) -> list[Path]:
    """The machine's own batteries; not those of mice and headsets, whose scope is `Device`."""
    found = [file.parent for file in sorted(root.glob("*/type")) if read_text(file) == "Battery"]
    found = [one for one in found if not (one / "scope").exists() or read_text(one / "scope") != "Device"]
    if not found:
        raise MeterError(f"no battery under {root}", "choose another --meter")
    # Android shows one battery as `battery`, and the gauges it is made from as batteries, too.
    return [one for one in found if one.name == "battery"] or found


def choose_source(batteries: list[Path]) -> Source:
    """The best source that all batteries can be read by."""
    problem = MeterError(f"{batteries[0]} tells neither energy, charge nor power", "choose another --meter")
    for source in SOURCES:
        if all((battery / source.file).exists() for battery in batteries):
            try:
                _ = [source.read(battery) for battery in batteries]
                return source
            except MeterError as error:  # some drivers list files that they cannot fill
                problem = error
    raise problem


def external_power(root: Path) -> bool:
    """Whether a charger is connected."""
    return any(read_text(file) != "0" for file in root.glob("*/online") if read_text(file.parent / "type") != "Battery")


def open_meter(argument: str) -> BatteryMeter:
    """`battery`, or `battery:anyway` to read it with a charger connected."""
    if argument not in ("", "anyway"):
        raise RequestError(f"--meter battery:{argument}", "give battery or battery:anyway")
    return BatteryMeter(anyway=argument == "anyway")
