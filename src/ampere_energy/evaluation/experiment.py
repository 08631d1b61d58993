"""An experiment: a family profiled on a device, unseen networks measured, and what other methods need, all in logs.

    FOLDER/experiment.json    what is asked: family, input, widths, training, members
           campaign.jsonl     AMPERE's campaign; campaign.json: how long it took in all
           members.jsonl      the networks, in rounds some time apart
           short.jsonl        the same networks, a few cold steps each
           operators.jsonl    phases of blocks, each by itself: metered at some widths, timed at more
           paper.jsonl        the paper's campaign
           refined.jsonl      blocks, and where they were not enough the whole, measured for the sake of some networks
           anchors.jsonl      some of the campaign's blocks, metered again on each other card that operators or the
                              paper's campaign were recorded on

Every part goes on where its log ends, so an experiment survives a lent device that is taken back. On a CUDA device all
is measured eagerly, which tells what captured steps take as well: one experiment serves both modes.
"""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from ampere_energy import files
from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.points import random_points
from ampere_energy.campaign.refine import refine
from ampere_energy.campaign.rules import Rules, Status
from ampere_energy.campaign.run import profile
from ampere_energy.errors import DeviceError, FileError, RequestError, WorkerError
from ampere_energy.measurement.devices import Device
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import POINT, Procedure, point_of
from ampere_energy.measurement.records import Measurement, MeterInfo, Record, same_setting
from ampere_energy.measurement.retries import measured, timed
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import Family, family
from ampere_energy.model.kinds import Point
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import Phase, Variant, resized
from ampere_energy.model.widths import Domain, WidthRange
from ampere_energy.profiles.profile import Profile
from ampere_energy.profiles.profile import load as saved_profile
from ampere_energy.serialization import decode, encode, parse_json

GO_ON = "go on with ampere evaluate --record"
_ANOTHER = "record to another folder"
ROUNDS = 2
MEMBER = replace(POINT, windows=1, ticks=5, warm_up_s=1.0)
"""A network's measurement: warmed up longer than a campaign's point; its other window is in the next round."""
SHORT = Procedure(windows=1, ticks=4, window_s=0.0, warm_up_s=0.0, iterations=20)
"""Twenty steps, as somebody does who has the device at hand and a minute; more where the counter needs them."""
_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
_BETWEEN = 8
"""At how many widths besides phases are timed: a polynomial of widths needs more than the corners."""


class Part(StrEnum):
    """What is recorded, in this order."""

    CAMPAIGN = "campaign"
    MEMBERS = "members"
    SHORT = "short"
    REFINED = "refined"
    ANCHORS = "anchors"
    OPERATORS = "operators"
    PAPER = "paper"


_ELSEWHERE = (Part.OPERATORS, Part.PAPER)
"""What is of no network, and may go on on another card: blocks metered on both tell what the cards differ by."""
_ANCHORS = 3


@dataclass(frozen=True)
class Experiment:
    """What is asked.

    Attributes:
        step: profiled and drawn widths are multiples of this.
        networks: widths of the unseen networks.
        budget_s: seconds of measuring for each campaign.
        target: the campaign ends when networks' 90 % intervals are within this share …
        refine: … and this many networks, the first ones, are then refined to within `refine_to`.
    """

    family: str
    input: tuple[int, ...]
    step: int
    training: Training
    members: tuple[tuple[int, ...], ...]
    budget_s: float
    target: float = 0.02
    refine: int = 5
    refine_to: float = 0.03

    def __post_init__(self) -> None:
        family(self.family)  # refuses a factory: no file says whose code is run

    @property
    def zoo(self) -> Family:
        """The family, at its widths."""
        return family(self.family).aligned(self.step)

    def ref(self, widths: tuple[int, ...]) -> ModelRef:
        """A network."""
        return model_ref(self.family, widths=widths, input=self.input, training=self.training)

    def scope(self, mode: Mode) -> tuple[ModelSpec, list[WidthRange]]:
        """The largest network in a mode, parsed, and the widths to cover."""
        spec = replace(self._spec(self.zoo.largest, mode), name=self.family)
        return spec, self.zoo.up_to(spec.widths)

    def specs(self, mode: Mode) -> list[ModelSpec]:
        """The unseen networks in a mode; one of each number of layers is parsed, the others have its blocks."""
        counts, largest = self.zoo.counts, self.zoo.largest
        return [resized(self._spec((*widths[:counts], *largest[counts:]), mode), widths) for widths in self.members]

    def _spec(self, widths: tuple[int, ...], mode: Mode) -> ModelSpec:
        ref = self.ref(widths)
        return _parsed(replace(ref, training=replace(ref.training, mode=mode)))


@lru_cache(maxsize=64)
def _parsed(ref: ModelRef) -> ModelSpec:
    from ampere_energy.model.parse import parse_ref

    return parse_ref(ref)


def random_experiment(
    name: str, input: tuple[int, ...], training: Training, *, models: int, seed: int, step: int, budget_s: float
) -> Experiment:
    """An experiment on random networks of a family."""
    found = family(name)
    members = found.aligned(step).sample(models, seed)
    return Experiment(found.name, input or found.input, step, training, tuple(members), budget_s)


def record(
    experiment: Experiment,
    folder: Path,
    device: Device,
    *,
    parts: Sequence[Part] = tuple(Part),
    started_s: float | None = None,
    observe: Callable[[Part, Status | str], None] = lambda part, status: None,
) -> None:
    """Measures what is not in the folder's logs yet.

    Args:
        experiment: what is asked.
        folder: where the logs are, or will be.
        device: where to measure.
        parts: what to record; the campaign always is. Where it was recorded on another device, what other methods are
            fitted on can still be, after some of its blocks have been metered here too.
        started_s: when the process began, by the monotonic clock, so that the campaign's time tells all of it.
        observe: called after each measurement.
    """
    _keep(experiment, folder)
    spec, ranges = experiment.scope(experiment.training.mode)
    made = _log(Part.CAMPAIGN, folder).read()
    wanted = [part for part in Part if part in parts and part is not Part.CAMPAIGN]
    learnt: Profile | None = None
    if made and made[0].device != device.info and files.exists(folder / "campaign.json"):
        here = f"{folder} was recorded on {made[0].device}, this is {device.info}"
        if not _of_one_make(made, device):
            raise RequestError(here, _ANOTHER)
        if not set(wanted) <= set(_ELSEWHERE):
            could = ",".join(_ELSEWHERE)
            raise RequestError(here, f"record to another folder; of this one, --parts {could} can go on here")
        anchors = _measured(Part.ANCHORS, _anchors(made, device.meter), folder, device, observe)
        if all(anchor.infeasible for anchor in anchors):
            raise DeviceError(f"{here}, and none of its blocks runs here", _ANOTHER)
    else:
        learnt = _campaign(experiment, spec, ranges, folder, device, started_s or time.monotonic(), observe)
        if (learnt.device, learnt.meter) != (device.info, device.meter):
            was, now = (f"{on} with {by}" for on, by in ((learnt.device, learnt.meter), (device.info, device.meter)))
            raise RequestError(f"{folder} was recorded on {was}, this is {now}", _ANOTHER)
    for part in wanted:
        if part is Part.REFINED:
            assert learnt is not None
            _refined(experiment, learnt, _log(part, folder), device, observe)
        elif part is Part.PAPER:
            if spec.chain:
                _paper(experiment, spec, ranges, _log(part, folder), device, observe)
        elif part is not Part.ANCHORS:
            _measured(part, _requests(part, experiment, spec, ranges, device.meter), folder, device, observe)


def _of_one_make(made: Sequence[Record], device: Device) -> bool:
    """Whether a device is another card of the make that a campaign was recorded on, metered alike."""
    meters = {(r.meter.name, r.meter.provenance) for r in made if isinstance(r, Measurement)}
    cards = {(info.name, dict(info.details).get("gpu")) for info in (made[0].device, device.info)}
    return len(cards) == 1 and meters == {(device.meter.name, device.meter.provenance)}


def _log(part: Part, folder: Path) -> MeasurementLog:
    return MeasurementLog(folder / f"{part}.jsonl")


Requests = Iterable[tuple[Workload, Procedure | None]]
"""Networks to measure, in order; what has no procedure is timed."""


def _measured(
    part: Part, wanted: Requests, folder: Path, device: Device, observe: Callable[[Part, Status | str], None]
) -> list[Record]:
    """Measures what a part's log does not have yet; all of it, or of anchors this card's, as others have some."""
    log, every = _log(part, folder), list(wanted)
    records = [r for r in log.read() if part is not Part.ANCHORS or r.device == device.info]
    for seen in records:
        same_setting(seen, device.info, device.meter)
    for number, (workload, procedure) in enumerate(every[len(records) :], start=len(records) + 1):
        found = timed(device, workload) if procedure is None else measured(device, workload, procedure)
        same_setting(found, device.info, device.meter)
        if found.failed:
            raise WorkerError(f"{workload}: {found.infeasible}", "the same command goes on, or try another machine")
        log.append(found)
        records.append(found)
        observe(part, f"{number} of {len(every)}")
    return records


def _keep(experiment: Experiment, folder: Path) -> None:
    path = folder / "experiment.json"
    if files.exists(path):
        kept = read(folder)
        for name in (field.name for field in fields(Experiment)):
            if (before := getattr(kept, name)) != (now := getattr(experiment, name)):
                told = f"of {len(before)}, not {len(now)}" if name == "members" else f"of {before}, not {now}"
                raise RequestError(f"{path} has {name} {told}", "ask as it does, or record to another folder")
        return
    files.write_text(path, json.dumps(encode(experiment), indent=1) + "\n", _ANOTHER)


def read(folder: Path) -> Experiment:
    """What is asked in a folder."""
    path = folder / "experiment.json"
    if not files.exists(path):
        raise FileError(f"there is no experiment in {folder}", "record one: ampere evaluate FAMILY --device … --record")
    record = parse_json(files.read(path, "experiment", _ANOTHER), str(path), _ANOTHER)
    return decode(Experiment, record, str(path), _ANOTHER)


def _campaign(
    experiment: Experiment,
    spec: ModelSpec,
    ranges: list[WidthRange],
    folder: Path,
    device: Device,
    started_s: float,
    observe: Callable[[Part, Status | str], None],
) -> Profile:
    about, log, saved = folder / "campaign.json", _log(Part.CAMPAIGN, folder), folder / "profile.json"
    if files.exists(about) and files.exists(saved):
        return saved_profile(saved)
    resumed = log.exists()
    rules = Rules(precision=experiment.target, budget_s=experiment.budget_s)
    learnt = profile(
        spec,
        device=device,
        ranges=ranges,
        rules=rules,
        log=log.path,
        ref=experiment.ref(experiment.zoo.largest),
        observe=lambda status: observe(Part.CAMPAIGN, status),
    )
    learnt.save(saved)
    wall_s = None if resumed else round(time.monotonic() - started_s, 1)
    files.write_text(about, json.dumps({"wall_s": wall_s}) + "\n", _ANOTHER)
    return learnt


def _requests(
    part: Part, experiment: Experiment, spec: ModelSpec, ranges: list[WidthRange], meter: MeterInfo
) -> Requests:
    """What a part measures."""
    if part is Part.OPERATORS:
        domains = Guided(spec, ranges, Rules(), False).scope.domains
        for places, procedure in ((_corners, point_of(meter)), (_between, None)):
            for kind, domain in domains.items():
                for point in places(domain):
                    for phase in _PHASES:
                        yield Variant((Block("subject", kind, point),), phase=phase), procedure
        return
    rounds, procedure = (ROUNDS, MEMBER) if part is Part.MEMBERS else (1, SHORT)
    for _ in range(rounds):
        for widths in experiment.members:
            yield experiment.ref(widths), procedure


def _anchors(made: Sequence[Record], meter: MeterInfo) -> Requests:
    """Blocks that a campaign metered: one that takes a short time, one of middling length and a long one."""
    metered = [(r.time_s, r.workload) for r in made if isinstance(r, Measurement) and r.windows]
    blocks = [(time_s, w) for time_s, w in metered if isinstance(w, Variant) and len(w.blocks) == 1]
    blocks.sort(key=lambda pair: pair[0])
    for n in range(_ANCHORS):
        yield blocks[(2 * n + 1) * len(blocks) // (2 * _ANCHORS)][1], point_of(meter)


def _corners(domain: Domain) -> list[Point]:
    """Points that show how a kind's cost follows its widths: all small, all middling, all large."""
    return list(dict.fromkeys(tuple(r[place * (len(r) - 1) // 2] for r in domain) for place in range(3)))


def _between(domain: Domain) -> list[Point]:
    """Some other points."""
    found = random_points(domain, _BETWEEN, random.Random(f"operators:{domain}"))
    return [point for point in found if point not in _corners(domain)]


def _refined(
    experiment: Experiment,
    learnt: Profile,
    log: MeasurementLog,
    device: Device,
    observe: Callable[[Part, Status | str], None],
) -> None:
    log.create()  # also where nothing needs to be measured
    pairs = zip(experiment.members, experiment.specs(experiment.training.mode), strict=True)
    for number, (widths, spec) in enumerate(itertools.islice(pairs, experiment.refine), start=1):
        ref = experiment.ref(widths)
        learnt = refine(learnt, ref, spec, device, experiment.refine_to, log=log.path).profile
        observe(Part.REFINED, f"{number} of {min(experiment.refine, len(experiment.members))}")


def _paper(
    experiment: Experiment,
    spec: ModelSpec,
    ranges: list[WidthRange],
    log: MeasurementLog,
    device: Device,
    observe: Callable[[Part, Status | str], None],
) -> None:
    profile(
        spec,
        device=device,
        ranges=ranges,
        rules=Rules(budget_s=experiment.budget_s, points=12),
        log=log.path,
        method="paper",
        observe=lambda status: observe(Part.PAPER, status),
    )
