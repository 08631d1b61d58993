"""`ampere measure`: a model trained for some seconds on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ampere_energy.cli.options import (
    AccumulateOrSame,
    AsJson,
    ChannelsLastOrSame,
    ClipGradients,
    DeviceName,
    Input,
    Iterations,
    MeterName,
    Model,
    ModeOrSame,
    OptimizerOrSame,
    OwnStep,
    PrecisionOrSame,
    Scheduler,
    SyncEachStep,
    Threads,
    Wait,
    Watts,
    Widths,
)
from ampere_energy.cli.output import err, say, show
from ampere_energy.cli.requests import busy_words, device_of, ref_of, remedy, spec_for
from ampere_energy.cli.settings import given
from ampere_energy.errors import CoverageError, DeviceError, RequestError
from ampere_energy.profiles.collection import existing_path, load_profile, log_of, profile_held

if TYPE_CHECKING:
    from ampere_energy.model.blocks import ModelSpec
    from ampere_energy.model.source import ModelRef
    from ampere_energy.profiles.profile import Profile


def measure(
    model: Model,
    device: DeviceName = "cpu",
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
    step: OwnStep = "",
    iterations: Iterations = 1,
    add_to: Annotated[str, typer.Option("--add-to", help="A profile to teach what is measured.")] = "",
    meter: MeterName = "",
    watts_per_core: Watts = None,
    threads: Threads = None,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Trains a model for some seconds on a device and reports what a step costs."""
    flags = {"clip_gradients": clip_gradients, "scheduler": scheduler, "sync_each_step": sync_each_step}
    asked = given(optimizer, mode, precision, channels_last, accumulate, **flags)
    ref = ref_of(model, input, widths, asked.usual, step)
    from ampere_energy.measurement.devices import threads_of
    from ampere_energy.measurement.procedures import REPORT
    from ampere_energy.measurement.retries import measured
    from ampere_energy.measurement.workloads import content
    from ampere_energy.reporting.as_json import measurement_json
    from ampere_energy.reporting.tables import measurement_table

    with profile_held(add_to, wait):
        taught = load_profile(add_to) if add_to else None
        if taught is not None:
            from ampere_energy.estimation.answer import as_profiled

            ref = as_profiled(ref, taught, bool(input), asked)
        spec = _recognised(ref, taught, add_to) if taught is not None else None
        if taught is not None and threads is None:
            threads = threads_of(taught.device)
        busy = busy_words(device, threads)
        with device_of(device, meter, watts_per_core, threads) as opened, err.status(f"training {ref} on {device}"):
            if taught is not None and (opened.info, opened.meter) != (taught.device, taught.meter):
                now = f"{opened.info} with {opened.meter}"
                raise RequestError(
                    f"{add_to} was made on {taught.device} with {taught.meter}, this is {now}",
                    "measure as it was profiled: --device, --threads and --meter",
                )
            result = measured(opened, ref, REPORT)
        if result.infeasible is not None:
            smaller = "memory" in result.infeasible.lower()
            remedy = "try a smaller batch or model" if smaller else "train it by itself to see why"
            raise DeviceError(f"{ref} could not be measured: {result.infeasible}", remedy)
        if busy:
            say(busy)
        show(
            as_json,
            lambda: measurement_json(result, str(ref), iterations),
            lambda: measurement_table(result, str(ref), iterations),
        )
        if taught is not None and spec is not None:
            from ampere_energy.campaign.additions import add, caught_up

            path = existing_path(add_to)
            log = log_of(path)
            learnt = add(caught_up(taught, log.path), spec.blocks, result)
            learnt.check(path)  # before its log has what would make no profile
            log.append(replace(result, workload=content(ref, spec.blocks)))
            learnt.save(path)
            say(f"added to {path}")


def _recognised(ref: ModelRef, taught: Profile, name: str) -> ModelSpec:
    """The model's blocks, all of kinds that the profile knows; else nothing is measured."""
    from ampere_energy.estimation.coverage import recognised

    spec = spec_for(ref, taught)
    try:
        recognised(spec, taught)
    except CoverageError as error:
        raise CoverageError(error.what, remedy(ref, spec, taught, name)) from error
    return spec
