"""How a profile made on one card does on another of the same make, or at other widths on its own.

Bundled profiles are asked for the networks of every experiment that was recorded on another card, or at other widths on
the same one, and compared with the profile that was made there. `data/h200-cards` has experiments that were recorded
again since, on another card.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

from ampere_energy.errors import CoverageError
from ampere_energy.estimation.another_card import on_another_card
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Estimate
from ampere_energy.evaluation.evaluate import Prediction, Score, Trial, Trials, rescore, score
from ampere_energy.evaluation.recorded import Recorded, load
from ampere_energy.profiles.bundles.catalogue import BundleEntry, Widths, entries, load_bundled
from benchmarks.hardware.families import packed
from benchmarks.results import DATA
from benchmarks.studies.families import card_name

OTHERS = DATA / "h200-cards"
BUNDLE = "nvidia-h200"


def run() -> list[dict[str, Any]]:
    """Every bundled profile on the networks of every experiment that it covers, but its own."""
    found = []
    places = [(planned.name, recorded) for planned, recorded in packed("h200")]
    places += [(path.name, load(path)) for path in sorted(OTHERS.iterdir())]
    for place, recorded in places:
        for trials in rescore(recorded):
            known = entries(BUNDLE).items()
            found += [row for name, about in known if (row := _row(place, name, about, recorded, trials))]
    return found


def _row(place: str, name: str, about: BundleEntry, recorded: Recorded, trials: Trials) -> dict[str, Any] | None:
    """One profile on one set; None where it is of the same card and widths, or does not cover the networks."""
    profile = load_bundled(BUNDLE, name)
    alike = (about.widths is Widths.ALIGNED) is trials.aligned
    if profile.training != trials.training or (alike and card_name(profile.device) == card_name(trials.device)):
        return None
    specs = {spec.widths: spec for spec in recorded.experiment.specs(trials.training.mode)}
    try:
        estimates = [estimate(specs[member.widths], profile) for member in trials.networks]
    except CoverageError:
        return None
    here, other = _scored(trials, estimates), card_name(profile.device) != card_name(trials.device)
    return {
        "set": place,
        "mode": trials.training.mode.value,
        "profile": name,
        "cards": [card_name(profile.device), card_name(trials.device)],
        "members": len(estimates),
        "own": score(trials, "ampere").mape,
        "other": here.mape,
        "bias": here.bias,
        "inside": here.coverage,
        "inside elsewhere": _scored(trials, [on_another_card(e) for e in estimates]).coverage if other else None,
        "without bias": _without_bias(trials, estimates),
    }


def _scored(trials: Trials, estimates: list[Estimate]) -> Score:
    networks = tuple(
        Trial(member.widths, member.repeats_j, {"other": Prediction(one.energy_j, one.interval_j)})
        for member, one in zip(trials.networks, estimates, strict=True)
    )
    return score(replace(trials, networks=networks), "other")


def _without_bias(trials: Trials, estimates: list[Estimate]) -> float:
    """The error that one factor for the whole card would leave."""
    ratios = [one.energy_j / member.measured_j for one, member in zip(estimates, trials.networks, strict=True)]
    middle = statistics.median(ratios)
    return statistics.fmean(abs(ratio / middle - 1) for ratio in ratios)
