"""The studies' results as tables in `docs/method.md`, between their markers."""

from __future__ import annotations

import json
import re
from typing import Any

from studies.freshness import RESULTS, ROOT

PAGE = ROOT / "docs" / "method.md"


def additive(result: dict[str, Any]) -> list[str]:
    rows = [
        "| family, noise, rules | blocks | mean error | worst seed's mean | worst network |",
        "|---|---|---|---|---|",
    ]
    for case, sizes in result.items():
        for size, errors in sizes.items():
            shown = " | ".join(f"{100 * value:.2f} %" for value in errors.values())
            rows.append(f"| {case} | {size} | {shown} |")
    return rows


def listing(result: dict[str, float]) -> list[str]:
    rows = ["| what | value |", "|---|---|"]
    return rows + [
        f"| {name} | {value if isinstance(value, int) else format(value, '.1e')} |" for name, value in result.items()
    ]


def rendered(page: str) -> str:
    """The page with every table made anew from the committed results."""
    results = json.loads(RESULTS.read_text())
    for name, render in {"additive": additive, "oracle": listing, "kills": listing}.items():
        table = "\n".join(render(results[name]["result"]))
        marked = rf"(<!-- study: {name} -->\n).*?(<!-- end -->)"
        page = re.sub(marked, lambda m, table=table: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL)
    return page


def main() -> None:
    PAGE.write_text(rendered(PAGE.read_text()))
