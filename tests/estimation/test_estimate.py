from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.per_kind import PerKind, Quantity
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.records import Provenance
from ampere_energy.model.training import Optimizer, Training
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile
from benchmarks.specs import spec_of


@pytest.fixture(scope="module")
def learnt() -> Profile:
    return profile(spec_of("lenet5"), device=SimulatedDevice(0.03), method="paper")


@pytest.fixture(scope="module")
def joint() -> Profile:
    return profile(spec_of("lenet5"), device=SimulatedDevice(0.03))


def test_blocks_sum_to_the_total(learnt: Profile) -> None:
    result = estimate(spec_of("lenet5", (3, 8, 60, 40)), learnt, iterations=1000)
    assert math.isclose(sum(b.energy_j for b in result.blocks), result.energy_j, rel_tol=1e-12)
    assert math.isclose(sum(b.time_s for b in result.blocks), result.time_s, rel_tol=1e-12)
    assert [b.name for b in result.blocks] == ["conv1", "conv2", "fc1", "fc2", "fc3"]
    assert result.power_w == pytest.approx(result.energy_j / result.time_s)
    assert (result.provenance, result.basis) == (Provenance.PREDICTED, Provenance.SIMULATED)


def test_iterations_scale_everything(learnt: Profile) -> None:
    one, many = (estimate(spec_of("lenet5"), learnt, iterations=n) for n in (1, 500))
    for name in ("energy_j", "std_j", "time_s"):
        assert getattr(many, name) == pytest.approx(500 * getattr(one, name))
    assert many.interval_j == pytest.approx(tuple(500 * end for end in one.interval_j))


def test_the_interval_comes_from_the_joint_covariance(learnt: Profile) -> None:
    spec = spec_of("lenet5", (3, 8, 60, 40))
    result = estimate(spec, learnt)
    twin = spec.blocks[2].kind
    fit = PerKind(learnt.kinds).find(twin)
    assert fit is not None
    joint = fit.process(Quantity.ENERGY).covariance(fit.unit([spec.blocks[2].point, spec.blocks[3].point]))
    assert float(joint[0, 1]) != 0
    others = sum(b.std_j**2 for i, b in enumerate(result.blocks) if i not in (2, 3))
    assert result.std_j**2 == pytest.approx(others + float(joint.sum()), rel=1e-9)


def test_the_interval_widens_with_the_level(learnt: Profile) -> None:
    narrow, wide = (estimate(spec_of("lenet5"), learnt, level=level) for level in (0.5, 0.99))
    assert wide.interval_j[0] < narrow.interval_j[0] < narrow.energy_j < narrow.interval_j[1] < wide.interval_j[1]
    reach = (wide.interval_j[1] - wide.energy_j) / wide.std_j
    assert reach == pytest.approx(2.5758, abs=1e-3)


def test_battery_share(learnt: Profile) -> None:
    result = estimate(spec_of("lenet5"), learnt, iterations=100_000)
    assert result.battery_share(15) == pytest.approx(result.energy_j / (15 * 3600))
    with pytest.raises(RequestError, match="battery"):
        result.battery_share(0)


def test_what_is_not_covered_is_named(learnt: Profile) -> None:
    with pytest.raises(CoverageError, match=r"lacks conv1 \(conv2d 3 padding 1 @1×28×28"):
        estimate(spec_of("cnn5"), learnt)
    with pytest.raises(CoverageError, match="made with --optimizer sgd, you asked for adam; ask for"):
        estimate(replace(spec_of("lenet5"), training=Training(10, Optimizer.ADAM)), learnt)
    ranges = [WidthRange(1, n) for n in (4, 8, 50, 40)]
    for method in ("paper", "ampere"):
        small = profile(spec_of("lenet5"), device=SimulatedDevice(), ranges=ranges, method=method)
        with pytest.raises(CoverageError, match="block conv1 has widths 6, the profile covers out 1–4"):
            estimate(spec_of("lenet5"), small)
        with pytest.raises(CoverageError, match="lacks conv1"):
            estimate(spec_of("cnn5"), small)
    partial = replace(learnt, complete=False, kinds=learnt.kinds[:-1])
    with pytest.raises(CoverageError, match=r"the partial profile of lenet5 lacks fc1 .*, fc2"):
        estimate(spec_of("lenet5"), partial)


def test_bad_requests(learnt: Profile) -> None:
    with pytest.raises(RequestError, match="--iterations 0"):
        estimate(spec_of("lenet5"), learnt, iterations=0)
    with pytest.raises(RequestError, match=r"--level 1\.5"):
        estimate(spec_of("lenet5"), learnt, level=1.5)


def test_a_joint_estimate_sums_up_too(joint: Profile) -> None:
    result = estimate(spec_of("lenet5", (3, 8, 60, 40)), joint, iterations=1000)
    assert math.isclose(sum(b.energy_j for b in result.blocks) + result.other_j, result.energy_j, rel_tol=1e-9)
    low, high = result.interval_j
    assert math.sqrt(low * high) == pytest.approx(result.energy_j)  # an interval of logarithms
    assert result.busy == 1.0


def test_probability_within(joint: Profile) -> None:
    result = estimate(spec_of("lenet5"), joint, iterations=10)
    assert result.probability_within(result.energy_j) == pytest.approx(0.5)
    assert result.probability_within(result.interval_j[1]) == pytest.approx(0.95, abs=1e-6)
    assert result.probability_within(result.interval_j[0]) == pytest.approx(0.05, abs=1e-6)
    with pytest.raises(RequestError, match="a budget of -1"):
        result.probability_within(-1)
