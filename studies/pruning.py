"""Models pruned to half their energy on a real NVIDIA card: what was predicted, and what was measured then.

    python -m studies.pruning record FOLDER [NAME …]     on such a machine; goes on where it stopped
    python -m studies.pruning pack FOLDER                what has a whole round, packed into `data/h200-pruned`
    python -m studies.pruning                            the table of all that is packed
    python -m studies.pruning show FOLDER                the same of a folder

Each of `NETS` is a folder of logs: a campaign as `ampere profile --prunable --width-step 8` makes it
(`campaign.jsonl`), the models that `ampere prune --budget 50% --refine` measures on its way (`refined.jsonl`), what it
chose and what FLOPs and chance did (`chosen.json`), and in the end the original and these, in rounds one after another,
as one measures what will be quoted (`measured.jsonl`). One whole round is enough to pack and score a net; the table
says how many there are, and `record` goes on to `ROUNDS` of them. Every measurement carries its device; a log that
another card began is refused: delete the net's folder and record it anew. Steps are captured graphs, which the host's
noise does not reach, unless `--mode eager` is given; the net's folder is then named after the mode.

torch-pruning needs torch and numpy alone, so that a copy of its package on the path will do where it is not installed.
The whole sequence, with such a copy in `build/extras`, and the images of the case study in IMAGES:

    export PYTHONPATH=src:.:build/extras
    python3 -m studies.pruning record build/h200-pruned cnn5 resnet18
    python3 -m studies.pruning record build/h200-pruned mobilenet_v2
    python3 -m studies.pruning record build/h200-pruned case --images IMAGES
    M=build/h200-pruned/case
    python3 -m studies.case train IMAGES build/h200-pruned/case.jsonl --device cuda --mode graph --batch 512 \\
        --steps 6000 --seeds 3 --model original=$M/original.pt --model ampere=$M/ampere.pt \\
        --model flops=$M/flops.pt --model random=$M/random.pt
    python3 -m studies.pruning pack build/h200-pruned
    python3 -m studies pruning

`case` is the case study's CNN at the images' own size, and keeps its modules; its training log is packed with the nets.
All four start from the same weights, less what was pruned, so that seeds differ in the order of the images alone;
`--images` lets chance judge its candidates by these images instead of noise.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import statistics
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.additions import add
from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.errors import AmpereError, DeviceError, RequestError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Estimate
from ampere_energy.measurement.devices import Device, open_device
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, Record, Timing, same_setting
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
from studies import case, images, tables
from studies.images import Images
from studies.results import ROOT

DATA = ROOT / "data" / "h200-pruned"
BUDGET = Budget(share=0.5)
LEAST = 0.45
"""What is asked: a measured share from this to the budget's."""
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
    "mobilenet_v2": Net("studies.models.convnets:mobilenet_v2", (512, 3, 64, 64)),
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
    return -case.short_loss(module.to(data.pictures.device), data, case.Plan(steps=60, batch=batch, checkpoints=1))


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


def pack(folder: Path, target: Path = DATA) -> None:
    """Measured nets and the case study's log, into the repository's data; modules stay where they are."""
    target.mkdir(parents=True, exist_ok=True)
    trainings = folder / case.RECORDED.name
    if trainings.exists():
        (target / trainings.name).write_bytes(trainings.read_bytes())
    for net in measured_nets(folder):
        where = target / net.name
        where.mkdir(parents=True, exist_ok=True)
        (where / "chosen.json").write_bytes((net / "chosen.json").read_bytes())
        for path in (net / "space.json", *net.glob("*.jsonl")):
            (where / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        _say(f"{net.name}: {sum(path.stat().st_size for path in where.iterdir()) / 1024:.0f} KiB in {where}")


@dataclass(frozen=True)
class Row:
    """A pruned model against its original; energies are shares of the original's.

    Attributes:
        predicted, interval: from the campaign alone, which measured no pruned model.
        when_chosen: of a refined one, what was predicted once the models before it had been measured.
        first: of a refined one, the measured share of the first model on the way to it, which was chosen when no pruned
            model had been measured.
        measured: in each whole round.
        tried: how many different pruned models were measured on the way to it.
    """

    net: str
    guide: str
    input: tuple[int, ...]
    mode: Mode
    predicted: float
    interval: tuple[float, float]
    when_chosen: float | None
    first: float | None
    measured: tuple[float, ...]
    measured_j: float
    time: float
    flops: float
    parameters: float
    profile_s: float
    tried: int
    widths: tuple[int, ...]

    @property
    def share(self) -> float:
        return statistics.fmean(self.measured)

    @property
    def holds(self) -> bool:
        return LEAST <= self.share <= BUDGET.of(1.0)


def scored(folder: Path) -> list[Row]:
    """Every pruned model of a measured net, scored anew from its logs: no device, no model, no torch-pruning."""
    space, choices = _space(folder), choices_of(folder)
    campaign = MeasurementLog(folder / "campaign.jsonl").read()
    on_the_way = [r for r in MeasurementLog(folder / "refined.jsonl").read() if isinstance(r, Measurement)]
    last = [r for r in MeasurementLog(folder / "measured.jsonl").read() if isinstance(r, Measurement)]
    learnt = _learnt(space, campaign)
    by_model = [[r for r in last if r.workload == chosen.ref][: rounds(folder)] for chosen in choices.models]
    original, *pruned = choices.models
    before = space.estimate(original.widths, learnt)
    rows = []
    for chosen, seen in zip(pruned, by_model[1:], strict=True):
        after = space.estimate(chosen.widths, learnt)
        refines = chosen.name == Guide.AMPERE
        works = [_work(space.blocks(m.widths)) for m in (original, chosen)]
        seconds = [statistics.fmean(r.time_s for r in own) for own in (by_model[0], seen)]
        rows.append(
            Row(
                net=folder.name,
                guide=chosen.name,
                input=space.ref.input,
                mode=space.spec.training.mode,
                predicted=after.energy_j / before.energy_j,
                interval=(after.interval_j[0] / before.energy_j, after.interval_j[1] / before.energy_j),
                when_chosen=_when_chosen(space, original, chosen, learnt, on_the_way) if refines else None,
                first=on_the_way[1].energy_j / on_the_way[0].energy_j if refines else None,
                measured=tuple(b.energy_j / a.energy_j for a, b in zip(by_model[0], seen, strict=True)),
                measured_j=statistics.fmean(r.energy_j for r in by_model[0]),
                time=seconds[1] / seconds[0],
                flops=works[1][0] / works[0][0],
                parameters=works[1][1] / works[0][1],
                profile_s=learnt.profile_s,
                tried=len({r.workload for r in on_the_way} - {original.ref}) if refines else 0,
                widths=chosen.widths,
            )
        )
    return rows


def _space(folder: Path) -> Space:
    path = folder / "space.json.gz"
    data = gzip.decompress(path.read_bytes()) if path.exists() else (folder / "space.json").read_bytes()
    return decode(Space, parse_json(data, str(path)), str(path))


def _learnt(space: Space, records: Sequence[Record]) -> Profile:
    """The profile that a campaign's log gives."""
    metered = next(record for record in records if isinstance(record, Measurement))
    captures = space.spec.training.mode is Mode.EAGER and metered.device.name.startswith("cuda")
    campaign = Guided(space.spec, space.ranges, Rules(), captures, space.ref)
    for seen in records:
        campaign.tell(seen)
    return Profile(
        model=space.spec.name,
        method="ampere",
        device=metered.device,
        meter=metered.meter,
        training=space.spec.training,
        complete=True,
        measurements=len(records),
        profile_s=sum(seen.cost_s for seen in records),
        created=records[-1].recorded_at,
        nets=campaign.fit(),
    )


def _when_chosen(
    space: Space, original: Chosen, chosen: Chosen, learnt: Profile, on_the_way: Sequence[Measurement]
) -> float:
    """The share that was predicted when all measured before it had been learnt."""
    for seen in on_the_way:
        if seen.workload == chosen.ref:
            break
        assert isinstance(seen.workload, ModelRef)
        learnt = add(learnt, space.blocks(seen.workload.widths), seen)
    energies = [space.estimate(model.widths, learnt).energy_j for model in (chosen, original)]
    return energies[0] / energies[1]


def _work(blocks: Sequence[Block]) -> tuple[int, int]:
    return sum(block.training_flops for block in blocks), sum(block.parameters for block in blocks)


def rows(folder: Path = DATA) -> Iterator[Row]:
    """Everything recorded in a folder; nothing where there is none."""
    for net in measured_nets(folder):
        yield from scored(net)


def run(folder: Path = DATA) -> list[dict[str, Any]]:
    """The scores of all that is recorded."""
    return [{**encode(row), "share": row.share, "holds": row.holds} for row in rows(folder)]


def _say(told: str) -> None:
    print(f"  {told}", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.pruning")
    commands = parser.add_subparsers(dest="command")
    one = commands.add_parser("record")
    one.add_argument("folder", type=Path)
    one.add_argument("names", nargs="*", default=list(NETS), metavar="NAME")
    one.add_argument("--mode", type=Mode, default=Mode.GRAPH)
    one.add_argument("--device", default="cuda")
    one.add_argument("--images", type=Path, help="what chance judges the case study's candidates by")
    for name in ("pack", "show"):
        commands.add_parser(name).add_argument("folder", type=Path)
    asked = parser.parse_args(arguments)
    if asked.command == "record":
        _record_all(asked.folder, asked.names, asked.device, asked.mode, asked.images)
    elif asked.command == "pack":
        pack(asked.folder)
    else:
        print("\n".join(tables.pruning(run(asked.folder if asked.command else DATA))))


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
