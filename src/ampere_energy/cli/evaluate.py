"""`ampere evaluate`: unseen networks of a family or a factory, predicted and measured, now or as recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ampere_energy import files
from ampere_energy.cli import STARTED_S
from ampere_energy.cli.arguments import choice, counted, numbers, seconds
from ampere_energy.cli.options import (
    AsJson,
    Input,
    Level,
    MeterName,
    ModeOrSame,
    OptimizerOrSame,
    PrecisionOrSame,
    Seed,
    Threads,
    Vary,
    Wait,
    Watts,
    WidthStep,
)
from ampere_energy.cli.output import err, say, show, write
from ampere_energy.cli.requests import axes_of, busy_words, can_run, covering_command, device_of, ref_of
from ampere_energy.cli.settings import given
from ampere_energy.errors import CoverageError, FileError, RequestError
from ampere_energy.profiles.collection import load_profile

if TYPE_CHECKING:
    from ampere_energy.evaluation.evaluate import Trials
    from ampere_energy.evaluation.experiment import Experiment
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import ModelRef
    from ampere_energy.model.structures import Axis
    from ampere_energy.model.training import Training
    from ampere_energy.profiles.profile import Profile


def evaluate(
    family_name: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY",
            help="A built-in family, or a factory with --vary; with --recorded also all families: all.",
        ),
    ],
    profile: Annotated[str, typer.Option("--profile", help="A profile's name or file, to be tried here.")] = "",
    recorded: Annotated[Path | None, typer.Option(help="Score what was recorded in this folder; no hardware.")] = None,
    record: Annotated[Path | None, typer.Option(help="Profile, measure networks, and keep all logs here.")] = None,
    models: Annotated[
        int,
        typer.Option(parser=counted("--models", high=10_000), metavar="N", help="How many unseen networks to measure."),
    ] = 20,
    seed: Seed = 0,
    input: Input = None,
    width_step: WidthStep = 1,
    vary: Vary = None,
    level: Level = 0.9,
    device: Annotated[str, typer.Option("--device", help="Of --record: cpu, cuda or simulated[:NOISE].")] = "cpu",
    optimizer: OptimizerOrSame = "",
    mode: ModeOrSame = "",
    precision: PrecisionOrSame = "",
    budget: Annotated[
        str, typer.Option(help="Of --record: seconds of measuring for each campaign, such as 90s or 2m.")
    ] = "90s",
    parts: Annotated[
        str, typer.Option(help="Of --record: campaign,members,short,refined,operators,paper [default: all].")
    ] = "",
    meter: MeterName = "",
    watts_per_core: Watts = None,
    threads: Threads = None,
    wait: Wait = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Predicts unseen networks of a family, or models of a factory, measures them, and compares AMPERE with others."""
    if sum(given is not None for given in (profile or None, recorded, record)) != 1:
        raise RequestError("evaluate needs one of --profile, --recorded and --record", "give one of them")
    axes = axes_of(family_name, vary or (), width_step=width_step)
    if ":" in family_name and not profile:
        raise RequestError(
            f"{family_name} with {'--recorded' if recorded else '--record'}",
            "records are of families: try a factory with --profile and --vary, or see ampere models",
        )
    if ":" in family_name and not axes:
        raise RequestError(
            f"{family_name} has no networks to draw",
            "give values of its arguments, as --vary width=16:64:8 --vary depth=2:6, or a family; see ampere models",
        )
    seconds(budget)
    wanted = given(optimizer, mode, precision)
    if recorded is not None:
        sets = _recorded(family_name, recorded, level)
    elif record is not None:
        from ampere_energy.measurement.log import MeasurementLog

        can_run(device, wanted.usual)
        experiment = _experiment(family_name, wanted.usual, models, seed, input, width_step, budget)
        with MeasurementLog(record / "campaign.jsonl").held(wait):
            sets = _recorded_now(experiment, record, parts, level, device, meter, watts_per_core, threads)
    else:
        from ampere_energy.estimation.answer import agreeing

        learnt = load_profile(profile)
        agreeing(learnt, wanted)
        whole = ref_of(family_name, input or _usual_input(family_name, learnt), "", learnt.training)
        try:
            drawn = _networks(whole, axes, learnt, models, seed, width_step)
            sets = [_tried(*drawn, learnt, level)]
        except CoverageError as error:
            raise CoverageError(error.what, f"run {covering_command(whole, axes, learnt, profile)}") from error
    from ampere_energy.reporting.as_json import evaluation_json
    from ampere_energy.reporting.tables import evaluation_table

    if report is not None:
        from ampere_energy.reporting.report import evaluation_report

        write(report, evaluation_report(evaluation_json(sets)))
    show(as_json, lambda: evaluation_json(sets), lambda: evaluation_table(sets))
    if report is not None:
        say(f"report {report}")


def _recorded(family_name: str, folder: Path, level: float) -> list[Trials]:
    """The experiments in a folder, or in folders of it."""
    from ampere_energy.evaluation.evaluate import rescore
    from ampere_energy.evaluation.recorded import load
    from ampere_energy.model.families.catalogue import family as find_family

    wanted = None if family_name == "all" else find_family(family_name).name
    folders = [path.parent for path in files.within(folder, "experiment.json")]
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


def _experiment(
    family_name: str, training: Training, models: int, seed: int, input: list[str] | None, width_step: int, budget: str
) -> Experiment:
    """The experiment to record."""
    from ampere_energy.evaluation.experiment import random_experiment
    from ampere_energy.model.families.catalogue import family as find_family

    ref_of(family_name, input, "", training)  # which refuses a bad input before anything is opened
    shape = numbers(input[0], "--input") if input else find_family(family_name).input
    return random_experiment(
        family_name,
        shape,
        replace(training, batch=shape[0]),
        models=models,
        seed=seed,
        step=width_step,
        budget_s=seconds(budget) or 90.0,
    )


def _recorded_now(
    experiment: Experiment,
    folder: Path,
    parts: str,
    level: float,
    device: str,
    meter: str,
    watts_per_core: float | None,
    threads: int | None,
) -> list[Trials]:
    """The experiment in a folder, after what its logs lack has been measured."""
    from ampere_energy.evaluation.evaluate import rescore
    from ampere_energy.evaluation.experiment import Part, record
    from ampere_energy.evaluation.recorded import load

    wanted = [choice(Part, name, "--parts") for name in parts.split(",")] if parts else list(Part)
    if busy := busy_words(device, threads):
        say(busy)
    with device_of(device, meter, watts_per_core, threads) as opened, err.status("starting the device") as status:

        def observe(part: Part, said: Any) -> None:
            line = said if isinstance(said, str) else f"{said.measurements} measured in {said.spent_s:.0f} s"
            status.update(f"{part}: {line}")
            if not err.is_terminal and isinstance(said, str):
                say(f"{part}: {line}")

        record(experiment, folder, opened, parts=wanted, started_s=STARTED_S, observe=observe)
    return rescore(load(folder), level=level)


def _usual_input(family_name: str, learnt: Profile) -> list[str]:
    """A family's usual input at the profile's batch; a factory may tell its own."""
    from ampere_energy.model.families.catalogue import family as find_family

    if ":" in family_name:
        return []
    return [",".join(map(str, (learnt.training.batch, *find_family(family_name).input[1:])))]


def _networks(
    whole: ModelRef, axes: Sequence[Axis], learnt: Profile, models: int, seed: int, width_step: int
) -> tuple[list[ModelRef], list[ModelSpec] | None]:
    """Random networks of a family, or of a factory over values of its arguments with their blocks, each once."""
    from ampere_energy.model.families.catalogue import FAMILIES
    from ampere_energy.optimization.search.space import space_of

    if not axes:
        family = FAMILIES[whole.source].aligned(width_step)
        return [replace(whole, widths=widths) for widths in family.sample(models, seed)], None
    with err.status(f"reading {whole.source}"):
        space = space_of(whole.source, [learnt], axes=axes, example=whole)
    members = space.sample(models, seed)
    return members, [space.spec(member) for member in members]


def _tried(networks: Sequence[ModelRef], specs: Sequence[ModelSpec] | None, learnt: Profile, level: float) -> Trials:
    """A profile tried on networks that are measured now."""
    from ampere_energy.evaluation.evaluate import evaluate as run
    from ampere_energy.measurement.devices import reopen
    from ampere_energy.model.reading import stop

    if busy := busy_words(learnt.device.name):
        say(busy)
    count = len(networks)
    stop()  # what trains now wants the memory
    with contextlib.closing(reopen(learnt.device, learnt.meter)) as device, err.status(f"measuring {count}") as status:

        def observe(done: int) -> None:
            status.update(f"measured {done} of {2 * count}")
            if not err.is_terminal:
                say(f"measured {done} of {2 * count}")

        return run(networks, learnt, device, specs=specs, level=level, observe=observe)
