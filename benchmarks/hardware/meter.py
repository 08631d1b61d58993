"""What the meter is worth on a real NVIDIA card: `python -m benchmarks.hardware.meter RESULT.json`, on one.

How well measurements repeat, as CUDA graphs and eager; what the sampler costs the training step; whether the counter
agrees with integrated power; whether weights stay the same, bit by bit; ticks, reading times, the price of a timing.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.measurement.meters.nvml import open_meter
from ampere_energy.measurement.meters.sampler import SampledMeter
from ampere_energy.measurement.procedures import POINT, REPORT
from ampere_energy.measurement.records import durations, energies
from ampere_energy.measurement.training_step import Step, training_step
from ampere_energy.model.load import instantiate
from ampere_energy.model.parse import parse
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import lessons
from ampere_energy.serialization import encode

WIDTHS = (64, 128, 256, 256)
INPUT = (128, 3, 64, 64)


def net(mode: Mode) -> ModelRef:
    return model_ref("cnn5", widths=WIDTHS, input=INPUT, training=Training(1, mode=mode))


def spread(values: list[float]) -> dict[str, float]:
    middle = statistics.median(values)
    return {
        "median": middle,
        "relative std": statistics.stdev(values) / middle,
        "relative range": (max(values) - min(values)) / middle,
    }


def repeats(device: LocalDevice, mode: Mode, count: int) -> dict[str, Any]:
    """One measurement, taken again and again."""
    taken = [device.measure(net(mode), REPORT) for _ in range(count)]
    return {
        "energy_j": spread([m.energy_j for m in taken]),
        "time_s": spread([m.time_s for m in taken]),
        "stated relative error": statistics.fmean(m.energy_std_j / m.energy_j for m in taken),
        "seconds each": statistics.fmean(m.cost_s for m in taken),
        "doubts": sorted({doubt for m in taken for doubt in m.doubts}),
        "measurements": encode(taken),
    }


def pace(step: Step, seconds: float) -> float:
    """Seconds a step."""
    step.wait()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step.repeat(20)
        count += 20
    return (time.perf_counter() - start) / count


def slowdown(mode: Mode, rounds: int) -> dict[str, Any]:
    """Step time with and without a running sampler, turn and turn about."""
    step = training_step(net(mode), torch.device("cuda"), mode)
    pace(step, 2.0)
    without, with_it = [], []
    for _ in range(rounds):
        without.append(pace(step, 1.0))
        sampler = SampledMeter("nvml")
        time.sleep(0.2)
        with_it.append(pace(step, 1.0))
        sampler.close()
    ratios = [a / b - 1 for a, b in zip(with_it, without, strict=True)]
    return {"median slowdown": statistics.median(ratios), "each": ratios, "step_s": statistics.median(without)}


def agreement(seconds: float) -> dict[str, float]:
    """The counter against integrated power over some seconds of training."""
    step = training_step(net(Mode.GRAPH), torch.device("cuda"), Mode.GRAPH)
    sampler = SampledMeter("nvml")
    pace(step, 3.0)
    start = time.monotonic()
    pace(step, seconds)
    end = time.monotonic()
    over = sampler.trace_over(start, end).over(start, end)
    sampler.close()
    assert over.integrated_j is not None
    return {
        "seconds": end - start,
        "counter_j": over.total_j,
        "counter error_j": over.error_j,
        "integrated_j": over.integrated_j,
        "difference": over.integrated_j / over.total_j - 1,
    }


def identical(steps: int) -> dict[str, bool]:
    """Weights after training with the sampler running and without it, bit for bit."""

    def train(metered: bool) -> list[torch.Tensor]:
        sampler = SampledMeter("nvml") if metered else None
        step = training_step(net(Mode.EAGER), torch.device("cuda"), Mode.EAGER)
        step.repeat(steps)
        if sampler:
            sampler.close()
        return [p.detach().clone() for p in step.module.parameters()]

    torch.backends.cudnn.deterministic = True
    plain, metered, again = train(False), train(True), train(False)
    return {
        "with meter equals without": all(map(torch.equal, plain, metered)),
        "without equals without": all(map(torch.equal, plain, again)),
    }


def counter() -> dict[str, float]:
    """How long a reading takes, and how often the counter ticks."""
    meter = open_meter("")
    times, ticks, last = [], [], None
    end = time.monotonic() + 4.0
    while time.monotonic() < end:
        begun = time.monotonic()
        reading = meter.read()
        times.append(time.monotonic() - begun)
        if last is not None and reading.energy_j != last:
            ticks.append(reading.at_s)
        last = reading.energy_j
    meter.close()
    gaps = [b - a for a, b in pairwise(ticks)]
    return {"reading_s": statistics.median(times), "tick_s": statistics.median(gaps), "longest tick_s": max(gaps)}


def timings(device: LocalDevice) -> dict[str, Any]:
    """Timing-only measurements of single blocks against metered ones of the same."""
    spec = parse(instantiate(net(Mode.EAGER)), INPUT)
    rows = []
    for lesson in lessons(spec)[-3:]:
        variant = lesson.variant(tuple(r.high for r in lesson.domain))
        device.time(variant)
        timed = [device.time(variant) for _ in range(5)]
        metered = device.measure(variant, POINT)
        rows.append(
            {
                "net": str(variant),
                "timed device_s": spread([t.device_s for t in timed]),
                "metered device_s": statistics.median(durations(metered.busy)),
                "host_s": statistics.median(t.host_s or 0.0 for t in timed),
                "timing cost_s": statistics.median(t.cost_s for t in timed),
                "metering cost_s": metered.cost_s,
                "busy energy_j": statistics.median(energies(metered.busy)),
                "eager energy_j": metered.energy_j,
                "doubts": list(metered.doubts),
            }
        )
    return {"rows": rows}


def main(path: Path) -> None:
    device = LocalDevice("cuda")
    result: dict[str, Any] = {
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "net": f"cnn5 {','.join(map(str, WIDTHS))}, input {','.join(map(str, INPUT))}, fp32, sgd",
        "device": encode(device.info),
        "meter": encode(device.meter),
        "idle_w": device.idle_w(),
    }
    for name, run in {
        "counter": counter,
        "repeats graph": lambda: repeats(device, Mode.GRAPH, 10),
        "repeats eager": lambda: repeats(device, Mode.EAGER, 10),
        "timings": lambda: timings(device),
        "slowdown eager": lambda: slowdown(Mode.EAGER, 12),
        "slowdown graph": lambda: slowdown(Mode.GRAPH, 12),
        "agreement": lambda: agreement(10.0),
        "identical": lambda: identical(200),
    }.items():
        start = time.monotonic()
        result[name] = run()
        shown = {k: v for k, v in result[name].items() if k not in ("measurements", "each")}
        print(f"{name} ({time.monotonic() - start:.0f} s): {json.dumps(shown, indent=1)}", flush=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
    device.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
