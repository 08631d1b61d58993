"""Whole families of networks, recorded on real devices.

    python -m benchmarks.hardware.families record PLAN FOLDER [NAME[:PARTS] …]    on such a device; resumes
    python -m benchmarks.hardware.families pack FOLDER                            finished logs, into `data/PLAN`

A plan is a list of experiments (`ampere evaluate --record`), each a process of its own, and two sweeps: a network which
grows by equal layers, with its operators' phases by themselves (the paper's figure 2), and a linear layer over widths
(figures 5 and 6). `python -m benchmarks evaluation` scores what is recorded.
"""

from __future__ import annotations

import contextlib
import gzip
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from ampere_energy.evaluation.experiment import Part, read
from ampere_energy.evaluation.recorded import Recorded, load
from ampere_energy.measurement.devices import open_device
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import point_of
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.parse import parse
from ampere_energy.model.training import Training
from ampere_energy.model.variants import Phase, Variant, alone
from benchmarks.results import DATA

DEPTHS = 8
WIDTHS = (*range(8, 513, 24), 16, 64, 128, 256, 320, 384, 448, 512, 100, 250, 333, 500)


@dataclass(frozen=True)
class Planned:
    """One experiment: networks of a family of arbitrary (`step` 1) or aligned widths, at one batch.

    Attributes:
        options: of `ampere evaluate` for a training that is not the usual: `--optimizer`, `--precision`.
    """

    name: str
    family: str
    input: tuple[int, ...]
    step: int
    budget: str
    parts: tuple[Part, ...] = tuple(Part)
    options: tuple[str, ...] = ()


def _bf16(name: str, family: str, shape: tuple[int, ...]) -> Planned:
    """Networks of a family of aligned widths, trained as large models are: in bf16, by AdamW."""
    options = ("--precision", "bf16", "--optimizer", "adamw")
    return Planned(f"{name}_bf16-aligned", family, shape, 8, "80s", (Part.CAMPAIGN, Part.MEMBERS), options)


def _plan(budget: str, without: tuple[Part, ...] = (), **inputs: tuple[str, tuple[int, ...]]) -> tuple[Planned, ...]:
    """Each family aligned and not; phases of operators and the paper's campaign are recorded of one of the two.

    `lenet5` has no aligned widths: its first layer is at most 6 wide.
    """
    every = tuple(part for part in Part if part not in without)
    aligned = tuple(part for part in every if part not in (Part.OPERATORS, Part.PAPER))
    pairs = ((name, family, shape) for name, (family, shape) in inputs.items())
    return tuple(
        Planned(f"{name}-{widths}", family, shape, step, budget, parts)
        for name, family, shape in pairs
        for widths, step, parts in (("aligned", 8, aligned), ("any", 1, every))
        if step == 1 or family != "lenet5"
    )


PLANS = {
    "h200": (
        *_plan(
            "96s",
            cnn5=("cnn5", (512, 3, 64, 64)),
            resnet=("resnet18", (512, 3, 32, 32)),
            transformer=("transformer", (256, 128)),
            lstm=("lstm", (1024, 64)),
            har=("har", (16384, 9, 128)),
            lenet5=("lenet5", (65536, 1, 28, 28)),
            cnn5_10=("cnn5", (10, 3, 64, 64)),
            resnet_10=("resnet18", (10, 3, 32, 32)),
        ),
        Planned("cnn5_128-aligned", "cnn5", (128, 3, 64, 64), 8, "96s"),
        _bf16("cnn5", "cnn5", (512, 3, 64, 64)),
        _bf16("resnet", "resnet18", (512, 3, 32, 32)),
        _bf16("transformer", "transformer", (256, 128)),
    ),
    "cpu": _plan(
        "45s",
        without=(Part.REFINED,),
        lenet5=("lenet5", (64, 1, 28, 28)),
        har=("har", (10, 9, 128)),
        cnn5=("cnn5", (10, 1, 28, 28)),
        lstm=("lstm", (10, 64)),
        transformer=("transformer", (10, 64)),
        resnet=("resnet18", (10, 3, 16, 16)),
    ),
}
DEVICES = {"h200": ("cuda", None), "cpu": ("cpu", 1)}


def record(plan: str, folder: Path, names: tuple[str, ...]) -> None:
    """Runs the experiments of these names, or all, and the sweeps.

    After a colon a name may have the parts to record: `cnn5-any:operators` continues on another card.
    """
    device, threads = DEVICES[plan]
    wanted = {name: parts for name, _, parts in (asked.partition(":") for asked in names)}
    for planned in PLANS[plan]:
        if names and planned.name not in wanted:
            continue
        place = folder / planned.name
        budget = f"{read(place).budget_s:g}s" if (place / "experiment.json").exists() else planned.budget
        words = ["evaluate", planned.family, "--device", device, "--record", str(place)]
        words += ["--input", ",".join(map(str, planned.input)), "--width-step", str(planned.step)]
        words += ["--budget", budget, "--parts", wanted.get(planned.name) or ",".join(planned.parts)]
        words += [*planned.options, *(["--threads", str(threads)] if threads else [])]
        print(" ".join(words), flush=True)
        subprocess.run([sys.executable, "-m", "ampere_energy", *words], check=False)
    for name, sweep in (("depth", depth_sweep), ("linear", linear_sweep)):
        if names and name not in wanted:
            continue
        log = MeasurementLog(folder / f"{name}.jsonl")
        done = len(log.read())
        with contextlib.closing(open_device(device, threads=threads)) as opened:
            for variant in list(sweep())[done:]:
                log.append(opened.measure(variant, point_of(opened.meter)))


def _sequential(*layers: nn.Module, shape: tuple[int, ...]) -> ModelSpec:
    return parse(nn.Sequential(*layers), shape, training=Training(shape[0]))


def depth_sweep() -> Iterator[Variant]:
    """Networks of an input, 0 to 8 equal convolutions and an output; then each of their operators' phases."""
    for depth in range(DEPTHS + 1):
        yield Variant(grown(depth).blocks)
    blocks = {block.kind: block for block in grown(2).blocks}
    for block in blocks.values():
        for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE):
            yield replace(alone(block.kind, block.point), phase=phase)


def grown(depth: int) -> ModelSpec:
    """The network of the paper's figure 2 with so many equal layers."""
    equal = [layer for _ in range(depth) for layer in (nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())]
    layers = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), *equal, nn.Flatten(), nn.Linear(32 * 28 * 28, 10)]
    return _sequential(*layers, shape=(128, 1, 28, 28))


def linear_sweep() -> Iterator[Variant]:
    """A linear layer that reads images, at many numbers of channels; those with other divisors among them."""
    for width in dict.fromkeys(WIDTHS):
        spec = _sequential(nn.Flatten(), nn.Linear(width * 28 * 28, 10), shape=(64, width, 28, 28))
        yield Variant(spec.blocks)


def pack(folder: Path) -> None:
    """Finished experiments, packed into the repository's data."""
    target = DATA / folder.name
    for path in sorted(folder.rglob("*")):
        where = target / path.relative_to(folder)
        if path.suffix == ".jsonl":
            where.parent.mkdir(parents=True, exist_ok=True)
            where.with_name(f"{where.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        elif path.name in ("experiment.json", "campaign.json"):
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(path.read_bytes())


def packed(plan: str) -> Iterator[tuple[Planned, Recorded]]:
    """The experiments of a plan that are recorded."""
    for planned in PLANS[plan]:
        place = DATA / plan / planned.name
        if (place / "members.jsonl.gz").exists():
            yield planned, load(place)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["record", plan, folder, *names]:
            record(plan, Path(folder), tuple(names))
        case ["pack", folder]:
            pack(Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
