from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from studies.looks import box

from ampere_energy.fit.looks import looks
from ampere_energy.fit.points import anywhere
from ampere_energy.fit.slow import Slow, _tree
from ampere_energy.model.blocks import Point
from ampere_energy.model.variants import Domain, WidthRange

DOMAIN = (WidthRange(1, 128), WidthRange(1, 256))
EVERY = list(itertools.product(range(1, 129), range(1, 257)))


def fft(point: Point) -> bool:
    """About where cuDNN convolves by FFT on an H200 (`data/h200-kernels/slow.jsonl.gz`)."""
    return box(point) is not None


def told(points: list[Point], is_slow: Callable[[Point], bool] = fft) -> Slow:
    known = {point: is_slow(point) for point in points}
    tree = _tree(np.log2(np.array(list(known), dtype=float)), np.array(list(known.values())))
    return Slow({0: tree}, {0: known})


def drawn(count: int, seed: int, domain: Domain = DOMAIN) -> list[Point]:
    draw = random.Random(seed)
    return [anywhere(domain, draw) for _ in range(count)]


def looked(points: list[Point], rounds: int, count: int, domain: Domain = DOMAIN) -> list[Point]:
    draw = random.Random("looked")
    for _ in range(rounds):
        points = list(dict.fromkeys([*points, *(p for _, p in looks(told(points), set(), [domain], count, draw))]))
    return points


def wrong(points: list[Point]) -> float:
    """The share of all widths that are taken for slow and are not, or the other way round."""
    found = told(points).at(0, np.array(EVERY, dtype=float))
    return float(np.mean(found != [fft(point) for point in EVERY]))


@pytest.mark.parametrize("seed", range(3))
def test_edges_are_found_that_as_many_points_by_chance_would_not(seed: int) -> None:
    first = [point for point in drawn(60, seed) if box(point) != "small"]
    by_looking, by_chance = looked(first, 10, 12), [*first, *drawn(120, seed + 100)]
    assert wrong(by_looking) < 0.006  # the small box, half a percent, may not be hit
    assert wrong(by_looking) < 0.5 * wrong(by_chance)


def test_one_block_in_a_small_box_is_enough_to_find_all_of_it() -> None:
    points = looked([*drawn(60, 1), (30, 26)], 8, 12)
    small = [point for point in EVERY if box(point) == "small"]
    assert np.mean(told(points).at(0, np.array(small, dtype=float))) > 0.9
    assert wrong(points) < 0.004


def test_what_is_known_to_be_slow_is_not_looked_at_again() -> None:
    """A slow block takes ten times as long to time."""
    points = drawn(60, 2)
    after = looked(points, 10, 12)
    inside = [(read, given) for read, given in after[len(points) :] if read > 80 and 25 < given < 50]
    assert len(inside) <= 3


def test_where_nothing_is_slow_nothing_is_looked_for() -> None:
    assert looks(Slow({}, {}), set(), [DOMAIN], 12, random.Random(0)) == []


def test_looks_are_of_the_domain_and_new() -> None:
    domain = (WidthRange(8, 128, 8), WidthRange(16, 256, 8))
    points = [*drawn(30, 3, domain), (96, 40), (104, 48), (31, 27)]  # the last, of a network measured besides, is odd
    found = [point for _, point in looks(told(points), set(), [domain], 20, random.Random(0))]
    assert len(set(found)) == 20
    assert all(width in r for point in found for width, r in zip(point, domain, strict=True))
    assert not set(found) & set(points)
    line = (WidthRange(1, 64),)
    slow = told([(1,), (20,), (30,), (64,)], lambda point: 17 <= point[0] <= 33)
    found = [point for _, point in looks(slow, set(), [line], 4, random.Random(0))]
    assert len(found) == 4
    assert any(point[0] < 20 for point in found)
    assert any(30 < point[0] < 64 for point in found)


def test_what_cannot_be_timed_does_not_draw_looks() -> None:
    points, draw, failed, asked = drawn(60, 4), random.Random(0), set(), 0
    for _ in range(12):
        found = looks(told(points), failed, [DOMAIN], 12, draw)
        assert not failed & set(found)
        asked += len(found)
        failed |= {look for look in found if look[1][0] > 100 and look[1][1] > 200}
        points += [point for kind, point in found if (kind, point) not in failed]
    assert len(failed) < 0.15 * asked  # 6 % of all widths


def test_where_all_is_known_nothing_is_looked_at() -> None:
    line = (WidthRange(8, 128, 8),)
    slow = told([(width,) for width in range(8, 129, 8)], lambda point: point[0] in (48, 56, 64))
    assert looks(slow, set(), [line], 8, random.Random(0)) == []
    outside = told([(3,), (5,), (7,), (9,)], lambda point: point[0] > 4)  # of a log of other widths
    assert all(point[0] % 8 == 0 for _, point in looks(outside, set(), [line], 4, random.Random(0)))
