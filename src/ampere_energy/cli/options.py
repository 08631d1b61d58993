"""The options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from ampere_energy.cli.arguments import MOST_SEED, MOST_STEP, counted, probability, threads, watts

Model = Annotated[
    str, typer.Argument(help="A family (see `ampere models`), path/to/file.py:factory or package.module:factory.")
]
Input = Annotated[
    list[str] | None,
    typer.Option("--input", help="Shape of the input, batch first: 32,3,64,64; or of each: ids:int64:8,128."),
]
Widths = Annotated[
    str, typer.Option(help="A family's widths: 6,16,120,84. For a factory, its arguments: 32,3 or width=32,depth=3.")
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="NAME=VALUES",
        help="Of a factory: an argument and its values: width=16:64:8, depth=2:6 or kernel=3,5,7 (give several).",
    ),
]
OptimizerName = Annotated[str, typer.Option("--optimizer", help="sgd, momentum, adam or adamw.")]
PrecisionName = Annotated[str, typer.Option("--precision", help="fp32, tf32, or bf16 and fp16 by autocast.")]
ChannelsLast = Annotated[bool, typer.Option("--channels-last", help="Keep images with their channels innermost.")]
_PASSES = counted("--accumulate", high=2**16)
Accumulate = Annotated[
    int,
    typer.Option(parser=_PASSES, metavar="N", help="Forward and backward passes an update; a step is all of them."),
]
OptimizerOrSame = Annotated[
    str, typer.Option("--optimizer", help="sgd, momentum, adam or adamw [default: the profile's, else sgd].")
]
ModeOrSame = Annotated[
    str, typer.Option("--mode", help="eager, graph or compile [default: the profile's, else eager].")
]
PrecisionOrSame = Annotated[
    str, typer.Option("--precision", help="fp32, tf32, bf16 or fp16 [default: the profile's, else fp32].")
]
ChannelsLastOrSame = Annotated[
    bool | None,
    typer.Option(
        "--channels-last/--no-channels-last",
        help="Whether images are kept with their channels innermost [default: as in the profile, else not].",
    ),
]
AccumulateOrSame = Annotated[
    int | None,
    typer.Option(
        "--accumulate", parser=_PASSES, metavar="N", help="Passes an update [default: the profile's, else 1]."
    ),
]
ClipGradients = Annotated[bool, typer.Option("--clip-gradients", help="Clip the norm of all gradients each step.")]
Scheduler = Annotated[bool, typer.Option("--scheduler", help="Step a learning-rate scheduler after each update.")]
SyncEachStep = Annotated[
    bool, typer.Option("--sync-each-step", help="Read the loss each step, as loss.item() does: the host waits.")
]
OwnStep = Annotated[
    str,
    typer.Option("--step", help="Your own training step, my.py:step, called with the model, its inputs and optimizer."),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait where another command uses the log, instead of refusing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DeviceName = Annotated[str, typer.Option("--device", help="cpu, cuda, or simulated[:NOISE] for a dry run.")]
ModeName = Annotated[str, typer.Option("--mode", help="How a step is run: eager, graph or compile.")]
MeterName = Annotated[
    str, typer.Option("--meter", help="What to read: nvml, rapl, nvml+rapl, … [default: the best readable].")
]
Watts = Annotated[
    float | None, typer.Option(parser=watts, metavar="W", help="Model energy: watts of one busy core [default: 10W].")
]
Threads = Annotated[
    int | None,
    typer.Option(parser=threads, metavar="N", help="torch threads, at most one a core [default: torch's own choice]."),
]
ProfileOrBundle = Annotated[
    str, typer.Option("--profile", help="A profile's name or file, or a bundle's name (see `ampere profiles`).")
]
Iterations = Annotated[
    int,
    typer.Option(parser=counted("--iterations"), metavar="N", help="Training steps to tell the cost of, such as 1e6."),
]
Level = Annotated[
    float, typer.Option(parser=probability, metavar="SHARE", help="Probability that the interval holds, such as 90%.")
]
WidthStep = Annotated[
    int,
    typer.Option(
        parser=counted("--width-step", high=MOST_STEP), metavar="N", help="Only widths that are multiples of this."
    ),
]
Seed = Annotated[
    int,
    typer.Option(parser=counted("--seed", 0, MOST_SEED), metavar="N", help="Another seed draws otherwise."),
]
