"""How to train, as far as the command line says it: what it leaves out is the profile's, or else the usual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ampere_energy.cli.arguments import choice, inputs_text
from ampere_energy.errors import CoverageError
from ampere_energy.model.training import Mode, Optimizer, Precision, Training

if TYPE_CHECKING:
    from ampere_energy.model.source import ModelRef
    from ampere_energy.profiles.profile import Profile


@dataclass(frozen=True)
class Given:
    """The settings whose options were given, by their names."""

    settings: Mapping[str, Any]

    def over(self, others: Training) -> Training:
        """These settings, and of others what was not given."""
        return replace(others, **self.settings)

    @property
    def usual(self) -> Training:
        """These settings, and else the usual ones; the batch is the input's and comes with it."""
        return self.over(Training(1))

    def agrees(self, others: Training) -> bool:
        """Whether all that was given is so there."""
        return self.over(others) == others


def given(
    optimizer: str = "",
    mode: str = "",
    precision: str = "",
    channels_last: bool | None = None,
    accumulate: int | None = None,
    **flags: bool,
) -> Given:
    """What options ask for; those that were not given are empty, None or, of the flags of a step, False."""
    words = (("optimizer", Optimizer, optimizer), ("mode", Mode, mode), ("precision", Precision, precision))
    found: dict[str, Any] = {name: choice(options, word, f"--{name}") for name, options, word in words if word}
    others = {"channels_last": channels_last, "accumulate": accumulate}
    others |= {name: True for name, flag in flags.items() if flag}
    asked = Given(found | {name: value for name, value in others.items() if value is not None})
    _ = asked.usual  # refuses what no model can be trained with
    return asked


def as_profiled(ref: ModelRef, learnt: Profile, input_given: bool, asked: Given) -> ModelRef:
    """The model trained as a profile of one's own was made where nothing else is given; a family at its batch."""
    from ampere_energy.model.families.catalogue import FAMILIES

    made = replace(learnt.training, batch=ref.training.batch, torch_settings=())  # which its own code sets
    ref = replace(ref, training=asked.over(made))
    return ref if input_given or ref.source not in FAMILIES else ref.at_batch(learnt.training.batch)


def agreeing(learnt: Profile, asked: Given) -> None:
    """Refuses settings that a command would take from a profile, and that were given otherwise."""
    from ampere_energy.estimation.coverage import differing, option

    wanted = asked.over(learnt.training)
    if what := differing(wanted, learnt.training):
        options = [option(name, learnt.training) for name in asked.settings if _differs(name, wanted, learnt.training)]
        raise CoverageError(what, f"give {' '.join(options)}, or another --profile")


def mending(ref: ModelRef, asked: Training, made: Training) -> str:
    """The options that ask for what a profile was made with, where another setting or batch was asked for.

    Args:
        ref: the model that was asked about.
        asked: its settings; the batch is that of its input, which a factory may tell itself.
        made: the profile's.
    """
    from ampere_energy.estimation.coverage import OPTIONS, option

    names = [name for name in vars(made) if name in OPTIONS and name != "batch" and _differs(name, asked, made)]
    words = [option(name, made) for name in names]
    if asked.batch != made.batch:
        if not (ref.input or ref.inputs):
            return ""  # only the factory can change it
        words += [f"--input {text}" for text in inputs_text(ref.at_batch(made.batch))]
    return " ".join(words)


def _differs(name: str, one: Training, other: Training) -> bool:
    return bool(getattr(one, name) != getattr(other, name))
