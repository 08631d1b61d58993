from __future__ import annotations

import itertools

import numpy as np
import pytest

from ampere_energy.optimization.search.front import hypervolume, unbeaten


def test_unbeaten_rows_are_those_that_no_other_beats() -> None:
    losses = np.array([[1, 5], [2, 3], [2, 4], [3, 3], [4, 1], [4, 1], [5, 2]], dtype=float)
    assert losses[unbeaten(losses)].tolist() == [[1, 5], [2, 3], [4, 1]]
    assert unbeaten(np.zeros((0, 3))).tolist() == []


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_a_front_agrees_with_all_comparisons(columns: int) -> None:
    losses = np.random.default_rng(columns).integers(0, 6, (200, columns)).astype(float)
    beaten = [any((o <= row).all() and (o < row).any() for o in losses) for row in losses]
    wanted = {tuple(row) for row, lost in zip(losses, beaten, strict=True) if not lost}
    found = losses[unbeaten(losses)]
    assert {tuple(row) for row in found} == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_a_hypervolume_is_the_dominated_share_of_a_grid(columns: int) -> None:
    losses = np.random.default_rng(columns).integers(0, 7, (12, columns)).astype(float)
    worst = np.full(columns, 6.0)
    cells = np.array(list(itertools.product(range(6), repeat=columns)), dtype=float)
    dominated = (losses[:, None, :] <= cells[None, :, :]).all(2).any(0)
    assert hypervolume(losses, worst) == pytest.approx(dominated.sum())


def test_outcomes_beyond_the_corner_add_nothing() -> None:
    assert hypervolume(np.array([[2.0, 0.0, 0.0]]), np.ones(3)) == 0.0
    assert hypervolume(np.array([[0.5, 0.5, 0.5], [2.0, 0.0, 0.0]]), np.ones(3)) == 0.125
