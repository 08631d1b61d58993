"""A profile: what a campaign learnt about a device, saved as versioned JSON and estimable without hardware."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ampere_energy import files
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.known_kinds import CostModel
from ampere_energy.cost_model.per_kind import KindFit, PerKind, Quantity
from ampere_energy.cost_model.traits import PER_KIND, Reference
from ampere_energy.errors import AmpereError, FileError, RequestError
from ampere_energy.measurement.records import DeviceInfo, MeterInfo
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.training import Training
from ampere_energy.model.widths import within
from ampere_energy.profiles.file import AGAIN, SCHEMA, contents, read
from ampere_energy.serialization import decode, encode, later

MOST_POINTS = 2048
"""Of one kind, and observations of a joint fit: matrices of their square must fit into memory."""
MOST_BLOCKS = 4096
UNUSABLE = "measure again with nothing else running, or start anew with --fresh"
"""What to do about measurements that make no profile."""
MOST_KINDS = MOST_POINTS // 2
"""Each is metered and timed at least once."""
_WIDEST, _FARTHEST = 20.0, 200.0
"""In logarithms: the square of what is as far as this, times all that a mean may be, is still a number."""


@dataclass(frozen=True)
class Profile:
    """All kinds of a model or family on one device.

    Attributes:
        model: what was profiled, for people.
        method: how the kinds were separated and fitted.
        complete: False where the campaign was interrupted or a kind could not be profiled.
        measurements: networks really trained.
        profile_s: seconds spent measuring them.
        created: date and time.
        kinds: what the paper's method learnt, kind by kind.
        nets: what was learnt of all kinds jointly.
        references: blocks of these kinds, for approximating others; none in files older than that.
        doubts: why its measurements are not to be trusted; empty where nothing speaks against them.
        bundled: whether it came with the package, and so was made on another card than an estimate from it is for.
    """

    model: str
    method: str
    device: DeviceInfo
    meter: MeterInfo
    training: Training
    complete: bool
    measurements: int
    profile_s: float
    created: str
    kinds: tuple[KindFit, ...] = ()
    nets: JointFit | None = None
    references: tuple[Reference, ...] = later(())
    doubts: tuple[str, ...] = later(())
    bundled: bool = later(False)

    def __post_init__(self) -> None:
        if bool(self.kinds) == (self.nets is not None):
            raise ValueError("a profile knows its kinds singly or jointly")
        if len({fit.kind for fit in self.kinds}) != len(self.kinds):
            raise ValueError("a kind stands in the profile twice")

    @cached_property
    def cost_model(self) -> CostModel:
        """What was learnt, whichever method learnt it."""
        return PerKind(self.kinds) if self.nets is None else self.nets

    @property
    def joint(self) -> JointFit:
        """What was learnt of all kinds jointly; an error where the paper's method learnt them one by one."""
        if self.nets is None:
            raise RequestError(
                f"the profile of {self.model} was made by the method {self.method}", "profile with --method ampere"
            )
        return self.nets

    def record(self) -> dict[str, Any]:
        """What a file of it holds."""
        return {"schema": SCHEMA, "profile": encode(self)}

    def save(self, path: str | Path) -> None:
        """Writes the profile, if `load` will take it; a crash leaves the old file or the new one, never a half."""
        files.write(Path(path), self.check(Path(path)))

    def check(self, path: Path) -> bytes:
        """What a file of it has, where `load` will take that; else nothing should be saved, and this is an error."""
        try:
            data = (json.dumps(self.record(), allow_nan=False, indent=1) + "\n").encode()
            loads(data, path)
        except (FileError, ValueError) as error:
            why = error.what if isinstance(error, FileError) else f"profile {path} is not JSON: {error}"
            raise FileError(f"{why}; so it is not saved, and what there was is as it was", UNUSABLE) from error
        return data


def check_kinds(specs: Sequence[ModelSpec]) -> None:
    """Refuses models with more kinds of blocks than a profile may know, before they are measured."""
    kinds = len({block.kind for spec in specs for block in spec.blocks})
    if kinds > MOST_KINDS:
        what = f"{specs[0].name} has {kinds} kinds of blocks, and a profile holds at most {MOST_KINDS}"
        raise RequestError(what, "profile a part of it, or vary fewer arguments")


def load(path: str | Path) -> Profile:
    """Reads a saved profile; anything but a valid one that gives finite numbers is a `FileError`."""
    return loads(read(Path(path)), Path(path))


def loads(data: bytes, path: Path) -> Profile:
    """The profile in a file's bytes, checked as `load` does; `path` names it in errors."""
    profile = decode(Profile, contents(data, path), f"profile {path}", AGAIN)
    try:
        _check_use(profile)
    except (AmpereError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        what = error.what if isinstance(error, AmpereError) else str(error)
        raise FileError(f"profile {path} cannot be used: {what}", AGAIN) from error
    return profile


def _check_use(profile: Profile) -> None:
    """Makes sure that estimates from a profile are finite numbers, computed within reasonable time and memory."""
    if not profile.measurements >= 0 or not 0 <= profile.profile_s < 1e12:
        raise ValueError(f"{profile.measurements} measurements in {profile.profile_s:g} s")
    if profile.nets is not None:
        _check_nets(profile.nets)
    _check_references(profile.references, profile.nets)
    if len(profile.kinds) > MOST_KINDS or sum(len(known.points) for known in profile.kinds) > 8 * MOST_POINTS:
        raise ValueError(f"more than {MOST_KINDS} kinds or {8 * MOST_POINTS} points")
    for known in profile.kinds:
        _check_kind(known)


def _check_kind(known: KindFit) -> None:
    name = known.kind.id
    if len(known.points) > MOST_POINTS:
        raise ValueError(f"{name} has {len(known.points)} points, more than {MOST_POINTS}")
    for learnt in (known.energy, known.time):
        hyper = learnt.hyper
        sizes = max(map(abs, (*learnt.values, hyper.mean))) <= 1e15 and max(learnt.noise) <= 1e30
        scales = all(1e-60 <= v <= 1e40 for v in (hyper.outputscale, hyper.noise))
        if not (sizes and scales and all(1e-4 <= v <= 1e6 for v in hyper.lengthscales)):
            raise ValueError(f"{name} has values or hyperparameters out of reason")
    for quantity in Quantity:
        process = known.process(quantity)
        if not np.isfinite([process.mean(process.x), process.variance(process.x)]).all():
            raise ValueError(f"the {quantity} of {name} is not finite")


def _check_references(references: Sequence[Reference], nets: JointFit | None) -> None:
    """References are blocks of the fit's kinds, at widths it covers."""
    if len(references) > MOST_KINDS * PER_KIND:
        raise ValueError(f"{len(references)} references, more than {MOST_KINDS * PER_KIND}")
    subjects = nets.subjects if nets is not None else ()
    for reference in references:
        if not 0 <= reference.subject < len(subjects):
            raise ValueError(f"a reference to subject {reference.subject} of {len(subjects)}")
        if not within(subjects[reference.subject].domain, reference.point):
            raise ValueError(f"a reference at {reference.point}, which is not among the widths profiled")


def _check_nets(nets: JointFit) -> None:
    blocks = sum(len(observation.blocks) for observation in nets.observations)
    distinct = len({block for observation in nets.observations for block in observation.blocks})
    for count, most, name in (
        (len(nets.subjects), MOST_KINDS, "kinds"),
        (len(nets.observations), MOST_POINTS, "observations"),
        (blocks, 32 * MOST_BLOCKS, "blocks"),
        (distinct, MOST_BLOCKS, "different blocks"),
    ):
        if count > most:
            raise ValueError(f"{count} {name}, more than {most}")
    if any(r.high >= 2**26 for subject in nets.subjects for r in subject.domain):
        raise ValueError("widths out of reason")
    for mean in (nets.time, nets.energy):
        if max((mean.base, *(w for kind in mean.weights for w in kind))) > 1e6:
            raise ValueError("a physical mean out of reason")
    widest = 0.0
    for hyper in (*nets.time_hyper, *nets.power_hyper):
        widest = max(widest, sum(max(scales) ** 2 for scales in hyper.scales))
        if not all(1e-4 <= length <= 1e4 for lengths in hyper.lengths for length in lengths):
            raise ValueError("lengths of residuals out of reason")
    if widest > _WIDEST**2:
        raise ValueError(f"residuals with a standard deviation of {math.sqrt(widest):.2g} in the logarithm")
    if nets.host is not None and not (nets.host.spread <= 10 and nets.host.base_s + nets.host.gap_s <= 1e6):
        raise ValueError("host times out of reason")
    with np.errstate(all="ignore"):
        norm = float(np.linalg.norm(nets.posterior.factor.T @ nets.posterior.alpha))
    # No residual g(x) exceeds √k(x, x) · ‖g‖, and ‖g‖² ≤ αᵀ K α: the exponentials below stay far from overflow.
    if not math.sqrt(widest + nets.together**2) * norm <= _FARTHEST:
        raise ValueError("its observations contradict its hyperparameters beyond any doubt")
