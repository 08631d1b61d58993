"""How much a channel matters, by torch-pruning's measures of a whole group: more is more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import torch
from torch import nn

from ampere_energy.errors import RequestError
from ampere_energy.model.groups import Group, few, torch_pruning
from ampere_energy.model.objective import Inputs, called, objective
from ampere_energy.model.undisturbed import in_training, unchanged

_SAMPLES = 16
Loss = Callable[[nn.Module], torch.Tensor]


class Importance(StrEnum):
    """What the channels that stay are chosen by."""

    RANDOM = "random"
    L1 = "l1"
    L2 = "l2"
    BN = "bn"
    TAYLOR = "taylor"


def scores(
    model: nn.Module,
    groups: Sequence[Group],
    inputs: Inputs,
    importance: Importance,
    *,
    loss: Loss | None = None,
    seed: int = 0,
) -> list[list[float]]:
    """For each group, how much each of its channels matters; their mean is one.

    Args:
        model: the module the groups were found in.
        groups: its groups.
        inputs: example inputs, for Taylor's measure where there is no loss.
        importance: weights' sums (`l1`, `l2`), batch normalisation's scales (`bn`; groups without it go by `l2`), what
            the loss would change by to first order (`taylor`), or none (`random`).
        loss: gives the loss of the model on data that matter; without it, Taylor's measure sees example inputs and
            random targets.
        seed: of random importance and targets.
    """
    if importance is Importance.RANDOM:
        draw = torch.Generator().manual_seed(seed)
        return [_normal(torch.rand(group.size, generator=draw)) for group in groups]
    library = torch_pruning().pruner.importance
    magnitude = library.GroupMagnitudeImportance(p=1 if importance is Importance.L1 else 2)
    if importance is Importance.BN:
        scale = library.BNScaleImportance()
        return [_of(group, scale, magnitude) for group in groups]
    if importance is not Importance.TAYLOR:
        return [_of(group, magnitude) for group in groups]
    before = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    try:
        with unchanged(model), in_training(model):
            lost = loss(model) if loss is not None else random_loss(model, inputs, seed)
            lost.backward()  # type: ignore[no-untyped-call]
        for parameter in model.parameters():  # frozen, or not reached: it changes no loss
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        taylor = library.GroupTaylorImportance()
        return [_of(group, taylor) for group in groups]
    finally:
        for parameter, gradient in zip(model.parameters(), before, strict=True):
            parameter.grad = gradient


def random_loss(model: nn.Module, inputs: Inputs, seed: int = 0) -> torch.Tensor:
    """The model's own loss of some example inputs, towards random targets where it has none."""
    inputs = few(inputs, _SAMPLES)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        goal = objective(model, called(model, inputs), inputs)
        return goal.loss(goal.scores, goal.target())


def _of(group: Group, *measures: Callable[[object], torch.Tensor | None]) -> list[float]:
    """By the first measure that speaks of the group."""
    for measure in measures:
        found = measure(group.traced)
        if found is not None:
            return _normal(found.reshape(group.fold, group.size).sum(0))
    raise RequestError(f"{group.name} has no weights to judge its channels by", "use --importance random")


def _normal(values: torch.Tensor) -> list[float]:
    values = values.detach().double().clamp_min(0.0)
    mean = float(values.mean())
    scaled: list[float] = (values / mean if mean > 0 else torch.ones_like(values)).tolist()
    return scaled
