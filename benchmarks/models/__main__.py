"""Step times of all models, or of those named, with one thread: `python -m benchmarks.models [--others] [NAME …]`."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from statistics import median

import torch

from benchmarks.hardware.plain_loop import prepare
from benchmarks.models import MODELS, Model

ROOT = Path(__file__).resolve().parents[2]
STEPS = 5


def _row(name: str, model: Model, arguments: dict[str, int]) -> str:
    """The median wall and processor time of five steps after the warm-up, and the number of parameters."""
    training = prepare(str(ROOT / model.factory), arguments, model.optimizer)
    wall, cpu = [], []
    for _ in range(STEPS):
        start, cpu_start = time.perf_counter(), time.process_time()
        loss = training.step()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    if not math.isfinite(loss.item()):
        raise SystemExit(f"{name} {arguments}: the loss is {loss.item()}")
    parameters = sum(p.numel() for p in training.model.parameters())
    words = ",".join(f"{key}={value}" for key, value in arguments.items()) or "defaults"
    return f"{name:26}{words:34}{model.optimizer:10}{1e3 * median(wall):8.1f}{1e3 * median(cpu):8.1f}{parameters:12,}"


def main() -> None:
    """Prints the table row by row."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to run; all without one")
    parser.add_argument("--others", action="store_true", help="also run each model's other argument sets")
    options = parser.parse_args()
    unknown = set(options.names) - MODELS.keys()
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    print(f"{'name':26}{'arguments':34}{'optimizer':10}{'step ms':>8}{'cpu ms':>8}{'parameters':>12}")
    for name in options.names or MODELS:
        model = MODELS[name]
        for arguments in ({}, *(model.others if options.others else ())):
            print(_row(name, model, arguments), flush=True)


if __name__ == "__main__":
    main()
