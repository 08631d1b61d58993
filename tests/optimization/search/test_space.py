from __future__ import annotations

from dataclasses import replace

import numpy as np
import optuna
import pytest

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.errors import CoverageError, RequestError, WidthError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.structures import Axis
from ampere_energy.model.widths import WidthRange
from ampere_energy.optimization.search.space import space_of
from ampere_energy.profiles.profile import Profile


def test_a_members_cost_is_its_estimate_for_the_samples(small: Profile, large: Profile) -> None:
    space = space_of("lenet5", [small, large], samples=960)
    refs = [space.ref((3, 8, 60, 40), large.training), space.ref((6, 16, 120, 84)), space.ref((1, 1, 1, 1))]
    found = space.estimate(refs)
    for place, (ref, learnt) in enumerate(zip(refs, (large, small, small), strict=True)):
        one = estimate(parse_ref(ref), learnt, iterations=960 // learnt.training.batch)
        assert found.energy_j[place] == pytest.approx(one.energy_j)
        assert (found.low_j[place], found.high_j[place]) == pytest.approx(one.interval_j)
        assert found.time_s[place] == pytest.approx(one.time_s)


def test_costs_are_of_a_step_of_the_largest_batch(small: Profile, large: Profile) -> None:
    assert space_of("lenet5", [small]).samples == 10
    assert space_of("lenet5", [small, large]).samples == 32


def test_a_space_is_what_all_profiles_cover(small: Profile) -> None:
    space = space_of("lenet5", [small], step=4)
    assert [str(r) for r in space.ranges] == ["4–4", "4–16 step 4", "4–120 step 4", "4–84 step 4"]
    assert space.size == 1 * 4 * 30 * 21 == len({ref.widths for ref in space.networks()})
    assert space.names == ("width1", "width2", "width3", "width4")


def test_layers_are_part_of_a_space(layered: Profile) -> None:
    space = space_of("transformer", [layered], ranges=[WidthRange(1, 3, 2), WidthRange(64, 512, 64)])
    assert space.names == ("layers1", "width2")
    found = space.estimate([space.ref((layers, 256)) for layers in (1, 3)])
    alone = [estimate(parse_ref(space.ref((layers, 256))), layered).energy_j for layers in (1, 3)]
    assert found.energy_j == pytest.approx(alone)
    assert (np.diff(found.energy_j) > 0).all()


def test_what_cannot_be_searched_is_refused(small: Profile, axes: tuple[Axis, ...]) -> None:
    with pytest.raises(CoverageError, match="lacks conv1"):
        space_of("cnn5", [small])
    with pytest.raises(RequestError, match="two profiles at batch 10 with sgd"):
        space_of("lenet5", [small, small])
    with pytest.raises(WidthError, match="width 1 of lenet5 is 8"):
        space_of("lenet5", [small], ranges=[WidthRange(1, 8), *(WidthRange(1, n) for n in (16, 120, 84))])
    with pytest.raises(RequestError, match="a search without a profile"):
        space_of("lenet5", [])
    with pytest.raises(RequestError, match="costs of 0 samples"):
        space_of("lenet5", [small], samples=0)
    with pytest.raises(RequestError, match="give their ranges"):
        space_of("file.py:net", [small])
    with pytest.raises(RequestError, match="axes beside lenet5; give axes of a factory"):
        space_of("lenet5", [small], axes=axes)
    with pytest.raises(RequestError, match="axes beside ranges"):
        space_of("file.py:net", [small], axes=axes, ranges=[WidthRange(1, 8)])


def test_a_narrow_profile_narrows_the_space() -> None:
    narrow = [WidthRange(1, n) for n in (4, 8, 50, 40)]
    ref = model_ref("lenet5")
    rules = Rules(points=4, precision=0.2)
    learnt = profile(parse_ref(ref), device=SimulatedDevice(), ranges=narrow, rules=rules, ref=ref)
    assert list(space_of("lenet5", [learnt]).ranges) == narrow
    with pytest.raises(CoverageError, match="block conv1 has widths 6, the profile covers out 1–4"):
        space_of("lenet5", [learnt], ranges=[WidthRange(1, n) for n in (6, 8, 50, 40)])


def test_a_factorys_arguments_are_called_by_their_names_and_those_of_structures_come_first(
    factory: str, varied: Profile, axes: tuple[Axis, ...]
) -> None:
    space = space_of(factory, [varied], axes=axes)
    assert (space.names, space.counts, space.samples) == (("depth", "kernel", "width", "hidden"), 2, 4)
    assert space.size == 3 * 2 * 4 * 4 == len(set(space.networks()))
    assert [ref.arguments for ref in space.ends()] == [
        "depth=1,kernel=3,width=8,hidden=4",
        "depth=4,kernel=5,width=32,hidden=16",
    ]
    assert space.params(space.ends()[0]) == {"depth": 1, "kernel": 3, "width": 8, "hidden": 4}
    refs = space.sample(4, seed=1)
    found = space.estimate(refs)
    for place, ref in enumerate(refs):
        spec = parse_ref(ref)
        assert space.points(ref) == [(block.kind, block.point) for block in spec.blocks]
        assert replace(space.spec(ref), recorded=None) == spec
        assert found.energy_j[place] == pytest.approx(estimate(spec, varied).energy_j)


def test_members_are_drawn_by_seed_and_each_once(factory: str, varied: Profile, axes: tuple[Axis, ...]) -> None:
    space = space_of(factory, [varied], axes=[axes[0], axes[3], Axis("hidden", (8,))])
    assert len(set(space.sample(8, seed=3))) == 8 == space.size
    assert space.sample(5, seed=3) == space.sample(5, seed=3) != space.sample(5, seed=4)
    with pytest.raises(RequestError, match=r"9 networks asked of .*, which has 8; ask for fewer"):
        space.sample(9, seed=3)


def test_values_that_are_not_evenly_spaced_are_the_only_ones_suggested(factory: str, varied: Profile) -> None:
    values = {"width": (8, 16, 32), "depth": (1, 2, 4), "hidden": (8,)}
    space = space_of(factory, [varied], axes=[Axis(*one) for one in values.items()])
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    chosen = {space.suggest(study.ask()).widths for _ in range(60)}
    assert chosen == {ref.widths for ref in space.networks()}


def test_arguments_may_make_structures_alone(factory: str, varied: Profile) -> None:
    space = space_of(factory, [varied], axes=[Axis("depth", (1, 3)), Axis("kernel", (3, 5))])
    assert space.counts == 2
    refs = list(space.networks())
    alone = [estimate(parse_ref(ref), varied).energy_j for ref in refs]
    assert space.estimate(refs).energy_j == pytest.approx(alone)
    with pytest.raises(CoverageError, match="conv2d 7"):
        space_of(factory, [varied], axes=[Axis("kernel", (3, 7))])
    with pytest.raises(CoverageError, match="40"):
        space_of(factory, [varied], axes=[Axis("width", (8, 40)), Axis("hidden", (8,))])
