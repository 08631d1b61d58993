"""All hyperparameters of the joint fit: their priors, and the vector that the fit climbs in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ampere_energy.cost_model.gaussian_process import LogNormal
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.kernels import POWER, TIME, Component, Hyper
from ampere_energy.cost_model.linearisation import COUPLING_OWN, COUPLING_TIME, Unshared, scatter_of
from ampere_energy.cost_model.observations import Observation, Subject, works_of
from ampere_energy.cost_model.physical_mean import Array

NOISE = (LogNormal(0.003, 1.0), LogNormal(0.005, 1.0))
"""Priors of how repeats differ beyond what each measurement states of itself: time, energy."""


CARRIED = LogNormal(0.3, 1.0)
"""Prior of how much of the noise of time the energy of the same measurement has."""


TOGETHER = LogNormal(COUPLING_TIME, 1.0)
"""Prior of what company costs all networks alike: next to nothing on a card …"""


TOGETHER_CACHED = LogNormal(0.12, 0.7)
"""… and a tenth or two on a processor, whose caches hold a block that is trained alone and not a whole model."""


STEADIER = LogNormal(0.5, 0.5)
"""Prior of how much less a longer measurement scatters …"""


STEADIER_CACHED = LogNormal(1.0, 1.0)
"""… and on a processor, where each of these is a process of its own, which differs from others by its memory."""


_FOLLOWS = 0.1
"""Prior standard deviation of how power goes with the residual of time."""


_REARRANGED = 0.1
"""How much wider the context of networks is whose data the compiler may lay out otherwise than their blocks'.

ResNet-18 costs a third less than its blocks where they were compiled in the wrong layout, and 3 % more than in the
right one, as measured; which of the two Inductor takes for a whole is a rule of its own (`data/h200-whole`).
"""


def own_coupling(subjects: Sequence[Subject], observations: Sequence[Observation]) -> tuple[LogNormal, LogNormal]:
    """Priors of how networks differ in what company costs them, in time and in power.

    In time they differ more, the more of it may be rearranged.
    """
    alone = [(o.time_s, subjects[o.blocks[0][0]].rearranged) for o in observations if len(o.blocks) == 1]
    total_s = sum(time_s for time_s, _ in alone)
    share = sum(time_s for time_s, moved in alone if moved) / total_s if alone else 0.0
    return LogNormal(COUPLING_OWN[0] + _REARRANGED * share, 1.0), LogNormal(COUPLING_OWN[1], 1.0)


@dataclass(frozen=True)
class Hypers:
    """All hyperparameters (see `JointFit`)."""

    time: tuple[Hyper, ...]
    power: tuple[Hyper, ...]
    noise: tuple[float, float]
    own: tuple[float, float]
    carried: float
    together: float
    steadier: float
    follows: tuple[float, ...]

    @property
    def beside(self) -> Unshared:
        """What rows have beside their blocks' residuals."""
        return Unshared(self.own, self.together, scatter_of(self.noise, self.carried), self.steadier)


class Unknowns:
    """All hyperparameters as one vector θ, of logarithms but for ρ: their priors, and what each number of θ is."""

    def __init__(self, subjects: Sequence[Subject], own: tuple[LogNormal, LogNormal], cached: bool = False) -> None:
        together, self.steadier = (TOGETHER_CACHED, STEADIER_CACHED) if cached else (TOGETHER, STEADIER)
        self.works = works_of(subjects)
        self.axes = [len(subjects[members[0]].domain) for members in self.works]
        priors = [
            prior
            for components in (TIME, POWER)
            for members, axes in zip(self.works, self.axes, strict=True)
            for prior in _priors(components, len(members), axes)
        ]
        priors += [*NOISE, *own, CARRIED, together, self.steadier]
        count = len(self.works)
        self.medians = np.concatenate((np.log([p.median for p in priors]), np.zeros(count)))
        self.sigmas = np.concatenate(([p.sigma for p in priors], np.full(count, _FOLLOWS)))

    def pack(self, fit: JointFit) -> Array:
        """θ of an earlier fit; its priors' medians where the works have changed since."""
        values = [
            v
            for hypers in (fit.time_hyper, fit.power_hyper)
            for hyper in hypers
            for s, n in zip(hyper.scales, hyper.lengths, strict=True)
            for v in (*s, *n)
        ]
        values += [*fit.noise, *fit.own, fit.carried or CARRIED.median, fit.together]
        values.append(fit.steadier if any(o.long for o in fit.observations) else self.steadier.median)
        theta = np.concatenate((np.log(values), fit.follows))
        return theta if len(theta) == len(self.medians) else self.medians

    def unpack(self, theta: Array) -> Hypers:
        """Hyperparameters of θ."""
        first = len(theta) - len(self.works)
        values, follows = iter(np.exp(theta[:first]).tolist()), tuple(theta[first:].tolist())
        parts = []
        for components in (TIME, POWER):
            hypers = []
            for members, axes in zip(self.works, self.axes, strict=True):
                scales, lengths = [], []
                for component in components:
                    scales.append(tuple(next(values) for _ in members))
                    lengths.append(tuple(next(values) for _ in range(component.lengths(axes))))
                hypers.append(Hyper(tuple(scales), tuple(lengths)))
            parts.append(tuple(hypers))
        noise, own = ((next(values), next(values)) for _ in range(2))
        return Hypers(parts[0], parts[1], noise, own, next(values), next(values), next(values), follows)


def _priors(components: Sequence[Component], kinds: int, axes: int) -> list[LogNormal]:
    found: list[LogNormal] = []
    for component in components:
        found += [component.scale] * kinds
        found += [component.length] * component.lengths(axes) if component.length else []
    return found
