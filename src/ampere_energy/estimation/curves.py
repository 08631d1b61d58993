"""What a profile knows, kind by kind, whichever method learnt it; and where the joules of its largest network go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ampere_energy.cost_model.joint import NetFit
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.model.blocks import Point
from ampere_energy.model.variants import Domain, WidthRange
from ampere_energy.profiles.profile import KindFit, Profile, Quantity

LEVEL = 0.9
REACH = NormalDist().inv_cdf(0.5 + LEVEL / 2)
"""Half an interval of that probability, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Band:
    """Joules of a training step at n points, and the intervals of `LEVEL` about them: (n,) each."""

    energy_j: Array
    low_j: Array
    high_j: Array


@dataclass(frozen=True)
class KnownKind:
    """One kind of a profile.

    Attributes:
        axes: names of its widths.
        metered: where its energy was measured, and what it was: joules of a step.
        timed: how often it was timed without a meter.
        at: its energy at points (n, widths).
    """

    id: str
    label: str
    axes: tuple[str, ...]
    domain: Domain
    metered: tuple[tuple[Point, float], ...]
    timed: int
    at: Callable[[Array], Band]

    @property
    def largest(self) -> Point:
        """Its largest widths."""
        return tuple(allowed.high for allowed in self.domain)

    def reach(self, points: int = 9) -> float:
        """Half its interval as a share of its energy: the median over points from its smallest to its largest."""
        shares = np.linspace(0, 1, points if self.domain else 1)
        band = self.at(np.array([[r[round(s * (len(r) - 1))] for r in self.domain] for s in shares], dtype=float))
        return float(np.median((band.high_j - band.low_j) / 2 / np.maximum(np.abs(band.energy_j), 1e-30)))


@dataclass(frozen=True)
class Part:
    """Some joules of a step, with the standard deviation of what is not known; blocks alike are counted."""

    name: str
    energy_j: float
    std_j: float
    count: int = 1


@dataclass(frozen=True)
class Step:
    """One training step, part by part; `whole` is False where its parts are one block of each kind."""

    energy_j: float
    interval_j: tuple[float, float]
    parts: tuple[Part, ...]
    whole: bool


def known_kinds(profile: Profile) -> tuple[KnownKind, ...]:
    """All kinds of a profile."""
    if profile.nets is None:
        return tuple(map(_singly, profile.kinds))
    return tuple(_jointly(profile.nets, index) for index in range(len(profile.nets.subjects)))


def _singly(fit: KindFit) -> KnownKind:
    def at(points: Array) -> Band:
        unit = fit.unit([tuple(map(int, point)) for point in points])
        process = fit.process(Quantity.ENERGY)
        mean, std = process.mean(unit).numpy(), process.variance(unit).clamp_min(0.0).sqrt().numpy()
        return Band(mean, mean - REACH * std, mean + REACH * std)

    metered = tuple(zip(fit.points, fit.energy.values, strict=True))
    label = f"{fit.kind.role} {fit.kind.label}"
    axes = tuple(f"width {axis}" for axis in fit.kind.axes)
    return KnownKind(fit.kind.id, label, axes, fit.domain, metered, 0, at)


def _jointly(nets: NetFit, index: int) -> KnownKind:
    def at(points: Array) -> Band:
        found = nets.predict([index], [points])
        reach = np.exp(REACH * np.sqrt(found.energy_var))
        return Band(found.energy_j, found.energy_j / reach, found.energy_j * reach)

    subject = nets.subjects[index]
    own = [o for o in nets.observations if [kind for kind, _ in o.blocks] == [index]]
    metered = tuple((o.blocks[0][1], o.energy_j) for o in own if o.energy_j is not None)
    count = len(subject.domain)
    axes = tuple(f"width {axis + 1}" for axis in range(count)) if count > 1 else ("width",) * count
    return KnownKind(
        subject.id, subject.label or subject.id, axes, subject.domain, metered, len(own) - len(metered), at
    )


def along(allowed: WidthRange, most: int) -> list[int]:
    """At most so many widths of a range, both ends included."""
    count = min(most, len(allowed))
    return [allowed[round(i * (len(allowed) - 1) / max(1, count - 1))] for i in range(count)]


def largest_step(profile: Profile) -> Step:
    """The largest network among the measurements; where there is none, one block of each kind at its largest widths.

    Of the latter nothing is known in common, so its interval is as wide as if all erred together.
    """
    nets = profile.nets
    if nets is not None and (seen := {o.blocks for o in nets.observations if len(o.blocks) > 1}):
        return max((_step(nets, net) for net in sorted(seen)), key=lambda step: step.energy_j)
    kinds = known_kinds(profile)
    bands = [kind.at(np.array([kind.largest], dtype=float)) for kind in kinds]
    parts = [
        Part(kind.label, float(band.energy_j[0]), float(band.high_j[0] - band.low_j[0]) / 2 / REACH)
        for kind, band in zip(kinds, bands, strict=True)
    ]
    low, high = (float(sum(getattr(band, end)[0] for band in bands)) for end in ("low_j", "high_j"))
    return Step(sum(part.energy_j for part in parts), (low, high), tuple(parts), whole=False)


def _step(nets: NetFit, net: Net) -> Step:
    kinds, points = [kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net]
    found, deviations = steps(nets, kinds, points), nets.block_std(kinds, points)
    energies = found.block_energy_j[0]
    parts = []
    for (kind, point), count in Counter(net).items():
        place = net.index((kind, point))
        name = ": ".join(filter(None, (",".join(map(str, point)), nets.subjects[kind].label or nets.subjects[kind].id)))
        energy_j = float(energies[place]) * count
        parts.append(Part(name, energy_j, energy_j * float(deviations[place]), count))
    other, energy_j = float(found.other_j[0]), float(found.energy_j[0])
    if other > 0.0005 * energy_j:
        parts.append(Part("step: base, waiting", other, 0.0))
    reach = float(np.exp(REACH * found.spread[0]))
    return Step(energy_j, (energy_j / reach, energy_j * reach), tuple(parts), whole=True)
