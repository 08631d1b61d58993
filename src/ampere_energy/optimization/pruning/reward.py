"""What a device rewards: whether narrower models pay on it at all, and which settings would pay more.

FLOPs fall with the widths; joules do so only as far as the device has work to do. Where a step waits for the host that
issues it, or where a block's constant part rules, pruning saves little, and a larger batch or a captured graph more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.errors import AmpereError
from ampere_energy.estimation.estimate import covered_jointly
from ampere_energy.estimation.many import points_of
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode, Training
from ampere_energy.optimization.pruning.channels import Channels, channels_of
from ampere_energy.profiles.profile import Profile

BUSY = 0.9
"""A device that works a smaller share of a step waits for the host."""
PAYS = 0.01
_LITTLE = 0.25


@dataclass(frozen=True)
class Setting:
    """A step with some settings: joules and seconds as the model is, and with every width halved.

    Attributes:
        busy: the share of the time that the device works.
        inferred: not profiled itself, but told from an eager profile: the same work without waiting for the host.
    """

    training: Training
    energy_j: float
    time_s: float
    halved_j: float
    busy: float
    inferred: bool = False

    @property
    def saves(self) -> float:
        """The share of the energy that halving every width saves."""
        return 1 - self.halved_j / self.energy_j

    @property
    def sample_j(self) -> float:
        """Joules a sample."""
        return self.energy_j / (self.training.batch * self.training.accumulate)

    @property
    def host_bound(self) -> bool:
        """Whether the device waits for the host."""
        return self.busy < BUSY


@dataclass(frozen=True)
class Reward:
    """What pruning is worth here.

    Attributes:
        here: with the settings asked about.
        others: with others, of profiles at hand or told from this one.
        widths: for each width, the share of the energy that halving it alone saves.
    """

    here: Setting
    others: tuple[Setting, ...]
    widths: tuple[tuple[str, float], ...]

    @property
    def idle_widths(self) -> tuple[str, ...]:
        """The widths that do not pay."""
        return tuple(name for name, saves in self.widths if saves < PAYS)

    @property
    def little(self) -> bool:
        """Whether narrower models save little, though the device does not wait."""
        return not self.here.host_bound and self.here.saves < _LITTLE


def reward(space: Channels, profile: Profile, step: int, beside: Sequence[Profile] = ()) -> Reward:
    """What pruning a model is worth with a profile's settings, and with those of others.

    Args:
        space: the model's widths.
        profile: which knows them.
        step: widths are multiples of this.
        beside: profiles of the same model with other settings; those that do not know it are left out.
    """
    here, waiting = _setting(space, profile, step)
    others = [waiting] if waiting is not None else []
    for other in beside:
        moved = _moved(space.ref, other) if space.ref is not None else None
        if moved is None or other.training == profile.training:
            continue
        try:
            others.append(_setting(channels_of(moved, None, other), other, step)[0])
        except AmpereError:
            continue  # it is of another model, or another input
    ladders = space.ladders(profile, step)
    own = np.array([ladder[0] for ladder in ladders], dtype=float)
    narrowed = [width for width, ladder in enumerate(ladders) if len(ladder) > 1]
    widths = np.repeat(own[None], len(narrowed), axis=0)
    for row, width in zip(widths, narrowed, strict=True):
        row[width] = _half(ladders[width])
    alone = _steps(space, profile, widths)[0] if narrowed else np.zeros(0)
    names = space.names
    saved = ((names[width], float(1 - energy / here.energy_j)) for width, energy in zip(narrowed, alone, strict=True))
    return Reward(here, tuple(others), tuple(saved))


def _setting(space: Channels, profile: Profile, step: int) -> tuple[Setting, Setting | None]:
    """A step with a profile's settings; and, of an eager one that waits, without waiting."""
    ladders = space.ladders(profile, step)
    widths = np.array([[ladder[0] for ladder in ladders], [_half(ladder) for ladder in ladders]], dtype=float)
    energy, time, busy = _steps(space, profile, widths)
    here = Setting(profile.training, float(energy[0]), float(time[0]), float(energy[1]), float(busy[0]))
    nets = profile.joint
    if nets.host is None or nets.idle_w is None or not here.host_bound:
        return here, None
    worked = energy - nets.idle_w * time * (1 - busy)
    graph = replace(profile.training, mode=Mode.GRAPH)
    return here, Setting(graph, float(worked[0]), float((time * busy)[0]), float(worked[1]), 1.0, inferred=True)


def _steps(space: Channels, profile: Profile, widths: Array) -> tuple[Array, Array, Array]:
    """Joules, seconds and the device's busy share of steps at some widths."""
    kinds = covered_jointly(space.spec, profile, profile.joint)
    found = steps(profile.joint, kinds, points_of(space.spec, widths))
    return found.energy_j, found.time_s, found.busy


def _half(ladder: Sequence[int]) -> int:
    return min(ladder, key=lambda width: abs(width - ladder[0] / 2))


def _moved(ref: ModelRef, profile: Profile) -> ModelRef | None:
    """The model with another profile's settings; None where its batch is its factory's own."""
    batch = profile.training.batch
    if not ref.input and not ref.inputs:
        return replace(ref, training=profile.training) if batch == ref.training.batch else None
    return replace(ref.at_batch(batch), training=profile.training)
