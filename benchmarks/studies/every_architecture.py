"""Every model of `benchmarks.architectures`, parsed, profiled on the simulated device as it is, and estimated."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.kinds import Fragment
from benchmarks.architectures import MODELS, as_it_is

NOISE = 0.01
RULES = Rules(points=4)


def estimated(spec: ModelSpec, noise: float = NOISE, seed: int = 0) -> dict[str, Any]:
    """What the estimate of one simulated training step misses, and what it took."""
    device = SimulatedDevice(noise, seed=seed)
    learnt = profile(spec, device=device, ranges=[], rules=RULES)
    found, truth_j = estimate(spec, learnt), device.true_energy_j(spec.blocks)
    low_j, high_j = found.interval_j
    return {
        "blocks": len(spec.blocks),
        "kinds": len(spec.kinds),
        "opaque kinds": sum(isinstance(kind, Fragment) and kind.opaque for kind in spec.kinds),
        "measurements": learnt.measurements,
        "complete": learnt.complete,
        "error": found.energy_j / truth_j - 1,
        "reach": math.sqrt(high_j / low_j) - 1,
        "covered": low_j <= truth_j <= high_j,
    }


def run(names: Sequence[str] = tuple(MODELS)) -> dict[str, Any]:
    """Each model's error, and all of them together."""
    found = {name: estimated(as_it_is(name)) for name in names}
    errors = [abs(entry["error"]) for entry in found.values()]
    return {
        "models": len(found),
        "noise": NOISE,
        "mean error": statistics.fmean(errors),
        "worst error": max(errors),
        "covered": statistics.fmean(entry["covered"] for entry in found.values()),
        "each": found,
    }
