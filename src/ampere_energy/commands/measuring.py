"""`ampere measure`: a model trained for some seconds on a device."""

from __future__ import annotations

from typing import Annotated

import typer

from ampere_energy.arguments import existing_path, load_profile, positive
from ampere_energy.commands.asked import busy_words, device_of, ref_of, spec_of, training_of
from ampere_energy.commands.options import (
    Accumulate,
    AsJson,
    ChannelsLast,
    DeviceName,
    Input,
    MeterName,
    Model,
    ModeName,
    OptimizerName,
    PrecisionName,
    Threads,
    Watts,
    Widths,
)
from ampere_energy.commands.output import err, say, show
from ampere_energy.errors import DeviceError, RequestError


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
    positive(iterations, "--iterations")
    ref = ref_of(model, input, widths, training_of(optimizer, mode, precision, channels_last, accumulate))
    taught = load_profile(add_to) if add_to else None
    spec = spec_of(ref) if taught else None
    from ampere_energy.measure.devices import threads_of
    from ampere_energy.measure.measurement import REPORT
    from ampere_energy.show.plainly import measurement_json
    from ampere_energy.show.tables import measurement_table

    if taught is not None and threads is None:
        threads = threads_of(taught.device)
    busy = busy_words(device, threads)
    with device_of(device, meter, watts_per_core, threads) as opened, err.status(f"training {ref} on {device}"):
        if taught is not None and (opened.info, opened.meter) != (taught.device, taught.meter):
            raise RequestError(
                f"{add_to} was made on {taught.device} with {taught.meter}, this is {opened.info} with {opened.meter}",
                "measure as it was profiled: --device, --threads and --meter",
            )
        result = opened.measure(ref, REPORT)
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
        from ampere_energy.fit.campaign import add
        from ampere_energy.measure.store import MeasurementLog

        path = existing_path(add_to)
        learnt = add(taught, spec.blocks, result)
        MeasurementLog(path.with_suffix(".jsonl")).append(result)
        learnt.save(path)
        say(f"added to {path}")
