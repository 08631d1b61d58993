from __future__ import annotations

import pytest
import torch
from torch import nn

from ampere_energy.model.groups import groups
from ampere_energy.optimization.pruning.importance import Importance, scores

INPUTS = (torch.randn(8, 3, 8, 8),)


@pytest.fixture
def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


def order(values: list[float]) -> list[int]:
    return sorted(range(len(values)), key=values.__getitem__)


@pytest.mark.parametrize("importance", [Importance.L1, Importance.L2])
def test_by_weights(model: nn.Sequential, importance: Importance) -> None:
    with torch.no_grad():
        for channel in range(6):
            model[0].weight[channel] = 0.1 * (5 - channel)
            model[3].weight[:, channel] = 0.1 * (5 - channel)
            model[1].weight.fill_(0.0)
    first, second = scores(model, groups(model, INPUTS), INPUTS, importance)
    assert order(first) == [5, 4, 3, 2, 1, 0]
    assert first[5] == 0.0
    assert sum(first) / 6 == pytest.approx(1.0)
    power = 1 if importance is Importance.L1 else 2
    assert first[0] / first[1] == pytest.approx((5 / 4) ** power, rel=1e-3)
    assert len(second) == 4


def test_by_the_scale_of_batch_normalisation_where_there_is_one(model: nn.Sequential) -> None:
    with torch.no_grad():
        model[1].weight.copy_(torch.tensor([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]))
        model[3].weight.copy_(torch.arange(4.0)[:, None, None, None].expand_as(model[3].weight))
        model[7].weight.fill_(0.0)
    found = groups(model, INPUTS)
    first, second = scores(model, found, INPUTS, Importance.BN)
    assert [value * 3.5 for value in first] == pytest.approx([3, 1, 2, 6, 5, 4])
    assert order(second) == [0, 1, 2, 3]  # by its weights


def test_by_what_the_loss_would_change_by(model: nn.Sequential) -> None:
    """A loss that sees one channel only makes the others worthless."""
    found = groups(model, INPUTS)

    def loss(own: nn.Module) -> torch.Tensor:
        assert isinstance(own, nn.Sequential)
        return own[:5](INPUTS[0])[:, 2].sum()

    second = scores(model, found, INPUTS, Importance.TAYLOR, loss=loss)[1]
    assert order(second)[-1] == 2
    assert second[2] == pytest.approx(4.0)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert float(model[1].running_mean.abs().sum()) == 0.0  # as it was
    blind = scores(model, found, INPUTS, Importance.TAYLOR)[1]
    assert min(blind) > 0 or sum(value > 0 for value in blind) > 1


def test_by_chance_the_same_for_the_same_seed(model: nn.Sequential) -> None:
    found = groups(model, INPUTS)
    again = [scores(model, found, INPUTS, Importance.RANDOM, seed=seed) for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]
    assert sum(again[0][0]) / 6 == pytest.approx(1.0)
