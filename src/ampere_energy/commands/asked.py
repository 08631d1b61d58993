"""What options ask for: trainings, models, devices, a bundle's profiles; and the command that would help instead."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ampere_energy.arguments import choice, inputs_of, inputs_text, new_name, numbers, positive
from ampere_energy.commands.output import err, say
from ampere_energy.errors import RequestError

if TYPE_CHECKING:
    from ampere_energy.bundled.choose import Choice
    from ampere_energy.fit.profile import Profile
    from ampere_energy.measure.devices import Device
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import ModelRef
    from ampere_energy.model.training import Training
    from ampere_energy.model.variants import WidthRange


SAME_CARD = "intervals: of the card that was profiled, on which all are compared; ampere estimate has another's"
"""What commands say that compare models from a bundle's profile."""


def training_of(optimizer: str, mode: str, precision: str, channels_last: bool, accumulate: int) -> Training:
    """How to train; the batch is the input's and comes with it."""
    from ampere_energy.model.training import Mode, Optimizer, Precision, Training

    return Training(
        1,
        choice(Optimizer, optimizer, "--optimizer"),
        choice(Mode, mode, "--mode"),
        choice(Precision, precision, "--precision"),
        channels_last,
        accumulate,
    )


def ref_of(model: str, input: list[str] | None, widths: str, training: Training) -> ModelRef:
    """Which model to train, on what input."""
    from ampere_energy.model.source import model_ref

    shape, inputs = inputs_of(input or [])
    return model_ref(model, widths=numbers(widths, "--widths"), input=shape, inputs=inputs, training=training)


def spec_of(ref: ModelRef) -> ModelSpec:
    """The model's blocks."""
    from ampere_energy.model.parse import parse_ref

    with contextlib.redirect_stdout(sys.stderr), err.status(f"reading {ref}"):
        return parse_ref(ref)  # what a user's model prints must not end up in our JSON


def prunable_of(ref: ModelRef, step: int) -> tuple[ModelRef, ModelSpec, list[WidthRange]]:
    """The model by its groups of channels, with the widths to cover so that it can be pruned."""
    from ampere_energy.decide.channels import prunable

    positive(step, "--width-step")
    with contextlib.redirect_stdout(sys.stderr), err.status(f"following the channels of {ref}"):
        space = prunable(ref)
    return space.ref_of(space.spec.widths) or ref, space.spec, space.ranges(step)


def chosen_from(bundle: str, ref: ModelRef, input_given: bool, mode_given: bool, approximate: bool = False) -> Choice:
    """The profile of a bundle that covers a model; says which."""
    from ampere_energy.bundled.choose import choose

    chosen = choose(bundle, ref, spec_of, input_given=input_given, mode_given=mode_given, approximate=approximate)
    say(f"profile {chosen.name} of {bundle}: {chosen.about}")
    return chosen


def device_of(name: str, meter: str, watts_per_core: float | None, threads: int | None) -> contextlib.closing[Device]:
    """The device, opened, with the meter to read."""
    from ampere_energy.measure.devices import open_device
    from ampere_energy.measure.meters.cputime import CpuTimeMeter

    if watts_per_core is not None:
        if meter:
            raise RequestError(f"--meter {meter} with --watts-per-core", "a model needs no meter: give one of them")
        meter = f"cputime:{CpuTimeMeter(watts_per_core).watts_per_core:g}"  # the meter itself refuses bad watts
    return contextlib.closing(open_device(name, meter=meter or None, threads=threads))


def busy_words(device: str, threads: int | None = None) -> str | None:
    """A warning where other programs' work, which cannot be told from the model's, will be in the figures."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if device == "cpu" and load > 0.6 * cores:
        least = "" if threads == 1 else ", least with --threads 1"
        return f"this machine was busy (load {load:.1f} on {cores} cores): figures scatter{least}"
    return None


def can_run(device: str, training: Training) -> None:
    """Refuses what a device cannot do before anything is measured on it."""
    if training.mode == "graph" and device.startswith("cpu"):
        raise RequestError("--mode graph on a CPU", "graphs are captured on CUDA devices: use --mode eager or compile")


def as_profiled(ref: ModelRef, learnt: Profile, input_given: bool, mode_given: bool) -> ModelRef:
    """The model as a profile of one's own was made: its mode, and of a family its batch, where others are not given."""
    from ampere_energy.model.zoo.families import FAMILIES

    if not mode_given:
        ref = replace(ref, training=replace(ref.training, mode=learnt.training.mode))
    return ref if input_given or ref.source not in FAMILIES else ref.at_batch(learnt.training.batch)


def profile_command(ref: ModelRef, learnt: Profile, profile: str, more: Sequence[str] = ()) -> str:
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
