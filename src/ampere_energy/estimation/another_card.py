"""What a bundle's profile cannot know: the card that an estimate is for is another one, and so is its host."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

from ampere_energy.estimation.result import Estimate

CARD = 0.03
"""One factor in energy from card to card: in the same time, at the same clock, one takes more watts than another.

Standard deviation, as is the next; both are of bundled profiles on other cards (docs/results/other-cards.md).
"""
HOST = 0.1
"""How the pace of another host changes a step's energy, for the share of the time that the device waits for it."""


def on_another_card(found: Estimate) -> Estimate:
    """An estimate with an interval for another card of the make, in another machine."""
    more = math.hypot(CARD, HOST * (1 - found.busy))
    narrow = math.log(found.interval_j[1] / found.energy_j)
    reach = math.exp(math.hypot(narrow, NormalDist().inv_cdf(0.5 + found.level / 2) * more))
    return replace(
        found,
        std_j=math.hypot(found.std_j, found.energy_j * more),
        interval_j=(found.energy_j / reach, found.energy_j * reach),
    )
