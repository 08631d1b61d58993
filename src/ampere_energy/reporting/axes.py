"""Axes with round ticks, linear or in decades."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ampere_energy.units import prefix, si

_PREFIXED = ("J", "s", "W", "FLOP")
_LARGEST = 1e100
_SAME = 1e-9


@dataclass(frozen=True)
class Axis:
    """What an axis shows.

    Attributes:
        log: decades instead of even steps.
        zero: zero is on it; has no meaning for decades.
        tight: it ends where the data does, not at the next round value.
    """

    title: str
    unit: str = ""
    log: bool = False
    zero: bool = False
    tight: bool = False

    def text(self, value: float) -> str:
        """A value with its unit, for people."""
        return si(value, self.unit) if self.unit in _PREFIXED else f"{value:.4g} {self.unit}".strip()


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high` laid over pixels from `start` to `end`; its ticks are round."""

    axis: Axis
    ticks: tuple[float, ...]
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value lies, in pixels."""
        low, high = self.low, self.high
        share = math.log(value / low) / math.log(high / low) if self.axis.log else (value - low) / (high - low)
        return self.start + share * (self.end - self.start)

    @property
    def _prefix(self) -> tuple[float, str]:
        prefixed = self.axis.unit in _PREFIXED and not self.axis.log
        return prefix(max(map(abs, self.ticks))) if prefixed else (1.0, "")

    @property
    def title(self) -> str:
        """The axis's title with the unit of its labels."""
        unit = self._prefix[1] + self.axis.unit
        return f"{self.axis.title} ({unit})" if unit else self.axis.title

    @property
    def labels(self) -> list[str]:
        """The ticks' values; a linear axis has one prefix for all, which its title tells."""
        if self.axis.log and self.axis.unit in _PREFIXED:
            scaled = [(tick, *prefix(tick)) for tick in self.ticks]
            return [f"{tick / factor:.6g} {letter}{self.axis.unit}" for tick, factor, letter in scaled]
        return [f"{tick / self._prefix[0]:.6g}".replace("-", "−") for tick in self.ticks]


def fit_scale(axis: Axis, values: Sequence[float], start: float, end: float) -> Scale:
    """A scale that covers the values; where they are all the same, some room around them."""
    if not values:
        raise ValueError(f"{axis.title}: nothing to plot")
    if not all(math.isfinite(v) and abs(v) <= _LARGEST for v in values):
        raise ValueError(f"{axis.title}: values that are not finite or out of reason")
    low, high = min(values), max(values)
    if axis.zero and not axis.log:
        low, high = min(low, 0.0), max(high, 0.0)
    if axis.log and low < 1 / _LARGEST:
        raise ValueError(f"{axis.title}: {low:g} has no place on an axis of decades")
    ticks = tuple(_decades(low, high) if axis.log else _evenly(low, high))
    if not axis.tight or high - low <= _SAME * abs(high):
        return Scale(axis, ticks, ticks[0], ticks[-1], start, end)
    return Scale(axis, tuple(t for t in ticks if low <= t <= high), low, high, start, end)


def _evenly(low: float, high: float) -> list[float]:
    if high - low <= _SAME * max(abs(low), abs(high)):
        reach = abs(high) / 2 or 1.0
        low, high = low - reach, high + reach
    size = 10.0 ** math.floor(math.log10((high - low) / 5))
    step = next(size * times for times in (1, 2, 5, 10) if size * times * 5 >= (high - low) * (1 - _SAME))
    first, last = math.floor(low / step + _SAME), math.ceil(high / step - _SAME)
    return [i * step for i in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    if high <= low * (1 + _SAME):
        low, high = low / 2, high * 2
    first, last = math.floor(math.log10(low) + _SAME), math.ceil(math.log10(high) - _SAME)
    if last - first > 3:
        stride = math.ceil((last - first) / 6)
        return [float(f"1e{e}") for e in range(first, last + stride, stride)]
    between = [float(f"{digit}e{e}") for e in range(first, last + 1) for digit in (1, 2, 5)]
    start = max(i for i, v in enumerate(between) if v <= low * (1 + _SAME))
    return between[start : 1 + min(i for i, v in enumerate(between) if v >= high * (1 - _SAME))]
