"""Where profiles and their logs live, and which profile a name means."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ampere_energy import files
from ampere_energy.errors import FileError, RequestError

if TYPE_CHECKING:
    from ampere_energy.measurement.log import MeasurementLog
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.profiles.file import Heading
    from ampere_energy.profiles.profile import Profile


def default_name(model: str, device: str) -> str:
    """A profile's name where none was given."""
    return re.sub(r"[^\w.]+", "-", f"{Path(model).name}-{device}").strip("-")


def new_name(model: str, device: str, beside: str) -> str:
    """A name for a profile of a model that no profile or log has yet, of the sort of another's: a file or a name."""
    name = default_name(model, device)
    file = files.is_file(Path(beside)) or beside.endswith(".json") or "/" in beside
    candidates = (name, *(f"{name}-{i}" for i in range(2, 10**6)))
    names = (str(Path(beside).with_name(f"{candidate}.json")) if file else candidate for candidate in candidates)
    return next(n for n in names if not files.exists(profile_path(n)) and not log_of(profile_path(n)).exists())


def profile_path(name: str) -> Path:
    """A file where the name says so, else a name in the user's collection."""
    if files.is_folder(Path(name)):
        raise RequestError(f"{name} is a folder", f"name a file in it, such as {Path(name) / 'profile.json'}")
    if name.endswith(".json"):
        return Path(name)
    return Path(f"{name.rstrip('/')}.json") if "/" in name else _collection() / f"{name}.json"


def log_of(profile: Path) -> MeasurementLog:
    """The log that a profile was made from; each profile has its own."""
    from ampere_energy.measurement.log import MeasurementLog

    return MeasurementLog(profile.with_name(f"{profile.name.removesuffix('.json')}.jsonl"))


def _collection() -> Path:
    import platformdirs

    return platformdirs.user_data_path("ampere-energy") / "profiles"


def saved_profiles() -> list[tuple[Path, Heading | FileError]]:
    """The user's collection: what each file says of itself, or what is wrong with it."""
    from ampere_energy.profiles.file import heading

    found: list[tuple[Path, Heading | FileError]] = []
    for path in files.listed(_collection(), "*.json"):
        try:
            found.append((path, heading(path)))
        except FileError as error:
            found.append((path, error))
    return found


def is_bundle(name: str) -> bool:
    """Whether a name means a bundle: no file and no saved profile is called so."""
    from ampere_energy.profiles.bundles.catalogue import bundles

    return name in bundles() and not any(map(files.is_file, (Path(name), _collection() / f"{name}.json")))


def profile_held(name: str, wait: bool) -> AbstractContextManager[None]:
    """Holds the log of a saved profile, so that nobody else changes either; of no profile there is nothing to hold."""
    path = existing_path(name) if name and not is_bundle(name) else None
    return log_of(path).held(wait) if path is not None and files.is_file(path) else nullcontext()


def prepare_log(path: Path, spec: ModelSpec, resume: bool, fresh: bool) -> None:
    """Makes sure that what was measured before is gone on with or started anew, as asked, and never mixed."""
    log = log_of(path)
    if resume and fresh:
        raise RequestError("--resume with --fresh", "give one of them")
    if resume and files.exists(path):
        from ampere_energy.profiles.file import heading

        before = heading(path, older=True)
        if (before.model, before.training) != (spec.name, spec.training):
            raise RequestError(f"{path} is a profile of {before.model} at {before.training}", "choose another --out")
    if resume and not log.exists():
        raise FileError(f"there is no log {log.path} to resume", "run without --resume")
    if not (resume or fresh or log.empty()):
        raise FileError(
            f"{log.path} holds measurements", "go on with --resume, start anew with --fresh, or choose --out"
        )


def existing_path(name: str) -> Path:
    """Where the profile of a name or file is."""
    path = Path(name)
    return path if files.exists(path) and not files.is_folder(path) else profile_path(name)


def load(name: str | Path) -> Profile:
    """The profile of a name, as the command line takes it.

    Args:
        name: a file, the name of a saved profile, or one profile of a bundle, such as
            `nvidia-h200/cnn5-128x3x64x64-graph`. A `Path` is always a file.

    Raises:
        RequestError: the name is a bundle's, or that of a profile which the bundle does not have; says what it has.
        FileError: there is no such profile, or it cannot be used.
    """
    from ampere_energy.profiles.profile import load as load_file

    if isinstance(name, Path):
        return load_file(name)
    bundle, _, own = name.partition("/")
    if is_bundle(bundle) and not files.is_file(Path(name)):
        return _bundled(bundle, own)
    return load_profile(name)


def _bundled(bundle: str, name: str) -> Profile:
    from ampere_energy.profiles.bundles.catalogue import entries, load_bundled

    found = entries(bundle)
    if name not in found:
        what = f"{bundle} has no profile {name!r}" if name else f"{bundle} is a bundle of {len(found)} profiles"
        raise RequestError(
            what, f"name one, such as {bundle}/{next(iter(found))}: ampere profiles --json tells of {', '.join(found)}"
        )
    return load_bundled(bundle, name)


def load_profile(name: str) -> Profile:
    """The profile of a name or file, of the user's own: bundled ones are only for estimates."""
    if is_bundle(name):
        raise RequestError(
            f"{name} is bundled, profiled on another device, and is not measured with or written to",
            "make your own profile on this device with ampere profile",
        )
    if is_bundle(name.partition("/")[0]) and not files.is_file(Path(name)):
        raise RequestError(
            f"{name} is one profile of a bundle",
            f"give --profile {name.partition('/')[0]}, which takes the one that covers the model",
        )
    path = existing_path(name)
    if path.parent == _collection() and not files.exists(path):
        from ampere_energy.profiles.bundles.catalogue import bundles

        raise FileError(
            f"no profile or bundle is called {name!r}",
            f"make one with ampere profile, or take a bundle: {', '.join(bundles())}",
        )
    from ampere_energy.profiles.profile import load as load_file

    return load_file(path)
