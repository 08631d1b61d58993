from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from ampere_energy.campaign.points import anywhere
from ampere_energy.campaign.slow_region_search import Searched, _empty, _likely, afar, next_search
from ampere_energy.cost_model.slow_regions import Slow, boxes_of
from ampere_energy.model.kinds import Point
from ampere_energy.model.widths import Domain, WidthRange
from benchmarks.studies.slow_region_search import box

DOMAIN = (WidthRange(1, 128), WidthRange(1, 256))
EVERY = list(itertools.product(range(1, 129), range(1, 257)))


def fft(point: Point) -> bool:
    """About where cuDNN convolves by FFT on an H200 (`data/h200-kernels/slow.jsonl.gz`)."""
    return box(point) is not None


def told(points: list[Point], is_slow: Callable[[Point], bool] = fft, domain: Domain = DOMAIN) -> Slow:
    return told_of({point: is_slow(point) for point in points}, domain)


def told_of(known: dict[Point, bool], domain: Domain = DOMAIN) -> Slow:
    return Slow({0: boxes_of(known, domain)}, {0: known})


def drawn(count: int, seed: int, domain: Domain = DOMAIN) -> list[Point]:
    draw = random.Random(seed)
    return [anywhere(domain, draw) for _ in range(count)]


def looked(points: list[Point], count: int, domain: Domain = DOMAIN) -> list[Point]:
    draw = random.Random("looked")
    for place in range(count):
        found = next_search(told(points), set(), [domain], draw, edges=place % 4 > 0)
        assert found is not None
        points = [*points, found[1]]
    return points


def wrong(points: list[Point]) -> float:
    """The share of all widths that are taken for slow and are not, or the other way round."""
    found = told(points).at(0, np.array(EVERY, dtype=float))
    return float(np.mean(found != [fft(point) for point in EVERY]))


@pytest.mark.parametrize("seed", range(3))
def test_edges_are_found_that_as_many_points_by_chance_would_not(seed: int) -> None:
    first = [point for point in drawn(60, seed) if box(point) != "small"]
    by_looking, by_chance = looked(first, 40), [*first, *drawn(120, seed + 100)]
    assert wrong(by_looking) < 0.0055  # the small box, half a percent, may not be hit
    large = np.array([point for point in EVERY if box(point) != "small"], dtype=float)
    truth = [fft((int(a), int(b))) for a, b in large]
    missed, by_chance_missed = (np.mean(told(own).at(0, large) != truth) for own in (by_looking, by_chance))
    assert missed < 0.1 * by_chance_missed


def test_one_block_in_a_small_box_is_enough_to_find_all_of_it() -> None:
    points = looked([*drawn(60, 1), (30, 26)], 40)
    small = [point for point in EVERY if box(point) == "small"]
    assert np.mean(told(points).at(0, np.array(small, dtype=float))) > 0.9
    assert wrong(points) < 0.002


def test_looks_leave_no_large_box_empty_where_something_could_hide() -> None:
    points, draw = [(100, 20), (110, 40), (90, 60)], random.Random(0)
    for _ in range(200):
        found = next_search(told(points), set(), [DOMAIN], draw, edges=False)
        assert found is not None
        points.append(found[1])
    usual = [point for point in drawn(2000, 9) if not told(points).at(0, np.array([point], dtype=float))]
    likely = _likely(usual, told(points).boxes[0], DOMAIN)
    assert likely.max() > 2  # level with the large box
    seen = points, [*points[:3], *drawn(200, 1)]
    by_looking, by_chance = ((_empty(usual, own, DOMAIN) * likely).max() for own in seen)
    assert by_looking < 0.7 * by_chance


def test_what_is_known_to_be_slow_is_not_looked_at_again() -> None:
    """A slow block takes ten times as long to time."""
    points = drawn(60, 2)
    after = looked(points, 100)
    inside = [(read, given) for read, given in after[len(points) :] if read > 80 and 25 < given < 50]
    assert len(inside) <= 4


def test_two_boxes_that_no_usual_block_is_known_between_are_not_taken_for_one_for_long() -> None:
    points = [(29, 30), (31, 35), (100, 30), (90, 40), (110, 60), (120, 20), (5, 5), (60, 200)]
    assert told(points).at(0, np.array([[50.0, 33.0]]))
    after = looked(points, 20)
    assert not told(after).at(0, np.array([[50.0, 33.0]]))


def test_where_nothing_is_slow_nothing_is_looked_for() -> None:
    assert next_search(Slow({}, {}), set(), [DOMAIN], random.Random(0)) is None


def test_looks_are_of_the_domain_and_new() -> None:
    domain = (WidthRange(8, 128, 8), WidthRange(16, 256, 8))
    points = [*drawn(30, 3, domain), (96, 40), (104, 48), (31, 27)]  # the last, of a network measured besides, is odd
    found = looked(points, 20, domain)[len(points) :]
    assert len(set(found)) == 20
    assert all(width in r for point in found for width, r in zip(point, domain, strict=True))
    assert not set(found) & set(points)
    line = (WidthRange(1, 64),)
    known, draw = [(1,), (20,), (30,), (64,)], random.Random(0)
    for _ in range(10):
        asked = next_search(told(known, lambda point: 17 <= point[0] <= 33, line), set(), [line], draw)
        assert asked is not None
        known.append(asked[1])
    slow = told(known, lambda point: 17 <= point[0] <= 33, line)
    assert slow.at(0, np.arange(1.0, 65.0)[:, None]).sum() >= 16


def test_what_cannot_be_timed_does_not_draw_looks() -> None:
    points, draw = drawn(60, 4), random.Random(0)
    failed: set[Searched] = set()
    for place in range(144):
        found = next_search(told(points), failed, [DOMAIN], draw, edges=place % 4 > 0)
        assert found is not None
        assert found not in failed
        if found[1][0] > 100 and found[1][1] > 200:
            failed.add(found)
        else:
            points.append(found[1])
    assert len(failed) < 0.15 * 144  # 6 % of all widths


def test_where_all_is_known_nothing_is_looked_at() -> None:
    line = (WidthRange(8, 128, 8),)
    slow = told([(width,) for width in range(8, 129, 8)], lambda point: point[0] in (48, 56, 64), line)
    assert next_search(slow, set(), [line], random.Random(0)) is None
    outside = told([(3,), (5,), (7,), (9,)], lambda point: point[0] > 4, line)  # of a log of other widths
    found = next_search(outside, set(), [line], random.Random(0))
    assert found is not None
    assert found[1][0] % 8 == 0


def test_what_is_offered_of_a_slow_kind_is_new_and_not_known_to_be_slow() -> None:
    points = drawn(60, 5)
    found = afar(told(points), 0, DOMAIN, random.Random(0), 20)
    assert len(found) == 20
    assert not set(found) & set(points)
    assert not told(points).at(0, np.array(found, dtype=float)).any()


def test_no_box_holds_a_block_that_was_seen_to_be_usual() -> None:
    """However many slow ones there are: the end of the widths, and what lies between two boxes, would be lost."""
    slow = dict.fromkeys(itertools.product(range(80, 121, 10), range(20, 61, 10)), True)
    ends = told_of({**slow, (121, 40): False, (124, 40): False, (90, 19): False})
    assert ends.at(0, np.array([[100.0, 40.0], [120.0, 60.0]])).all()
    assert not ends.at(0, np.array([[121.0, 40.0], [124.0, 41.0], [90.0, 19.0]])).any()
    two = told_of({**slow, (30, 20): True, (31, 60): True, (50, 30): False})
    assert not two.at(0, np.array([[50.0, 30.0], [49.0, 31.0]])).any()
    within = told_of({**slow, (95, 35): False})  # memory that was not free let it take the usual kernel
    assert not within.at(0, np.array([[95.0, 35.0]])).any()
    assert within.at(0, np.array([[85.0, 25.0], [115.0, 55.0]])).all()


def test_blocks_that_are_slow_here_and_there_lie_in_no_boxes() -> None:
    chequered = {(a, b): (a + b) % 2 == 0 for a, b in itertools.product(range(1, 12), repeat=2)}
    assert boxes_of(chequered, DOMAIN) == []


def test_a_box_reaches_to_the_end_of_the_widths_where_nothing_speaks_against() -> None:
    slow = {(80, 20): True, (120, 60): True}
    [reaching] = boxes_of(slow, DOMAIN)
    assert (reaching.low, reaching.high) == ((80, 20), (128, 60))
    [held] = boxes_of({**slow, (127, 30): False}, DOMAIN)
    assert (held.low, held.high) == ((80, 20), (120, 60))
