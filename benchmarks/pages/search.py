"""The table of docs/results/search.md: a search against measuring its candidates, and against the whole front."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.pages.text import percent, table
from benchmarks.results import result_of


def marks() -> dict[str, str]:
    result = result_of("search")
    return {
        "search": search(result),
        "trials": f"{result['trials']:,}",
        "cheaper": f"{result['times cheaper']:,.0f}",
        "found": percent(statistics.median(result["hypervolume"])),
    }


def search(result: dict[str, Any]) -> str:
    seconds, trials = result["search_s"], result["trials"]
    parts = ", ".join(f"{name} {value:.1f} s" for name, value in result["spent_s"].items() if value)
    rows = [
        ("networks of the space", f"{result['members']:,}; {result['whole front']} on its front"),
        (f"a search of {trials:,} candidates", f"{min(seconds):.1f} to {max(seconds):.1f} s on one core, loading and "
         f"reading the model included; in the median {parts}"),
        (f"measuring {trials:,} such networks",
         f"{result['measuring all_s']:,.0f} s at {result['measuring one_s']:.2f} s each"),
        ("the search is cheaper", f"{result['times cheaper']:,.0f} times"),
        ("the profile, which serves every later search", f"{result['profile_s']:.0f} s of measuring, not counted"),
        ("of the whole front's hypervolume", _spread(result["hypervolume"])),
        ("the same of logarithms", _spread(result["hypervolume, logarithms"])),
        ("as many candidates at random", _spread(result["hypervolume at random"])),
        ("the same of logarithms", _spread(result["hypervolume at random, logarithms"])),
        ("estimating all networks instead", f"{result['whole_s']:.0f} s"),
    ]  # fmt: skip
    rows += [
        (f"along gradients, {percent(g['budget'], 0)} of the largest's joules",
         f"{', '.join(map(str, g['widths']))}: {percent(g['energy'])} of its joules, {percent(g['score / best'])} of "
         f"the best score within; {g['seconds']:.1f} s")
        for g in result["gradients"]
    ]  # fmt: skip
    return table(["what", "found"], rows)


def _spread(values: list[float]) -> str:
    return f"{percent(min(values))} to {percent(max(values))} (median {percent(statistics.median(values))})"
