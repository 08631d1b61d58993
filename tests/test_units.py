from __future__ import annotations

import pytest

from ampere_energy.units import bar, duration, percent, si


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.00123, "1.23 mJ"),
        (999.96, "1.00 kJ"),
        (99.96, "100 J"),
        (12.34, "12.3 J"),
        (-0.5, "-500 mJ"),
        (0, "0 J"),
        (3.2e9, "3.20 GJ"),
        (4e-12, "0.00 nJ"),
    ],
)
def test_si(value: float, shown: str) -> None:
    assert si(value, "J") == shown


def test_duration() -> None:
    assert [duration(s) for s in (0.002, 61, 125, 7300)] == ["2.00 ms", "61.0 s", "2 min 05 s", "2 h 01 min"]


def test_bar_and_percent() -> None:
    assert bar(0.5, 4) == "██"
    assert bar(0.53125, 4) == "██▏"
    assert (bar(-1), bar(9, 3)) == ("", "███")
    assert (percent(0.123), percent(0.1, signed=True)) == ("12.3 %", "+10.0 %")
