"""How well the paper's method recovers an exactly additive device, with and without noise."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.per_kind import PerKind, Quantity
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import Block
from ampere_energy.model.families.catalogue import Family, family
from ampere_energy.model.variants import Lesson, lessons
from ampere_energy.profiles.profile import Profile
from benchmarks.specs import spec_of

RULES = {"default": Rules(), "close": Rules(points=32, precision=0.003)}


def predicted_j(profile: Profile, blocks: Sequence[Block]) -> float:
    total = 0.0
    for block in blocks:
        fit = PerKind(profile.kinds).find(block.kind)
        assert fit is not None
        total += float(fit.process(Quantity.ENERGY).mean(fit.unit([block.point]))[0])
    return total


def nets(plan: Sequence[Lesson], chosen: Family, count: int, seed: int) -> dict[str, list[tuple[Block, ...]]]:
    """Unseen networks of one, two and three blocks, and whole ones of the family."""
    draw = random.Random(seed)
    found: dict[str, list[tuple[Block, ...]]] = {"1": [], "2": [], "3": []}
    for size, group in found.items():
        taught = [lesson for lesson in plan if 1 + bool(lesson.feeder) + bool(lesson.reader) == int(size)]
        for _ in range(count):
            lesson = draw.choice(taught)
            group.append(lesson.variant(tuple(r[draw.randrange(len(r))] for r in lesson.domain)).blocks)
    found["whole"] = [spec_of(chosen.name, widths).blocks for widths in chosen.sample(count, seed)]
    return found


def recover(name: str, noise: float, seed: int, networks: int, rules: Rules) -> dict[str, dict[str, float]]:
    """Relative errors of the recovered energies by size of network: mean and largest."""
    chosen = family(name)
    device = SimulatedDevice(noise, seed)
    spec = spec_of(name)
    learnt = profile(spec, device=device, ranges=chosen.ranges, rules=rules, method="paper")
    result = {}
    for size, group in nets(lessons(spec, chosen.ranges), chosen, networks, seed).items():
        errors = [abs(predicted_j(learnt, blocks) / device.true_energy_j(blocks) - 1) for blocks in group]
        result[size] = {"mean": statistics.fmean(errors), "max": max(errors)}
    return result


def run(seeds: int, networks: int) -> dict[str, dict[str, dict[str, float]]]:
    """The worst over the seeds, for each family, noise and set of rules."""
    result = {}
    for name in ("lenet5", "cnn5"):
        for noise in (0.0, 0.03):
            for label, rules in RULES.items():
                rounds = [recover(name, noise, seed, networks, rules) for seed in range(seeds if noise else 1)]
                result[f"{name}, noise {noise:g}, {label} rules"] = {
                    size: {
                        "mean error": statistics.fmean(r[size]["mean"] for r in rounds),
                        "worst seed's mean error": max(r[size]["mean"] for r in rounds),
                        "worst error": max(r[size]["max"] for r in rounds),
                    }
                    for size in rounds[0]
                }
    return result
