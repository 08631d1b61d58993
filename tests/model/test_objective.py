from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from ampere_energy.errors import ModelError
from ampere_energy.model.objective import CROSS_ENTROPY, MSE, OWN, chosen, mask, objective, tensors_in

PICTURES, WORDS = (torch.randn(4, 3),), {"ids": torch.zeros(4, 5, dtype=torch.long)}


def made(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True) * 1


@pytest.mark.parametrize(
    ("result", "inputs", "name", "shape"),
    [
        (made(), PICTURES, OWN, ()),
        (SimpleNamespace(loss=made(), scores=made(4, 3)), PICTURES, OWN, ()),
        (SimpleNamespace(loss=None), WORDS, None, ()),
        (made(4, 3), PICTURES, CROSS_ENTROPY, (4, 3)),
        (made(4, 5, 3), WORDS, CROSS_ENTROPY, (4, 5, 3)),
        (made(4, 5, 3), PICTURES, MSE, (4, 5, 3)),
        (made(4, 5, 3, 2), WORDS, MSE, (4, 5, 3, 2)),
        (made(4), PICTURES, MSE, (4,)),
        ((torch.zeros(7), "text", [made(4, 3), made(4, 9)]), PICTURES, CROSS_ENTROPY, (4, 3)),
        ({"state": torch.zeros(7), "scores": made(4, 9)}, PICTURES, CROSS_ENTROPY, (4, 9)),
    ],
)
def test_what_is_trained_and_how(result: Any, inputs: Any, name: str | None, shape: tuple[int, ...]) -> None:
    if name is None:
        with pytest.raises(ModelError, match="Linear gives nothing that depends on a trained parameter; let its"):
            objective(nn.Linear(1, 1), result, inputs)
        return
    goal = objective(nn.Linear(1, 1), result, inputs)
    assert (goal.name, tuple(goal.scores.shape)) == (name, shape)


def test_a_loss_of_its_own_is_left_as_it_is() -> None:
    loss = made()
    goal = objective(nn.Linear(1, 1), loss, PICTURES)
    assert goal.loss(loss, loss) is loss
    assert goal.classes == 1


def test_classes_are_targets_of_cross_entropy() -> None:
    scores = made(40, 50, 3)
    goal = objective(nn.Linear(1, 1), scores, WORDS)
    target = goal.target()
    assert (target.dtype, tuple(target.shape), goal.classes) == (torch.int64, (2000,), 3)
    assert set(target.tolist()) == {0, 1, 2}
    by_hand = functional.cross_entropy(scores.reshape(2000, 3), target)
    assert torch.equal(goal.loss(scores, target), by_hand)


def test_numbers_are_targets_of_squares() -> None:
    scores = made(4, 5, 3)
    goal = objective(nn.Linear(1, 1), scores, PICTURES)
    target = goal.target()
    assert (target.shape, target.requires_grad) == (scores.shape, False)
    assert torch.allclose(goal.loss(scores, target), (scores - target).square().mean())


def test_tensors_are_found_in_order() -> None:
    a, b, c = (torch.zeros(1) for _ in range(3))
    assert [id(t) for t in tensors_in([a, {"x": (b, 3)}, "no", c])] == [id(a), id(b), id(c)]
    assert chosen([a, b]) is None


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 4, 4), (7, 1), (2,)])
def test_no_row_of_a_mask_is_masked_as_a_whole(shape: tuple[int, ...]) -> None:
    found = mask(shape)
    assert (tuple(found.shape), found.dtype) == (shape, torch.bool)
    rows = found.flatten()[None] if shape[-1] == 1 else found.flatten(0, -2) if len(shape) > 1 else found[None]
    assert all({bool(x) for x in row} == {True, False} for row in rows)
    assert bool(mask(shape, all_true=True).all())
