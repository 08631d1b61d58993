"""FLOPs of a training step as torch counts them, for what is parsed to be compared with."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ampere_energy.model.objective import objective
from benchmarks.architectures import Inputs


def _convolution_backward(
    grad: torch.Size, x: torch.Size, weight: torch.Size, *rest: Any, out_shape: Any = None, **_: Any
) -> int:
    """What a convolution's gradients cost: each as much as the convolution, whatever its groups."""
    transposed, mask = rest[4], rest[7]
    over = x if transposed else grad
    return int(2 * math.prod(over) * math.prod(weight[1:]) * sum(map(bool, mask[:2])))


def counted_flops(module: nn.Module, inputs: Inputs) -> int:
    """FLOPs of one real step.

    torch's count of a grouped convolution's gradients forgets the groups (2.13), so that one is ours; without mkldnn
    and flash attention, recurrent layers and attention are matrix products that it sees.
    """
    module.train()
    torch.manual_seed(0)
    mapping = {torch.ops.aten.convolution_backward: _convolution_backward}
    with (
        warnings.catch_warnings(action="ignore"),  # what mkldnn says about itself
        torch.backends.mkldnn.flags(enabled=False),
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False, custom_mapping=mapping) as counter,
    ):
        result = module(**inputs) if isinstance(inputs, dict) else module(*inputs)
        goal = objective(module, result, inputs)
        goal.loss(goal.scores, goal.scores if goal.name == "own" else goal.target()).backward()
    return int(counter.get_total_flops())
