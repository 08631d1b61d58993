"""Joules of a module, for whoever optimises one already: an objective more for a study of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ampere_energy.estimation.estimate import estimate
from ampere_energy.model.parse import Example, parse
from ampere_energy.profiles.profile import Profile

if TYPE_CHECKING:
    from torch import nn


def energy_objective(
    profile: Profile, example: Example, *, iterations: int = 1, upper: bool = False, approximate: bool = False
) -> Callable[[nn.Module], float]:
    """A function that tells the joules of training a module, without running it.

    Args:
        profile: covers the modules that will be asked about.
        example: their input, batch first, as for `parse`.
        iterations: training steps.
        upper: the upper end of the 90 % interval instead of the estimate itself.
        approximate: guess blocks of kinds that the profile lacks; otherwise they are an error.
    """

    def joules(model: nn.Module) -> float:
        spec = parse(model, example, training=profile.training)
        found = estimate(spec, profile, iterations=iterations, approximate=approximate)
        return found.interval_j[1] if upper else found.energy_j

    return joules
