"""How good the nearest profile of a bundle is on models that the bundle does not cover.

Models that were measured whole on H200s (`data/h200-whole`), and networks of recorded families (`data/h200`) as a
bundle would answer for them that had no profile of theirs at that batch, or none of their family at all. Beside the
profile in least doubt: the one that is usual, the median of all that could have answered.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ampere_energy.estimation.another_batch import bridged
from ampere_energy.estimation.another_card import on_another_card
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.nearest import Candidate, nearest
from ampere_energy.evaluation.experiment import Part
from ampere_energy.evaluation.recorded import Recorded
from ampere_energy.measurement.records import Measurement, energies
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.training import Mode
from ampere_energy.profiles.bundles.catalogue import BundleEntry, Widths, entries, load_bundled
from benchmarks.hardware import whole_models
from benchmarks.hardware.families import packed
from benchmarks.studies.other_batches import at_batch

BUNDLE = "nvidia-h200"
NETWORKS = 4


@dataclass(frozen=True)
class Trial:
    """Logarithms of predicted over measured joules: of the nearest, and of all; and whether the former is inside."""

    name: str
    error: float
    all: tuple[float, ...]
    inside: bool


def run() -> dict[str, Any]:
    """Errors as shares, by what was asked and by mode."""
    found: dict[str, Any] = {}
    for mode in (Mode.EAGER, Mode.GRAPH):
        found[f"whole models, {mode}"] = _summary(list(_whole(mode)))
        for label, own_family in (("another batch", True), ("another family", False)):
            found[f"{label}, {mode}"] = _summary(list(_families(mode, own_family)))
    return found


def _summary(trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        "models": len(trials),
        "nearest": statistics.median(abs(math.expm1(t.error)) for t in trials),
        "usual": statistics.median(statistics.median(abs(math.expm1(e)) for e in t.all) for t in trials),
        "inside": statistics.fmean(t.inside for t in trials),
        "off": {t.name: math.expm1(t.error) for t in trials},
    }


def _whole(mode: Mode) -> Iterator[Trial]:
    """Models of full size, whose blocks can only be guessed."""
    for path in sorted(whole_models.FOLDER.glob("fp32-*.jsonl.gz")):
        recorded, (*_, last) = whole_models.recorded(path)
        assert isinstance(last, Measurement)
        windows = last.busy if mode is Mode.GRAPH else last.windows
        spec = whole_models.with_mode(recorded, mode)
        serving = [
            Candidate(name, partial(load_bundled, BUNDLE, name))
            for name, about in entries(BUNDLE).items()
            if about.training == spec.training or bridged(spec.training, about.training)
        ]
        yield _trial(path.name.partition(".")[0], spec, serving, statistics.median(energies(windows)))


def _families(mode: Mode, own_family: bool) -> Iterator[Trial]:
    """Networks of recorded families, from profiles of theirs at other batches too, or from other families alone."""
    for planned, kept in packed("h200"):
        asked = kept.experiment
        shown = [
            (name, about)
            for name, about in entries(BUNDLE).items()
            if about.mode is mode and _shown(about, kept, own_family, planned.name.endswith(f"-{Widths.ALIGNED}"))
        ]
        if mode not in kept.modes or (not any(about.family == asked.family for _, about in shown) and own_family):
            continue
        step = max(1, len(asked.members) // NETWORKS)
        rounds = kept.by_network(Part.MEMBERS, mode)[::step]
        some = replace(asked, members=asked.members[::step])
        there = {about.input[0]: at_batch(some, about.input[0]).specs(mode) for _, about in shown}
        for place, (spec, own) in enumerate(zip(some.specs(mode), rounds, strict=True)):
            serving = [
                Candidate(name, partial(load_bundled, BUNDLE, name), there[about.input[0]][place])
                if about.training != spec.training
                else Candidate(name, partial(load_bundled, BUNDLE, name))
                for name, about in shown
            ]
            name = f"{planned.name} {','.join(map(str, asked.members[::step][place]))}"
            yield _trial(name, spec, serving, statistics.fmean(m.energy_j for m in own))


def _shown(about: BundleEntry, kept: Recorded, own_family: bool, aligned: bool) -> bool:
    """Whether a profile is in the bundle that is asked: not the network's own; where of its family, of its widths."""
    asked = kept.experiment
    wanted = replace(asked.training, batch=asked.input[0], mode=about.mode)
    if about.family == asked.family:
        return own_family and bridged(wanted, about.training) and aligned is (about.widths is Widths.ALIGNED)
    return wanted == about.training or bridged(wanted, about.training)


def _trial(name: str, spec: ModelSpec, serving: Sequence[Candidate], measured_j: float) -> Trial:
    best = nearest(spec, serving)
    assert best is not None
    said = {c.name: estimate(spec, c.load(), approximate=True, there=c.there) for c in serving}
    own = on_another_card(said[best.name])
    errors = tuple(math.log(one.energy_j / measured_j) for one in said.values())
    inside = own.interval_j[0] <= measured_j <= own.interval_j[1]
    return Trial(name, math.log(own.energy_j / measured_j), errors, inside)
