"""NVIDIA Jetson boards: INA3221 sensors on their power rails, integrated over time.

Boards with a rail at the input of the module are read there. The others have none, and the rails that feed the module
side by side are added up; rails fed by one of them (such as VDDQ_VDD2_1V8AO by VIN_SYS_5V0) are not counted twice.

    VDD_IN                                  TX1, TX2, Xavier NX, Orin NX, Orin Nano
    POM_5V_IN                               Nano
    GPU + CPU + SOC + CV + VDDRQ + SYS5V    AGX Xavier
    VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0  AGX Orin
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.counters import MOST_W, Integrated, read_number, read_text
from ampere_energy.measurement.records import MeterInfo, Provenance

ROOT = Path("/sys/bus/i2c/drivers")
TICK_S = 0.02
TOTALS = (
    ("VDD_IN",),
    ("POM_5V_IN",),
    ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),
    ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
)
_LONGEST_GAP_S = 0.5


@dataclass(frozen=True)
class Rail:
    """A sensor channel: the numbers in its files, multiplied, times the watts of their unit."""

    label: str
    files: tuple[Path, ...]
    unit_w: float

    def power_w(self) -> float:
        """Watts now; a rail at rest may read a little below zero."""
        return math.prod(read_number(path) for path in self.files) * self.unit_w


class JetsonMeter:
    """The rails that make up the whole module, or the ones asked for.

    Args:
        labels: rails to add up; the board's total where empty.
        root: where the sensors' drivers are.
        clock: monotonic seconds.
    """

    def __init__(
        self, labels: tuple[str, ...] = (), root: Path = ROOT, clock: Callable[[], float] = time.monotonic
    ) -> None:
        rails = find_rails(root)
        if not rails:
            raise MeterError(f"no INA3221 power sensor under {root}", "is this a Jetson board? choose another --meter")
        seen = ", ".join(rails)
        if labels:
            missing = [label for label in labels if label not in rails]
            if missing or len(set(labels)) < len(labels):
                asked = ",".join(labels)
                raise MeterError(f"jetson:{asked} does not name rails of this board once each", f"choose from {seen}")
        else:
            labels = next((total for total in TOTALS if rails.keys() >= set(total)), ())
            if not labels:
                how = "name the ones to add up, such as --meter jetson:RAIL,RAIL"
                raise MeterError(f"which rails make up this board is not known: it has {seen}", how)
        self._rails = [rails[label] for label in labels]
        self._clock = clock
        self._integrated = Integrated(f"Jetson rails {'+'.join(labels)}", _LONGEST_GAP_S, MOST_W["jetson"])

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        details = (("rails", "+".join(rail.label for rail in self._rails)), ("energy", "integrated power"))
        return MeterInfo("jetson", Provenance.MEASURED, ("soc",), TICK_S, details)

    def read(self) -> Reading:
        """Joules so far; to be read every few milliseconds, since what happens between readings is not seen."""
        begun_s = self._clock()
        power_w = sum(rail.power_w() for rail in self._rails)
        at_s = (begun_s + self._clock()) / 2  # the I²C bus takes about a millisecond a rail
        return Reading(at_s, (self._integrated.add(power_w, at_s),))

    def close(self) -> None:
        """Nothing to let go of."""


def find_rails(root: Path) -> dict[str, Rail]:
    """The labelled sensor channels: of the hwmon driver (mV, mA), and of the older iio driver (mW)."""
    rails: dict[str, Rail] = {}
    for file in sorted(root.glob("ina3221*/*/hwmon/hwmon*/in*_label")):
        channel = file.name.removeprefix("in").removesuffix("_label")
        files = (file.with_name(f"in{channel}_input"), file.with_name(f"curr{channel}_input"))
        # The sum of shunt voltages is labelled too, and has no current of its own.
        if all(path.exists() for path in files):
            label = read_text(file)
            rails.setdefault(label, Rail(label, files, 1e-6))
    for file in sorted(root.glob("ina3221*/*/iio:device*/rail_name_*")):
        channel = file.name.removeprefix("rail_name_")
        label = read_text(file)
        rails.setdefault(label, Rail(label, (file.with_name(f"in_power{channel}_input"),), 1e-3))
    rails.pop("NC", None)  # not connected
    return rails


def open_meter(argument: str) -> JetsonMeter:
    """`jetson`, or `jetson:VDD_GPU_SOC+VDD_CPU_CV` (or with commas) to choose the rails."""
    return JetsonMeter(tuple(re.split(r"[+,]", argument)) if argument else ())
