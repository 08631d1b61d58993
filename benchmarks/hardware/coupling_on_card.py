"""Whole networks against their blocks on a card: `python -m benchmarks.hardware.coupling_on_card RESULT.jsonl`.

Networks of the family `cnn5` at batch 10, other ones than those that are evaluated, and each of their blocks alone, all
as CUDA graphs and metered for half a second, with the kernels they run. Blocks inside a network are measured once more
with what they would read there, positive and partly nought, instead of normal numbers. What the blocks sum to tells how
far energy adds up where every block is known, and so what is left to interpolation where it is not.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from ampere_energy.evaluation.experiment import random_experiment
from ampere_energy.measurement import parts
from ampere_energy.measurement import training_step as steps
from ampere_energy.measurement.memory import hand_back
from ampere_energy.measurement.meters.sampler import SampledMeter
from ampere_energy.model.blocks import Block
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import Variant, alone, whole_network
from benchmarks.hardware import card
from benchmarks.hardware.settling import chunk_of, run_for, seen
from benchmarks.results import DATA

RECORDED = DATA / "h200-company" / "blocks.jsonl.gz"
NETWORKS, SEED = 16, 99
RUN_S, CHUNK_S, SETTLED_S, TICK_S = 0.55, 0.02, 0.03, 0.1
REPLAYS = 3

Workload = tuple[tuple[int, ...], str | None, str, Variant]
"""A network's widths, one of its blocks or None for the whole, what that reads, and what is trained."""


def workloads() -> list[Workload]:
    """What is measured, in an order that drift does not follow."""
    family = random_experiment("cnn5", (10, 3, 64, 64), Training(10), models=NETWORKS, seed=SEED, step=8, budget_s=1.0)
    spec, _ = family.scope(Mode.GRAPH)
    found: list[Workload] = []
    for widths in family.members:
        whole = whole_network(spec, widths)
        found.append((widths, None, "normal", whole))
        found += [(widths, b.name, "normal", alone(b.kind, b.point)) for b in whole.blocks]
        inner = zip(whole.blocks[1:4], ("pooled", "pooled", "relu"), strict=True)
        found += [(widths, b.name, reads, alone(b.kind, b.point)) for b, reads in inner]
    return random.Random(5).sample(found, len(found))


def reading(reads: str, blocks: Sequence[Block], device: torch.device) -> parts.Part:
    """A block that reads what a ReLU before it, or a pooled one, would give."""
    part = _CHAIN(blocks, device)
    if reads == "normal":
        return part
    (x,) = part.inputs
    larger = x.shape if reads == "relu" else (*x.shape[:2], *(2 * side for side in x.shape[2:]))
    given = torch.randn(larger, device=device).relu()
    given = given if reads == "relu" else functional.max_pool2d(given, 2)
    return replace(part, inputs=(given.requires_grad_(x.requires_grad),))


_CHAIN = parts._chain


def kernels(step: steps.Step) -> dict[str, float]:
    """Microseconds of each kernel of a step."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as traced:
        step.repeat(REPLAYS)
    total: Counter[str] = Counter()
    for event in traced.events():
        if event.device_type.name == "CUDA":
            total[event.name[:90]] += event.time_range.elapsed_us() / REPLAYS
    return {name: round(us, 2) for name, us in total.items()}


def record(result: Path) -> None:
    """Measures all of it."""
    device, sampler = torch.device("cuda"), SampledMeter("nvml")
    with result.open("w") as file:
        file.write(json.dumps({"device": card.identity()}) + "\n")
        for widths, name, reads, workload in workloads():
            parts._chain = lambda blocks, on, how=reads: reading(how, blocks, on)
            step = steps.training_step(workload, device, Mode.GRAPH)
            marks = run_for(step, RUN_S, chunk_of(step, CHUNK_S))
            row = {"widths": widths, "block": name, "reads": reads, **seen(sampler, marks), "kernels": kernels(step)}
            file.write(json.dumps(row) + "\n")
            del step
            hand_back(device)
            time.sleep(0.01)
    sampler.close()


def recorded() -> Iterator[tuple[tuple[int, ...], str | None, str, float, float]]:
    """Each network's seconds and joules a step, by whole ticks."""
    with gzip.open(RECORDED, "rt") as file:
        rows = [json.loads(line) for line in file][1:]
    for row in rows:
        timed = [mark for mark in row["steps"] if mark[0] > SETTLED_S]
        step_s = (timed[-1][0] - timed[0][0]) / (timed[-1][1] - timed[0][1])
        ticks = [tick for tick in row["ticks"] if SETTLED_S <= tick[0] <= timed[-1][0] + CHUNK_S]
        ticking_s = TICK_S * round((ticks[-1][0] - ticks[0][0]) / TICK_S)
        yield (
            tuple(row["widths"]),
            row["block"],
            row["reads"],
            step_s,
            (ticks[-1][1] - ticks[0][1]) / ticking_s * step_s,
        )


def found() -> dict[str, float]:
    """How wholes differ from what their blocks sum to, in logarithms, and powers by what blocks read."""
    costs = {(widths, name, reads): (s, j) for widths, name, reads, s, j in recorded()}
    apart: dict[str, list[float]] = {"time": [], "energy": [], "power by what is read": []}
    for (widths, name, reads), (step_s, step_j) in costs.items():
        if name is None:
            alone_ = [cost for (of, block, how), cost in costs.items() if of == widths and block and how == "normal"]
            apart["time"].append(math.log(step_s / sum(s for s, _ in alone_)))
            apart["energy"].append(math.log(step_j / sum(j for _, j in alone_)))
        elif reads != "normal":
            before_s, before_j = costs[widths, name, "normal"]
            apart["power by what is read"].append(math.log(step_j / step_s * before_s / before_j))
    told: dict[str, Any] = {"networks": len(apart["time"])}
    for what, values in apart.items():
        told |= {f"{what}, mean": statistics.fmean(values), f"{what}, deviation": statistics.stdev(values)}
    return told


if __name__ == "__main__":
    record(Path(sys.argv[1]))
