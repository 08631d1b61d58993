"""The table of docs/results/batches.md: estimates at other batches than the profile's."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.other_cards import pooled
from benchmarks.pages.text import percent, signed, span, table
from benchmarks.results import result_of


def marks() -> dict[str, str]:
    result = result_of("batches")
    pairs = [[row for row in result if (row["from"], row["to"]) == pair] for pair in ((128, 512), (512, 128))]
    return {
        "batches": batches(result),
        "a quarter or four times": span((pooled(rows, "error") for rows in pairs), 0),
    }


def batches(result: list[dict[str, Any]]) -> str:
    """The sets and modes of a family together."""
    found: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for row in sorted(result, key=lambda row: (row["set"].partition("/")[0] != "h200", row["from"] < row["to"])):
        family = row["set"].partition("-")[0].partition("_")[0]
        found.setdefault((family, row["from"], row["to"]), []).append(row)
    rows = []
    for (family, start, end), own in found.items():
        error, bias, inside, reach = (pooled(own, share) for share in ("error", "bias", "inside", "reach"))
        batch = f"{start}, {end}" if start != end else f"{start}, the same"
        networks = str(sum(row["members"] for row in own))
        rows.append([family, batch, networks, percent(error), signed(bias), percent(inside, 0), f"{reach:.2f}"])
    return table(
        ["family", "from batch, to batch", "networks", "mean error", "bias", "inside 90 %", "interval ×÷"], rows
    )
