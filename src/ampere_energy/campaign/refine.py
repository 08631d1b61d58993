"""Refining: measuring what one model's interval hangs on, until it is narrow enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ampere_energy.campaign.acquisition import Offer, best
from ampere_energy.campaign.adaptive import REACH_90
from ampere_energy.campaign.additions import STEPS, doubting, net_of, seen, taught, unlearnt
from ampere_energy.campaign.rules import Request
from ampere_energy.campaign.run import meters_graphs, record_of
from ampere_energy.campaign.scope import Key
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.measurement.devices import Device
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import Measurement, Record, same_setting
from ampere_energy.measurement.workloads import content, manner
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import in_mode
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import alone
from ampere_energy.profiles.profile import Profile

_ENOUGH = 0.5
_REPEATS = 3
_RELEARN = 8
"""Hyperparameters are learnt anew after so many measurements: one more hardly moves them."""
_COSTS = {True: 2.0, False: 0.1}
"""Seconds that a metering, and a timing, of a block takes, until one was made."""


@dataclass(frozen=True)
class Refined:
    """A profile that knows one model better, how far it got, and what stopped it.

    Attributes:
        reach: half the 90 % interval of the model's energy, as a share.
        measurements: how many it took.
        limit: what keeps the interval wider than asked; None where the target was met.
    """

    profile: Profile
    reach: float
    measurements: int
    limit: str | None


def refine(
    profile: Profile,
    ref: ModelRef,
    spec: ModelSpec,
    device: Device,
    target: float,
    *,
    log: str | Path | None = None,
    observe: Callable[[int, float], None] = lambda measured, reach: None,
) -> Refined:
    """Measures the blocks that dominate one model's interval until it is inside the target.

    Where they could not bring it there, however well they were known, the model itself is metered: nothing else tells
    what its blocks cost together. Where it does not run, they are measured for what they can tell.

    Args:
        profile: what is known; made on this device by the `ampere` method.
        ref: where the model comes from.
        spec: the model, parsed.
        device: where to measure.
        target: half the 90 % interval, as a share of the energy.
        log: where each measurement is kept. What it already holds and the profile has not learnt, since something
            came between, takes the place of a measurement.
        observe: called with the measurements made and the reach so far.
    """
    kept = MeasurementLog(Path(log)) if log is not None else None
    before: dict[Key, list[Record]] = {}
    for net, record in unlearnt(profile, kept):
        before.setdefault((net, manner(record.workload, isinstance(record, Measurement))), []).append(record)
    state = _Refining(profile, ref, spec, meters_graphs=meters_graphs(device, spec))
    while state.reach > target and (chosen := state.next_request(target)) is not None:
        net, request = chosen
        if known := before.get((net, manner(request.workload, request.metered))):
            record = known.pop(0)
        else:
            record = record_of(device, request)
            same_setting(record, profile.device, profile.meter)
            if kept and not record.failed:
                named = content(ref, spec.blocks) if request.itself else record.workload
                kept.append(replace(record, workload=named))
        state.take_in(net, record)
        observe(state.done, state.reach)
    return Refined(state.profile, state.reach, state.done, state.limit(target) if state.reach > target else None)


class _Refining:
    """Where refining stands.

    Attributes:
        profile: what is known by now.
        net: the model, as the fit sees it.
        reach: half its 90 % interval, as a share.
        done: how many measurements were taken in.
    """

    def __init__(self, profile: Profile, ref: ModelRef, spec: ModelSpec, *, meters_graphs: bool) -> None:
        self.profile, self.done = profile, 0
        self.net = net_of(profile.joint, spec.blocks)
        self.reach = _reach(profile.joint, self.net)
        self._whole = Request(replace(ref, training=spec.training), itself=True)
        self._metered_as = Mode.GRAPH if meters_graphs else spec.training.mode
        places = zip(self.net, spec.blocks, strict=True)
        self._blocks: dict[Net, Block] = {((index, block.point),): block for (index, _), block in places}
        self._costs, self._wholes = dict(_COSTS), _REPEATS
        self._offers = [(net, metered) for net in self._blocks for metered in (True, False) for _ in range(_REPEATS)]
        self._infeasible: str | None = None

    def next_request(self, target: float) -> tuple[Net, Request] | None:
        """What to measure next, as the fit sees it and as the device is asked; None where nothing more helps."""
        nets = self.profile.joint
        variance, coupling = float(nets.log_covariance([self.net])[1, 1]), _coupling(nets, len(self.net))
        by_blocks = self._infeasible is not None or _leaves(nets, target, coupling) > 0
        if self._offers and by_blocks and _narrows(nets, variance, target, coupling):
            ranked = [Offer(net, metered, self._costs[metered]) for net, metered in dict.fromkeys(self._offers)]
            chosen = best(nets, [self.net], ranked, 1)[0]
            self._offers.remove((chosen.net, chosen.metered))
            block = self._blocks[chosen.net]
            return chosen.net, Request(alone(in_mode(block.kind, self._metered_as), block.point), chosen.metered)
        if self._wholes and self._infeasible is None and _narrows(nets, variance, target):
            self._wholes -= 1
            return self.net, self._whole
        return None

    def take_in(self, net: Net, record: Record) -> None:
        """Learns from what was measured."""
        if net != self.net:
            self._costs[isinstance(record, Measurement)] = max(record.cost_s, 1e-3)
        self.done += 1
        new = seen(self.profile, net, record, long=net == self.net)
        if new is not None:
            iterations = 0 if self.done % _RELEARN else STEPS
            self.profile = taught(doubting(self.profile, record), [new], record.cost_s, iterations)
        elif net == self.net:
            self._infeasible = record.infeasible
        else:
            self._offers = [offer for offer in self._offers if offer[0] != net]
        self.reach = _reach(self.profile.joint, self.net)

    def limit(self, target: float) -> str:
        """What keeps the interval wide when all is measured often enough."""
        return _limit(self.profile.joint, self.net, target, self._infeasible)


def _limit(nets: JointFit, net: Net, target: float, infeasible: str | None) -> str:
    """What keeps an interval wide when all is measured often enough."""
    repeats = REACH_90 * nets.repeats_var**0.5
    if repeats > target:
        return f"measured again, a network differs by ±{100 * repeats:.2g} %; give the device nothing else to do"
    if infeasible is not None:
        return f"the model itself does not run ({infeasible}); its blocks are measured often enough"
    if nets.host is not None and _reach(replace(nets, host=replace(nets.host, spread=0.0)), net) <= target:
        scatter = 100 * REACH_90 * nets.host.spread
        return (
            f"a step waits for the host, whose time differs by ±{scatter:.0f} %; as a CUDA graph (--mode graph) it "
            "would not"
        )
    return "its blocks and the model itself are measured; ampere measure --add-to measures the model once more"


def _reach(nets: JointFit, net: Net) -> float:
    """Half the 90 % interval of a step's energy, as a share."""
    points = [np.array([point], dtype=float) for _, point in net]
    return float(REACH_90 * steps(nets, [kind for kind, _ in net], points).spread[0])


def _coupling(nets: JointFit, blocks: int) -> float:
    """The variance that measuring blocks alone does not take away: of what they cost together."""
    share = (blocks - 1) / blocks
    return float(share**2 * sum(deviation**2 for deviation in nets.own))


def _narrows(nets: JointFit, variance: float, target: float, coupling: float = 0.0) -> bool:
    """Whether measuring helps: until what it can take away is not what keeps the interval wider than the target."""
    enough = max(_leaves(nets, target, coupling), (_ENOUGH * target / REACH_90) ** 2)
    return max(variance - coupling, 0.0) > enough


def _leaves(nets: JointFit, target: float, coupling: float) -> float:
    """What the target leaves to the variance of blocks; not positive where they alone cannot reach it."""
    return (target / REACH_90) ** 2 - coupling - nets.repeats_var
