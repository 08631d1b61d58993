"""Where the time of a timing goes, and whether eager steps take what CUDA graphs do: on a machine with a card,

    python -m benchmarks.hardware.timings RESULT.jsonl

Some blocks of recorded campaigns, each built, run, timed as it is issued, and timed again as a CUDA graph. What is
recorded is `data/h200-meter/timings.jsonl.gz`; `decisions/033-looks.md` says what it shows. Milliseconds.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.memory import hand_back_much
from ampere_energy.measurement.timing import device_s
from ampere_energy.measurement.training_step import as_cuda_graph, training_step
from ampere_energy.measurement.workloads import Workload, run_as
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Variant
from benchmarks.hardware import card
from benchmarks.results import DATA

SETS = [
    "har-any",
    "cnn5-any",
    "cnn5_10-aligned",
    "resnet-aligned",
    "lstm-any",
    "transformer-aligned",
    "resnet_10-any",
    "lenet5-any",
]
BLOCKS = 22
STEPS = 3


def _taking_ms(what: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    found = what()
    torch.cuda.synchronize()
    return found, 1e3 * (time.perf_counter() - start)


def stages(workload: Workload, device: torch.device) -> dict[str, float]:
    """One block's times, and what finding them out takes."""
    step, build = _taking_ms(lambda: training_step(run_as(workload, Mode.EAGER), device, Mode.EAGER))
    _, first = _taking_ms(step.run)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    step.run()
    begin.record()  # type: ignore[no-untyped-call]
    for _ in range(STEPS):
        step.run()
    end.record()  # type: ignore[no-untyped-call]
    step.wait()
    start = time.perf_counter()
    step.run()
    host_ms = 1e3 * (time.perf_counter() - start)
    graph, capture = _taking_ms(lambda: as_cuda_graph(step))
    own_s, replays = _taking_ms(lambda: device_s(graph))
    times = {"host_ms": host_ms, "eager_ms": begin.elapsed_time(end) / STEPS, "captured_ms": 1e3 * own_s}  # type: ignore[no-untyped-call]
    return {"build": build, "first": first, "capture": capture, "replays": replays} | times


def main(result: str) -> None:
    """Times some blocks of each set."""
    device, draw = torch.device("cuda"), random.Random(7)
    with Path(result).open("w") as file:
        print(json.dumps({"device": card.identity()}), file=file)
        for name in SETS:
            seen = [r.workload for r in MeasurementLog(DATA / "h200" / name / "campaign.jsonl").read()]
            blocks = dict.fromkeys(w for w in seen if isinstance(w, Variant) and len(w.blocks) == 1)
            for workload in draw.sample(list(blocks), BLOCKS):
                (block,) = workload.blocks
                found = stages(workload, device)
                told = {
                    "set": name,
                    "op": block.kind.id,
                    "point": block.point,
                    **{k: round(v, 4) for k, v in found.items()},
                }
                print(json.dumps(told), file=file)
                hand_back_much(device)


if __name__ == "__main__":
    main(sys.argv[1])
