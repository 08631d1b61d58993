"""The studies of calibration and of rules, in small."""

from __future__ import annotations

import json
import math
import statistics

import numpy as np
import pytest

from ampere_energy.campaign.adaptive import BATCH
from ampere_energy.campaign.rules import Rule
from ampere_energy.campaign.run import profile
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.many import estimate_many
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.families.catalogue import family
from benchmarks.results import RESULTS
from benchmarks.specs import spec_of
from benchmarks.studies import acquisition_rules, calibration, design_floor, slow_region_search
from benchmarks.studies.acquisition_rules import Stand


def test_intervals_and_probabilities_hold_over_worlds() -> None:
    found = calibration.run(worlds=24, networks=20)
    assert 0.8 < found["coverage"] < 0.98
    assert found["mean error"] < 0.06
    assert found["calibration error"] < 0.1
    assert sum(b["count"] for b in found["P(fits)"]) == found["members"] == 480
    groups = list(found["by roughness"].values())
    assert sum(g["worlds"] for g in groups) == found["worlds"] == 24
    assert groups[0]["mean error"] < groups[-1]["mean error"]


@pytest.mark.thorough
def test_searching_for_slow_widths_finds_them_in_one_world() -> None:
    found = slow_region_search.run(worlds=1, networks=200)
    assert found["with looks"]["mistaken"] < 0.3 * found["without"]["mistaken"]


def test_searching_for_slow_widths_finds_them() -> None:
    committed = json.loads(RESULTS.read_text())["looks"]["result"]
    assert committed["with looks"]["worlds"] >= 20
    assert committed["with looks"]["mistaken"] < 0.2 * committed["without"]["mistaken"]
    assert committed["with looks"]["error"] < 0.8 * committed["without"]["error"]


def test_a_study_says_p_fits_as_an_estimate_does() -> None:
    chosen, spec = family("lenet5"), spec_of("lenet5")
    device = SimulatedDevice(0.01, rough=0.1, world=1)
    learnt = profile(spec, device=device, ranges=chosen.ranges, rules=calibration.RULES)
    for widths in chosen.sample(3, 0):
        many = estimate_many(spec, learnt, np.array([widths]), level=calibration.LEVEL)
        one = estimate(spec_of("lenet5", widths), learnt)
        for factor in (0.95, 1.0, 1.1):
            budget_j = one.energy_j * factor
            told = calibration.probability_within(float(many.energy_j[0]), float(many.high_j[0]), budget_j)
            assert told == pytest.approx(one.probability_within(budget_j), abs=1e-9)


def test_worlds_differ_and_repeat() -> None:
    one, other = calibration.world(2, 3), calibration.world(4, 3)
    assert one == calibration.world(2, 3)
    assert one.noise != other.noise
    assert one.scored != other.scored
    assert all(math.isfinite(a.error) and 0 <= a.probability <= 1 for a in one.scored)


def test_a_crossing_is_interpolated() -> None:
    curve = [Stand(10, 0.08), Stand(18, 0.06), Stand(26, 0.02), Stand(34, 0.03)]
    assert acquisition_rules.reached(curve, 0.04) == pytest.approx(22)
    assert acquisition_rules.reached(curve, 0.09) == 10
    assert acquisition_rules.reached(curve, 0.01) is None


def test_shares_are_of_errors_that_chance_reaches() -> None:
    chance = [Stand(10, 0.08), Stand(26, 0.04), Stand(42, 0.05), Stand(58, 0.03)]
    better = [Stand(10, 0.08), Stand(26, 0.02), Stand(42, 0.02), Stand(58, 0.02)]
    worse = [Stand(10, 0.08), Stand(26, 0.06), Stand(42, 0.05), Stand(58, 0.04)]
    curves = {"random": chance, "guided": better, "variance": worse}
    at_four, at_three = acquisition_rules.shares(curves, 60)
    assert (at_four["error"], at_three["error"]) == (0.04, 0.03)  # 0.05 had been passed before
    assert at_four["took"] == pytest.approx({"random": 26, "guided": 10 + 16 * 2 / 3, "variance": 58}, rel=1e-6)
    assert at_three["never"] == ["variance"]
    assert at_three["guided / other"] == pytest.approx({"random": (10 + 16 * 5 / 6) / 58, "variance": 23.333333 / 60})


def test_guided_campaigns_come_nearer_with_fewer_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition_rules, "EVERY", BATCH)
    chosen, spec = family("cnn5"), spec_of("cnn5")
    first: dict[Rule, list[float]] = {}
    last: dict[Rule, list[float]] = {}
    for rule in Rule:
        for seed in range(3):
            curve = acquisition_rules.Trial(spec, chosen, rule, seed, 40).curve(60)
            first.setdefault(rule, []).append(curve[0].error)
            last.setdefault(rule, []).append(curve[-1].error)
    guided = statistics.fmean(last[Rule.GUIDED])
    assert guided < 0.07
    assert guided < 0.8 * statistics.fmean(first[Rule.GUIDED])
    for other in set(Rule) - {Rule.GUIDED}:  # three seeds tell little; the study has thirty
        assert guided < 1.3 * statistics.fmean(last[other])


def test_the_best_design_of_an_oracle_is_a_floor() -> None:
    chosen, spec = family("lenet5"), spec_of("lenet5")
    best, chance = (design_floor.curve(spec, chosen, design, 0, 20, 46) for design in ("best", "random"))
    assert best[0] == chance[0]
    assert [s.measurements for s in best] == [14, 30, 46]
    assert all(b.error < c.error for b, c in zip(best[1:], chance[1:], strict=True))
    assert best[0].error > best[1].error > best[2].error
