"""Where commands print: results on standard output, all else on standard error."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ampere_energy import files
from ampere_energy.errors import printable
from ampere_energy.reporting.terminal import console, whole

err = console(stderr=True)


def use_any_encoding() -> None:
    """What a terminal or pipe cannot encode is shown escaped, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(OSError):  # it leads nowhere, which writing to it will say
                stream.reconfigure(errors="backslashreplace")


def written_out() -> None:
    """Makes sure that the result has left: a full disk or a reader that went is known only then."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Lets go of what cannot be written, so that the interpreter does not try again when it ends."""
    try:
        written_out()
    except OSError:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str) -> None:
    """One line on standard error, where there is one that can be written."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"ampere: {printable(' '.join(message.split()))}", file=sys.stderr)


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
    files.write_text(path, text, "choose another file for the page")
