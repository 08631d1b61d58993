"""Models trained alike on real images, and the joules of their whole trainings (the paper's figure 13).

    python -m benchmarks.hardware.trainings IMAGES LOG --model original=cnn5 --model ampere=pruned.pt … [--device cuda]

A model is named as everywhere (`cnn5`, `file.py:factory`, widths after an @: `cnn5@8,32,256,256`), or is a module that
`torch.save` wrote, such as a pruned one. Each is trained from what its builder gives, on the same batches in the same
order, and is a line of the log when done; what the log already has is not trained again. `benchmarks.pages.trainings`
shows a log.

Evaluation is no part of the metered training: weights are copied at checkpoints and tested when the meter has been
read. Before it starts, a copy of the model is trained until device and libraries are warm, and thrown away.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from ampere_energy.errors import MeterError, RequestError
from ampere_energy.measurement.devices.local import best_meter
from ampere_energy.measurement.devices.worker import for_device, identity
from ampere_energy.measurement.meter_gate import busy, passed
from ampere_energy.measurement.meters.recorder import Recorder, open_recorder
from ampere_energy.measurement.records import DeviceInfo, MeterInfo
from ampere_energy.measurement.training_step import Step, as_cuda_graph
from ampere_energy.model.load import instantiate
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode
from ampere_energy.serialization import decode, encode, parse_json
from ampere_energy.units import percent, si
from benchmarks.hardware import images
from benchmarks.hardware.images import Images
from benchmarks.results import DATA

RECORDED = DATA / "h200-pruned" / "case.jsonl"
"""Where `benchmarks.hardware.pruning pack` puts the log of a run on a card."""
Builder = Callable[[], nn.Module]
RATES = ((0.0, 1.0), (0.6, 0.1), (0.9, 0.01))
"""From which share of the steps on which part of the learning rate is used."""
_IDLE_S = 1.0
_TESTED_AT_ONCE = 1000


@dataclass(frozen=True)
class Plan:
    """How every model is trained.

    Attributes:
        rate: learning rate at the beginning; it falls by `RATES`.
        mode: eager, or each step a CUDA graph; recording one takes three more updates at each rate.
        size, channels: what images are brought to; their own where None.
        checkpoints: how often the weights are kept, to be tested later.
        warm_up_s: how long a copy is trained before.
    """

    steps: int = 1500
    batch: int = 128
    rate: float = 0.05
    momentum: float = 0.0
    mode: Mode = Mode.EAGER
    size: int | None = None
    channels: int | None = None
    seed: int = 0
    checkpoints: int = 15
    warm_up_s: float = 3.0

    def __post_init__(self) -> None:
        if not 1 <= self.checkpoints <= self.steps or self.batch < 1:
            told = f"{self.steps} steps of {self.batch} with {self.checkpoints} checkpoints"
            raise RequestError(told, "give more steps")
        if self.mode is Mode.COMPILE:
            raise RequestError("--mode compile", "train eager or graph")


@dataclass(frozen=True)
class Checkpoint:
    """After a step: the mean loss of training since the one before, and loss and accuracy on unseen images."""

    step: int
    loss: float
    test_loss: float
    accuracy: float


@dataclass(frozen=True)
class Trained:
    """A training that is over: all its joules and seconds, and its curve."""

    model: str
    parameters: int
    plan: Plan
    device: DeviceInfo
    meter: MeterInfo
    energy_j: float
    error_j: float
    time_s: float
    idle_w: float
    recorded_at: str
    curve: tuple[Checkpoint, ...]

    def joules_at(self, checkpoint: Checkpoint) -> float:
        """All steps cost the same."""
        return self.energy_j * checkpoint.step / self.plan.steps


class _Run:
    """A model in training: batches of its data in a fixed random order."""

    def __init__(self, module: nn.Module, data: Images, plan: Plan) -> None:
        self._module, self._data, self._plan = module, data, plan
        self._device = data.pictures.device
        self._draw = torch.Generator().manual_seed(plan.seed)
        self._order = torch.zeros(0, dtype=torch.long)
        self._pictures = torch.empty((plan.batch, *data.pictures.shape[1:]), device=self._device)
        self._labels = torch.zeros(plan.batch, dtype=torch.long, device=self._device)
        self.loss = torch.zeros((), device=self._device)
        self._optimizer = torch.optim.SGD(module.parameters(), plan.rate, plan.momentum)
        self._step: Step | None = None

    def _batch(self) -> None:
        if len(self._order) < self._plan.batch:
            self._order = torch.randperm(len(self._data.labels), generator=self._draw).to(self._device)
        chosen, self._order = self._order[: self._plan.batch], self._order[self._plan.batch :]
        self._pictures.copy_(self._data.pictures[chosen])
        self._labels.copy_(self._data.labels[chosen])

    def _one(self) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self._module(self._pictures), self._labels)
        loss.backward()
        self._optimizer.step()
        self.loss += loss.detach()

    def _ready(self, rate: float) -> Step:
        """A step at a learning rate; a CUDA graph has it for good, so there is one for each."""
        self._optimizer.param_groups[0]["lr"] = rate
        step, before = Step(self._one, self._module, self._device), self.loss.clone()
        ready = as_cuda_graph(step) if self._plan.mode is Mode.GRAPH else step
        self.loss.copy_(before)
        return ready

    def step(self, done: int) -> None:
        """The next step, when so many are done."""
        self._batch()
        parts = [part for start, part in RATES if done == round(start * self._plan.steps)]
        if parts or self._step is None:
            self._step = self._ready(self._plan.rate * (parts[-1] if parts else 1.0))
        self._step.run()

    def wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def train(
    name: str,
    builder: Builder,
    data: Images,
    unseen: Images,
    plan: Plan,
    device: DeviceInfo,
    recorder: Recorder,
    idle: float,
) -> Trained:
    """Trains what a builder gives, and meters it.

    Args:
        name: what the model is called.
        builder: gives the module; its weights are where training starts.
        data: the training images, on the device.
        unseen: those to be tested on.
        plan: how to train.
        device: on what.
        recorder: the meter.
        idle: watts of the idle device.
    """
    torch.manual_seed(plan.seed)
    where = data.pictures.device
    module = builder().to(where).train()
    _warm_up(copy.deepcopy(module), data, plan)
    checkpoints = {round((i + 1) * plan.steps / plan.checkpoints) for i in range(plan.checkpoints)}
    kept: list[tuple[int, torch.Tensor, dict[str, torch.Tensor]]] = []
    run = _Run(module, data, plan)
    start_s = recorder.mark()
    for done in range(plan.steps):
        run.step(done)
        if done + 1 in checkpoints:
            weights = {key: value.detach().clone() for key, value in module.state_dict().items()}
            kept.append((done + 1, run.loss.clone(), weights))
            run.loss.zero_()
    run.wait()
    end_s = recorder.mark()
    (over,) = recorder.over([(start_s, end_s)])
    return Trained(
        name,
        sum(parameter.numel() for parameter in module.parameters()),
        plan,
        device,
        recorder.info,
        over.total_j,
        over.error_j,
        end_s - start_s,
        idle,
        datetime.now(UTC).isoformat(timespec="seconds"),
        _tested(module, kept, unseen),
    )


def _warm_up(module: nn.Module, data: Images, plan: Plan) -> None:
    run, done, until_s = _Run(module, data, plan), 0, time.monotonic() + plan.warm_up_s
    while time.monotonic() < until_s:
        run.step(1 if done else 0)
        run.wait()
        done += 1


def short_loss(module: nn.Module, data: Images, plan: Plan) -> float:
    """The mean loss of a training that nobody meters, by which models are compared that will be trained longer."""
    run = _Run(module.train(), data, plan)
    for done in range(plan.steps):
        run.step(done)
    return run.loss.item() / plan.steps


def _tested(
    module: nn.Module, kept: Sequence[tuple[int, torch.Tensor, dict[str, torch.Tensor]]], unseen: Images
) -> tuple[Checkpoint, ...]:
    module.eval()
    curve, before = [], 0
    for step, loss, weights in kept:
        module.load_state_dict(weights)
        total, right = 0.0, 0
        with torch.no_grad():
            for place in range(0, len(unseen.labels), _TESTED_AT_ONCE):
                labels = unseen.labels[place : place + _TESTED_AT_ONCE]
                found = module(unseen.pictures[place : place + _TESTED_AT_ONCE])
                total += functional.cross_entropy(found, labels, reduction="sum").item()
                right += int((found.argmax(1) == labels).sum())
        count = len(unseen.labels)
        curve.append(Checkpoint(step, loss.item() / (step - before), total / count, right / count))
        before = step
    return tuple(curve)


def run(
    builders: Mapping[str, Builder],
    folder: Path,
    log: Path,
    plan: Plan,
    *,
    device: str = "cpu",
    meter: str | None = None,
    seeds: int = 1,
    say: Callable[[str], None] = print,
) -> list[Trained]:
    """Trains all models, each with every seed, except what the log has; all that the log then has of this plan."""
    where = torch.device(device)
    pictures = [
        images.load(folder, split, plan.size).on(where, plan.size, plan.channels) for split in ("train", "test")
    ]
    info = DeviceInfo(device, tuple((key, str(value)) for key, value in identity(where).items()))
    recorder = open_recorder(for_device(meter or best_meter(device), where))
    before = read(log)
    for found in before:
        if (found.device, found.meter) != (info, recorder.info):
            recorder.close()
            raise RequestError(f"{log} was recorded on {found.device}, this is {info}", "choose another log")
    done = {(found.model, found.plan) for found in before}
    try:
        verdict = passed(recorder, partial(busy, where), _IDLE_S)
        if verdict.refusal is not None:
            raise MeterError(verdict.refusal)
        idle = verdict.idle_w
        for seed in range(seeds):
            for name, builder in builders.items():
                asked = replace(plan, seed=plan.seed + seed)
                if (name, asked) in done:
                    say(f"{name}, seed {asked.seed}: in the log already")
                    continue
                found = train(name, builder, *pictures, asked, info, recorder, idle)
                append(log, found)
                say(
                    f"{name}, seed {asked.seed}: {si(found.energy_j, 'J')} {found.meter.provenance} in "
                    f"{si(found.time_s, 's')}, accuracy {percent(found.curve[-1].accuracy)}"
                )
    finally:
        recorder.close()
    wanted = {replace(plan, seed=plan.seed + seed) for seed in range(seeds)}
    return [found for found in read(log) if found.plan in wanted]


def append(log: Path, found: Trained) -> None:
    """Adds a line; when this returns, it is on disk."""
    log.parent.mkdir(parents=True, exist_ok=True)
    torn = log.exists() and not log.read_bytes().endswith(b"\n") and log.stat().st_size
    with log.open("a") as file:
        file.write(("\n" if torn else "") + json.dumps(encode(found), allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(log: Path) -> list[Trained]:
    """What was trained; a line that was cut short is left out, and trained again."""
    if not log.exists():
        return []
    found = []
    for number, line in enumerate(log.read_text().splitlines(), start=1):
        if line.endswith("}"):
            found.append(decode(Trained, parse_json(line, f"{log} line {number}"), f"{log} line {number}"))
    return found


def builder_of(source: str, input: tuple[int, ...]) -> Builder:
    """What makes the module of a source."""
    if source.endswith((".pt", ".pth")):
        return lambda: torch.load(source, map_location="cpu", weights_only=False)
    source, _, widths = source.partition("@")
    ref = model_ref(source, widths=tuple(int(width) for width in widths.split(",") if width), input=input)
    return lambda: instantiate(ref)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hardware.trainings")
    parser.add_argument("images", type=Path)
    parser.add_argument("log", type=Path)
    parser.add_argument("--model", action="append", required=True, metavar="NAME=SOURCE")
    for name in ("device", "meter"):
        parser.add_argument(f"--{name}", default={"device": "cpu"}.get(name))
    parser.add_argument("--seeds", type=int, default=1)
    usual = Plan()
    for name in ("steps", "batch", "size", "channels", "seed", "checkpoints"):
        parser.add_argument(f"--{name}", type=int, default=getattr(usual, name))
    for name in ("rate", "momentum", "warm-up-s"):
        parser.add_argument(f"--{name}", type=float, default=getattr(usual, name.replace("-", "_")))
    parser.add_argument("--mode", type=Mode, default=usual.mode)
    asked = parser.parse_args(arguments)
    plan = Plan(**{name: getattr(asked, name) for name in Plan.__dataclass_fields__})
    sample = images.load(asked.images, "test", asked.size).pictures.shape[1:]
    channels, size = asked.channels or sample[0], asked.size or sample[1]
    shape = (asked.batch, channels, size, asked.size or sample[2])
    named = dict(model.split("=", 1) for model in asked.model)
    builders = {name: builder_of(source, shape) for name, source in named.items()}
    run(builders, asked.images, asked.log, plan, device=asked.device, meter=asked.meter, seeds=asked.seeds)


if __name__ == "__main__":
    main(sys.argv[1:])
