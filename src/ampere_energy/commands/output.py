"""Where commands print: results on standard output, all else on standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ampere_energy.errors import FileError
from ampere_energy.show.whole import console, whole

err = console(stderr=True)


def say(message: str) -> None:
    """Tells a line that is not the result."""
    err.print(message, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """While a user's code runs in this process, what it prints goes to standard error, by whatever way it prints."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def show(as_json: bool, data: Callable[[], Any], table: Callable[[], Any]) -> None:
    """Prints the result, as JSON or as a table."""
    if as_json:
        print(json.dumps(data(), indent=2, allow_nan=False))
    else:
        console().print(whole(table()), crop=False)


def write(path: Path, text: str) -> None:
    """Writes a page or a plot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror})", "choose another file for the page") from error
