"""Do blocks take as long alone as within their model? `python -m benchmarks.hardware.coupling_on_cpu`, on a processor.

All blocks of a model and the model itself are built at once and timed in turn, round after round, so that a machine
that changes its speed changes it for all. A block's time is its median over the rounds; their sum is compared with
the median of the whole.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from datetime import UTC, datetime
from typing import Any

import torch

from ampere_energy.measurement.devices.local import processor_name
from ampere_energy.measurement.training_step import Step, training_step
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import alone
from benchmarks.results import DATA

MODELS = {
    "ResNet-18 at 32×32": "benchmarks.architectures.small:resnet18",
    "LSTM": "benchmarks.architectures.small:lstm",
    "small BERT": "benchmarks.architectures.small:bert",
    "MobileNetV2": "benchmarks.architectures.small:mobilenet_v2",
}
RECORDED = DATA / "cpu-company" / "company.json"
ROUNDS = 25
_LEAST_S = 0.02


def coupling(source: str, rounds: int) -> dict[str, Any]:
    """The time of a model, and of its blocks alone, in seconds a step."""
    ref, cpu = ModelRef(source, (), (), Training(1)), torch.device("cpu")
    spec = parse_ref(ref)
    whole = training_step(ref, cpu, Mode.EAGER)
    kinds = list(dict.fromkeys((b.kind, b.point) for b in spec.blocks))
    steps = {key: training_step(alone(*key), cpu, Mode.EAGER) for key in kinds}
    order: list[tuple[Any, Step]] = [(None, whole), *steps.items()]
    repeats = {}
    for key, step in order:
        step.run()
        repeats[key] = max(1, round(_LEAST_S / max(_seconds(step, 1), 1e-6)))
    taken: dict[Any, list[float]] = {key: [] for key, _ in order}
    for _ in range(rounds):
        for key, step in order:
            taken[key].append(_seconds(step, repeats[key]))
    medians = {key: statistics.median(times) for key, times in taken.items()}
    total = sum(medians[b.kind, b.point] for b in spec.blocks)
    return {
        "blocks": len(spec.blocks),
        "kinds": len(spec.kinds),
        "batch": spec.training.batch,
        "whole_s": medians[None],
        "blocks_s": total,
        "difference": total / medians[None] - 1,
        "spread of the whole": _spread(taken[None]),
    }


def _spread(times: list[float]) -> float:
    low, _, high = statistics.quantiles(times, n=4)
    return high / low - 1


def _seconds(step: Step, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        step.run()
    return (time.perf_counter() - start) / repeats


def main(rounds: int) -> None:
    torch.set_num_threads(1)
    found = {}
    for name, source in MODELS.items():
        found[name] = coupling(source, rounds)
        print(name, {k: round(v, 4) for k, v in found[name].items()}, flush=True)
    about = {
        "processor": processor_name(),
        "threads": 1,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "rounds": rounds,
    }
    RECORDED.parent.mkdir(parents=True, exist_ok=True)
    RECORDED.write_text(json.dumps({"about": about, "models": found}, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
