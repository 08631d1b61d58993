"""What the best design could reach if the law of a simulated device's costs were known: a floor for every rule.

The oracle knows what a kind's cost is made of up to the weights, how rough each work is and in which cells, and the
noise: everything but the draws themselves. Its posterior is exact, so the error expected of it needs no measurements.
The same opening as in `acquisition_rules`, then single blocks by chance, whole networks by chance, or what lowers the
variance of networks most.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.measurement.devices.simulated import SimulatedDevice, fill_of
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import Family, family
from ampere_energy.model.variants import Variant, whole_network
from benchmarks.specs import spec_of
from benchmarks.studies.acquisition_rules import FAMILIES, MOST, NOISE, ROUGH, RULES, Stand, mean_curve, opened, reached

WEIGHTS = 0.5
"""How unsure the oracle is of each of a kind's weights before it has measured anything, as a share."""
ROUND = 16
OFFERS = 20
QUESTIONS = 48
DESIGNS = ("best", "random", "members")


class Oracle:
    """The law of one simulated world."""

    def __init__(self, world: int) -> None:
        self.device, self.smooth = SimulatedDevice(rough=ROUGH, world=world), SimulatedDevice(world=world)
        self.seen: dict[Block, tuple[Array, list[tuple[Hashable, float]]]] = {}

    def traits(self, block: Block) -> tuple[Array, list[tuple[Hashable, float]]]:
        """Shares of a block's smooth cost, and its cells of roughness with their deviations."""
        if block not in self.seen:
            constant, per_flop, per_parameter, _ = self.device._character(block.kind)
            fill = fill_of(block)
            parts = (
                constant,
                per_flop * block.training_flops * (1 + 8 / (8 + fill)),
                per_parameter * block.parameters,
            )
            self.seen[block] = np.array(parts) / sum(parts), self.device.cells(block)
        return self.seen[block]

    def covariance(self, blocks: Sequence[Block]) -> Array:
        """Of the logarithms of blocks' costs."""
        features: dict[Hashable, int] = {}
        entries: list[tuple[int, int, float]] = []
        for row, block in enumerate(blocks):
            shares, cells = self.traits(block)
            own = [((block.kind.id, term), WEIGHTS * float(share)) for term, share in enumerate(shares)]
            for feature, value in (*own, *cells):
                entries.append((row, features.setdefault(feature, len(features)), value))
        design = np.zeros((len(blocks), len(features)))
        for row, column, value in entries:
            design[row, column] = value
        return np.asarray(design @ design.T)

    def posterior(self, nets: Sequence[Variant], seen: int) -> Array:
        """Covariance of the logarithms of networks after the first `seen` were measured."""
        blocks = list(dict.fromkeys(block for net in nets for block in net.blocks))
        place = {block: i for i, block in enumerate(blocks)}
        shares = np.zeros((len(nets), len(blocks)))
        for row, net in zip(shares, nets, strict=True):
            energies = np.array([self.smooth.true_energy_j([block]) for block in net.blocks])
            for block, energy in zip(net.blocks, energies / energies.sum(), strict=True):
                row[place[block]] += energy
        total = shares @ self.covariance(blocks) @ shares.T
        inner = total[:seen, :seen] + NOISE**2 * np.eye(seen)
        return np.asarray(total[seen:, seen:] - total[seen:, :seen] @ np.linalg.solve(inner, total[:seen, seen:]))


def curve(spec: ModelSpec, chosen: Family, design: str, seed: int, networks: int, most: int) -> list[Stand]:
    """The error expected after the opening and each round of a design."""
    oracle, campaign = Oracle(seed + 1), opened(spec, chosen, RULES)
    draw = random.Random(f"floor:{design}:{seed}")
    done = [request.workload for request in campaign.opening.requests]
    unseen = [whole_network(spec, widths) for widths in chosen.sample(networks, seed)]

    def anyone() -> Variant:
        return whole_network(spec, [r[draw.randrange(len(r))] for r in chosen.ranges])

    asked, found = [anyone() for _ in range(QUESTIONS)], []
    while len(done) <= most:
        deviations = np.sqrt(np.diagonal(oracle.posterior([*done, *unseen], len(done))))
        found.append(Stand(len(done), float(math.sqrt(2 / math.pi) * deviations.mean())))
        wholes = [anyone() for _ in range(OFFERS)]
        blocks = [
            campaign.scope.block(kind, tuple(r[draw.randrange(len(r))] for r in domain))
            for kind, domain in campaign.scope.domains.items()
            for _ in range(OFFERS)
        ]
        if design == "best":
            done += _best(oracle.posterior([*done, *asked, *blocks, *wholes], len(done)), [*blocks, *wholes])
        else:
            done += draw.sample(blocks if design == "random" else wholes, ROUND)
    return found


def _best(covariance: Array, offers: Sequence[Variant]) -> list[Variant]:
    """The offers that lower the variance of the questions most, one after another; covariance of both."""
    chosen = []
    for _ in range(ROUND):
        noisy = np.diagonal(covariance)[QUESTIONS:] + NOISE**2
        at = QUESTIONS + int(np.argmax((covariance[:QUESTIONS, QUESTIONS:] ** 2).sum(0) / noisy))
        chosen.append(offers[at - QUESTIONS])
        covariance = covariance - np.outer(covariance[at], covariance[at]) / (covariance[at, at] + NOISE**2)
    return chosen


def run(seeds: int, networks: int, most: int = MOST) -> dict[str, Any]:
    """Both families: expected errors, and the best design's share of chance's measurements at chance's errors."""
    result: dict[str, Any] = {}
    for name in FAMILIES:
        chosen, spec = family(name), spec_of(name)
        curves = {
            design: mean_curve([curve(spec, chosen, design, seed, networks, most) for seed in range(seeds)])
            for design in DESIGNS
        }
        took = [(reached(curves["best"], s.error), s.measurements) for s in curves["random"][1:]]
        shares = [n / by_chance for n, by_chance in took if n is not None]
        result[name] = {
            "expected error": {
                design: {str(s.measurements): s.error for s in stands} for design, stands in curves.items()
            },
            "best / random": shares,
            "mean share": statistics.fmean(shares),
        }
    return result
