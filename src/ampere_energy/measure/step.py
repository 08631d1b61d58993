"""One real training step of a workload, on a CPU or a CUDA device, eager, captured as a graph, or compiled."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from ampere_energy.measure.measurement import Workload
from ampere_energy.model.blocks import Role
from ampere_energy.model.build import Loss, build, loss_of
from ampere_energy.model.layers import LOSSES
from ampere_energy.model.source import ModelRef, instantiate
from ampere_energy.model.training import Mode, Optimizer, Training

_LEARNING_RATE = 1e-4
_ISSUES = 11
_REPLAYS = 10


@dataclass(frozen=True)
class Step:
    """A training step ready to run: forward, loss, backward, update, on synthetic data of the right shape.

    Attributes:
        run: issues one step; on a CUDA device it returns before the device is done.
        module: what is trained.
        device: where.
    """

    run: Callable[[], None]
    module: nn.Module
    device: torch.device

    def wait(self) -> None:
        """Waits until the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def training_step(workload: Workload, device: torch.device, mode: Mode) -> Step:
    """Builds the workload on a device, with the same weights and data every time.

    Raises:
        RuntimeError: the step cannot be captured or compiled, or does not fit.
    """
    torch.manual_seed(0)
    module, inputs, loss = _prepare(workload, device)
    training = workload.training
    with torch.no_grad():
        outputs = module(inputs)
    target = (
        torch.randint(outputs.shape[1], (training.batch,), device=device)
        if loss is loss_of("cross_entropy")
        else torch.randn_like(outputs)
    )
    del outputs
    optimizer = _optimizer(module, training, device)
    forward = torch.compile(module) if mode is Mode.COMPILE else module

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        inputs.grad = None
        if loss is None:  # part of a model: what follows it hands a gradient back
            forward(inputs).backward(target)
        else:
            loss(forward(inputs), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    ready = Step(step, module, device)
    return captured(ready) if mode is Mode.GRAPH else ready


def captured(step: Step) -> Step:
    """The step as one CUDA graph: no launch costs, so its time and energy are the device's own.

    Raises:
        RuntimeError: it cannot be captured.
    """
    if step.device.type != "cuda":
        raise RuntimeError("graphs are captured on CUDA devices only; use --mode eager or compile")
    side = torch.cuda.Stream(step.device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(step.device))
    with torch.cuda.stream(side):
        for _ in range(3):  # lazy initialisation must not happen during capture
            step.run()
    torch.cuda.current_stream(step.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.run()
    return Step(graph.replay, step.module, step.device)


def issue_s(step: Step) -> float:
    """Median seconds the host takes to issue one step while the device waits for it."""
    times = []
    for _ in range(_ISSUES):
        step.wait()
        start = time.perf_counter()
        step.run()
        times.append(time.perf_counter() - start)
    step.wait()
    return statistics.median(times)


def device_s(step: Step) -> float:
    """Seconds of one step on the device, from a few of them in a row: events on CUDA, the clock elsewhere."""
    step.run()
    step.wait()
    if step.device.type != "cuda":
        start = time.perf_counter()
        for _ in range(_REPLAYS):
            step.run()
        return (time.perf_counter() - start) / _REPLAYS
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(_REPLAYS):
        step.run()
    end.record()
    step.wait()
    return float(begin.elapsed_time(end)) / 1e3 / _REPLAYS


def _prepare(workload: Workload, device: torch.device) -> tuple[nn.Module, torch.Tensor, Loss | None]:
    if isinstance(workload, ModelRef):
        module = instantiate(workload).train().to(device)
        inputs = torch.randn(workload.input).to(device)
        with torch.no_grad():
            scores = module(inputs).dim() == 2
        return module, inputs, loss_of("cross_entropy" if scores else "mse")
    first, last = workload.blocks[0], workload.blocks[-1]
    # A block that stands inside its model passes a gradient on, also when it is trained alone.
    inputs = torch.randn(workload.training.batch, *first.reads).to(device).requires_grad_(first.kind.input_grad)
    losses = [step.op for step in last.kind.layers if step.op in LOSSES]
    if last.kind.role is not Role.OUTPUT:
        return build(workload).to(device), inputs, None
    return build(workload).to(device), inputs, loss_of(losses[0] if losses else "mse")


def _optimizer(module: nn.Module, training: Training, device: torch.device) -> torch.optim.Optimizer:
    parameters = list(module.parameters())
    capturable = device.type == "cuda"  # keeps the step count on the card, as a graph needs it
    if training.optimizer is Optimizer.SGD:
        return torch.optim.SGD(parameters, _LEARNING_RATE)
    if training.optimizer is Optimizer.MOMENTUM:
        return torch.optim.SGD(parameters, _LEARNING_RATE, momentum=0.9)
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam(parameters, _LEARNING_RATE, capturable=capturable)
    return torch.optim.AdamW(parameters, _LEARNING_RATE, capturable=capturable)
