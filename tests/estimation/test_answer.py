from __future__ import annotations

import math
from dataclasses import replace

import pytest

import ampere_energy
from ampere_energy.errors import CoverageError
from ampere_energy.estimation.another_card import on_another_card
from ampere_energy.estimation.answer import covering, usable
from ampere_energy.estimation.estimate import estimate
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Training
from ampere_energy.profiles.bundles.catalogue import entries, load_bundled

H200, NAME = "nvidia-h200", "cnn5-512x3x64x64-eager-aligned"


@pytest.fixture(scope="module")
def spec() -> ModelSpec:
    about = entries(H200)[NAME]
    return parse_ref(model_ref("cnn5", widths=(16, 32, 48, 64), input=about.input, training=about.training))


def test_a_bundle_answers_from_python_as_on_the_command_line(spec: ModelSpec) -> None:
    profiled, found = estimate(spec, load_bundled(H200, NAME)), ampere_energy.estimate(spec, H200)
    assert found == on_another_card(profiled) == ampere_energy.estimate(spec, f"{H200}/{NAME}")
    assert found == ampere_energy.estimate(spec, ampere_energy.load(f"{H200}/{NAME}")), "however it is named"
    assert found.energy_j == profiled.energy_j
    assert found.interval_j[1] > profiled.interval_j[1]


def test_of_profiles_that_cover_a_model_one_of_aligned_widths_answers(spec: ModelSpec) -> None:
    assert covering(H200, spec) is load_bundled(H200, NAME)


def test_what_no_profile_of_a_bundle_covers_is_an_error_with_the_next_step() -> None:
    other = parse_ref(model_ref("cnn5", input=(7, 3, 32, 32), training=Training(7)))
    with pytest.raises(CoverageError, match=r"nothing in nvidia-h200 covers cnn5.* at batch 7") as error:
        ampere_energy.estimate(other, H200)
    assert "ampere profiles" in error.value.remedy


def test_an_estimate_of_no_joules_is_refused(spec: ModelSpec) -> None:
    with pytest.raises(CoverageError, match="which no training takes"):
        usable(replace(estimate(spec, load_bundled(H200, NAME)), energy_j=-1.0), another_card=False)
    assert math.isfinite(usable(estimate(spec, load_bundled(H200, NAME)), another_card=False).energy_j)
