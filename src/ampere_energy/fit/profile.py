"""A profile: what a campaign learnt about a device, saved as versioned JSON and estimable without hardware."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path

import torch

from ampere_energy.errors import FileError
from ampere_energy.fit.gp import GaussianProcess, Hyper, fit
from ampere_energy.fit.nets import NetFit
from ampere_energy.measure.measurement import DeviceInfo, MeterInfo
from ampere_energy.model.blocks import Kind, Point
from ampere_energy.model.training import Training
from ampere_energy.model.variants import Domain
from ampere_energy.plain import decode, encode, parse_json

SCHEMA = 2


class Quantity(StrEnum):
    """What a Gaussian process predicts of a block, per training step."""

    ENERGY = "energy"
    TIME = "time"


@dataclass(frozen=True)
class Learnt:
    """One quantity of a kind at its points: values in J or s, their known noise variances, and the fit."""

    values: tuple[float, ...]
    noise: tuple[float, ...]
    hyper: Hyper


@dataclass(frozen=True)
class KindFit:
    """What is known of a kind: the points profiled, and a Gaussian process each for energy and time."""

    kind: Kind
    domain: Domain
    points: tuple[Point, ...]
    energy: Learnt
    time: Learnt

    def __post_init__(self) -> None:
        d = len(self.kind.axes)
        if len(self.domain) != d or any(len(point) != d for point in self.points):
            raise ValueError(f"{self.kind.id} has {d} widths, its domain or points do not")
        for learnt in (self.energy, self.time):
            if not len(learnt.values) == len(learnt.noise) == len(self.points) > 0:
                raise ValueError(f"{self.kind.id} has {len(self.points)} points, but not as many values")
            if len(learnt.hyper.lengthscales) != d or min(learnt.noise) < 0:
                raise ValueError(f"{self.kind.id} has hyperparameters of the wrong shape or sign")

    def unit(self, points: Sequence[Point]) -> torch.Tensor:
        """Points scaled to the unit box of the domain: shape (n, d)."""
        return to_unit(self.domain, points)

    @cached_property
    def _processes(self) -> dict[Quantity, GaussianProcess]:
        x = self.unit(self.points)
        return {
            quantity: GaussianProcess(x, _vector(learnt.values), _vector(learnt.noise), learnt.hyper)
            for quantity, learnt in ((Quantity.ENERGY, self.energy), (Quantity.TIME, self.time))
        }

    def process(self, quantity: Quantity) -> GaussianProcess:
        """The posterior of a quantity."""
        return self._processes[quantity]

    def covers(self, point: Point) -> bool:
        """Whether a point lies within the profiled bounds."""
        return all(r.low <= width <= r.high for r, width in zip(self.domain, point, strict=True))


def to_unit(domain: Domain, points: Sequence[Point]) -> torch.Tensor:
    """Points scaled to the unit box of a domain: shape (n, d)."""
    low = torch.tensor([r.low for r in domain], dtype=torch.float64)
    span = torch.tensor([max(1, r.high - r.low) for r in domain], dtype=torch.float64)
    return (torch.tensor(points, dtype=torch.float64) - low) / span


def learn(domain: Domain, points: Sequence[Point], values: Sequence[float], noise: Sequence[float]) -> Learnt:
    """Fits one quantity of a kind."""
    process = fit(to_unit(domain, points), _vector(values), _vector(noise))
    return Learnt(tuple(values), tuple(noise), process.hyper)


def _vector(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass(frozen=True)
class Profile:
    """All kinds of a model or family on one device.

    Attributes:
        model: what was profiled, for people.
        method: how the kinds were separated and fitted.
        complete: False where the campaign was interrupted or a kind could not be profiled.
        measurements: networks really trained.
        profile_s: seconds spent measuring them.
        created: date and time.
        kinds: what the paper's method learnt, kind by kind.
        nets: what was learnt of all kinds jointly.
    """

    model: str
    method: str
    device: DeviceInfo
    meter: MeterInfo
    training: Training
    complete: bool
    measurements: int
    profile_s: float
    created: str
    kinds: tuple[KindFit, ...] = ()
    nets: NetFit | None = None

    def __post_init__(self) -> None:
        if bool(self.kinds) == (self.nets is not None):
            raise ValueError("a profile knows its kinds singly or jointly")
        if len({fit.kind for fit in self.kinds}) != len(self.kinds):
            raise ValueError("a kind stands in the profile twice")

    def find(self, kind: Kind) -> KindFit | None:
        """What is known of a kind, if anything."""
        return next((fit for fit in self.kinds if fit.kind == kind), None)

    def save(self, path: str | Path) -> None:
        """Writes the profile; a crash leaves the old file or the new one, never a half."""
        path = Path(path)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        text = json.dumps({"schema": SCHEMA, "profile": encode(self)}, allow_nan=False, indent=1)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("w") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            raise FileError(f"{path} cannot be written ({error.strerror})", "choose another --out") from error


def load(path: str | Path) -> Profile:
    """Reads a saved profile; anything but a valid one is a `FileError`."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"profile {path} cannot be read ({error.strerror})", "make one with ampere profile") from error
    record = parse_json(data, f"profile {path}")
    if not isinstance(record, dict) or not isinstance(record.get("schema"), int):
        raise FileError(f"{path} is not an AMPERE profile", "make one with ampere profile")
    if record["schema"] > SCHEMA:
        raise FileError(f"{path} has schema {record['schema']}, this version reads {SCHEMA}", "upgrade ampere-energy")
    if record["schema"] != SCHEMA:
        raise FileError(f"{path} has schema {record['schema']}", "profile again")
    return decode(Profile, record.get("profile"), f"profile {path}")
