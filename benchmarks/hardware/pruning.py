"""Models pruned to half their energy on an NVIDIA card: chosen by estimates, and measured.

    python -m benchmarks.hardware.pruning record FOLDER [NAME …]    on such a machine; resumes
    python -m benchmarks.hardware.pruning pack FOLDER               what has a whole round, into `data/h200-pruned`

Each of `NETS` is a folder of logs: a campaign as `ampere profile --prunable --width-step 8` makes it
(`campaign.jsonl`), the models that `ampere prune --budget 50% --refine` measures on its way (`refined.jsonl`), what it
chose and what FLOPs and chance did (`chosen.json`), and in the end the original and these, in rounds one after another,
as one measures what will be quoted (`measured.jsonl`). One whole round is enough to pack and score a net; the table
says how many there are, and `record` goes on to `ROUNDS` of them. Every measurement carries its device; a log that
another card began is refused: delete the net's folder and record it anew. Steps are CUDA graphs, which the host's noise
does not reach, unless `--mode eager` is given; the net's folder is then named after the mode.

torch-pruning needs torch and numpy alone, so that a copy of its package on the path will do where it is not installed.
The whole sequence, with such a copy in `build/extras`, and the images of the trainings in IMAGES:

    export PYTHONPATH=src:.:build/extras
    python3 -m benchmarks.hardware.pruning record build/h200-pruned cnn5 resnet18
    python3 -m benchmarks.hardware.pruning record build/h200-pruned mobilenet_v2
    python3 -m benchmarks.hardware.pruning record build/h200-pruned case --images IMAGES
    M=build/h200-pruned/case
    python3 -m benchmarks.hardware.trainings IMAGES build/h200-pruned/case.jsonl --device cuda --mode graph \\
        --batch 512 --steps 6000 --seeds 3 --model original=$M/original.pt --model ampere=$M/ampere.pt \\
        --model flops=$M/flops.pt --model random=$M/random.pt
    python3 -m benchmarks.hardware.pruning pack build/h200-pruned
    python3 -m benchmarks pruning

`case` is the CNN of the trainings at the images' own size, and keeps its modules; its training log is packed with the
nets. All four start from the same weights, less what was pruned, so that seeds differ in the order of the images alone;
`--images` lets chance judge its candidates by these images instead of noise.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.errors import AmpereError, DeviceError, RequestError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Estimate
from ampere_energy.measurement.devices import Device, open_device
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, Timing, same_setting
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import block_points
from ampere_energy.model.widths import WidthRange
from ampere_energy.optimization.pruning.channels import Channels, prunable
from ampere_energy.optimization.pruning.prune import FAVOURABLE, prune
from ampere_energy.optimization.pruning.pruned import Budget, Guide, Pruned, measured
from ampere_energy.optimization.pruning.refine import refined
from ampere_energy.profiles.profile import Profile
from ampere_energy.serialization import decode, encode, parse_json
from benchmarks.hardware import images, trainings
from benchmarks.hardware.images import Images
from benchmarks.results import DATA

PRUNED = DATA / "h200-pruned"
BUDGET = Budget(share=0.5)
ROUNDS = 2
CLASSES = 10
ORIGINAL = "original"


@dataclass(frozen=True)
class Net:
    """A model to prune at a batch that keeps the card busy, by some guides.

    Attributes:
        keeps: whether the modules are kept, to be trained.
        samples: of chance, how many candidates are trained for a short while.
    """

    source: str
    input: tuple[int, ...]
    guides: tuple[Guide, ...] = (Guide.AMPERE, Guide.FLOPS)
    keeps: bool = False
    rules: Rules = Rules(precision=0.02, budget_s=80.0)
    samples: int = 8

    def ref(self, mode: Mode) -> ModelRef:
        return model_ref(self.source, input=self.input, training=Training(1, mode=mode))


NETS = {
    "cnn5": Net("cnn5", (512, 3, 64, 64), tuple(Guide)),
    "resnet18": Net("resnet18", (512, 3, 32, 32)),
    "mobilenet_v2": Net("benchmarks.architectures.convnets:mobilenet_v2", (512, 3, 64, 64)),
    "case": Net("cnn5", (512, 1, 28, 28), tuple(Guide), keeps=True),
}


@dataclass(frozen=True)
class Space:
    """What was profiled, so that logs are understood without the model; widths are those of its groups of channels."""

    ref: ModelRef
    spec: ModelSpec
    ranges: tuple[WidthRange, ...]

    def blocks(self, widths: Sequence[int]) -> tuple[Block, ...]:
        places = zip(self.spec.blocks, block_points(self.spec, widths), strict=True)
        return tuple(Block(block.name, block.kind, point) for block, point in places)

    def estimate(self, widths: Sequence[int], learnt: Profile) -> Estimate:
        return estimate(replace(self.spec, blocks=self.blocks(widths), widths=tuple(widths)), learnt)


@dataclass(frozen=True)
class Chosen:
    """One of the models to measure: the original, or what a guide chose."""

    name: str
    widths: tuple[int, ...]
    ref: ModelRef
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choices:
    """The models, the original first, and what each of its widths belongs to."""

    layers: tuple[str, ...]
    models: tuple[Chosen, ...]


class Resumed:
    """A device that measures only what a log does not hold yet, so that what asks it goes on where it stopped."""

    def __init__(self, device: Device, log: MeasurementLog) -> None:
        self._device, self._log = device, log
        self._before = [record for record in log.read() if isinstance(record, Measurement)]
        for record in self._before:
            same_setting(record, device.info, device.meter)

    @property
    def info(self) -> DeviceInfo:
        return self._device.info

    @property
    def meter(self) -> MeterInfo:
        return self._device.meter

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        for place, record in enumerate(self._before):
            if record.workload == workload:
                return self._before.pop(place)
        found = self._device.measure(workload, procedure)
        if found.infeasible is None:
            self._log.append(found)
        return found

    def time(self, workload: Workload) -> Timing:
        return self._device.time(workload)

    def close(self) -> None:
        self._device.close()


def record(net: Net, folder: Path, device: Device, mode: Mode, pictures: Path | None = None) -> None:
    """Measures what a net's folder lacks."""
    if rounds(folder) == ROUNDS:
        return
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    channels = prunable(net.ref(mode))
    ref = channels.ref_of(channels.spec.widths)
    assert ref is not None
    space = Space(ref, channels.spec, tuple(channels.ranges(FAVOURABLE)))
    (folder / "space.json").write_text(json.dumps(encode(space)) + "\n")
    log = folder / "campaign.jsonl"
    learnt = profile(space.spec, device=device, ranges=space.ranges, rules=net.rules, log=log, ref=ref)
    if not learnt.complete:
        raise DeviceError("the campaign came to no end", "record again, it goes on where it stopped")
    _say(f"profiled in {learnt.profile_s:.0f} s, {learnt.measurements} networks")
    if not (folder / "chosen.json").exists():
        choices = _chosen(net, channels, learnt, folder, device, pictures)
        whole = folder / "chosen.json.part"
        whole.write_text(json.dumps(encode(choices), indent=1) + "\n")
        whole.rename(folder / "chosen.json")
    asked = [chosen for _ in range(ROUNDS) for chosen in choices_of(folder).models]
    resumed = Resumed(device, MeasurementLog(folder / "measured.jsonl"))
    for chosen in asked:
        found = measured(chosen.ref, chosen.name, resumed, lambda told: None)
        _say(f"{chosen.name}: {found.energy_j:.4g} J, {1e3 * found.time_s:.3g} ms a step")


def _chosen(
    net: Net, channels: Channels, learnt: Profile, folder: Path, device: Device, pictures: Path | None
) -> Choices:
    """What every guide chooses; AMPERE measures on its way."""
    widths = channels.spec.widths
    ref = channels.ref_of(widths)
    assert ref is not None
    models = [Chosen(ORIGINAL, widths, ref)]
    if net.keeps:
        torch.save(channels.model, folder / f"{ORIGINAL}.pt")
    for guide in net.guides:
        start = time.monotonic()
        choose = partial(prune, channels, None, guide=guide, mean=True, step=FAVOURABLE)
        if guide is Guide.AMPERE:
            resumed = Resumed(device, MeasurementLog(folder / "refined.jsonl"))
            pruned, _ = refined(choose, channels, learnt, BUDGET, resumed, observe=_say)
        else:
            data = _data(net, device, pictures) if guide is Guide.RANDOM else None
            judge = partial(_judged, data=data, batch=net.input[0]) if data is not None else None
            pruned = choose(learnt, BUDGET, objective=judge, samples=net.samples)
        models.append(_kept(guide, channels, pruned))
        if net.keeps:
            torch.save(pruned.model, folder / f"{guide}.pt")
        _say(f"{guide}: {','.join(map(str, models[-1].widths))} in {time.monotonic() - start:.0f} s")
    return Choices(tuple(group.name for group in channels.groups), tuple(models))


def _kept(guide: Guide, channels: Channels, pruned: Pruned) -> Chosen:
    assert pruned.ref is not None
    return Chosen(guide, tuple(channels.widths_of(pruned.group_widths)), pruned.ref, pruned.notes)


def _data(net: Net, device: Device, pictures: Path | None) -> Images:
    """What chance judges its candidates by: images of the net's size, or noise."""
    where = torch.device("cuda" if device.info.name.startswith("cuda") else "cpu")
    batch, channels, size, _ = net.input
    if pictures is not None:
        return images.load(pictures, "train", size).on(where, size, channels)
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn((4 * batch, *net.input[1:]), generator=draw)
    labels = torch.randint(CLASSES, (4 * batch,), generator=draw)
    return Images(noise.to(where), labels.to(where))


def _judged(module: nn.Module, data: Images, batch: int) -> float:
    """More is better."""
    plan = trainings.Plan(steps=60, batch=batch, checkpoints=1)
    return -trainings.short_loss(module.to(data.pictures.device), data, plan)


def choices_of(folder: Path) -> Choices:
    path = folder / "chosen.json"
    return decode(Choices, parse_json(path.read_bytes(), str(path)), str(path))


def rounds(folder: Path) -> int:
    """How many whole rounds a net's folder, packed or not, holds of the last measurements: at most `ROUNDS`."""
    if not (folder / "chosen.json").exists():
        return 0
    return min(ROUNDS, len(MeasurementLog(folder / "measured.jsonl").read()) // len(choices_of(folder).models))


def measured_nets(folder: Path) -> list[Path]:
    """The folders of nets that have at least one whole round."""
    return sorted(path for path in folder.glob("*") if path.is_dir() and rounds(path))


def pack(folder: Path, target: Path = PRUNED) -> None:
    """Measured nets and the log of the trainings, into the repository's data; modules stay where they are."""
    target.mkdir(parents=True, exist_ok=True)
    log = folder / trainings.RECORDED.name
    if log.exists():
        (target / log.name).write_bytes(log.read_bytes())
    for net in measured_nets(folder):
        where = target / net.name
        where.mkdir(parents=True, exist_ok=True)
        (where / "chosen.json").write_bytes((net / "chosen.json").read_bytes())
        for path in (net / "space.json", *net.glob("*.jsonl")):
            (where / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        _say(f"{net.name}: {sum(path.stat().st_size for path in where.iterdir()) / 1024:.0f} KiB in {where}")


def _say(told: str) -> None:
    print(f"  {told}", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hardware.pruning")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record")
    one.add_argument("folder", type=Path)
    one.add_argument("names", nargs="*", default=list(NETS), metavar="NAME")
    one.add_argument("--mode", type=Mode, default=Mode.GRAPH)
    one.add_argument("--device", default="cuda")
    one.add_argument("--images", type=Path, help="what chance judges the candidates of `case` by")
    commands.add_parser("pack").add_argument("folder", type=Path)
    asked = parser.parse_args(arguments)
    if asked.command == "record":
        _record_all(asked.folder, asked.names, asked.device, asked.mode, asked.images)
    else:
        pack(asked.folder)


def _record_all(folder: Path, names: Sequence[str], device: str, mode: Mode, pictures: Path | None) -> None:
    unknown = [name for name in names if name not in NETS]
    if unknown:
        raise RequestError(f"no net is called {', '.join(unknown)}", f"choose from {', '.join(NETS)}")
    with contextlib.closing(open_device(device)) as opened:
        for name in names:
            net, start = NETS[name], time.monotonic()
            where = folder / (name if mode is Mode.GRAPH else f"{name}-{mode}")
            print(where.name, flush=True)
            try:
                record(net, where, opened, mode, pictures if net.keeps else None)
            except AmpereError as error:
                _say(str(error))
            except Exception:  # noqa: BLE001 - one net that fails must not lose the others
                traceback.print_exc()
            _say(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
