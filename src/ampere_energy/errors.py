"""Everything AMPERE raises on purpose.

    AmpereError
    ├── RequestError              exit 2: what was asked for cannot be done as asked
    │   ├── ModelError              the model cannot be found, built or run
    │   ├── WidthError              widths out of range or of the wrong number
    │   └── FileError               a profile or log that cannot be used
    ├── DeviceError               exit 3: the device or its meter cannot answer
    │   ├── MeterError              an energy meter cannot read
    │   └── WorkerError             the measuring process died or hung
    └── CoverageError             exit 4: the profile does not cover the model

Each error says what happened, the value seen, and the next step, in one line. What none of them foresees ends the
command too: by 2 where a file or the output cannot be used, 3 where memory ran out, else by 1, to be reported.
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_LONGEST = 700
INTERRUPTED = 130
"""The exit code of what was stopped by hand."""


def printable(text: str) -> str:
    """The text with what a terminal would obey shown escaped: control characters, turns of direction, half characters.

    Names of files and models, and what a log or somebody's exception says, may hold anything.
    """
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


class AmpereError(Exception):
    """What went wrong, and what to do about it."""

    exit_code = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        one_line = " ".join(what.split())
        if len(one_line) > _LONGEST:  # it quotes a file or somebody's exception
            one_line = f"{one_line[:_LONGEST]}…"
        super().__init__(f"{one_line}; {remedy}" if remedy else one_line)
        self.what = one_line
        self.remedy = remedy


class RequestError(AmpereError):
    """A bad request: the value is named, and how to correct it."""

    exit_code = 2


class ModelError(RequestError):
    """A model that cannot be found, built or run on its example input."""


class WidthError(RequestError):
    """Widths out of a family's range, or of the wrong number."""


class FileError(RequestError):
    """A profile or measurement log that is missing, broken or not ours."""


class DeviceError(AmpereError):
    """A device that is absent or cannot run what it was given."""

    exit_code = 3


class MeterError(DeviceError):
    """An energy meter that cannot be read."""


class WorkerError(DeviceError):
    """The process that measures died, hung or could not start."""


class CoverageError(AmpereError):
    """A model with blocks that the profile says nothing about; `near` where kinds that it knows could stand in."""

    exit_code = 4

    def __init__(self, what: str, remedy: str = "", *, near: bool = False) -> None:
        super().__init__(what, remedy)
        self.near = near


def words_of(error: BaseException) -> str:
    """What an error says of itself; those of users' own code may raise another when asked."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever their own method does
        return "its message cannot be shown"
