"""The campaign on a device: ask for a network, have it measured, tell the result, until enough is known."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.additions import believed
from ampere_energy.campaign.paper import Subtracting
from ampere_energy.campaign.rules import Request, Rules, Status
from ampere_energy.cost_model.traits import Reference, collect
from ampere_energy.errors import DeviceError, RequestError
from ampere_energy.measurement.devices import Device, open_device
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import point_of, whole_of
from ampere_energy.measurement.records import Measurement, Record, gathered, same_setting
from ampere_energy.measurement.retries import measured, timed
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.source import ModelRef
from ampere_energy.model.structures import Structure
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import lessons
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile, check_kinds

METHODS = ("ampere", "paper")
_IN_VAIN = 4
"""A run ends when so many networks in a row could not be measured, each attempted some times."""
_SMALLER = "try a smaller batch or model"
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
        ref: where the model comes from, so that whole networks can be built of one that is no chain of recipes.
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
                meters_graphs(opened, spec),
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


def meters_graphs(device: Device, spec: ModelSpec) -> bool:
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
            record = record_of(device, request)
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


def record_of(device: Device, request: Request) -> Record:
    """What a device finds of a request; `failed` where each attempt did."""
    if request.metered:
        return measured(device, request.workload, (whole_of if request.itself else point_of)(device.meter))
    return timed(device, request.workload)
