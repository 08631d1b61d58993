"""Pruning to an energy budget: which channels go, so that a training step costs what was promised.

Widths are chosen by the estimate of a profile (`ampere`), by counted work (`flops`), or by chance (`random`). Then the
least important channels of each group are removed, and the pruned model is read anew to see that it is what was
estimated.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import numpy as np
from torch import nn

from ampere_energy.errors import ModelError, RequestError
from ampere_energy.estimation.coverage import listed
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Estimate
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.groups import narrowed
from ampere_energy.model.objective import train_mode
from ampere_energy.model.parse import Example, parse
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Training
from ampere_energy.model.variants import resized
from ampere_energy.optimization.pruning.channels import Channels, channels_of
from ampere_energy.optimization.pruning.costs import energy_cost, work_cost, worths
from ampere_energy.optimization.pruning.importance import Importance, Loss, scores
from ampere_energy.optimization.pruning.pruned import Aim, Budget, Guide, Pruned, WidthChange, Work
from ampere_energy.optimization.pruning.random_widths import by_chance
from ampere_energy.optimization.pruning.reward import BUSY
from ampere_energy.optimization.pruning.widths import Choice, narrowed_to
from ampere_energy.profiles.profile import Profile

FAVOURABLE = 8
"""Multiples of this suit a GPU's matrix units."""


def prune(
    model: nn.Module | ModelRef | Channels,
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
    observe: Callable[[str], None] = lambda message: None,
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
    aim = Aim(budget, guide, importance, mean, favourable(profile) if step is None else step, level)
    space = model if isinstance(model, Channels) else channels_of(model, example_inputs, profile, training)
    original = _estimated(space, space.spec.widths, profile, level)
    cost = work_cost(space.spec) if guide is Guide.FLOPS else energy_cost(space, profile, mean, level)
    own = float(cost(np.array([space.spec.widths], dtype=float))[0])
    base = own if guide is Guide.FLOPS else original.energy_j
    limit = budget.of(base)
    judged = scores(space.model, space.groups, space.inputs, importance, loss=loss, seed=seed)
    if own <= limit:
        return _result(space, space.spec.widths, judged, profile, aim, ())
    ladders = space.ladders(profile, aim.step)
    finer = sum(map(len, space.ladders(profile, 1))) > sum(map(len, ladders))
    if all(len(ladder) == 1 for ladder in ladders):
        raise RequestError(
            f"no width of {space.spec.name} has a smaller multiple of {aim.step} in the profile",
            "give a smaller --step" if finer else "profile it with --prunable",
        )
    notes: list[str] = []
    if importance is Importance.TAYLOR and loss is None:
        notes.append("Taylor's importance saw the example inputs with random targets: no loss on real data was given")
    if guide is Guide.RANDOM:
        choice, said = by_chance(space, limit, ladders, cost, judged, objective, samples, seed, observe)
        notes.append(said)
    else:
        worth = worths(space, ladders, judged)
        choice = narrowed_to(
            limit, ladders, worth, cost, lambda now: observe(f"narrowing: {100 * now / base:.0f} % of the original")
        )
    if not choice.met:
        expected_j = _estimated(space, choice.widths, profile, level).energy_j
        raise RequestError(*_unreachable(space, aim, choice, base, original, expected_j <= limit, finer))
    return _result(space, choice.widths, judged, profile, aim, tuple(notes))


def favourable(profile: Profile) -> int:
    """The step of widths that a device rewards: 8 where it is a GPU or simulated, 1 elsewhere."""
    return 1 if profile.device.name.startswith("cpu") else FAVOURABLE


def _unreachable(
    space: Channels, aim: Aim, choice: Choice, base: float, original: Estimate, by_mean: bool, finer: bool
) -> tuple[str, str]:
    """What can be reached, and why no less; whether the mean would be inside, and finer steps are profiled."""
    by_work = aim.guide is Guide.FLOPS
    reached = f"{choice.cost:.4g} {'FLOPs' if by_work else 'J'}, {100 * choice.cost / base:.0f} % of the original"
    upper = not (aim.mean or by_work)
    multiple = f" multiple of {aim.step}" if aim.step > 1 else ""
    reasons = [f"with every width at the narrowest{multiple} the profile covers ({','.join(map(str, choice.widths))})"]
    stay = [group.name for group, followed in zip(space.groups, space.follows, strict=True) if followed is None]
    if stay:
        reasons.append(f"from {len(stay)} groups of channels nothing can be removed ({listed(stay, 3)})")
    if original.busy < BUSY and not by_work:
        waits = 100 * (1 - original.busy)
        reasons.append(f"the device waits for the host {waits:.0f} % of a step, which no width changes")
    where = " at the interval's upper end" if upper else ""
    remedies = ["raise the budget"]
    remedies += ["give a smaller --step"] if finer else []
    remedies += ["aim at the mean with --mean"] if upper and by_mean else []
    return (
        f"a budget of {aim.budget} cannot be met: the best reachable is {reached}{where}, {'; '.join(reasons)}",
        " or ".join(remedies),
    )


def _result(
    space: Channels,
    widths: Sequence[int],
    judged: Sequence[Sequence[float]],
    profile: Profile,
    aim: Aim,
    notes: tuple[str, ...],
) -> Pruned:
    changed = tuple(widths) != space.spec.widths
    asked = space.group_widths(widths)
    module = narrowed(space.model, space.groups, space.kept(widths, judged)) if changed else copy.deepcopy(space.model)
    spec = resized(space.spec, widths)
    if changed:
        _confirm(space, spec, module)
    counts = [sum(f is not None and f[0] == v for f in space.follows) for v in range(len(space.spec.widths))]
    rows = zip(space.names, space.spec.widths, widths, counts, strict=True)
    return Pruned(
        model=train_mode(module),
        aim=aim,
        widths=tuple(WidthChange(name, before, int(after), n) for name, before, after, n in rows if n),
        group_widths=tuple((group.name, width) for group, width in zip(space.groups, asked, strict=True)),
        ref=space.ref_of(widths),
        original=space.ref_of(space.spec.widths),
        changed=changed,
        before=_estimated(space, space.spec.widths, profile, aim.level),
        after=_estimated(space, widths, profile, aim.level),
        work_before=_work(space.model, space.spec),
        work_after=_work(module, spec),
        notes=notes,
    )


def _estimated(space: Channels, widths: Sequence[int], profile: Profile, level: float) -> Estimate:
    return estimate(resized(space.spec, widths), profile, level=level)


def _work(model: nn.Module, spec: ModelSpec) -> Work:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Work(parameters, sum(block.training_flops for block in spec.blocks))


def _confirm(space: Channels, foreseen: ModelSpec, module: nn.Module) -> None:
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
