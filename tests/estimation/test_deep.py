"""Deep models: what repeats is computed once, and nothing grows with the square of the number of blocks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.posterior import distinct
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.parse import parse
from ampere_energy.reporting.as_json import estimate_json
from ampere_energy.reporting.tables import estimate_table

pytestmark = pytest.mark.usefixtures("one_thread")


def deep(layers: int) -> ModelSpec:
    """A model of so many layers, and of three kinds of blocks, as it is."""
    hidden = (module for _ in range(layers - 2) for module in (nn.Linear(8, 8), nn.ReLU()))
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), *hidden, nn.Linear(8, 3))
    return replace(parse(model, torch.randn(2, 4)), widths=(), follows=())


@pytest.fixture(scope="module")
def fit() -> JointFit:
    found = profile(deep(6), device=SimulatedDevice(0.02)).nets
    assert found is not None
    return found


def test_blocks_that_are_alike_are_told_by_kind_and_widths() -> None:
    points = [np.array([[8.0], [w]]) for w in (4, 4, 4, 5)]
    first, places = distinct([0, 0, 1, 0], points)
    assert first == [0, 2, 3]
    assert places.tolist() == [0, 0, 1, 2]


def test_a_thousand_layers_are_estimated_in_a_moment() -> None:
    spec = deep(1000)
    learnt = profile(spec, device=SimulatedDevice())
    started = time.process_time()
    found = estimate(spec, learnt)
    json.dumps(estimate_json(found))
    estimate_table(found)
    assert time.process_time() - started < 5  # it was 100 and more
    assert len(found.blocks) == 1000
    assert found.energy_j == pytest.approx(SimulatedDevice().true_energy_j(spec.blocks), rel=0.02)


def _nets(fit: JointFit) -> Iterator[tuple[list[int], list[np.ndarray]]]:
    whole = next(o.blocks for o in fit.observations if len(o.blocks) > 1)
    for times in (1, 3):
        blocks = [*whole[:1], *whole[1:-1] * times, *whole[-1:]]
        yield [kind for kind, _ in blocks], [np.array([point], dtype=float) for _, point in blocks]


def test_alone_and_among_many_networks_a_prediction_is_the_same(fit: JointFit) -> None:
    for kinds, points in _nets(fit):
        one, two = (fit.predict(kinds, [np.repeat(at, count, 0) for at in points]) for count in (1, 2))
        for name in ("time_s", "energy_j", "block_energy_j", "block_time_s", "expected_j"):
            assert getattr(two, name)[1] == pytest.approx(getattr(one, name)[0], rel=1e-9)
        for name in ("time_var", "energy_var", "joint_var"):
            assert getattr(two, name)[1] == pytest.approx(getattr(one, name)[0], rel=1e-6)


def test_what_is_grouped_agrees_with_the_posterior_of_rows(fit: JointFit) -> None:
    """Another road to the same variances, which knows nothing of groups."""
    for kinds, points in _nets(fit):
        net = tuple((kind, tuple(map(int, at[0]))) for kind, at in zip(kinds, points, strict=True))
        both, found = fit.log_covariance([net]), fit.predict(kinds, points)
        assert found.time_var[0] == pytest.approx(both[0, 0], rel=1e-3)
        assert found.energy_var[0] == pytest.approx(both[1, 1], rel=1e-3)
        assert found.joint_var[0] == pytest.approx(both[0, 1], rel=1e-3)
