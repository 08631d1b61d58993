"""The list of families, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from ampere_energy.model.families.catalogue import Family
from ampere_energy.serialization import encode


def families_table(families: Sequence[Family]) -> Table:
    """`ampere models`."""
    table = Table(box=None, padding=(0, 1))
    for column in ("family", "widths", "input", "about"):
        table.add_column(column)
    for family in families:
        table.add_row(family.name, ", ".join(map(str, family.ranges)), ",".join(map(str, family.input)), family.about)
    return table


def families_json(families: Sequence[Family]) -> list[dict[str, Any]]:
    """`ampere models --json`."""
    return [
        {"name": f.name, "about": f.about, "input": list(f.input), "widths": [encode(r) for r in f.ranges]}
        for f in families
    ]
