"""`ampere search`: networks of a family, or models of a factory, that are good, cheap and quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ampere_energy.cli.arguments import counted, finite, joules, width_ranges
from ampere_energy.cli.options import (
    AccumulateOrSame,
    AsJson,
    ChannelsLastOrSame,
    Input,
    ModeOrSame,
    OptimizerOrSame,
    PrecisionOrSame,
    Seed,
    Vary,
    WidthStep,
)
from ampere_energy.cli.output import aside, err, say, show, write
from ampere_energy.cli.requests import SAME_CARD, axes_of, chosen_from, covering_command, ref_of
from ampere_energy.cli.settings import given
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.profiles.collection import is_bundle, load_profile


def search(
    model: Annotated[
        str, typer.Argument(metavar="FAMILY", help="A built-in family, or a factory of whole-number arguments.")
    ],
    profile: Annotated[
        list[str],
        typer.Option(
            "--profile", help="A profile or a bundle (see `ampere profiles`); several, one for each batch or precision."
        ),
    ],
    objective: Annotated[
        str,
        typer.Option(help="What is good: params, flops, or path/to/file.py:function, more is better."),
    ] = "params",
    widths: Annotated[
        str, typer.Option(help="What each width may be: 8:64:8,8:128:8,… [default: all that is profiled].")
    ] = "",
    width_step: WidthStep = 1,
    vary: Vary = None,
    input: Input = None,
    optimizer: OptimizerOrSame = "",
    mode: ModeOrSame = "",
    precision: PrecisionOrSame = "",
    channels_last: ChannelsLastOrSame = None,
    accumulate: AccumulateOrSame = None,
    samples: Annotated[
        int | None,
        typer.Option(
            parser=counted("--samples"), metavar="N", help="Costs of training on so many [default: one batch]."
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(parser=counted("--trials", high=10**6), metavar="N", help="How many networks to try.")
    ] = 2000,
    seed: Seed = 0,
    storage: Annotated[str, typer.Option(help="Keep the study, and go on with it: sqlite:///search.db.")] = "",
    study: Annotated[str, typer.Option(help="The study's name in the storage.")] = "ampere",
    gradient: Annotated[
        bool, typer.Option("--gradient", help="Follow the estimate's gradients to one limit, --budget or --at-least.")
    ] = False,
    budget: Annotated[
        str,
        typer.Option(
            "--budget", "--budget-j", help="Of --gradient: the best within this energy for all samples, such as 3kJ."
        ),
    ] = "",
    at_least: Annotated[
        float | None,
        typer.Option(
            parser=finite("--at-least"), metavar="SCORE", help="Of --gradient: the cheapest with such a score."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the front as an SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Looks for networks of a family, or models of a factory, that are good, cheap and quick, by estimates.

    Nothing is trained or measured.
    """
    allowed = joules(budget, "--budget")
    if not gradient and (allowed, at_least) != (None, None):
        raise RequestError("--budget or --at-least without --gradient", "add it, or leave the limit out")
    if plot is not None and plot.suffix != ".svg":
        raise RequestError(f"--plot {plot}", "plots are SVG: give a name that ends in .svg")
    if gradient and (allowed is None) == (at_least is None):
        raise RequestError("--gradient needs one limit", "give --budget 1.2J or --at-least 1e6")
    if gradient and (storage or plot):
        raise RequestError(
            "--gradient with --storage or --plot", "it finds one network without a study: leave them out"
        )
    from ampere_energy.estimation.answer import agreeing, as_profiled
    from ampere_energy.model.load import find
    from ampere_energy.model.source import spelt
    from ampere_energy.optimization.search.descend import descend
    from ampere_energy.optimization.search.search import PROXIES
    from ampere_energy.optimization.search.search import search as run
    from ampere_energy.optimization.search.space import space_of
    from ampere_energy.reporting.progress import counting
    from ampere_energy.reporting.search import descent_json, descent_table, found_json, found_plot, found_table

    with aside():
        score = find(objective, "function") if ":" in objective else objective
    axes, ranges = axes_of(model, vary or (), widths, width_step), width_ranges(widths)
    largest = spelt([axis.values[-1] for axis in axes] or [r.high for r in ranges], [axis.name for axis in axes])
    asked = given(optimizer, mode, precision, channels_last, accumulate)
    example = ref_of(model, input, largest, asked.usual)
    input_given = bool(input) or ":" in model
    learnt = []
    for name in profile:
        if is_bundle(name):
            chosen = chosen_from(name, example, bool(input), asked)
            say(SAME_CARD)
            learnt.append(chosen.profile)
            example, input_given = (example, input_given) if input_given else (chosen.ref, True)
        else:
            learnt.append(load_profile(name))
            agreeing(learnt[-1], asked)
    with err.status(f"reading {model}"):
        like = example if input_given else None
        try:
            space = space_of(
                example.source, learnt, ranges=ranges, axes=axes, step=width_step, example=like, samples=samples
            )
        except CoverageError as error:
            if len(profile) > 1 or is_bundle(profile[0]):
                raise  # which of them is to be made anew is not known here
            whole = as_profiled(example, learnt[0], bool(input), asked)
            raise CoverageError(error.what, f"run {covering_command(whole, axes, learnt[0], profile[0])}") from error
    if gradient:
        budget_j = allowed.value if allowed else None
        with counting(err, "structures") as observe, aside():
            ended = descend(space, score, budget_j=budget_j, at_least=at_least, seed=seed, observe=observe)
        show(
            as_json,
            lambda: descent_json(ended, space, objective),
            lambda: descent_table(ended, space, objective),
        )
        return
    with counting(err, "networks tried") as observe, aside():
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
        raise RequestError(f"{objective} gave no number for any of {trials} networks", "call it by itself to see why")
    if plot is not None:
        write(plot, found_plot(found))
    show(as_json, lambda: found_json(found), lambda: found_table(found))
    if plot is not None:
        say(f"plot {plot}")
    if storage:
        say(f"study {study!r} in {storage}: this again goes on with it, or optuna.load_study in your own code")
