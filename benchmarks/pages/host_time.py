"""The table of docs/results/host-time.md: the time of steps that wait for their host."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.pages.text import percent, signed, table
from benchmarks.results import result_of


def marks() -> dict[str, str]:
    found: dict[str, list[float]] = result_of("host time")
    every = [error for errors in found.values() for error in errors]
    rows = [_row(name, errors) for name, errors in (*found.items(), ("**all**", every))]
    return {
        "host time": table(["setting", "steps that wait", "median error of the time", "bias"], rows),
        "median setting": percent(statistics.median(map(_off, found.values()))),
    }


def _row(name: str, errors: Sequence[float]) -> list[str]:
    return [name, str(len(errors)), percent(_off(errors)), signed(statistics.fmean(errors))]


def _off(errors: Sequence[float]) -> float:
    return statistics.median(map(abs, errors))
