"""How a model is trained: the settings that change what a step costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ampere_energy.errors import RequestError
from ampere_energy.serialization import later


class Optimizer(StrEnum):
    """The optimizers a step can end with."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    ADAMW = "adamw"


class Mode(StrEnum):
    """How a step is run."""

    EAGER = "eager"
    GRAPH = "graph"
    COMPILE = "compile"

    @property
    def waits(self) -> bool:
        """Whether the host issues every step, so that the device may wait for it."""
        return self is not Mode.GRAPH


class Precision(StrEnum):
    """What a step computes in: tf32 uses tensor cores for fp32 products, bf16 and fp16 are autocast."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


@dataclass(frozen=True)
class Training:
    """Settings of one training step; part of every kind, since each changes what a block costs.

    Names are as good as the enumerations: `Training(32, optimizer="adam", precision="bf16")`.

    Attributes:
        batch: samples of one forward pass.
        channels_last: whether images are kept with their channels innermost.
        accumulate: forward and backward passes before each update; a step is all of them.
        clip_gradients: whether the norm of all gradients is clipped before the update.
        scheduler: whether a scheduler sets the learning rate after each update.
        sync_each_step: whether each step reads its loss, as `loss.item()` does, and so waits for the device.
        torch_settings: torch's global settings that the model's own code sets, where they are not torch's own.
    """

    batch: int
    optimizer: Optimizer = Optimizer.SGD
    mode: Mode = Mode.EAGER
    precision: Precision = later(Precision.FP32)
    channels_last: bool = later(False)
    accumulate: int = later(1)
    clip_gradients: bool = later(False)
    scheduler: bool = later(False)
    sync_each_step: bool = later(False)
    torch_settings: tuple[tuple[str, str], ...] = later(())

    if TYPE_CHECKING:  # what `__post_init__` makes of names is said to type checkers, who only see the fields' types

        def __init__(
            self,
            batch: int,
            optimizer: Optimizer | str = Optimizer.SGD,
            mode: Mode | str = Mode.EAGER,
            precision: Precision | str = Precision.FP32,
            channels_last: bool = False,
            accumulate: int = 1,
            clip_gradients: bool = False,
            scheduler: bool = False,
            sync_each_step: bool = False,
            torch_settings: tuple[tuple[str, str], ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, options in (("optimizer", Optimizer), ("mode", Mode), ("precision", Precision)):
            object.__setattr__(self, name, _one_of(options, getattr(self, name), name))
        if self.batch < 1:
            raise RequestError(f"a batch of {self.batch} samples", "give at least 1")
        if self.accumulate < 1:
            raise RequestError(f"--accumulate {self.accumulate}", "give at least 1")

    def __str__(self) -> str:
        more = [str(self.precision)] if self.precision is not Precision.FP32 else []
        more += ["channels last"] if self.channels_last else []
        more += [f"{self.accumulate} passes an update"] if self.accumulate > 1 else []
        more += ["clipped gradients"] if self.clip_gradients else []
        more += ["a scheduler"] if self.scheduler else []
        more += ["the loss read each step"] if self.sync_each_step else []
        more += [f"torch's {set_to(self.torch_settings)}"] if self.torch_settings else []
        return ", ".join((f"batch {self.batch} with {self.optimizer} in {self.mode} mode", *more))


@dataclass(frozen=True)
class GivenSettings:
    """The settings that somebody gave, by their names; all others are a profile's, or the usual ones."""

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


def set_to(torch_settings: tuple[tuple[str, str], ...]) -> str:
    """torch's global settings in words."""
    return " and ".join(f"{name} {value}" for name, value in torch_settings) or "own global settings"


def _one_of(options: type[StrEnum], value: str, setting: str) -> StrEnum:
    try:
        return options(value)
    except ValueError:
        article = "an" if setting[0] in "aeiou" else "a"
        raise RequestError(f"{article} {setting} called {value!r}", f"choose from {', '.join(options)}") from None
