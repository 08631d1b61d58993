"""What a sum of blocks cannot see: a model that was measured whole beside what its blocks take by themselves.

Work between torch's calls (numpy's, say), a backward pass of the model's own, or `backward()` inside its forward are in
no block; a parametrisation that is computed once a step is in several. A campaign that measures the model itself learns
its total all the same. But what is not in the blocks follows other laws than theirs: that is said, and the interval is
wider. Of a model that nobody measured whole nothing is known, and nothing said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np

from ampere_energy.cost_model.fitting import learn
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net, Observation
from ampere_energy.cost_model.outliers import believable
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.errors import AmpereError

_SURE, _LEAST = NormalDist().inv_cdf(0.975), 0.1
"""By how many deviations of its logarithm, and by what at least, a whole must differ from its blocks."""
_DRIFTS = 0.1
"""How far what is outside the blocks may be off another time, as a share of the logarithm that it makes."""


@dataclass(frozen=True)
class Outside:
    """A step of a model as it was measured, beside what its blocks take by themselves, with all that a step pays once.

    They differ by more than what measuring and company leave open.
    """

    whole_j: float
    blocks_j: float

    @property
    def share(self) -> float:
        """The part of the step that is outside the blocks; negative where they take more than it does."""
        return 1 - self.blocks_j / self.whole_j

    @property
    def words(self) -> str:
        """What that means."""
        if self.share > 0:
            return (
                f"{100 * self.share:.0f} % of this model's step is outside what its blocks take, such as work between "
                "torch's calls or a backward pass of its own: it is known of the model as it was measured, and no other"
            )
        return (
            f"this model's blocks take {self.blocks_j / self.whole_j:.1f} times what it takes whole, such as "
            "where several compute one parametrisation: it is known of the model as it was measured, and no other"
        )

    @property
    def apart(self) -> float:
        """The logarithm of how many times as much the whole is."""
        return math.log(self.whole_j / self.blocks_j)

    @property
    def spread(self) -> float:
        """What it adds to the deviation of the logarithm of an estimate."""
        return _DRIFTS * abs(self.apart)


def outside(nets: JointFit, net: Net, processor: bool) -> Outside | None:
    """How a network that was measured whole differs from its blocks; None where it was not, or does not.

    Args:
        nets: what was learnt.
        net: the network.
        processor: whether the device is one.
    """
    single = len(net) == 1  # a model of one block: its own measurements are the long ones
    wholes = [o for o in believable(nets.observations) if o.blocks == net and not o.apart and (o.long or not single)]
    metered = [o for o in wholes if o.energy_j is not None]
    parts = [o for o in nets.observations if (len(o.blocks) == 1 and not o.long) or o.apart]
    if not metered or not _sufficient(parts, len(nets.subjects)):
        return None
    kinds, points = [kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net]
    try:
        by_parts = learn(nets.subjects, parts, idle_w=nets.idle_w, cached=processor, iterations=0)
        step, busy = steps(by_parts, kinds, points), by_parts.predict(kinds, points)
    except AmpereError:  # parts that no fit can be made of, or whose host nobody knows, tell nothing
        return None
    more = Outside(median(_step_j(o, nets) for o in metered), float(step.energy_j[0]))
    if more.apart > _enough(float(step.spread[0]) ** 2):
        return more
    # Of blocks alone the host takes longer than of a model, and each pays once what a step pays: only what the device
    # itself does can be less than they say, and only where blocks side by side tell what is paid once.
    less = Outside(median(o.energy_j or 0.0 for o in metered), float(busy.energy_j[0]))
    known = single or any(o.apart for o in parts)
    return less if known and -less.apart > _enough(float(busy.energy_var[0]) + nets.repeats_var) else None


def _enough(variance: float) -> float:
    """How far logarithms must be apart to be told apart."""
    return max(_LEAST, _SURE * math.sqrt(variance))


def _sufficient(parts: Sequence[Observation], subjects: int) -> bool:
    """Whether every kind was seen without company, and something metered."""
    seen = {kind for o in parts for kind, _ in o.blocks}
    return len(seen) == subjects and any(o.energy_j is not None for o in parts)


def _step_j(seen: Observation, nets: JointFit) -> float:
    """Joules of a whole step: what the device takes busy, and waiting for the host."""
    assert seen.energy_j is not None
    return seen.energy_j + (nets.idle_w or 0.0) * max(0.0, (seen.wall_s or 0.0) - seen.time_s)
