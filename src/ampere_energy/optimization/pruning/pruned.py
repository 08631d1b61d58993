"""A pruned model: what was asked for, what it became, and how it is kept, loaded and verified."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import torch
from torch import nn

from ampere_energy import files
from ampere_energy.errors import DeviceError, FileError, RequestError
from ampere_energy.estimation.result import Estimate
from ampere_energy.measurement import retries
from ampere_energy.measurement.devices import Device
from ampere_energy.measurement.procedures import REPORT
from ampere_energy.measurement.records import Measurement
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.groups import groups, narrowed, some
from ampere_energy.model.load import load
from ampere_energy.model.parse import Example, as_inputs
from ampere_energy.model.source import ModelRef
from ampere_energy.optimization.pruning.importance import Importance
from ampere_energy.serialization import decode, encode, parse_json

_WROTE = "name a folder that ampere prune wrote"


class Guide(StrEnum):
    """What widths are chosen by."""

    AMPERE = "ampere"
    FLOPS = "flops"
    RANDOM = "random"


@dataclass(frozen=True)
class Budget:
    """What a step may cost: a share of what it costs before, or joules.

    Attributes:
        text: the joules as they were given, such as `1.5 kJ`; what a message calls them.
    """

    share: float | None = None
    joules: float | None = None
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if (self.share is None) == (self.joules is None):
            raise RequestError("a budget needs a share or joules", "give one of them, such as 50% or 1.5J")
        if self.share is not None and not 0 < self.share < 1:
            raise RequestError(f"a budget of {self.share:.0%}", "give a share between 0 and 1, such as 50%")
        if self.joules is not None and not self.joules > 0:
            raise RequestError(f"a budget of {self.joules:g} J", "give positive joules a step")

    def of(self, original: float) -> float:
        """The limit, in the unit of what the original costs."""
        return self.joules if self.joules is not None else (self.share or 1.0) * original

    def __str__(self) -> str:
        if self.joules is not None:
            return f"{self.text or f'{self.joules:g} J'} a step"
        return f"{100 * (self.share or 1.0):g} %"


@dataclass(frozen=True)
class Aim:
    """What is asked of pruning.

    Attributes:
        mean: whether the expected energy is to be inside the budget; else the upper end of its interval.
        step: widths are multiples of this.
        level: probability of the interval.
    """

    budget: Budget
    guide: Guide
    importance: Importance
    mean: bool
    step: int
    level: float

    def __post_init__(self) -> None:
        if self.step < 1:
            raise RequestError(f"--step {self.step}", "give at least 1")
        if self.guide is Guide.FLOPS and self.budget.joules is not None:
            raise RequestError(
                f"--guide flops with a budget of {self.budget}", "FLOPs know no joules: give a share such as 50%"
            )


@dataclass(frozen=True)
class WidthChange:
    """One width before and after; `groups` of channels have it."""

    name: str
    before: int
    after: int
    groups: int


@dataclass(frozen=True)
class Work:
    """What is counted of a model: parameters, and FLOPs of a training step."""

    parameters: int
    flops: int


@dataclass(frozen=True, eq=False)
class Pruned:
    """A model pruned to a budget; the very model where the budget was met before.

    Attributes:
        model: the module, ready to be trained; a copy, the original stays as it was.
        aim: what was asked for.
        group_widths: how many channels each group has, by the name of the layer that gives them.
        ref: the same for a device that builds it anew; None of a module that was given by hand.
        original: the model as it was, for a device.
        changed: whether anything had to be removed.
        before: what a step of the original is estimated to cost.
        after: what a step of the pruned model is.
        measured: what a step of each costs, where it was verified.
        notes: what should be known about how it came to be.
    """

    model: nn.Module
    aim: Aim
    widths: tuple[WidthChange, ...]
    group_widths: tuple[tuple[str, int], ...]
    ref: ModelRef | None
    original: ModelRef | None
    changed: bool
    before: Estimate
    after: Estimate
    work_before: Work
    work_after: Work
    measured: tuple[Measurement, Measurement] | None = None
    notes: tuple[str, ...] = ()

    def save(self, folder: str | Path) -> None:
        """Writes `weights.pt`, the state dict, and `pruned.json`, which says what shape it has."""
        folder = Path(folder)
        about = {"groups": dict(self.group_widths), "ref": encode(_found_anywhere(self.ref)) if self.ref else None}
        weights = io.BytesIO()
        torch.save(self.model.state_dict(), weights)
        files.write(folder / "weights.pt", weights.getvalue())
        files.write_text(folder / "pruned.json", json.dumps(about, indent=1) + "\n")


def _found_anywhere(ref: ModelRef) -> ModelRef:
    """The reference with its file named so that it is found from any folder."""
    place, _, name = ref.source.rpartition(":")
    return replace(ref, source=f"{Path(place).resolve()}:{name}") if place.endswith(".py") else ref


def load_pruned(folder: str | Path, model: nn.Module | str | None = None, example: Example | None = None) -> nn.Module:
    """A saved model that was pruned, with its weights.

    Args:
        folder: where it was saved. Its files give widths and weights; no code that they name is run.
        model: the original: the module, with its example inputs, or `path/to/file.py:factory` or
            `package.module:factory`, as the command line takes it. A built-in family needs neither.
        example: the original's example inputs.
    """
    folder = Path(folder)
    shape = folder / "pruned.json"
    try:
        about = parse_json(files.read(shape, "pruned model", _WROTE), str(shape), _WROTE)
        with files.opened(folder / "weights.pt", "pruned model", _WROTE) as weights:
            state = torch.load(weights, weights_only=True)
        widths, source = dict(about["groups"]), about["ref"]
    except Exception as error:  # whatever torch meets in a file that is something else
        what = error.what if isinstance(error, FileError) else error
        raise FileError(f"{folder} holds no pruned model ({what})", _WROTE) from error
    ref = decode(ModelRef, source, str(shape), _WROTE) if source is not None else None
    if isinstance(model, nn.Module):
        if example is None:
            raise RequestError(f"{folder} with a module alone", "give the original's example inputs as well")
        found = groups(model, as_inputs(example))
        narrow = narrowed(model, found, [some(group, int(widths.get(group.name, group.size))) for group in found])
    elif ref is None:
        raise RequestError(f"{folder} was pruned from a module", "give the original and its example inputs again")
    elif model is None and ref.source not in FAMILIES:
        raise RequestError(
            f"{folder} was pruned from {ref.source}, which is not run because a file names it",
            f"give it yourself: load_pruned({str(folder)!r}, {ref.source!r})",
        )
    else:
        narrow = load(replace(ref, source=model or ref.source)).module
    try:
        narrow.load_state_dict(state)
    except (RuntimeError, TypeError, AttributeError) as error:
        what = str(error).splitlines()[-1].strip()
        raise FileError(f"{folder} has weights of another shape than its pruned.json says ({what})", _WROTE) from error
    return narrow


def load_weights(model: nn.Module, path: Path) -> None:
    """Gives a model the weights of a saved state dict."""
    try:
        with files.opened(path, "weights", "check --weights") as file:
            model.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except FileError:
        raise
    except Exception as error:  # whatever torch meets in a file that is something else
        raise FileError(f"{path} holds no weights of this model ({error})", "save them by its state_dict()") from error


def verified(pruned: Pruned, device: Device, observe: Callable[[str], None] = lambda message: None) -> Pruned:
    """The same, with a step of the original and one of the pruned model measured on a device."""
    before = measured(pruned.original, "the original", device, observe)
    return replace(pruned, measured=(before, measured(pruned.ref, "the pruned model", device, observe)))


def measured(ref: ModelRef | None, what: str, device: Device, observe: Callable[[str], None]) -> Measurement:
    """What a step of a model costs on a device."""
    if ref is None:
        raise RequestError(
            "a module given by hand cannot be built by a device", "prune a factory: path/to/file.py:name"
        )
    observe(f"measuring {what}")
    found = retries.measured(device, ref, REPORT)
    if found.infeasible is not None:
        raise DeviceError(f"{what} could not be measured: {found.infeasible}", "train it by itself to see why")
    return found
