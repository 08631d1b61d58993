"""The estimate: blocks looked up in a profile and summed (the paper's eq. 4), with an interval.

Blocks of one kind share a Gaussian process, so their errors go together: the variance of the sum comes from
the joint covariance of the blocks, never from summed variances. A profile fitted jointly speaks of logarithms, so its
intervals are never negative and wider above than below.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.per_kind import KindFit, PerKind, Quantity
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.estimation.another_batch import bridged
from ampere_energy.estimation.approximate import Wanted, predicted_step
from ampere_energy.estimation.coverage import refuse, same_training
from ampere_energy.estimation.result import BlockEstimate, Estimate, Origin
from ampere_energy.estimation.unexplained import outside
from ampere_energy.measurement.records import Provenance
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import Kind, Point
from ampere_energy.model.widths import within
from ampere_energy.profiles.profile import Profile

_LONGEST_REACH = 300.0  # the exponential of more says no more


def estimate(
    spec: ModelSpec,
    profile: Profile,
    *,
    iterations: int = 1,
    level: float = 0.9,
    approximate: bool = False,
    there: ModelSpec | None = None,
) -> Estimate:
    """What `iterations` training steps of a model will cost on the profiled device.

    Args:
        spec: the parsed model.
        profile: what is known of its kinds.
        iterations: training steps.
        level: probability of the interval.
        approximate: blocks that the profile does not cover are guessed across the kinds it knows, and other batches
            bridged, with wider intervals. All other training settings must be the profile's.
        there: the model at the profile's batch, where that is another one: which blocks are known, and scaled from
            it. Without it, all blocks of a model at another batch are guessed.

    Raises:
        CoverageError: the profile lacks a kind of the model, or covers it only at other widths.
    """
    if iterations < 1:
        raise RequestError(f"--iterations {iterations}", "give at least 1")
    if not 0.5 < 0.5 + level / 2 < 1:
        raise RequestError(f"--level {level:g}", "give a probability between 0 and 1, such as 0.9")
    if profile.nets is not None:
        return _jointly(spec, profile, profile.nets, iterations, level, approximate, there)
    if approximate or there is not None:
        raise RequestError(
            f"--approximate with the profile of {profile.model} by the method {profile.method}",
            "profile with --method ampere",
        )
    return _singly(spec, profile, iterations, level)


def _singly(spec: ModelSpec, profile: Profile, iterations: int, level: float) -> Estimate:
    """By the paper's eq. 4: the sum of what each kind's own processes say."""
    groups = _covered(spec, profile)
    rows: dict[int, BlockEstimate] = {}
    variance = 0.0
    for fit, indices in groups:
        at = fit.unit([spec.blocks[i].point for i in indices])
        covariance = fit.process(Quantity.ENERGY).covariance(at)
        variance += float(covariance.sum())
        energies = fit.process(Quantity.ENERGY).mean(at).tolist()
        times = fit.process(Quantity.TIME).mean(at).tolist()
        deviations = np.sqrt(np.maximum(covariance.diagonal(), 0.0)).tolist()
        for i, energy, deviation, duration in zip(indices, energies, deviations, times, strict=True):
            rows[i] = BlockEstimate(
                spec.blocks[i].name, fit.kind.id, energy * iterations, deviation * iterations, duration * iterations
            )
    blocks = tuple(rows[i] for i in range(len(spec.blocks)))
    energy_j = sum(block.energy_j for block in blocks)
    std_j = math.sqrt(max(0.0, variance)) * iterations
    reach = NormalDist().inv_cdf(0.5 + level / 2) * std_j
    return Estimate(
        # Where all of it is below nothing, 0 would say that little is needed; it is the profile that is wrong.
        interval_j=(max(0.0, energy_j - reach) if energy_j + reach > 0 else energy_j - reach, energy_j + reach),
        energy_j=energy_j,
        std_j=std_j,
        time_s=sum(block.time_s for block in blocks),
        blocks=blocks,
        **_common(spec, profile, iterations, level),
    )


def _jointly(
    spec: ModelSpec,
    profile: Profile,
    nets: JointFit,
    iterations: int,
    level: float,
    approximate: bool,
    there: ModelSpec | None,
) -> Estimate:
    asked = _wanted(spec, profile, nets, approximate, there)
    about = predicted_step(asked, profile, nets, spec.training.batch)
    found, deviations = about.step, about.block_std
    moved = spec.training.batch != profile.training.batch
    blocks = tuple(
        BlockEstimate(
            one.own.name,
            one.own.kind.id,
            energy * iterations,
            energy * deviation * iterations,
            time * iterations,
            Origin.GUESSED if one.place is None else Origin.SCALED if moved else Origin.KNOWN,
            None if one.place is None or moved else _slower(nets, one.place, one.own.point, time),
        )
        for one, energy, deviation, time in zip(
            asked, found.block_energy_j[0].tolist(), deviations.tolist(), found.block_time_s[0].tolist(), strict=True
        )
    )
    beyond = None
    if not moved and all(one.place is not None for one in asked):
        net = tuple((one.place, one.own.point) for one in asked if one.place is not None)
        beyond = outside(nets, net, profile.device.processor)
    energy_j, spread = float(found.energy_j[0]) * iterations, float(found.spread[0])
    if beyond is not None:
        spread = math.hypot(spread, beyond.spread)
    reach = math.exp(min(_LONGEST_REACH, NormalDist().inv_cdf(0.5 + level / 2) * spread))
    return Estimate(
        interval_j=(energy_j / reach, energy_j * reach),
        energy_j=energy_j,
        std_j=energy_j * spread,
        time_s=float(found.time_s[0]) * iterations,
        blocks=blocks,
        other_j=max(0.0, float(found.other_j[0])) * iterations,
        busy=float(found.busy[0]),
        from_batch=profile.training.batch if moved else None,
        doubt=about.doubt,
        outside=beyond,
        **_common(spec, profile, iterations, level),
    )


def _wanted(
    spec: ModelSpec, profile: Profile, nets: JointFit, approximate: bool, there: ModelSpec | None
) -> list[Wanted]:
    """The model's blocks, each with what is known of it at the profile's batch."""
    batch, alike = profile.training.batch, there is None or len(there.blocks) == len(spec.blocks)
    if approximate and bridged(spec.training, profile.training) and (there is None or not alike):
        return [Wanted(block, block, None) for block in spec.blocks]
    if there is not None and not bridged(spec.training, profile.training):
        same_training(spec, profile)
    if not alike:
        raise CoverageError(f"{spec.name} is made of other blocks at batch {batch}", "profile this model")
    at = spec if there is None else there
    places = _places(at, profile, nets) if approximate else covered_jointly(at, profile, nets)
    return [Wanted(own, block, place) for own, block, place in zip(spec.blocks, at.blocks, places, strict=True)]


def _slower(nets: JointFit, kind: int, point: Point, time_s: float) -> float | None:
    at = np.array([point], dtype=float)
    return time_s / float(nets.time.at(kind, at)[0]) if nets.slow.at(kind, at)[0] else None


def _common(spec: ModelSpec, profile: Profile, iterations: int, level: float) -> dict[str, Any]:
    return {
        "model": spec.name,
        "training": spec.training,
        "level": level,
        "provenance": Provenance.PREDICTED,
        "basis": profile.meter.provenance,
        "device": profile.device,
        "meter": profile.meter,
        "iterations": iterations,
        "unattributed": spec.unattributed,
        "inherited": profile.doubts,
    }


def covered_jointly(spec: ModelSpec, profile: Profile, nets: JointFit) -> list[int]:
    """The blocks' subjects, by their places, all of them covered at their widths."""
    places = _places(spec, profile, nets)
    kinds = [place for place in places if place is not None]
    if len(kinds) < len(places):
        refuse([block for block, place in zip(spec.blocks, places, strict=True) if place is None], profile)
    return kinds


def _places(spec: ModelSpec, profile: Profile, nets: JointFit) -> list[int | None]:
    """For each block its subject, by its place; None where the profile does not cover it."""
    same_training(spec, profile)
    found = [nets.find(block.kind.id) for block in spec.blocks]
    return [
        place if place is not None and within(nets.subjects[place].domain, block.point) else None
        for block, place in zip(spec.blocks, found, strict=True)
    ]


def _covered(spec: ModelSpec, profile: Profile) -> list[tuple[KindFit, list[int]]]:
    """The model's blocks by kind, each with its fit."""
    same_training(spec, profile)
    known = PerKind(profile.kinds)
    groups: dict[str, tuple[KindFit, list[int]]] = {}
    lacking: list[Block] = []
    for index, block in enumerate(spec.blocks):
        fit = known.find(block.kind) if isinstance(block.kind, Kind) else None
        if fit is None or not within(fit.domain, block.point):
            lacking.append(block)
        else:
            groups.setdefault(block.kind.id, (fit, []))[1].append(index)
    if lacking:
        refuse(lacking, profile)
    return list(groups.values())
