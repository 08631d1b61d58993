"""How many measurements the guided rule takes to a given error of whole models, against chance and largest variance.

Networks are metered, never only timed, so that every measurement is of one sort; the estimator is the same for all. The
opening, which all rules share, is what a campaign meters first where it may also time blocks: a few networks a kind.
Sampling at random has no such design: that is tried as well, as many blocks by chance in place of the opening, a kind
after the other.

The errors to reach are not picked: they are those that single blocks by chance reach after each round of the campaign.
All counts are read off the mean of the seeds' curves, since a single seed's may never pass an error that the mean does;
between these, which are a quarter of a round apart, errors are taken to fall evenly.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ampere_energy.campaign import adaptive
from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.opening import Opening
from ampere_energy.campaign.points import anywhere
from ampere_energy.campaign.rules import Request, Rule, Rules
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import POINT
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.families.catalogue import Family, family
from ampere_energy.model.variants import alone, whole_network
from benchmarks.specs import spec_of

RULES = Rules(points=10_000, precision=1e-6, timings=False)
NOISE, ROUGH = 0.01, 0.1
MOST = 108
EVERY = adaptive.BATCH // 4
"""Measurements between two scores of a campaign."""
FAMILIES = ("lenet5", "cnn5")
CHANCE = "random from the first"
GUIDED, RANDOM = Rule.GUIDED.value, Rule.RANDOM.value


@dataclass(frozen=True)
class Stand:
    """A campaign after some measurements: the mean error of networks it has not seen."""

    measurements: int
    error: float


class Trial:
    """One campaign by one rule on one simulated world; `chance` for an opening of blocks drawn at random."""

    def __init__(
        self, spec: ModelSpec, chosen: Family, rule: Rule, seed: int, networks: int, chance: bool = False
    ) -> None:
        self.device = SimulatedDevice(NOISE, seed, ROUGH, world=seed + 1)
        spec = replace(spec, name=f"{spec.name} {seed}")  # from which a campaign draws: else all seeds would share it
        self.campaign = opened(spec, chosen, replace(RULES, rule=rule))
        if chance:
            requests = by_chance(self.campaign, random.Random(f"chance:{spec.name}"))
            self.campaign.open_with(replace(self.campaign.opening, requests=tuple(requests)))
        unseen = [whole_network(spec, widths) for widths in chosen.sample(networks, seed)]
        nets = [self.campaign.scope.variant(variant) for variant in unseen]
        self.truth_j = np.array([self.device.true_energy_j(variant.blocks) for variant in unseen])
        self.kinds = [kind for kind, _ in nets[0]]
        self.points = [np.array([net[b][1] for net in nets], dtype=float) for b in range(len(self.kinds))]
        self.measured = 0

    def curve(self, most: int) -> list[Stand]:
        """Where it stands after the opening and each quarter of a round, up to `most` measurements."""
        found = []
        while self.measured <= most and (request := self.campaign.ask()) is not None:
            if self._is_due:
                found.append(Stand(self.measured, self.error()))
            self.campaign.tell(self.device.measure(request.workload, POINT))
            self.measured += 1
        return found

    @property
    def _is_due(self) -> bool:
        beyond = self.measured - len(self.campaign.opening.requests)
        return beyond >= 0 and beyond % EVERY == 0

    def error(self) -> float:
        """The mean error of the unseen networks now."""
        found = steps(self.campaign._learn(self.measured), self.kinds, self.points)
        return float(np.mean(np.abs(found.energy_j / self.truth_j - 1)))


def opened(spec: ModelSpec, chosen: Family, rules: Rules) -> Guided:
    """A campaign without timings that opens as lightly as one with them: only what that would meter."""
    timed = Guided(spec, chosen.ranges, replace(rules, timings=True), False)
    light = tuple(request for request in timed.opening.requests if request.metered)
    campaign = Guided(spec, chosen.ranges, rules, False)
    campaign.open_with(Opening(light, len(light)))
    return campaign


def by_chance(campaign: Guided, draw: random.Random) -> list[Request]:
    """As many blocks as the campaign's opening has networks, at random widths, a kind after the other."""
    kinds = itertools.cycle(campaign.scope.domains.items())
    return [
        Request(alone(kind, anywhere(domain, draw)))
        for _, (kind, domain) in zip(campaign.opening.requests, kinds, strict=False)
    ]


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


def shares(curves: dict[str, list[Stand]], most: int, chance: str = RANDOM) -> list[dict[str, Any]]:
    """For each error that single blocks by chance reach: what each rule took, and guided's share; `most` if never."""
    found, opening = [], curves[chance][0].measurements
    rounds = [s for s in curves[chance] if (s.measurements - opening) % adaptive.BATCH == 0]
    for number, stand in enumerate(rounds[1:], start=1):
        if stand.error >= min(s.error for s in rounds[:number]):
            continue  # chance was better off before
        took = {rule: reached(curve, stand.error * (1 + 1e-9)) for rule, curve in curves.items()}
        counts = {rule: most if n is None else n for rule, n in took.items()}
        found.append(
            {
                "error": stand.error,
                "took": counts,
                "never": [rule for rule, n in took.items() if n is None],
                "guided / other": {rule: counts[GUIDED] / n for rule, n in counts.items() if rule != GUIDED},
            }
        )
    return found


def compare(name: str, seeds: int, networks: int, most: int) -> dict[str, Any]:
    """All rules on one family: their mean curves, what each error took, and the guided rule's share of the others'."""
    chosen, spec = family(name), spec_of(name)

    def curve(rule: Rule, chance: bool = False) -> list[Stand]:
        return mean_curve([Trial(spec, chosen, rule, seed, networks, chance).curve(most) for seed in range(seeds)])

    curves = {rule.value: curve(rule) for rule in Rule}
    drawn = {GUIDED: curves[GUIDED], CHANCE: curve(Rule.RANDOM, chance=True)}
    found, against = shares(curves, most), shares(drawn, most, CHANCE)
    return {
        "opening": curves[GUIDED][0].measurements,
        "mean error": {
            rule: {str(s.measurements): s.error for s in stands} for rule, stands in (curves | drawn).items()
        },
        "errors": found,
        CHANCE: against,
        "mean share": {
            rule: statistics.fmean(entry["guided / other"][rule] for entry in entries)
            for entries in (found, against)
            for rule in entries[0]["guided / other"]
        },
    }


def run(seeds: int, networks: int, most: int = MOST) -> dict[str, Any]:
    """Both families."""
    return {name: compare(name, seeds, networks, most) for name in FAMILIES}
