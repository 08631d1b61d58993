"""What the host takes to issue a step: so much for each of its blocks, by their structure, and a base.

A block that is run by itself, or beside others that it does not feed, is handed its input and its gradient, which takes
the host some time that it does not take in a model. Whole models tell how much; the base tells roughly.

A library may launch more for the same work from some width on: cuDNN issues an LSTM's time steps one by one where its
hidden width is over 128, which takes the host twice as long. Such a jump is believed in where it makes the times seen
much likelier.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from ampere_energy.cost_model.observations import Observation, Subject
from ampere_energy.cost_model.physical_mean import Array, trusted
from ampere_energy.model.kinds import Point
from ampere_energy.model.templates import MOST_AXES
from ampere_energy.serialization import later

HOST_BOUND = 1.3
"""A host that takes so many times as long as the device is what a step waits for."""
_SPREAD = 0.1
"""How much one measurement of host time scatters where too few were made to tell."""
_PRIOR = 2
"""How many measurements that is worth."""
_ROUNDS = 10
_JUMPS = 4
_LEAST = 0.5
"""At least so much of what issuing a block took is its own."""
_DOUBT = 0.1
"""What is usual counts as a measurement that is off by ten times what others are."""
_WORTH = 2.0
"""How much likelier than by finding one among all by chance a jump must make the times to be believed in."""
_HANDED = 0.1
"""What handing a block its input and gradient takes, as a share of the base, where no whole model tells.

Over twenty whole models recorded on an H200, blocks side by side took the host 0.1 ms a block longer than in their
model, at a base of half a millisecond; models whose steps wait for the host say half of that (`data/h200-whole`).
"""
_REACHES = (0.5, 0.6745), (0.9, 1.645)
"""Shares of normal misses, and how many standard deviations they lie within: usual misses, and those in the tails."""
_ROWS = 2
"""At least so many networks tell of either side of a jump."""


@dataclass(frozen=True)
class Jump:
    """How much longer a work takes the host where one of its widths is over a bound."""

    work: str
    axis: int
    bound: float
    seconds: float

    def over(self, points: Array) -> Array:
        """1 for points (n, axes) over the bound, else 0: shape (n,)."""
        return np.asarray(points[:, self.axis] > self.bound, dtype=float)


@dataclass(frozen=True)
class Host:
    """Seconds the host takes: a base a step and a number for each structure; and how much they scatter, relative.

    `gap_s` is what launching adds to a step that the device, not the host, is the slower part of.
    """

    base_s: float
    structures: tuple[tuple[str, float], ...]
    spread: float
    gap_s: float
    jumps: tuple[Jump, ...] = later(())

    def __post_init__(self) -> None:
        seconds = [*(seconds for _, seconds in self.structures), *(jump.seconds for jump in self.jumps)]
        values = (self.base_s, self.spread, self.gap_s, *seconds)
        if min(values) < 0 or max(values) > 1e9:
            raise ValueError("host times are not negative")
        if any(not 0 <= jump.axis < MOST_AXES or not 0 < jump.bound < 2**26 for jump in self.jumps):
            raise ValueError("a jump is at one of a structure's widths")

    def takes(self, structure: str, work: str, points: Array) -> Array:
        """Seconds for blocks of a known structure at points (n, axes): shape (n,)."""
        seconds = np.full(len(points), dict(self.structures)[structure])
        for jump in self.jumps:
            if jump.work == work:
                seconds += jump.seconds * jump.over(points)
        return seconds


def learn_host(subjects: Sequence[Subject], observations: Sequence[Observation]) -> Host | None:
    """Host times by structure; None where no observation has one.

    A network counts as much as it has blocks: wholes tell what blocks take in company, and are what is asked for.
    """
    seen = [(o, o.host_s) for o in observations if o.host_s is not None]
    if not seen:
        return None
    nets = [[(subjects[kind], point) for kind, point in o.blocks] for o, _ in seen]
    names = list(dict.fromkeys(subject.structure for net in nets for subject, _ in net))
    several = len({len(net) for net in nets}) > 1
    columns = [np.full(len(seen), float(several))]
    columns += [np.array([sum(s.structure == name for s, _ in net) for net in nets], dtype=float) for name in names]
    seconds = np.array([s for _, s in seen])
    blocks = np.array([len(net) for net in nets], dtype=float)
    weights, misses = _met(columns, seconds, blocks)
    handed = blocks * [len(o.blocks) == 1 or o.apart for o, _ in seen]
    each_s = _handing_s(columns, seconds, blocks, handed, _HANDED * float(weights[0]))
    seconds = np.maximum(seconds - each_s * handed, _LEAST * seconds)
    weights, misses = _met(columns, seconds, blocks)
    jumps: list[Jump] = []
    while len(jumps) < _JUMPS:
        offered = [(jump, _counted(jump, nets)) for jump in _candidates(nets)]
        told = [(jump, own) for jump, own in offered if _ROWS <= np.count_nonzero(own) <= len(seen) - _ROWS]
        tried = [(*_met([*columns, own], seconds, blocks), own, jump) for jump, own in told]
        best = min(tried, key=lambda found: float(np.abs(found[1]).sum()), default=None)
        if best is None or _likelier(misses, best[1]) < _WORTH + math.log(len(tried)):
            break
        weights, misses, own, jump = best
        columns.append(own)
        jumps.append(jump)
    free = max(0, len(seen) - int(np.count_nonzero(weights)))
    usual, most = (float(np.quantile(np.abs(misses), share)) / reach for share, reach in _REACHES)
    seen_spread = max(usual * math.sqrt(len(seen) / max(free, 1)), most)
    gaps = [
        o.wall_s - o.time_s
        for o, host_s in seen
        if o.wall_s is not None and len(o.blocks) > 1 and host_s < HOST_BOUND * o.time_s
    ]
    weights = weights * (1 + usual**2)  # a fit to relative misses lies low by their variance
    of_names, of_jumps = np.split(weights[1:], [len(names)])
    return Host(
        base_s=float(weights[0]),
        structures=tuple(zip(names, of_names.tolist(), strict=True)),
        spread=math.sqrt((_PRIOR * _SPREAD**2 + free * seen_spread**2) / (_PRIOR + free)),
        gap_s=max(0.0, min(gaps, default=0.0)),
        jumps=tuple(replace(jump, seconds=s) for jump, s in zip(jumps, of_jumps.tolist(), strict=True)),
    )


def _handing_s(columns: Sequence[Array], seconds: Array, blocks: Array, handed: Array, usual_s: float) -> float:
    """Seconds that handing a block its input and gradient takes: as usual, so far as whole models do not tell."""
    if usual_s <= 0 or handed.all() or not handed.any():
        return usual_s
    alone = [np.append(column, 0.0) for column in columns]
    weights, _ = _met([*alone, np.append(handed, 1.0)], np.append(seconds, usual_s), np.append(blocks, _DOUBT**2))
    return float(weights[-1])


_Nets = Sequence[Sequence[tuple[Subject, Point]]]


def _met(columns: Sequence[Array], seconds: Array, blocks: Array) -> tuple[Array, Array]:
    """Non-negative weights of columns that meet times, and how far each is missed as a share of it."""
    relative, counts = np.stack(columns, 1) / seconds[:, None], np.sqrt(blocks)
    trust = counts
    for _ in range(_ROUNDS):
        weights, _ = nnls(relative * trust[:, None], trust)
        misses = relative @ weights - 1
        trust = counts * trusted(misses, 2 * _SPREAD)
    return weights, misses


def _likelier(before: Array, after: Array) -> float:
    """The logarithm of how much likelier times are that miss by less: the misses of a host have long tails."""
    return len(before) * math.log(max(np.abs(before).sum(), 1e-12) / max(np.abs(after).sum(), 1e-12))


def _candidates(nets: _Nets) -> Iterator[Jump]:
    """Jumps half-way between any two widths seen of a work."""
    widths: dict[tuple[str, int], set[int]] = {}
    for subject, point in itertools.chain(*nets):
        for axis, width in enumerate(point):
            widths.setdefault((subject.work, axis), set()).add(width)
    for (work, axis), found in widths.items():
        for below, above in itertools.pairwise(sorted(found)):
            yield Jump(work, axis, math.sqrt(below * above), 0.0)


def _counted(jump: Jump, nets: _Nets) -> Array:
    """How many blocks of each network are beyond a jump."""
    return np.array([sum(s.work == jump.work and p[jump.axis] > jump.bound for s, p in net) for net in nets], float)
