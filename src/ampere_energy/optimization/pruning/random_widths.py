"""Random channel pruning after Li et al. 2022: widths by chance that meet a budget, the best after a short training."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from ampere_energy.errors import RequestError
from ampere_energy.model.groups import narrowed
from ampere_energy.model.objective import Inputs, train_mode
from ampere_energy.optimization.pruning.channels import Channels
from ampere_energy.optimization.pruning.importance import random_loss
from ampere_energy.optimization.pruning.widths import Choice, Cost, Ladders, cheapest

_SHORT_STEPS = 20
_RATE = 0.01
_DRAWS = 1000


def by_chance(
    space: Channels,
    limit: float,
    ladders: Ladders,
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
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, ...], Choice] = {}
    for _ in range(_DRAWS):
        choice = random_choice(limit, ladders, cost, rng)
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
        if best is None or score > best[0] or math.isnan(best[0]):
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


def random_choice(
    limit: float, ladders: Ladders, cost: Cost, rng: np.random.Generator, tries: int = 64
) -> Choice | None:
    """Widths by chance that meet a limit: random shares, all scaled until they just fit; None where they never do."""
    shares = rng.uniform(0.1, 1.0, len(ladders))
    own = np.array([ladder[0] for ladder in ladders], dtype=float)
    scales = np.linspace(0.0, 1.0 / shares.min(), tries)
    asked = np.minimum(own, scales[:, None] * shares * own)
    widths = np.array(
        [[_nearest(ladder, w) for ladder, w in zip(ladders, row, strict=True)] for row in asked], dtype=float
    )
    costs = cost(widths)
    if not (costs <= limit).any():
        return None
    chosen = int(np.argmax(np.where(costs <= limit, costs, -np.inf)))
    return Choice(tuple(int(w) for w in widths[chosen]), float(costs[chosen]), True)


def _nearest(ladder: Sequence[int], width: float) -> int:
    return min(ladder, key=lambda value: abs(value - width))
