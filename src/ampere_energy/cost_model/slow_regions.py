"""Where a device computes a kind many times as slowly as at most widths.

cuDNN computes some gradients by FFT, which takes fifteen to forty times as long as its other kernels, inside boxes of
widths with sharp edges (`docs/decisions/025-slow-boxes.md`). A residual that has to step like that knows little of all
other widths: such blocks are told apart first, and have components of their own (`kernels`). A block that was not
measured is slow where it lies between slow ones: in a box that they span, and no usual one lies in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ampere_energy.cost_model.observations import Observation, Subject
from ampere_energy.cost_model.outliers import believable
from ampere_energy.cost_model.physical_mean import Array, Mean
from ampere_energy.model.kinds import Point
from ampere_energy.model.widths import Domain

_TIMES = 6.0
"""How many times its mean a slow block takes: of what was recorded, slow ones take 15 or more, all others up to 3.2."""
_APART = 2.0
"""How many times as slow the least of them is as the worst of the others; where there is no gap, the mean is bad."""
_FEWEST = 3
"""Fewer slow measurements are accidents of the machine, not of the widths."""
_LONG = 3.0
"""How many times as long as what is left to the end of the widths a box is that is taken to reach to there.

To take a slow block for a usual one misses nearly all of it, the other way round makes thirty times as much of it.
"""
_MOST = 16
"""Blocks that lie in more boxes than these lie in none: it is not by their widths that they are slow."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Box:
    """All widths from one point to another, both included."""

    low: Point
    high: Point

    def holds(self, points: Array) -> Flags:
        """Which points (n, axes) lie in it: (n,)."""
        return np.asarray(((points >= self.low) & (points <= self.high)).all(1))

    def spanned(self, other: Box) -> Box:
        """The smallest box that holds both."""
        return Box(tuple(map(min, self.low, other.low)), tuple(map(max, self.high, other.high)))

    @property
    def octaves(self) -> float:
        """How far it reaches, over all its widths."""
        return float(np.log2(np.divide(self.high, self.low)).sum())


@dataclass(frozen=True, eq=False)
class Slow:
    """Those subjects, by their places, that are slow somewhere: in which boxes, and which points were seen to be."""

    boxes: Mapping[int, Sequence[Box]]
    ratios: Mapping[int, Mapping[Point, bool]]

    def at(self, subject: int, points: Array) -> Flags:
        """Which points (n, axes) of a subject are slow: (n,)."""
        found = np.zeros(len(points), dtype=bool)
        for box in self.boxes.get(subject, ()):
            found |= box.holds(points)
        return found


def slow_blocks(subjects: Sequence[Subject], observations: Sequence[Observation], time: Mean) -> Slow:
    """Which blocks take many times what the mean of time says: those measured alone tell, then those in company."""
    observations = believable(observations)
    alone = [o for o in observations if len(o.blocks) == 1]
    together = [o for o in observations if len(o.blocks) > 1]
    known: list[dict[Point, float]] = [{} for _ in subjects]
    for subject, point, times in _single_block_ratios(alone, range(len(subjects)), time):
        known[subject][point] = times
    somewhere = [subject for subject, times in enumerate(known) if _stand_apart(list(times.values()))]
    for subject, point, times in _single_block_ratios(together, somewhere, time) if somewhere else ():
        known[subject].setdefault(point, times)
    ratios = {subject: {point: times > _TIMES for point, times in known[subject].items()} for subject in somewhere}
    boxes = {subject: found for subject, own in ratios.items() if (found := boxes_of(own, subjects[subject].domain))}
    return Slow(boxes, {subject: ratios[subject] for subject in boxes})


def _stand_apart(times: Sequence[float]) -> bool:
    """Whether some blocks are slow, and no others nearly so."""
    slow, others = [t for t in times if t > _TIMES], [t for t in times if t <= _TIMES]
    return len(slow) >= _FEWEST and min(slow) > _APART * max(others, default=0.0)


def _single_block_ratios(
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


def boxes_of(ratios: Mapping[Point, bool], domain: Domain) -> list[Box]:
    """A few boxes that slow points span and no usual one lies in; none where they would be too many.

    A box that is long against what is left to the end of the widths reaches to there, if nothing speaks against.
    """
    usual = np.array([point for point, is_slow in ratios.items() if not is_slow], dtype=float).reshape(-1, len(domain))
    found: list[Box] = []
    for point in (point for point, is_slow in ratios.items() if is_slow):
        box = Box(point, point)
        while (joined := _joined(box, found, usual)) is not None:
            found.remove(joined)
            box = box.spanned(joined)
        found.append(box)
        if len(found) > _MOST:
            return []
    return [_to_the_ends(box, domain, usual) for box in found]


def _joined(box: Box, others: Sequence[Box], usual: Array) -> Box | None:
    """The other that grows least by taking this one in, where no usual point lies in what they span."""
    for other in sorted(others, key=lambda other: box.spanned(other).octaves - other.octaves):
        if not box.spanned(other).holds(usual).any():
            return other
    return None


def _to_the_ends(box: Box, domain: Domain, usual: Array) -> Box:
    for axis, widths in enumerate(domain):
        length = box.high[axis] - box.low[axis]
        for end in (widths.low, widths.high):
            corner = (*box.low[:axis], end, *box.low[axis + 1 :])
            wider = box.spanned(Box(corner, corner))
            if length >= _LONG * max(end - box.high[axis], box.low[axis] - end) and not wider.holds(usual).any():
                box = wider
    return box
