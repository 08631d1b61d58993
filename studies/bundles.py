"""Profiles recorded on hardware made into bundles of the package.

python -m studies.bundles       makes the bundles anew from the recorded data
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Container
from pathlib import Path
from tempfile import TemporaryDirectory

from ampere_energy.bundled.about import ROOT, About, Accuracy, Widths
from ampere_energy.errors import RequestError
from ampere_energy.fit.profile import Profile, load
from ampere_energy.model.zoo.families import family
from ampere_energy.plain import encode
from ampere_energy.predict.evaluate import rescore, score
from studies.experiments import packed

DATA = Path("data/h200-cnn5/ampere")


def bundle(profile_path: Path, about: About, folder: Path) -> Path:
    """Adds a profile to a bundle's folder; the same profile gives the same bytes wherever and whenever it is run.

    The profile is called after its family, input and mode, and whatever of its settings is not the usual.

    Returns:
        The compressed file.
    """
    profile = load(profile_path)
    if profile.nets is None or not profile.complete:
        raise RequestError(f"{profile_path} is partial or not of the default method", "bundle another")
    if (family(profile.model).name, profile.training) != (about.family, about.training):
        raise RequestError(f"{profile_path} is of {profile.model} at {profile.training}", f"it is said to be {about}")
    folder.mkdir(parents=True, exist_ok=True)
    name = _name(about)
    path = folder / f"{name}.json.gz"
    compact = json.dumps(json.loads(profile_path.read_text()), sort_keys=True, separators=(",", ":"))
    path.write_bytes(gzip.compress(compact.encode(), 9, mtime=0))
    index = folder / "about.json"
    entries = json.loads(index.read_text()) if index.exists() else {}
    index.write_text(json.dumps({**entries, name: encode(about)}, indent=1, sort_keys=True) + "\n")
    return path


def _name(about: About) -> str:
    unusual = [
        about.precision.value if about.precision != "fp32" else "",
        about.optimizer.value if about.optimizer != "sgd" else "",
        about.widths.value if about.widths is Widths.ALIGNED else "",
    ]
    shape = "x".join(map(str, about.input))
    return "-".join((about.family, shape, about.mode.value, *(word for word in unusual if word)))


def described(profile: Profile, input: tuple[int, ...], widths: Widths, accuracy: Accuracy | None) -> About:
    """A profile's entry: what it does not say itself is given."""
    details, training = dict(profile.device.details), profile.training
    return About(
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


def accuracy(evaluation: Path) -> tuple[Widths, Accuracy]:
    """Which widths `ampere evaluate --json` drew, and how the profile fared on them."""
    [record] = json.loads(evaluation.read_text())
    trials = record["trials"]
    errors = [abs(t["predicted_j"] / t["measured_j"] - 1) for t in trials]
    inside = [t["interval_j"][0] <= t["measured_j"] <= t["interval_j"][1] for t in trials]
    count = len(trials)
    return Widths(record["widths"]), Accuracy(count, sum(errors) / count, sum(inside) / count)


def cnn5(folder: Path) -> None:
    """The family `cnn5` on an NVIDIA H200, as `data/h200-cnn5` has it."""
    for mode in ("eager", "graph"):
        widths, fared = accuracy(DATA / f"{mode}-evaluation.json")
        path = DATA / f"{mode}-profile.json"
        bundle(path, described(load(path), (128, 3, 64, 64), widths, fared), folder)


def families(folder: Path, names: Container[str] | None = None) -> None:
    """The families recorded on an NVIDIA H200 in `data/h200`, in every mode, scored on their unseen members."""
    for planned, recorded in packed("h200"):
        if names is not None and planned.name not in names:
            continue
        for trials in rescore(recorded):
            profile = recorded.profile(*recorded.campaign(trials.training.mode))
            found = score(trials, "ampere")
            assert found.coverage is not None
            widths = Widths.ALIGNED if trials.aligned else Widths.ANY
            fared = Accuracy(len(trials.members), found.mape, found.coverage)
            about = described(profile, planned.input, widths, fared)
            with TemporaryDirectory() as kept:
                path = Path(kept) / "profile.json"
                profile.save(path)
                bundle(path, about, folder)


if __name__ == "__main__":
    cnn5(ROOT / "nvidia-h200")
    families(ROOT / "nvidia-h200")
