from __future__ import annotations

import builtins
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch

import ampere_energy
from ampere_energy.campaign.rules import Rules
from ampere_energy.errors import CoverageError, ModelError, RequestError
from ampere_energy.model.load import instantiate
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef
from ampere_energy.model.structures import Axis
from ampere_energy.model.widths import WidthRange
from ampere_energy.optimization.search.front import unbeaten
from ampere_energy.optimization.search.search import Found, search
from ampere_energy.optimization.search.space import Space, space_of
from ampere_energy.profiles.profile import Profile

EXAMPLE = Path(__file__).parents[3] / "examples" / "optuna_energy.py"


@pytest.fixture(scope="module")
def space(small: Profile, large: Profile) -> Space:
    return space_of("lenet5", [small, large], step=2)


@pytest.fixture(scope="module")
def found(space: Space) -> Found:
    return search(space, trials=400)


def test_the_front_is_what_no_trial_beats(found: Found) -> None:
    values = np.array([trial.values for trial in found.study.trials]) * [-1, 1, 1]
    assert len(values) == found.trials == 400
    front = np.array([(-m.score, m.energy_j, m.time_s) for m in found.front])
    assert front == pytest.approx(values[unbeaten(values)])
    assert found.study.directions[0] == optuna.study.StudyDirection.MAXIMIZE


def test_members_of_the_front_are_what_they_are_said_to_be(found: Found) -> None:
    for member in (found.front[0], found.front[-1]):
        spec = parse_ref(member.ref)
        learnt = found.space.settings[member.ref.training].profile
        one = ampere_energy.estimate(spec, learnt)
        samples = found.space.samples / learnt.training.batch
        assert member.energy_j == pytest.approx(samples * one.energy_j)
        assert member.interval_j == pytest.approx(tuple(samples * end for end in one.interval_j))
        assert member.score == sum(block.parameters for block in spec.blocks)
        assert member.score == sum(p.numel() for p in instantiate(member.ref).parameters())


def test_flops_count_the_samples(space: Space, large: Profile) -> None:
    ref = space.ref((2, 8, 60, 40), large.training)
    assert ampere_energy.optimization.search.search.proxy(space, "flops")(ref) == sum(
        b.training_flops for b in parse_ref(ref).blocks
    )


def test_a_search_repeats_and_a_seed_changes_it(space: Space, found: Found) -> None:
    again, other = (search(space, trials=400, seed=seed) for seed in (0, 1))
    assert again.front == found.front
    assert other.front != found.front


def test_a_search_beats_chance(space: Space, found: Found) -> None:
    blind = search(space, trials=400, sampler=optuna.samplers.RandomSampler(0))
    better = sum(any(_beats(own, other) for own in found.front) for other in blind.front)
    assert better > len(blind.front) / 2


def _beats(own: Any, other: Any) -> bool:
    return own.score >= other.score and own.energy_j <= other.energy_j and own.time_s <= other.time_s


def test_a_small_space_is_tried_whole_and_a_member_scored_once(small: Profile) -> None:
    calls: list[ModelRef] = []

    def width(ref: ModelRef) -> float:
        calls.append(ref)
        return float(sum(ref.widths))

    ranges = [WidthRange(1, 2), WidthRange(4, 16, 4), WidthRange(10, 120, 110), WidthRange(84, 84)]
    tiny = space_of("lenet5", [small], ranges=ranges)
    found = search(tiny, width, trials=50)
    assert tiny.size == found.trials == found.distinct == len(calls) == len(set(calls)) == 16
    assert found.objective == "width"
    assert found.front[0].ref.widths == (2, 16, 120, 84)
    more = search(space_of("lenet5", [small], ranges=[*ranges[:3], WidthRange(1, 84)]), width, trials=40)
    assert more.trials == 40
    assert len(calls) == 16 + more.distinct


def test_a_study_is_kept_and_gone_on_with(space: Space, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'search.db'}"
    first = search(space, trials=8, storage=storage)
    second = search(space, trials=7, storage=storage)
    assert (first.trials, second.trials) == (8, 15)
    loaded = optuna.load_study(study_name="ampere", storage=storage)
    assert [t.values for t in loaded.trials[:8]] == [t.values for t in first.study.trials[:8]]
    assert loaded.metric_names == ["params", "joules", "seconds"]

    def mine(trial: optuna.Trial) -> tuple[float, float, float]:
        ref = space.suggest(trial)
        cost = space.estimate([ref])
        return 1e9, float(cost.energy_j[0]), float(cost.time_s[0])

    loaded.optimize(mine, n_trials=1)
    third = search(space, trials=1, storage=storage)
    assert third.trials == 17
    assert third.front[0].score == 1e9
    with pytest.raises(RequestError, match=r"made with other objective; give another --study"):
        search(space, "flops", trials=1, storage=storage)
    with pytest.raises(RequestError, match="--storage nowhere://x"):
        search(space, trials=1, storage="nowhere://x")


def test_a_score_that_is_no_number_fails_its_trial_only(small: Profile) -> None:
    space = space_of("lenet5", [small])
    found = search(space, lambda ref: math.nan if ref.widths[0] < 4 else ref.widths[0], name="first", trials=20)
    failed = [t for t in found.study.trials if t.state == optuna.trial.TrialState.FAIL]
    assert 0 < len(failed) == 20 - found.trials
    assert all(t.params["width1"] < 4 for t in failed)

    def broken(ref: ModelRef) -> float:
        raise KeyError("gone")

    with pytest.raises(ModelError, match=r"broken raised KeyError for lenet5\["):
        search(space, broken, trials=1)


def test_bad_requests(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestError, match="--objective accuracy; choose from params, flops"):
        search(space, "accuracy")
    with pytest.raises(RequestError, match="--trials 0"):
        search(space, trials=0)
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(RequestError, match=r"pip install ampere-energy\[search\]"):
        search(space)


def test_an_existing_study_gains_an_energy_objective(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], one_thread: None
) -> None:
    """The example, on a profile of a simulated device."""
    example = runpy.run_path(str(EXAMPLE))
    spec = ampere_energy.parse(example["net"](16, 32), (10, 1, 28, 28))
    learnt = ampere_energy.profile(spec, device="simulated", rules=Rules(points=6, precision=0.1))
    learnt.save(tmp_path / "net.json")
    monkeypatch.setattr(sys, "argv", ["optuna_energy.py", str(tmp_path / "net.json"), "6"])
    done = runpy.run_path(str(EXAMPLE), run_name="__main__")
    trials = done["study"].trials
    assert len(trials) == 6
    for trial in trials:
        member = ampere_energy.parse(example["net"](**trial.params), (10, 1, 28, 28))
        assert trial.values[1] == pytest.approx(ampere_energy.estimate(member, learnt, iterations=40).energy_j)
    assert max(trial.values[0] for trial in trials) > 0.5  # of four classes
    assert "accuracy" in capsys.readouterr().out


def test_an_energy_objective_takes_the_upper_end_or_guesses(small: Profile) -> None:
    shape = (10, 1, 28, 28)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
    with pytest.raises(CoverageError):
        ampere_energy.energy_objective(small, shape)(model)
    guess = ampere_energy.energy_objective(small, shape, approximate=True)(model)
    high = ampere_energy.energy_objective(small, shape, approximate=True, upper=True)(model)
    assert 0 < guess < high


def test_a_study_of_a_factory_calls_its_arguments_by_name_and_is_of_their_values(
    factory: str, varied: Profile, tmp_path: Path
) -> None:
    storage = f"sqlite:///{tmp_path}/search.db"
    wide, narrow = (
        space_of(factory, [varied], axes=[Axis("kernel", (3, 5)), Axis("depth", d)]) for d in ((1, 2), (1,))
    )

    def deep(ref: ModelRef) -> float:
        return float(len(instantiate(ref)))

    found = search(wide, deep, trials=10, storage=storage)
    assert [set(trial.params) for trial in found.study.trials] == [{"depth", "kernel"}] * 4
    assert {m.score for m in found.front if m.ref.widths[m.ref.names.index("depth")] == 2} == {11.0}
    with pytest.raises(RequestError, match="was made with other arguments"):
        search(narrow, deep, trials=10, storage=storage)
