"""How errors fall while a campaign goes on: recorded ones, as if they had ended earlier.

What was measured is the same as in a campaign with a smaller budget, up to the moment at which that would have ended.
The first stops may lie inside the opening.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ampere_energy.evaluation.evaluate import rescore, score
from ampere_energy.evaluation.experiment import Part
from ampere_energy.evaluation.recorded import Recorded
from ampere_energy.measurement.records import Measurement
from benchmarks.hardware.families import packed

APART_S = 10.0


def stops(recorded: Recorded) -> Iterator[int]:
    """Numbers of records after which to score: when every kind is known, then every ten seconds, and the end."""
    records = recorded.parts[Part.CAMPAIGN]
    campaign, _ = recorded.campaign(recorded.experiment.training.mode)
    last_s = spent_s = 0.0
    for count, record in enumerate(records, start=1):
        spent_s += record.cost_s
        known = last_s > 0 or campaign.measured.all_kinds(count)
        if known and (spent_s >= last_s + APART_S or count == len(records)):
            last_s = spent_s
            yield count


def run() -> list[dict[str, Any]]:
    """Every set recorded on a card, at every stop, in every mode."""
    found = []
    for planned, recorded in packed("h200"):
        for count in stops(recorded):
            records = recorded.parts[Part.CAMPAIGN][:count]
            parts = {Part.CAMPAIGN: records, Part.MEMBERS: recorded.parts[Part.MEMBERS]}
            trials = rescore(replace(recorded, parts=parts))
            found.append(
                {
                    "set": planned.name,
                    "seconds": sum(record.cost_s for record in records),
                    "timed": sum(not isinstance(record, Measurement) for record in records),
                    "metered": sum(isinstance(record, Measurement) for record in records),
                    "errors": {own.training.mode.value: score(own, "ampere").mape for own in trials},
                    "inside": {own.training.mode.value: score(own, "ampere").coverage for own in trials},
                }
            )
    return found
