"""How many measurements the guided rule takes to a given error of whole models, against chance and largest variance.

Blocks are metered, never only timed, so that every measurement is of one sort; the estimator is the same for all. The
opening, which all rules share, is what a campaign meters first where it may also time blocks: a few networks a kind.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ampere_energy.fit import guided
from ampere_energy.fit.guided import Guided
from ampere_energy.fit.rules import Rule, Rules
from ampere_energy.fit.steps import steps
from ampere_energy.measure.devices.simulated import SimulatedDevice
from ampere_energy.measure.measurement import POINT
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.variants import member
from ampere_energy.model.zoo.families import Family, family
from studies.additive import spec_of

RULES = Rules(points=10_000, precision=1e-6, timings=False)
NOISE, ROUGH = 0.01, 0.1
MOST = 108
TARGETS = {"lenet5": (0.035, 0.03, 0.025), "cnn5": (0.06, 0.05, 0.045)}
"""Mean errors to reach: from loose to what sampling by chance reaches after some 15 meterings a kind."""


@dataclass(frozen=True)
class Stand:
    """A campaign after some measurements: the mean error of members it has not seen."""

    measurements: int
    error: float


class Trial:
    """One campaign by one rule on one simulated world."""

    def __init__(self, spec: ModelSpec, chosen: Family, rule: Rule, seed: int, members: int) -> None:
        self.device = SimulatedDevice(NOISE, seed, ROUGH, world=seed + 1)
        self.campaign = opened(spec, chosen, replace(RULES, rule=rule))
        unseen = [member(spec, widths) for widths in chosen.sample(members, seed)]
        nets = [self.campaign.net(variant) for variant in unseen]
        self.truth_j = np.array([self.device.true_energy_j(variant.blocks) for variant in unseen])
        self.kinds = [kind for kind, _ in nets[0]]
        self.points = [np.array([net[b][1] for net in nets], dtype=float) for b in range(len(self.kinds))]
        self.measured = 0

    def curve(self, most: int) -> list[Stand]:
        """Where it stands after the opening and each round, up to `most` measurements."""
        found = []
        while self.measured <= most and (request := self.campaign.ask()) is not None:
            if self._at_a_round:
                found.append(Stand(self.measured, self.error()))
            self.campaign.tell(self.device.measure(request.workload, POINT))
            self.measured += 1
        return found

    @property
    def _at_a_round(self) -> bool:
        beyond = self.measured - len(self.campaign._opening)
        return beyond >= 0 and beyond % guided.ROUND == 0

    def error(self) -> float:
        """The mean error of the unseen members now."""
        found = steps(self.campaign._learn(self.measured), self.kinds, self.points)
        return float(np.mean(np.abs(found.energy_j / self.truth_j - 1)))


def opened(spec: ModelSpec, chosen: Family, rules: Rules) -> Guided:
    """A campaign without timings that opens as lightly as one with them: only what that would meter."""
    light = [r for r in Guided(spec, chosen.ranges, replace(rules, timings=True), False)._opening if r.metered]
    campaign = Guided(spec, chosen.ranges, rules, False)
    campaign._opening, campaign._essential = light, len(light)
    return campaign


def reached(curve: Sequence[Stand], target: float) -> float | None:
    """Measurements until the error first falls under the target, interpolated between rounds; None if it never does."""
    if curve[0].error < target:
        return float(curve[0].measurements)
    for before, after in itertools.pairwise(curve):
        if after.error < target:
            share = (before.error - target) / (before.error - after.error)
            return before.measurements + share * (after.measurements - before.measurements)
    return None


def measurements(curves: Sequence[Sequence[Stand]], target: float, most: int) -> dict[str, float]:
    """What a rule took to a target: the mean over seeds, and on their mean curve; `most` where it never did."""
    found = [reached(curve, target) for curve in curves]
    pooled = [
        Stand(stands[0].measurements, statistics.fmean(stand.error for stand in stands))
        for stands in zip(*curves, strict=True)
    ]
    on_mean = reached(pooled, target)
    return {
        "measurements": statistics.fmean(most if n is None else n for n in found),
        "seeds that never did": sum(n is None for n in found),
        "on the mean curve": most if on_mean is None else on_mean,
    }


def compare(name: str, seeds: int, members: int, most: int) -> dict[str, Any]:
    """All rules on one family: their mean curves, what each target took, and the guided rule's share of the others'."""
    chosen, spec = family(name), spec_of(name)
    curves = {rule: [Trial(spec, chosen, rule, seed, members).curve(most) for seed in range(seeds)] for rule in Rule}
    result: dict[str, Any] = {
        "opening": curves[Rule.GUIDED][0][0].measurements,
        "mean error": {
            rule.value: {
                str(stands[0].measurements): statistics.fmean(stand.error for stand in stands)
                for stands in zip(*found, strict=True)
            }
            for rule, found in curves.items()
        },
    }
    for target in TARGETS[name]:
        took = {rule.value: measurements(found, target, most) for rule, found in curves.items()}
        shares = {
            f"guided / {other.value}{suffix}": took["guided"][key] / took[other.value][key]
            for other in (Rule.RANDOM, Rule.VARIANCE)
            for key, suffix in (("measurements", ""), ("on the mean curve", ", on the mean curve"))
        }
        result[f"{target:.1%}"] = took | shares
    return result


def run(seeds: int, members: int, most: int = MOST) -> dict[str, Any]:
    """Both families."""
    return {name: compare(name, seeds, members, most) for name in TARGETS}
