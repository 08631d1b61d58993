"""What measuring a network will take: some seconds whatever it is, and as many of its steps as are run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import theilslopes

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net, observation
from ampere_energy.measurement.records import Measurement, Record

_LEAST = 8
"""Fewer measurements do not tell what comes of a step's length."""
_USUAL_S = {True: 2.0, False: 0.1}
"""What a metering and a timing take, before one of them is known."""


@dataclass(frozen=True)
class Cost:
    """Seconds of one sort of measurement: at least those it usually takes, else fixed ones and so many steps."""

    usual_s: float
    fixed_s: float = 0.0
    steps: float = 0.0

    def of(self, step_s: float) -> float:
        """Seconds, for a network of which one step takes `step_s`.

        Short steps are not taken for cheaper than usual: the guide would then time small blocks all the time, of which
        it knows all it needs, and be a little worse (`docs/decisions/031-what-a-timing-costs.md`).
        """
        return max(self.usual_s, self.fixed_s + self.steps * step_s)


def cost(seen: Sequence[tuple[float, float]], otherwise_s: float) -> Cost:
    """What a sort of measurement costs.

    Args:
        seen: of each one made, the seconds of a step and of the measurement. The median of the lines through any two
            counts, since the first measurement of all takes a hundred times as long as the next.
        otherwise_s: what to expect while none was made.
    """
    if not any(spent for _, spent in seen):
        return Cost(otherwise_s)
    times, spent = np.array(seen).T
    usual_s = float(np.median(spent))
    if len(seen) < _LEAST or len(set(times)) == 1:
        return Cost(usual_s)
    steps, fixed_s, *_ = theilslopes(spent, times)
    return Cost(usual_s, float(fixed_s), float(steps))


def costs(records: Iterable[tuple[Net, Record]], waits: bool) -> dict[tuple[bool, bool], Cost]:
    """What measuring costs, by whether it is of a whole and whether it is metered.

    Args:
        records: what was measured.
        waits: whether a step may have to wait for its host.
    """
    spent: dict[tuple[bool, bool], list[tuple[float, float]]] = {
        (whole, metered): [] for whole in (False, True) for metered in (False, True)
    }
    for net, record in records:
        if (seen := observation(net, record, 0.0, waits)) is not None:
            spent[len(net) > 1, isinstance(record, Measurement)].append((seen.time_s, record.cost_s))
    return {(whole, metered): cost(own, _USUAL_S[metered]) for (whole, metered), own in spent.items()}


def steps_s(fit: JointFit, nets: Sequence[Net]) -> list[float]:
    """Seconds of a step of each network, as far as is known."""
    found: dict[Net, float] = {}
    alike: dict[tuple[int, ...], list[Net]] = {}
    for net in nets:
        alike.setdefault(tuple(kind for kind, _ in net), []).append(net)
    for kinds, own in alike.items():
        points = [np.array([net[b][1] for net in own], dtype=float) for b in range(len(kinds))]
        found |= zip(own, fit.predict(kinds, points).time_s.tolist(), strict=True)
    return [found[net] for net in nets]
