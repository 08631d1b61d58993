from __future__ import annotations

from dataclasses import replace

import pytest

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.estimation.another_batch import FARTHEST, bridged
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode, Optimizer, Training
from ampere_energy.profiles.profile import Profile


def spec(batch: int) -> ModelSpec:
    return parse_ref(model_ref("lenet5", input=(batch, 1, 28, 28)))


@pytest.fixture(scope="module")
def learnt() -> Profile:
    return profile(spec(64), device=SimulatedDevice(0.01), rules=Rules(points=8, precision=1e-6))


def test_only_batches_are_bridged_and_not_too_far() -> None:
    usual = Training(64)
    assert bridged(Training(16), usual)
    assert bridged(Training(64 * FARTHEST), usual)
    assert not bridged(usual, usual)
    assert not bridged(Training(64 * FARTHEST + 1), usual)
    assert not bridged(Training(1), Training(FARTHEST + 1))
    assert not bridged(Training(16, Optimizer.ADAM), usual)
    assert not bridged(Training(16, mode=Mode.GRAPH), usual)


@pytest.mark.parametrize("batch", [32, 48, 80, 512])
def test_work_is_scaled_and_parameters_are_not(learnt: Profile, batch: int) -> None:
    """The simulated device has energies of FLOPs, of parameters, and constants, which no profile tells apart."""
    here, there = spec(batch), spec(64)
    found, true_j = estimate(here, learnt, there=there), SimulatedDevice().true_energy_j(here.blocks)
    own_j = estimate(there, learnt).energy_j
    if batch < 100:  # beyond, its constants count for more than it tells
        assert found.energy_j == pytest.approx(true_j, rel=0.15)
    assert min(own_j, own_j * batch / 64) < found.energy_j < max(own_j, own_j * batch / 64)
    assert found.from_batch == 64
    assert sum(block.energy_j for block in found.blocks) == pytest.approx(found.energy_j - found.other_j)
    assert all(block.approximate for block in found.blocks)


def test_at_its_own_batch_nothing_is_scaled_and_intervals_widen_away_from_it(learnt: Profile) -> None:
    own = estimate(spec(64), learnt)
    again = estimate(spec(64), learnt, there=spec(64))
    assert again.energy_j == pytest.approx(own.energy_j)
    assert again.interval_j == pytest.approx(own.interval_j)
    spreads = [found.std_j / found.energy_j for found in (estimate(spec(b), learnt, there=spec(64)) for b in (96, 256))]
    assert own.std_j / own.energy_j < spreads[0] < spreads[1]


def test_waiting_for_the_host_is_the_same_at_any_batch(learnt: Profile) -> None:
    from ampere_energy.cost_model.host_overhead import Host

    assert learnt.nets is not None
    host = Host(1.0, tuple({s.structure: 0.0 for s in learnt.nets.subjects}.items()), 0.01, 0.0)
    waits = replace(learnt, nets=replace(learnt.nets, host=host, idle_w=10.0))
    small = estimate(spec(8), waits, there=spec(64))
    assert small.time_s == pytest.approx(1.0, rel=0.02)
    assert small.energy_j == pytest.approx(10.0, rel=0.02)


def test_what_cannot_be_scaled(learnt: Profile) -> None:
    other = parse_ref(model_ref("lstm", input=(8, 64)))
    with pytest.raises(CoverageError, match="is made of other blocks at batch 64"):
        estimate(other, learnt, there=spec(64))
    with pytest.raises(CoverageError, match="lacks"):
        estimate(other, learnt, there=parse_ref(model_ref("lstm", input=(64, 64))))
    with pytest.raises(RequestError, match="tells its own input; give --input"):
        ModelRef("mine.py:mine", (), (), Training(8)).at_batch(4)
