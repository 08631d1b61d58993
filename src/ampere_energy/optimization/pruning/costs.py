"""What widths cost, by a profile or by counted work, and what they are worth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.estimation.many import estimate_many
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.groups import Group
from ampere_energy.model.variants import block_points
from ampere_energy.optimization.pruning.channels import Channels
from ampere_energy.optimization.pruning.widths import Cost, Ladders
from ampere_energy.profiles.profile import Profile

_CHUNK = 256
_LEAST_SHARE = 1e-6


def energy_cost(space: Channels, profile: Profile, mean: bool, level: float) -> Cost:
    """Joules a step by widths: the expected ones, or the upper end of the interval."""

    def cost(widths: Array) -> Array:
        parts = [
            estimate_many(space.spec, profile, widths[at : at + _CHUNK], level=level)
            for at in range(0, len(widths), _CHUNK)
        ]
        return np.concatenate([part.energy_j if mean else part.high_j for part in parts])

    return cost


def work_cost(spec: ModelSpec) -> Cost:
    """FLOPs of a training step by widths."""
    known: dict[tuple[int, tuple[int, ...]], int] = {}

    def flops(place: int, point: tuple[int, ...]) -> int:
        if (place, point) not in known:
            known[place, point] = spec.blocks[place].kind.flops(point)
        return known[place, point]

    def cost(widths: Array) -> Array:
        rows = [block_points(spec, [int(w) for w in row]) for row in widths]
        return np.array([float(sum(flops(place, point) for place, point in enumerate(row))) for row in rows])

    return cost


def worths(space: Channels, ladders: Ladders, judged: Sequence[Sequence[float]]) -> list[list[float]]:
    """For each width and value, minus the reciprocal of the share of importance kept, over the groups that follow."""
    total = [[0.0] * len(ladder) for ladder in ladders]
    for group, followed, score in zip(space.groups, space.follows, judged, strict=True):
        if followed is None:
            continue
        width, factor = followed
        shares = _shares(group, score)
        for rung, value in enumerate(ladders[width]):
            total[width][rung] -= 1 / max(float(shares[factor * value // group.parts]), _LEAST_SHARE)
    return total


def _shares(group: Group, score: Sequence[float]) -> Array:
    """The share of a group's importance that its best channels hold, by how many of each part there are."""
    parts = -np.sort(-np.array(score).reshape(group.parts, -1), axis=1)
    held: Array = np.concatenate([[0.0], np.cumsum(parts.sum(0))]) / parts.sum()
    return held
