"""Where commands print: results on standard output, all else on standard error."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ampere_energy import files
from ampere_energy.show.whole import console, whole

err = console(stderr=True)


def say(message: str) -> None:
    """Tells a line that is not the result."""
    err.print(message, highlight=False, soft_wrap=True)


def show(as_json: bool, data: Callable[[], Any], table: Callable[[], Any]) -> None:
    """Prints the result, as JSON or as a table."""
    if as_json:
        print(json.dumps(data(), indent=2, allow_nan=False))
    else:
        console().print(whole(table()), crop=False)


def write(path: Path, text: str) -> None:
    """Writes a page or a plot."""
    files.write_text(path, text, "choose another file for the page")
