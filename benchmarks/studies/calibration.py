"""Whether the intervals and P(fits) mean what they say, over simulated families of different noise and roughness.

Blocks within a network cost other than alone, differently in every world.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.linearisation import COUPLING_OWN, COUPLING_POWER, COUPLING_TIME
from ampere_energy.estimation.many import estimate_many
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import Block
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.variants import whole_network
from benchmarks.specs import spec_of

FAMILIES = ("lenet5", "cnn5")
LEVEL = 0.9
MOST_NOISE, MOST_ROUGH = 0.03, 0.15
BUDGETS = 0.15
BINS = 10
RULES = Rules(points=3, precision=0.08)


class Coupled(SimulatedDevice):
    """A simulated device on which blocks within a network cost other than alone, by as much as the recorded ones do.

    Without this the intervals, which allow for it, would be too wide here, and nothing would try that part of them.
    """

    def true_energy_j(self, blocks: Sequence[Block]) -> float:
        common, own, power = self._coupling(blocks)
        return super().true_energy_j(blocks) * math.exp(common + own + power)

    def true_time_s(self, blocks: Sequence[Block]) -> float:
        common, own, _ = self._coupling(blocks)
        return super().true_time_s(blocks) * math.exp(common + own)

    def _coupling(self, blocks: Sequence[Block]) -> tuple[float, float, float]:
        """Of time for all networks, of time for this one, and of power."""
        share = (len(blocks) - 1) / len(blocks)
        world, net = random.Random(f"{self.world}:company"), random.Random(f"{self.world}:{[b.point for b in blocks]}")
        common, power = world.gauss(0, COUPLING_TIME), world.gauss(0, COUPLING_POWER)
        own, own_power = (net.gauss(0, deviation) for deviation in COUPLING_OWN)
        return share * common, share * own, share * (power + own_power)


@dataclass(frozen=True)
class Scored:
    """One unseen network of a world: its error as a share, whether the interval held, and P(fits) of a budget."""

    error: float
    covered: bool
    probability: float
    fitted: bool


@dataclass(frozen=True)
class World:
    """One simulated family, and the networks scored in it."""

    noise: float
    rough: float
    scored: tuple[Scored, ...]


def world(number: int, networks: int, rules: Rules = RULES) -> World:
    """Profiles one world, and asks about networks that its campaign did not choose."""
    draw = random.Random(f"calibration:{number}")
    noise, rough = draw.uniform(0, MOST_NOISE), draw.uniform(0, MOST_ROUGH)
    chosen = family(FAMILIES[number % len(FAMILIES)])
    spec = spec_of(chosen.name)
    device = Coupled(noise, seed=number, rough=rough, world=number + 1)
    learnt = profile(spec, device=device, ranges=chosen.ranges, rules=rules)
    widths = chosen.sample(networks, number)
    found = estimate_many(spec, learnt, np.array(widths), level=LEVEL)
    scored = []
    for w, energy_j, low_j, high_j in zip(widths, found.energy_j, found.low_j, found.high_j, strict=True):
        truth_j = device.true_energy_j(whole_network(spec, w).blocks)
        budget_j = float(energy_j) * math.exp(draw.uniform(-BUDGETS, BUDGETS))
        fits = probability_within(float(energy_j), float(high_j), budget_j)
        scored.append(
            Scored(float(energy_j) / truth_j - 1, bool(low_j <= truth_j <= high_j), fits, truth_j <= budget_j)
        )
    return World(noise, rough, tuple(scored))


def probability_within(energy_j: float, high_j: float, budget_j: float) -> float:
    """P(fits), as `Estimate.probability_within` has it, from the energy and the upper end of its interval."""
    spread = math.log(high_j / energy_j) / NormalDist().inv_cdf(0.5 + LEVEL / 2)
    return NormalDist(0, spread).cdf(math.log(budget_j / energy_j)) if spread else float(energy_j <= budget_j)


def summary(worlds: Sequence[World]) -> dict[str, float]:
    """Coverage and mean error of some worlds' networks."""
    scored = [a for w in worlds for a in w.scored]
    return {
        "worlds": len(worlds),
        "members": len(scored),
        "coverage": statistics.fmean(a.covered for a in scored),
        "mean error": statistics.fmean(abs(a.error) for a in scored),
    }


def terciles(worlds: Sequence[World], by: str) -> dict[str, dict[str, float]]:
    """The worlds in three groups of equal size, by noise or by roughness."""
    ordered = sorted(worlds, key=lambda w: float(getattr(w, by)))
    ends = [round(i * len(ordered) / 3) for i in range(4)]
    groups = [ordered[a:b] for a, b in itertools.pairwise(ends) if b > a]
    return {f"{getattr(g[0], by):.3f} to {getattr(g[-1], by):.3f}": summary(g) for g in groups}


def reliability(scored: Sequence[Scored]) -> list[dict[str, float]]:
    """P(fits) in bins: how often budgets of that probability were met."""
    bins: dict[int, list[Scored]] = {}
    for a in scored:
        bins.setdefault(min(BINS - 1, int(a.probability * BINS)), []).append(a)
    return [
        {
            "from": index / BINS,
            "count": len(group),
            "predicted": statistics.fmean(a.probability for a in group),
            "observed": statistics.fmean(a.fitted for a in group),
        }
        for index, group in sorted(bins.items())
    ]


def run(worlds: int, networks: int) -> dict[str, Any]:
    """Coverage of the 90 % intervals and reliability of P(fits), pooled and by terciles."""
    known = [world(number, networks) for number in range(worlds)]
    scored = [a for w in known for a in w.scored]
    table = reliability(scored)
    by_family = {name: summary(known[i :: len(FAMILIES)]) for i, name in enumerate(FAMILIES)}
    return {
        **summary(known),
        "by family": by_family,
        "by noise": terciles(known, "noise"),
        "by roughness": terciles(known, "rough"),
        "P(fits)": table,
        "calibration error": sum(b["count"] * abs(b["predicted"] - b["observed"]) for b in table) / len(scored),
        "largest gap of a bin": max(abs(b["predicted"] - b["observed"]) for b in table),
    }
