"""What options ask for: models, devices, a bundle's profiles; and the command that would help instead."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ampere_energy.cli.arguments import arguments_of, axis_of, inputs_of, inputs_text
from ampere_energy.cli.output import err, say
from ampere_energy.cli.settings import mending
from ampere_energy.errors import AmpereError, RequestError
from ampere_energy.profiles.collection import new_name

if TYPE_CHECKING:
    from ampere_energy.cost_model.known_kinds import KnownKind
    from ampere_energy.estimation.bundle_choice import Choice
    from ampere_energy.measurement.devices import Device
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import ModelRef
    from ampere_energy.model.structures import Axis
    from ampere_energy.model.training import GivenSettings, Training
    from ampere_energy.model.widths import WidthRange
    from ampere_energy.profiles.profile import Profile


SAME_CARD = "intervals: of the card that was profiled, on which all are compared; ampere estimate has another's"
"""What commands say that compare models from a bundle's profile."""


def ref_of(model: str, input: list[str] | None, widths: str, training: Training, step: str = "") -> ModelRef:
    """Which model to train, on what input, by whose step."""
    from ampere_energy.model.source import model_ref

    shape, inputs = inputs_of(input or [])
    names, values = arguments_of(widths)
    return model_ref(model, widths=values, input=shape, inputs=inputs, training=training, names=names, step=step)


def axes_of(model: str, vary: Sequence[str], widths: str = "", width_step: int = 1) -> list[Axis]:
    """The arguments of a factory that `--vary` names, with their values; refused of a family, and beside widths."""
    axes = [axis_of(text) for text in vary]
    if axes and widths:
        raise RequestError(f"--vary {axes[0]} with --widths {widths}", "give values of every argument by --vary alone")
    if axes and width_step != 1:
        raise RequestError(
            f"--vary {axes[0]} with --width-step {width_step}", "give the step with the values, as width=16:64:8"
        )
    if axes and ":" not in model:
        raise RequestError(
            f"--vary {axes[0]} with {model}", "vary the arguments of a factory of your own; of a family leave it out"
        )
    return axes


def covering_command(ref: ModelRef, axes: Sequence[Axis], learnt: Profile, profile: str) -> str:
    """The command that makes a profile which covers a model, or a factory over some values of its arguments."""
    more = [word for axis in axes for word in ("--vary", str(axis))]
    return profile_command(replace(ref, names=(), widths=()) if axes else ref, learnt, profile, more)


def spec_of(ref: ModelRef) -> ModelSpec:
    """The model's blocks."""
    from ampere_energy.model.reading import read

    with err.status(f"reading {ref}"):
        return read(ref)


def spec_for(ref: ModelRef, learnt: Profile) -> ModelSpec:
    """The model's blocks, by its groups of channels where the profile was made of it so, with `--prunable`."""
    known, spec = {kind.id for kind in learnt.cost_model.known_kinds()}, spec_of(ref)
    if ref.source != learnt.model or all(block.kind.id in known for block in spec.blocks):
        return spec
    try:
        grouped = prunable_of(ref, 1)[1]
    except AmpereError:  # nothing of it can be pruned
        return spec
    return replace(grouped, name=spec.name) if all(block.kind.id in known for block in grouped.blocks) else spec


def prunable_of(ref: ModelRef, step: int) -> tuple[ModelRef, ModelSpec, list[WidthRange]]:
    """The model by its groups of channels, with the widths to cover so that it can be pruned."""
    from ampere_energy.optimization.pruning.coverage import covering

    with err.status(f"following the channels of {ref}"):
        found = covering(ref, step)
    return found.ref, found.spec, list(found.ranges)


def chosen_from(
    bundle: str, ref: ModelRef, input_given: bool, given: GivenSettings, approximate: bool = False
) -> Choice:
    """The profile of a bundle that answers for a model; says which."""
    from ampere_energy.estimation.answer import of_bundle

    chosen = of_bundle(bundle, ref, spec_of, given, input_given=input_given, approximate=approximate)
    say(f"profile {chosen.name} of {bundle}: {chosen.entry}")
    return chosen


def device_of(name: str, meter: str, watts_per_core: float | None, threads: int | None) -> contextlib.closing[Device]:
    """The device, opened, with the meter to read."""
    from ampere_energy.measurement.devices import open_device
    from ampere_energy.measurement.meters.cputime import CpuTimeMeter
    from ampere_energy.model.reading import stop

    if watts_per_core is not None:
        if meter:
            raise RequestError(f"--meter {meter} with --watts-per-core", "a model needs no meter: give one of them")
        meter = f"cputime:{CpuTimeMeter(watts_per_core).watts_per_core:g}"  # the meter itself refuses bad watts
    opened = open_device(name, meter=meter or None, threads=threads)
    if not name.startswith("simulated"):  # which reads models itself
        stop()
    return contextlib.closing(opened)


def busy_words(device: str, threads: int | None = None) -> str | None:
    """A warning where other programs' work, which cannot be told from the model's, will be in the figures."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if device == "cpu" and load > 0.6 * cores:
        least = "" if threads == 1 else ", least with --threads 1"
        return f"this machine was busy (load {load:.1f} on {cores} cores): figures scatter{least}"
    return None


def can_run(device: str, training: Training) -> None:
    """Refuses what a device cannot do, and one that there is not, before anything is measured on it."""
    from ampere_energy.measurement.devices import kind_of

    kind_of(device)
    if training.mode == "graph" and device.startswith("cpu"):
        raise RequestError("--mode graph on a CPU", "graphs are captured on CUDA devices: use --mode eager or compile")


def remedy(ref: ModelRef, spec: ModelSpec, learnt: Profile, profile: str, more: Sequence[str] = ()) -> str:
    """What to do about a model that a profile of one's own does not cover: never what would change nothing."""
    if spec.training != learnt.training:
        options = mending(ref, spec.training, learnt.training)
        return f"{f'give {options}, or ' if options else ''}run {profile_command(ref, learnt, profile, more)}"
    if changes := _changing(ref, spec):
        return f"{changes}, so no profile can know it: let the factory give the same model and inputs every time"
    known = {kind.id: kind for kind in learnt.cost_model.known_kinds()}
    command = profile_command(ref, learnt, profile, more or _varying(ref, spec, known.values()))
    if ref.source == learnt.model and not more and any(block.kind.id not in known for block in spec.blocks):
        return f"the model or its input is not what was profiled: to profile it as it is now, run {command}"
    return f"run {command}"


def _changing(ref: ModelRef, spec: ModelSpec) -> str:
    """How a factory's model differs from call to call, in words; empty where it does not."""
    from ampere_energy.model.families.catalogue import FAMILIES

    if ref.source in FAMILIES:
        return ""
    again = spec_of(ref)
    pairs = [(a, b) for a, b in zip(spec.blocks, again.blocks, strict=False) if (a.kind, a.point) != (b.kind, b.point)]
    if not pairs:
        return ""
    name = pairs[0][0].name
    shown = [f"{block.kind.label} at widths {','.join(map(str, block.point))}" for block in pairs[0]]
    how = "in what its description does not show" if shown[0] == shown[1] else f"{shown[0]}, then {shown[1]}"
    return f"{ref.source} differs from call to call (block {name}: {how})"


def _varying(ref: ModelRef, spec: ModelSpec, known: Iterable[KnownKind]) -> list[str]:
    """`--vary` where a factory's profile knew narrower widths, which the next one should know as well."""
    from ampere_energy.model.families.catalogue import FAMILIES

    ranges = any(len(r) > 1 for kind in known for r in kind.domain)
    return ["--vary"] if ranges and spec.widths and not ref.widths and ref.source not in FAMILIES else []


def profile_command(ref: ModelRef, learnt: Profile, profile: str, more: Sequence[str] = ()) -> str:
    """The command that makes a profile which covers a model on the same device, under a name not yet taken."""
    from ampere_energy.measurement.meters import request_of

    about, settings = dict(learnt.device.details), dict(learnt.meter.details)
    device = learnt.device.name
    if device == "simulated" and about.get("noise", "0") != "0":
        device += f":{about['noise']}"
    words = ["ampere", "profile", ref.source, "--device", device]
    for text in inputs_text(ref):
        words += ["--input", text]
    words += ["--widths", ref.arguments] if ref.widths else []
    training = ref.training
    words += ["--optimizer", training.optimizer, "--mode", training.mode]
    words += ["--precision", training.precision] if training.precision != "fp32" else []
    words += ["--channels-last"] if training.channels_last else []
    words += ["--accumulate", str(training.accumulate)] if training.accumulate > 1 else []
    flags = (("--clip-gradients", training.clip_gradients), ("--scheduler", training.scheduler))
    words += [flag for flag, wanted in (*flags, ("--sync-each-step", training.sync_each_step)) if wanted]
    words += ["--step", ref.step] if ref.step else []
    if learnt.meter.name == "cputime":
        words += ["--watts-per-core", settings["watts per core"]]
    elif not {"simulated", "command"} & set(learnt.meter.name.split("+")):  # a command's own words are not kept
        words += ["--meter", request_of(learnt.meter)]
    words += ["--threads", about["threads"]] if "threads" in about else []
    name = new_name(ref.source, device, profile)
    return f"{shlex.join((*words, *more, '--out', name))}, then this again with --profile {shlex.quote(name)}"
