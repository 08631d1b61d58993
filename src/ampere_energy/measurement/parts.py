"""What a training step trains: a whole model, or blocks, each with its inputs and how its backward pass begins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.autocast import AUTOCAST
from ampere_energy.model.blocks import Block
from ampere_energy.model.build import build
from ampere_energy.model.kinds import Fragment, Kind, Role
from ampere_energy.model.layers import LOSSES
from ampere_energy.model.load import load
from ampere_energy.model.objective import OWN, Inputs, Objective, chosen, mapped, objective, tensors_in, train_mode
from ampere_energy.model.program import Program
from ampere_energy.model.rebuild import Rebuilt
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode, Training

_GRADIENT = 1e-3
"""Size of the gradients that what follows a block hands back: small, as in training."""


Ends = tuple[list[torch.Tensor], list["torch.Tensor | None"]]
"""Where the backward pass begins, and the gradients handed to it; None for a loss."""


Ready = tuple[Objective | None, list["torch.Tensor | None"]]
"""What is trained for, and the targets or gradients that stay the same from step to step."""


@dataclass(frozen=True)
class Part:
    """What one forward call runs: a module, its inputs, and how the backward pass begins.

    Attributes:
        trained: the weights that the optimizer updates.
        goal: how a whole model's result is trained; None where what follows a part of a model hands gradients back.
    """

    module: nn.Module
    inputs: Inputs
    trained: tuple[nn.Parameter, ...]
    goal: Callable[[Any], Objective] | None = None

    def ready(self, result: Any) -> Ready:
        """What stays the same from step to step, by the first result: targets, or the gradients that are handed back.

        It takes no forward pass of its own: a plain loop has none, and what was in memory before the first step decides
        for good how often a processor's allocator asks the system for pages (decision 038).
        """
        torch.manual_seed(0)  # the same every time, whatever the forward pass has drawn
        if self.goal is not None:
            goal = self.goal(result)
            target = None if goal.name == OWN else goal.target()
            # A graph of autograd that lives on would tie the step to this stream, and no capture would work.
            return replace(goal, scores=goal.scores.detach()), [target]
        ends = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
        return None, [_GRADIENT * torch.randn_like(end) if end.dim() else None for end in ends]

    def finish(self, result: Any, ready: Ready) -> Ends:
        """Where the backward pass of a result begins."""
        goal, prepared = ready
        if goal is None:
            return [tensor for tensor in tensors_in(result) if tensor.requires_grad], prepared
        scores, [target] = chosen(result), prepared
        assert scores is not None
        return [scores if target is None else goal.loss(scores, target)], [None]


def parts_of(workload: Workload, device: torch.device) -> list[Part]:
    """What a workload trains, each part by itself."""
    if isinstance(workload, ModelRef):
        return [_whole(workload, device)]
    if not workload.apart and isinstance(workload.blocks[0].kind, Kind):
        return [_chain(workload.blocks, device)]
    return [
        _fragment(block.kind.program.at(block.point), device)
        if isinstance(block.kind, Fragment)
        else _chain([block], device)
        for block in workload.blocks
    ]


def _whole(ref: ModelRef, device: torch.device) -> Part:
    loaded = load(ref)
    module = train_mode(loaded.module).to(device)
    inputs = mapped(loaded.inputs, lambda tensor: tensor.to(device))
    trained = tuple(parameter for parameter in module.parameters() if parameter.requires_grad)
    return Part(module, inputs, trained, lambda result: objective(module, result, inputs))


def _fragment(program: Program, device: torch.device) -> Part:
    module = Rebuilt(program, device).train()
    return Part(module, module.inputs(device), tuple(module.trained()))


def _chain(blocks: Sequence[Block], device: torch.device) -> Part:
    first, last = blocks[0], blocks[-1].kind
    assert isinstance(first.kind, Kind)
    assert isinstance(last, Kind)
    with device:  # where drawing numbers does not take longer than training on them
        module = build(blocks)
    # A block that stands inside its model passes a gradient on, also when it is trained alone.
    inner = first.kind.input_grad
    own = getattr(torch, first.kind.dtype)
    lower = AUTOCAST.get(first.kind.training.precision, own) if inner and own is torch.float32 else own
    shape = (first.kind.training.batch, *first.reads)
    inputs = torch.randn(shape, dtype=lower, device=device, requires_grad=inner)
    losses = [step.op for step in last.layers if step.op in LOSSES]
    goal = (lambda result: Objective(result, losses[0])) if last.role is Role.OUTPUT else None
    return Part(module, (inputs,), tuple(module.parameters()), goal)


def channels_last(part: Part, training: Training, mode: Mode) -> bool:
    """Whether images' channels are innermost: where that is asked for, and inside compiled convolutional networks.

    Inductor computes those so, whatever it is given. A block alone is handed what its neighbours would have left.
    """
    inside = mode is Mode.COMPILE and part.goal is None
    return training.channels_last or (inside and any(weight.dim() == 4 for weight in part.module.parameters()))


def compact(part: Part) -> Part:
    """The part with images' channels innermost."""
    part.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() != 4:
            return tensor
        return tensor.detach().to(memory_format=torch.channels_last).requires_grad_(tensor.requires_grad)

    return replace(part, inputs=mapped(part.inputs, turned))


def autocast(training: Training, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Autocast, where a lower precision is asked for."""
    lower = AUTOCAST.get(training.precision)
    return contextlib.nullcontext() if lower is None else torch.autocast(device.type, dtype=lower)
