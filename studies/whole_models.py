"""Whole models of full size on a real NVIDIA card: predicted from their blocks, and measured.

    python -m studies.whole_models measure FOLDER PRECISION [MODEL …]     on such a machine
    python -m studies.whole_models captured FOLDER PRECISION [MODEL …]    the same for models that ask for the mode
    python -m studies.whole_models compiled FOLDER [MODEL …]              the same for torch.compile
    python -m studies.whole_models                                       the tables, from what was recorded

Each model is profiled as it is: its blocks alone, never the whole. An eager campaign meters blocks as captured graphs
and times how long the host takes to issue them, so its records tell what both modes will cost. Then the whole model
is measured, eager and captured, on the same card. A model that computes otherwise when it is captured, as transformers'
BERT does, is profiled once more as it is then.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import statistics
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ampere_energy.campaign.adaptive import REACH_90, Guided
from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import captures_alone, record_of
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import REPORT
from ampere_energy.measurement.records import Measurement, Record, durations, energies
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import in_mode
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode, Precision, Training
from ampere_energy.model.variants import Variant

DATA = Path("data/h200-whole")
TEN = (
    "resnet18", "resnet50", "mobilenet_v2", "vgg11", "convnext_tiny", "vit_small", "unet", "bert_base", "gpt2_small",
    "lstm_language_model",
)  # fmt: skip
COMPILED = ("resnet18", "vit_small", "bert_base")
RULES = Rules(precision=1e-6)
WHOLE = replace(REPORT, warm_up_s=3.0, budget_s=3.0)


def reference(name: str, training: Training) -> ModelRef:
    return ModelRef(f"studies.models.full:{name}", (), (), training)


def measure(folder: Path, names: tuple[str, ...], training: Training) -> None:
    """Profiles the models' blocks, then measures them whole; one log a model."""
    device = LocalDevice("cuda")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as aside, contextlib.closing(device):
        specs = [(name, aside.submit(parse_ref, reference(name, training))) for name in names]
        for name, spec in specs:
            start = time.monotonic()
            try:
                _measure(folder, name, replace(spec.result(), widths=(), follows=()), device)
            except Exception:  # noqa: BLE001 - one model that fails must not lose the others
                traceback.print_exc()
            print(f"{name} {training.precision} {training.mode}: {time.monotonic() - start:.0f} s", flush=True)


def _measure(folder: Path, name: str, spec: ModelSpec, device: LocalDevice) -> None:
    ref, training = reference(name, spec.training), spec.training
    setting = f"{training.precision}" if training.mode is Mode.EAGER else f"{training.precision}_{training.mode}"
    label = f"{setting}-{name}"
    campaign = Guided(spec, [], RULES, captures_alone(device, spec))
    places = [[b.name, campaign._twin(b.kind).id, list(b.point)] for b in spec.blocks]
    (folder / f"{label}.blocks.json").write_text(json.dumps(places) + "\n")
    log = MeasurementLog(folder / f"{label}.jsonl")
    while (request := campaign.ask()) is not None:
        record = record_of(device, request)
        log.append(record)
        campaign.tell(record)
    for failure in campaign.failures():
        print(f"  {name}: {failure}"[:300], flush=True)
    whole = device.measure(ref, WHOLE)
    log.append(whole)
    if whole.infeasible:
        print(f"  {name} whole: {whole.infeasible}", flush=True)
    for trial in trials(name, spec, [*log.read()]):
        print(f"  {trial}", flush=True)


@dataclass(frozen=True)
class Trial:
    """One model in one mode: joules and seconds a step, predicted from its blocks and measured."""

    model: str
    precision: Precision
    mode: Mode
    blocks: int
    kinds: int
    profile_s: float
    predicted_j: float
    spread: float
    predicted_s: float
    measured_j: float
    measured_s: float
    busy: float

    @property
    def error(self) -> float:
        return self.predicted_j / self.measured_j - 1

    @property
    def covered(self) -> bool:
        return abs(np.log(self.measured_j / self.predicted_j)) <= REACH_90 * self.spread

    def __str__(self) -> str:
        return (
            f"{self.model} {self.precision} {self.mode}: {self.predicted_j:.2f} J ± {REACH_90 * self.spread:.1%}, "
            f"measured {self.measured_j:.2f} J, error {self.error:+.1%}; "
            f"time {self.predicted_s / self.measured_s - 1:+.1%}"
        )


def trials(name: str, spec: ModelSpec, records: list[Record]) -> Iterator[Trial]:
    """What the blocks' records predict of the whole, in each mode it was measured in."""
    *own, whole = records
    if not isinstance(whole, Measurement) or whole.infeasible:
        return
    windows = {spec.training.mode: whole.windows}
    if spec.training.mode is Mode.EAGER and whole.busy:
        windows[Mode.GRAPH] = whole.busy
    for mode, seen in windows.items():
        asked = with_mode(spec, mode)
        campaign = Guided(asked, [], RULES, mode is Mode.EAGER)
        for record in own:
            campaign.tell(record)
        fit = campaign.fit()
        if fit is None:
            continue
        net = campaign.scope.member(())
        found = steps(fit, [kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net])
        yield Trial(
            name,
            spec.training.precision,
            mode,
            len(spec.blocks),
            len(spec.kinds),
            sum(record.cost_s for record in own),
            float(found.energy_j[0]),
            float(found.spread[0]),
            float(found.time_s[0]),
            statistics.median(energies(seen)),
            statistics.median(durations(seen)),
            float(found.busy[0]),
        )


def with_mode(spec: ModelSpec, mode: Mode) -> ModelSpec:
    training = replace(spec.training, mode=mode)
    blocks = tuple(replace(b, kind=in_mode(b.kind, mode)) for b in spec.blocks)
    return replace(spec, blocks=blocks, training=training)


def recorded(path: Path) -> tuple[ModelSpec, list[Record]]:
    """A model's blocks and records, as they were written."""
    records = MeasurementLog(path.with_suffix("")).read()
    blocks = (b for r in records if isinstance(r.workload, Variant) for b in r.workload.blocks)
    kinds = {block.kind.id: block.kind for block in blocks}
    name = path.name.removesuffix(".jsonl.gz")
    places = json.loads((path.parent / f"{name}.blocks.json").read_text())
    found = tuple(Block(place, kinds[kind], tuple(point)) for place, kind, point in places)
    training = found[0].kind.training
    whole = records[-1].workload.training
    return with_mode(ModelSpec(name.partition("-")[2], found, training), whole.mode), records


def table() -> list[Trial]:
    """Every recorded model in every mode."""
    found: dict[tuple[str, Precision, Mode], Trial] = {}
    for path in sorted(DATA.glob("*.jsonl.gz")):
        spec, records = recorded(path)
        for trial in trials(spec.name, spec, records):
            key = trial.model, trial.precision, trial.mode
            if key not in found or trial.mode is spec.training.mode:
                found[key] = trial
    return list(found.values())


def run() -> dict[str, Any]:
    """Errors of every recorded model, and their medians by mode."""
    found = table()
    errors = {mode: [abs(t.error) for t in found if t.mode is mode] for mode in Mode}
    return {
        "trials": [
            {
                "model": t.model,
                "precision": t.precision.value,
                "mode": t.mode.value,
                "blocks": t.blocks,
                "kinds": t.kinds,
                "profile_s": t.profile_s,
                "predicted_j": t.predicted_j,
                "reach": REACH_90 * t.spread,
                "measured_j": t.measured_j,
                "error": t.error,
                "time error": t.predicted_s / t.measured_s - 1,
                "inside": bool(t.covered),
            }
            for t in found
        ],
        "by mode": {
            mode.value: {"models": len(own), "median error": statistics.median(own), "worst": max(own)}
            for mode, own in errors.items()
            if own
        },
    }


def main(arguments: list[str]) -> None:
    if not arguments:
        for trial in table():
            print(trial)
        return
    job, folder, *rest = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    if job == "compiled":
        measure(Path(folder), tuple(rest) or COMPILED, Training(1, mode=Mode.COMPILE))
        return
    precision, *names = rest
    mode = Mode.GRAPH if job == "captured" else Mode.EAGER
    measure(Path(folder), tuple(names) or TEN, Training(1, precision=Precision(precision), mode=mode))


if __name__ == "__main__":
    main(sys.argv[1:])
