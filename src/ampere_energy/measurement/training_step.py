"""One real training step of a workload, on a CPU or a CUDA device, eager, captured as a graph, or compiled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch._functorch import config as functorch
from torch.optim.lr_scheduler import LambdaLR

from ampere_energy.measurement.memory import hand_back_much
from ampere_energy.measurement.records import Workload
from ampere_energy.model import torch_settings
from ampere_energy.model.blocks import Block, Fragment, Kind, Role
from ampere_energy.model.build import build
from ampere_energy.model.layers import LOSSES
from ampere_energy.model.load import find, load
from ampere_energy.model.objective import (
    OWN,
    Inputs,
    Objective,
    called,
    chosen,
    mapped,
    objective,
    tensors_in,
    train_mode,
)
from ampere_energy.model.program import Program
from ampere_energy.model.rebuild import Rebuilt
from ampere_energy.model.record import AUTOCAST
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode, Optimizer, Precision, Training
from ampere_energy.model.variants import Phase, Variant

_LEARNING_RATE = 1e-12
"""Nobody wants the synthetic task learnt: weights that hold still let the thousandth step cost what the first did.

With a usual rate and random gradients they drift within seconds until activations saturate, and a card that
multiplies saturated numbers takes a quarter less power.
"""
_LARGEST_NORM = 1.0
"""What gradients are clipped to; clipping costs the same whatever it is."""
_GRADIENT = 1e-3
"""Size of the gradients that what follows a block hands back: small, as in training."""


@dataclass(frozen=True)
class Step:
    """A training step ready to run: forward, loss, backward, update, on synthetic data of the right shape.

    Attributes:
        run: issues one step; on a CUDA device it returns before the device is done.
        module: what is trained.
        device: where.
        prepare: what must be done once before, on the stream that the steps will run on; None for nothing.
    """

    run: Callable[[], None]
    module: nn.Module
    device: torch.device
    prepare: Callable[[], None] | None = None

    def wait(self) -> None:
        """Waits until the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def repeat(self, count: int) -> None:
        """Runs so many steps, and waits until the device is done."""
        for _ in range(count):
            self.run()
        self.wait()


def training_step(workload: Workload, device: torch.device, mode: Mode, *, capturable: bool = False) -> Step:
    """Builds the workload on a device, with the same weights and data every time.

    Args:
        workload: what is trained.
        device: where.
        mode: how the step is run.
        capturable: whether it will be captured as a CUDA graph, as steps in that mode are: such a step keeps the
            optimizer's count on the card and does not read its loss.

    Raises:
        RuntimeError: the step cannot be captured or compiled, or does not fit.
    """
    capturable = capturable or mode is Mode.GRAPH
    torch.manual_seed(0)
    training = workload.training
    torch.set_float32_matmul_precision("high" if training.precision is Precision.TF32 else "highest")
    torch_settings.apply(training.torch_settings)
    with _precision(training, device):
        parts = [_compact(part) if _channels_last(part, training, mode) else part for part in _parts(workload, device)]
    ready: list[Ready | None] = [None] * len(parts)
    modules = nn.ModuleList(part.module for part in parts)
    trained = [weight for part in parts for weight in part.trained]
    optimizer = _optimizer(trained, training, capturable) if trained else None
    scheduler = LambdaLR(optimizer, _same_rate) if optimizer is not None and training.scheduler else None
    phase = workload.phase if isinstance(workload, Variant) else Phase.STEP
    forward = _compiled(_forward(parts), phase) if mode is Mode.COMPILE else _forward(parts)
    given = [part.inputs for part in parts]
    leaves = [tensor for part in parts for tensor in tensors_in(part.inputs) if tensor.requires_grad]

    def clear() -> None:
        if optimizer is not None:
            optimizer.zero_grad(set_to_none=True)
        for leaf in leaves:
            leaf.grad = None

    def pass_on() -> Ends:
        outputs: list[torch.Tensor] = []
        gradients: list[torch.Tensor | None] = []
        with _precision(training, device):
            for place, (part, result) in enumerate(zip(parts, forward(given), strict=True)):
                prepared = ready[place] = ready[place] or part.ready(result)
                ends, handed = part.finish(result, prepared)
                outputs += ends
                gradients += handed
        return outputs, gradients

    def change() -> None:
        if optimizer is None:
            return
        if training.clip_gradients:
            nn.utils.clip_grad_norm_(trained, _LARGEST_NORM)
        optimizer.step()
        if scheduler is not None and not capturable:
            scheduler.step()

    def step() -> None:
        clear()
        for _ in range(training.accumulate):
            outputs, gradients = pass_on()
            if outputs:
                torch.autograd.backward(outputs, gradients)
        change()
        if training.sync_each_step and outputs and not capturable:
            outputs[-1].flatten()[0].item()

    held: list[Ends] = []

    def hold() -> None:
        held.clear()  # while an older graph of autograd lives, its ties to the stream it was made on do too
        held.append(pass_on())

    def forward_only() -> None:
        pass_on()

    def back() -> None:
        clear()
        torch.autograd.backward(*held[0], retain_graph=True)

    def update() -> None:
        if optimizer is None:
            raise RuntimeError("nothing is updated here")
        change()

    phases: dict[Phase, tuple[Callable[[], None], Callable[[], None] | None]] = {
        Phase.STEP: (step, None),
        Phase.FORWARD: (forward_only, None),
        Phase.BACKWARD: (back, hold),
        Phase.UPDATE: (update, step),
    }
    run, prepare = phases[phase]
    if isinstance(workload, ModelRef) and workload.step:
        run = _own_step(workload, parts[0], optimizer)
    if prepare is not None:
        prepare()
    found = Step(run, modules, device, prepare)
    return captured(found) if mode is Mode.GRAPH else found


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


Forward = Callable[[list[Inputs]], list[Any]]
"""What all parts give for their inputs."""


def _forward(parts: Sequence[Part]) -> Forward:
    modules = [part.module for part in parts]

    def forward(given: list[Inputs]) -> list[Any]:
        return [called(module, inputs) for module, inputs in zip(modules, given, strict=True)]

    return forward


def _compiled(forward: Forward, phase: Phase) -> Forward:
    """All parts compiled as one, as those of a model are: the host enters compiled code once a step."""
    torch._dynamo.reset()  # what was compiled too often before would silently run eagerly
    # A backward pass by itself goes over the same forward pass again and again, so that must keep what it left.
    functorch.donated_buffer = phase is not Phase.BACKWARD
    return torch.compile(forward)


def _parts(workload: Workload, device: torch.device) -> list[Part]:
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


def _channels_last(part: Part, training: Training, mode: Mode) -> bool:
    """Whether images' channels are innermost: where that is asked for, and inside compiled convolutional networks.

    Inductor computes those so, whatever it is given. A block alone is handed what its neighbours would have left.
    """
    inside = mode is Mode.COMPILE and part.goal is None
    return training.channels_last or (inside and any(weight.dim() == 4 for weight in part.module.parameters()))


def _compact(part: Part) -> Part:
    """The part with images' channels innermost."""
    part.module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def turned(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() != 4:
            return tensor
        return tensor.detach().to(memory_format=torch.channels_last).requires_grad_(tensor.requires_grad)

    return replace(part, inputs=mapped(part.inputs, turned))


def _precision(training: Training, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Autocast, where a lower precision is asked for."""
    lower = AUTOCAST.get(training.precision)
    return contextlib.nullcontext() if lower is None else torch.autocast(device.type, dtype=lower)


def captured(step: Step) -> Step:
    """The step as one CUDA graph: no launch costs, so its time and energy are the device's own.

    Raises:
        RuntimeError: it cannot be captured.
    """
    if step.device.type != "cuda":
        raise RuntimeError("graphs are captured on CUDA devices only; use --mode eager or compile")
    hand_back_much(step.device)
    side = torch.cuda.Stream(step.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(step.device))
    with torch.cuda.stream(side):
        if step.prepare is not None:
            step.prepare()
        step.repeat(2)  # lazy initialisation must not happen during capture, momentum's second step among it
    torch.cuda.current_stream(step.device).wait_stream(side)
    hand_back_much(step.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side if step.prepare is not None else None):
        step.run()
    return Step(graph.replay, step.module, step.device)


def _own_step(ref: ModelRef, part: Part, optimizer: torch.optim.Optimizer | None) -> Callable[[], None]:
    """The user's own step: forward, loss, backward and update are theirs."""
    function = find(ref.step, "step")

    def run() -> None:
        function(part.module, part.inputs, optimizer)

    return run


def _same_rate(_: int) -> float:
    return 1.0


def _optimizer(parameters: list[nn.Parameter], training: Training, capturable: bool) -> torch.optim.Optimizer:
    """The optimizer as torch makes it by default; its count of steps lies on the card where a graph needs it there."""
    if training.optimizer is Optimizer.SGD:
        return torch.optim.SGD(parameters, _LEARNING_RATE)
    if training.optimizer is Optimizer.MOMENTUM:
        return torch.optim.SGD(parameters, _LEARNING_RATE, momentum=0.9)
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam(parameters, _LEARNING_RATE, capturable=capturable)
    return torch.optim.AdamW(parameters, _LEARNING_RATE, capturable=capturable)
