"""How a measurement is taken: how long to warm up, how many windows, how long each."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ampere_energy.measurement.records import MeterInfo


@dataclass(frozen=True)
class Procedure:
    """How long to warm up and to look.

    Attributes:
        windows: the least number of windows.
        ticks: the least number of the counter's ticks in a window.
        window_s: the least length of a window.
        warm_up_s: the longest warm-up, but at least two looks at step time and power; 0 for none.
        steady: the warm-up ends when step time and power change by less than this share.
        brisk: no look at power while warming up; and, of steps that are short beside the ticks of a counter that ticks
            some times a second, one window, begun with the next tick and worth the whole ticks that are in it.
        target: windows are added until the 95 % confidence interval is within this share of the value …
        budget_s: … or until the windows have taken this long.
        deadline_s: when to give the measurement up.
        iterations: the least number of steps in a window.
    """

    windows: int
    ticks: int
    window_s: float
    warm_up_s: float
    steady: float = 0.005
    brisk: bool = False
    target: float | None = None
    budget_s: float = 0.0
    deadline_s: float = 120.0
    iterations: int = 1


POINT = Procedure(windows=2, ticks=3, window_s=0.18, warm_up_s=0.4, steady=0.02)
"""A campaign's point: cheap, its noise estimated and modelled."""


REPORT = Procedure(windows=3, ticks=10, window_s=0.5, warm_up_s=6.0, target=0.02, budget_s=5.0)
"""A measurement somebody will quote."""


def point_of(meter: MeterInfo) -> Procedure:
    """How a campaign's point is measured: where the meter ticks, windows are long already, and one is enough.

    On an H200 power is what it stays from the first whole tick on that begins 30 ms after the steps do, and powers of
    one network measured again differ by a percent, while its neighbours' differ by ten.
    """
    return replace(POINT, windows=1, ticks=2, warm_up_s=0.8, brisk=True) if meter.tick_s else POINT


def whole_of(meter: MeterInfo) -> Procedure:
    """How a campaign measures the model that it is about: a new process takes seconds, so its windows may be longer."""
    return replace(point_of(meter), ticks=5, warm_up_s=1.0) if meter.tick_s else replace(POINT, window_s=0.3)
