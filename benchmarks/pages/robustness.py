"""Tables of docs/results/robustness.md: killed campaigns and damaged profiles."""

from __future__ import annotations

from benchmarks.pages.text import listing, table
from benchmarks.results import result_of


def marks() -> dict[str, str]:
    kills, hostile = result_of("kills"), result_of("hostile")
    return {
        "kills": table(["what", "value"], listing(kills)),
        "hostile": table(["what", "value"], listing(hostile)),
        "killed": str(kills["kills"]),
        "lost or repeated": str(kills["lost"] + kills["twice"] or "no"),
        "damaged": f"{hostile['cases']:,}",
        "other errors": str(hostile["other errors"] or "none"),
    }
