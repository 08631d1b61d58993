"""The estimate: blocks looked up in a profile and summed (the paper's eq. 4), with an interval.

Blocks of one kind share a Gaussian process, so their errors go together: the variance of the sum comes from
the joint covariance of each kind's blocks, never from summed variances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.fit.profile import KindFit, Profile, Quantity
from ampere_energy.measure.measurement import DeviceInfo, MeterInfo, Provenance
from ampere_energy.model.blocks import Block, ModelSpec

JOULES_PER_WH = 3600.0


@dataclass(frozen=True)
class BlockEstimate:
    """One block's share of an estimate, over all iterations."""

    name: str
    kind: str
    energy_j: float
    std_j: float
    time_s: float


@dataclass(frozen=True)
class Estimate:
    """What training will cost, over all iterations.

    Attributes:
        energy_j: joules; the blocks' joules sum to it.
        std_j: standard deviation of the estimate's error.
        interval_j: where the true energy lies with probability `level`.
        provenance: always `predicted`; `basis` says what the profile's energies were.
        unattributed: operations of the model that no block accounts for.
    """

    model: str
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

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against the estimate, in words."""
        below = ", ".join(block.name for block in self.blocks if block.energy_j < 0)
        noisy = "the profile is too noisy for it: profile on an idle machine, with a larger --budget or --threads 1"
        return (f"the energy of {below} comes out negative; {noisy}",) if below else ()

    @property
    def power_w(self) -> float:
        """Average power."""
        return self.energy_j / self.time_s

    @property
    def energy_wh(self) -> float:
        """Energy in watt-hours."""
        return self.energy_j / JOULES_PER_WH

    def battery_share(self, capacity_wh: float) -> float:
        """The share of a full battery it takes."""
        if not (math.isfinite(capacity_wh) and capacity_wh > 0):
            raise RequestError(f"a battery of {capacity_wh} Wh", "give a positive capacity, such as 15Wh")
        return self.energy_wh / capacity_wh


def estimate(spec: ModelSpec, profile: Profile, *, iterations: int = 1, level: float = 0.9) -> Estimate:
    """What `iterations` training steps of a model will cost on the profiled device.

    Raises:
        CoverageError: the profile lacks a kind of the model, or covers it only at other widths.
    """
    if iterations < 1:
        raise RequestError(f"--iterations {iterations}", "give at least 1")
    if not 0 < level < 1:
        raise RequestError(f"--level {level:g}", "give a probability between 0 and 1, such as 0.9")
    groups = _covered(spec, profile)
    rows: dict[int, BlockEstimate] = {}
    variance = 0.0
    for fit, indices in groups:
        at = fit.unit([spec.blocks[i].point for i in indices])
        covariance = fit.process(Quantity.ENERGY).covariance(at)
        variance += float(covariance.sum())
        energies = fit.process(Quantity.ENERGY).mean(at).tolist()
        times = fit.process(Quantity.TIME).mean(at).tolist()
        deviations = covariance.diagonal().clamp_min(0.0).sqrt().tolist()
        for i, energy, deviation, duration in zip(indices, energies, deviations, times, strict=True):
            rows[i] = BlockEstimate(
                spec.blocks[i].name, fit.kind.id, energy * iterations, deviation * iterations, duration * iterations
            )
    blocks = tuple(rows[i] for i in range(len(spec.blocks)))
    energy_j = sum(block.energy_j for block in blocks)
    std_j = math.sqrt(max(0.0, variance)) * iterations
    reach = NormalDist().inv_cdf(0.5 + level / 2) * std_j
    return Estimate(
        model=spec.name,
        energy_j=energy_j,
        std_j=std_j,
        interval_j=(max(0.0, energy_j - reach), energy_j + reach),
        level=level,
        time_s=sum(block.time_s for block in blocks),
        provenance=Provenance.PREDICTED,
        basis=profile.meter.provenance,
        device=profile.device,
        meter=profile.meter,
        iterations=iterations,
        blocks=blocks,
        unattributed=spec.unattributed,
    )


def _covered(spec: ModelSpec, profile: Profile) -> list[tuple[KindFit, list[int]]]:
    """The model's blocks by kind, each with its fit."""
    if spec.training != profile.training:
        wanted, has = spec.training, profile.training
        raise CoverageError(
            f"the profile was made at batch {has.batch} with {has.optimizer}, "
            f"the model trains at batch {wanted.batch} with {wanted.optimizer}",
            "profile this model with these settings",
        )
    groups: dict[str, tuple[KindFit, list[int]]] = {}
    missing: list[Block] = []
    beyond: list[str] = []
    for index, block in enumerate(spec.blocks):
        fit = profile.find(block.kind)
        if fit is None:
            missing.append(block)
        elif not fit.covers(block.point):
            reach = " and ".join(f"{axis} {r}" for axis, r in zip(block.kind.axes, fit.domain, strict=True))
            widths = ",".join(map(str, block.point))
            beyond.append(f"block {block.name} has widths {widths}, the profile covers {reach}")
        else:
            groups.setdefault(block.kind.id, (fit, []))[1].append(index)
    if missing:
        named = ", ".join(f"{block.name} ({block.kind.label})" for block in missing)
        state = "" if profile.complete else "partial "
        raise CoverageError(f"the {state}profile of {profile.model} lacks {named}", "profile this model")
    if beyond:
        raise CoverageError(", ".join(beyond), "profile this model")
    return list(groups.values())
