"""Pruning to an energy budget: which channels go, so that a training step costs what was promised.

Widths are chosen by the estimate of a profile (`ampere`), by counted work (`flops`), or by chance (`random`, after Li
et al. 2022: widths drawn until they meet the budget, the best after a short training kept). Then the least important
channels of each group are removed, and the pruned model is read anew to see that it is what was estimated.
"""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ampere_energy.decide.importance import Importance, Loss, random_loss, scores
from ampere_energy.decide.space import Space, space_of
from ampere_energy.decide.widths import Choice, Cost, cheapest, drawn, narrowed_to
from ampere_energy.errors import DeviceError, FileError, ModelError, RequestError
from ampere_energy.fit.physics import Array
from ampere_energy.fit.profile import Profile
from ampere_energy.measure.devices import Device
from ampere_energy.measure.measurement import REPORT, Measurement
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.groups import Group, groups, narrowed, some
from ampere_energy.model.objective import Inputs, train_mode
from ampere_energy.model.parse import Example, as_inputs, parse
from ampere_energy.model.source import ModelRef, load
from ampere_energy.model.training import Training
from ampere_energy.model.variants import block_points
from ampere_energy.plain import decode, encode, parse_json
from ampere_energy.predict.estimate import Estimate, estimate
from ampere_energy.predict.many import estimate_many

FAVOURABLE = 8
"""Multiples of this suit a GPU's matrix units."""
_CHUNK = 256
_SHORT_STEPS = 20
_RATE = 0.01
_DRAWS = 1000
_LEAST_SHARE = 1e-6


class Guide(StrEnum):
    """What widths are chosen by."""

    AMPERE = "ampere"
    FLOPS = "flops"
    RANDOM = "random"


@dataclass(frozen=True)
class Budget:
    """What a step may cost: a share of what it costs before, or joules."""

    share: float | None = None
    joules: float | None = None

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
        return f"{self.joules:g} J a step" if self.joules is not None else f"{100 * (self.share or 1.0):g} %"


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
    guide: Guide
    importance: Importance
    budget: Budget
    mean: bool
    step: int
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
        about = {"groups": dict(self.group_widths), "ref": encode(self.ref) if self.ref is not None else None}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            torch.save(self.model.state_dict(), folder / "weights.pt")
            (folder / "pruned.json").write_text(json.dumps(about, indent=1) + "\n")
        except OSError as error:
            raise FileError(f"{folder} cannot be written ({error.strerror})", "choose another --out") from error


def load_pruned(folder: str | Path, model: nn.Module | None = None, example: Example | None = None) -> nn.Module:
    """A saved model that was pruned, with its weights.

    Args:
        folder: where it was saved.
        model: the original, where it was given by hand; of a family or a factory it is built anew.
        example: the original's example inputs.
    """
    folder = Path(folder)
    try:
        about = parse_json((folder / "pruned.json").read_bytes(), str(folder / "pruned.json"))
        state = torch.load(folder / "weights.pt", weights_only=True)
        widths, source = dict(about["groups"]), about["ref"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"{folder} holds no pruned model ({error})", "name a folder that ampere prune wrote") from error
    if source is not None:
        narrow = load(decode(ModelRef, source, f"{folder}/pruned.json")).module
    elif model is None or example is None:
        raise RequestError(f"{folder} was pruned from a module", "give the original and its example inputs again")
    else:
        found = groups(model, as_inputs(example))
        narrow = narrowed(model, found, [some(group, int(widths.get(group.name, group.size))) for group in found])
    narrow.load_state_dict(state)
    return narrow


def prune(
    model: nn.Module | ModelRef | Space,
    example_inputs: Example | None,
    profile: Profile,
    budget: float | Budget,
    *,
    guide: Guide = Guide.AMPERE,
    importance: Importance = Importance.L2,
    mean: bool = False,
    step: int | None = None,
    level: float = 0.9,
    training: Training | None = None,
    loss: Loss | None = None,
    objective: Callable[[nn.Module], float] | None = None,
    samples: int = 8,
    seed: int = 0,
    observe: Callable[[str], None] = lambda told: None,
) -> Pruned:
    """Prunes a model until a training step costs what a budget allows, on the profiled device.

    Args:
        model: a module, a reference to one, or its space.
        example_inputs: of a module, an input batch, its shape, or several inputs.
        profile: knows narrower widths of the model: made with `--prunable`, or a family's own.
        budget: a share of what the original costs, or a `Budget` in joules a step.
        guide: what widths are chosen by; of `flops`, the budget is a share of the FLOPs.
        importance: what the channels that stay are chosen by.
        mean: aim at the expected energy; by default the upper end of the interval is inside the budget.
        step: widths are multiples of this; by default of `favourable(profile)`.
        level: probability of the interval.
        training: of a module, how it will be trained; by default as the profile was made.
        loss: of Taylor's importance, gives the loss on data that matter.
        objective: of `random`, trains a candidate for a short while and gives its score, more being better.
        samples: of `random`, how many candidates are trained.
        seed: of everything drawn by chance.
        observe: told what is being done.

    Raises:
        RequestError: nothing can be pruned, or the budget cannot be met; says what can be reached.
        CoverageError: the profile does not know narrower widths.
    """
    budget = budget if isinstance(budget, Budget) else Budget(share=budget)
    step = favourable(profile) if step is None else step
    if step < 1:
        raise RequestError(f"--step {step}", "give at least 1")
    if guide is Guide.FLOPS and budget.joules is not None:
        raise RequestError(f"--guide flops with a budget of {budget}", "FLOPs know no joules: give a share such as 50%")
    space = model if isinstance(model, Space) else space_of(model, example_inputs, profile, training)
    energy = energy_cost(space, profile, mean, level)
    original = _estimated(space, space.spec.widths, profile, level)
    cost = work_cost(space.spec) if guide is Guide.FLOPS else energy
    own = np.array([space.spec.widths], dtype=float)
    limit = budget.of(float(cost(own)[0]) if guide is Guide.FLOPS else original.energy_j)
    notes: list[str] = []
    judged = scores(space.model, space.groups, space.inputs, importance, loss=loss, seed=seed)
    if importance is Importance.TAYLOR and loss is None:
        notes.append("Taylor's importance saw the example inputs with random targets: no loss on real data was given")
    if float(cost(own)[0]) <= limit:
        return _result(space, space.spec.widths, judged, profile, budget, guide, importance, mean, step, level, ())
    ladders = space.ladders(profile, step)
    if all(len(ladder) == 1 for ladder in ladders):
        raise RequestError(
            f"no width of {space.spec.name} has a smaller multiple of {step} in the profile", "give a smaller --step"
        )

    def told(now: float) -> None:
        observe(f"narrowing: {100 * now / float(cost(own)[0]):.0f} % of the original")

    if guide is Guide.RANDOM:
        choice, said = _by_chance(space, limit, ladders, cost, judged, objective, samples, seed, observe)
        notes.append(said)
    else:
        choice = narrowed_to(limit, ladders, worths(space, ladders, judged), cost, told)
    if not choice.met:
        raise RequestError(*_unreachable(space, budget, choice, float(cost(own)[0]), original, ladders, guide, mean))
    return _result(space, choice.widths, judged, profile, budget, guide, importance, mean, step, level, tuple(notes))


def load_weights(model: nn.Module, path: Path) -> None:
    """Gives a model the weights of a saved state dict."""
    try:
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (OSError, RuntimeError, ValueError, TypeError, AttributeError, pickle.UnpicklingError) as error:
        raise FileError(f"{path} holds no weights of this model ({error})", "save them by its state_dict()") from error


def favourable(profile: Profile) -> int:
    """The step of widths that a device rewards: 8 where it is a GPU or simulated, 1 elsewhere."""
    return 1 if profile.device.name.startswith("cpu") else FAVOURABLE


def verified(pruned: Pruned, device: Device, observe: Callable[[str], None] = lambda told: None) -> Pruned:
    """The same, with a step of the original and one of the pruned model measured on a device."""
    if pruned.ref is None or pruned.original is None:
        raise RequestError(
            "a module given by hand cannot be built by a device", "prune a factory: path/to/file.py:name"
        )
    found = []
    for what, ref in (("the original", pruned.original), ("the pruned model", pruned.ref)):
        observe(f"measuring {what}")
        measurement = device.measure(ref, REPORT)
        if measurement.infeasible is not None:
            raise DeviceError(
                f"{what} could not be measured: {measurement.infeasible}", "train it by itself to see why"
            )
        found.append(measurement)
    return replace(pruned, measured=(found[0], found[1]))


def energy_cost(space: Space, profile: Profile, mean: bool, level: float) -> Cost:
    """Joules a step by widths: the expected ones, or the upper end of the interval."""

    def cost(widths: Array) -> Array:
        parts = [
            estimate_many(space.spec, profile, widths[at : at + _CHUNK], level=level)
            for at in range(0, len(widths), _CHUNK)
        ]
        return np.concatenate([part.energy_j if mean else part.high_j for part in parts])

    return cost


def work_cost(spec: ModelSpec) -> Cost:
    """FLOPs of a training step by widths."""
    known: dict[tuple[int, tuple[int, ...]], int] = {}

    def flops(place: int, point: tuple[int, ...]) -> int:
        if (place, point) not in known:
            known[place, point] = spec.blocks[place].kind.flops(point)
        return known[place, point]

    def cost(widths: Array) -> Array:
        rows = [block_points(spec, [int(w) for w in row]) for row in widths]
        return np.array([float(sum(flops(place, point) for place, point in enumerate(row))) for row in rows])

    return cost


def worths(space: Space, ladders: Sequence[Sequence[int]], judged: Sequence[Sequence[float]]) -> list[list[float]]:
    """For each width and value, minus the reciprocal of the share of importance kept, over the groups that follow."""
    total = [[0.0] * len(ladder) for ladder in ladders]
    for group, followed, score in zip(space.groups, space.follows, judged, strict=True):
        if followed is None:
            continue
        width, factor = followed
        shares = _shares(group, score)
        for rung, value in enumerate(ladders[width]):
            total[width][rung] -= 1 / max(float(shares[factor * value // group.parts]), _LEAST_SHARE)
    return total


def _shares(group: Group, score: Sequence[float]) -> Array:
    """The share of a group's importance that its best channels hold, by how many of each part there are."""
    parts = -np.sort(-np.array(score).reshape(group.parts, -1), axis=1)
    held: Array = np.concatenate([[0.0], np.cumsum(parts.sum(0))]) / parts.sum()
    return held


def _by_chance(
    space: Space,
    limit: float,
    ladders: Sequence[Sequence[int]],
    cost: Cost,
    judged: Sequence[Sequence[float]],
    objective: Callable[[nn.Module], float] | None,
    samples: int,
    seed: int,
    observe: Callable[[str], None],
) -> tuple[Choice, str]:
    """The best of some random widths after a short training, and what it was judged by."""
    if samples < 1:
        raise RequestError(f"--samples {samples}", "give at least 1")
    draw = np.random.default_rng(seed)
    found: dict[tuple[int, ...], Choice] = {}
    for _ in range(_DRAWS):
        choice = drawn(limit, ladders, cost, draw)
        if choice is not None:
            found.setdefault(choice.widths, choice)
        if len(found) == samples:
            break
    if not found:
        return cheapest(ladders, cost), ""
    judge = objective or (lambda module: _short_training(module, space.inputs, seed))
    best: tuple[float, Choice] | None = None
    for number, choice in enumerate(found.values(), start=1):
        observe(f"training candidate {number} of {len(found)}")
        score = judge(narrowed(space.model, space.groups, space.kept(choice.widths, judged)))
        if best is None or score > best[0]:
            best = score, choice
    assert best is not None
    by = "your objective" if objective else f"the loss after {_SHORT_STEPS} steps on example inputs with random targets"
    return best[1], f"the best of {len(found)} random width configurations within the budget, by {by}"


def _short_training(model: nn.Module, inputs: Inputs, seed: int) -> float:
    """Minus the loss after a short training on example inputs and random targets."""
    train_mode(model)
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), lr=_RATE, momentum=0.9)
    for _ in range(_SHORT_STEPS):
        optimizer.zero_grad()
        loss = random_loss(model, inputs, seed)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return -float(loss.detach())


def _unreachable(
    space: Space,
    budget: Budget,
    choice: Choice,
    own: float,
    original: Estimate,
    ladders: Sequence[Sequence[int]],
    guide: Guide,
    mean: bool,
) -> tuple[str, str]:
    """What can be reached, and why no less."""
    base = original.energy_j if guide is not Guide.FLOPS else own
    unit = "FLOPs" if guide is Guide.FLOPS else "J"
    reached = f"{choice.cost:.3g} {unit}, {100 * choice.cost / base:.0f} % of the original"
    which = "" if mean or guide is Guide.FLOPS else " at the interval's upper end"
    stay = [group.name for group, followed in zip(space.groups, space.follows, strict=True) if followed is None]
    reasons = [f"with every width at the narrowest the profile covers ({','.join(str(w) for w in choice.widths)})"]
    if stay:
        named = ", ".join(stay[:3]) + (", …" if len(stay) > 3 else "")
        reasons.append(f"from {len(stay)} groups of channels nothing can be removed ({named})")
    if original.busy < 0.9:
        reasons.append(
            f"the device waits for the host {100 * (1 - original.busy):.0f} % of a step, which no width changes"
        )
    remedy = "raise the budget" + ("" if mean or guide is Guide.FLOPS else ", aim at the mean with --mean")
    return f"a budget of {budget} cannot be met: the best reachable is {reached}{which}, {'; '.join(reasons)}", remedy


def _result(
    space: Space,
    widths: Sequence[int],
    judged: Sequence[Sequence[float]],
    profile: Profile,
    budget: Budget,
    guide: Guide,
    importance: Importance,
    mean: bool,
    step: int,
    level: float,
    notes: tuple[str, ...],
) -> Pruned:
    changed = tuple(widths) != space.spec.widths
    asked = space.group_widths(widths)
    module = narrowed(space.model, space.groups, space.kept(widths, judged)) if changed else copy.deepcopy(space.model)
    spec = _member(space.spec, widths)
    if changed:
        _confirm(space, spec, module)
    counts = [sum(f is not None and f[0] == v for f in space.follows) for v in range(len(space.spec.widths))]
    rows = zip(space.names, space.spec.widths, widths, counts, strict=True)
    return Pruned(
        model=train_mode(module),
        guide=guide,
        importance=importance,
        budget=budget,
        mean=mean,
        step=step,
        widths=tuple(WidthChange(name, before, int(after), n) for name, before, after, n in rows if n),
        group_widths=tuple((group.name, width) for group, width in zip(space.groups, asked, strict=True)),
        ref=space.ref_of(widths),
        original=space.ref_of(space.spec.widths),
        changed=changed,
        before=_estimated(space, space.spec.widths, profile, level),
        after=_estimated(space, widths, profile, level),
        work_before=_work(space.model, space.spec),
        work_after=_work(module, spec),
        notes=notes,
    )


def _member(spec: ModelSpec, widths: Sequence[int]) -> ModelSpec:
    points = block_points(spec, [int(width) for width in widths])
    blocks = tuple(Block(b.name, b.kind, point) for b, point in zip(spec.blocks, points, strict=True))
    return replace(spec, blocks=blocks, widths=tuple(int(width) for width in widths))


def _estimated(space: Space, widths: Sequence[int], profile: Profile, level: float) -> Estimate:
    return estimate(_member(space.spec, widths), profile, level=level)


def _work(model: nn.Module, spec: ModelSpec) -> Work:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Work(parameters, sum(block.training_flops for block in spec.blocks))


def _confirm(space: Space, foreseen: ModelSpec, module: nn.Module) -> None:
    """Reads the pruned model anew: it does the work that was foreseen."""
    read = parse(module, space.inputs, training=space.spec.training)
    found, wanted = (
        (sum(b.parameters for b in spec.blocks), sum(b.training_flops for b in spec.blocks))
        for spec in (read, foreseen)
    )
    if found != wanted:
        raise ModelError(
            f"the pruned {space.spec.name} has {found[0]:,} parameters and {found[1]:,} FLOPs, not the {wanted[0]:,} "
            f"and {wanted[1]:,} that were estimated",
            "report it with the model",
        )
