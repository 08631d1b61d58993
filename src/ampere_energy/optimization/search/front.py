"""Pareto fronts: which of many outcomes nothing else beats, and how much of all possible ones they dominate.

Outcomes are rows of losses, (N, D): less is better in every column.
"""

from __future__ import annotations

import numpy as np

from ampere_energy.cost_model.physical_mean import Array


def unbeaten(losses: Array) -> Array:
    """Places of the rows that no other row beats, in order of the first column; of equal rows, one."""
    if not len(losses):
        return np.zeros(0, dtype=int)
    order = np.lexsort(losses.T[::-1])  # by the first column, ties by the next: no row is beaten by a later one
    kept = losses[order[:1]]
    places = [int(order[0])]
    for place in order[1:]:
        row = losses[place]
        if not (kept <= row).all(1).any():
            kept = np.concatenate([kept, row[None]])
            places.append(int(place))
    return np.array(places, dtype=int)


def hypervolume(losses: Array, worst: Array) -> float:
    """The volume between a corner, `worst`, and the rows: of all outcomes up to there, how much they dominate.

    Exact, by slices along the last column, in which the rows seen so far dominate what fewer columns tell.
    """
    inside = losses[(losses < worst).all(1)]
    if not len(inside):
        return 0.0
    if losses.shape[1] == 1:
        return float(worst[0] - inside.min())
    front = inside[unbeaten(inside)]
    front = front[np.argsort(front[:, -1], kind="stable")]
    if losses.shape[1] == 2:
        return float(((worst[0] - front[:, 0]) * np.diff(front[:, 1], append=worst[1])).sum())
    heights = np.diff(front[:, -1], append=worst[-1])
    slices = (hypervolume(front[: place + 1, :-1], worst[:-1]) for place in range(len(front)))
    return float(sum(height * area for height, area in zip(heights, slices, strict=True)))
