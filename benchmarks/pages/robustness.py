"""Tables of docs/results/robustness.md: killed campaigns and damaged profiles."""

from __future__ import annotations

import json

from benchmarks.pages.text import listing, table
from benchmarks.results import RESULTS, result_of


def marks() -> dict[str, str]:
    kills, hostile = result_of("kills"), result_of("hostile")
    return {
        "kills": table(["what", "value"], listing(kills)),
        "hostile": table(["what", "value"], listing(hostile)),
        "killed": str(kills["kills"]),
        "lost or repeated": str(kills["lost"] + kills["twice"] or "no"),
        "attacks": _attacks(),
        "damaged": f"{hostile['cases']:,}",
        "other errors": str(hostile["other errors"] or "none"),
    }


def _attacks() -> str:
    """Each attack that was run in full: its cases, and what did not hold."""
    rows = []
    for name, entry in sorted(json.loads(RESULTS.read_text()).items()):
        if name.startswith("attacks: "):
            found = entry["result"]
            fails = "; ".join(f"{cause}: {known['cases']}" for cause, known in found["fails"].items()) or "nothing"
            numbers = [f"{found[key]:,}" for key in ("cases", "hold", "left for the next chunk")]
            rows.append([name.removeprefix("attacks: "), *numbers, fails, f"{entry['date']} at {entry['commit']}"])
    return table(["attack", "cases", "hold", "not run yet", "what did not hold", "run"], rows)
