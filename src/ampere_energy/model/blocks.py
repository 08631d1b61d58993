"""Blocks, kinds and the parsed model: what the paper calls layers, as plain data.

A *kind* is everything that makes two blocks cost the same at the same widths: their layers with
hyperparameters, the spatial size they read, whether their input needs a gradient, and how they are trained.
A *block* is a kind at a *point* (its widths): one width for an input block (what it gives), one for an output
block (what it reads), two for a hidden block (what it reads, what it gives).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from ampere_energy.model.layers import (
    PARAMETRIC,
    Layer,
    Signal,
    forward_flops_of,
    parameters_of,
    signal_after,
)
from ampere_energy.model.training import Training
from ampere_energy.plain import digest

Point = tuple[int, ...]


class Role(StrEnum):
    """Where a block stands in its model."""

    INPUT = "input"
    HIDDEN = "hidden"
    OUTPUT = "output"


@dataclass(frozen=True)
class Kind:
    """What blocks of one Gaussian process have in common.

    Attributes:
        role: where blocks of the kind stand.
        layers: the recipe: any leading reshapes, one parametric layer, and what joined it.
        spatial: positions of the signal it reads; the width comes on top.
        fixed: the width that does not vary: channels read by an input, classes given by an output.
        input_grad: whether the backward pass goes on below the block.
        training: batch and optimizer.
    """

    role: Role
    layers: tuple[Layer, ...]
    spatial: tuple[int, ...]
    fixed: int | None
    input_grad: bool
    training: Training

    def __post_init__(self) -> None:
        if sum(step.op in PARAMETRIC for step in self.layers) != 1:
            raise ValueError("a kind has exactly one parametric layer")
        if (self.fixed is None) != (self.role is Role.HIDDEN):
            raise ValueError(f"a fixed width of {self.fixed} does not fit the role {self.role}")
        if min((self.fixed or 1, *self.spatial)) < 1:
            raise ValueError(f"sizes must be positive: {self.fixed}, {self.spatial}")
        _ = self.result  # raises where the layers do not fit together

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the kind's widths, in the order of a point."""
        return {Role.INPUT: ("out",), Role.OUTPUT: ("in",), Role.HIDDEN: ("in", "out")}[self.role]

    @property
    def source(self) -> Signal:
        """The signal blocks of the kind read."""
        return Signal(self.spatial)

    @cached_property
    def result(self) -> Signal:
        """The signal blocks of the kind give."""
        signal = self.source
        for step in self.layers:
            signal = signal_after(step, signal)
        return signal

    @cached_property
    def id(self) -> str:
        """A short name that no other kind has."""
        return f"{self.main.op}-{digest(self)}"

    @cached_property
    def work(self) -> str:
        """Common to kinds whose main layer does the same at the same size: a device picks the same kernels for them."""
        same = (self.main, self.spatial, self.fixed, self.input_grad, self.training)
        return f"{self.main.op}-{digest(same)}"

    @cached_property
    def structure(self) -> str:
        """Common to kinds whose steps issue the same operations, whatever their sizes."""
        operations = " ".join(step.op for step in self.layers)
        return f"{operations}{' ↑' if self.input_grad else ''} {self.training.optimizer}"

    @property
    def main(self) -> Layer:
        """The parametric layer."""
        return next(step for step in self.layers if step.op in PARAMETRIC)

    @property
    def label(self) -> str:
        """A description for people."""
        seen = (self.fixed, *self.spatial) if self.role is Role.INPUT else self.spatial
        place = " @" + "×".join(map(str, seen)) if seen else ""
        classes = f" → {self.fixed}" if self.role is Role.OUTPUT else ""
        joined = "".join(f" · {step}" for step in self.layers if step is not self.main)
        return f"{self.main}{place}{classes}{joined}"

    def width_in(self, point: Point) -> int:
        """The width a block reads."""
        return self.fixed if self.role is Role.INPUT and self.fixed else point[0]

    def width_out(self, point: Point) -> int:
        """The width a block gives."""
        return self.fixed if self.role is Role.OUTPUT and self.fixed else point[-1]


@dataclass(frozen=True)
class Block:
    """One block of a model: a kind at a point."""

    name: str
    kind: Kind
    point: Point

    def __post_init__(self) -> None:
        if len(self.point) != len(self.kind.axes) or min(self.point) < 1:
            raise ValueError(f"{self.name}: widths {self.point} do not fit {' and '.join(self.kind.axes)}")

    @property
    def width_in(self) -> int:
        """The width the block reads."""
        return self.kind.width_in(self.point)

    @property
    def width_out(self) -> int:
        """The width the block gives."""
        return self.kind.width_out(self.point)

    @property
    def reads(self) -> tuple[int, ...]:
        """Shape of one sample it reads."""
        return self.kind.source.shape(self.width_in)

    @property
    def gives(self) -> tuple[int, ...]:
        """Shape of one sample it gives."""
        return self.kind.result.shape(self.width_out)

    @property
    def parameters(self) -> int:
        """Trainable parameters."""
        return sum(parameters_of(step, n_in, self.width_out) for step, n_in, _ in self._walk())

    @property
    def training_flops(self) -> int:
        """FLOPs of one training step: forward, weight gradient, and input gradient where one is needed."""
        forward = sum(forward_flops_of(step, n_in, self.width_out, after) for step, n_in, after in self._walk())
        return forward * (3 if self.kind.input_grad else 2) * self.kind.training.batch

    def _walk(self) -> list[tuple[Layer, int, Signal]]:
        """Each layer with the features it reads and the signal it gives."""
        steps, signal, width = [], self.kind.source, self.width_in
        for step in self.kind.layers:
            after = signal_after(step, signal)
            steps.append((step, signal.per_width * width, after))
            signal = after
            if step.op in PARAMETRIC:
                width = self.width_out
        return steps


@dataclass(frozen=True)
class ModelSpec:
    """A parsed model: its blocks in the order they run.

    `unattributed` names the operations that no block accounts for; an estimate leaves them out and says so.
    """

    name: str
    blocks: tuple[Block, ...]
    training: Training
    unattributed: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The different kinds, in order of appearance."""
        return tuple(dict.fromkeys(block.kind for block in self.blocks))
