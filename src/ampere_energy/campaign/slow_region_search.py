"""Where to look for blocks that a device computes many times as slowly as most.

Slow blocks lie in boxes of widths (`slow_regions`), and no posterior tells of a box that nothing was measured in. A
kind that is slow somewhere may be so elsewhere, and some timings are for looking: where a box's edges are, between its
outermost slow block and the next that is known, and in the middle of the largest box that nothing was looked at in yet.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass

import numpy as np

from ampere_energy.campaign.points import anywhere
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.slow_regions import Box, Slow
from ampere_energy.model.kinds import Point
from ampere_energy.model.widths import Domain

_SHARE = 0.0005
"""How much of a kind's widths may lie between a slow block and the next known one before it is worth a look."""
_FEW = 8
"""Boxes of so many widths are not cut in two."""
_TRIED = 400
"""Of how many random points the one in the largest empty box is taken."""
_LONG = (-2, -1, 0, 1, 2)
"""How long empty boxes are, as powers of two: a slow one was four widths by forty."""

Searched = tuple[int, Point]
"""A block to time: its kind, by its place, and its widths."""


def next_search(
    slow: Slow, others: Set[Searched], domains: Sequence[Domain], rng: random.Random, edges: bool = True
) -> Searched | None:
    """The block to time next; None where no kind is slow, or nothing is left to look at.

    Args:
        slow: which blocks are slow, and which are known to be or not.
        others: blocks that will not be looked at: those that could not be timed, or will be without a look.
        domains: the widths of every kind.
        rng: for what is looked at by chance.
        edges: whether edges of known boxes come first, where some are worth a look.
    """
    known = {*others, *((kind, point) for kind, seen in slow.ratios.items() for point in seen)}
    if edges:
        faces = [face for kind in slow.boxes for face in _faces(slow, kind, domains[kind])]
        for face in sorted(faces, key=lambda face: -face.share):
            if face.share > _SHARE and (asked := (face.kind, face.cut(domains[face.kind]))) not in known:
                return asked
    found: list[tuple[float, Searched]] = []
    for kind in sorted(slow.boxes):
        seen = {point for other, point in known if other == kind}
        emptiest = _emptiest(slow, kind, seen, domains[kind], rng)
        found += [(size, (kind, point)) for size, point in emptiest[:1]]
    return max(found)[1] if found else None


def afar(slow: Slow, kind: int, domain: Domain, rng: random.Random, count: int) -> list[Point]:
    """Points of a slow kind that are far from all that is known of it, so many or fewer."""
    return [point for _, point in _emptiest(slow, kind, slow.ratios[kind], domain, rng)[:count]]


def _emptiest(
    slow: Slow, kind: int, seen: Collection[Point], domain: Domain, rng: random.Random
) -> list[tuple[float, Point]]:
    """Some points outside of known boxes, those in the largest empty boxes first."""
    tried = dict.fromkeys(anywhere(domain, rng) for _ in range(_TRIED))
    usual = ~slow.at(kind, np.array(list(tried), dtype=float))
    new = [point for point in itertools.compress(tried, usual) if point not in seen]
    if not new:
        return []
    sizes = _empty(new, list(seen), domain) * _likely(new, slow.boxes[kind], domain)
    return sorted(zip(sizes.tolist(), new, strict=True), reverse=True)


@dataclass(frozen=True)
class _Face:
    """A side of a slow box, and how far it is from there to the next block that is known.

    Attributes:
        middle: the places of the box's middle among the widths.
        axis, at, toward: the place of its outermost slow block along an axis, and whether what is beyond is wider (1)
            or narrower (-1).
        length: how long the box is along the axis, as far as is known.
        gap: how many places farther the next known block is, or the end of the widths …
        to_end: … which the box is taken to reach.
        share: how much of a kind's widths lies between.
    """

    kind: int
    middle: tuple[int, ...]
    axis: int
    at: int
    toward: int
    length: int
    gap: int
    to_end: bool
    share: float

    def cut(self, domain: Domain) -> Point:
        """A point that cuts what is not known: boxes are as likely to be twice as long as half as long as they seem."""
        least = min(self.length, self.gap / 4)
        step = self.gap - 1 if self.to_end else max(1, int(math.sqrt(least * self.gap)))
        places = [*self.middle[: self.axis], self.at + self.toward * step, *self.middle[self.axis + 1 :]]
        return tuple(r[place] for r, place in zip(domain, places, strict=True))


def _faces(slow: Slow, kind: int, domain: Domain) -> Iterator[_Face]:
    """The sides of a kind's slow boxes."""
    points = np.array([p for p in slow.ratios[kind] if all(width in r for width, r in zip(p, domain, strict=True))])
    if not len(points):
        return
    places = (points - [r.low for r in domain]) // [r.step for r in domain]
    for box in slow.boxes[kind]:
        inside = box.holds(points)
        if not inside.any():
            continue
        first, last = places[inside].min(0), places[inside].max(0)
        level = (first <= places) & (places <= last)
        middle = tuple(((first + last) // 2).tolist())
        for axis, widths in enumerate(domain):
            beside = places[np.delete(level, axis, 1).all(1), axis]
            low, high = int(first[axis]), int(last[axis])
            below, above = max(beside[beside < low], default=-1), min(beside[beside > high], default=len(widths))
            across = float(np.delete(last - first + 1, axis).prod()) / math.prod(map(len, domain))
            for at, toward, beyond, end in ((low, -1, int(below), -1), (high, 1, int(above), len(widths))):
                gap = abs(beyond - at)
                to_end = beyond == end and (
                    box.low[axis] <= widths.low if toward < 0 else box.high[axis] >= widths.high
                )
                if gap > 1:
                    yield _Face(kind, middle, axis, at, toward, high - low + 1, gap, to_end, (gap - 1) * across)
            seen = np.unique(places[inside, axis])
            for at, after in itertools.pairwise(seen.tolist()):
                if 2 * (after - at) > high - low + 1 > _FEW:  # two boxes may have been taken for one
                    yield _Face(kind, middle, axis, at, 1, at - low + 1, after - at, False, (after - at - 1) * across)


def _empty(tried: Sequence[Point], seen: Sequence[Point], domain: Domain) -> Array:
    """How large a box around each point nothing was looked at in, as a share of all widths: (tried,)."""
    low, size = np.array([r.low for r in domain]), np.array([len(r) * r.step for r in domain], dtype=float)
    centres, others = ((np.array(points).reshape(-1, len(domain)) - low) / size for points in (tried, seen))
    apart = np.abs(centres[:, None, :] - others[None, :, :])
    largest = np.zeros(len(centres))
    for sides in _shapes(len(domain)):
        reach = (apart / sides).max(2).min(1, initial=1.0)[:, None] * sides
        within = np.minimum(centres + reach, 1.0) - np.maximum(centres - reach, 0.0)
        largest = np.maximum(largest, within.prod(1))
    return largest


def _likely(points: Sequence[Point], boxes: Sequence[Box], domain: Domain) -> Array:
    """How many times as likely a slow box is at points that are level with a known one, along one of the widths.

    Kernels switch at single widths: a box is as likely to be level with another as to be elsewhere, and so the
    likelier at a point the fewer widths the other has there.
    """
    at, found = np.array(points), np.ones(len(points))
    for box in boxes:
        parts = [
            (high - low + r.step) / (len(r) * r.step) for low, high, r in zip(box.low, box.high, domain, strict=True)
        ]
        level = (at >= box.low) & (at <= box.high)
        found = np.maximum(found, np.where(level, 1 / np.array(parts), 1.0).max(1))
    return found


def _shapes(axes: int) -> list[Array]:
    """Sides of boxes of one size, along each axis in turn longer or shorter than along the others."""
    found = {(0.0,) * axes}
    for axis, long in itertools.product(range(axes if axes > 1 else 0), _LONG):
        found.add(tuple(float(long) if other == axis else -long / (axes - 1) for other in range(axes)))
    return [np.exp2(sides) for sides in sorted(found)]
