"""Other ways to predict a step's energy, for comparison: all fitted on what was measured for profiling, and no more.

    flops            c · FLOPs
    flops_affine     a · blocks + c · FLOPs
    flops_bytes      a · blocks + c · FLOPs + d · bytes moved
    time_power       the step's predicted time, times the mean power of what was profiled
    neuralpower      forward, backward and update of each operator, profiled by themselves, summed: metered at a few
                     widths, timed at more, a polynomial of widths fitted to the joules of each
    run20            the model itself, run for twenty steps: needs the model and the device, and is no prediction

Weights are not negative, and fitted to relative errors. Work, bytes and mean power are learnt from whole networks where
a campaign measured at least `_WHOLES`, else from all that it metered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import nnls

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net, Observation
from ampere_energy.cost_model.physical_mean import Array, fit_mean
from ampere_energy.cost_model.traits import traits_of
from ampere_energy.cost_model.whole_step import host_time
from ampere_energy.measurement.records import Measurement, Record, Timing
from ampere_energy.model.blocks import Block
from ampere_energy.model.kinds import AnyKind, Fragment, Point
from ampere_energy.model.variants import Phase, Variant

Blocks = Sequence[Block]
_WHOLES = 3


def by_work(fit: JointFit, networks: Sequence[Blocks]) -> dict[str, list[float]]:
    """Joules of networks by their work and traffic; networks with kinds that no network has are left out."""
    named = {block.kind.id: block.kind for network in networks for block in network}
    kinds = {place: named[s.id] for place, s in enumerate(fit.subjects) if s.id in named}
    known = [o for o in fit.observations if all(kind in kinds for kind, _ in o.blocks)]
    examples = _examples(known)
    energies = np.array([_step_j(o, fit) for o in examples])
    seen = np.array([_work(_blocks(o.blocks, kinds)) for o in examples])
    wanted = np.array([_work(network) for network in networks])
    columns = {"flops": [1], "flops_affine": [0, 1], "flops_bytes": [0, 1, 2]}
    return {name: _fitted(seen[:, own], energies, wanted[:, own]) for name, own in columns.items()}


def by_time(fit: JointFit, times_s: Sequence[float]) -> list[float]:
    """Joules of networks by their predicted times and the mean power of what was profiled."""
    watts = float(np.mean([_step_j(o, fit) / _wall_s(o, fit) for o in _examples(fit.observations)]))
    return [time_s * watts for time_s in times_s]


def by_operators(campaign: Guided, records: Sequence[Record], networks: Sequence[Blocks]) -> list[float] | None:
    """Joules of networks by their operators' phases; None where these were not measured in this mode."""
    found: dict[tuple[AnyKind, Phase], list[Record]] = {}
    for record in records:
        if isinstance(record.workload, Variant) and record.infeasible is None:
            found.setdefault((record.workload.blocks[0].kind, record.workload.phase), []).append(record)
    if any((kind, Phase.FORWARD) not in found for kind in campaign.scope.kinds):
        return None
    totals = np.zeros(len(networks))
    for (kind, _), own in found.items():
        nets, energies = [((0, _point(record)),) for record in own], _phase_j(own)
        mean = fit_mean([campaign.scope.domains[kind]], nets, energies, squares=[isinstance(kind, Fragment)])
        for place, network in enumerate(networks):
            wanted = [block.point for block in network if block.kind == kind]
            if wanted:
                totals[place] += mean.at(0, np.array(wanted, dtype=float)).sum()
    return [float(total) for total in totals]


def _phase_j(records: Sequence[Record]) -> Array:
    """Joules of one phase at each of its points: metered, or timed and at the power of blocks metered of like size."""
    metered = sorted((m for m in records if isinstance(m, Measurement)), key=_size)
    sizes, watts = [_size(m) for m in metered], [m.energy_j / m.time_s for m in metered]
    return np.array(
        [r.energy_j if isinstance(r, Measurement) else _seconds(r) * np.interp(_size(r), sizes, watts) for r in records]
    )


def _point(record: Record) -> Point:
    assert isinstance(record.workload, Variant)
    return record.workload.blocks[0].point


def _size(record: Record) -> float:
    return math.log(math.prod(_point(record)))


def _seconds(timing: Timing) -> float:
    """Seconds of a step as it was asked for: captured, the device's own."""
    assert timing.device_s is not None
    if timing.wall_s is not None and timing.workload.training.mode.waits:
        return timing.wall_s
    return timing.device_s


def _examples(observations: Sequence[Observation]) -> list[Observation]:
    """Whole networks that were metered, or all that was where they are few."""
    metered = [o for o in observations if o.energy_j is not None and not o.apart]
    wholes = [o for o in metered if len(o.blocks) > 1]
    return wholes if len(wholes) >= _WHOLES else metered


def _step_j(observation: Observation, fit: JointFit) -> float:
    """Joules of a whole step: what the device takes busy, and waiting for the host."""
    assert observation.energy_j is not None
    return observation.energy_j + (fit.idle_w or 0.0) * max(0.0, _wall_s(observation, fit) - observation.time_s)


def _wall_s(observation: Observation, fit: JointFit) -> float:
    """Seconds of a whole step: where it was run as a captured graph, as its host would have issued it."""
    if observation.wall_s is not None:
        return observation.wall_s
    if fit.host is None or len(observation.blocks) == 1:
        return observation.time_s
    points = [np.array([point], dtype=float) for _, point in observation.blocks]
    host_s = host_time(fit, [kind for kind, _ in observation.blocks], points)[0]
    return max(float(host_s), observation.time_s + fit.host.gap_s)


def _blocks(net: Net, kinds: Mapping[int, AnyKind]) -> list[Block]:
    return [Block("", kinds[kind], point) for kind, point in net]


def _work(blocks: Blocks) -> tuple[float, float, float]:
    traits = [traits_of(block.kind, block.point) for block in blocks]
    return float(len(blocks)), sum(t.flops for t in traits), sum(t.bytes for t in traits)


def _fitted(seen: Array, energies: Array, wanted: Array) -> list[float]:
    scale = seen.max(0)
    weights, _ = nnls(seen / scale / energies[:, None], np.ones(len(energies)))
    return [float(value) for value in wanted / scale @ weights]
