from __future__ import annotations

from ampere_energy.campaign.paper_acquisition import most_uncertain
from ampere_energy.campaign.points import GRID_LIMIT, bounds, candidates
from ampere_energy.cost_model.per_kind import KindFit, Quantity, learn
from ampere_energy.model.variants import lessons
from ampere_energy.model.widths import WidthRange
from benchmarks.specs import spec_of


def test_bounds_are_the_corners_largest_first() -> None:
    assert bounds((WidthRange(1, 6), WidthRange(2, 10, 2))) == [(6, 10), (6, 2), (1, 10), (1, 2)]
    assert bounds((WidthRange(4, 4),)) == [(4,)]


def test_candidates_hold_the_bounds_and_respect_the_step() -> None:
    small = (WidthRange(8, 64, 8), WidthRange(8, 32, 8))
    assert len(candidates(small)) == 8 * 4
    large = (WidthRange(8, 4096, 8), WidthRange(1, 1000))
    points = candidates(large)
    assert len(points) <= GRID_LIMIT
    assert set(bounds(large)) <= set(points)
    assert all(a in large[0] and b in large[1] for a, b in points)
    assert len(set(points)) == len(points)


def test_the_next_point_lies_where_least_is_known() -> None:
    lesson = lessons(spec_of("lenet5"))[0]
    domain = (WidthRange(1, 101),)
    points = [(1,), (20,), (101,)]
    learnt = learn(domain, points, [1.0, 1.2, 2.0], [0.0] * 3)
    fit = KindFit(lesson.kind, domain, tuple(points), learnt, learnt)
    point, deviation = most_uncertain(fit, candidates(domain), points, Quantity.ENERGY)
    assert point is not None
    assert 50 < point[0] < 75  # the middle of the wider gap
    assert deviation > 0
    assert most_uncertain(fit, points, points, Quantity.TIME)[0] is None
