"""An experiment: a family profiled on a device, unseen members measured, and what other methods need, all in logs.

    FOLDER/experiment.json    what is asked: family, input, widths, training, members
           campaign.jsonl     AMPERE's campaign; campaign.json: how long it took in all
           members.jsonl      the members, in rounds some time apart
           short.jsonl        the same members, a few cold steps each
           operators.jsonl    forward, backward and update of blocks, each by itself
           paper.jsonl        the paper's campaign
           refined.jsonl      blocks, and where they were not enough the whole, measured for the sake of some members

Every part goes on where its log ends, so an experiment survives a lent device that is taken back. On a CUDA device all
is measured eagerly, which tells what captured steps take as well: one experiment serves both modes.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from ampere_energy.errors import FileError, RequestError
from ampere_energy.fit.campaign import profile, refine
from ampere_energy.fit.guided import Guided
from ampere_energy.fit.nets import NetFit
from ampere_energy.fit.profile import Profile
from ampere_energy.fit.profile import load as saved_profile
from ampere_energy.fit.references import collect
from ampere_energy.fit.rules import Rules, Status
from ampere_energy.measure.devices import Device
from ampere_energy.measure.measurement import (
    POINT,
    Measurement,
    MeterInfo,
    Procedure,
    Record,
    Timing,
    point_of,
    run_as,
    same_setting,
)
from ampere_energy.measure.store import MeasurementLog
from ampere_energy.model.blocks import Block, ModelSpec, Point
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import Domain, Phase, Variant, WidthRange, resized
from ampere_energy.model.zoo.families import Family, family
from ampere_energy.plain import decode, encode, parse_json

ROUNDS = 2
MEMBER = replace(POINT, windows=1, ticks=5, warm_up_s=1.0)
"""A member's measurement: warmed up longer than a campaign's point; its other window is in the next round."""
SHORT = Procedure(windows=1, ticks=4, window_s=0.0, warm_up_s=0.0, iterations=20)
"""Twenty steps, as somebody does who has the device at hand and a minute; more where the counter needs them."""
_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)


class Part(StrEnum):
    """What is recorded, in this order."""

    CAMPAIGN = "campaign"
    MEMBERS = "members"
    SHORT = "short"
    REFINED = "refined"
    OPERATORS = "operators"
    PAPER = "paper"


@dataclass(frozen=True)
class Experiment:
    """What is asked.

    Attributes:
        step: profiled and drawn widths are multiples of this.
        members: widths of the unseen members.
        budget_s: seconds of measuring for each campaign.
        target: the campaign ends when members' 90 % intervals are within this share …
        refine: … and this many members, the first ones, are then refined to within `refine_to`.
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

    @property
    def zoo(self) -> Family:
        """The family, at its widths."""
        return family(self.family).aligned(self.step)

    def ref(self, widths: tuple[int, ...]) -> ModelRef:
        """A member."""
        return model_ref(self.family, widths=widths, input=self.input, training=self.training)

    def scope(self, mode: Mode) -> tuple[ModelSpec, list[WidthRange]]:
        """The largest member in a mode, parsed, and the widths to cover."""
        spec = replace(self._spec(self.zoo.largest, mode), name=self.family)
        return spec, self.zoo.up_to(spec.widths)

    def specs(self, mode: Mode) -> list[ModelSpec]:
        """The unseen members in a mode; one of each number of layers is parsed, the others have its blocks."""
        counts, largest = self.zoo.counts, self.zoo.largest
        return [resized(self._spec((*widths[:counts], *largest[counts:]), mode), widths) for widths in self.members]

    def _spec(self, widths: tuple[int, ...], mode: Mode) -> ModelSpec:
        ref = self.ref(widths)
        return _parsed(replace(ref, training=replace(ref.training, mode=mode)))


@lru_cache(maxsize=64)
def _parsed(ref: ModelRef) -> ModelSpec:
    from ampere_energy.model.parse import parse_ref

    return parse_ref(ref)


def drawn(
    name: str, input: tuple[int, ...], training: Training, *, models: int, seed: int, step: int, budget_s: float
) -> Experiment:
    """An experiment on random members of a family."""
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
        parts: what to record; the campaign always is.
        started_s: when the process began, by the monotonic clock, so that the campaign's time tells all of it.
        observe: called after each measurement.
    """
    _keep(experiment, folder)
    spec, ranges = experiment.scope(experiment.training.mode)
    learnt = _campaign(experiment, spec, ranges, folder, device, started_s or time.monotonic(), observe)
    for part in Part:
        if part is Part.CAMPAIGN or part not in parts:
            continue
        log = MeasurementLog(folder / f"{part}.jsonl")
        if part is Part.REFINED:
            _refined(experiment, learnt, log, device, observe)
        elif part is Part.PAPER:
            if spec.chain:
                _paper(experiment, spec, ranges, log, device, observe)
        else:
            asked = list(_asked(part, experiment, spec, ranges, learnt.meter))
            before = log.read()
            for seen in before:
                same_setting(seen, learnt.device, learnt.meter)
            for number, (workload, procedure) in enumerate(asked[len(before) :], start=len(before) + 1):
                found = device.measure(workload, procedure)
                same_setting(found, learnt.device, learnt.meter)
                log.append(found)
                observe(part, f"{number} of {len(asked)}")


def _keep(experiment: Experiment, folder: Path) -> None:
    path = folder / "experiment.json"
    if path.exists():
        kept = _experiment(folder)
        for name in (field.name for field in fields(Experiment)):
            if (before := getattr(kept, name)) != (now := getattr(experiment, name)):
                told = f"of {len(before)}, not {len(now)}" if name == "members" else f"of {before}, not {now}"
                raise RequestError(f"{path} has {name} {told}", "ask as it does, or record to another folder")
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(encode(experiment), indent=1) + "\n")


def _experiment(folder: Path) -> Experiment:
    path = folder / "experiment.json"
    if not path.exists():
        raise FileError(f"there is no experiment in {folder}", "record one: ampere evaluate FAMILY --device … --record")
    return decode(Experiment, parse_json(path.read_bytes(), str(path)), str(path))


def _campaign(
    experiment: Experiment,
    spec: ModelSpec,
    ranges: list[WidthRange],
    folder: Path,
    device: Device,
    started_s: float,
    observe: Callable[[Part, Status | str], None],
) -> Profile:
    about, log, saved = folder / "campaign.json", folder / "campaign.jsonl", folder / "profile.json"
    if about.exists() and saved.exists():
        return saved_profile(saved)
    resumed = log.exists()
    rules = Rules(precision=experiment.target, budget_s=experiment.budget_s)
    learnt = profile(
        spec,
        device=device,
        ranges=ranges,
        rules=rules,
        log=log,
        ref=experiment.ref(experiment.zoo.largest),
        observe=lambda status: observe(Part.CAMPAIGN, status),
    )
    learnt.save(saved)
    wall_s = None if resumed else round(time.monotonic() - started_s, 1)
    about.write_text(json.dumps({"wall_s": wall_s}) + "\n")
    return learnt


def _asked(
    part: Part, experiment: Experiment, spec: ModelSpec, ranges: list[WidthRange], meter: MeterInfo
) -> Iterator[tuple[ModelRef | Variant, Procedure]]:
    if part is Part.OPERATORS:
        campaign = Guided(spec, ranges, Rules(), False)
        for kind, domain in campaign.scope.domains.items():
            for point in _corners(domain):
                for phase in _PHASES:
                    yield Variant((Block("subject", kind, point),), phase=phase), point_of(meter)
        return
    rounds, procedure = (ROUNDS, MEMBER) if part is Part.MEMBERS else (1, SHORT)
    for _ in range(rounds):
        for widths in experiment.members:
            yield experiment.ref(widths), procedure


def _corners(domain: Domain) -> list[Point]:
    """Points that show how a kind's cost follows its widths: all small, all middling, all large."""
    return list(dict.fromkeys(tuple(r[place * (len(r) - 1) // 2] for r in domain) for place in range(3)))


def _refined(
    experiment: Experiment,
    learnt: Profile,
    log: MeasurementLog,
    device: Device,
    observe: Callable[[Part, Status | str], None],
) -> None:
    before = iter(log.read() if log.exists() else ())
    log.path.touch()  # also where nothing needs to be measured
    asked = zip(experiment.members, experiment.specs(experiment.training.mode), strict=True)
    for number, (widths, spec) in enumerate(itertools.islice(asked, experiment.refine), start=1):
        ref = experiment.ref(widths)
        learnt = refine(learnt, ref, spec, device, experiment.refine_to, log=log.path, before=before).profile
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


@dataclass(frozen=True)
class Recorded:
    """What an experiment's folder holds."""

    experiment: Experiment
    wall_s: float | None
    parts: dict[Part, list[Record]]

    @property
    def modes(self) -> list[Mode]:
        """The modes that its members were measured in."""
        own = self.experiment.training.mode
        members = [r for r in self.parts[Part.MEMBERS] if isinstance(r, Measurement)]
        captured = bool(members) and all(r.busy for r in members)
        return [own, Mode.GRAPH] if own is Mode.EAGER and captured else [own]

    def records(self, part: Part, mode: Mode) -> list[Record]:
        """A part's records, as they are in a mode."""
        found = self.parts.get(part, [])
        if mode is self.experiment.training.mode:
            return found
        captured = (as_captured(record) for record in found)
        return [record for record in captured if record is not None]

    def campaign(self, mode: Mode) -> tuple[Guided, list[Record]]:
        """AMPERE's campaign in a mode, having seen all that it measured, and these records."""
        spec, ranges = self.experiment.scope(mode)
        found = self.records(Part.CAMPAIGN, mode)
        captures = mode is Mode.EAGER and any(
            isinstance(r.workload, Variant) and r.workload.training.mode is Mode.GRAPH for r in found
        )
        largest = replace(self.experiment.ref(self.experiment.zoo.largest), training=spec.training)
        campaign = Guided(spec, ranges, Rules(), captures, largest)
        for seen in found:
            campaign.tell(seen)
        return campaign, found

    def profile(self, campaign: Guided, records: Sequence[Record], twin: NetFit | None = None) -> Profile:
        """What a campaign's records gave; `twin` is what they gave in another mode."""
        first = next(r for r in self.parts[Part.CAMPAIGN] if isinstance(r, Measurement))
        nets = fitted(campaign, len(records), twin)
        return Profile(
            self.experiment.family, "ampere", first.device, first.meter, campaign.scope.spec.training, True,
            len(records), sum(r.cost_s for r in records), first.recorded_at, nets=nets,
            references=collect(campaign.scope.kinds, nets) if nets is not None else (),
        )  # fmt: skip

    def by_member(self, part: Part, mode: Mode) -> list[list[Measurement]]:
        """The measurements of each member, in the order they were made."""
        found = [r for r in self.records(part, mode) if isinstance(r, Measurement)]
        count = len(self.experiment.members)
        return [found[place::count] for place in range(count)]


def load(folder: Path) -> Recorded:
    """What was recorded in a folder, packed or not."""
    experiment = _experiment(folder)
    about = folder / "campaign.json"
    told = parse_json(about.read_bytes(), str(about)) if about.exists() else {}
    logs = {part: MeasurementLog(folder / f"{part}.jsonl") for part in Part}
    parts = {part: log.read() for part, log in logs.items() if log.exists()}
    if not parts.get(Part.CAMPAIGN) or not parts.get(Part.MEMBERS):
        raise FileError(f"the experiment in {folder} is not finished", "go on with ampere evaluate --record")
    return Recorded(experiment, told.get("wall_s"), parts)


def fitted(campaign: Guided, records: int, twin: NetFit | None = None, before: NetFit | None = None) -> NetFit | None:
    """What a campaign learnt of its records; or what its twin did, the host apart, if it saw the same.

    Eager steps and captured ones keep the device equally busy, and that is all that hyperparameters are learnt from.
    """
    if twin is not None and campaign.scope.spec.training.mode is Mode.GRAPH:
        seen = tuple(campaign.observations(records))
        if [replace(o, host_s=None, wall_s=None) for o in twin.observations] == list(seen):
            return replace(twin, subjects=campaign.scope.subjects, observations=seen, host=None)
    return campaign.fit(before)


def as_captured(record: Record) -> Record | None:
    """An eager record as one of the captured step; None where it was not captured."""
    if record.workload.training.mode is Mode.GRAPH:
        return record
    other = run_as(record.workload, Mode.GRAPH)
    if isinstance(record, Timing):
        return replace(record, workload=other) if record.captured or record.infeasible else None
    if record.infeasible is not None:
        return replace(record, workload=other)
    return replace(record, workload=other, windows=record.busy, busy=(), host_s=None) if record.busy else None


def spent_j(records: Sequence[Record]) -> float:
    """About how many joules measuring took: while metered what the windows show, else what the idle device takes."""
    metered = [r for r in records if isinstance(r, Measurement) and r.windows]
    idle = [r.idle_w for r in metered if r.idle_w is not None]
    rest_w = statistics.median(idle) if idle else 0.0
    watts = {id(r): r.energy_j / r.time_s for r in metered}
    return sum(watts.get(id(r), rest_w) * r.cost_s for r in records)
