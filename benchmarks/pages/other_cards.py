"""The table of docs/results/other-cards.md: profiles of one card on networks measured on another."""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.pages.text import percent, signed, span, table
from benchmarks.results import result_of

Row = dict[str, Any]


def marks() -> dict[str, str]:
    rows: list[Row] = result_of("cards")
    alike = on_other_cards(rows)
    waiting = [row for row in alike if "_10-" in row["set"] and row["mode"] == "eager"]
    steady = [row for row in alike if row not in waiting]
    return {
        "cards": cards(rows),
        "median": percent(statistics.median(row["other"] for row in steady)),
        "span": span(row["other"] for row in steady),
        "made there": percent(statistics.median(row["own"] for row in steady)),
        "waiting": span(row["other"] for row in waiting),
        "without the bias": percent(statistics.median(row["without bias"] for row in steady)),
        "networks": str(sum(row["members"] for row in alike)),
        "inside": percent(pooled(alike, "inside")),
        "inside, another card": percent(pooled(alike, "inside elsewhere")),
    }


def on_other_cards(result: list[Row]) -> list[Row]:
    """The rows of profiles on networks of their own widths, measured on another card."""
    return [row for row in result if row["inside elsewhere"] is not None and f"-{_widths(row)}" in row["set"]]


def pooled(rows: list[Row], share: str) -> float:
    """A share of networks, over the networks of all rows."""
    return sum(row["members"] * row[share] for row in rows) / sum(row["members"] for row in rows)


def cards(result: list[Row]) -> str:
    heads = ["set, mode", "profile's widths", "profile's card, networks' card", "networks", "own profile", "this one"]
    rows = [
        [
            f"{row['set']}, {row['mode']}",
            _widths(row),
            ", ".join(row["cards"]),
            str(row["members"]),
            percent(row["own"]),
            percent(row["other"]),
            signed(row["bias"]),
            percent(row["inside"], 0),
            "–" if row["inside elsewhere"] is None else percent(row["inside elsewhere"], 0),
            percent(row["without bias"]),
        ]
        for row in result
    ]
    return table([*heads, "its bias", "inside", "inside, another card's", "without the bias"], rows)


def _widths(row: Row) -> str:
    """The widths of a row's profile."""
    return "aligned" if row["profile"].endswith("aligned") else "any"
