"""Where to measure next, and when to stop: the paper's rules.

Start at the bounds of the widths; then measure where the predictive variance is largest; stop at the point
limit, or when the largest predictive standard deviation is under 5 % of the mean profiled value. (The paper
says "when the variance is smaller than 5 % of the profiled data", which compares J² with J; we read standard
deviation.)
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from ampere_energy.fit.profile import KindFit, Quantity
from ampere_energy.model.blocks import Point
from ampere_energy.model.variants import Domain

GRID_LIMIT = 2500


def bounds(domain: Domain) -> list[Point]:
    """The corners of the domain, the largest first, since it decides whether the kind fits the device."""
    return list(dict.fromkeys(itertools.product(*((r.high, r.low) for r in domain))))


def candidates(domain: Domain) -> list[Point]:
    """Every point of the domain, or an even grid of at most `GRID_LIMIT` where there are more."""
    a_side = int(GRID_LIMIT ** (1 / len(domain)))
    axes = []
    for allowed in domain:
        count = min(len(allowed), a_side)
        places = {round(i * (len(allowed) - 1) / max(1, count - 1)) for i in range(count)}
        axes.append([allowed[i] for i in sorted(places)])
    return list(itertools.product(*axes))


def most_uncertain(
    fit: KindFit, points: Sequence[Point], taken: Collection[Point], guide: Quantity
) -> tuple[Point | None, float]:
    """The candidate of largest predictive variance not yet taken, and the largest standard deviation of all."""
    deviations = fit.process(guide).variance(fit.unit(points)).sqrt().tolist()
    free = [(deviation, point) for deviation, point in zip(deviations, points, strict=True) if point not in taken]
    best = max(free, default=None, key=lambda pair: pair[0])
    return (best[1] if best else None), max(deviations)
