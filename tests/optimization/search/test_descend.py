from __future__ import annotations

import math

import numpy as np
import pytest

from ampere_energy.errors import RequestError
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.structures import Axis
from ampere_energy.model.widths import WidthRange
from ampere_energy.optimization.search.descend import descend
from ampere_energy.optimization.search.search import proxy
from ampere_energy.optimization.search.space import Space, space_of
from ampere_energy.profiles.bundles.catalogue import load_bundled
from ampere_energy.profiles.profile import Profile


@pytest.fixture(scope="module")
def card() -> Space:
    """4,096 networks of cnn5 on a recorded card."""
    learnt = load_bundled("nvidia-h200", "cnn5-128x3x64x64-graph")
    ranges = [WidthRange(n, 8 * n, n) for n in (8, 16, 32, 32)]
    return space_of("cnn5", [learnt], ranges=ranges, example=model_ref("cnn5", input=(1, 3, 64, 64)))


@pytest.mark.thorough
def test_paths_may_end_on_a_bound() -> None:
    """exp(log 8) is a little less than 8, which a profile of widths from 8 on does not cover."""
    learnt = load_bundled("nvidia-h200", "cnn5-128x3x64x64-graph-aligned")
    ranges = [WidthRange(8, 8 * n, 8) for n in (2, 4, 4, 4)]
    space = space_of("cnn5", [learnt], ranges=ranges, example=model_ref("cnn5", input=(1, 3, 64, 64)))
    smallest = float(space.estimate([next(iter(space.networks()))]).energy_j[0])
    assert descend(space, budget_j=1.01 * smallest).member.energy_j <= 1.01 * smallest


def test_it_finds_nearly_the_best_of_all_members(card: Space) -> None:
    refs, parameters = list(card.networks()), proxy(card, "params")
    energies, scores = card.estimate(refs).energy_j, np.array([parameters(ref) for ref in refs])
    ended = descend(card, budget_j=1.0)
    found, place = ended.member, refs.index(ended.member.ref)
    assert found.energy_j <= 1.0
    assert found.score >= 0.97 * scores[energies <= 1.0].max()
    assert (found.score, found.energy_j) == pytest.approx((scores[place], energies[place]))
    assert ended.continuous_j == pytest.approx(1.0, rel=0.25)
    assert len(ended.continuous) == 4
    assert ended.scored < card.size
    cheap = descend(card, at_least=6e5).member
    assert cheap.score >= 6e5
    assert cheap.energy_j <= 1.03 * energies[scores >= 6e5].min()


def test_every_setting_and_number_of_layers_is_tried(small: Profile, large: Profile, layered: Profile) -> None:
    both = space_of("lenet5", [small, large])
    most_j = both.estimate([both.ref(both.settings[t].ref.widths, t) for t in both.settings]).energy_j
    found = descend(both, budget_j=float(most_j.mean())).member
    assert found.ref.training == list(both.settings)[int(np.argmin(most_j))]
    layers = space_of("transformer", [layered], ranges=[WidthRange(1, 2), WidthRange(64, 512, 64)])
    told: list[tuple[int, int]] = []
    deep = descend(layers, _deep, budget_j=1e9, observe=lambda *now: told.append(now)).member
    assert deep.ref.widths == (2, 512)
    assert told == [(1, 2), (2, 2)]


def _deep(ref: ModelRef) -> float:
    return 1000.0 * ref.widths[0] + ref.widths[1]


def test_limits_that_cannot_be_met_say_how_near_one_comes(small: Profile) -> None:
    space = space_of("lenet5", [small])
    least_j = float(space.estimate([space.ref((1, 1, 1, 1))]).energy_j[0])
    with pytest.raises(RequestError, match=r"no network was found within .* costs 0\.\d+ J; give a larger budget"):
        descend(space, budget_j=least_j / 2)
    with pytest.raises(RequestError, match="the best, of widths 6,16,120,84, has 61706"):
        descend(space, at_least=1e6)
    for limits in ({}, {"budget_j": 1.0, "at_least": 1.0}):
        with pytest.raises(RequestError, match="needs one limit"):
            descend(space, **limits)
    with pytest.raises(RequestError, match=r"<lambda> gave nan for lenet5\["):
        descend(space, lambda ref: math.nan, budget_j=1.0)
    with pytest.raises(RequestError, match="a budget of -1 J"):
        descend(space, budget_j=-1.0)


def test_arguments_of_a_factory_are_descended_in_every_structure(
    factory: str, varied: Profile, axes: tuple[Axis, ...]
) -> None:
    space = space_of(factory, [varied], axes=axes)
    refs, parameters = list(space.networks()), proxy(space, "params")
    energies, scores = space.estimate(refs).energy_j, np.array([parameters(ref) for ref in refs])
    budget_j = float(np.median(energies))
    ended = descend(space, budget_j=budget_j)
    assert ended.member.energy_j <= budget_j
    assert ended.member.score >= 0.97 * scores[energies <= budget_j].max()
    assert ended.member.ref.names == ("depth", "kernel", "width", "hidden")
    assert len(ended.continuous) == 2, "width and hidden"
    # What `hidden` adds is less than the noise, which differs with the folder that the factory lies in.
    with pytest.raises(RequestError, match=r"the cheapest found, with depth=1,kernel=3,width=8,hidden=\d+, costs"):
        descend(space, budget_j=1e-9)


def test_values_between_which_there_is_no_even_step_have_no_gradient(factory: str, varied: Profile) -> None:
    uneven = space_of(factory, [varied], axes=[Axis("width", (8, 16, 32)), Axis("hidden", (8,))])
    with pytest.raises(RequestError, match="width=8,16,32 along gradients; give evenly spaced values"):
        descend(uneven, budget_j=1.0)
    depths = space_of(factory, [varied], axes=[Axis("depth", (1, 2, 4))])
    assert descend(depths, budget_j=1e9).member.ref.widths == (4,)
