"""The lists of saved and bundled profiles, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from ampere_energy.bundled.about import About, Accuracy
from ampere_energy.errors import FileError
from ampere_energy.fit.file import Heading
from ampere_energy.measure.measurement import DeviceInfo
from ampere_energy.model.training import Training
from ampere_energy.plain import encode
from ampere_energy.show.units import percent

Saved = Sequence[tuple[Path, Heading | FileError]]
Bundled = Mapping[str, Mapping[str, About]]


def profiles_table(saved: Saved, bundled: Bundled) -> RenderableType:
    """`ampere profiles`."""
    own = _table("yours")
    for path, found in saved:
        if isinstance(found, FileError):
            own.add_row(path.stem, "", found.what)
            continue
        settings = _settings(f"batch {found.training.batch}", found.training)
        model = found.model if found.complete else f"{found.model} (partial)"
        own.add_row(path.stem, model, settings, _on(*_device(found.device)), found.created[:10], _scored(None))
    if not saved:
        own.add_row("none", "", "make one with ampere profile")
    shipped = _table("\nbundled")
    for bundle, profiles in bundled.items():
        for about in profiles.values():
            settings = _settings(f"{','.join(map(str, about.input))}, {about.widths} widths", about.training)
            device = _on(about.device, about.driver)
            shipped.add_row(bundle, about.family, settings, device, about.date[:10], _scored(about.accuracy))
    return Group(own, shipped)


def profiles_json(saved: Saved, bundled: Bundled) -> dict[str, Any]:
    """`ampere profiles --json`."""
    return {
        "saved": [_saved_json(path, about) for path, about in saved],
        "bundled": [
            {"profile": bundle, "name": name, **encode(about)}
            for bundle, profiles in bundled.items()
            for name, about in profiles.items()
        ],
    }


def _saved_json(path: Path, about: Heading | FileError) -> dict[str, Any]:
    name = {"profile": path.stem, "file": str(path)}
    if isinstance(about, FileError):
        return {**name, "problem": about.what}
    device, driver = _device(about.device)
    training = about.training
    return {
        **name,
        "problem": None,
        "model": about.model,
        "batch": training.batch,
        "mode": training.mode.value,
        "precision": training.precision.value,
        "optimizer": training.optimizer.value,
        "channels_last": training.channels_last,
        "accumulate": training.accumulate,
        "device": device,
        "driver": driver,
        "date": about.created,
        "profile_s": about.profile_s,
        "complete": about.complete,
        "accuracy": None,
    }


def _settings(shape: str, training: Training) -> str:
    """Every setting in words, the usual ones too: in a list they are what tells two profiles apart."""
    words = [shape, training.optimizer, training.mode, training.precision]
    words += ["channels last"] if training.channels_last else []
    words += [f"{training.accumulate} passes an update"] if training.accumulate > 1 else []
    return ", ".join(words)


def _device(info: DeviceInfo) -> tuple[str, str | None]:
    """The hardware and its driver: the card where there is one."""
    details = dict(info.details)
    own = details.get("gpu") if info.name == "cuda" else details.get("processor")
    return own or info.name, details.get("driver")


def _on(device: str, driver: str | None) -> str:
    return f"{device}, driver {driver}" if driver else device


def _scored(accuracy: Accuracy | None) -> str:
    if accuracy is None:
        return "not scored"
    return f"{percent(accuracy.mape)} off, {percent(accuracy.coverage)} inside ({accuracy.models} models)"


def _table(title: str) -> Table:
    table = Table(box=None, padding=(0, 1), title=title, title_justify="left")
    for column in ("--profile", "model", "settings", "device", "date", "mean error, intervals"):
        table.add_column(column, no_wrap=column in ("--profile", "date"))
    return table
