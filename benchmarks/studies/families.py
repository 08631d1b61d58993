"""Whole families on real devices: how every method scores on the networks that no campaign ran."""

from __future__ import annotations

import statistics
from datetime import datetime
from typing import Any

from ampere_energy.evaluation.evaluate import rescore
from ampere_energy.evaluation.experiment import Part
from ampere_energy.evaluation.recorded import Recorded
from ampere_energy.measurement.records import DeviceInfo, Measurement
from ampere_energy.model.variants import Variant
from ampere_energy.reporting.as_json import evaluation_json
from benchmarks.hardware.families import PLANS, packed


def run() -> dict[str, Any]:
    """The scores of all that is recorded, how long after one another networks were measured, and what refining was."""
    found: dict[str, Any] = {}
    for plan in PLANS:
        for planned, kept in packed(plan):
            more = {"apart_s": _apart_s(kept), "refining": _refining(kept), "elsewhere": _elsewhere(kept)}
            for (told,) in (evaluation_json([trials]) for trials in rescore(kept)):
                scores = {key: value for key, value in told.items() if key != "members"}
                found[f"{plan}/{planned.name} {told['mode']}"] = scores | more
    return found


def _apart_s(kept: Recorded) -> float:
    """Seconds between a network's two measurements, the median of the networks."""
    rounds = kept.by_network(Part.MEMBERS, kept.experiment.training.mode)
    moments = [[datetime.fromisoformat(m.recorded_at) for m in own[:2]] for own in rounds]
    return statistics.median((second - first).total_seconds() for first, second in moments)


def _elsewhere(kept: Recorded) -> list[dict[str, Any]]:
    """The parts that were recorded on another card than the campaign, and what blocks metered on both say."""
    cards = {part: kept.other_card(part) for part in (Part.OPERATORS, Part.PAPER)}
    return [
        {"part": str(part), "card": card_name(card), "anchors": [round(ratio, 4) for ratio in kept.anchored(part)]}
        for part, card in cards.items()
        if card is not None
    ]


def card_name(device: DeviceInfo) -> str:
    """The beginning of a card's own number."""
    return dict(device.details)["uuid"].partition("-")[0]


def _refining(kept: Recorded) -> dict[str, int] | None:
    """How many measurements of which sort refining was; None where none was tried."""
    if Part.REFINED not in kept.parts:
        return None
    blocks = [r for r in kept.parts[Part.REFINED] if isinstance(r.workload, Variant)]
    metered = sum(isinstance(r, Measurement) for r in blocks)
    others = len(kept.parts[Part.REFINED]) - len(blocks)
    return {"blocks metered": metered, "blocks timed": len(blocks) - metered, "models metered": others}
