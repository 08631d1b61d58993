"""Nothing is cut: numbers keep their width in any window, words fold, and where no window is there is room for all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table

WIDE = 100_000
"""Columns where nothing shows them: in a file or a pipe, lines are as long as they must be."""
_FEWEST = 8
_NUMBER = re.compile(r"[±≈+−(-]*\d[\d.,:–×-]*[%)]*")


def console(stderr: bool = False) -> Console:
    """A console for plain text: as wide as the window, or as `COLUMNS` says, or else without an end."""
    made = Console(stderr=stderr, emoji=False, markup=False)
    if not made.is_terminal and not os.environ.get("COLUMNS", "").isdigit():
        made.width = WIDE
    return made


def whole(renderable: RenderableType) -> RenderableType:
    """The same with tables whose columns of numbers do not shrink, and whose words fold instead of being cut."""
    if isinstance(renderable, Group):
        return Group(*map(whole, renderable.renderables))
    if isinstance(renderable, Table):
        for column in renderable.columns:
            _keep(column)
    return renderable


def _keep(column: Column) -> None:
    texts = [str(cell) for cell in (column.header, column.footer, *column.cells)]
    longest = _longest(line for text in texts for line in text.splitlines())
    numbers = column.justify == "right" and column.no_wrap
    column.overflow = "fold"
    column.no_wrap = numbers
    words = _longest(word for text in texts for word in text.split() if _NUMBER.fullmatch(word))
    column.min_width = longest if numbers else max(words, min(longest, _FEWEST))


def _longest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)
