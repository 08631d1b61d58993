"""What an experiment's folder holds, and what a campaign's records gave: no hardware."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ampere_energy import files
from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.rules import Rules
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.traits import collect
from ampere_energy.errors import FileError
from ampere_energy.evaluation.experiment import GO_ON, Experiment, Part, read
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import DeviceInfo, Measurement, Record, Timing
from ampere_energy.measurement.workloads import run_as
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Variant
from ampere_energy.profiles.profile import Profile
from ampere_energy.serialization import parse_json


@dataclass(frozen=True)
class Recorded:
    """What an experiment's folder holds; `name` is the folder's own."""

    experiment: Experiment
    wall_s: float | None
    parts: dict[Part, list[Record]]
    name: str

    @property
    def modes(self) -> list[Mode]:
        """The modes that its networks were measured in."""
        own = self.experiment.training.mode
        members = [r for r in self.parts[Part.MEMBERS] if isinstance(r, Measurement)]
        captured = bool(members) and all(r.busy for r in members)
        return [own, Mode.GRAPH] if own is Mode.EAGER and captured else [own]

    def records(self, part: Part, mode: Mode) -> list[Record]:
        """A part's records, as they are in a mode."""
        found = self.parts.get(part, [])
        if mode is self.experiment.training.mode:
            return found
        captured = (as_graph(record) for record in found)
        return [record for record in captured if record is not None]

    def card_scale(self, part: Part) -> float:
        """Joules on the campaign's card for one on the card that a part was recorded on."""
        return statistics.median(self.anchored(part)) if self.other_card(part) is not None else 1.0

    def other_card(self, part: Part) -> DeviceInfo | None:
        """The card that a part was recorded on, where it is not the campaign's."""
        found = next((record.device for record in self.parts.get(part, ())), None)
        return None if found == self.parts[Part.CAMPAIGN][0].device else found

    def anchored(self, part: Part) -> list[float]:
        """What one joule where a part was recorded is here, by each of the blocks that were metered on both cards."""
        before, again = (
            {r.workload: r.energy_j for r in records if isinstance(r, Measurement) and r.windows}
            for records in (
                self.parts[Part.CAMPAIGN],
                [r for r in self.parts.get(Part.ANCHORS, ()) if r.device == self.other_card(part)],
            )
        )
        if not again.keys() & before.keys():
            what = f"{self.name} has parts of another card, and no blocks that were metered on both"
            raise FileError(what, "get its anchors.jsonl, or leave those parts out")
        return [before[workload] / again[workload] for workload in again if workload in before]

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

    def profile(self, campaign: Guided, records: Sequence[Record], twin: JointFit | None = None) -> Profile:
        """What a campaign's records gave; `twin` is what they gave in another mode."""
        first = next(r for r in self.parts[Part.CAMPAIGN] if isinstance(r, Measurement))
        nets = fitted(campaign, len(records), twin)
        return Profile(
            self.experiment.family, "ampere", first.device, first.meter, campaign.scope.spec.training, True,
            len(records), sum(r.cost_s for r in records), first.recorded_at, nets=nets,
            references=collect(campaign.scope.kinds, nets) if nets is not None else (),
        )  # fmt: skip

    def by_network(self, part: Part, mode: Mode) -> list[list[Measurement]]:
        """The measurements of each network, in the order they were made."""
        found = [r for r in self.records(part, mode) if isinstance(r, Measurement)]
        count = len(self.experiment.members)
        return [found[place::count] for place in range(count)]


def load(folder: Path) -> Recorded:
    """What was recorded in a folder, packed or not."""
    experiment = read(folder)
    about = folder / "campaign.json"
    told = parse_json(files.read(about, "experiment", GO_ON), str(about), GO_ON) if files.exists(about) else {}
    logs = {part: MeasurementLog(folder / f"{part}.jsonl") for part in Part}
    parts = {part: log.read() for part, log in logs.items() if log.exists()}
    if not parts.get(Part.CAMPAIGN) or not parts.get(Part.MEMBERS):
        raise FileError(f"the experiment in {folder} is not finished", GO_ON)
    return Recorded(experiment, told.get("wall_s"), parts, folder.resolve().name)


def fitted(
    campaign: Guided, records: int, twin: JointFit | None = None, before: JointFit | None = None
) -> JointFit | None:
    """What a campaign learnt of its records; or what its twin did, the host apart, if it saw the same.

    Eager steps and captured ones keep the device equally busy, and that is all that hyperparameters are learnt from.
    """
    if twin is not None and campaign.scope.spec.training.mode is Mode.GRAPH:
        seen = tuple(campaign.measured.observations(records))
        if [replace(o, host_s=None, wall_s=None) for o in twin.observations] == list(seen):
            return replace(twin, subjects=campaign.scope.subjects, observations=seen, host=None)
    return campaign.fit(before)


def as_graph(record: Record) -> Record | None:
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
