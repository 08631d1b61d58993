"""One real training step of a workload, on a CPU or a CUDA device, eager, captured as a graph, or compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._functorch import config as functorch
from torch.optim.lr_scheduler import LambdaLR

from ampere_energy.measurement.memory import hand_back_much
from ampere_energy.measurement.parts import Ends, Part, Ready, autocast, channels_last, compact, parts_of
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model import torch_settings
from ampere_energy.model.load import find
from ampere_energy.model.objective import Inputs, called, tensors_in
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
    with autocast(training, device):
        parts = [compact(part) if channels_last(part, training, mode) else part for part in parts_of(workload, device)]
    phase = workload.phase if isinstance(workload, Variant) else Phase.STEP
    forward = _compiled(_forward(parts), phase) if mode is Mode.COMPILE else _forward(parts)
    loop = _Loop(parts, training, device, forward, capturable)
    phases: dict[Phase, tuple[Callable[[], None], Callable[[], None] | None]] = {
        Phase.STEP: (loop.step, None),
        Phase.FORWARD: (loop.forward_only, None),
        Phase.BACKWARD: (loop.backward_only, loop.hold),
        Phase.UPDATE: (loop.update_only, loop.step),
    }
    run, prepare = phases[phase]
    if isinstance(workload, ModelRef) and workload.step:
        run = _own_step(workload, parts[0], loop.optimizer)
    if prepare is not None:
        prepare()
    found = Step(run, nn.ModuleList(part.module for part in parts), device, prepare)
    return as_cuda_graph(found) if mode is Mode.GRAPH else found


Forward = Callable[[list[Inputs]], list[Any]]
"""What all parts give for their inputs."""


class _Loop:
    """What a training loop does in one step, together or one phase over and over."""

    def __init__(
        self, parts: Sequence[Part], training: Training, device: torch.device, forward: Forward, capturable: bool
    ) -> None:
        self._parts, self._training, self._device, self._forward = parts, training, device, forward
        self._capturable = capturable
        self._ready: list[Ready | None] = [None] * len(parts)
        self._held: list[Ends] = []
        self._given = [part.inputs for part in parts]
        self._leaves = [tensor for part in parts for tensor in tensors_in(part.inputs) if tensor.requires_grad]
        self._trained = [weight for part in parts for weight in part.trained]
        self.optimizer = _optimizer(self._trained, training, capturable) if self._trained else None
        scheduled = self.optimizer is not None and training.scheduler and not capturable
        self._scheduler = LambdaLR(self.optimizer, _same_rate) if self.optimizer is not None and scheduled else None

    def step(self) -> None:
        self._clear()
        for _ in range(self._training.accumulate):
            outputs, gradients = self._pass()
            if outputs:
                torch.autograd.backward(outputs, gradients)
        self._update()
        if self._training.sync_each_step and outputs and not self._capturable:
            outputs[-1].flatten()[0].item()

    def forward_only(self) -> None:
        self._pass()

    def hold(self) -> None:
        """A forward pass, kept for `backward_only`."""
        self._held.clear()  # while an older graph of autograd lives, its ties to the stream it was made on do too
        self._held.append(self._pass())

    def backward_only(self) -> None:
        self._clear()
        torch.autograd.backward(*self._held[0], retain_graph=True)

    def update_only(self) -> None:
        if self.optimizer is None:
            raise RuntimeError("nothing is updated here")
        self._update()

    def _clear(self) -> None:
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        for leaf in self._leaves:
            leaf.grad = None

    def _pass(self) -> Ends:
        outputs: list[torch.Tensor] = []
        gradients: list[torch.Tensor | None] = []
        with autocast(self._training, self._device):
            for place, (part, result) in enumerate(zip(self._parts, self._forward(self._given), strict=True)):
                prepared = self._ready[place] = self._ready[place] or part.ready(result)
                ends, handed = part.finish(result, prepared)
                outputs += ends
                gradients += handed
        return outputs, gradients

    def _update(self) -> None:
        if self.optimizer is None:
            return
        if self._training.clip_gradients:
            nn.utils.clip_grad_norm_(self._trained, _LARGEST_NORM)
        self.optimizer.step()
        if self._scheduler is not None:
            self._scheduler.step()


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


def as_cuda_graph(step: Step) -> Step:
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
