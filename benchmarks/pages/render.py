"""The pages of docs/results, whose tables and numbers are made from committed data.

A page is Markdown with marks: what stands between `<!-- table: NAME -->` or `<!-- value: NAME -->` and `<!-- end -->`
is made anew by the module of the page's name; the words around are the page's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from benchmarks.pages import (
    batches,
    families,
    fit,
    host_time,
    index,
    meters,
    other_cards,
    own_loop,
    pruning,
    robustness,
    search,
    whole_models,
)
from benchmarks.results import ROOT

FOLDER = ROOT / "docs" / "results"
PAGES: dict[str, Callable[[], dict[str, str]]] = {
    "README": index.marks,
    "own-loop": own_loop.marks,
    "host-time": host_time.marks,
    "families": families.marks,
    "other-cards": other_cards.marks,
    "batches": batches.marks,
    "whole-models": whole_models.marks,
    "fit": fit.marks,
    "meters": meters.marks,
    "pruning": pruning.marks,
    "search": search.marks,
    "robustness": robustness.marks,
}
_MARK = re.compile(r"<!-- (table|value): (.+?) -->.*?<!-- end -->", re.DOTALL)


def rendered(page: Path) -> str:
    """A page with everything between its marks made anew."""
    made = PAGES[page.stem]()
    text = page.read_text()
    if unused := made.keys() - {mark[2] for mark in _MARK.finditer(text)}:
        raise ValueError(f"{page.name} has no mark for {', '.join(sorted(unused))}")
    return _MARK.sub(lambda mark: _filled(mark[1], mark[2], made[mark[2]]), text)


def _filled(sort: str, name: str, found: str) -> str:
    inner = f"\n{found}\n" if sort == "table" else found
    return f"<!-- {sort}: {name} -->{inner}<!-- end -->"


def write() -> None:
    for name in PAGES:
        page = FOLDER / f"{name}.md"
        page.write_text(rendered(page))
        print(page.relative_to(ROOT))
