"""The campaign on a device: ask for a network, have it measured, tell the result, until enough is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ampere_energy.errors import CoverageError, DeviceError, RequestError
from ampere_energy.fit.guide import Offer, best
from ampere_energy.fit.guided import REACH_90, Guided
from ampere_energy.fit.learn import learn
from ampere_energy.fit.nets import NetFit
from ampere_energy.fit.observed import Net, Observation, observation
from ampere_energy.fit.paper import Subtracting
from ampere_energy.fit.profile import Profile
from ampere_energy.fit.references import Reference, collect
from ampere_energy.fit.rules import Request, Rules, Status
from ampere_energy.fit.steps import steps
from ampere_energy.measure.devices import Device, open_device
from ampere_energy.measure.measurement import (
    Measurement,
    Record,
    gathered,
    joined,
    point_of,
    same_setting,
    whole_of,
)
from ampere_energy.measure.store import MeasurementLog
from ampere_energy.model.blocks import Block, ModelSpec, in_mode
from ampere_energy.model.source import ModelRef
from ampere_energy.model.structures import Structure
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import WidthRange, alone, lessons

METHODS = ("ampere", "paper")
_ENOUGH = 0.5
_REPEATS = 3
_AGAIN = 10
"""Steps in which hyperparameters are learnt anew from where they were."""
_RELEARN = 8
"""While refining, hyperparameters are learnt anew after so many measurements: one more hardly moves them."""
Campaign = Guided | Subtracting


def profile(
    spec: ModelSpec,
    *,
    device: Device | str = "cpu",
    ranges: Sequence[WidthRange] | None = None,
    rules: Rules | None = None,
    log: str | Path | None = None,
    method: str = "ampere",
    observe: Callable[[Status], None] = lambda status: None,
    budget_s: float | None = None,
    ref: ModelRef | None = None,
    more: Sequence[Structure] = (),
) -> Profile:
    """Profiles what a model is made of on a device, and fits it.

    Args:
        spec: the parsed model, at its largest widths.
        device: an open device, or a name such as `cpu` (opened and closed here).
        ranges: the values to cover of each of the model's widths; by default from 1 to its own.
        rules: end conditions and guide.
        log: where each measurement is kept; what it already holds is taken in, not measured again.
        method: `ampere` (blocks alone, all fitted jointly, guided) or `paper` (small networks, subtracted).
        observe: called with the campaign's status after each measurement.
        budget_s: short for `rules=Rules(budget_s=…)`.
        ref: where the model comes from, so that whole members can be built of one that is no chain of recipes.
        more: further structures of the same factory, profiled together.

    Returns:
        The profile; marked incomplete where it was interrupted (Ctrl-C) or a kind could not be measured.
    """
    if method not in METHODS:
        raise RequestError(f"no method is called {method!r}", f"choose from {', '.join(METHODS)}")
    if rules is None:
        rules = Rules(budget_s=budget_s)
    opened = open_device(device) if isinstance(device, str) else device
    started_s = time.monotonic()
    try:
        campaign: Campaign = (
            Subtracting(lessons(spec, ranges), rules)
            if method == "paper"
            else Guided(
                spec,
                ranges,
                rules,
                captures_alone(opened, spec),
                ref,
                elapsed=lambda: time.monotonic() - started_s,
                more=more,
            )
        )
        return _run(spec, campaign, opened, log, method, observe)
    finally:
        if isinstance(device, str):
            opened.close()


def captures_alone(device: Device, spec: ModelSpec) -> bool:
    """Whether blocks of the model's eager steps are metered as captured graphs."""
    return spec.training.mode is Mode.EAGER and device.info.name.startswith("cuda")


def _run(
    spec: ModelSpec,
    campaign: Campaign,
    device: Device,
    log: str | Path | None,
    method: str,
    observe: Callable[[Status], None],
) -> Profile:
    kept = MeasurementLog(Path(log)) if log is not None else None
    doubts: list[tuple[str, ...]] = []
    for record in kept.read() if kept else ():
        doubts += _doubted(record)
        same_setting(record, device.info, device.meter)
        if not campaign.tell(record) and isinstance(record.workload, ModelRef):
            _tell_whole(campaign, record.workload, record)
    interrupted = False
    try:
        observe(campaign.status())
        while (request := campaign.ask()) is not None:
            record = answered(device, request)
            if kept:
                kept.append(record)
            doubts += _doubted(record)
            campaign.tell(record)
            observe(campaign.status())
    except KeyboardInterrupt:
        interrupted = True
    status = campaign.status()
    kinds = campaign.fits() if isinstance(campaign, Subtracting) else ()
    nets = campaign.fit() if isinstance(campaign, Guided) else None
    references: tuple[Reference, ...] = ()
    if isinstance(campaign, Guided) and nets is not None:
        references = collect(campaign.scope.kinds, nets)
    if not kinds and nets is None:
        if interrupted:
            raise KeyboardInterrupt
        failures = campaign.failures()
        raise DeviceError(
            f"nothing ran: {failures[0]}" if failures else "too little ran", "try a smaller batch or model"
        )
    return Profile(
        model=spec.name,
        method=method,
        device=device.info,
        meter=device.meter,
        training=spec.training,
        complete=not interrupted and campaign.complete(),
        measurements=status.measurements,
        profile_s=status.spent_s,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        kinds=kinds,
        nets=nets,
        references=references,
        doubts=gathered(doubts),
    )


def _doubted(record: Record) -> list[tuple[str, ...]]:
    """What is doubted of a metering."""
    return [record.doubts] if isinstance(record, Measurement) and record.windows else []


def _tell_whole(campaign: Campaign, ref: ModelRef, record: Record) -> None:
    """Takes in a whole model that was measured with --add-to, where the campaign knows all its kinds."""
    from ampere_energy.model.parse import parse_ref

    if isinstance(campaign, Guided):
        blocks = parse_ref(ref).blocks
        if all(block.kind in campaign.scope.domains for block in blocks):
            campaign.add(blocks, record)


def answered(device: Device, request: Request) -> Record:
    """What a device finds of a request."""
    if request.metered:
        return device.measure(request.workload, (whole_of if request.itself else point_of)(device.meter))
    return device.time(request.workload)


def add(profile: Profile, blocks: Sequence[Block], record: Measurement) -> Profile:
    """The profile with one more measurement, of a whole model made of known kinds."""
    nets = _joint(profile)
    same_setting(record, profile.device, profile.meter)
    error = record.energy_std_j / record.energy_j
    seen = observation(_net(nets, blocks), record, error, profile.training.mode.waits, long=True)
    assert seen is not None
    profile = replace(profile, doubts=joined(profile.doubts, record.doubts))
    return _with(profile, nets, [*nets.observations, seen], record.cost_s)


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
    before: Iterator[Record] | None = None,
    observe: Callable[[int, float], None] = lambda measured, reach: None,
) -> Refined:
    """Measures the blocks that dominate one model's interval until it is inside the target.

    Where they could not bring it there, however well they were known, the model itself is metered: nothing else tells
    what its blocks cost in company. Where it does not run, they are measured for what they can tell.

    Args:
        profile: what is known; made on this device by the `ampere` method.
        ref: where the model comes from.
        spec: the model, parsed.
        device: where to measure.
        target: half the 90 % interval, as a share of the energy.
        log: where each measurement is kept.
        before: what was measured for the same sake before an interruption; each takes the place of a measurement.
        observe: called with the measurements made and the reach so far.
    """
    nets, kept = _joint(profile), MeasurementLog(Path(log)) if log is not None else None
    asked, whole = _net(nets, spec.blocks), Request(replace(ref, training=spec.training), itself=True)
    twin = Mode.GRAPH if captures_alone(device, spec) else spec.training.mode
    places = zip(asked, spec.blocks, strict=True)
    blocks: dict[Net, Block] = {((index, block.point),): block for (index, _), block in places}
    costs, done, wholes = {True: 2.0, False: 0.1}, 0, _REPEATS
    offers = [(net, metered) for net in blocks for metered in (True, False) for _ in range(_REPEATS)]
    infeasible: str | None = None
    reach = _reach(nets, asked)
    while reach > target:
        variance, company = float(nets.posterior([asked])[1, 1]), _company(nets, len(asked))
        by_blocks = infeasible is not None or _leaves(nets, target, company) > 0
        if offers and by_blocks and _narrows(nets, variance, target, company):
            ranked = [Offer(net, metered, costs[metered]) for net, metered in dict.fromkeys(offers)]
            chosen = best(nets, [asked], ranked, 1)[0]
            offers.remove((chosen.net, chosen.metered))
            net, block = chosen.net, blocks[chosen.net]
            request = Request(alone(in_mode(block.kind, twin), block.point), chosen.metered)
        elif wholes and infeasible is None and _narrows(nets, variance, target):
            net, request, wholes = asked, whole, wholes - 1
        else:
            break
        known = next(before, None) if before else None
        record = known or answered(device, request)
        same_setting(record, profile.device, profile.meter)
        if kept and known is None:
            kept.append(record)
        if net != asked:
            costs[request.metered] = max(record.cost_s, 1e-3)
        done += 1
        error = record.energy_std_j / record.energy_j if isinstance(record, Measurement) and record.windows else 0.0
        seen = observation(net, record, error, spec.training.mode.waits, long=net == asked)
        if seen is not None:
            iterations = 0 if done % _RELEARN else _AGAIN
            for doubts in _doubted(record):
                profile = replace(profile, doubts=joined(profile.doubts, doubts))
            profile = _with(profile, nets, [*nets.observations, seen], record.cost_s, iterations)
            nets = _joint(profile)
        elif net == asked:
            infeasible = record.infeasible
        reach = _reach(nets, asked)
        observe(done, reach)
    return Refined(profile, reach, done, _limit(nets, asked, target, infeasible) if reach > target else None)


def _limit(nets: NetFit, asked: Net, target: float, infeasible: str | None) -> str:
    """What keeps an interval wide when all is measured often enough."""
    repeats = REACH_90 * nets.repeats_var**0.5
    if repeats > target:
        return f"measured again, a network differs by ±{100 * repeats:.2g} %; give the device nothing else to do"
    if infeasible is not None:
        return f"the model itself does not run ({infeasible}); its blocks are measured often enough"
    if nets.host is not None and _reach(replace(nets, host=replace(nets.host, spread=0.0)), asked) <= target:
        scatter = 100 * REACH_90 * nets.host.spread
        return (
            f"a step waits for the host, whose time differs by ±{scatter:.0f} %; captured (--mode graph) it would not"
        )
    return "its blocks and the model itself are measured; ampere measure --add-to measures the model once more"


def _joint(profile: Profile) -> NetFit:
    if profile.nets is None:
        raise RequestError(
            f"the profile of {profile.model} was made by the method {profile.method}", "profile with --method ampere"
        )
    return profile.nets


def _net(nets: NetFit, blocks: Sequence[Block]) -> Net:
    places = [(nets.find(block.kind.id), block) for block in blocks]
    missing = [block.name for place, block in places if place is None]
    if missing:
        raise CoverageError(f"the profile lacks {', '.join(missing)}", "profile this model")
    return tuple((place, block.point) for place, block in places if place is not None)


def _with(
    profile: Profile, nets: NetFit, observations: Sequence[Observation], cost_s: float, iterations: int = _AGAIN
) -> Profile:
    again = learn(
        nets.subjects,
        observations,
        idle_w=nets.idle_w,
        cached=profile.device.processor,
        before=nets,
        iterations=iterations,
    )
    return replace(profile, nets=again, measurements=profile.measurements + 1, profile_s=profile.profile_s + cost_s)


def _reach(nets: NetFit, asked: Net) -> float:
    """Half the 90 % interval of a step's energy, as a share."""
    points = [np.array([point], dtype=float) for _, point in asked]
    return float(REACH_90 * steps(nets, [kind for kind, _ in asked], points).spread[0])


def _company(nets: NetFit, blocks: int) -> float:
    """The variance that measuring blocks alone does not take away: of what they cost in a company of its own."""
    share = (blocks - 1) / blocks
    return float(share**2 * sum(deviation**2 for deviation in nets.own))


def _narrows(nets: NetFit, variance: float, target: float, company: float = 0.0) -> bool:
    """Whether measuring helps: until what it can take away is not what keeps the interval wider than the target."""
    enough = max(_leaves(nets, target, company), (_ENOUGH * target / REACH_90) ** 2)
    return max(variance - company, 0.0) > enough


def _leaves(nets: NetFit, target: float, company: float) -> float:
    """What the target leaves to the variance of blocks; not positive where they alone cannot reach it."""
    return (target / REACH_90) ** 2 - company - nets.repeats_var
