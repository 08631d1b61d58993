"""What a card's power does after it begins a step: `python -m benchmarks.hardware.settling FOLDER [PART …]`, on one.

`settling`: metered workloads of the recorded campaigns, each run for a second and a half after a pause; the counter's
ticks tell how soon a metering may begin. `warming`: one training step run for minutes without a pause; energy
a step, temperature and clock tell what a long run costs that seconds do not. `meterings`: what a campaign's metering
says of such workloads, against two seconds of each.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from ampere_energy.evaluation.experiment import Part
from ampere_energy.evaluation.recorded import load
from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.measurement.memory import hand_back
from ampere_energy.measurement.meters.nvml import open_meter
from ampere_energy.measurement.meters.sampler import SampledMeter
from ampere_energy.measurement.procedures import point_of
from ampere_energy.measurement.records import Measurement
from ampere_energy.measurement.training_step import Step, training_step
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.serialization import encode
from benchmarks.results import DATA

SETS = ("cnn5-any", "har-any", "lstm-any", "resnet-any", "transformer-aligned", "resnet_10-any", "lenet5-any")
EACH = 4
RUN_S = 1.5
PAUSE_S = 0.3
CHUNK_S = 0.02
RESNET, CNN = ("resnet18", (512, 3, 32, 32)), ("cnn5", (512, 3, 64, 64))
LONG = ((*RESNET, 8.0), (*CNN, 120.0), (*RESNET, 20.0))
"""A model before and after minutes of another, which is metered all the while."""


def run_for(step: Step, seconds: float, chunk: int) -> list[tuple[float, int]]:
    """Moments and the steps done by then, chunk by chunk."""
    marks, done = [(time.monotonic(), 0)], 0
    while marks[-1][0] - marks[0][0] < seconds:
        step.repeat(chunk)
        done += chunk
        marks.append((time.monotonic(), done))
    return marks


def chunk_of(step: Step, seconds: float) -> int:
    """Steps that take about so long, from three of them."""
    step.repeat(1)
    start = time.monotonic()
    step.repeat(3)
    return max(1, round(3 * seconds / (time.monotonic() - start)))


def ticks_of(sampler: SampledMeter, start_s: float, end_s: float) -> list[tuple[float, float]]:
    """When the counter was seen to tick, and its joules then."""
    readings = sampler.trace_over(start_s, end_s).readings
    return [((a.at_s + b.at_s) / 2, b.total_j) for a, b in pairwise(readings) if b.total_j != a.total_j]


def seen(sampler: SampledMeter, marks: Sequence[tuple[float, int]]) -> dict[str, list[list[float]]]:
    """Steps and ticks of a run, in seconds since it began."""
    start = marks[0][0]
    return {
        "steps": [[round(at - start, 5), done] for at, done in marks],
        "ticks": [[round(at - start, 5), j] for at, j in ticks_of(sampler, start, marks[-1][0])],
    }


def workloads(each: int, sets: Sequence[str] = SETS) -> Iterator[tuple[str, Workload]]:
    """So many metered ones of each set's campaign, from its first to its last."""
    for name in sets:
        records = load(DATA / "h200" / name).parts[Part.CAMPAIGN]
        metered = [r for r in records if isinstance(r, Measurement) and not r.infeasible]
        yield from ((name, metered[place * (len(metered) - 1) // (each - 1)].workload) for place in range(each))


def settling(sampler: SampledMeter, device: torch.device) -> list[dict[str, Any]]:
    rows = []
    for name, workload in workloads(EACH):
        step = training_step(workload, device, workload.training.mode)
        chunk = chunk_of(step, CHUNK_S)
        time.sleep(PAUSE_S)
        marks = run_for(step, RUN_S, chunk)
        rows.append({"set": name, "workload": str(workload), **seen(sampler, marks)})
        del step
        hand_back(device)
    return rows


def warming(sampler: SampledMeter, device: torch.device) -> list[dict[str, Any]]:
    card = open_meter("")
    rows = []
    for family, shape, seconds in LONG:
        step = training_step(model_ref(family, input=shape, training=Training(1, mode=Mode.GRAPH)), device, Mode.GRAPH)
        chunk = chunk_of(step, 1.0)
        looks: list[dict[str, float]] = []
        spans: list[tuple[float, float]] = []
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            begin = time.monotonic()
            for _ in range(chunk):
                step.run()
            told = dict(card.conditions())  # while the card still works
            step.wait()
            spans.append((begin, time.monotonic()))
            looks.append({name: float(told[name]) for name in ("temperature C", "sm clock MHz")})
        trace = sampler.trace_over(start, time.monotonic())
        for look, (begin, end) in zip(looks, spans, strict=True):
            over = trace.over(begin, end)
            look |= {
                "at_s": begin - start,
                "step_s": (end - begin) / chunk,
                "step_j": over.total_j / chunk,
                "error_j": over.error_j / chunk,
            }
        rows.append({"family": family, "input": shape, "looks": looks})
        del step
        hand_back(device)
    return rows


def meterings(device: LocalDevice) -> list[dict[str, Any]]:
    short = point_of(device.meter)
    rows = []
    for name, workload in workloads(2, SETS[:4]):
        first, long, second = (device.measure(workload, how) for how in (short, replace(short, ticks=19), short))
        row: dict[str, Any] = {"set": name, "workload": str(workload), "mode": workload.training.mode}
        for told, found in (("first", first), ("long", long), ("second", second)):
            row[told] = {
                "step_j": found.energy_j,
                "step_s": found.time_s,
                "error_j": found.energy_std_j,
                "window_s": found.windows[0].time_s,
                "cost_s": found.cost_s,
                "doubts": list(found.doubts),
            }
        rows.append(row)
    return rows


def main(folder: Path, parts: Sequence[str]) -> None:
    device = LocalDevice("cuda")
    about = {
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": encode(device.info),
        "meter": encode(device.meter),
        "idle_w": device.idle_w(),
    }
    sampler = SampledMeter("nvml")
    made: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "settling": lambda: settling(sampler, torch.device("cuda")),
        "warming": lambda: warming(sampler, torch.device("cuda")),
        "meterings": lambda: meterings(device),
    }
    for part in parts or made:
        (folder / f"{part}.json").write_text(json.dumps({**about, "rows": made[part]()}) + "\n")
    sampler.close()
    device.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
