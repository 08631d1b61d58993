"""Bundles: folders of compressed profiles beside this file, each with an `about.json` that can be read without torch.

nvidia-h200/about.json            an `BundleEntry` for each profile, by its name
nvidia-h200/cnn5-eager.json.gz    the profile itself
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ampere_energy import files
from ampere_energy.model.training import Mode, Optimizer, Precision, Training
from ampere_energy.serialization import decode, parse_json

if TYPE_CHECKING:
    from ampere_energy.profiles.profile import Profile

ROOT = Path(__file__).parent
_AGAIN = "install ampere-energy again"


class Widths(StrEnum):
    """Which networks were profiled: a card computes multiples of 8 or so faster than the widths between them."""

    ALIGNED = "aligned"
    ANY = "any"


@dataclass(frozen=True)
class Accuracy:
    """How unseen networks fared: mean absolute relative error, and the share inside their 90 % intervals."""

    models: int
    mape: float
    coverage: float


@dataclass(frozen=True)
class BundleEntry:
    """What a bundled profile was made of.

    Attributes:
        input: shape of the input, batch first.
        date: when it was made.
        profile_s: seconds of measuring.
        accuracy: None where it was never scored.
    """

    family: str
    input: tuple[int, ...]
    widths: Widths
    mode: Mode
    precision: Precision
    optimizer: Optimizer
    device: str
    driver: str
    date: str
    profile_s: float
    accuracy: Accuracy | None

    @property
    def training(self) -> Training:
        """The settings it was made with."""
        return Training(self.input[0], self.optimizer, self.mode, self.precision)

    @property
    def shape(self) -> str:
        """The input's shape, as `--input` takes it."""
        return ",".join(map(str, self.input))

    @property
    def place(self) -> str:
        """The family and its input, in words."""
        return f"{self.family} at {self.shape}"

    def __str__(self) -> str:
        return f"{self.place} with {self.optimizer}, {self.mode}, {self.precision}, {self.widths} widths"


def bundles() -> tuple[str, ...]:
    """The names of all bundles."""
    return tuple(sorted(path.parent.name for path in ROOT.glob("*/about.json")))


def entries(bundle: str) -> dict[str, BundleEntry]:
    """What is in a bundle, by name."""
    path = ROOT / bundle / "about.json"
    found = parse_json(files.read(path, "bundle", _AGAIN), str(path), _AGAIN)
    return {name: decode(BundleEntry, about, f"{path}: {name}", _AGAIN) for name, about in found.items()}


def load_bundled(bundle: str, name: str) -> Profile:
    """A profile of a bundle."""
    path = ROOT / bundle / f"{name}.json.gz"
    return _loaded(path, files.changed(path))


@lru_cache(maxsize=64)
def _loaded(path: Path, _changed: int) -> Profile:
    """A profile's file, read once: a nearest profile is looked for among all of a bundle's."""
    from ampere_energy.profiles.profile import loads

    return replace(loads(files.read(path, "profile", _AGAIN), path), bundled=True)
