"""Pruning with the device at hand: a pruned model is measured, the profile learns it, and widths are chosen anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ampere_energy.campaign.additions import add
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices import Device
from ampere_energy.measurement.records import Measurement
from ampere_energy.model.blocks import Block
from ampere_energy.model.variants import resized
from ampere_energy.optimization.pruning.channels import Channels
from ampere_energy.optimization.pruning.pruned import Budget, Pruned, measured
from ampere_energy.profiles.profile import Profile

CLOSE = 0.06
"""How far below the budget a measured model may lie, as a share of it; widths are chosen for the middle."""
Choose = Callable[[Profile, Budget], Pruned]


def refined(
    choose: Choose,
    space: Channels,
    profile: Profile,
    budget: Budget,
    device: Device,
    *,
    most: int = 6,
    keep: Callable[[Measurement, Sequence[Block]], None] = lambda measurement, blocks: None,
    observe: Callable[[str], None] = lambda message: None,
) -> tuple[Pruned, Profile]:
    """A model whose measured energy is inside the budget and close to it, and what the profile became.

    Args:
        choose: prunes by a profile to a budget; best by the mean, since each choice is measured.
        space: the model's widths.
        profile: what is known at first; made on this device.
        budget: what a step may cost.
        device: where to measure.
        most: how many pruned models are measured at most.
        keep: given each measurement, with what the model is made of.
        observe: told what is being done.

    Returns:
        The closest of those inside the budget; where none is, the cheapest, with a note that says so.
    """
    pruned = choose(profile, budget)
    if not pruned.changed:
        return pruned, profile
    before = measured(pruned.original, "the original", device, observe)
    keep(before, space.spec.blocks)
    profile = add(profile, space.spec.blocks, before)
    limit_j, bias, aim = budget.of(before.energy_j), 1.0, 1 - CLOSE / 2
    found: list[Pruned] = []
    while len(found) < most:
        pruned = choose(profile, Budget(joules=bias * aim * limit_j))
        if any(own.group_widths == pruned.group_widths for own in found):
            aim += CLOSE / 4  # these were inside the budget, and far: a little more than it may come closer
            if aim > 1 + CLOSE / 2:
                break
            continue
        after = measured(pruned.ref, "the pruned model", device, observe)
        spec = resized(space.spec, space.widths_of(pruned.group_widths))
        keep(after, spec.blocks)
        found.append(replace(pruned, aim=replace(pruned.aim, budget=budget), measured=(before, after)))
        if (1 - CLOSE) * limit_j <= after.energy_j <= limit_j:
            break
        profile = add(profile, spec.blocks, after)
        # What the profile still does not believe of this model it will not believe of the next either.
        bias = estimate(spec, profile).energy_j / after.energy_j
    inside = [own for own in found if _energy_j(own) <= limit_j]
    best = max(inside, key=_energy_j) if inside else min(found, key=_energy_j)
    missed = () if inside else (f"none of {len(found)} measured models is inside the budget: this one comes closest",)
    counted = f"chosen with {len(found)} pruned model{'s' if len(found) > 1 else ''} measured on the way"
    return replace(best, notes=(*best.notes, counted, *missed)), profile


def _energy_j(pruned: Pruned) -> float:
    assert pruned.measured is not None
    return pruned.measured[1].energy_j
