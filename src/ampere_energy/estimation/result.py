"""What an estimate says: joules and seconds with an interval, block by block, and what speaks against it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

from ampere_energy.errors import RequestError
from ampere_energy.estimation.unexplained import Outside
from ampere_energy.measurement.records import DeviceInfo, MeterInfo, Provenance
from ampere_energy.model.training import Training

JOULES_PER_WH = 3600.0
_NOISY = "the profile is too noisy for it: profile on an idle machine, with a larger --budget or --threads 1"


class Origin(StrEnum):
    """Where a block's figure comes from; of a block that is guessed at another batch and scaled, that it is guessed."""

    KNOWN = "known"
    SCALED = "scaled"
    GUESSED = "guessed"


@dataclass(frozen=True)
class BlockEstimate:
    """One block's share of an estimate, over all iterations.

    Attributes:
        origin: whether the profile covers it, covers it at another batch, or does not.
        slower: how many times as long as its size would let expect it takes, where the device computes its kind so at
            some widths and these are among them; else None.
    """

    name: str
    kind: str
    energy_j: float
    std_j: float
    time_s: float
    origin: Origin = Origin.KNOWN
    slower: float | None = None

    @property
    def approximate(self) -> bool:
        """Whether the profile does not cover it as it is."""
        return self.origin is not Origin.KNOWN


@dataclass(frozen=True)
class Estimate:
    """What training will cost, over all iterations.

    Attributes:
        training: what a step is.
        energy_j: joules; the blocks' joules and `other_j` sum to it.
        std_j: standard deviation of the estimate's error.
        interval_j: where the true energy lies with probability `level`.
        provenance: always `predicted`; `basis` says what the profile's energies were.
        unattributed: operations of the model that no block accounts for.
        other_j: joules that belong to no block: the base of a step, and waiting for the host.
        busy: the share of the time that the device works; less where it waits for the host.
        from_batch: the profile's batch, where it is another one: what is known was scaled from it.
        inherited: what is doubted of the profile's own measurements.
        doubt: standard deviation of the logarithm of what the device takes for the blocks, waiting for the host and
            the scatter of measurements apart: how well the profile knows them.
        outside: how the model differs from its blocks, where it was measured whole and does.
    """

    model: str
    training: Training
    energy_j: float
    std_j: float
    interval_j: tuple[float, float]
    level: float
    time_s: float
    provenance: Provenance
    basis: Provenance
    device: DeviceInfo
    meter: MeterInfo
    iterations: int
    blocks: tuple[BlockEstimate, ...]
    unattributed: tuple[str, ...]
    other_j: float = 0.0
    busy: float = 1.0
    from_batch: int | None = None
    doubt: float = 0.0
    inherited: tuple[str, ...] = ()
    outside: Outside | None = None

    @property
    def approximate(self) -> tuple[str, ...]:
        """Names of the blocks that the profile does not cover as they are: scaled from another batch, or guessed."""
        return tuple(block.name for block in self.blocks if block.approximate)

    @property
    def origins(self) -> dict[Origin, float]:
        """The share of the energy of blocks that are known, scaled and guessed; `other_j` has the rest."""
        found = {origin: sum(block.energy_j for block in self.blocks if block.origin is origin) for origin in Origin}
        return {origin: self.share(energy_j) for origin, energy_j in found.items() if energy_j}

    def share(self, energy_j: float) -> float:
        """What part of the energy some of it is."""
        return energy_j / self.energy_j if self.energy_j else 0.0

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against the estimate, in words."""
        if self.energy_j <= 0:
            return (f"the energy comes out at {1e3 * self.energy_j:.3g} mJ, which no training takes; {_NOISY}",)
        below = ", ".join(block.name for block in self.blocks if block.energy_j < 0)
        found = [f"the energy of {below} comes out negative; {_NOISY}"] if below else []
        found += [self.outside.words] if self.outside is not None else []
        return (*found, *(f"of the profile: {doubt}" for doubt in self.inherited))

    @property
    def power_w(self) -> float:
        """Average power."""
        return self.energy_j / self.time_s if self.time_s else 0.0

    @property
    def energy_wh(self) -> float:
        """Energy in watt-hours."""
        return self.energy_j / JOULES_PER_WH

    def battery_share(self, capacity_wh: float) -> float:
        """The share of a full battery it takes."""
        if not (math.isfinite(capacity_wh) and capacity_wh > 0):
            raise RequestError(f"a battery of {capacity_wh} Wh", "give a positive capacity, such as 15Wh")
        return self.energy_wh / capacity_wh

    def probability_within(self, budget_j: float) -> float:
        """P(fits): how likely the job stays within an energy budget."""
        if not (math.isfinite(budget_j) and budget_j > 0):
            raise RequestError(f"a budget of {budget_j} J", "give a positive energy, such as 20kJ")
        if self.std_j == 0 or self.energy_j <= 0:
            return float(self.energy_j <= budget_j)
        return NormalDist(0, self.std_j / self.energy_j).cdf(math.log(budget_j / self.energy_j))
