"""Fitting the physical means of time and energy to observations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ampere_energy.cost_model.observations import Net, Observation, Subject
from ampere_energy.cost_model.physical_mean import Array, Mean, fit_mean
from ampere_energy.model.kinds import Point

_LEAN = 0.3


_BASE = 0.8
"""The largest part of the shortest step that may be base."""


def means(subjects: Sequence[Subject], observations: Sequence[Observation]) -> tuple[Mean, Mean]:
    """The physical means of time and of energy.

    Energy's is fitted to each measured power × the *mean's* time, not to the energy itself: the roughness of time
    would otherwise bend it where few networks are metered. Where very few are, it leans on the time: as if a third of
    one more network of each kind had been metered, spread over all widths seen, at the kind's mean power. What a step
    pays once is mostly waiting: the base of energy is that of time at the least power seen, since a few metered
    networks of several blocks tell it too badly.
    """
    domains, squares = [s.domain for s in subjects], [s.squares for s in subjects]
    times = np.array([o.time_s for o in observations])
    time = _with_base(partial(fit_mean, domains, [o.blocks for o in observations], times, squares=squares), times)
    metered = [(o, o.energy_j) for o in observations if o.energy_j is not None]
    powers = [(o.blocks, energy_j / o.time_s) for o, energy_j in metered]
    nets = [net for net, _ in powers]
    values = [power * _total(time, net) for net, power in powers]
    weights = [1.0] * len(nets)
    for kind in range(len(subjects)):
        usual = _usual_power(time, powers, kind)
        seen = dict.fromkeys(block for o in observations for block in o.blocks if block[0] == kind)
        nets += [(block,) for block in seen]
        values += [usual * _total(time, [block]) for block in seen]
        weights += [_LEAN / len(seen)] * len(seen)
    base_j = time.base * min((power for _, power in powers), default=0.0)
    return time, fit_mean(domains, nets, np.array(values), np.array(weights), time, squares, base_j)


def _with_base(fit: Callable[..., Mean], times: Array) -> Mean:
    """The mean of time, whose base leaves some of every step to its blocks.

    Else the smallest kind might be all base: its own roughness, nobody's then, would be taken for noise of every
    measurement.
    """
    free, most = fit(), _BASE * float(times.min())
    return free if free.base <= most else fit(base=most)


def _usual_power(time: Mean, powers: Sequence[tuple[Net, float]], kind: int) -> float:
    """A kind's power: of networks, the more the larger its share of their time; a little of all others too."""
    own = [_total(time, [block for block in net if block[0] == kind], base=False) for net, _ in powers]
    shares = [part / _total(time, net) for part, (net, _) in zip(own, powers, strict=True)]
    weights = np.array(shares) + _LEAN / len(powers)
    return float(np.exp(np.average([math.log(power) for _, power in powers], weights=weights)))


def _total(mean: Mean, net: Sequence[tuple[int, Point]], base: bool = True) -> float:
    each = {block: float(mean.at(block[0], np.array([block[1]], dtype=float))[0]) for block in dict.fromkeys(net)}
    return (mean.base if base else 0.0) + sum(each[block] for block in net)
