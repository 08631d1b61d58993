"""Tables of docs/results/own-loop.md: estimates beside plain training loops that know nothing of our code."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from scipy.stats import binom

from benchmarks.hardware import own_loop
from benchmarks.hardware.own_loop import Scored
from benchmarks.pages.text import percent, signed, table
from benchmarks.results import DATA

LEVEL = 0.9
TABLES = {
    "profiled": "models as they were profiled",
    "unseen": "networks that no campaign ran",
    "card": "models as they were profiled, on an NVIDIA H200",
}


def marks() -> dict[str, str]:
    found = {name: recorded(name) for name in TABLES}
    on_cpu = found["profiled"] + found["unseen"]
    profiled, unseen = ([abs(scored.error) for scored in found[name]] for name in ("profiled", "unseen"))
    return {
        "summary": summary(found),
        "profiled": _table(found["profiled"], ["meanwhile", "blocks alone"], _of_profiled),
        "unseen": _table(found["unseen"], ["meanwhile", "arguments"], _of_unseen),
        "card": _table(found["card"], ["blocks alone", "setting"], _of_card),
        "profiled, median": percent(statistics.median(profiled)),
        "unseen, median": percent(statistics.median(unseen)),
        "between processes": percent(_between(on_cpu)),
        "mean of windows": f"{own_loop.AFTER**-0.5:.2f}",
        "watts": f"{own_loop.WATTS:g}",
        "processes": str(own_loop.PROCESSES),
        "processes of many": str(own_loop.PROCESSES_OF_MANY),
        "window": f"{own_loop.WINDOW_S:g}",
        "budget, profiled": f"{own_loop.PROFILED_S:g}",
        "budget, unseen": f"{own_loop.UNSEEN_S:g}",
        "budget, card": f"{own_loop.CARD_S:g}",
        "when, CPU": _when(on_cpu),
        "when, card": _when(found["card"]),
    }


def recorded(name: str) -> list[Scored]:
    """All that is recorded of one table."""
    logs = sorted((DATA / "own-loop").glob("*.jsonl"))
    return [scored for log in logs for scored in own_loop.read(log) if scored.table == name]


def summary(found: dict[str, list[Scored]]) -> str:
    """How each table's estimates did; which shares 95 % of exact intervals would have stands beside what they hold."""
    rows = []
    for name, own in found.items():
        errors = [scored.error for scored in own]
        held = [scored.low_j <= window_j <= scored.high_j for scored in own for window_j in scored.scored_j]
        low, high = (float(count) / len(held) for count in binom.interval(0.95, len(held), LEVEL))
        off = [percent(statistics.median(map(abs, errors))), percent(max(map(abs, errors)))]
        inside = [str(len(held)), percent(sum(held) / len(held)), f"{percent(low)} to {percent(high)}"]
        rows.append([TABLES[name], str(len(own)), *off, signed(statistics.fmean(errors)), *inside])
    heads = ["", "networks", "median error", "worst", "mean signed error", "windows of a loop", "inside 90 %"]
    return table([*heads, "exact intervals"], rows)


def _when(found: Iterable[Scored]) -> str:
    """`2026-11-19 at 208b3a5`."""
    return ", ".join(dict.fromkeys(f"{scored.date} at {scored.commit}" for scored in found)) or "never"


def _between(found: Iterable[Scored]) -> float:
    """The standard deviation of one window as a share of the mean, in the median network."""
    shares = [statistics.stdev(windows) / statistics.fmean(windows) for s in found if len(windows := s.loops_j) > 1]
    return statistics.median(shares)


def _table(found: list[Scored], more: list[str], cells: Callable[[Scored], list[str]]) -> str:
    rows = []
    for scored in found:
        half = (scored.high_j / scored.low_j) ** 0.5 - 1
        energies = [f"{1e3 * scored.energy_j:.0f} mJ ± {100 * half:.0f} %", f"{1e3 * scored.loop_j:.0f} mJ"]
        inside = "yes" if scored.inside else "**no**"
        rows.append([scored.model, *energies, signed(scored.error), inside, *cells(scored)])
    return table(["model", "estimate", "own loop", "error", "inside", *more], rows)


def _of_profiled(scored: Scored) -> list[str]:
    return [_meanwhile(scored), _blocks_alone(scored)]


def _of_unseen(scored: Scored) -> list[str]:
    return [_meanwhile(scored), ", ".join(f"{name}={value}" for name, value in scored.arguments.items())]


def _of_card(scored: Scored) -> list[str]:
    return [_blocks_alone(scored), f"{scored.optimizer}, {scored.precision}"]


def _meanwhile(scored: Scored) -> str:
    return "" if (error := scored.error_meanwhile) is None else signed(error)


def _blocks_alone(scored: Scored) -> str:
    return signed((scored.without_j or 0.0) / scored.loop_j - 1)
