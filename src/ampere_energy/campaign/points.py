"""Points of a domain to measure at: its corners, a grid over it, and chance."""

from __future__ import annotations

import itertools
import math
import random

from ampere_energy.cost_model.physical_mean import TILE_STEP
from ampere_energy.model.kinds import Point
from ampere_energy.model.widths import Domain

GRID_LIMIT = 2500
EVERY = 4
"""Which part of what is measured is round: people ask for multiples of 8 more often than chance would."""
_ACROSS = (0.3, 0.7)


def bounds(domain: Domain) -> list[Point]:
    """The corners of the domain, the largest first, since it decides whether the kind fits the device."""
    return list(dict.fromkeys(itertools.product(*((r.high, r.low) for r in domain))))


def opposite(domain: Domain) -> list[Point]:
    """Two points well inside the domain, opposite each other: where one has a small width, the other has a large."""
    places = (_ACROSS, _ACROSS[::-1])
    return [tuple(r[round(own[axis % 2] * (len(r) - 1))] for axis, r in enumerate(domain)) for own in places]


def candidates(domain: Domain) -> list[Point]:
    """Every point of the domain, or an even grid of at most `GRID_LIMIT` where there are more."""
    a_side = int(GRID_LIMIT ** (1 / len(domain)))
    axes = []
    for allowed in domain:
        count = min(len(allowed), a_side)
        places = {round(i * (len(allowed) - 1) / max(1, count - 1)) for i in range(count)}
        axes.append([allowed[i] for i in sorted(places)])
    return list(itertools.product(*axes))


def size(domain: Domain) -> int:
    """How many points a domain has."""
    return math.prod(map(len, domain))


def every(domain: Domain) -> list[Point]:
    """All points of a domain."""
    return list(itertools.product(*([r[i] for i in range(len(r))] for r in domain)))


def random_points(domain: Domain, count: int, rng: random.Random) -> list[Point]:
    """Random points of a domain, each once, every fourth of them round; all where there are few."""
    if size(domain) <= count:
        return rng.sample(every(domain), size(domain))
    points = [anywhere(domain, rng) for _ in range(count)]
    points[EVERY - 1 :: EVERY] = [rounded(point, domain) for point in points[EVERY - 1 :: EVERY]]
    return list(dict.fromkeys(points))


def anywhere(domain: Domain, rng: random.Random) -> Point:
    """A random point of a domain."""
    return tuple(r[rng.randrange(len(r))] for r in domain)


def rounded(point: Point, domain: Domain) -> Point:
    """The multiples of 8 below, where the domain has them."""
    even = (width - width % TILE_STEP for width in point)
    return tuple(e if e in r else width for e, width, r in zip(even, point, domain, strict=True))
