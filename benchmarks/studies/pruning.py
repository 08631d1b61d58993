"""Models pruned to half their energy on an NVIDIA card: what was predicted, and what was measured then."""

from __future__ import annotations

import gzip
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.additions import add
from ampere_energy.campaign.rules import Rules
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import Measurement, Record
from ampere_energy.model.blocks import Block
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode
from ampere_energy.optimization.pruning.pruned import Guide
from ampere_energy.profiles.profile import Profile
from ampere_energy.serialization import decode, encode, parse_json
from benchmarks.hardware.pruning import BUDGET, PRUNED, Chosen, Space, choices_of, measured_nets, rounds

LEAST = 0.45
"""What is asked: a measured share from this to the budget's."""


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


def run(folder: Path = PRUNED) -> list[dict[str, Any]]:
    """The scores of everything recorded in a folder; nothing where there is none."""
    rows = (row for net in measured_nets(folder) for row in scored(net))
    return [{**encode(row), "share": row.share, "holds": row.holds} for row in rows]
