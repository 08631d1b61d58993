"""Kinds: what blocks of one Gaussian process have in common. A recipe of one layer, or a recorded piece of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from ampere_energy.model.layers import (
    CONVOLUTIONS,
    PARAMETRIC,
    Layer,
    Signal,
    forward_flops_of,
    parameters_of,
    signal_after,
)
from ampere_energy.model.program import BYTES, MATRIX, Affine, Program, Source, settled
from ampere_energy.model.training import Mode, Training
from ampere_energy.serialization import digest, later

Point = tuple[int, ...]


USUAL = "float32"
"""What torch computes in where nobody says otherwise."""


DTYPES = (USUAL, "float64", "bfloat16", "float16")


class Role(StrEnum):
    """Where a block stands in its model."""

    INPUT = "input"
    HIDDEN = "hidden"
    OUTPUT = "output"
    PIECE = "piece"


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
        dtype: what its weights and activations are kept in; autocast may compute otherwise.
    """

    role: Role
    layers: tuple[Layer, ...]
    spatial: tuple[int, ...]
    fixed: int | None
    input_grad: bool
    training: Training
    dtype: str = later(USUAL)

    def __post_init__(self) -> None:
        if sum(step.op in PARAMETRIC for step in self.layers) != 1:
            raise ValueError("a kind has exactly one parametric layer")
        if (self.fixed is None) != (self.role is Role.HIDDEN):
            raise ValueError(f"a fixed width of {self.fixed} does not fit the role {self.role}")
        if min((self.fixed or 1, *self.spatial)) < 1:
            raise ValueError(f"sizes must be positive: {self.fixed}, {self.spatial}")
        if self.dtype not in DTYPES:
            raise ValueError(f"blocks of {self.dtype} are no recipes")
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
        same = (self.main, self.spatial, self.fixed, self.input_grad, self.training, *self.dtypes)
        return f"{self.main.op}-{digest(same)}"

    @cached_property
    def structure(self) -> str:
        """Common to kinds whose steps issue the same operations, whatever their sizes."""
        operations = " ".join(step.op for step in self.layers)
        return f"{operations}{' ↑' if self.input_grad else ''} {self.training.optimizer}"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What its weights are kept in, where that is not as usual."""
        return (self.dtype,) if self.dtype != USUAL else ()

    @property
    def main(self) -> Layer:
        """The parametric layer."""
        return next(step for step in self.layers if step.op in PARAMETRIC)

    @property
    def taps(self) -> int:
        """How many products of a sum go with one width: those of a convolution's kernel."""
        return math.prod(self.main.ints("kernel")) if self.main.op in CONVOLUTIONS else 1

    @property
    def label(self) -> str:
        """A description for people."""
        seen = (self.fixed, *self.spatial) if self.role is Role.INPUT else self.spatial
        place = " @" + "×".join(map(str, seen)) if seen else ""
        classes = f" → {self.fixed}" if self.role is Role.OUTPUT else ""
        joined = "".join(f" · {step}" for step in self.layers if step is not self.main)
        return f"{' '.join((str(self.main), *self.dtypes))}{place}{classes}{joined}"

    def width_in(self, point: Point) -> int:
        """The width a block reads."""
        return self.fixed if self.role is Role.INPUT and self.fixed else point[0]

    def width_out(self, point: Point) -> int:
        """The width a block gives."""
        return self.fixed if self.role is Role.OUTPUT and self.fixed else point[-1]

    def reads(self, point: Point) -> tuple[int, ...]:
        """Shape of one sample a block reads."""
        return self.source.shape(self.width_in(point))

    def gives(self, point: Point) -> tuple[int, ...]:
        """Shape of one sample a block gives."""
        return self.result.shape(self.width_out(point))

    def parameters(self, point: Point) -> int:
        """A block's parameters."""
        return sum(parameters_of(step, n_in, self.width_out(point)) for step, n_in, _ in self._walk(point))

    def flops(self, point: Point) -> int:
        """FLOPs of one training step: forward, weight gradient, and input gradient where one is needed."""
        out = self.width_out(point)
        forward = sum(forward_flops_of(step, n_in, out, after) for step, n_in, after in self._walk(point))
        return forward * (3 if self.input_grad else 2) * self.training.batch * self.training.accumulate

    def bytes(self, point: Point) -> int:
        """Bytes that the forward pass reads and writes, layer by layer, weights included."""
        numbers, signal, width = self.parameters(point), self.source, self.width_in(point)
        for step in self.layers:
            read = math.prod(signal.shape(width))
            signal = signal_after(step, signal)
            width = self.width_out(point) if step.op in PARAMETRIC else width
            numbers += self.training.batch * (read + math.prod(signal.shape(width)))
        return BYTES[self.dtype] * numbers

    def _walk(self, point: Point) -> list[tuple[Layer, int, Signal]]:
        """Each layer with the features it reads and the signal it gives."""
        steps, signal, width = [], self.source, self.width_in(point)
        for step in self.layers:
            after = signal_after(step, signal)
            steps.append((step, signal.per_width * width, after))
            signal = after
            if step.op in PARAMETRIC:
                width = self.width_out(point)
        return steps


@dataclass(frozen=True)
class Fragment:
    """A recorded piece of a model as a kind: at the widths its sizes follow, or opaque where they follow none."""

    program: Program
    training: Training

    @property
    def role(self) -> Role:
        """A recorded piece may stand anywhere."""
        return Role.PIECE

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the kind's widths, in the order of a point."""
        return tuple(f"width {axis + 1}" for axis in range(self.program.axes))

    @cached_property
    def id(self) -> str:
        """A short name that no other kind has."""
        return f"{self.main}-{digest(self)}"

    @cached_property
    def work(self) -> str:
        """Common to kinds that multiply the same sizes alike: a device picks the same kernels for them."""
        values = self.program.values
        products = [
            (call.name, [values[v] for v in call.reads], [values[v].shape for v in call.makes])
            for call in self.program.calls
            if call.name in MATRIX
        ]
        return f"{self.main}-{digest((products, self.axes, self.training))}" if products else self.id

    @cached_property
    def structure(self) -> str:
        """Common to kinds whose steps issue the same operations, whatever their sizes."""
        numbers = self.program.numbers(Source.INPUT, Source.WEIGHT, Source.SHARED)
        trained = tuple(self.program.values[number].grad for number in numbers)
        same = digest((self.program.operations, trained, self.training.optimizer))
        return f"{len(self.program.operations)} operations of {self.main} {same}"

    @cached_property
    def main(self) -> str:
        """The operation that does most of its matrix work, or the first where none does any."""
        names = [name for name in self.program.operations if name in MATRIX]
        return max(names, key=names.count) if names else (self.program.operations or ("nothing",))[0]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What its weights are kept in, where that is not as usual."""
        weights = (self.program.values[number] for number in self.program.numbers(Source.WEIGHT, Source.SHARED))
        return tuple(sorted({weight.dtype for weight in weights} - {USUAL}))

    @cached_property
    def label(self) -> str:
        """A description for people."""
        names = list(self.program.operations)
        matrix = dict.fromkeys(name for name in names if name in MATRIX)
        parts = [f"{name}{f' ×{names.count(name)}' if names.count(name) > 1 else ''}" for name in matrix]
        others = len(names) - sum(names.count(name) for name in matrix)
        first = next((v for v in self.program.values if v.source is Source.INPUT), None)
        shape = "×".join("w" if isinstance(size, Affine) else str(size) for size in first.shape) if first else ""
        more = [f"{others} more"] if others else []
        frozen = "" if self.program.trains else ", no backward"
        return f"{' '.join((' + '.join([*parts, *more]), *self.dtypes))}{f' @{shape}' if shape else ''}{frozen}"

    @property
    def taps(self) -> int:
        """How many products of a sum go with one width: those of its largest convolution's kernel."""
        values = self.program.values
        convolutions = [c for c in self.program.calls if c.name in MATRIX and c.name.startswith("conv")]
        kernels = [values[read].shape[2:] for call in convolutions for read in call.reads[1:2]]
        return max((math.prod(map(settled, kernel)) for kernel in kernels), default=1)

    @property
    def opaque(self) -> bool:
        """Whether it can only be measured as it is."""
        return not self.program.axes

    def reads(self, point: Point) -> tuple[int, ...]:
        """Shape of the first tensor a block reads."""
        values = self.program.at(point).values
        return next((tuple(map(settled, v.shape)) for v in values if v.source is Source.INPUT), ())

    def gives(self, point: Point) -> tuple[int, ...]:
        """Shape of the first tensor a block gives."""
        program = self.program.at(point)
        return tuple(map(settled, program.values[program.outputs[0]].shape)) if program.outputs else ()

    def parameters(self, point: Point) -> int:
        """A block's parameters, those of an earlier block not counted."""
        return self.program.at(point).parameters

    def flops(self, point: Point) -> int:
        """FLOPs of one training step."""
        return self.program.at(point).flops * self.training.accumulate

    def bytes(self, point: Point) -> int:
        """Bytes that the forward pass reads and writes, call by call."""
        return self.program.at(point).bytes


AnyKind = Kind | Fragment


def in_mode(kind: AnyKind, mode: Mode) -> AnyKind:
    """The same kind, its steps run otherwise."""
    return replace(kind, training=replace(kind.training, mode=mode))
