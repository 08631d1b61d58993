"""How to train, as far as the command line says it: what it leaves out is the profile's, or else the usual."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ampere_energy.cli.arguments import choice, inputs_text
from ampere_energy.model.training import GivenSettings, Mode, Optimizer, Precision, Training

if TYPE_CHECKING:
    from ampere_energy.model.source import ModelRef


def given(
    optimizer: str = "",
    mode: str = "",
    precision: str = "",
    channels_last: bool | None = None,
    accumulate: int | None = None,
    **flags: bool,
) -> GivenSettings:
    """What options ask for; those that were not given are empty, None or, of the flags of a step, False."""
    words = (("optimizer", Optimizer, optimizer), ("mode", Mode, mode), ("precision", Precision, precision))
    found: dict[str, Any] = {name: choice(options, word, f"--{name}") for name, options, word in words if word}
    others = {"channels_last": channels_last, "accumulate": accumulate}
    others |= {name: True for name, flag in flags.items() if flag}
    found_settings = GivenSettings(found | {name: value for name, value in others.items() if value is not None})
    _ = found_settings.usual  # refuses what no model can be trained with
    return found_settings


def mending(ref: ModelRef, wanted: Training, made: Training) -> str:
    """The options that ask for what a profile was made with, where another setting or batch was asked for.

    Args:
        ref: the model that was asked about.
        wanted: its settings; the batch is that of its input, which a factory may tell itself.
        made: the profile's.
    """
    from ampere_energy.estimation.coverage import OPTIONS, differs, option

    names = [name for name in vars(made) if name in OPTIONS and name != "batch" and differs(name, wanted, made)]
    words = [option(name, made) for name in names]
    if wanted.batch != made.batch:
        if not (ref.input or ref.inputs):
            return ""  # only the factory can change it
        words += [f"--input {text}" for text in inputs_text(ref.at_batch(made.batch))]
    return " ".join(words)
