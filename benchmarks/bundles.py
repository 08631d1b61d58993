"""Profiles recorded on hardware made into bundles of the package.

`python -m benchmarks.bundles` makes the bundles anew from the recorded data.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Container
from pathlib import Path

import numpy as np

from ampere_energy.errors import RequestError
from ampere_energy.estimation.many import estimate_many
from ampere_energy.evaluation.evaluate import rescore, score
from ampere_energy.evaluation.experiment import Experiment, Part
from ampere_energy.evaluation.recorded import Recorded
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.profiles.bundles.catalogue import ROOT, Accuracy, BundleEntry, Widths
from ampere_energy.profiles.profile import Profile
from ampere_energy.serialization import encode
from benchmarks.hardware.families import packed
from benchmarks.results import DATA

FIRST = DATA / "h200-cnn5" / "ampere"
INPUT = (128, 3, 64, 64)


def bundle(profile: Profile, entry: BundleEntry, folder: Path) -> Path:
    """Adds a profile to a bundle's folder; the same profile gives the same bytes wherever and whenever it is run.

    The profile is called after its family, input and mode, and whatever of its settings is not the usual.

    Returns:
        The compressed file.
    """
    if profile.nets is None or not profile.complete:
        raise RequestError(f"the profile of {profile.model} is partial or not of the default method", "bundle another")
    if (family(profile.model).name, profile.training) != (entry.family, entry.training):
        raise RequestError(f"the profile is of {profile.model} at {profile.training}", f"it is said to be {entry}")
    folder.mkdir(parents=True, exist_ok=True)
    name = _name(entry)
    path = folder / f"{name}.json.gz"
    compact = json.dumps(profile.record(), sort_keys=True, separators=(",", ":"))
    path.write_bytes(gzip.compress(compact.encode(), 9, mtime=0))
    index = folder / "about.json"
    entries = json.loads(index.read_text()) if index.exists() else {}
    index.write_text(json.dumps({**entries, name: encode(entry)}, indent=1, sort_keys=True) + "\n")
    return path


def _name(entry: BundleEntry) -> str:
    unusual = [
        entry.precision.value if entry.precision != "fp32" else "",
        entry.optimizer.value if entry.optimizer != "sgd" else "",
        entry.widths.value if entry.widths is Widths.ALIGNED else "",
    ]
    shape = "x".join(map(str, entry.input))
    return "-".join((entry.family, shape, entry.mode.value, *(word for word in unusual if word)))


def described(profile: Profile, input: tuple[int, ...], widths: Widths, accuracy: Accuracy | None) -> BundleEntry:
    """A profile's entry: what it does not say itself is given."""
    details, training = dict(profile.device.details), profile.training
    return BundleEntry(
        family(profile.model).name,
        input,
        widths,
        training.mode,
        training.precision,
        training.optimizer,
        details["gpu"],
        details["driver"],
        profile.created,
        profile.profile_s,
        accuracy,
    )


def first(mode: Mode) -> tuple[Profile, Path]:
    """What the campaign in `data/h200-cnn5` gives today, and where the networks it did not see are."""
    about = FIRST / f"{mode}-evaluation.json"
    [record] = json.loads(about.read_text())
    members = tuple(tuple(trial["widths"]) for trial in record["trials"])
    asked = Experiment("cnn5", INPUT, 1, Training(INPUT[0], mode=mode), members, record["profile_s"])
    recorded = Recorded(asked, None, {Part.CAMPAIGN: MeasurementLog(FIRST / f"{mode}-campaign.jsonl").read()}, "")
    return recorded.profile(*recorded.campaign(mode)), about


def accuracy(profile: Profile, evaluation: Path) -> tuple[Widths, Accuracy]:
    """Which widths `ampere evaluate --json` drew, and how a profile fares on what it measured."""
    [record] = json.loads(evaluation.read_text())
    ref = model_ref("cnn5", input=INPUT, training=profile.training)
    found = estimate_many(parse_ref(ref), profile, np.array([trial["widths"] for trial in record["trials"]]))
    measured = np.array([trial["measured_j"] for trial in record["trials"]])
    inside = (found.low_j <= measured) & (measured <= found.high_j)
    error = np.abs(found.energy_j / measured - 1)
    return Widths(record["widths"]), Accuracy(len(measured), float(error.mean()), float(inside.mean()))


def cnn5(folder: Path) -> None:
    """The family `cnn5` on an NVIDIA H200, as `data/h200-cnn5` has it."""
    for mode in (Mode.EAGER, Mode.GRAPH):
        profile, members = first(mode)
        bundle(profile, described(profile, INPUT, *accuracy(profile, members)), folder)


def families(folder: Path, names: Container[str] | None = None) -> None:
    """The families recorded on an H200 in `data/h200`, in every mode, scored on networks that no campaign ran."""
    for planned, recorded in packed("h200"):
        if names is not None and planned.name not in names:
            continue
        for trials in rescore(recorded):
            profile = recorded.profile(*recorded.campaign(trials.training.mode))
            found = score(trials, "ampere")
            assert found.coverage is not None
            widths = Widths.ALIGNED if trials.aligned else Widths.ANY
            fared = Accuracy(len(trials.networks), found.mape, found.coverage)
            bundle(profile, described(profile, planned.input, widths, fared), folder)


if __name__ == "__main__":
    cnn5(ROOT / "nvidia-h200")
    families(ROOT / "nvidia-h200")
