"""Ranges of widths, and whether a point lies within some."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ampere_energy.errors import WidthError


@dataclass(frozen=True)
class WidthRange:
    """Widths from `low` to `high`, `step` apart, both ends included."""

    low: int
    high: int
    step: int = 1

    def __post_init__(self) -> None:
        if self.low < 1 or self.high < self.low or self.step < 1:
            raise WidthError(f"a width range of {self.low} to {self.high} step {self.step}", "give 1 ≤ low ≤ high")
        if (self.high - self.low) % self.step:
            raise WidthError(
                f"a width range of {self.low} to {self.high} that steps of {self.step} do not fill",
                f"end it at {self.high - (self.high - self.low) % self.step}",
            )

    def __contains__(self, width: int) -> bool:
        return self.low <= width <= self.high and (width - self.low) % self.step == 0

    def __len__(self) -> int:
        return (self.high - self.low) // self.step + 1

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.low + index * self.step

    def __str__(self) -> str:
        return f"{self.low}–{self.high}" + (f" step {self.step}" if self.step > 1 else "")

    def scaled(self, factor: int) -> WidthRange:
        """The range of features when each unit of width carries `factor` of them."""
        return WidthRange(self.low * factor, self.high * factor, self.step * factor)

    def aligned(self, step: int) -> WidthRange:
        """The multiples of `step` inside the range."""
        low, high = -(-self.low // step) * step, self.high // step * step
        if high < low:
            raise WidthError(f"no multiple of {step} lies in {self}", "use a smaller width step")
        return WidthRange(low, high, step)

    def up_to(self, high: int) -> WidthRange:
        """The part of the range that does not pass `high`, and at least its lowest width."""
        return WidthRange(self.low, max(self.low, high - (high - self.low) % self.step), self.step)

    def hull(self, other: WidthRange) -> WidthRange:
        """The smallest range that holds both."""
        step = math.gcd(self.step, other.step, abs(self.low - other.low))
        return WidthRange(min(self.low, other.low), max(self.high, other.high), step)


Domain = tuple[WidthRange, ...]


def within(domain: Domain, point: Sequence[float]) -> bool:
    """Whether a point lies between the bounds of a domain, multiples of its steps or not."""
    return len(domain) == len(point) and all(r.low <= width <= r.high for r, width in zip(domain, point, strict=True))
