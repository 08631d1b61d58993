"""What reaches a terminal: nothing is cut, and text is text.

Numbers keep their width in any window, words fold, and where no window is there is room for all. Whatever is printed
goes through one console, which shows control characters escaped and takes no word for markup.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from ampere_energy.errors import printable

if TYPE_CHECKING:
    from rich.status import Status

WIDE = 100_000
"""Columns where nothing shows them: in a file or a pipe, lines are as long as they must be."""
_FEWEST = 8
_NUMBER = re.compile(r"[±≈+−(-]*\d[\d.,:–×-]*[%)]*")


class LiteralConsole(Console):
    """A console that shows text as it is: nothing in it is obeyed, neither by the terminal nor as markup."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A cell, a title or a message."""
        return super().render_str(printable(text), **options | {"markup": False, "emoji": False})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Anything else: of what is text already, the same."""
        return super().render(_literal(renderable) if isinstance(renderable, Text) else renderable, options)

    def status(self, status: RenderableType, **options: Any) -> Status:
        """A line that tells what is being done."""
        from ampere_energy.reporting.status_line import Doing

        return Doing(status, console=self, **options)

    def on_broken_pipe(self) -> None:
        """Whoever reads has left: `main` says by which code this ends."""
        raise BrokenPipeError


def _literal(text: Text) -> Text:
    if printable(text.plain) == text.plain:
        return text
    return Text(printable(text.plain), style=text.style, justify=text.justify, overflow=text.overflow, end=text.end)


def console(stderr: bool = False) -> Console:
    """A console for plain text: as wide as the window, or as `COLUMNS` says, or else without an end."""
    made = LiteralConsole(stderr=stderr, emoji=False, markup=False)
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
