"""Every model of `studies.models`, parsed, profiled on the simulated device as it is, and estimated."""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.kinds import Fragment
from ampere_energy.model.objective import objective
from ampere_energy.model.parse import parse
from studies.models import MODELS, Inputs

NOISE = 0.01
RULES = Rules(points=4)


def as_it_is(name: str) -> ModelSpec:
    """A model parsed without widths, as `ampere profile` takes a user's factory."""
    module, inputs = MODELS[name]()
    return replace(parse(module, inputs, name=name), widths=(), follows=())


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


def _convolution_backward(
    grad: torch.Size, x: torch.Size, weight: torch.Size, *rest: Any, out_shape: Any = None, **_: Any
) -> int:
    """What a convolution's gradients cost: each as much as the convolution, whatever its groups."""
    transposed, mask = rest[4], rest[7]
    over = x if transposed else grad
    return int(2 * math.prod(over) * math.prod(weight[1:]) * sum(map(bool, mask[:2])))


def counted(module: nn.Module, inputs: Inputs) -> FlopCounterMode:
    """torch's own count of one real step, by module.

    Its count of a grouped convolution's gradients forgets the groups (torch 2.13), so that one is ours; without
    mkldnn and flash attention, recurrent layers and attention are matrix products that it sees.
    """
    module.train()
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what mkldnn says about itself
        return _counted(module, inputs)


def _counted(module: nn.Module, inputs: Inputs) -> FlopCounterMode:
    mapping = {torch.ops.aten.convolution_backward: _convolution_backward}
    with (
        torch.backends.mkldnn.flags(enabled=False),
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False, custom_mapping=mapping) as counter,
    ):
        result = module(**inputs) if isinstance(inputs, dict) else module(*inputs)
        goal = objective(module, result, inputs)
        goal.loss(goal.scores, goal.scores if goal.name == "own" else goal.target()).backward()
    return counter


def counted_flops(module: nn.Module, inputs: Inputs) -> int:
    """FLOPs of one real step, counted by torch."""
    return int(counted(module, inputs).get_total_flops())


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
