"""`ampere estimate`: what training a model will cost, from a profile."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ampere_energy.cli.arguments import joules, share, watt_hours
from ampere_energy.cli.options import (
    AccumulateOrSame,
    AsJson,
    ChannelsLastOrSame,
    ClipGradients,
    Input,
    Iterations,
    Level,
    Model,
    ModeOrSame,
    OptimizerOrSame,
    PrecisionOrSame,
    ProfileOrBundle,
    Scheduler,
    SyncEachStep,
    Wait,
    Widths,
)
from ampere_energy.cli.output import err, say, show
from ampere_energy.cli.requests import chosen_from, ref_of, remedy, spec_for, spec_of
from ampere_energy.cli.settings import given
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.profiles.collection import existing_path, is_bundle, load_profile, log_of, profile_held

if TYPE_CHECKING:
    from ampere_energy.campaign.refine import Refined
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import ModelRef


def estimate(
    model: Model,
    profile: ProfileOrBundle,
    input: Input = None,
    widths: Widths = "",
    optimizer: OptimizerOrSame = "",
    mode: ModeOrSame = "",
    precision: PrecisionOrSame = "",
    channels_last: ChannelsLastOrSame = None,
    accumulate: AccumulateOrSame = None,
    clip_gradients: ClipGradients = False,
    scheduler: Scheduler = False,
    sync_each_step: SyncEachStep = False,
    iterations: Iterations = 1,
    level: Level = 0.9,
    battery: Annotated[str, typer.Option(help="A battery's capacity, such as 15Wh: the share used, P(fits).")] = "",
    within: Annotated[str, typer.Option(help="An energy budget, such as 20kJ, to see how likely it is kept.")] = "",
    refine: Annotated[
        str, typer.Option(help="Measure its blocks, and itself if need be, until its interval is within, as 3%.")
    ] = "",
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Guess blocks of kinds not profiled, and scale from another batch.")
    ] = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Predicts what training a model will cost, from a profile, without running it."""
    capacity, allowed, target = watt_hours(battery), joules(within), share(refine, "--refine")
    if approximate and target is not None:
        raise RequestError("--approximate with --refine", "refining measures kinds that are profiled: give one of them")
    flags = {"clip_gradients": clip_gradients, "scheduler": scheduler, "sync_each_step": sync_each_step}
    asked = given(optimizer, mode, precision, channels_last, accumulate, **flags)
    ref = ref_of(model, input, widths, asked.usual)
    from ampere_energy.model.reading import start

    start(ref.source)  # while the rest is imported
    from ampere_energy.estimation.another_batch import bridged
    from ampere_energy.estimation.answer import as_profiled, usable
    from ampere_energy.estimation.estimate import estimate as predict
    from ampere_energy.estimation.nearest import read_there
    from ampere_energy.reporting.as_json import estimate_json
    from ampere_energy.reporting.tables import estimate_table

    chosen = None
    if is_bundle(profile) and target is None:
        try:
            chosen = chosen_from(profile, ref, bool(input), asked, approximate)
        except CoverageError as error:
            raise CoverageError(error.what, error.remedy + _rougher(error.near, approximate)) from error
        ref, spec, learnt, there = chosen.ref, chosen.spec, chosen.profile, chosen.there
    else:
        learnt = load_profile(profile)  # refuses a bundle, which cannot be refined
        ref = as_profiled(ref, learnt, bool(input), asked)
        spec = spec_for(ref, learnt)
        there = read_there(ref, spec, learnt.training, spec_of) if approximate else None
    try:
        result = predict(spec, learnt, iterations=iterations, level=level, approximate=approximate, there=there)
    except CoverageError as error:
        what_to_do = remedy(ref, spec, learnt, profile)
        if spec.training != learnt.training or learnt.references:
            what_to_do += _rougher(
                spec.training == learnt.training or bridged(spec.training, learnt.training), approximate
            )
        raise CoverageError(error.what, what_to_do) from error
    result = usable(result, another_card=learnt.bundled)
    if not learnt.complete:
        say("the profile is partial: finish it by ampere profile with --resume, and estimates will be better")
    refined = None
    if target is not None:
        refined = _refined(ref, spec, profile, target, wait)
        result = predict(spec, refined.profile, iterations=iterations, level=level)
    show(
        as_json,
        lambda: estimate_json(result, capacity, allowed, refined, chosen) | {"partial": not learnt.complete},
        lambda: estimate_table(result, capacity, allowed, chosen),
    )


def _rougher(bridges: bool, tried: bool) -> str:
    """What --approximate could do for a model that is not covered, where it was not tried."""
    if bridges:
        return "" if tried else ", or add --approximate for a rough estimate with a wide interval"
    return "; --approximate bridges batches, up to 64 times as large, and no other settings: give those of a profile"


def _refined(ref: ModelRef, spec: ModelSpec, profile: str, target: float, wait: bool) -> Refined:
    """What measuring this model's interval hangs on gave; the profile saved, and its measurements logged."""
    from ampere_energy.campaign.additions import caught_up
    from ampere_energy.campaign.refine import refine
    from ampere_energy.measurement.devices import reopen
    from ampere_energy.model.reading import stop
    from ampere_energy.units import percent

    path = existing_path(profile)
    stop()  # what trains now wants the memory
    with profile_held(profile, wait), contextlib.ExitStack() as opening:
        learnt = load_profile(profile)  # as it is now that nobody else changes it
        device = opening.enter_context(contextlib.closing(reopen(learnt.device, learnt.meter)))
        status = opening.enter_context(err.status("refining"))

        def observe(done: int, reach: float) -> None:
            status.update(f"refining: {done} measured, interval ±{percent(reach)}")

        log = log_of(path).path
        found = refine(learnt, ref, spec, device, target, log=log, observe=observe)
        found = replace(found, profile=caught_up(found.profile, log))  # what else was measured, and not learnt
        if found.profile is not learnt:
            found.profile.save(path)
    kept = f"; {path} knows what they told" if found.measurements else ""
    say(f"refined by {found.measurements} measurements to ±{percent(found.reach)}{kept}")
    if found.limit:
        say(f"not within ±{percent(target)}: {found.limit}")
    return found
