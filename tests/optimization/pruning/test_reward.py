from __future__ import annotations

from dataclasses import replace

import pytest

import ampere_energy
from ampere_energy.cost_model.host_overhead import Host
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode
from ampere_energy.model.widths import WidthRange
from ampere_energy.optimization.pruning.channels import channels_of
from ampere_energy.optimization.pruning.reward import reward
from ampere_energy.profiles.profile import Profile
from ampere_energy.reporting.pruning import reward_words

pytestmark = pytest.mark.usefixtures("one_thread")


def profiled(batch: int) -> Profile:
    ref = model_ref("cnn5", widths=(16, 32, 64, 64), input=(batch, 1, 28, 28))
    ranges = [WidthRange(8, width, 8) for width in ref.widths]
    return ampere_energy.profile(parse_ref(ref), device=SimulatedDevice(), ranges=ranges)


@pytest.fixture(scope="module")
def small() -> Profile:
    return profiled(4)


def waiting(profile: Profile, host_s: float) -> Profile:
    """The profile of a device whose host takes as long to issue a step."""
    assert profile.nets is not None
    structures = tuple((subject.structure, 0.0) for subject in profile.nets.subjects)
    host = Host(host_s, tuple(dict(structures).items()), 0.01, 0.0)
    return replace(profile, nets=replace(profile.nets, host=host, idle_w=20.0))


def test_what_halving_saves_is_what_it_saves(small: Profile) -> None:
    ref = model_ref("cnn5", widths=(16, 32, 64, 64), input=(4, 1, 28, 28))
    space, device = channels_of(ref, None, small), SimulatedDevice()
    found = reward(space, small, 8)
    full, half = (device.true_energy_j(parse_ref(replace(ref, widths=w)).blocks) for w in (ref.widths, (8, 16, 32, 32)))
    assert found.here.saves == pytest.approx(1 - half / full, abs=0.02)
    assert not found.here.host_bound
    assert found.others == ()
    assert [name for name, _ in found.widths] == ["conv1", "conv2", "conv3", "conv4"]
    assert all(0 < saves < found.here.saves for _, saves in found.widths)


def test_a_host_that_rules_is_said_and_what_a_graph_would_save(small: Profile) -> None:
    ref = model_ref("cnn5", widths=(16, 32, 64, 64), input=(4, 1, 28, 28))
    plain = reward(channels_of(ref, None, small), small, 8).here
    slow = waiting(small, host_s=10 * plain.time_s)
    found = reward(channels_of(ref, None, slow), slow, 8)
    assert found.here.host_bound
    assert found.here.busy == pytest.approx(0.1, rel=0.05)
    assert found.here.saves < 0.5 * plain.saves
    [graph] = found.others
    assert (graph.inferred, graph.training.mode) == (True, Mode.GRAPH)
    assert graph.energy_j == pytest.approx(plain.energy_j, rel=0.01)
    assert graph.saves == pytest.approx(plain.saves, abs=0.01)
    words = " / ".join(reward_words(found))
    for text in ("here, at batch 4 with sgd in eager mode", "host-bound: the device works 10", "as with --mode graph"):
        assert text in words


def test_other_batches_are_compared_by_sample(small: Profile) -> None:
    ref = model_ref("cnn5", widths=(16, 32, 64, 64), input=(4, 1, 28, 28))
    large = profiled(256)
    found = reward(channels_of(ref, None, small), small, 8, [large, small])
    [other] = found.others
    assert other.training.batch == 256
    assert other.saves > found.here.saves
    assert other.sample_j < found.here.sample_j
    assert any("at batch 256 with sgd in eager mode it saves" in line for line in reward_words(found))
