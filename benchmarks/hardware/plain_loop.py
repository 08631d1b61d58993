"""Trains one model the way anyone would, and says how long it took. Imports nothing of ampere_energy.

    python -m benchmarks.hardware.plain_loop benchmarks/models/convnets.py:vgg_like --arguments width=32,depth=3

Prints one JSON line when ready. Then each line `run SECONDS` on standard input trains for about that long and prints
one JSON line: the steps, their wall time and the processor time of all threads in seconds, and when they started; on a
card also the joules that its counter went up by, from one of its ticks to another. `quit` or the end of the input ends
it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

# Far below any useful rate, because the loop takes thousands of steps on one batch and the cost of a step must not
# drift. At a normal rate the network learns the batch by heart or diverges: gradients vanish into denormal numbers,
# which processors are slow at, or become NaN. The arithmetic of a step is the same at any rate.
LEARNING_RATE = 1e-6

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATE),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=LEARNING_RATE),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE),
}

WARM_UP_STEPS = 3
SETTLES_S = 0.3
CARD_SETTLES_S = 0.5
LEAST_STEPS = 3

Inputs = tuple[Tensor, ...] | dict[str, Tensor]


def load_factory(spec: str) -> Callable[..., tuple[nn.Module, Inputs]]:
    """The function that `FILE:FACTORY` names, from a file that need not be in a package."""
    file, _, name = spec.rpartition(":")
    path = Path(file).resolve()
    if not file or not path.is_file():
        raise SystemExit(f"{spec}: expected FILE:FACTORY with a file that exists")
    found = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    if not hasattr(module, name):
        raise SystemExit(f"{spec}: {path.name} has no function {name}")
    return getattr(module, name)


def parse_arguments(text: str) -> dict[str, int]:
    """`width=32,depth=3` as a dictionary."""
    try:
        return {name.strip(): int(value) for name, value in (item.split("=") for item in text.split(",") if item)}
    except ValueError:
        raise SystemExit(f"--arguments {text}: expected name=integer,name=integer,…") from None


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors of a model's output or inputs, in order, however they are nested."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


class Training:
    """A model, one batch and an optimizer; each `step` is zero_grad, forward, loss, backward and update."""

    def __init__(
        self, model: nn.Module, inputs: Inputs, optimizer: str, sync: bool, device: str = "cpu", precision: str = "fp32"
    ) -> None:
        self.model = model.train().to(device)
        self.inputs = placed(inputs, device)
        self.device, self.precision = device, precision
        self.optimizer = OPTIMIZERS[optimizer](p for p in model.parameters() if p.requires_grad)
        self.sync = sync
        self.integer_inputs = any(not t.is_floating_point() for t in tensors_in(inputs))
        self.target: Tensor | None = None

    def step(self) -> Tensor:
        """Trains one step and returns its loss."""
        self.optimizer.zero_grad()
        lower = torch.autocast(self.device, torch.bfloat16) if self.precision == "bf16" else contextlib.nullcontext()
        with lower:
            output = self.model(**self.inputs) if isinstance(self.inputs, dict) else self.model(*self.inputs)
            loss = self._loss(output)
        loss.backward()
        self.optimizer.step()
        if self.sync:
            loss.item()
        return loss

    def _loss(self, output: Any) -> Tensor:
        """The output's own loss if it has one; otherwise cross-entropy or the mean squared error, by its shape.

        The target is drawn at the first step and kept, as the batch is.
        """
        if getattr(output, "loss", None) is not None:
            return output.loss
        logits = next(t for t in tensors_in(output) if t.requires_grad)
        if logits.dim() == 0:
            return logits
        classes = logits.shape[-1]
        if logits.dim() == 2 or (logits.dim() == 3 and self.integer_inputs):
            logits = logits.flatten(0, -2)
            if self.target is None:
                self.target = torch.randint(0, classes, (logits.shape[0],), device=logits.device)
            return F.cross_entropy(logits, self.target)
        if self.target is None:
            self.target = torch.randn_like(logits, requires_grad=False)
        return F.mse_loss(logits, self.target)

    def run(self, seconds: float) -> dict[str, float]:
        """Trains for about `seconds`, and for three steps at least."""
        if self.device == "cuda":
            return self._run_on_card(seconds)
        begun = time.perf_counter()
        while time.perf_counter() - begun < SETTLES_S:  # after a sleep, caches are cold
            self.step()
        start = time.time()
        wall, cpu = time.perf_counter(), time.process_time()
        steps = 0
        while steps < LEAST_STEPS or time.perf_counter() - wall < seconds:
            self.step()
            steps += 1
        return {
            "steps": steps,
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
            "start": start,
        }

    def _run_on_card(self, seconds: float) -> dict[str, float]:
        """Trains from one tick of the card's counter to another; NVML counts millijoules, ten times a second."""
        counter = Counter()
        begun = time.perf_counter()
        while time.perf_counter() - begun < CARD_SETTLES_S:
            self.step()
        first = before = counter.millijoules()
        while first == before:
            self.step()
            first = counter.millijoules()
        start, wall, steps = time.time(), time.perf_counter(), 0
        while time.perf_counter() - wall < seconds:  # the counter is not asked meanwhile: the host has enough to do
            self.step()
            steps += 1
        last = before = counter.millijoules()
        while last == before:
            self.step()
            steps += 1
            last = counter.millijoules()
        # What is issued and not done yet was neither timed nor paid; a queue is as long at the end as at the start.
        found = {"steps": steps, "wall_s": time.perf_counter() - wall, "energy_j": (last - first) / 1e3, "start": start}
        torch.cuda.synchronize()
        return found


class Counter:
    """The energy counter of the card that trains."""

    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        self._nvml = pynvml
        self._card = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(0).uuid}")

    def millijoules(self) -> int:
        """Since the driver was loaded."""
        return int(self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._card))


def placed(inputs: Inputs, device: str) -> Inputs:
    """The inputs on a device."""
    if isinstance(inputs, dict):
        return {name: tensor.to(device) for name, tensor in inputs.items()}
    return tuple(tensor.to(device) for tensor in inputs)


def prepare(
    factory: str,
    arguments: dict[str, int],
    optimizer: str,
    sync: bool = False,
    device: str = "cpu",
    precision: str = "fp32",
) -> Training:
    """The training of a factory's model, after its warm-up steps."""
    build = load_factory(factory)
    unknown = arguments.keys() - inspect.signature(build).parameters.keys()
    if unknown:
        raise SystemExit(f"{factory} has no argument {', '.join(sorted(unknown))}")
    training = Training(*build(**arguments), optimizer, sync, device, precision)
    for _ in range(WARM_UP_STEPS):
        training.step()
    return training


def main() -> None:
    """Reads commands from standard input until `quit` or its end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plain_loop", description=__doc__.splitlines()[0])
    parser.add_argument("factory", metavar="FILE:FACTORY")
    parser.add_argument("--arguments", default="", metavar="NAME=INTEGER,…")
    parser.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="sgd")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sync", action="store_true", help="read the loss after each step")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    training = prepare(
        options.factory,
        parse_arguments(options.arguments),
        options.optimizer,
        options.sync,
        options.device,
        options.precision,
    )
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if not words:
            continue
        if words == ["quit"]:
            break
        if len(words) != 2 or words[0] != "run":
            raise SystemExit(f"expected `run SECONDS` or `quit`, not {line.strip()!r}")
        print(json.dumps(training.run(float(words[1]))), flush=True)


if __name__ == "__main__":
    main()
