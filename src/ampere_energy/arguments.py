"""What people type, made into values; and where profiles and their logs live."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampere_energy.errors import FileError, RequestError

if TYPE_CHECKING:
    from ampere_energy.decide.pruned import Budget
    from ampere_energy.fit.file import Heading
    from ampere_energy.fit.profile import Profile
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import InputSpec, ModelRef
    from ampere_energy.model.variants import WidthRange


def choice(options: Any, value: str, option: str) -> Any:
    """The member of an enumeration that a word names."""
    try:
        return options(value)
    except ValueError:
        raise RequestError(f"{option} {value}", f"choose from {', '.join(options)}") from None


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        such = "16,32,64" if option == "--widths" else "32,3,64,64"
        raise RequestError(f"{option} {text}", f"give whole numbers with commas, such as {such}") from None


def positive(value: int, option: str) -> int:
    """The value, where it is at least 1."""
    if value < 1:
        raise RequestError(f"{option} {value}", "give at least 1")
    return value


def width_ranges(text: str) -> tuple[WidthRange, ...]:
    """What each width may be: `8:64:8,16:128,10` is 8 to 64 by steps of 8, any of 16 to 128, and 10."""
    from ampere_energy.model.variants import WidthRange

    found = []
    for part in text.split(",") if text else ():
        low, high, step = (*numbers(part.replace(":", ","), "--widths"), *(0, 0, 0))[:3]
        if part.count(":") > 2:
            raise RequestError(f"--widths {text}", "give LOW:HIGH:STEP for each width, such as 8:64:8,16:128:8")
        found.append(WidthRange(low, high or low, step or 1))
    return tuple(found)


def inputs_of(texts: Sequence[str]) -> tuple[tuple[int, ...], tuple[InputSpec, ...]]:
    """The shape of the only input, or what each of several is: `32,3,64,64`, `ids:int64:8,128`, `:int64:8,128:30522`.

    The parts of an input are its argument's name (empty: by position), its type, its shape, and, of integers, the
    end of their values.
    """
    if len(texts) == 1 and ":" not in texts[0]:
        return numbers(texts[0], "--input"), ()
    from ampere_energy.model.source import InputSpec

    found = []
    for text in texts:
        if text.count(":") not in (0, 2, 3):
            raise RequestError(f"--input {text}", "give name:type:shape, such as ids:int64:8,128")
        name, dtype, shape, high = (*text.split(":"), "")[:4] if ":" in text else ("", "float32", text, "")
        found.append(InputSpec(name, dtype, numbers(shape, "--input"), *numbers(high, "--input")[:1]))
    return (), tuple(found)


def inputs_text(ref: ModelRef) -> list[str]:
    """What `--input` a reference was made with."""
    if ref.input:
        return [",".join(map(str, ref.input))]
    return [
        ":".join((i.name, i.dtype, ",".join(map(str, i.shape)), *([str(i.high)] if i.high else []))) for i in ref.inputs
    ]


def seconds(text: str) -> float | None:
    """Seconds of a time such as 60s, 2m or 1h."""
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|min|h)?", text.strip())
    if not match:
        raise RequestError(f"--budget {text}", "give a time such as 60s, 2m or 1h")
    return float(match[1]) * {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}[match[2]]


def watt_hours(text: str) -> float | None:
    """Watt-hours of a capacity such as 15Wh."""
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(Wh|kWh)", text.strip(), re.IGNORECASE)
    if not match or float(match[1]) <= 0:
        raise RequestError(f"--battery {text}", "give a capacity such as 15Wh; of mAh, a thousandth times the volts")
    return float(match[1]) * (1000 if match[2].lower() == "kwh" else 1)


def joules(text: str, option: str = "--within") -> float | None:
    """Joules of an energy such as 500J, 20kJ, 1.5MJ or 3Wh."""
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(mJ|J|kJ|MJ|Wh|kWh)", text.strip())
    if not match or float(match[1]) <= 0:
        raise RequestError(f"{option} {text}", "give an energy such as 500J, 20kJ or 3Wh")
    return float(match[1]) * {"mJ": 1e-3, "J": 1, "kJ": 1e3, "MJ": 1e6, "Wh": 3600, "kWh": 3.6e6}[match[2]]


def share(text: str, option: str) -> float | None:
    """A share such as 3% or 0.03."""
    if not text:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < value < 1:
        raise RequestError(f"{option} {text}", "give a share such as 3%")
    return value


def probability(value: str | float) -> float:
    """A probability such as 90% or 0.9, as `--level` takes it; its default is a number already."""
    try:
        return share(str(value), "--level") or 0.0
    except RequestError as error:
        raise RequestError(error.what, "give a probability between 0 and 1, such as 0.9 or 90%") from error


def step_budget(text: str) -> Budget:
    """What a step may cost: a share such as 50%, or an energy such as 1.5J."""
    from ampere_energy.decide.pruned import Budget

    try:
        if any(letter.isalpha() for letter in text):
            return Budget(joules=joules(text, "--budget"))
        return Budget(share=share(text, "--budget"))
    except RequestError as error:
        raise RequestError(
            error.what, "give a share below 100%, such as 50%, or joules a step, such as 1.5J"
        ) from error


def default_name(model: str, device: str) -> str:
    """A profile's name where none was given."""
    return re.sub(r"[^\w.]+", "-", f"{Path(model).name}-{device}").strip("-")


def new_name(model: str, device: str, beside: str) -> str:
    """A name for a profile of a model that no profile or log has yet, of the sort of another's: a file or a name."""
    name = default_name(model, device)
    file = Path(beside).is_file() or beside.endswith(".json") or "/" in beside
    candidates = (name, *(f"{name}-{i}" for i in range(2, 10**6)))
    names = (str(Path(beside).with_name(f"{candidate}.json")) if file else candidate for candidate in candidates)
    return next(n for n in names if not any(profile_path(n).with_suffix(s).exists() for s in (".json", ".jsonl")))


def profile_path(name: str) -> Path:
    """A file where the name says so, else a name in the user's collection."""
    if Path(name).is_dir():
        raise RequestError(f"{name} is a folder", f"name a file in it, such as {Path(name) / 'profile.json'}")
    if name.endswith(".json") or "/" in name:
        return Path(name).with_suffix(".json")
    return _collection() / f"{name}.json"


def _collection() -> Path:
    import platformdirs

    return platformdirs.user_data_path("ampere-energy") / "profiles"


def saved_profiles() -> list[tuple[Path, Heading | FileError]]:
    """The user's collection: what each file says of itself, or what is wrong with it."""
    from ampere_energy.fit.file import heading

    found: list[tuple[Path, Heading | FileError]] = []
    for path in sorted(_collection().glob("*.json")):
        try:
            found.append((path, heading(path)))
        except FileError as error:
            found.append((path, error))
    return found


def is_bundle(name: str) -> bool:
    """Whether a name means a bundle: no file and no saved profile is called so."""
    from ampere_energy.bundled.about import bundles

    taken = Path(name).is_file() or (_collection() / f"{name}.json").is_file()
    return name in bundles() and not taken


def prepare_log(path: Path, log: Path, spec: ModelSpec, resume: bool, fresh: bool) -> Path | None:
    """Makes sure that what was measured before is gone on with or kept, never mixed or lost.

    Returns:
        Where an old log was moved to, if it was.
    """
    if resume and fresh:
        raise RequestError("--resume with --fresh", "give one of them")
    if resume and path.exists():
        from ampere_energy.fit.file import heading

        before = heading(path, older=True)
        if (before.model, before.training) != (spec.name, spec.training):
            raise RequestError(f"{path} is a profile of {before.model} at {before.training}", "choose another --out")
    if resume and not log.exists():
        raise FileError(f"there is no log {log} to resume", "run without --resume")
    if log.exists() and log.stat().st_size and not resume:
        if not fresh:
            raise FileError(
                f"{log} holds measurements", "go on with --resume, start anew with --fresh, or choose --out"
            )
        kept = next(p for i in range(1, 10**6) if not (p := log.with_suffix(f".{i}.jsonl")).exists())
        log.rename(kept)
        return kept
    return None


def existing_path(name: str) -> Path:
    """Where the profile of a name or file is."""
    return profile_path(name) if not Path(name).is_file() else Path(name)


def load_profile(name: str) -> Profile:
    """The profile of a name or file, of the user's own: bundled ones are only for estimates."""
    if is_bundle(name):
        raise RequestError(
            f"{name} is bundled, profiled on another device, and is not measured with or written to",
            "make your own profile on this device with ampere profile",
        )
    if is_bundle(name.partition("/")[0]) and not Path(name).is_file():
        raise RequestError(
            f"{name} is one profile of a bundle",
            f"give --profile {name.partition('/')[0]}, which takes the one that covers the model",
        )
    path = existing_path(name)
    if path.parent == _collection() and not path.exists():
        from ampere_energy.bundled.about import bundles

        raise FileError(
            f"no profile or bundle is called {name!r}",
            f"make one with ampere profile, or take a bundle: {', '.join(bundles())}",
        )
    from ampere_energy.fit.profile import load

    return load(path)
