"""What raw counters and sensors do, made into joules that only ever grow.

`Unrolled` follows a counter through its wraps: a value that fell is a wrap where the counter has a range and the
energy that a wrap implies is possible in the time that passed, and a reset otherwise. `Integrated` adds watts up.
Neither ever invents a joule: a reset or a gap raises, and the window it happened in is rejected.
"""

from __future__ import annotations

import math
from pathlib import Path

from ampere_energy.errors import MeterError

MOST_W = {"nvml": 5e3, "rapl": 2e3, "jetson": 500.0, "battery": 1e3, "command": 2e4, "zeus": 2e4}
"""More power than this is not plausible: of a card, a processor's zone, a board, a machine's batteries, a socket."""
_TICK_SLACK_S = 0.5  # a reading just after a tick shows energy from before the reading before it


class Unrolled:
    """A counter's joules since it was first read, across wraps.

    Args:
        name: what to call it in errors.
        range_j: the value at which it wraps to 0, or None where it does not wrap.
        most_w: no more power than this flows through it; tells a wrap from a reset.
    """

    def __init__(self, name: str, range_j: float | None, most_w: float) -> None:
        self.name = name
        self.range_j = range_j
        self.most_w = most_w
        self._last: tuple[float, float] | None = None
        self._total_j = 0.0

    def add(self, raw_j: float, at_s: float) -> float:
        """Takes a raw value in; returns the joules so far.

        Raises:
            MeterError: the counter was reset, leapt, or holds a value it cannot have; counting starts anew from the
                next value.
        """
        if not (math.isfinite(raw_j) and 0 <= raw_j <= (self.range_j or math.inf)):
            raise MeterError(f"{self.name} reads {raw_j} J", "is the counter broken?")
        last, self._last = self._last, (raw_j, at_s)
        if last is None:
            return self._total_j
        before_j, before_s = last
        grown_j = raw_j - before_j
        if grown_j < 0:
            wrapped_j = grown_j + self.range_j if self.range_j is not None else math.inf
            if wrapped_j > self.most_w * max(0.0, at_s - before_s):
                self._last = None  # the low value may be a torn reading: growth from it would be invented
                raise MeterError(f"{self.name} was reset from {before_j:g} J to {raw_j:g} J", "measure again")
            grown_j = wrapped_j
        elif grown_j > self.most_w * (at_s - before_s + _TICK_SLACK_S):
            self._last = None
            raise MeterError(f"{self.name} leapt from {before_j:g} J to {raw_j:g} J", "measure again")
        self._total_j += grown_j
        return self._total_j


class Integrated:
    """Watts added up by the trapezoidal rule, in joules since the first reading.

    Args:
        name: what to call it in errors.
        longest_gap_s: readings further apart than this leave a gap nobody can fill.
        most_w: no more power than this is read from such a sensor.
    """

    def __init__(self, name: str, longest_gap_s: float, most_w: float = math.inf) -> None:
        self.name = name
        self.longest_gap_s = longest_gap_s
        self.most_w = most_w
        self._last: tuple[float, float] | None = None
        self._total_j = 0.0

    def add(self, power_w: float, at_s: float) -> float:
        """Takes a power reading in; returns the joules so far.

        Raises:
            MeterError: the reading is no power, or the last one was too long ago; adding up starts anew from here.
        """
        if not (math.isfinite(power_w) and power_w >= 0):
            raise MeterError(f"{self.name} reads {power_w} W", "is the sensor connected?")
        if power_w > self.most_w:
            much = f"{self.name} reads {power_w:.4g} W, more than the {self.most_w:g} W that such a meter can"
            raise MeterError(much, "is its unit right?")
        last, self._last = self._last, (power_w, at_s)
        if last is None:
            return self._total_j
        before_w, before_s = last
        gap_s = at_s - before_s
        if gap_s > self.longest_gap_s:
            raise MeterError(f"{self.name} was not read for {gap_s:.2g} s", "measure again on a calmer machine")
        self._total_j += 0.5 * (before_w + power_w) * gap_s
        return self._total_j


def read_text(path: Path) -> str:
    """The text of a small system file, stripped; `MeterError` with the cause where there is none."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except PermissionError as error:
        raise MeterError(f"{path} may not be read by this user", f"allow it with: sudo chmod a+r {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise MeterError(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from error
    if not text:
        raise MeterError(f"{path} is empty")
    return text


def read_number(path: Path) -> int:
    """The whole number in a small system file; anything else is a `MeterError`."""
    text = read_text(path)
    try:
        return int(text)
    except ValueError:
        raise MeterError(f"{path} holds {text[:40]!r}, not a whole number") from None
