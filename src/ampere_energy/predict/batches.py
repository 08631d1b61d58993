"""A model at another batch than its profile's: the blocks as they are known there, with more or less to do.

What a block takes is a fixed part, the least that its calls last however little they do (on a card at about the power
of waiting), and work: what it computes, moves and updates, most of it in proportion to the batch. The host issues the
same calls at any batch. How well a device is filled changes as well, by nobody knows how much: the interval
widens with how far the batches are apart, and with how much the fixed part counts.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ampere_energy.errors import CoverageError
from ampere_energy.fit.across import Blocks
from ampere_energy.fit.nets import NetFit
from ampere_energy.fit.references import traits_of
from ampere_energy.fit.steps import issuing, whole
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.training import Training
from ampere_energy.predict.approximate import Approximation

FARTHEST = 64
"""By how many times batches may differ: what is farther apart was never tried."""
_CARD_CALL_S, _CARD_CALL_POWER, _CPU_CALL_S = 3.5e-6, 1.2, 12e-6
"""How long the shortest call lasts, and its power over that of waiting, on an H200; on a CPU (`studies.batches`)."""
_FIXED_MOST = 0.9
_APART, _FIXED = 0.07, 0.3
"""Standard deviations of the logarithm of the energy: an e-fold of the batch away, and where all is fixed."""


def bridged(wanted: Training, profiled: Training) -> bool:
    """Whether only batches differ, and not too far."""
    smaller, larger = sorted((wanted.batch, profiled.batch))
    return wanted == replace(profiled, batch=wanted.batch) and smaller < larger <= FARTHEST * smaller


def rebatched(here: ModelSpec, there: ModelSpec, kinds: list[int], nets: NetFit, on_cpu: bool) -> Approximation:
    """One step of a model.

    Args:
        here: the model at the batch that is asked for.
        there: the same at the profile's.
        kinds: the subjects of its blocks there, by their places.
        nets: what the profile learnt.
        on_cpu: on which a call that does little takes as much power as any other.
    """
    if len(here.blocks) != len(there.blocks):
        raise CoverageError(
            f"{here.name} is made of other blocks at batch {there.training.batch}", "profile this model"
        )
    points = [np.array([block.point], dtype=float) for block in there.blocks]
    known = nets.predict(kinds, points)
    own, its = (_blocks(spec) for spec in (here, there))
    more, calls = np.exp(own.sizes - its.sizes), its.terms[:, 1]
    seconds, joules = known.block_time_s[0], known.block_energy_j[0]
    fixed_s = np.minimum((_CPU_CALL_S if on_cpu else _CARD_CALL_S) * calls, _FIXED_MOST * seconds)
    watts = joules / seconds
    waiting_w = watts if on_cpu or nets.idle_w is None else np.minimum(watts, _CARD_CALL_POWER * nets.idle_w)
    fixed_j = fixed_s * waiting_w
    new_s, new_j = (fixed + (all_ - fixed) * more for fixed, all_ in ((fixed_s, seconds), (fixed_j, joules)))
    apart = abs(math.log(here.training.batch / there.training.batch))
    doubt = math.hypot(_APART * math.sqrt(apart), _FIXED * float(np.abs(fixed_j * (1 - more)).sum() / new_j.sum()))
    device = replace(
        known,
        time_s=known.time_s * new_s.sum() / seconds.sum(),
        energy_j=known.energy_j * new_j.sum() / joules.sum(),
        expected_j=known.expected_j * new_j.sum() / joules.sum(),
        time_var=known.time_var + doubt**2,
        energy_var=known.energy_var + doubt**2,
        joint_var=known.joint_var + doubt**2,
        block_time_s=new_s[None, :],
        block_energy_j=new_j[None, :],
    )
    step = whole(nets, device, *issuing(nets, kinds, points))
    return Approximation(step, np.hypot(nets.block_std(kinds, points), doubt))


def _blocks(spec: ModelSpec) -> Blocks:
    return Blocks.of([b.kind.id for b in spec.blocks], [traits_of(b.kind, b.point) for b in spec.blocks])
