"""Numbers for people: three figures and a fitting prefix."""

from __future__ import annotations

from dataclasses import dataclass

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


@dataclass(frozen=True)
class Quantity:
    """A quantity that somebody gave: its value in the unit it is needed in, and how it was given, as `1 kWh`."""

    value: float
    text: str


def si(value: float, unit: str) -> str:
    """A value with an SI prefix: `si(0.00123, "J")` is `1.23 mJ`."""
    size = abs(value)
    if size == 0:
        return f"0 {unit}"
    factor, letter = prefix(size)
    scaled = value / factor
    digits = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
    return f"{scaled:.{digits}f} {letter}{unit}"


def prefix(size: float) -> tuple[float, str]:
    """The SI prefix that fits a size, with its factor: `prefix(0.00123)` is `(0.001, "m")`."""
    return next(((f, p) for f, p in _PREFIXES if size >= f * 0.9995), _PREFIXES[-1])


def duration(seconds: float) -> str:
    """Seconds for people: milliseconds, seconds, or hours and minutes."""
    if seconds < 120:
        return si(seconds, "s")
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def percent(share: float, signed: bool = False) -> str:
    """A share as a percentage."""
    return f"{100 * share:{'+' if signed else ''}.1f} %"


def interval(level: float) -> str:
    """What an interval is called that holds with a probability."""
    return f"{100 * level:g}% interval"


def bar(share: float, width: int = 20) -> str:
    """A horizontal bar of block characters for a share of 1."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
