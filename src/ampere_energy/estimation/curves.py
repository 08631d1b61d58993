"""Where the joules of the largest network that a profile knows go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.known_kinds import REACH
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile


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
    kinds = profile.cost_model.known_kinds()
    bands = [kind.at(np.array([kind.largest], dtype=float)) for kind in kinds]
    parts = [
        Part(kind.label, float(band.energy_j[0]), float(band.high_j[0] - band.low_j[0]) / 2 / REACH)
        for kind, band in zip(kinds, bands, strict=True)
    ]
    low, high = (float(sum(getattr(band, end)[0] for band in bands)) for end in ("low_j", "high_j"))
    return Step(sum(part.energy_j for part in parts), (low, high), tuple(parts), whole=False)


def _step(nets: JointFit, net: Net) -> Step:
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
