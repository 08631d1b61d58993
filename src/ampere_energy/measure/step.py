"""One real training step of a workload, and the windows measured over many of them."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import nn

from ampere_energy.measure.measurement import Procedure, Window, Workload
from ampere_energy.measure.meters import Meter
from ampere_energy.model.build import Loss, build, loss_of
from ampere_energy.model.layers import LOSSES
from ampere_energy.model.source import ModelRef, instantiate
from ampere_energy.model.training import Optimizer, Training

_STEADY = 0.05
_LEARNING_RATE = 1e-4


def training_step(workload: Workload) -> Callable[[], None]:
    """A function that runs one step: forward, loss, backward, update, on synthetic data of the right shape."""
    torch.manual_seed(0)
    module, inputs, loss = _prepare(workload)
    training = workload.training
    with torch.no_grad():
        outputs = module(inputs)
    target = (
        torch.randint(outputs.shape[1], (training.batch,))
        if loss is loss_of("cross_entropy")
        else torch.randn_like(outputs)
    )
    optimizer = _optimizer(module, training)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        inputs.grad = None
        loss(module(inputs), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _prepare(workload: Workload) -> tuple[nn.Module, torch.Tensor, Loss]:
    if isinstance(workload, ModelRef):
        module = instantiate(workload).train()
        inputs = torch.randn(workload.input)
        with torch.no_grad():
            scores = module(inputs).dim() == 2
        return module, inputs, loss_of("cross_entropy" if scores else "mse")
    first, last = workload.blocks[0], workload.blocks[-1]
    # A block that stands inside its model passes a gradient on, also when it is trained alone.
    inputs = torch.randn(workload.training.batch, *first.reads, requires_grad=first.kind.input_grad)
    losses = [step.op for step in last.kind.layers if step.op in LOSSES]
    return build(workload), inputs, loss_of(losses[0] if losses else "mse")


def _optimizer(module: nn.Module, training: Training) -> torch.optim.Optimizer:
    parameters = list(module.parameters())
    if training.optimizer is Optimizer.SGD:
        return torch.optim.SGD(parameters, _LEARNING_RATE)
    if training.optimizer is Optimizer.MOMENTUM:
        return torch.optim.SGD(parameters, _LEARNING_RATE, momentum=0.9)
    if training.optimizer is Optimizer.ADAM:
        return torch.optim.Adam(parameters, _LEARNING_RATE)
    return torch.optim.AdamW(parameters, _LEARNING_RATE)


def measure_windows(step: Callable[[], None], meter: Meter, procedure: Procedure) -> tuple[Window, ...]:
    """Warms up until the step time is steady, then reads the meter around each window."""
    per_step = _warm_up(step, procedure.warm_up_s)
    iterations = max(1, round(procedure.window_s / per_step))
    windows = []
    for _ in range(procedure.windows):
        before = meter.read()
        for _ in range(iterations):
            step()
        after = meter.read()
        windows.append(Window(after.energy_j - before.energy_j, after.at_s - before.at_s, iterations))
    return tuple(windows)


def _warm_up(step: Callable[[], None], longest_s: float) -> float:
    """Runs steps until two batches of them in a row take the same time; returns the seconds of one step."""
    start = time.monotonic()
    step()
    count, last = 1, float("inf")
    while True:
        begun = time.monotonic()
        for _ in range(count):
            step()
        now = time.monotonic()
        per_step = (now - begun) / count
        if now - start >= longest_s or (count > 1 and abs(per_step - last) <= _STEADY * last):
            return per_step
        last = per_step
        if now - begun < longest_s / 8:
            count *= 2
