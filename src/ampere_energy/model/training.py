"""How a model is trained: the settings that change what a step costs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ampere_energy.errors import RequestError


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


@dataclass(frozen=True)
class Training:
    """Settings of one training step; part of every kind, since each changes what a block costs."""

    batch: int
    optimizer: Optimizer = Optimizer.SGD
    mode: Mode = Mode.EAGER

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise RequestError(f"a batch of {self.batch} samples", "give at least 1")
