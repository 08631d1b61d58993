"""Where to look for blocks that a device computes many times as slowly as most.

Slow blocks lie in boxes of widths (`slow`), and no posterior tells of a box that nothing was measured in. A kind that
is slow somewhere may be so elsewhere, and some timings are for looking: where a box's edges are, between its outermost
slow block and the next that is known, and wherever nothing was looked at yet.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ampere_energy.fit.physics import Array
from ampere_energy.fit.points import anywhere
from ampere_energy.fit.slow import Flags, Slow, Split
from ampere_energy.model.blocks import Point
from ampere_energy.model.variants import Domain

_SHARE = 0.0005
"""How much of a kind's widths may lie between a slow block and the next known one before it is worth a look."""
_EDGES = 0.75
"""The part of the looks that is for edges, as long as some are worth it."""
_CUTS = 3
"""The most points between a slow block and the next known one that are looked at in one round."""
_TRIED = 400
"""From how many random points the one farthest from all that was looked at is taken."""


def looks(
    slow: Slow, failed: Set[tuple[int, Point]], domains: Sequence[Domain], count: int, draw: random.Random
) -> list[tuple[int, Point]]:
    """Blocks to time, by kind and widths: none where no kind is slow.

    Args:
        slow: which blocks are slow, and which are known to be or not.
        failed: blocks, by kind and widths, that could not be timed, and will not be.
        domains: the widths of every kind.
        count: the most to choose; fewer where nothing else is left to look at.
        draw: for what is looked at by chance.
    """
    faces = [face for kind in slow.trees for face in _faces(slow, kind, domains[kind]) if face.share > _SHARE]
    faces.sort(key=lambda face: -face.share)
    most = int(_EDGES * count)
    cuts = min(_CUTS, max(1, most // max(1, len(faces))))
    asked = [(face.kind, point) for face in faces for point in face.cut(cuts, domains[face.kind])]
    chosen = [look for look in dict.fromkeys(asked) if look not in failed][:most]
    kinds = sorted(slow.trees)
    for turn in range(count - len(chosen) if kinds else 0):
        kind = kinds[turn % len(kinds)]
        seen = {*slow.told[kind], *(point for other, point in (*failed, *chosen) if other == kind)}
        usual = _usual(slow, kind, [anywhere(domains[kind], draw) for _ in range(_TRIED)])  # known boxes are known
        if new := [point for point in usual if point not in seen]:
            chosen.append((kind, _farthest(new, sorted(seen), domains[kind])))
    return chosen


def _usual(slow: Slow, kind: int, points: Sequence[Point]) -> list[Point]:
    """Those that are taken to be no slower than most."""
    return list(itertools.compress(points, ~slow.at(kind, np.array(points, dtype=float))))


@dataclass(frozen=True)
class _Face:
    """A side of a slow box, and how far it is from there to the next block that is known.

    Attributes:
        middle: the places of the box's middle among the widths.
        axis, at, toward: the place of its outermost slow block along an axis, and whether what is beyond is wider (1)
            or narrower (-1).
        length: how long the box is along the axis, as far as is known.
        gap: how many places farther the next known block is.
        share: how much of a kind's widths lies between.
    """

    kind: int
    middle: tuple[int, ...]
    axis: int
    at: int
    toward: int
    length: int
    gap: int
    share: float

    def cut(self, cuts: int, domain: Domain) -> list[Point]:
        """Points that cut what is not known: boxes are as likely to be twice as long as half as long as they seem."""
        least = min(self.length, self.gap / 4)
        steps = {max(1, int(least * (self.gap / least) ** (part / (cuts + 1)))) for part in range(1, cuts + 1)}
        places = [self.at + self.toward * step for step in sorted(steps)]
        found = [[*self.middle[: self.axis], place, *self.middle[self.axis + 1 :]] for place in places]
        return [tuple(r[place] for r, place in zip(domain, point, strict=True)) for point in found]


def _faces(slow: Slow, kind: int, domain: Domain) -> Iterator[_Face]:
    """The sides of a kind's slow boxes."""
    points = np.array([p for p in slow.told[kind] if all(width in r for width, r in zip(p, domain, strict=True))])
    if not len(points):
        return
    places = (points - [r.low for r in domain]) // [r.step for r in domain]
    for inside in _boxes(slow.trees[kind], np.log2(points)):
        first, last = places[inside].min(0), places[inside].max(0)
        level = (first <= places) & (places <= last)
        middle = tuple(((first + last) // 2).tolist())
        for axis, widths in enumerate(domain):
            beside = places[np.delete(level, axis, 1).all(1), axis]
            low, high = int(first[axis]), int(last[axis])
            below, above = max(beside[beside < low], default=-1), min(beside[beside > high], default=len(widths))
            across = float(np.delete(last - first + 1, axis).prod()) / math.prod(map(len, domain))
            length = high - low + 1
            for at, toward, beyond in ((low, -1, int(below)), (high, 1, int(above))):
                gap = abs(beyond - at)
                face = _Face(kind, middle, axis, at, toward, length, gap, (gap - 1) * across)
                ends = not 0 <= beyond < len(widths)  # nothing is known from here to the last of the widths
                if gap > 1 and not (ends and gap <= length and not _usual(slow, kind, face.cut(1, domain))):
                    yield face


def _boxes(tree: Split | bool, octaves: Array) -> Iterator[Flags]:
    """Which points (n, axes) are in each slow box: (n,)."""
    if isinstance(tree, bool):
        if tree and len(octaves):
            yield np.ones(len(octaves), dtype=bool)
        return
    below = octaves[:, tree.axis] <= tree.at
    for part, side in ((tree.narrower, below), (tree.wider, ~below)):
        for inside in _boxes(part, octaves[side]):
            found = np.zeros(len(octaves), dtype=bool)
            found[np.flatnonzero(side)[inside]] = True
            yield found


def _farthest(tried: Sequence[Point], seen: Sequence[Point], domain: Domain) -> Point:
    """The point that is farthest from what was looked at, as parts of the widths' ranges."""
    scale = np.array([len(r) * r.step for r in domain], dtype=float)
    apart = (np.array(tried) / scale)[:, None, :] - (np.array(seen) / scale)[None, :, :]
    return tried[int((apart**2).sum(2).min(1).argmax())]
