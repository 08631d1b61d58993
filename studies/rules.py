"""How many measurements the guided rule takes to a given error of whole models, against chance and largest variance.

Networks are metered, never only timed, so that every measurement is of one sort; the estimator is the same for all. The
opening, which all rules share, is what a campaign meters first where it may also time blocks: a few networks a kind.

The errors to reach are not picked: they are those that single blocks by chance reach after each round of the campaign.
All counts are read off the mean of the seeds' curves, since a single seed's may never pass an error that the mean does;
between looks, which are a quarter of a round apart, errors are taken to fall evenly.
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
LOOK = guided.ROUND // 4
FAMILIES = ("lenet5", "cnn5")


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
        """Where it stands after the opening and each quarter of a round, up to `most` measurements."""
        found = []
        while self.measured <= most and (request := self.campaign.ask()) is not None:
            if self._at_a_look:
                found.append(Stand(self.measured, self.error()))
            self.campaign.tell(self.device.measure(request.workload, POINT))
            self.measured += 1
        return found

    @property
    def _at_a_look(self) -> bool:
        beyond = self.measured - len(self.campaign._opening)
        return beyond >= 0 and beyond % LOOK == 0

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


def mean_curve(curves: Sequence[Sequence[Stand]]) -> list[Stand]:
    """The seeds' curves as one."""
    return [
        Stand(stands[0].measurements, statistics.fmean(stand.error for stand in stands))
        for stands in zip(*curves, strict=True)
    ]


def shares(curves: dict[Rule, list[Stand]], most: int) -> list[dict[str, Any]]:
    """For each error that single blocks by chance reach: what each rule took, and guided's share; `most` if never."""
    found, opening = [], curves[Rule.RANDOM][0].measurements
    rounds = [s for s in curves[Rule.RANDOM] if (s.measurements - opening) % guided.ROUND == 0]
    for number, stand in enumerate(rounds[1:], start=1):
        if stand.error >= min(s.error for s in rounds[:number]):
            continue  # chance was better off before
        took = {rule: reached(curve, stand.error * (1 + 1e-9)) for rule, curve in curves.items()}
        counts = {rule: most if n is None else n for rule, n in took.items()}
        found.append(
            {
                "error": stand.error,
                "took": {rule.value: n for rule, n in counts.items()},
                "never": [rule.value for rule, n in took.items() if n is None],
                "guided / other": {
                    rule.value: counts[Rule.GUIDED] / n for rule, n in counts.items() if rule is not Rule.GUIDED
                },
            }
        )
    return found


def compare(name: str, seeds: int, members: int, most: int) -> dict[str, Any]:
    """All rules on one family: their mean curves, what each error took, and the guided rule's share of the others'."""
    chosen, spec = family(name), spec_of(name)
    curves = {
        rule: mean_curve([Trial(spec, chosen, rule, seed, members).curve(most) for seed in range(seeds)])
        for rule in Rule
    }
    found = shares(curves, most)
    return {
        "opening": curves[Rule.GUIDED][0].measurements,
        "mean error": {rule.value: {str(s.measurements): s.error for s in curve} for rule, curve in curves.items()},
        "errors": found,
        "mean share": {
            rule.value: statistics.fmean(entry["guided / other"][rule.value] for entry in found)
            for rule in Rule
            if rule is not Rule.GUIDED
        },
    }


def run(seeds: int, members: int, most: int = MOST) -> dict[str, Any]:
    """Both families."""
    return {name: compare(name, seeds, members, most) for name in FAMILIES}
