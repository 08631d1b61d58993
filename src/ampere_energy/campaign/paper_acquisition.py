"""Where to measure next, and when to stop: the paper's rules.

Start at the bounds of the widths; then measure where the predictive variance is largest; stop at the point
limit, or when the largest predictive standard deviation is under 5 % of the mean profiled value. (The paper
says "when the variance is smaller than 5 % of the profiled data", which compares J² with J; we read standard
deviation.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ampere_energy.cost_model.per_kind import KindFit, Quantity
from ampere_energy.model.kinds import Point


def most_uncertain(
    fit: KindFit, points: Sequence[Point], taken: Collection[Point], guide: Quantity
) -> tuple[Point | None, float]:
    """The candidate of largest predictive variance not yet taken, and the largest standard deviation of all."""
    deviations = np.sqrt(fit.process(guide).variance(fit.unit(points))).tolist()
    free = [(deviation, point) for deviation, point in zip(deviations, points, strict=True) if point not in taken]
    best = max(free, default=None, key=lambda pair: pair[0])
    return (best[1] if best else None), max(deviations)
