"""A model at another batch than its profile's: the blocks as they are known there, with more or less to do.

What a block takes is a fixed part, the least that its calls last however little they do (on a card at about the power
of waiting), and work: what it computes, moves and updates, most of it in proportion to the batch. The host issues the
same calls at any batch. How well a device is filled changes as well, by nobody knows how much: the interval
widens with how far the batches are apart, and with how much the fixed part counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ampere_energy.cost_model.posterior import Prediction
from ampere_energy.cost_model.traits import Traits
from ampere_energy.estimation.unseen_kinds import Blocks
from ampere_energy.model.training import Training

FARTHEST = 64
"""By how many times batches may differ: what is farther apart was never tried."""
_CARD_CALL_S, _CARD_CALL_POWER, _CPU_CALL_S = 3.5e-6, 1.2, 12e-6
"""How long the shortest call lasts, its power over that of waiting, on an H200; on a CPU (docs/results/batches.md)."""
_FIXED_MOST = 0.9
_APART, _FIXED = 0.07, 0.3
"""Standard deviations of the logarithm of the energy: an e-fold of the batch away, and where all is fixed."""


def bridged(wanted: Training, profiled: Training) -> bool:
    """Whether only batches differ, and not too far."""
    smaller, larger = sorted((wanted.batch, profiled.batch))
    return wanted == replace(profiled, batch=wanted.batch) and smaller < larger <= FARTHEST * smaller


def rebatched(
    device: Prediction,
    here: Sequence[Traits],
    there: Sequence[Traits],
    apart: float,
    idle_w: float | None,
    on_cpu: bool,
) -> tuple[Prediction, float]:
    """What the device does in one step of a model, and how much its logarithm is in doubt for being scaled.

    Args:
        device: what it does at the profile's batch.
        here: the traits of its blocks at the batch that is asked for.
        there: the same at the profile's.
        apart: the asked batch over the profile's.
        idle_w: what the device takes while it waits.
        on_cpu: on which a call that does little takes as much power as any other.
    """
    own, its = (Blocks.of([""] * len(traits), traits) for traits in (here, there))
    more, calls = np.exp(own.sizes - its.sizes), its.terms[:, 1]
    seconds, joules = device.block_time_s[0], device.block_energy_j[0]
    fixed_s = np.minimum((_CPU_CALL_S if on_cpu else _CARD_CALL_S) * calls, _FIXED_MOST * seconds)
    watts = joules / seconds
    waiting_w = watts if on_cpu or idle_w is None else np.minimum(watts, _CARD_CALL_POWER * idle_w)
    fixed_j = fixed_s * waiting_w
    new_s, new_j = (fixed + (all_ - fixed) * more for fixed, all_ in ((fixed_s, seconds), (fixed_j, joules)))
    far = math.sqrt(abs(math.log(apart)))
    doubt = math.hypot(_APART * far, _FIXED * float(np.abs(fixed_j * (1 - more)).sum() / new_j.sum()))
    moved = replace(
        device,
        time_s=device.time_s * new_s.sum() / seconds.sum(),
        energy_j=device.energy_j * new_j.sum() / joules.sum(),
        expected_j=device.expected_j * new_j.sum() / joules.sum(),
        time_var=device.time_var + doubt**2,
        energy_var=device.energy_var + doubt**2,
        joint_var=device.joint_var + doubt**2,
        block_time_s=new_s[None, :],
        block_energy_j=new_j[None, :],
    )
    return moved, doubt
