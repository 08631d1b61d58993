from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ampere_energy.campaign.additions import add
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.host_overhead import Host
from ampere_energy.cost_model.traits import Traits, traits_of
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.estimation.approximate import Parts, covariance_of_sums
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import REPORT
from ampere_energy.measurement.records import Provenance
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.training import Optimizer, Training
from ampere_energy.model.variants import Variant
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile, load
from benchmarks.results import RESULTS
from benchmarks.specs import spec_of
from benchmarks.studies import unseen_kinds as study

DEVICE = SimulatedDevice(0.01)


@pytest.fixture(scope="module")
def known() -> Profile:
    return profile(spec_of("cnn5"), device=DEVICE)


@pytest.fixture(scope="module")
def other() -> ModelSpec:
    return spec_of("lenet5")


def reach(found: Estimate) -> float:
    return found.interval_j[1] / found.energy_j


def test_an_unknown_model_is_approximated_and_says_so(known: Profile, other: ModelSpec) -> None:
    found = estimate(other, known, iterations=100, approximate=True)
    assert found.approximate == ("conv1", "conv2", "fc1", "fc2")
    assert [block.approximate for block in found.blocks] == [True, True, True, True, False]
    assert found.provenance is Provenance.PREDICTED
    true_j = 100 * DEVICE.true_energy_j(other.blocks)
    assert found.interval_j[0] < true_j < found.interval_j[1]
    assert 1.3 < reach(found) < 4
    assert sum(b.energy_j for b in found.blocks) + found.other_j == pytest.approx(found.energy_j)
    assert found.time_s == pytest.approx(100 * DEVICE.true_time_s(other.blocks), rel=1.0)


def test_without_being_asked_it_is_an_error(known: Profile, other: ModelSpec) -> None:
    with pytest.raises(CoverageError, match=r"lacks conv1 \(conv2d 5 .*, conv2 \(.*, fc1 \(.*, fc2"):
        estimate(other, known)


def test_what_is_covered_is_predicted_as_always(known: Profile) -> None:
    spec = spec_of("cnn5", (16, 32, 64, 64))
    assert estimate(spec, known, approximate=True) == estimate(spec, known)
    assert estimate(spec, known).approximate == ()


def mixed(known: Profile, unknown: int) -> ModelSpec:
    """Blocks of `cnn5`, some of which the profile does not know."""
    spec, strange = spec_of("cnn5", (16, 32, 64, 64)), spec_of("lenet5")
    return replace(spec, blocks=(*spec.blocks, *strange.blocks[:unknown]), widths=(), follows=())


def test_known_blocks_keep_their_energy_and_the_interval_grows_with_the_unknown_part(known: Profile) -> None:
    sure, about, more = (estimate(mixed(known, n), known, approximate=True) for n in (0, 1, 4))
    for one, same in zip(sure.blocks, about.blocks, strict=False):
        assert same.energy_j == pytest.approx(one.energy_j, rel=0.05)
        assert same.std_j / same.energy_j == pytest.approx(one.std_j / one.energy_j, rel=0.01)
    assert reach(sure) < reach(about) < reach(more)


def test_all_numbers_scale_with_iterations(known: Profile, other: ModelSpec) -> None:
    one, many = (estimate(other, known, iterations=n, approximate=True) for n in (1, 700))
    assert many.energy_j == pytest.approx(700 * one.energy_j)
    assert many.interval_j == pytest.approx(tuple(700 * end for end in one.interval_j))
    assert many.blocks[0].std_j == pytest.approx(700 * one.blocks[0].std_j)


def test_widths_beyond_the_profile_use_what_is_known_of_the_kind() -> None:
    ranges = [WidthRange(1, high // 2) for high in (64, 128, 256, 256)]
    small = profile(spec_of("cnn5"), device=DEVICE, ranges=ranges)
    spec = spec_of("cnn5", (48, 100, 200, 200))
    with pytest.raises(CoverageError, match="block conv1 has widths 48, the profile covers out 1–32"):
        estimate(spec, small)
    found = estimate(spec, small, approximate=True)
    assert found.approximate == ("conv1", "conv2", "conv3", "conv4", "fc")
    assert found.energy_j == pytest.approx(DEVICE.true_energy_j(spec.blocks), rel=0.2)
    strange = estimate(replace(spec_of("lenet5"), name="other"), small, approximate=True)
    assert reach(found) < reach(strange)


def test_many_lacking_blocks_are_counted(known: Profile, other: ModelSpec) -> None:
    block = other.blocks[0]
    many = replace(other, blocks=tuple(replace(block, name=f"layer{i}") for i in range(9)), widths=(), follows=())
    with pytest.raises(
        CoverageError, match=r"layer4 \(.*, layer5 \([^,]* and 3 more; the nearest to block layer0 that"
    ) as caught:
        estimate(many, known)
    assert "layer6" not in str(caught.value)


def test_other_training_settings_are_not_bridged(known: Profile, other: ModelSpec) -> None:
    with pytest.raises(CoverageError, match="made with --optimizer sgd, you asked for adam"):
        estimate(replace(other, training=Training(10, Optimizer.ADAM)), known, approximate=True)


def test_profiles_without_references_cannot_approximate(known: Profile, other: ModelSpec) -> None:
    with pytest.raises(RequestError, match="before traits of blocks were kept"):
        estimate(other, replace(known, references=()), approximate=True)
    paper = profile(spec_of("lenet5"), device=DEVICE, method="paper")
    with pytest.raises(RequestError, match="by the method paper; profile with --method ampere"):
        estimate(spec_of("cnn5"), paper, approximate=True)


def test_what_is_measured_later_counts_too(known: Profile, other: ModelSpec, tmp_path: Path) -> None:
    spec = spec_of("cnn5", (16, 32, 64, 64))
    slower = replace(DEVICE.measure(Variant(spec.blocks), REPORT))
    slower = replace(slower, windows=tuple(replace(w, energy_j=1.2 * w.energy_j) for w in slower.windows))
    taught = add(known, spec.blocks, slower)
    assert taught.references == known.references
    taught.save(tmp_path / "p.json")
    again = load(tmp_path / "p.json")
    before, after = (estimate(other, p, approximate=True) for p in (known, again))
    assert after.energy_j != before.energy_j
    assert estimate(other, taught, approximate=True).energy_j == pytest.approx(after.energy_j)


def eager(known: Profile, host: Host) -> Profile:
    assert known.nets is not None
    return replace(known, nets=replace(known.nets, host=host, idle_w=10.0))


def test_the_host_time_of_unknown_structures_is_approximated(known: Profile, other: ModelSpec) -> None:
    """Every call takes the host 10 µs, far more than the device needs: steps take as long as they take to issue."""
    assert known.nets is not None
    calls = {known.nets.subjects[r.subject].structure: r.traits.calls for r in known.references}
    host = Host(1e-4, tuple((name, 1e-5 * (45 + n)) for name, n in calls.items()), 0.02, 0.0)
    found = estimate(other, eager(known, host), approximate=True)
    structures = {block.kind.structure for block in other.blocks} - calls.keys()
    assert structures  # some are unknown
    issued = 1e-4 + sum(1e-5 * (45 + traits_of(b.kind, b.point).calls) for b in other.blocks)
    assert found.time_s == pytest.approx(issued, rel=0.25)
    assert found.busy < 0.5
    alone = estimate(other, known, approximate=True)
    assert found.energy_j == pytest.approx(alone.energy_j + 10 * (found.time_s - found.busy * found.time_s), rel=0.01)
    assert found.other_j > 0.3 * found.energy_j


def test_a_host_that_is_quick_changes_nothing(known: Profile, other: ModelSpec) -> None:
    assert known.nets is not None
    quick = Host(0.0, tuple((subject.structure, 1e-9) for subject in known.nets.subjects), 0.02, 0.0)
    found, alone = (estimate(other, p, approximate=True) for p in (eager(known, quick), known))
    assert found.energy_j == pytest.approx(alone.energy_j, rel=1e-6)
    assert found.interval_j == pytest.approx(alone.interval_j, rel=1e-6)
    assert found.busy == pytest.approx(1.0)


def test_absurd_references_still_give_finite_numbers(known: Profile, other: ModelSpec) -> None:
    absurd = replace(known.references[0], traits=Traits("conv2d", 1e12, 1e24, 1e24, 1e24))
    found = estimate(other, replace(known, references=(absurd,)), approximate=True)
    assert all(map(math.isfinite, (*found.interval_j, found.time_s)))


def test_sums_of_log_normal_parts() -> None:
    draw = np.random.default_rng(0)
    covariance = np.array([[0.09, 0.06, 0.0], [0.06, 0.16, 0.02], [0.0, 0.02, 0.04]])
    medians = np.array([1.0, 2.0, 4.0])
    parts = Parts(medians * np.exp(np.diagonal(covariance) / 2), covariance)
    samples = np.log(medians) + draw.multivariate_normal(np.zeros(3), covariance, size=200_000)
    sums = np.log(np.exp(samples).sum(1))
    assert math.log(parts.median) == pytest.approx(np.median(sums), abs=0.01)
    assert parts.variance == pytest.approx(sums.var(), rel=0.05)
    single = Parts(parts.expected[:1], covariance[:1, :1])
    joint = covariance_of_sums(single, parts, covariance[:1])
    assert joint == pytest.approx(np.cov(samples[:, 0], sums)[0, 1], rel=0.05)


def test_intervals_hold_for_models_from_other_models() -> None:
    """The study in small, on the simulator and on recorded blocks."""
    chosen = ("lenet5", "cnn5", "resnet18", "vit", "transformer", "mobilenet_v2", "har", "gru")
    found = study.simulated(study.specs(chosen), worlds=1)
    assert found["trials"] == 56
    assert 0.85 <= found["coverage"] <= 1.0
    assert found["median error"] < 0.5
    timed = study.timed()
    assert 0.8 <= timed["coverage"] <= 0.97
    assert timed["median error"] < 0.4


def test_the_committed_study_holds() -> None:
    result = json.loads(RESULTS.read_text())["approximate"]["result"]
    assert result["simulated"]["trials"] >= 3000
    for found in (result["simulated"], result["timed"], *result["whole"].values(), result["recorded"]["models"]):
        assert 0.8 <= found["coverage"] <= 0.97
        assert found["median error"] < 0.4
    for found in (result["beyond"], result["recorded"]["blocks"], *result["recorded"]["beyond"].values()):
        assert found["coverage"] >= 0.8


def test_a_single_unknown_block(known: Profile, other: ModelSpec) -> None:
    block = Block("alone", other.blocks[1].kind, other.blocks[1].point)
    found = estimate(ModelSpec("one", (block,), other.training), known, approximate=True)
    low, high = found.interval_j
    assert low < DEVICE.true_energy_j([block]) < high
    assert found.blocks[0].std_j / found.blocks[0].energy_j == pytest.approx(found.std_j / found.energy_j, rel=0.05)
