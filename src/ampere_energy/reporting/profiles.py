"""The lists of saved and bundled profiles, without torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ampere_energy.errors import FileError
from ampere_energy.measurement.records import DeviceInfo
from ampere_energy.model.training import Training
from ampere_energy.profiles.bundles.catalogue import BundleEntry
from ampere_energy.profiles.file import Heading
from ampere_energy.serialization import encode
from ampere_energy.units import percent

Saved = Sequence[tuple[Path, Heading | FileError]]
Bundled = Mapping[str, Mapping[str, BundleEntry]]


def profiles_table(saved: Saved, bundled: Bundled) -> RenderableType:
    """`ampere profiles`."""
    own = _table(("--profile", "model", "settings", "device", "date"))
    for path, found in saved:
        if isinstance(found, FileError):
            own.add_row(path.stem, "", found.what)
            continue
        settings = _settings(found.training)
        model = found.model if found.complete else f"{found.model} (partial)"
        own.add_row(path.stem, model, settings, _on(*_device(found.device)), found.created[:10])
    if not saved:
        own.add_row("none", "", "make one with ampere profile")
    shipped = [part for bundle, profiles in bundled.items() for part in _shipped(bundle, profiles.values())]
    fared = "error is the mean over unseen models that were measured, inside how many of them their 90% intervals held"
    return Group(Text("yours"), own, *shipped, Text(fared, style="dim"))


def _shipped(bundle: str, profiles: Iterable[BundleEntry]) -> Iterator[RenderableType]:
    """A bundle's profiles: a table for each device and driver, optimizer and precision that they were made with."""

    def made(entry: BundleEntry) -> tuple[str, str, str, str]:
        return entry.device, entry.driver, entry.optimizer, entry.precision

    for (device, driver, *settings), own in groupby(sorted(profiles, key=made), key=made):
        yield Text(f"\nbundled, --profile {bundle}: {_on(device, driver)}; {', '.join(settings)}")
        table = _table(("model", "input", "widths", "mode", "date", "error", "inside", "of"))
        for entry in own:
            fared = entry.accuracy
            scored = (percent(fared.mape), percent(fared.coverage), str(fared.models)) if fared else ("not scored",)
            table.add_row(entry.family, entry.shape, entry.widths, entry.mode, entry.date[:10], *scored)
        yield table


def profiles_json(saved: Saved, bundled: Bundled) -> dict[str, Any]:
    """`ampere profiles --json`."""
    return {
        "saved": [_saved_json(path, entry) for path, entry in saved],
        "bundled": [
            {"profile": bundle, "name": name, **encode(entry)}
            for bundle, profiles in bundled.items()
            for name, entry in profiles.items()
        ],
    }


def _saved_json(path: Path, entry: Heading | FileError) -> dict[str, Any]:
    name = {"profile": path.stem, "file": str(path)}
    if isinstance(entry, FileError):
        return {**name, "problem": entry.what}
    device, driver = _device(entry.device)
    training = entry.training
    return {
        **name,
        "problem": None,
        "model": entry.model,
        "batch": training.batch,
        "mode": training.mode.value,
        "precision": training.precision.value,
        "optimizer": training.optimizer.value,
        "channels_last": training.channels_last,
        "accumulate": training.accumulate,
        "device": device,
        "driver": driver,
        "date": entry.created,
        "profile_s": entry.profile_s,
        "complete": entry.complete,
        "accuracy": None,
    }


def _settings(training: Training) -> str:
    """Every setting in words, the usual ones too: in a list they are what tells two profiles apart."""
    words = [f"batch {training.batch}", training.optimizer, training.mode, training.precision]
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


def _table(columns: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 1))
    for column in columns:
        number = column in ("error", "inside", "of")
        table.add_column(column, justify="right" if number else "left", no_wrap=number)
    return table
