"""Many candidates at once: estimates over width vectors in one call, with gradients, for pruning and search."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.whole_step import Steps, steps
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.estimation.estimate import covered_jointly
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.variants import block_points
from ampere_energy.profiles.profile import Profile


@dataclass(frozen=True, eq=False)
class Candidates:
    """Estimates of N networks, one training step each: arrays (N,); `gradient_j` (N, widths) where it was asked for."""

    energy_j: Array
    low_j: Array
    high_j: Array
    time_s: Array
    gradient_j: Array | None = None


def estimate_many(
    spec: ModelSpec, profile: Profile, widths: Array, *, level: float = 0.9, gradient: bool = False
) -> Candidates:
    """What networks of a model's family cost, for many width vectors.

    Args:
        spec: the parsed model, at widths the profile covers.
        profile: made by the `ampere` method.
        widths: (N, widths of the model), which may be none; need not be whole numbers.
        level: probability of the intervals.
        gradient: also give the expected energy's derivatives with respect to the widths, each within its tile and
            divisibility: steps between them have no slope.
    """
    nets = profile.joint
    if not 0 < level < 1:
        raise RequestError(f"a level of {level:g}", "give a probability between 0 and 1, such as 0.9")
    vectors = np.atleast_2d(np.asarray(widths, dtype=float))
    if not spec.widths and vectors.size:
        raise RequestError(f"{spec.name} has no widths to vary", "give a family, or a factory with --widths")
    kinds = covered_jointly(spec, profile, nets)
    points = points_of(spec, vectors)
    _inside(spec, nets, kinds, points)
    found = steps(nets, kinds, points)
    reach = np.exp(NormalDist().inv_cdf(0.5 + level / 2) * found.spread)
    slopes = _gradient(spec, nets, kinds, points, found) if gradient else None
    return Candidates(found.energy_j, found.energy_j / reach, found.energy_j * reach, found.time_s, slopes)


def points_of(spec: ModelSpec, widths: Array) -> list[Array]:
    """For each block of a model, its own widths (N, axes) in N networks; a block that follows none has no axes."""
    found = block_points(spec, list(widths.T))
    count = len(widths)
    return [
        np.stack([np.full(count, width, dtype=float) for width in point], axis=1) if point else np.zeros((count, 0))
        for point in found
    ]


def _inside(spec: ModelSpec, nets: JointFit, kinds: list[int], points: list[Array]) -> None:
    for block, kind, at in zip(spec.blocks, kinds, points, strict=True):
        for axis, allowed in enumerate(nets.subjects[kind].domain):
            outside = ~((at[:, axis] >= allowed.low) & (at[:, axis] <= allowed.high))
            if outside.any():
                width = at[outside, axis][0]
                raise CoverageError(
                    f"block {block.name} has a width of {width:g}, the profile covers {allowed}", "profile this model"
                )


def _gradient(spec: ModelSpec, nets: JointFit, kinds: list[int], points: list[Array], found: Steps) -> Array:
    """The chain rule from blocks' own widths to the family's, and from busy resources to whole steps."""
    energies, times = nets.gradient(kinds, points)
    waiting = 0.0 if nets.host is None or nets.idle_w is None else nets.idle_w
    # dE = de + P_idle (dT − dd), and of T only the share in which the device is the slower part follows d.
    share = found.device_bound if waiting else np.ones(len(found.energy_j))
    total = np.zeros((len(points[0]), len(spec.widths)))
    follows = spec.follows or ((),) * len(spec.blocks)
    for followed, de, dd in zip(follows, energies, times, strict=True):
        own = de - waiting * (1 - share)[:, None] * dd
        for axis, (variable, factor) in enumerate(followed):
            total[:, variable] += own[:, axis] * factor
    return total
