from __future__ import annotations

import itertools

import numpy as np
import pytest

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.optimization.pruning.random_widths import random_choice
from ampere_energy.optimization.pruning.widths import cheapest, narrowed_to

LADDERS = [list(range(64, 0, -8)), list(range(128, 0, -8)), list(range(32, 0, -8))]
WORTH = [[-ladder[0] / width for width in ladder] for ladder in LADDERS]


def work(widths: Array) -> Array:
    """A chain: products of neighbours, and a constant."""
    a, b, c = widths.T
    return np.asarray(500.0 + 3 * a + a * b + b * c + 2 * c)


def every() -> tuple[Array, Array]:
    widths = np.array(list(itertools.product(*LADDERS)), dtype=float)
    rows = itertools.product(*WORTH)
    return widths, np.array([sum(row) for row in rows])


@pytest.mark.parametrize("share", [0.8, 0.5, 0.3, 0.15])
def test_nearly_the_best_within_the_limit(share: float) -> None:
    full = np.array([[64.0, 128.0, 32.0]])
    limit = share * float(work(full)[0])
    choice = narrowed_to(limit, LADDERS, WORTH, work)
    assert choice.met
    assert 0.9 * limit < choice.cost <= limit
    assert choice.cost == float(work(np.array([choice.widths], dtype=float))[0])
    widths, worth = every()
    best = worth[work(widths) <= limit].max()
    own = sum(w[ladder.index(width)] for ladder, w, width in zip(LADDERS, WORTH, choice.widths, strict=True))
    assert own == pytest.approx(best, rel=0.05)  # both negative: what was lost is nearly the least that could be


def test_a_limit_out_of_reach_gives_the_cheapest() -> None:
    choice = narrowed_to(600.0, LADDERS, WORTH, work)
    assert not choice.met
    assert choice.widths == (8, 8, 8)
    assert choice == cheapest(LADDERS, work)
    assert choice.cost == 500 + 24 + 64 + 64 + 16


def test_a_step_that_does_not_pay_is_stepped_over() -> None:
    """Widths that are no multiples of 16 cost more than the next wider one."""

    def stepped(widths: Array) -> Array:
        return work(np.ceil(widths / 16) * 16) + 40.0 * (widths % 16 > 0).sum(1)

    limit = 0.4 * float(stepped(np.array([[64.0, 128.0, 32.0]]))[0])
    choice = narrowed_to(limit, LADDERS, WORTH, stepped)
    assert choice.met
    assert all(width % 16 == 0 for width in choice.widths)
    assert choice.cost > 0.8 * limit


def test_widths_by_chance_meet_the_limit_and_differ() -> None:
    limit, draw = 0.5 * float(work(np.array([[64.0, 128.0, 32.0]]))[0]), np.random.default_rng(0)
    found = [random_choice(limit, LADDERS, work, draw) for _ in range(50)]
    costs = np.array([choice.cost for choice in found if choice is not None])
    assert len(costs) == 50
    assert costs.max() <= limit
    assert np.median(costs) > 0.85 * limit
    assert len({choice.widths for choice in found if choice is not None}) > 20
    assert random_choice(600.0, LADDERS, work, draw) is None
