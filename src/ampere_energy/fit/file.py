"""A profile's file, checked, and what it says of itself: without torch, so that many can be listed at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampere_energy.errors import FileError
from ampere_energy.measure.measurement import DeviceInfo
from ampere_energy.model.training import Training
from ampere_energy.plain import decode, parse_json

SCHEMA = 7
LARGEST_BYTES = 2**25
MOST_VALUES = 10**6
LONGEST_TEXT = 4096
AGAIN = "profile again, or use the file as it was made"
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Heading:
    """What a profile is of; its fields are those of `Profile`."""

    model: str
    device: DeviceInfo
    training: Training
    complete: bool
    profile_s: float
    created: str


def heading(path: Path, older: bool = False) -> Heading:
    """What a saved profile is of, without what it learnt; if asked for, also of an older schema."""
    profile = contents(read(path), path, older)
    fields = Heading.__dataclass_fields__
    own = {name: value for name, value in profile.items() if name in fields} if isinstance(profile, dict) else profile
    return decode(Heading, own, f"profile {path}")


def read(path: Path) -> bytes:
    """A file's bytes, or a little more than a profile may have."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise FileError(f"profile {path} cannot be read ({error.strerror})", "make one with ampere profile") from error


def contents(data: bytes, path: Path, older: bool = False) -> Any:
    """The profile in a file's bytes as plain values of bounded number and size; `path` names it in errors.

    One of an older schema has another fit, and the same heading.
    """
    if len(data) > LARGEST_BYTES or sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise FileError(f"{path} is larger than any profile", "is it the right file?")
    record = parse_json(data, f"profile {path}")
    del data
    if not isinstance(record, dict) or type(record.get("schema")) is not int:
        raise FileError(f"{path} is not an AMPERE profile", "make one with ampere profile")
    if record["schema"] > SCHEMA:
        raise FileError(
            f"{path} has schema {_short(record['schema'])}, this version reads {SCHEMA}", "upgrade ampere-energy"
        )
    if record["schema"] != SCHEMA and not older:
        raise FileError(
            f"{path} has schema {_short(record['schema'])}, this version reads {SCHEMA}",
            "profile again with --resume: nothing its log has is measured again",
        )
    _check_texts(record, path)
    return record.get("profile")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 20 else f"{text[:20]}…"


def _check_texts(record: Any, path: Path) -> None:
    """Refuses text that no profile holds and no terminal should show: control characters, half characters, novels."""
    rest = [record]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            rest += value.values()
        elif isinstance(value, list):
            rest += value
        elif isinstance(value, str) and (len(value) > LONGEST_TEXT or _UNPRINTABLE.search(value)):
            raise FileError(f"{path} has the text {value[:40]!r}, which is too long or has control characters", AGAIN)
