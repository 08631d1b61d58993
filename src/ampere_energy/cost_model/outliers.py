"""Measurements that a machine had an accident with: a thousand times what others of the same say, or a thousandth.

A suspended machine, a counter that jumped: one such value among many would be taken for noise of all of them, or for
residuals that nothing believable has. Widths at which kernels are slow are never one alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ampere_energy.cost_model.observations import Observation
from ampere_energy.cost_model.physical_mean import Array, Mean

_FARTHEST = math.log(100)
"""How far a logarithm may be from the median of its like."""
_FEWEST = 3
"""Of fewer nobody knows which one is off; so many that are off are no accidents, but the device (`slow_regions`)."""
NOTHING = 9.0
"""The relative error of what tells nothing."""


def discounted(observations: Sequence[Observation], time: Mean) -> list[Observation]:
    """The observations, with times and energies that are far out said to be known to no precision.

    Args:
        observations: what was measured.
        time: a mean of their times, which may be as wrong as they are: like is compared with like.
    """
    slow = _apart(observations, np.array([math.log(o.time_s / _expected_s(time, o)) for o in observations]))
    metered = [i for i, o in enumerate(observations) if o.energy_j is not None]
    powers = np.array([math.log((observations[i].energy_j or 0.0) / observations[i].time_s) for i in metered])
    odd = {i for i, far in zip(metered, _far(powers), strict=True) if far}
    found = list(observations)
    for i, seen in enumerate(observations):
        if slow[i]:
            seen = replace(seen, time_error=NOTHING)
        if seen.energy_j is not None and slow[i] != (i in odd):  # a time that is off spoils the power of a good energy
            seen = replace(seen, energy_error=NOTHING)
        found[i] = seen
    return found


def believable(observations: Sequence[Observation]) -> list[Observation]:
    """Those whose time was no accident; those whose energy was, as timings."""
    kept = [o for o in observations if o.time_error < NOTHING]
    return [replace(o, energy_j=None, energy_error=0.0) if o.energy_error >= NOTHING else o for o in kept]


def _expected_s(time: Mean, seen: Observation) -> float:
    each = {(k, point): float(time.at(k, np.array([point], dtype=float))[0]) for k, point in dict.fromkeys(seen.blocks)}
    return time.base + sum(each[block] for block in seen.blocks)


def _apart(observations: Sequence[Observation], logs: Array) -> npt.NDArray[np.bool_]:
    """Which are far from others of the same kinds."""
    like: dict[tuple[int, ...], list[int]] = {}
    for i, seen in enumerate(observations):
        like.setdefault(tuple(kind for kind, _ in seen.blocks), []).append(i)
    found = np.zeros(len(logs), dtype=bool)
    for own in like.values():
        found[own] = _far(logs[own])
    return found


def _far(logs: Array) -> npt.NDArray[np.bool_]:
    if len(logs) < _FEWEST:
        return np.zeros(len(logs), dtype=bool)
    found = np.asarray(np.abs(logs - np.median(logs)) > _FARTHEST)
    return found if found.sum() < _FEWEST else np.zeros_like(found)
