"""How good `estimate --approximate` is at other batches than a profile's.

On cards, bundled profiles and networks that were measured at other batches: of one family, both at aligned or both at
arbitrary widths, mostly on different cards. On the CPU, the profiles of `data/cpu`, and eight of their networks each,
measured later at other batches, and once more at the profile's own (`hardware/other_batches.py`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ampere_energy.estimation.another_batch import bridged
from ampere_energy.estimation.another_card import on_another_card
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Estimate
from ampere_energy.evaluation.experiment import Experiment, Part
from ampere_energy.evaluation.recorded import Recorded, load
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import Measurement
from ampere_energy.model.training import Mode
from ampere_energy.profiles.bundles.catalogue import BundleEntry, entries, load_bundled
from ampere_energy.profiles.profile import Profile
from benchmarks.hardware.families import packed
from benchmarks.hardware.other_batches import BATCHES, FOLDER, NETWORKS
from benchmarks.results import DATA

BUNDLE = "nvidia-h200"


def run() -> list[dict[str, Any]]:
    """A row for each set and each batch."""
    return [*_on_cards(), *_on_a_cpu()]


def _on_cards() -> Iterator[dict[str, Any]]:
    for planned, recorded in packed("h200"):
        for name, about in entries(BUNDLE).items():
            if planned.name.endswith(f"-{about.widths}") and _bridges(recorded, about):
                rounds = recorded.by_network(Part.MEMBERS, about.mode)
                measured = [statistics.fmean(m.energy_j for m in own) for own in rounds]
                said = _estimates(recorded.experiment, about.input[0], load_bundled(BUNDLE, name), about.mode)
                yield _row(f"h200/{planned.name} {about.mode}", [on_another_card(one) for one in said], measured)


def _bridges(recorded: Recorded, about: BundleEntry) -> bool:
    asked = recorded.experiment
    alike = about.family == asked.family and about.mode in recorded.modes
    return alike and bridged(replace(asked.training, batch=asked.input[0], mode=about.mode), about.training)


def _on_a_cpu() -> Iterator[dict[str, Any]]:
    for name, batches in BATCHES.items():
        recorded = load(DATA / "cpu" / name)
        asked, (mode,) = recorded.experiment, recorded.modes
        profile = recorded.profile(*recorded.campaign(mode))
        for batch in batches:
            log = MeasurementLog(FOLDER / f"{name}-{batch}.jsonl").read()
            measured = [m.energy_j for m in log if isinstance(m, Measurement)]
            some = replace(at_batch(asked, batch), members=asked.members[:NETWORKS])
            yield _row(f"cpu/{name}", list(_estimates(some, asked.input[0], profile, mode)), measured)


def _estimates(asked: Experiment, batch: int, profile: Profile, mode: Mode) -> Iterator[Estimate]:
    """The networks, from a profile at a batch."""
    for here, there in zip(asked.specs(mode), at_batch(asked, batch).specs(mode), strict=True):
        yield estimate(here, profile, there=None if here == there else there)


def at_batch(asked: Experiment, batch: int) -> Experiment:
    """The same experiment at another batch."""
    return replace(asked, input=(batch, *asked.input[1:]), training=replace(asked.training, batch=batch))


def _row(name: str, said: Sequence[Estimate], measured: Sequence[float]) -> dict[str, Any]:
    errors = [e.energy_j / joules - 1 for e, joules in zip(said, measured, strict=True)]
    inside = [e.interval_j[0] <= joules <= e.interval_j[1] for e, joules in zip(said, measured, strict=True)]
    batch = said[0].training.batch
    return {
        "set": name,
        "from": said[0].from_batch or batch,
        "to": batch,
        "members": len(said),
        "error": statistics.fmean(map(abs, errors)),
        "bias": statistics.fmean(errors),
        "inside": statistics.fmean(inside),
        "reach": statistics.fmean(e.interval_j[1] / e.energy_j for e in said),
    }
