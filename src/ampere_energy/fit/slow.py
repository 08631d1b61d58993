"""Where a device computes a kind many times as slowly as at most widths.

cuDNN computes some gradients by FFT, which takes fifteen to forty times as long as its other kernels, inside boxes of
widths with sharp edges (`docs/decisions/025-slow-boxes.md`). A residual that has to step like that knows little of all
other widths: such blocks are told apart first, and have a component of their own (`kernels`). Which of the blocks that
were not measured are slow, a tree says that splits the widths at one of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ampere_energy.fit.observed import Observation, Subject
from ampere_energy.fit.physics import Array, Mean
from ampere_energy.model.blocks import Point

_TIMES = 6.0
"""How many times its mean a slow block takes: of what was recorded, slow ones take 15 or more, all others up to 3.2."""
_APART = 2.0
"""How many times as slow the least of them is as the worst of the others; where there is no gap, the mean is bad."""
_FEWEST = 3
"""Fewer slow measurements are accidents of the machine, not of the widths."""
_LEAN = 0.02
"""Where between two widths a split is, from the side with more slow ones: what is not between slow ones is not slow.

To take a slow block for a usual one misses nearly all of it, the other way round makes thirty times as much of it.
"""
_DEEPEST = 12
"""The most splits one after another: a box of two widths takes four."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Split:
    """Widths up to `at`, in octaves along an axis, and wider ones; a side is split again until it is slow or not."""

    axis: int
    at: float
    narrower: Split | bool
    wider: Split | bool


@dataclass(frozen=True, eq=False)
class Slow:
    """Those subjects, by their places, that are slow somewhere: their trees, and which points were seen to be slow."""

    trees: Mapping[int, Split | bool]
    told: Mapping[int, Mapping[Point, bool]]

    def at(self, subject: int, points: Array) -> Flags:
        """Which points (n, axes) of a subject are slow: (n,)."""
        return _sorted(self.trees.get(subject, False), np.log2(points))


def slow_blocks(subjects: Sequence[Subject], observations: Sequence[Observation], time: Mean) -> Slow:
    """Which blocks take many times what the mean of time says: those measured alone tell, then those in company."""
    alone = [o for o in observations if len(o.blocks) == 1]
    together = [o for o in observations if len(o.blocks) > 1]
    known: list[dict[Point, float]] = [{} for _ in subjects]
    for subject, point, times in _told(alone, range(len(subjects)), time):
        known[subject][point] = times
    somewhere = [subject for subject, times in enumerate(known) if _stand_apart(list(times.values()))]
    for subject, point, times in _told(together, somewhere, time) if somewhere else ():
        known[subject].setdefault(point, times)
    told = {subject: {point: times > _TIMES for point, times in known[subject].items()} for subject in somewhere}
    trees = {
        subject: _tree(np.log2(np.array(list(own), dtype=float)), np.array(list(own.values())))
        for subject, own in told.items()
    }
    return Slow(trees, told)


def _stand_apart(times: Sequence[float]) -> bool:
    """Whether some blocks are slow, and no others nearly so."""
    slow, others = [t for t in times if t > _TIMES], [t for t in times if t <= _TIMES]
    return len(slow) >= _FEWEST and min(slow) > _APART * max(others, default=0.0)


def _told(
    observations: Sequence[Observation], subjects: Sequence[int], time: Mean
) -> Iterator[tuple[int, Point, float]]:
    """Of networks with one block of these subjects: the block, and how many times its mean it takes.

    All other blocks are taken to cost what their means say.
    """
    own = [[block for block in seen.blocks if block[0] in subjects] for seen in observations]
    telling = [(seen, blocks[0]) for seen, blocks in zip(observations, own, strict=True) if len(blocks) == 1]
    means: dict[tuple[int, Point], float] = {}
    for subject in {kind for seen, _ in telling for kind, _ in seen.blocks}:
        points = list(dict.fromkeys(point for seen, _ in telling for kind, point in seen.blocks if kind == subject))
        values = time.at(subject, np.array(points, dtype=float).reshape(len(points), -1))
        means |= {(subject, point): float(value) for point, value in zip(points, values, strict=True)}
    for seen, block in telling:
        rest_s = time.base + sum(means[other] for other in seen.blocks) - means[block]
        yield *block, (seen.time_s - rest_s) / means[block]


def _tree(octaves: Array, slow: Flags, left: int = _DEEPEST) -> Split | bool:
    """Splits where that leaves the two sides purest, of equals in the widest gap; what stays mixed goes by its most."""
    if slow.all() or not slow.any() or not left:
        return bool(slow.mean() > 0.5)
    _, _, axis, at = min(split for axis, column in enumerate(octaves.T) for split in _splits(axis, column, slow))
    below = octaves[:, axis] <= at
    return Split(axis, at, _tree(octaves[below], slow[below], left - 1), _tree(octaves[~below], slow[~below], left - 1))


def _splits(axis: int, column: Array, slow: Flags) -> Iterator[tuple[float, float, int, float]]:
    """Every place between two widths: how impure its sides are, the gap there, negative, and the place."""
    order = np.argsort(column, kind="stable")
    widths, below = column[order], np.arange(1, len(column))
    slow_below = np.cumsum(slow[order])[:-1]
    above, slow_above = len(column) - below, slow.sum() - slow_below
    impure = slow_below * (below - slow_below) / below + slow_above * (above - slow_above) / above
    gaps = np.diff(widths)
    at = widths[:-1] + gaps * np.where(slow_below * above > slow_above * below, _LEAN, 1 - _LEAN)
    for i in np.flatnonzero(gaps):
        yield float(impure[i]), -float(gaps[i]), axis, float(at[i])


def _sorted(tree: Split | bool, octaves: Array) -> Flags:
    if isinstance(tree, bool):
        return np.full(len(octaves), tree)
    below = octaves[:, tree.axis] <= tree.at
    return np.where(below, _sorted(tree.narrower, octaves), _sorted(tree.wider, octaves))
