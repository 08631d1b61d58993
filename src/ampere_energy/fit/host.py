"""What the host takes to issue a step: so much for each of its blocks, by their structure, and a base."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ampere_energy.fit.observed import Observation, Subject

HOST_BOUND = 1.3
"""A host that takes so many times as long as the device is what a step waits for."""
_SPREAD = 0.1
"""How much one measurement of host time scatters where too few were made to tell."""
_PRIOR = 2
"""How many measurements that is worth."""
_ROUNDS = 10


@dataclass(frozen=True)
class Host:
    """Seconds the host takes: a base a step and a number for each structure; and how much they scatter, relative.

    `gap_s` is what launching adds to a step that the device, not the host, is the slower part of.
    """

    base_s: float
    structures: tuple[tuple[str, float], ...]
    spread: float
    gap_s: float

    def __post_init__(self) -> None:
        values = (self.base_s, self.spread, self.gap_s, *(seconds for _, seconds in self.structures))
        if min(values) < 0 or max(values) > 1e9:
            raise ValueError("host times are not negative")


def learn_host(subjects: Sequence[Subject], observations: Sequence[Observation]) -> Host | None:
    """Host times by structure; None where no observation has one.

    Those further off than twice the usual scatter count less: a library may launch others, and more, at some widths.
    """
    seen = [(o, o.host_s) for o in observations if o.host_s is not None]
    if not seen:
        return None
    names = list(dict.fromkeys(subjects[kind].structure for o, _ in seen for kind, _ in o.blocks))
    several = len({len(o.blocks) for o, _ in seen}) > 1
    counts = np.zeros((len(seen), 1 + len(names)))
    for row, (o, _) in zip(counts, seen, strict=True):
        row[0] = several
        for kind, _ in o.blocks:
            row[1 + names.index(subjects[kind].structure)] += 1
    seconds = np.array([s for _, s in seen])
    relative, trust = counts / seconds[:, None], np.ones(len(seen))
    for _ in range(_ROUNDS):
        weights, _ = nnls(relative * trust[:, None], trust)
        misses = relative @ weights - 1
        trust = np.minimum(1.0, np.sqrt(2 * _SPREAD / np.maximum(np.abs(misses), 1e-12)))
    free = max(0, len(seen) - int(np.count_nonzero(weights)))
    seen_spread = 1.4826 * float(np.median(np.abs(misses))) * math.sqrt(len(seen) / max(free, 1))
    gaps = [
        o.wall_s - o.time_s
        for o, host_s in seen
        if o.wall_s is not None and len(o.blocks) > 1 and host_s < HOST_BOUND * o.time_s
    ]
    return Host(
        base_s=float(weights[0]),
        structures=tuple(zip(names, weights[1:].tolist(), strict=True)),
        spread=math.sqrt((_PRIOR * _SPREAD**2 + free * seen_spread**2) / (_PRIOR + free)),
        gap_s=max(0.0, min(gaps, default=0.0)),
    )
