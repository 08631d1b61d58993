"""Energy meters: one small protocol, one module each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ampere_energy.measure.measurement import MeterInfo


@dataclass(frozen=True)
class Reading:
    """Joules counted so far, and the monotonic moment they were read."""

    energy_j: float
    at_s: float


class Meter(Protocol):
    """A cumulative energy counter."""

    @property
    def info(self) -> MeterInfo:
        """Which meter this is."""
        ...

    def read(self) -> Reading:
        """The counter now; raises `MeterError` where it cannot be read, and never reports 0 for unknown."""
        ...
