"""The campaign on a device: ask for a network, have it measured, tell the result, until enough is known."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ampere_energy.campaign.acquisition import Offer, best
from ampere_energy.campaign.adaptive import REACH_90, Guided
from ampere_energy.campaign.additions import STEPS, believed, doubting, net_of, seen, taught, unlearnt
from ampere_energy.campaign.paper import Subtracting
from ampere_energy.campaign.rules import Request, Rules, Status
from ampere_energy.campaign.scope import Key
from ampere_energy.cost_model.joint import NetFit
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.traits import Reference, collect
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.errors import DeviceError, RequestError
from ampere_energy.measurement.devices import Device, open_device
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import (
    Measurement,
    Record,
    content,
    gathered,
    manner,
    point_of,
    same_setting,
    whole_of,
)
from ampere_energy.measurement.retries import measured, timed
from ampere_energy.model.blocks import Block, ModelSpec, in_mode
from ampere_energy.model.source import ModelRef
from ampere_energy.model.structures import Structure
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import alone, lessons
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile, check_kinds

METHODS = ("ampere", "paper")
_ENOUGH = 0.5
_REPEATS = 3
_IN_VAIN = 4
"""A run ends when so many networks in a row could not be measured, each attempted some times."""
_SMALLER = "try a smaller batch or model"
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
    begin: Callable[[], None] = lambda: None,
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
        begin: called when all else was checked, before the log is read.

    Returns:
        The profile; marked incomplete where it was interrupted (Ctrl-C) or a kind could not be measured.
    """
    if method not in METHODS:
        raise RequestError(f"no method is called {method!r}", f"choose from {', '.join(METHODS)}")
    check_kinds([spec, *(structure.spec for structure in more)])
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
        with MeasurementLog(Path(log)).held() if log is not None else contextlib.nullcontext():
            begin()
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
    for record in believed(kept.read() if kept else ()):
        doubts += _doubted(record)
        same_setting(record, device.info, device.meter)
        campaign.tell(record)
    interrupted, in_vain = False, 0
    try:
        observe(campaign.status())
        while in_vain < _IN_VAIN and (request := campaign.ask()) is not None:
            record = answered(device, request)
            in_vain = in_vain + 1 if record.failed else 0
            if record.failed:
                campaign.skip(request, record.infeasible or "")
            else:
                record = _by_content(campaign, record)
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
        remedy = "try again with --resume, or train it by itself to see why" if status.skipped else _SMALLER
        raise DeviceError(f"nothing ran: {failures[0]}" if failures else "too little ran", remedy)
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


def _by_content(campaign: Campaign, record: Record) -> Record:
    """A record as it is logged: a whole model by what it is made of."""
    if isinstance(campaign, Subtracting):
        return record
    return replace(record, workload=campaign.scope.content(record.workload))


def _doubted(record: Record) -> list[tuple[str, ...]]:
    """What is doubted of a metering."""
    return [record.doubts] if isinstance(record, Measurement) and record.windows else []


def answered(device: Device, request: Request) -> Record:
    """What a device finds of a request; `failed` where each attempt did."""
    if request.metered:
        return measured(device, request.workload, (whole_of if request.itself else point_of)(device.meter))
    return timed(device, request.workload)


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
    what its blocks cost in company. Where it does not run, they are measured for what they can tell.

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
    nets, kept = profile.joint, MeasurementLog(Path(log)) if log is not None else None
    before: dict[Key, list[Record]] = {}
    for net, record in unlearnt(profile, kept):
        before.setdefault((net, manner(record.workload, isinstance(record, Measurement))), []).append(record)
    asked, whole = net_of(nets, spec.blocks), Request(replace(ref, training=spec.training), itself=True)
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
        known = before.get((net, manner(request.workload, request.metered)))
        if known:
            record = known.pop(0)
        else:
            record = answered(device, request)
            same_setting(record, profile.device, profile.meter)
            if kept and not record.failed:
                named = content(ref, spec.blocks) if request is whole else record.workload
                kept.append(replace(record, workload=named))
        if net != asked:
            costs[request.metered] = max(record.cost_s, 1e-3)
        done += 1
        new = seen(profile, net, record, long=net == asked)
        if new is not None:
            iterations = 0 if done % _RELEARN else STEPS
            profile = taught(doubting(profile, record), [new], record.cost_s, iterations)
            nets = profile.joint
        elif net == asked:
            infeasible = record.infeasible
        else:
            offers = [offer for offer in offers if offer[0] != net]
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
