"""The paper's cost model: for each kind by itself, one Gaussian process of its energy and one of its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from ampere_energy.cost_model.gaussian_process import GaussianProcess, Hyper, fit
from ampere_energy.cost_model.known_kinds import REACH, Band, KnownKind
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.model.kinds import Kind, Point
from ampere_energy.model.widths import Domain


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

    def unit(self, points: Sequence[Point]) -> Array:
        """Points scaled to the unit box of the domain: shape (n, d)."""
        return to_unit(self.domain, points)

    @cached_property
    def _processes(self) -> dict[Quantity, GaussianProcess]:
        x = self.unit(self.points)
        return {
            quantity: GaussianProcess(x, np.array(learnt.values), np.array(learnt.noise), learnt.hyper)
            for quantity, learnt in ((Quantity.ENERGY, self.energy), (Quantity.TIME, self.time))
        }

    def process(self, quantity: Quantity) -> GaussianProcess:
        """The posterior of a quantity."""
        return self._processes[quantity]


def to_unit(domain: Domain, points: Sequence[Point]) -> Array:
    """Points scaled to the unit box of a domain: shape (n, d)."""
    low = np.array([r.low for r in domain], dtype=float)
    span = np.array([max(1, r.high - r.low) for r in domain], dtype=float)
    return np.asarray((np.array(points, dtype=float).reshape(-1, len(domain)) - low) / span)


def learn(
    domain: Domain,
    points: Sequence[Point],
    values: Sequence[float],
    noise: Sequence[float],
    before: Learnt | None = None,
) -> Learnt:
    """Fits one quantity of a kind, from where an earlier fit of it stood if there is one."""
    start = before.hyper if before is not None else None
    process = fit(to_unit(domain, points), np.array(values, dtype=float), np.array(noise, dtype=float), start=start)
    return Learnt(tuple(values), tuple(noise), process.hyper)


@dataclass(frozen=True)
class PerKind:
    """Kinds that are known each by itself."""

    kinds: tuple[KindFit, ...]

    def find(self, kind: Kind) -> KindFit | None:
        """What is known of a kind, if anything."""
        return next((fit for fit in self.kinds if fit.kind == kind), None)

    def known_kinds(self) -> tuple[KnownKind, ...]:
        """What is known, kind by kind."""
        return tuple(map(_known, self.kinds))


def _known(fit: KindFit) -> KnownKind:
    def at(points: Array) -> Band:
        unit = fit.unit([tuple(map(int, point)) for point in points])
        process = fit.process(Quantity.ENERGY)
        mean, std = process.mean(unit), np.sqrt(process.variance(unit))
        return Band(mean, mean - REACH * std, mean + REACH * std)

    metered = tuple(zip(fit.points, fit.energy.values, strict=True))
    label = f"{fit.kind.role} {fit.kind.label}"
    axes = tuple(f"width {axis}" for axis in fit.kind.axes)
    return KnownKind(fit.kind.id, label, axes, fit.domain, metered, 0, at)
