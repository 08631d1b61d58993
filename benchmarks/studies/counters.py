"""Counters that wrap, are reset and cannot be read: no joule is lost, none is invented.

The traces are drawn, so what a perfect meter would say is known. Some resets nobody can see: a counter that has passed
its old value again, or whose fall looks like a wrap that the power allows. They are counted, not hidden.
"""

from __future__ import annotations

import errno
import math
import random
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters.counters import Unrolled
from ampere_energy.measurement.meters.rapl import RaplMeter

MOST_W = 2000.0
RANGE_UJ = 262_143_328_850
"""Of an Intel server: 2³² × 61 µJ."""


def trace(draw: random.Random, range_uj: int, length: int) -> list[tuple[float, int]]:
    """Moments and the microjoules of a counter that never wraps, from a random start; less than a range a gap."""
    at_s, energy_uj = draw.uniform(0, 1e6), draw.randrange(range_uj)
    found = [(at_s, energy_uj)]
    for _ in range(length):
        # At least 0.1 J a gap: a counter of 10⁵ J, held as a float, is good to 10⁻¹¹ J and no better.
        gap_s = 10 ** draw.uniform(-2, 1.5)
        power_w = draw.uniform(10, 0.999 * MOST_W)
        at_s += gap_s
        energy_uj += min(round(power_w * gap_s * 1e6), range_uj - 1)
        found.append((at_s, energy_uj))
    return found


def run_wraps(count: int, seed: int) -> dict[str, float]:
    """Traces over small and large ranges: the energy is exact, and never falls."""
    draw = random.Random(seed)
    worst, falls, wraps, most_wraps = 0.0, 0, 0, 0
    for _ in range(count):
        range_uj = draw.choice((RANGE_UJ, RANGE_UJ // 4, round(10 ** draw.uniform(9, 11))))
        steps = trace(draw, range_uj, draw.randint(2, 60))
        counter = Unrolled("drawn", range_uj / 1e6, MOST_W)
        said = [counter.add(uj % range_uj / 1e6, at_s) for at_s, uj in steps]
        falls += sum(b < a for a, b in pairwise(said)) + (said[0] != 0)
        start_uj = steps[0][1]
        for joules, (_, uj) in zip(said[1:], steps[1:], strict=True):
            worst = max(worst, abs(joules - (uj - start_uj) / 1e6) / ((uj - start_uj) / 1e6))
        wrapped = steps[-1][1] // range_uj
        wraps, most_wraps = wraps + wrapped, max(most_wraps, wrapped)
    return {
        "traces": count,
        "wraps": wraps,
        "most wraps of one": most_wraps,
        "worst relative error": worst,
        "falls": falls,
    }


def run_resets(count: int, seed: int) -> dict[str, int]:
    """Traces reset at a random place: every reset that can be seen raises, and no energy is booked for it."""
    draw = random.Random(seed)
    counts = Counter(resets=0, raised=0, missed=0, invented=0, unseeable=0)
    for _ in range(count):
        range_uj = draw.choice((RANGE_UJ, RANGE_UJ // 4, None))
        steps = trace(draw, range_uj or RANGE_UJ, draw.randint(3, 30))
        reset = draw.randint(1, len(steps) - 1)
        (before_s, before_uj), (at_s, uj) = steps[reset - 1], steps[reset]
        fresh_uj = round(draw.random() * (uj - before_uj))  # counted since the reset, when it is next read
        values = [value for _, value in steps[:reset]] + [fresh_uj + value - uj for _, value in steps[reset:]]
        values = [value % range_uj if range_uj else value for value in values]
        fell_uj = values[reset - 1] - values[reset]
        seen = fell_uj > 0 and not (range_uj and like_a_wrap(fell_uj, range_uj, at_s - before_s))
        counter = Unrolled("drawn", range_uj / 1e6 if range_uj else None, MOST_W)
        raised, said = [], 0.0
        for i, ((moment_s, _), value) in enumerate(zip(steps, values, strict=True)):
            try:
                said = counter.add(value / 1e6, moment_s)
            except MeterError:
                raised.append(i)
        used_uj = steps[-1][1] - steps[0][1]
        counts["resets"] += 1
        counts["unseeable"] += not seen
        counts["raised"] += raised == [reset]
        counts["missed"] += raised != ([reset] if seen else [])
        counts["invented"] += seen and said > used_uj / 1e6 * (1 + 1e-9)
    return dict(counts)


def like_a_wrap(fell_uj: int, range_uj: int, gap_s: float) -> bool:
    """Whether a wrap explains the fall with no more than the most power."""
    return (range_uj - fell_uj) / 1e6 <= MOST_W * gap_s


class Machine:
    """A fake powercap tree of two packages with memory, and the clock it runs by."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.root, self.draw, self.now_s = root, draw, 1000.0
        self.used_uj = {}
        for zone, name in (("0", "package-0"), ("0:0", "dram"), ("1", "package-1"), ("1:0", "dram")):
            folder = root / f"intel-rapl:{zone}"
            folder.mkdir(parents=True)
            (folder / "name").write_text(f"{name}\n")
            (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
            self.used_uj[folder / "energy_uj"] = draw.randrange(RANGE_UJ)
        self.run()

    @property
    def total_uj(self) -> int:
        """Microjoules of all zones, without wraps."""
        return sum(self.used_uj.values())

    def run(self) -> None:
        """A while goes by, and every counter is written anew."""
        gap_s = 10 ** self.draw.uniform(-2, 0.5)
        self.now_s += gap_s
        for path in self.used_uj:
            self.used_uj[path] += round(self.draw.uniform(1, 400) * gap_s * 1e6)
            path.write_text(f"{self.used_uj[path] % RANGE_UJ}\n")


def unreadable(path: Path, code: int) -> AbstractContextManager[object]:
    """The real `read_text`, failing for one file as the kernel would."""
    real = Path.read_text

    def read_text(self: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if self == path:
            raise OSError(code, "injected", str(path))
        return real(self, encoding=encoding, errors=errors)

    return patch.object(Path, "read_text", read_text)


def _holding(change: Callable[[str], str]) -> Callable[[Path], AbstractContextManager[object]]:
    def inject(path: Path) -> AbstractContextManager[object]:
        path.write_text(change(path.read_text().strip()))
        return nullcontext()

    return inject


def _vanished(path: Path) -> AbstractContextManager[object]:
    path.unlink()
    return nullcontext()


FAULTS: dict[str, Callable[[Path], AbstractContextManager[object]]] = {
    "EIO": lambda path: unreadable(path, errno.EIO),
    "EACCES": lambda path: unreadable(path, errno.EACCES),
    "empty": _holding(lambda text: ""),
    "nan": _holding(lambda text: "nan\n"),
    "not a number": _holding(lambda text: text[: len(text) // 2] + "x"),
    "torn digits": _holding(lambda text: text[:2]),
    "vanished": _vanished,
}


def run_faults(count: int, seed: int, folder: Path) -> dict[str, float]:
    """Faults in a random zone of the real RAPL meter: each raises with its cause, and nothing is booked for it.

    Torn digits that look like a wrap are not injected but counted: no meter could tell.
    """
    draw = random.Random(seed)
    counts = Counter({"faults": 0, "raised": 0, "causes told": 0, "unseeable": 0, **dict.fromkeys(FAULTS, 0)})
    root = folder / "powercap"
    invented_j, booked_j, used_j = -math.inf, 0.0, 0.0
    while counts["faults"] < count:
        machine = Machine(root, draw)
        meter = RaplMeter(root=root, clock=lambda machine=machine: machine.now_s)  # type: ignore[misc]
        good_j, good_uj, good_s = meter.read().total_j, machine.total_uj, machine.now_s
        for _ in range(min(100, count - counts["faults"])):
            machine.run()
            kind, path = draw.choice(list(FAULTS)), draw.choice(list(machine.used_uj))
            if kind == "torn digits" and like_a_wrap(int(path.read_text()), RANGE_UJ, machine.now_s - good_s):
                counts["unseeable"] += 1
                continue
            counts.update(("faults", kind))
            with FAULTS[kind](path):
                try:
                    meter.read()
                except MeterError as error:
                    counts["raised"] += 1
                    counts["causes told"] += path.parent.name in str(error)
            for _ in range(draw.randint(1, 3)):  # the first of these good readings spans the fault
                machine.run()
                now_j, now_uj = meter.read().total_j, machine.total_uj
                grown_j, true_j = now_j - good_j, (now_uj - good_uj) / 1e6
                invented_j = max(invented_j, grown_j - true_j, -grown_j)
                booked_j, used_j = booked_j + grown_j, used_j + true_j
                good_j, good_uj, good_s = now_j, now_uj, machine.now_s
        shutil.rmtree(root)
    return {**counts, "most invented J": invented_j, "booked J": booked_j, "used J": used_j}
