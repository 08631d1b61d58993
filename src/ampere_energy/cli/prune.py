"""`ampere prune`: a model made smaller until a training step is inside a budget."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ampere_energy.cli.arguments import MOST_STEP, choice, counted, step_budget
from ampere_energy.cli.options import (
    AccumulateOrSame,
    AsJson,
    ChannelsLastOrSame,
    Input,
    Level,
    MeterName,
    Model,
    ModeOrSame,
    OptimizerOrSame,
    PrecisionOrSame,
    ProfileOrBundle,
    Seed,
    Threads,
    Wait,
    Watts,
    Widths,
)
from ampere_energy.cli.output import aside, err, say, show
from ampere_energy.cli.requests import (
    SAME_CARD,
    busy_words,
    chosen_from,
    device_of,
    profile_command,
    prunable_of,
    ref_of,
)
from ampere_energy.cli.settings import given, mending
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.profiles.collection import existing_path, is_bundle, load_profile, log_of, profile_held

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ampere_energy.model.blocks import Block
    from ampere_energy.optimization.pruning.channels import Channels
    from ampere_energy.optimization.pruning.pruned import Budget, Pruned
    from ampere_energy.optimization.pruning.refine import Choose


def prune(
    model: Model,
    profile: ProfileOrBundle,
    budget: Annotated[
        str, typer.Option(help="What a step may cost, in energy: 50% of what it does, or joules, such as 1.5J.")
    ],
    input: Input = None,
    widths: Widths = "",
    optimizer: OptimizerOrSame = "",
    mode: ModeOrSame = "",
    precision: PrecisionOrSame = "",
    channels_last: ChannelsLastOrSame = None,
    accumulate: AccumulateOrSame = None,
    guide: Annotated[str, typer.Option(help="What widths are chosen by: ampere, flops or random.")] = "ampere",
    importance: Annotated[str, typer.Option(help="Which channels stay: by random, l1, l2, bn or taylor.")] = "l2",
    mean: Annotated[bool, typer.Option("--mean", help="Aim at the mean, not the interval's upper end.")] = False,
    step: Annotated[
        int | None,
        typer.Option(
            parser=counted("--step", high=MOST_STEP),
            metavar="N",
            help="Widths are multiples of this [default: 8, on a CPU 1].",
        ),
    ] = None,
    level: Level = 0.9,
    weights: Annotated[Path | None, typer.Option(help="A state dict to prune [default: the factory's].")] = None,
    loss: Annotated[str, typer.Option(help="Of taylor: file.py:function, the model's loss on your data.")] = "",
    objective: Annotated[str, typer.Option(help="Of random: file.py:function, trains and scores a model.")] = "",
    samples: Annotated[
        int,
        typer.Option(
            parser=counted("--samples", high=10_000),
            metavar="N",
            help="Of random: how many candidates are trained.",
        ),
    ] = 8,
    seed: Seed = 0,
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
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Prunes a model until a training step costs what a budget allows, as estimated from a profile."""
    from ampere_energy.optimization.pruning.importance import Importance
    from ampere_energy.optimization.pruning.pruned import Guide, load_weights, verified

    allowed = step_budget(budget)
    chosen_by, kept_by = choice(Guide, guide, "--guide"), choice(Importance, importance, "--importance")
    if objective and chosen_by is not Guide.RANDOM:
        raise RequestError(f"--objective {objective} with --guide {guide}", "it is for --guide random")
    if loss and kept_by is not Importance.TAYLOR:
        raise RequestError(f"--loss {loss} with --importance {importance}", "it is for --importance taylor")
    asked = given(optimizer, mode, precision, channels_last, accumulate)
    ref = ref_of(model, input, widths, asked.usual)
    others = [load_profile(name) for name in beside or ()]
    if is_bundle(profile) and not refine:
        from ampere_energy.profiles.bundles.catalogue import entries, load_bundled

        try:
            chosen = chosen_from(profile, ref, bool(input), asked)
            say(SAME_CARD)
        except CoverageError:
            prunable_of(ref, 1)  # what no profile could change is said instead
            raise
        ref, learnt = chosen.ref, chosen.profile
        own = (chosen.entry.family, chosen.entry.widths)
        same = [name for name, about in entries(profile).items() if (about.family, about.widths) == own]
        others += [load_bundled(profile, name) for name in same if name != chosen.name]
    else:
        from ampere_energy.estimation.answer import as_profiled

        learnt = load_profile(profile)  # refuses a bundle, which cannot be refined
        ref = as_profiled(ref, learnt, bool(input), asked)
    if refine and (device or guide == "flops"):
        other = f"--device {device}" if device else "--guide flops"
        raise RequestError(f"--refine with {other}", "refining is for joules, on the device that was profiled")
    if verify and not device and is_bundle(profile):
        raise RequestError(f"--verify with the bundle {profile}", "say on which --device")
    if device and device.partition(":")[0] != learnt.device.name.partition(":")[0]:
        raise RequestError(
            f"--device {device}, where the profile is of {learnt.device.name}",
            "verify on such a device, or profile this one",
        )
    from ampere_energy.measurement.devices import reopen
    from ampere_energy.model.load import find
    from ampere_energy.optimization.pruning.channels import channels_of
    from ampere_energy.optimization.pruning.prune import favourable
    from ampere_energy.optimization.pruning.prune import prune as run
    from ampere_energy.optimization.pruning.reward import reward
    from ampere_energy.reporting.pruning import prune_json, prune_table, reward_words

    step = favourable(learnt) if step is None else step
    with aside(), err.status(f"following the channels of {ref}") as status:
        try:
            space = channels_of(ref, None, learnt)
            if all(len(ladder) == 1 for ladder in space.ladders(learnt, 1)):
                raise CoverageError(f"the profile covers no narrower width of {ref}", "profile this model")
        except CoverageError as error:
            more = ("--prunable", *(("--width-step", str(step)) if step > 1 else ()))
            asked_for = ref.training if ref.input or ref.inputs else replace(ref.training, batch=learnt.training.batch)
            options = mending(ref, asked_for, learnt.training)
            first = f"give {options}, or " if options else ""
            raise CoverageError(error.what, f"{first}run {profile_command(ref, learnt, profile, more)}") from error
        if weights is not None:
            load_weights(space.model, weights)
        worth = reward(space, learnt, step, others)
        for line in reward_words(worth):
            say(line)
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
            pruned = _pruned_and_taught(choose, space, profile, allowed, wait, status.update)
        else:
            pruned = choose(learnt, allowed)
        if verify and pruned.changed and pruned.measured is None:
            if busy := busy_words(device or learnt.device.name):
                say(busy)
            named = device_of(device, meter, watts_per_core, threads) if device else None
            with named or contextlib.closing(reopen(learnt.device, learnt.meter)) as opened:
                pruned = verified(pruned, opened, status.update)
    if folder is not None:
        pruned.save(folder)
    show(as_json, lambda: prune_json(pruned, worth, str(folder or "")), lambda: prune_table(pruned))
    if folder is not None:
        say(f"weights {folder / 'weights.pt'}, their shape {folder / 'pruned.json'}")


def _pruned_and_taught(
    choose: Choose, space: Channels, profile: str, budget: Budget, wait: bool, observe: Callable[[str], None]
) -> Pruned:
    """The model pruned with the device at hand; what the profile learnt on the way is saved, and logged."""
    from ampere_energy.campaign.additions import caught_up
    from ampere_energy.measurement.devices import reopen
    from ampere_energy.measurement.records import Measurement
    from ampere_energy.measurement.workloads import content
    from ampere_energy.model.source import ModelRef
    from ampere_energy.optimization.pruning.refine import refined

    path = existing_path(profile)
    log = log_of(path)

    def keep(measurement: Measurement, blocks: Sequence[Block]) -> None:
        assert isinstance(measurement.workload, ModelRef)
        log.append(replace(measurement, workload=content(measurement.workload, blocks)))

    with profile_held(profile, wait):
        learnt = load_profile(profile)  # as it is now that nobody else changes it
        if busy := busy_words(learnt.device.name):
            say(busy)
        with contextlib.closing(reopen(learnt.device, learnt.meter)) as opened:
            known = caught_up(learnt, log.path)
            pruned, taught = refined(choose, space, known, budget, opened, keep=keep, observe=observe)
        if taught is not learnt:
            taught.save(path)
            say(f"added to {path}")
    return pruned
