"""`ampere profile`: many small networks trained on a device."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ampere_energy.cli.arguments import choice, counted, one_of, seconds, share
from ampere_energy.cli.options import (
    Accumulate,
    AsJson,
    ChannelsLast,
    ClipGradients,
    DeviceName,
    Input,
    MeterName,
    Model,
    ModeName,
    OptimizerName,
    OwnStep,
    PrecisionName,
    Scheduler,
    SyncEachStep,
    Threads,
    Wait,
    Watts,
    WidthStep,
)
from ampere_energy.cli.output import err, say, show
from ampere_energy.cli.requests import axes_of, busy_words, can_run, device_of, prunable_of, ref_of, spec_of
from ampere_energy.cli.settings import given
from ampere_energy.errors import INTERRUPTED, DeviceError, RequestError
from ampere_energy.profiles.collection import default_name, log_of, prepare_log, profile_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import ModelRef
    from ampere_energy.model.structures import Axis, Structure
    from ampere_energy.model.widths import WidthRange

_USELESS = 0.3
"""A profile whose own measurements are so far off their predictions tells little."""


def profile(
    model: Model,
    device: DeviceName = "cpu",
    input: Input = None,
    widths: Annotated[str, typer.Option(help="The largest widths to cover. For a factory, its arguments.")] = "",
    width_step: WidthStep = 1,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="[NAME=VALUES]",
            help="Of a factory: an argument to cover, as width=16:64:8, depth=2:6 or kernel=3,5,7 (give several); "
            "without a value, widths from 1 to the model's own.",
        ),
    ] = None,
    prunable: Annotated[bool, typer.Option("--prunable", help="Cover every width that pruning can give.")] = False,
    optimizer: OptimizerName = "sgd",
    mode: ModeName = "eager",
    precision: PrecisionName = "fp32",
    channels_last: ChannelsLast = False,
    accumulate: Accumulate = 1,
    clip_gradients: ClipGradients = False,
    scheduler: Scheduler = False,
    sync_each_step: SyncEachStep = False,
    step: OwnStep = "",
    budget: Annotated[
        str, typer.Option(help="Seconds of measuring, such as 60s, 2m or 1h [default: until precise].")
    ] = "",
    points: Annotated[
        int | None,
        typer.Option(
            parser=counted("--points", 2, 1024),
            metavar="N",
            help="The most metered points of one kind [default: 16, or what --budget has room for].",
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(help="Stop when networks' 90 % intervals are this narrow [default: 5%, with --budget 2%]."),
    ] = "",
    rule: Annotated[str, typer.Option(help="What to measure next: guided, variance, random or members.")] = "guided",
    guide: Annotated[str, typer.Option(help="Of --method paper: whose variance guides, energy or time.")] = "energy",
    method: Annotated[str, typer.Option(help="ampere (blocks alone, fitted jointly) or paper.")] = "ampere",
    name: Annotated[str, typer.Option("--out", help="The profile's name or file [default: MODEL-DEVICE].")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was measured before.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew; the old log is kept beside.")] = False,
    meter: MeterName = "",
    watts_per_core: Watts = None,
    threads: Threads = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Profiles a model's blocks on a device: trains many small networks and learns what each block costs."""
    one_of(("ampere", "paper"), method, "--method")
    budget_s, precise = seconds(budget), share(target, "--target")
    flags = {"clip_gradients": clip_gradients, "scheduler": scheduler, "sync_each_step": sync_each_step}
    training = given(optimizer, mode, precision, channels_last, accumulate, **flags).usual
    can_run(device, training)
    ref = ref_of(model, input, widths, training, step)
    if prunable and vary:
        raise RequestError("--prunable with --vary", "give one of them")
    path = profile_path(name or default_name(model, device))
    log = log_of(path)
    from ampere_energy.model.reading import start

    start(ref.source)  # while the rest is imported
    from ampere_energy.campaign.rules import PRECISE, Rule, Rules, Status
    from ampere_energy.campaign.run import profile as run_campaign
    from ampere_energy.cost_model.per_kind import Quantity
    from ampere_energy.reporting.as_json import profile_json
    from ampere_energy.reporting.progress import CampaignDisplay
    from ampere_energy.reporting.tables import median_error, profile_table

    rules = Rules(
        points=points,
        precision=precise,
        guide=choice(Quantity, guide, "--guide"),
        budget_s=budget_s,
        rule=choice(Rule, rule, "--rule"),
    )
    more: Sequence[Structure] = ()
    if prunable:
        ref, spec, ranges = prunable_of(ref, width_step)
    elif axes := axes_of(model, [text for text in vary or () if text], widths, width_step):
        first, *more = _structures(ref, axes)
        ref, spec, ranges = first.ref or ref, first.spec, list(first.ranges)
    else:
        spec, ranges = _scope(ref, spec_of(ref), width_step, bool(vary))
    spec = replace(spec, name=model)
    reached: list[float] = []
    skipped: tuple[str, ...] = ()

    def begin() -> None:
        if fresh and (kept := log.set_aside()):
            say(f"the old log is kept as {kept}")

    with log.held(wait), contextlib.ExitStack() as opening:
        prepare_log(path, spec, resume, fresh)
        opened = opening.enter_context(device_of(device, meter, watts_per_core, threads))
        display = opening.enter_context(CampaignDisplay(err))

        def observe(status: Status) -> None:
            nonlocal skipped
            skipped = status.skipped
            reached[:] = [status.uncertainty] if status.uncertainty is not None else []
            display(status)

        if busy := busy_words(device, threads):
            say(busy)
        learnt = run_campaign(
            spec,
            device=opened,
            ranges=ranges,
            rules=rules,
            log=log.path,
            method=method,
            observe=observe,
            ref=ref,
            more=more,
            begin=begin,
        )
        learnt.save(path)
    show(as_json, lambda: profile_json(learnt, str(path)), lambda: profile_table(learnt))
    say(f"profile {path}, measurements {log.path}")
    if learnt.nets is not None and (off := median_error(learnt.nets)) > _USELESS:
        fewer = ", or with --threads 1" if device == "cpu" and threads != 1 else ""
        say(
            f"this profile is of little use: predicted from the rest, what was measured is off by {100 * off:.0f} % "
            f"in the median; profile again with nothing else running{fewer}"
        )
    if rules.budget_s is not None and learnt.profile_s > 1.2 * rules.budget_s:
        say(f"the fewest points that make a profile took {learnt.profile_s:.0f} s, more than the budget")
    if rules.budget_s is not None and learnt.complete and learnt.profile_s < 0.5 * rules.budget_s:
        say("the budget was not needed: intervals are within --target, or --points were measured")
    if learnt.complete and reached and reached[-1] > (rules.precision or PRECISE):
        say(
            f"networks' 90 % intervals reach {100 * reached[-1]:.0f} % either way, "
            f"more than --target {target or '5%'}; "
            "give more --budget or --points, or measure while nothing else runs"
        )
    if skipped:
        others = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
        say(f"left out, since each attempt to measure it failed: {skipped[0]}{others}")
    if not learnt.complete:
        say("the profile is partial: finish it by the same command with --resume")
        raise typer.Exit(DeviceError.exit_code if skipped else INTERRUPTED)


def _structures(ref: ModelRef, axes: Sequence[Axis]) -> list[Structure]:
    """Every structure of a factory over some values of its arguments; says how many there are."""
    from ampere_energy.model.structures import structures

    found = structures(ref, axes, spec_of)
    kinds = {block.kind for structure in found for block in structure.spec.blocks}
    say(f"{len(found)} structure{'s' if len(found) > 1 else ''} of {ref.source}, {len(kinds)} kinds of blocks")
    return found


def _scope(ref: ModelRef, spec: ModelSpec, step: int, vary: bool) -> tuple[ModelSpec, list[WidthRange]]:
    """The model with the widths to cover: a family's range up to the model's own, or the model as it is."""
    from ampere_energy.model.families.catalogue import FAMILIES
    from ampere_energy.model.widths import WidthRange

    known = FAMILIES.get(ref.source)
    if known:
        return spec, known.aligned(step).up_to(spec.widths)
    if vary and not spec.widths:
        raise RequestError(
            f"--vary with {ref.source}, whose blocks are not a chain of layers with widths",
            "give a factory with width arguments and --widths, or profile it as it is",
        )
    if not (vary or ref.widths):
        return replace(spec, widths=(), follows=()), []
    return spec, [WidthRange(1, width).aligned(step) for width in spec.widths]
