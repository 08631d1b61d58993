"""The `ampere` command: reads arguments, calls the library, prints. torch is imported only by what needs it."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from ampere_energy import __version__
from ampere_energy.arguments import (
    choice,
    default_name,
    existing_path,
    inputs_of,
    inputs_text,
    is_bundle,
    joules,
    load_profile,
    new_name,
    numbers,
    prepare_log,
    profile_path,
    saved_profiles,
    seconds,
    share,
    step_budget,
    watt_hours,
    width_ranges,
)
from ampere_energy.errors import AmpereError, CoverageError, DeviceError, FileError, RequestError

if TYPE_CHECKING:
    from ampere_energy.bundled.choose import Choice
    from ampere_energy.decide.channels import Channels
    from ampere_energy.decide.pruned import Budget, Pruned
    from ampere_energy.decide.refine import Choose
    from ampere_energy.fit.profile import Profile
    from ampere_energy.measure.devices import Device
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import ModelRef
    from ampere_energy.model.training import Training
    from ampere_energy.model.variants import WidthRange
    from ampere_energy.predict.evaluate import Trials

_STARTED_S = time.monotonic()
app = typer.Typer(
    help="What training a neural network on a device will cost, in joules, seconds and battery, before you run it.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
UsageError: Any = typer.BadParameter.__mro__[1]  # typer carries a click of its own and does not name this one
INTERRUPTED = 130
out = Console(emoji=False, markup=False)
err = Console(stderr=True, emoji=False, markup=False)

Model = Annotated[
    str, typer.Argument(help="A family (see `ampere models`), path/to/file.py:factory or package.module:factory.")
]
Input = Annotated[
    list[str] | None,
    typer.Option("--input", help="Shape of the input, batch first: 32,3,64,64; or of each: ids:int64:8,128."),
]
Widths = Annotated[str, typer.Option(help="A member's widths: 6,16,120,84. For a factory, its arguments.")]
OptimizerName = Annotated[str, typer.Option("--optimizer", help="sgd, momentum, adam or adamw.")]
PrecisionName = Annotated[str, typer.Option("--precision", help="fp32, tf32, or bf16 and fp16 by autocast.")]
ChannelsLast = Annotated[bool, typer.Option("--channels-last", help="Keep images with their channels innermost.")]
Accumulate = Annotated[int, typer.Option(help="Forward and backward passes an update; a step is all of them.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DeviceName = Annotated[str, typer.Option("--device", help="cpu, cuda, or simulated[:NOISE] for a dry run.")]
ModeName = Annotated[str, typer.Option("--mode", help="How a step is run: eager, graph or compile.")]
MeterName = Annotated[
    str, typer.Option("--meter", help="What to read: nvml, rapl, nvml+rapl, … [default: the best readable].")
]
Watts = Annotated[float | None, typer.Option(help="Model energy: watts of one busy core [default: 10].")]
Threads = Annotated[int | None, typer.Option(help="torch threads [default: torch's own choice].")]
ProfileName = Annotated[str, typer.Option("--profile", help="A profile's name or file.")]
ProfileOrBundle = Annotated[str, typer.Option("--profile", help="A profile's name or file, or a bundle's name.")]
ModeOrAny = Annotated[
    str, typer.Option("--mode", help="eager, graph or compile [default: eager, or what the bundle has].")
]
Level = Annotated[float, typer.Option(help="Probability that the interval holds.")]
WidthStep = Annotated[int, typer.Option(help="Only widths that are multiples of this.")]


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback for errors.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Answers `--version`; `main` accepts `--debug` anywhere on the line."""
    if version:
        print(f"ampere {__version__}")
        raise typer.Exit


@app.command()
def models(as_json: AsJson = False) -> None:
    """Lists the built-in families."""
    from ampere_energy.model.zoo.families import FAMILIES

    families = list(FAMILIES.values())
    if as_json:
        from ampere_energy.show.families import families_json

        _print_json(families_json(families))
    else:
        from ampere_energy.show.families import families_table

        out.print(families_table(families))


@app.command()
def devices(as_json: AsJson = False) -> None:
    """Lists what this machine can train on and which energy meters it can read, and if not, why."""
    from ampere_energy.measure.devices import compute_devices
    from ampere_energy.measure.meters import survey
    from ampere_energy.show.devices import devices_json, devices_table

    with err.status("trying the meters"):
        found, meters = compute_devices(), survey()
    _show(as_json, lambda: devices_json(found, meters), lambda: devices_table(found, meters))


@app.command()
def profiles(as_json: AsJson = False) -> None:
    """Lists your saved profiles, and those that come with AMPERE."""
    from ampere_energy.bundled.about import bundles, entries
    from ampere_energy.show.profiles import profiles_json, profiles_table

    saved, bundled = saved_profiles(), {bundle: entries(bundle) for bundle in bundles()}
    _show(as_json, lambda: profiles_json(saved, bundled), lambda: profiles_table(saved, bundled))


@app.command()
def parse(
    model: Model,
    input: Input = None,
    widths: Widths = "",
    optimizer: OptimizerName = "sgd",
    mode: ModeName = "eager",
    precision: PrecisionName = "fp32",
    channels_last: ChannelsLast = False,
    accumulate: Accumulate = 1,
    as_json: AsJson = False,
) -> None:
    """Shows a model's blocks, kinds, widths, parameters and training FLOPs."""
    spec = _spec(_ref(model, input, widths, _training(optimizer, mode, precision, channels_last, accumulate)))
    from ampere_energy.show.plainly import spec_json
    from ampere_energy.show.tables import spec_table

    _show(as_json, lambda: spec_json(spec), lambda: spec_table(spec))


@app.command()
def profile(
    model: Model,
    device: DeviceName = "cpu",
    input: Input = None,
    widths: Annotated[str, typer.Option(help="The largest widths to cover. For a factory, its arguments.")] = "",
    width_step: WidthStep = 1,
    vary: Annotated[bool, typer.Option("--vary", help="Of a factory: cover widths from 1 to the model's own.")] = False,
    prunable: Annotated[bool, typer.Option("--prunable", help="Cover every width that pruning can give.")] = False,
    optimizer: OptimizerName = "sgd",
    mode: ModeName = "eager",
    precision: PrecisionName = "fp32",
    channels_last: ChannelsLast = False,
    accumulate: Accumulate = 1,
    budget: Annotated[str, typer.Option(help="Time for measuring, such as 60s or 2m [default: until precise].")] = "",
    points: Annotated[int, typer.Option(help="The most metered points of one kind.")] = 16,
    target: Annotated[str, typer.Option(help="Stop when members' 90 % intervals are within this share.")] = "5%",
    rule: Annotated[str, typer.Option(help="What to measure next: guided, variance, random or members.")] = "guided",
    guide: Annotated[str, typer.Option(help="Of --method paper: whose variance guides, energy or time.")] = "energy",
    method: Annotated[str, typer.Option(help="ampere (blocks alone, fitted jointly) or paper.")] = "ampere",
    name: Annotated[str, typer.Option("--out", help="The profile's name or file [default: MODEL-DEVICE].")] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was measured before.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start anew; the old log is kept beside.")] = False,
    meter: MeterName = "",
    watts_per_core: Watts = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Profiles a model's blocks on a device: trains many small networks and learns what each block costs."""
    ref = _ref(model, input, widths, _training(optimizer, mode, precision, channels_last, accumulate))
    if prunable and vary:
        raise RequestError("--prunable with --vary", "give one of them")
    path = profile_path(name or default_name(model, device))
    log = path.with_suffix(".jsonl")
    from ampere_energy.fit.campaign import profile as run_campaign
    from ampere_energy.fit.profile import Quantity
    from ampere_energy.fit.rules import Rule, Rules
    from ampere_energy.show.plainly import profile_json
    from ampere_energy.show.progress import CampaignDisplay
    from ampere_energy.show.tables import median_error, profile_table

    rules = Rules(
        points=points,
        precision=share(target, "--target") or 0.05,
        guide=choice(Quantity, guide, "--guide"),
        budget_s=seconds(budget),
        rule=choice(Rule, rule, "--rule"),
    )
    if prunable:
        ref, spec, ranges = _prunable(ref, width_step)
    else:
        spec, ranges = _scope(ref, _spec(ref), width_step, vary)
    spec = replace(spec, name=model)
    kept = prepare_log(path, log, spec, resume, fresh)
    if kept:
        _say(f"the old log is kept as {kept}")
    with _device(device, meter, watts_per_core, threads) as opened, CampaignDisplay(err) as display:
        if busy := _busy(device):
            _say(busy)
        learnt = run_campaign(
            spec,
            device=opened,
            ranges=ranges,
            rules=rules,
            log=log,
            method=method,
            observe=display,
            ref=ref,
        )
    learnt.save(path)
    _show(as_json, lambda: profile_json(learnt, str(path)), lambda: profile_table(learnt))
    _say(f"profile {path}, measurements {log}")
    if learnt.nets is not None and (off := median_error(learnt.nets)) > _USELESS:
        fewer = ", or with --threads 1" if device == "cpu" and threads != 1 else ""
        _say(
            f"this profile is of little use: predicted from the rest, what was measured is off by {100 * off:.0f} % "
            f"in the median; profile again with nothing else running{fewer}"
        )
    if rules.budget_s is not None and learnt.profile_s > 1.2 * rules.budget_s:
        _say(f"the fewest points that make a profile took {learnt.profile_s:.0f} s, more than the budget")
    if not learnt.complete:
        _say("the profile is partial: finish it by the same command with --resume")
        raise typer.Exit(INTERRUPTED)


@app.command()
def estimate(
    model: Model,
    profile: ProfileOrBundle,
    input: Input = None,
    widths: Widths = "",
    optimizer: OptimizerName = "sgd",
    mode: ModeOrAny = "",
    precision: PrecisionName = "fp32",
    channels_last: ChannelsLast = False,
    accumulate: Accumulate = 1,
    iterations: Annotated[int, typer.Option(help="Training steps.")] = 1,
    level: Level = 0.9,
    battery: Annotated[str, typer.Option(help="A battery's capacity, such as 15Wh: the share used, P(fits).")] = "",
    within: Annotated[str, typer.Option(help="An energy budget, such as 20kJ, to see how likely it is kept.")] = "",
    refine: Annotated[str, typer.Option(help="Measure this model's blocks until its interval is within, as 3%.")] = "",
    approximate: Annotated[bool, typer.Option("--approximate", help="Guess blocks of kinds not profiled.")] = False,
    as_json: AsJson = False,
) -> None:
    """Predicts what training a model will cost, from a profile, without running it."""
    capacity, budget_j, target = watt_hours(battery), joules(within), share(refine, "--refine")
    if approximate and target is not None:
        raise RequestError("--approximate with --refine", "refining measures kinds that are profiled: give one of them")
    ref = _ref(model, input, widths, _training(optimizer, mode or "eager", precision, channels_last, accumulate))
    if is_bundle(profile) and target is None:
        chosen = _chosen(profile, ref, bool(input), bool(mode), approximate)
        ref, spec, learnt = chosen.ref, chosen.spec, chosen.profile
    else:
        learnt = load_profile(profile)  # refuses a bundle, which cannot be refined
        spec = _spec(ref)
    from ampere_energy.predict.estimate import estimate as predict
    from ampere_energy.show.plainly import estimate_json
    from ampere_energy.show.tables import estimate_table

    try:
        result = predict(spec, learnt, iterations=iterations, level=level, approximate=approximate)
    except CoverageError as error:
        remedy = f"run {_profile_command(ref, learnt, profile)}"
        if spec.training != learnt.training:
            remedy += "; --approximate does not bridge other settings"
        elif learnt.references:
            remedy += ", or add --approximate for a rough estimate with a wide interval"
        raise CoverageError(error.what, remedy) from error
    if target is not None:
        learnt = _refined(spec, learnt, existing_path(profile), target)
        result = predict(spec, learnt, iterations=iterations, level=level)
    _show(
        as_json,
        lambda: estimate_json(result, capacity, budget_j),
        lambda: estimate_table(result, capacity, budget_j),
    )


def _chosen(bundle: str, ref: ModelRef, input_given: bool, mode_given: bool, approximate: bool) -> Choice:
    """The profile of a bundle that covers a model; says which."""
    from ampere_energy.bundled.choose import choose

    chosen = choose(bundle, ref, _spec, input_given=input_given, mode_given=mode_given, approximate=approximate)
    _say(f"profile {chosen.name} of {bundle}: {chosen.about}")
    return chosen


def _refined(spec: ModelSpec, learnt: Profile, path: Path, target: float) -> Profile:
    """The profile after measuring what this model's interval hangs on; saved, and its measurements logged."""
    from ampere_energy.fit.campaign import refine
    from ampere_energy.measure.devices import reopen
    from ampere_energy.show.units import percent

    with contextlib.closing(reopen(learnt.device, learnt.meter)) as device, err.status("refining") as status:

        def observe(done: int, reach: float) -> None:
            status.update(f"refining: {done} measured, interval ±{percent(reach)}")

        found = refine(learnt, spec, device, target, log=path.with_suffix(".jsonl"), observe=observe)
    if found.measurements:
        found.profile.save(path)
    _say(f"refined by {found.measurements} measurements to ±{percent(found.reach)}")
    if found.limit:
        _say(f"not within ±{percent(target)}: {found.limit}")
    return found.profile


@app.command()
def measure(
    model: Model,
    device: DeviceName = "cpu",
    input: Input = None,
    widths: Widths = "",
    optimizer: OptimizerName = "sgd",
    mode: ModeName = "eager",
    precision: PrecisionName = "fp32",
    channels_last: ChannelsLast = False,
    accumulate: Accumulate = 1,
    iterations: Annotated[int, typer.Option(help="Training steps to report for.")] = 1,
    add_to: Annotated[str, typer.Option("--add-to", help="A profile to teach what is measured.")] = "",
    meter: MeterName = "",
    watts_per_core: Watts = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Trains a model for some seconds on a device and reports what a step costs."""
    if iterations < 1:
        raise RequestError(f"--iterations {iterations}", "give at least 1")
    ref = _ref(model, input, widths, _training(optimizer, mode, precision, channels_last, accumulate))
    taught = load_profile(add_to) if add_to else None
    spec = _spec(ref) if taught else None
    from ampere_energy.measure.measurement import REPORT
    from ampere_energy.show.plainly import measurement_json
    from ampere_energy.show.tables import measurement_table

    busy = _busy(device)
    with _device(device, meter, watts_per_core, threads) as opened, err.status(f"training {ref} on {device}"):
        result = opened.measure(ref, REPORT)
    if result.infeasible is not None:
        smaller = "memory" in result.infeasible.lower()
        remedy = "try a smaller batch or model" if smaller else "train it by itself to see why"
        raise DeviceError(f"{ref} could not be measured: {result.infeasible}", remedy)
    if busy:
        _say(busy)
    _show(
        as_json,
        lambda: measurement_json(result, str(ref), iterations),
        lambda: measurement_table(result, str(ref), iterations),
    )
    if taught is not None and spec is not None:
        from ampere_energy.fit.campaign import add
        from ampere_energy.measure.store import MeasurementLog

        path = existing_path(add_to)
        learnt = add(taught, spec.blocks, result)
        MeasurementLog(path.with_suffix(".jsonl")).append(result)
        learnt.save(path)
        _say(f"added to {path}")


@app.command()
def evaluate(
    family_name: Annotated[
        str, typer.Argument(metavar="FAMILY", help="A built-in family; with --recorded also all of them: all.")
    ],
    profile: Annotated[str, typer.Option("--profile", help="A profile's name or file, to be tried here.")] = "",
    recorded: Annotated[Path | None, typer.Option(help="Score what was recorded in this folder; no hardware.")] = None,
    record: Annotated[Path | None, typer.Option(help="Profile, measure members, and keep all logs here.")] = None,
    models: Annotated[int, typer.Option(help="How many unseen members to measure.")] = 20,
    seed: Annotated[int, typer.Option(help="Another seed draws other members.")] = 0,
    input: Input = None,
    width_step: WidthStep = 1,
    level: Level = 0.9,
    device: Annotated[str, typer.Option("--device", help="Of --record: cpu, cuda or simulated[:NOISE].")] = "cpu",
    optimizer: OptimizerName = "sgd",
    mode: ModeName = "eager",
    precision: PrecisionName = "fp32",
    budget: Annotated[str, typer.Option(help="Of --record: time for each campaign.")] = "90s",
    parts: Annotated[
        str, typer.Option(help="Of --record: campaign,members,short,refined,operators,paper [default: all].")
    ] = "",
    meter: MeterName = "",
    watts_per_core: Watts = None,
    threads: Threads = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Predicts unseen members of a family, measures them, and compares AMPERE with other methods."""
    if sum(given is not None for given in (profile or None, recorded, record)) != 1:
        raise RequestError("evaluate needs one of --profile, --recorded and --record", "give one of them")
    if ":" in family_name:
        raise RequestError(f"{family_name} has no members to draw", "evaluate takes a family; see ampere models")
    if models < 1:
        raise RequestError(f"--models {models}", "give at least 1")
    if recorded is not None:
        sets = _recorded(family_name, recorded, level)
    elif record is not None:
        from ampere_energy.model.zoo.families import family as find_family
        from ampere_energy.predict.evaluate import rescore
        from ampere_energy.predict.experiment import Part, drawn, load
        from ampere_energy.predict.experiment import record as run

        training = _training(optimizer, mode, precision, False, 1)
        _ref(family_name, input, "", training)  # which refuses a bad input before anything is opened
        shape = numbers(input[0], "--input") if input else find_family(family_name).input
        asked = drawn(
            family_name,
            shape,
            replace(training, batch=shape[0]),
            models=models,
            seed=seed,
            step=width_step,
            budget_s=seconds(budget) or 90.0,
        )
        wanted = [choice(Part, name, "--parts") for name in parts.split(",")] if parts else list(Part)
        if busy := _busy(device):
            _say(busy)
        with _device(device, meter, watts_per_core, threads) as opened, err.status("starting the device") as status:

            def observe(part: Part, told: Any) -> None:
                line = told if isinstance(told, str) else f"{told.measurements} measured in {told.spent_s:.0f} s"
                status.update(f"{part}: {line}")
                if not err.is_terminal and isinstance(told, str):
                    _say(f"{part}: {line}")

            run(asked, record, opened, parts=wanted, started_s=_STARTED_S, observe=observe)
        sets = rescore(load(record), level=level)
    else:
        sets = [_tried(family_name, profile, models, seed, input, width_step, level)]
    from ampere_energy.show.plainly import evaluation_json
    from ampere_energy.show.tables import evaluation_table

    if report is not None:
        from ampere_energy.show.report import evaluation_report

        _write(report, evaluation_report(evaluation_json(sets)))
    _show(as_json, lambda: evaluation_json(sets), lambda: evaluation_table(sets))
    if report is not None:
        _say(f"report {report}")


def _recorded(family_name: str, folder: Path, level: float) -> list[Trials]:
    """The experiments in a folder, or in folders of it."""
    from ampere_energy.model.zoo.families import family as find_family
    from ampere_energy.predict.evaluate import rescore
    from ampere_energy.predict.experiment import load

    wanted = None if family_name == "all" else find_family(family_name).name
    folders = sorted(path.parent for path in folder.glob("**/experiment.json"))
    if not folders:
        raise FileError(f"there is no experiment in {folder}", "record one with --record")
    found = []
    with err.status("scoring") as status:
        for place in folders:
            status.update(f"scoring {place}")
            experiment = load(place)
            if wanted in (None, experiment.experiment.family):
                found += rescore(experiment, level=level)
    if not found:
        raise RequestError(f"{folder} has no experiment on {wanted}", "name another family, or all")
    return found


def _tried(
    family_name: str, profile: str, models: int, seed: int, input: list[str] | None, width_step: int, level: float
) -> Trials:
    """A profile tried on members that are measured now."""
    from ampere_energy.model.zoo.families import family as find_family

    family = find_family(family_name).aligned(width_step)
    learnt = load_profile(profile)
    shape = input or [",".join(map(str, (learnt.training.batch, *family.input[1:])))]
    drawn = [",".join(map(str, widths)) for widths in family.sample(models, seed)]
    members = [_ref(family_name, shape, widths, learnt.training) for widths in drawn]
    from ampere_energy.measure.devices import reopen
    from ampere_energy.predict.evaluate import evaluate as run

    if busy := _busy(learnt.device.name):
        _say(busy)
    with contextlib.closing(reopen(learnt.device, learnt.meter)) as device, err.status(f"measuring {models}") as status:

        def observe(done: int) -> None:
            status.update(f"measured {done} of {2 * models}")
            if not err.is_terminal:
                _say(f"measured {done} of {2 * models}")

        try:
            return run(members, learnt, device, level=level, observe=observe)
        except CoverageError as error:
            largest = _ref(family_name, shape, "", learnt.training)
            raise CoverageError(error.what, f"run {_profile_command(largest, learnt, profile)}") from error


@app.command()
def search(
    model: Annotated[
        str, typer.Argument(metavar="FAMILY", help="A built-in family, or a factory whose arguments are widths.")
    ],
    profile: Annotated[
        list[str],
        typer.Option("--profile", help="A profile or a bundle; several, one for each batch or precision."),
    ],
    objective: Annotated[
        str,
        typer.Option(help="What is good: params, flops, or path/to/file.py:function, more is better."),
    ] = "params",
    widths: Annotated[
        str, typer.Option(help="What each width may be: 8:64:8,8:128:8,… [default: all that is profiled].")
    ] = "",
    width_step: WidthStep = 1,
    input: Input = None,
    mode: ModeOrAny = "",
    precision: Annotated[str, typer.Option("--precision", help="Of a bundle: fp32, tf32, bf16 or fp16.")] = "fp32",
    samples: Annotated[int | None, typer.Option(help="Costs of training on so many [default: one batch].")] = None,
    trials: Annotated[int, typer.Option(help="How many members to try.")] = 2000,
    seed: Annotated[int, typer.Option(help="Another seed searches elsewhere.")] = 0,
    storage: Annotated[str, typer.Option(help="Keep the study, and go on with it: sqlite:///search.db.")] = "",
    study: Annotated[str, typer.Option(help="The study's name in the storage.")] = "ampere",
    gradient: Annotated[bool, typer.Option("--gradient", help="Follow the estimate's gradients to one limit:")] = False,
    budget_j: Annotated[float | None, typer.Option(help="… the best within so many joules,")] = None,
    at_least: Annotated[float | None, typer.Option(help="… or the cheapest with such a score.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the front as an SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Looks for members of a family that are good, cheap and quick, by estimates: nothing is trained or measured."""
    if not gradient and (budget_j, at_least) != (None, None):
        raise RequestError("--budget-j or --at-least without --gradient", "add it, or leave the limit out")
    _positive(width_step, "--width-step")
    _positive(trials, "--trials")
    if plot is not None and plot.suffix != ".svg":
        raise RequestError(f"--plot {plot}", "plots are SVG: give a name that ends in .svg")
    if gradient and (budget_j is None) == (at_least is None):
        raise RequestError("--gradient needs one limit", "give --budget-j 1.2 or --at-least 1e6")
    if gradient and (storage or plot):
        raise RequestError("--gradient with --storage or --plot", "it finds one member without a study: leave them out")
    from ampere_energy.decide.descend import descend
    from ampere_energy.decide.search import PROXIES
    from ampere_energy.decide.search import search as run
    from ampere_energy.decide.space import space_of
    from ampere_energy.model.source import find
    from ampere_energy.show.progress import counting
    from ampere_energy.show.search import descent_json, descent_table, found_json, found_plot, found_table

    score = find(objective, "function") if ":" in objective else objective
    ranges = width_ranges(widths)
    largest = ",".join(str(r.high) for r in ranges)
    example = _ref(model, input, largest, _training("sgd", mode or "eager", precision, False, 1))
    given = bool(input) or ":" in model
    learnt = []
    for name in profile:
        if is_bundle(name):
            chosen = _chosen(name, example, bool(input), bool(mode), False)
            learnt.append(chosen.profile)
            example, given = (example, given) if given else (chosen.ref, True)
        else:
            learnt.append(load_profile(name))
    with err.status(f"reading {model}"):
        space = space_of(
            example.source, learnt, ranges=ranges, step=width_step, example=example if given else None, samples=samples
        )
    if gradient:
        with counting(err, "structures") as observe:
            ended = descend(space, score, budget_j=budget_j, at_least=at_least, seed=seed, observe=observe)
        _show(
            as_json,
            lambda: descent_json(ended, space, objective),
            lambda: descent_table(ended, space, objective),
        )
        return
    with counting(err, "members tried") as observe:
        found = run(
            space,
            score,
            name=objective if objective in PROXIES else objective.rpartition(":")[2],
            trials=trials,
            seed=seed,
            storage=storage or None,
            study=study,
            observe=lambda done: observe(done, trials),
        )
    if not found.front:
        raise RequestError(f"{objective} gave no number for any of {trials} members", "call it by itself to see why")
    if plot is not None:
        _write(plot, found_plot(found))
    _show(as_json, lambda: found_json(found), lambda: found_table(found))
    if plot is not None:
        _say(f"plot {plot}")
    if storage:
        _say(f"study {study!r} in {storage}: this again goes on with it, or optuna.load_study in your own code")


@app.command()
def prune(
    model: Model,
    profile: ProfileOrBundle,
    budget: Annotated[str, typer.Option(help="What a step may cost: 50% of what it does, or joules, such as 1.5J.")],
    input: Input = None,
    widths: Widths = "",
    optimizer: OptimizerName = "sgd",
    mode: ModeOrAny = "",
    precision: PrecisionName = "fp32",
    channels_last: ChannelsLast = False,
    accumulate: Accumulate = 1,
    guide: Annotated[str, typer.Option(help="What widths are chosen by: ampere, flops or random.")] = "ampere",
    importance: Annotated[str, typer.Option(help="Which channels stay: by random, l1, l2, bn or taylor.")] = "l2",
    mean: Annotated[bool, typer.Option("--mean", help="Aim at the mean, not the interval's upper end.")] = False,
    step: Annotated[int | None, typer.Option(help="Widths are multiples of this [default: 8, on a CPU 1].")] = None,
    level: Level = 0.9,
    weights: Annotated[Path | None, typer.Option(help="A state dict to prune [default: the factory's].")] = None,
    loss: Annotated[str, typer.Option(help="Of taylor: file.py:function, the model's loss on your data.")] = "",
    objective: Annotated[str, typer.Option(help="Of random: file.py:function, trains and scores a model.")] = "",
    samples: Annotated[int, typer.Option(help="Of random: how many candidates are trained.")] = 8,
    seed: Annotated[int, typer.Option(help="Of what is drawn by chance.")] = 0,
    beside: Annotated[list[str] | None, typer.Option(help="Profiles with other settings, to compare.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Measure the original and the pruned model.")] = False,
    refine: Annotated[
        bool, typer.Option("--refine", help="Measure, teach the profile, choose anew until inside the budget.")
    ] = False,
    device: Annotated[str, typer.Option("--device", help="Of --verify [default: the profile's].")] = "",
    meter: MeterName = "",
    watts_per_core: Watts = None,
    threads: Threads = None,
    folder: Annotated[Path | None, typer.Option("--out", help="Where to write the weights and their shape.")] = None,
    as_json: AsJson = False,
) -> None:
    """Prunes a model until a training step costs what a budget allows, as estimated from a profile."""
    ref = _ref(model, input, widths, _training(optimizer, mode or "eager", precision, channels_last, accumulate))
    others = [load_profile(name) for name in beside or ()]
    if is_bundle(profile) and not refine:
        from ampere_energy.bundled.about import entries, load_bundled

        try:
            chosen = _chosen(profile, ref, bool(input), bool(mode), approximate=False)
        except CoverageError:
            _prunable(ref, 1)  # what no profile could change is said instead
            raise
        ref, learnt = chosen.ref, chosen.profile
        own = (chosen.about.family, chosen.about.widths)
        same = [name for name, about in entries(profile).items() if (about.family, about.widths) == own]
        others += [load_bundled(profile, name) for name in same if name != chosen.name]
    else:
        learnt = load_profile(profile)  # refuses a bundle, which cannot be refined
    if refine and (device or guide == "flops"):
        given = f"--device {device}" if device else "--guide flops"
        raise RequestError(f"--refine with {given}", "refining is for joules, on the device that was profiled")
    if verify and not device and is_bundle(profile):
        raise RequestError(f"--verify with the bundle {profile}", "say on which --device")
    if device and device.partition(":")[0] != learnt.device.name.partition(":")[0]:
        raise RequestError(
            f"--device {device}, where the profile is of {learnt.device.name}",
            "verify on such a device, or profile this one",
        )
    from ampere_energy.decide.channels import channels_of
    from ampere_energy.decide.importance import Importance
    from ampere_energy.decide.prune import favourable
    from ampere_energy.decide.prune import prune as run
    from ampere_energy.decide.pruned import Guide, load_weights, verified
    from ampere_energy.decide.reward import reward
    from ampere_energy.measure.devices import reopen
    from ampere_energy.model.source import find
    from ampere_energy.show.pruning import prune_json, prune_table, reward_words

    allowed = step_budget(budget)
    chosen_by, kept_by = choice(Guide, guide, "--guide"), choice(Importance, importance, "--importance")
    if objective and chosen_by is not Guide.RANDOM:
        raise RequestError(f"--objective {objective} with --guide {guide}", "it is for --guide random")
    if loss and kept_by is not Importance.TAYLOR:
        raise RequestError(f"--loss {loss} with --importance {importance}", "it is for --importance taylor")
    step = favourable(learnt) if step is None else _positive(step, "--step")
    with contextlib.redirect_stdout(sys.stderr), err.status(f"following the channels of {ref}") as status:
        try:
            space = channels_of(ref, None, learnt)
        except CoverageError as error:
            more = ("--prunable", *(("--width-step", str(step)) if step > 1 else ()))
            raise CoverageError(error.what, f"run {_profile_command(ref, learnt, profile, more)}") from error
        if weights is not None:
            load_weights(space.model, weights)
        worth = reward(space, learnt, step, others)
        for line in reward_words(worth):
            _say(line)
        choose = partial(
            run,
            space,
            None,
            guide=chosen_by,
            importance=kept_by,
            mean=mean or refine,
            step=step,
            level=level,
            loss=find(loss, "function") if loss else None,
            objective=find(objective, "function") if objective else None,
            samples=samples,
            seed=seed,
            observe=status.update,
        )
        if refine:
            pruned = _pruned_and_taught(choose, space, learnt, allowed, existing_path(profile), status.update)
        else:
            pruned = choose(learnt, allowed)
        if verify and pruned.changed and pruned.measured is None:
            if busy := _busy(device or learnt.device.name):
                _say(busy)
            named = _device(device, meter, watts_per_core, threads) if device else None
            with named or contextlib.closing(reopen(learnt.device, learnt.meter)) as opened:
                pruned = verified(pruned, opened, status.update)
    if folder is not None:
        pruned.save(folder)
    _show(as_json, lambda: prune_json(pruned, worth, str(folder or "")), lambda: prune_table(pruned))
    if folder is not None:
        _say(f"weights {folder / 'weights.pt'}, their shape {folder / 'pruned.json'}")


def _pruned_and_taught(
    choose: Choose, space: Channels, learnt: Profile, budget: Budget, path: Path, observe: Callable[[str], None]
) -> Pruned:
    """The model pruned with the device at hand; what the profile learnt on the way is saved, and logged."""
    from ampere_energy.decide.refine import refined
    from ampere_energy.measure.devices import reopen
    from ampere_energy.measure.store import MeasurementLog

    if busy := _busy(learnt.device.name):
        _say(busy)
    with contextlib.closing(reopen(learnt.device, learnt.meter)) as opened:
        log = MeasurementLog(path.with_suffix(".jsonl"))
        pruned, taught = refined(choose, space, learnt, budget, opened, keep=log.append, observe=observe)
    if taught is not learnt:
        taught.save(path)
        _say(f"added to {path}")
    return pruned


@app.command()
def report(
    subject: Annotated[str, typer.Argument(metavar="PROFILE|EVALUATION", help="A profile, or what evaluate printed.")],
    page: Annotated[Path | None, typer.Option("--out", help="The page [default: NAME.html here].")] = None,
) -> None:
    """Writes one HTML page about a profile, or about what `ampere evaluate --json` printed; it opens offline."""
    from ampere_energy.show.profile_page import profile_page
    from ampere_energy.show.report import evaluation_page
    from ampere_energy.show.sets import is_evaluation, read_sets

    path = existing_path(subject)
    page = page or Path(f"{path.stem}.html")
    if page.resolve() == path.resolve():
        raise RequestError(f"--out {page} is the file the page is about", "choose another --out")
    text = evaluation_page(read_sets(path)) if is_evaluation(path) else profile_page(load_profile(subject))
    _write(page, text)
    _say(f"report {page}")


def _say(message: str) -> None:
    err.print(message, highlight=False, soft_wrap=True)


_USELESS = 0.3
"""A profile whose own measurements are so far off their predictions tells little."""


def _positive(value: int, option: str) -> int:
    if value < 1:
        raise RequestError(f"{option} {value}", "give at least 1")
    return value


def _busy(device: str) -> str | None:
    """A warning where other programs' work, which cannot be told from the model's, will be in the figures."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if device == "cpu" and load > 0.6 * cores:
        return f"this machine was busy (load {load:.1f} on {cores} cores): figures scatter, least with --threads 1"
    return None


def main() -> NoReturn:
    """Runs the command; errors are one line on standard error, with the documented exit code."""
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"] or ["--help"]
    warnings.showwarning = _one_line_warning
    try:
        code = app(args=arguments, prog_name="ampere", standalone_mode=False)
        if code == INTERRUPTED:
            _fail("interrupted; nothing measured is lost, and profile goes on with --resume", code, debug=False)
    except AmpereError as error:
        code = _fail(str(error), error.exit_code, debug)
    except UsageError as error:
        code = _fail(error.format_message(), 2, debug)
    except BrokenPipeError:
        code = 141
    except Exception as error:  # noqa: BLE001 - the last resort: a bug of ours, said in one line
        code = _fail(f"unexpected {type(error).__name__}: {error} (run again with --debug and report it)", 1, debug)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int, debug: bool) -> int:
    if debug:
        err.print_exception()
    print(f"ampere: {' '.join(message.split())}", file=sys.stderr)
    return code


def _one_line_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"ampere: warning: {message}", file=sys.stderr)


def _training(optimizer: str, mode: str, precision: str, channels_last: bool, accumulate: int) -> Training:
    from ampere_energy.model.training import Mode, Optimizer, Precision, Training

    return Training(
        1,
        choice(Optimizer, optimizer, "--optimizer"),
        choice(Mode, mode, "--mode"),
        choice(Precision, precision, "--precision"),
        channels_last,
        accumulate,
    )


def _ref(model: str, input: list[str] | None, widths: str, training: Training) -> ModelRef:
    from ampere_energy.model.source import model_ref

    shape, inputs = inputs_of(input or [])
    return model_ref(model, widths=numbers(widths, "--widths"), input=shape, inputs=inputs, training=training)


def _spec(ref: ModelRef) -> ModelSpec:
    from ampere_energy.model.parse import parse_ref

    with contextlib.redirect_stdout(sys.stderr), err.status(f"reading {ref}"):
        return parse_ref(ref)  # what a user's model prints must not end up in our JSON


def _profile_command(ref: ModelRef, learnt: Profile, profile: str, more: Sequence[str] = ()) -> str:
    """The command that makes a profile which covers a model on the same device, under a name not yet taken."""
    about, settings = dict(learnt.device.details), dict(learnt.meter.details)
    device = learnt.device.name
    if device == "simulated" and about.get("noise", "0") != "0":
        device += f":{about['noise']}"
    words = ["ampere", "profile", ref.source, "--device", device]
    for text in inputs_text(ref):
        words += ["--input", text]
    if ref.widths:
        words += ["--widths", ",".join(map(str, ref.widths))]
    training = ref.training
    words += ["--optimizer", training.optimizer, "--mode", training.mode]
    words += ["--precision", training.precision] if training.precision != "fp32" else []
    words += ["--channels-last"] if training.channels_last else []
    words += ["--accumulate", str(training.accumulate)] if training.accumulate > 1 else []
    if "watts per core" in settings:
        words += ["--watts-per-core", settings["watts per core"]]
    elif learnt.meter.name not in ("simulated", "command"):  # a command's own words are not kept
        words += ["--meter", learnt.meter.name]
    words += ["--threads", about["threads"]] if "threads" in about else []
    name = new_name(ref.source, device, profile)
    return f"{shlex.join((*words, *more, '--out', name))}, then this again with --profile {shlex.quote(name)}"


def _scope(ref: ModelRef, spec: ModelSpec, step: int, vary: bool) -> tuple[ModelSpec, list[WidthRange]]:
    """The model with the widths to cover: a family's range up to the model's own, or the model as it is."""
    from ampere_energy.model.variants import WidthRange
    from ampere_energy.model.zoo.families import FAMILIES

    _positive(step, "--width-step")
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


def _prunable(ref: ModelRef, step: int) -> tuple[ModelRef, ModelSpec, list[WidthRange]]:
    """The model by its groups of channels, with the widths to cover so that it can be pruned."""
    from ampere_energy.decide.channels import prunable

    _positive(step, "--width-step")
    with contextlib.redirect_stdout(sys.stderr), err.status(f"following the channels of {ref}"):
        space = prunable(ref)
    return space.ref_of(space.spec.widths) or ref, space.spec, space.ranges(step)


def _device(name: str, meter: str, watts_per_core: float | None, threads: int | None) -> contextlib.closing[Device]:
    from ampere_energy.measure.devices import open_device
    from ampere_energy.measure.meters.cputime import CpuTimeMeter

    if watts_per_core is not None:
        if meter:
            raise RequestError(f"--meter {meter} with --watts-per-core", "a model needs no meter: give one of them")
        meter = f"cputime:{CpuTimeMeter(watts_per_core).watts_per_core:g}"  # the meter itself refuses bad watts
    return contextlib.closing(open_device(name, meter=meter or None, threads=threads))


def _show(as_json: bool, data: Callable[[], Any], table: Callable[[], Any]) -> None:
    if as_json:
        _print_json(data())
    else:
        out.print(table())


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, allow_nan=False))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror})", "choose another file for the page") from error
