from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.errors import CoverageError
from ampere_energy.estimation.another_batch import FARTHEST
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.nearest import ALIKE, KNOWN, Candidate, covered, nearest, read_there
from ampere_energy.estimation.result import Origin
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode, Optimizer, Training
from ampere_energy.profiles.profile import Profile

RULES = Rules(points=6, precision=1e-6)


def ref(batch: int, family: str = "lenet5", channels: int = 1) -> ModelRef:
    return model_ref(family, input=(batch, channels, 28, 28))


def spec(batch: int, family: str = "lenet5") -> ModelSpec:
    return parse_ref(ref(batch, family))


@pytest.fixture(scope="module")
def at_64() -> Profile:
    return profile(spec(64), device=SimulatedDevice(0.01), rules=RULES)


@pytest.fixture(scope="module")
def at_8() -> Profile:
    return profile(spec(8), device=SimulatedDevice(0.01), rules=RULES)


@pytest.fixture(scope="module")
def cnn5_at_32() -> Profile:
    return profile(spec(32, "cnn5"), device=SimulatedDevice(0.01), rules=RULES)


def candidate(name: str, learnt: Profile, asked: ModelSpec, family: str = "lenet5") -> Candidate:
    batch = learnt.training.batch
    return Candidate(name, lambda: learnt, None if batch == asked.training.batch else spec(batch, family))


def test_who_knows_the_model_is_nearer_than_who_has_its_batch(at_64: Profile, cnn5_at_32: Profile) -> None:
    asked = spec(32)
    far, guesses = candidate("far", at_64, asked), candidate("guesses", cnn5_at_32, asked)
    best = nearest(asked, [guesses, far])
    assert best is not None
    assert best.name == "far"


def test_of_two_that_know_it_the_nearer_batch(at_64: Profile, at_8: Profile) -> None:
    for batch, name in ((48, "64"), (10, "8")):
        asked = spec(batch)
        both = [candidate("8", at_8, asked), candidate("64", at_64, asked)]
        for order in (both, both[::-1]):
            best = nearest(asked, order)
            assert best is not None
            assert best.name == name


def test_of_those_alike_the_first(at_64: Profile) -> None:
    asked = spec(64)
    best = nearest(asked, [candidate(name, at_64, asked) for name in ("one", "two")])
    assert best is not None
    assert best.name == "one"


def test_what_can_only_guess_is_not_read_where_another_knows(at_64: Profile, cnn5_at_32: Profile) -> None:
    asked, read = spec(32), []

    def load() -> Profile:
        read.append("read")
        return cnn5_at_32

    knows, blind = candidate("knows", at_64, asked), Candidate("blind", load, blind=True)
    best = nearest(asked, [knows, blind])
    assert best is not None
    assert best.name == "knows"
    assert not read
    alone = nearest(asked, [blind])
    assert alone is not None
    assert alone.name == "blind"
    assert estimate(asked, cnn5_at_32, approximate=True).std_j > KNOWN * estimate(asked, at_64, there=spec(64)).std_j


def test_other_settings_and_methods_are_no_candidates(at_64: Profile) -> None:
    other = replace(spec(64), training=Training(64, Optimizer.ADAM))
    assert nearest(other, [Candidate("sgd", lambda: at_64)]) is None
    assert nearest(other, []) is None
    with pytest.raises(CoverageError, match="with --optimizer sgd, you asked for adam"):
        estimate(other, at_64, approximate=True, there=spec(64))


def test_a_profile_of_aligned_widths_is_not_sure_of_those_between() -> None:
    family = FAMILIES["lenet5"].aligned(4)
    aligned = profile(
        replace(spec(8), name="lenet5"), device=SimulatedDevice(0.01), ranges=family.ranges, rules=RULES, ref=ref(8)
    )
    assert aligned.nets is not None
    even, odd = (
        parse_ref(model_ref("lenet5", widths=widths, input=(8, 1, 28, 28)))
        for widths in ((4, 8, 60, 40), (4, 10, 60, 40))
    )
    assert all(covered(block, aligned.nets) for block in even.blocks)
    assert not all(covered(block, aligned.nets) for block in odd.blocks)


def test_a_model_is_read_at_the_profiles_batch_where_that_can_be_bridged() -> None:
    asked, read = spec(32), parse_ref
    found = read_there(ref(32), asked, Training(64), read)
    assert found is not None
    assert found.training == Training(64)
    for other in (Training(32), Training(32 * FARTHEST + 32), Training(64, mode=Mode.GRAPH)):
        assert read_there(ref(32), asked, other, read) is None
    assert read_there(ModelRef("mine.py:mine", (), (), Training(32)), asked, Training(64), read) is None


@pytest.fixture
def mixed() -> Callable[[int], ModelSpec]:
    """LeNet with a block that its profile does not know."""

    def at(batch: int) -> ModelSpec:
        whole, strange = spec(batch), spec(batch, "cnn5").blocks[1]
        return replace(whole, blocks=(*whole.blocks, replace(strange, name="strange")), widths=(), follows=())

    return at


def test_guessing_and_scaling_go_together(at_64: Profile, mixed: Callable[[int], ModelSpec]) -> None:
    device = SimulatedDevice()
    sure, guessed = estimate(spec(64), at_64), estimate(mixed(64), at_64, approximate=True)
    scaled, both = (estimate(here(96), at_64, approximate=True, there=here(64)) for here in (spec, mixed))
    assert [block.origin for block in both.blocks[-2:]] == [Origin.SCALED, Origin.GUESSED]
    assert both.from_batch == 64
    assert set(guessed.origins) == {Origin.KNOWN, Origin.GUESSED}
    assert set(scaled.origins) == {Origin.SCALED}
    assert set(both.origins) == {Origin.SCALED, Origin.GUESSED}
    assert sum(both.origins.values()) + both.other_j / both.energy_j == pytest.approx(1)
    spreads = [e.std_j / e.energy_j for e in (sure, guessed, scaled, both)]
    assert spreads[0] < min(spreads[1:3]) <= max(spreads[1:3]) < spreads[3]
    low, high = both.interval_j
    assert low < device.true_energy_j(mixed(96).blocks) < high
    for same, own in zip(scaled.blocks, both.blocks, strict=False):
        assert own.energy_j / both.blocks[0].energy_j == pytest.approx(
            same.energy_j / scaled.blocks[0].energy_j, rel=0.05
        )


def test_without_its_blocks_at_the_profiles_batch_all_are_guessed(
    at_64: Profile, mixed: Callable[[int], ModelSpec]
) -> None:
    blind = estimate(spec(96), at_64, approximate=True)
    knows = estimate(spec(96), at_64, there=spec(64))
    assert set(blind.origins) == {Origin.GUESSED}
    assert blind.interval_j[0] < knows.energy_j < blind.interval_j[1]
    assert blind.std_j / blind.energy_j > knows.std_j / knows.energy_j
    other_blocks = estimate(spec(96), at_64, approximate=True, there=mixed(64))
    assert other_blocks == blind
    with pytest.raises(CoverageError, match="other blocks at batch 64"):
        estimate(spec(96), at_64, there=mixed(64))
    with pytest.raises(CoverageError, match="at batch 64, you asked for 96"):
        estimate(spec(96), at_64)


@pytest.mark.parametrize("family", ["lenet5", "cnn5"])
def test_energy_grows_with_the_batch_and_a_samples_share_of_it_does_not(at_64: Profile, family: str) -> None:
    """Known and scaled, or guessed and scaled: one profile never contradicts itself."""
    found = [
        estimate(spec(batch, family), at_64, approximate=True, there=None if batch == 64 else spec(64, family))
        for batch in (8, 32, 48, 64, 96, 256, 1024)
    ]
    for small, large in itertools.pairwise(found):
        batches = small.training.batch, large.training.batch
        assert small.energy_j < large.energy_j
        assert small.energy_j / batches[0] >= large.energy_j / batches[1] * (1 - 1e-9)
        if batches[0] >= 64:
            assert small.std_j / small.energy_j < large.std_j / large.energy_j
    assert math.isfinite(found[-1].energy_j)
    assert ALIKE < 1 + KNOWN
