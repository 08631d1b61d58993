"""Whole steps from their resources: device, host and waiting (resource additivity).

    T_host = h₀ + Σ h      T_busy = d₀ + Σ d + gap      T = E[max(T_host, T_busy)]
    E = e₀ + Σ e + P_idle · (T − d₀ − Σ d)

The host's times scatter, so near balance the expected maximum lies above both, by up to 0.4 of the scatter. Energies of
one network measured twice differ as well, by as much as the campaign saw; the spread has that in it. Where a
step is launched whole (a captured graph), or host and device are one (a CPU), only the device's part remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.posterior import Prediction
from ampere_energy.errors import CoverageError, FileError

_SURE = 1e-3
_DRIFTS = 2.0
"""A device that takes so many times what the host takes never waits for it, also where the host's speed drifts."""


@dataclass(frozen=True, eq=False)
class Steps:
    """N steps of one structure: totals (N,), blocks' own shares (N, B).

    Attributes:
        spread: standard deviation of the logarithm of the energy, about its standard error as a share.
        other_j: energy that belongs to no block: the base of a step, and waiting for the host.
        busy: the share of the time that the device works.
        device_bound: how likely the device, not the host, is the slower part.
    """

    energy_j: Array
    time_s: Array
    spread: Array
    block_energy_j: Array
    block_time_s: Array
    other_j: Array
    busy: Array
    device_bound: Array


def steps(fit: JointFit, kinds: Sequence[int], points: Sequence[Array]) -> Steps:
    """What steps of networks of one structure cost.

    Args:
        fit: what was learnt.
        kinds: the blocks' subjects, by their places.
        points: for each block, the widths (N, axes) in all N networks.
    """
    return whole(fit, fit.predict(kinds, points), *issuing(fit, kinds, points))


def whole(fit: JointFit, found: Prediction, host_s: Array, host_std_s: Array) -> Steps:
    """Whole steps from what the device does, and from how long the host takes to issue one."""
    busy_s, busy_j = found.time_s, found.energy_j
    if fit.host is None or fit.idle_w is None:
        wall_s, energy_j, spread = busy_s, busy_j, np.sqrt(found.energy_var + fit.repeats_var)
        waits = np.zeros_like(busy_s)
    else:
        device_s = busy_s + fit.host.gap_s
        scatter = np.maximum(np.maximum(host_std_s, _SURE * host_s), 1e-12)
        z = (host_s - device_s) / scatter
        waits = ndtr(z)
        wall_s = device_s + (host_s - device_s) * waits + scatter * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        energy_j = busy_j + fit.idle_w * np.maximum(wall_s - busy_s, 0.0)
        by_time = -fit.idle_w * waits * busy_s  # dE/dlog d
        by_host = fit.idle_w * waits * scatter
        variance = busy_j**2 * (found.energy_var + fit.repeats_var) + by_time**2 * found.time_var
        variance += 2 * busy_j * by_time * found.joint_var + by_host**2
        spread = np.sqrt(np.maximum(variance, 0.0)) / energy_j
    if not all(np.isfinite(part).all() for part in (energy_j, wall_s, spread, found.block_energy_j)):
        raise FileError("the profile gives no finite energy for this model", "profile again")
    other = energy_j - found.block_energy_j.sum(1)
    return Steps(energy_j, wall_s, spread, found.block_energy_j, found.block_time_s, other, busy_s / wall_s, 1 - waits)


def issuing(fit: JointFit, kinds: Sequence[int], points: Sequence[Array]) -> tuple[Array, Array]:
    """Seconds the host takes to issue steps, and their standard deviations; none where the step is launched whole."""
    if fit.host is None:
        return np.zeros(len(points[0])), np.zeros(len(points[0]))
    host_s = host_time(fit, kinds, points)
    return host_s, fit.host.spread * host_s


def host_time(fit: JointFit, kinds: Sequence[int], points: Sequence[Array]) -> Array:
    """Seconds the host takes to issue steps of networks of one structure: shape (N,)."""
    assert fit.host is not None
    subjects = [fit.subjects[kind] for kind in kinds]
    missing = {subject.structure for subject in subjects} - dict(fit.host.structures).keys()
    if missing:
        raise CoverageError(f"no host time is known of {', '.join(sorted(missing))}", "profile this model")
    parts = [fit.host.takes(s.structure, s.work, at) for s, at in zip(subjects, points, strict=True)]
    return np.asarray(fit.host.base_s + np.sum(parts, axis=0))


def may_wait(fit: JointFit, net: Net) -> bool:
    """Whether a network's step may wait for its host, by how long the two take; also where nobody knows."""
    kinds, points = [kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net]
    try:
        issued_s = float(host_time(fit, kinds, points)[0]) if fit.host is not None else math.inf
    except CoverageError:
        return True
    return float(fit.predict(kinds, points).time_s[0]) < _DRIFTS * issued_s
