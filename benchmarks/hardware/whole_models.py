"""Whole models of full size on an NVIDIA card: their blocks profiled alone, and the models themselves measured.

    python -m benchmarks.hardware.whole_models eager FOLDER PRECISION [MODEL …]    on such a machine
    python -m benchmarks.hardware.whole_models graph FOLDER PRECISION [MODEL …]    models that ask for the mode
    python -m benchmarks.hardware.whole_models compile FOLDER [MODEL …]            the same by torch.compile

Each model is profiled as it is: its blocks alone, never the whole. An eager campaign meters blocks as CUDA graphs and
times how long the host takes to issue them, so its records tell what both modes will cost. Then the whole model is
measured, eager and as a CUDA graph, on the same card. A model that computes otherwise as a graph, as transformers' BERT
does, is profiled once more as one. `python -m benchmarks "whole models"` predicts each from its blocks.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import meters_graphs, record_of
from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import REPORT
from ampere_energy.measurement.records import Record
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import in_mode
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode, Precision, Training
from ampere_energy.model.variants import Variant
from benchmarks.results import DATA

FOLDER = DATA / "h200-whole"
TEN = (
    "resnet18", "resnet50", "mobilenet_v2", "vgg11", "convnext_tiny", "vit_small", "unet", "bert_base", "gpt2_small",
    "lstm_language_model",
)  # fmt: skip
COMPILED = ("resnet18", "vit_small", "bert_base")
RULES = Rules(precision=1e-6)
WHOLE = replace(REPORT, warm_up_s=3.0, budget_s=3.0)


def reference(name: str, training: Training) -> ModelRef:
    return ModelRef(f"benchmarks.architectures.full:{name}", (), (), training)


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
    campaign = Guided(spec, [], RULES, meters_graphs(device, spec))
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
    else:
        print(f"  {name} whole: {whole.energy_j:.4g} J a step", flush=True)


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


def main(arguments: list[str]) -> None:
    mode, folder, *rest = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    if mode == Mode.COMPILE:
        measure(Path(folder), tuple(rest) or COMPILED, Training(1, mode=Mode.COMPILE))
        return
    precision, *names = rest
    measure(Path(folder), tuple(names) or TEN, Training(1, precision=Precision(precision), mode=Mode(mode)))


if __name__ == "__main__":
    main(sys.argv[1:])
