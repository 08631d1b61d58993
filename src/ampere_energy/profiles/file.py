"""A profile's file, checked, and what it says of itself: without torch, so that many can be listed at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampere_energy import files
from ampere_energy.errors import FileError
from ampere_energy.measurement.records import DeviceInfo
from ampere_energy.model.training import Training
from ampere_energy.serialization import decode, parse_json

SCHEMA = 7
AGAIN = "profile again, or use the file as it was made"


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
    return decode(Heading, own, f"profile {path}", AGAIN)


def read(path: Path) -> bytes:
    """A profile's bytes, unpacked where its name ends in `.gz`."""
    return files.read(path, "profile", "make one with ampere profile")


def contents(data: bytes, path: Path, older: bool = False) -> Any:
    """The profile in a file's bytes as plain values of bounded number and size; `path` names it in errors.

    One of an older schema has another fit, and the same heading.
    """
    record = parse_json(data, f"profile {path}", AGAIN)
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
    return record.get("profile")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 20 else f"{text[:20]}…"
