"""Intel and AMD processors through the kernel's powercap files (RAPL).

    /sys/class/powercap/intel-rapl:0      package-0    counted as cpu
                        intel-rapl:0:0    core         part of the package: never added
                        intel-rapl:0:1    dram         counted as dram
                        intel-rapl:1      psys         the whole board: only when asked for, never added
                        intel-rapl-mmio:0 package-0    the same package by another way: skipped

Each zone counts microjoules and wraps at its own range, after minutes under load.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.meters import Reading
from ampere_energy.measurement.meters.counters import MOST_W, Unrolled, read_number, read_text
from ampere_energy.measurement.records import MeterInfo, Provenance

ROOT = Path("/sys/class/powercap")
TICK_S = 0.001
_ELSEWHERE = "use --meter nvml, battery or command:PROGRAM, or the model --meter cputime"


class RaplMeter:
    """All packages and their memory, or the whole board.

    Args:
        board: read `psys` instead of the packages.
        root: where the zones are.
        clock: monotonic seconds.
    """

    def __init__(self, board: bool = False, root: Path = ROOT, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        # The class folder lists sub-zones beside their packages; the colon leaves intel-rapl-mmio:N out.
        zones = [(read_text(zone / "name"), zone) for zone in sorted(root.glob("intel-rapl:*"))]
        if not zones:
            what = f"no RAPL on this machine: no intel-rapl zone in {root} (virtual machines usually have none)"
            raise MeterError(what, _ELSEWHERE)
        wanted = {"psys": "soc"} if board else {"package": "cpu", "dram": "dram"}
        self._domains: dict[str, list[tuple[Path, Unrolled]]] = {}
        for kind, domain in wanted.items():
            # Packages are numbered: package-0, or package-0-die-1.
            found = [zone for name, zone in zones if name.split("-")[0] == kind]
            if found:
                self._domains[domain] = [(zone / "energy_uj", _unrolled(zone)) for zone in found]
            elif kind != "dram":
                seen = ", ".join(name for name, _ in zones)
                raise MeterError(f"RAPL has no {kind} zone here, only {seen}", _ELSEWHERE)

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        zones = " ".join(path.parent.name for counters in self._domains.values() for path, _ in counters)
        return MeterInfo("rapl", Provenance.MEASURED, tuple(self._domains), TICK_S, (("zones", zones),))

    def read(self) -> Reading:
        """The zones' counters now, added up by domain."""
        at_s = self._clock()
        return Reading(
            at_s,
            tuple(
                sum(counter.add(self._energy_j(path), at_s) for path, counter in counters)
                for counters in self._domains.values()
            ),
        )

    def close(self) -> None:
        """Nothing to let go of."""

    def _energy_j(self, path: Path) -> float:
        try:
            return read_number(path) / 1e6
        except MeterError as error:
            if isinstance(error.__cause__, PermissionError):
                raise MeterError(
                    f"{path} may be read by root only (kernels since 2020 guard it)",
                    f"run as root, or allow it with: sudo chmod a+r {self._root}/intel-rapl:*/energy_uj",
                ) from error
            raise


def open_meter(argument: str) -> RaplMeter:
    """`rapl` for the packages and their memory, `rapl:psys` for the whole board."""
    if argument not in ("", "psys"):
        raise RequestError(f"--meter rapl:{argument}", "give rapl, or rapl:psys for the whole board")
    return RaplMeter(board=argument == "psys")


def _unrolled(zone: Path) -> Unrolled:
    range_uj = read_number(zone / "max_energy_range_uj")
    if range_uj <= 0:
        raise MeterError(f"{zone} says that it wraps at {range_uj} µJ", "is the counter broken?")
    return Unrolled(f"RAPL zone {zone.name}", range_uj / 1e6, MOST_W["rapl"])
