"""A piece of a model as a program: the recorded calls, what they read and what they give, as plain data.

A program is what a model really did, call by call, at the level of torch's own functions, so it can be rebuilt
without the model's code. Its *values* are the tensors: inputs, weights, buffers, and what the calls made. Sizes, and
whole numbers among the arguments, may follow *widths* (`Affine`); a program without widths stands as it was recorded.

Arguments are nested lists of JSON values. A tensor is `{"value": 3}`; `{"size": [per, offset, axis, factor, …]}`
follows widths; `{"sizeof": [{"value": 3}, 0]}` is the first size of a tensor, where the example's data decided it;
`{"dtype": …}`, `{"slice": […]}`, `{"tuple": […]}` and their like say what JSON cannot.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from ampere_energy.errors import WidthError
from ampere_energy.serialization import incidental, later

PROPERTIES = ("T", "mT", "H", "mH", "data", "real", "imag")
"""Properties of a tensor that are views of it: calls of their own, as `torch.Tensor.T.__get__`."""
ATEN = "aten."
"""How the names of an exported program's operations begin."""
NAMELESS = ("_pack_padded_sequence", "_pad_packed_sequence", "_weight_norm")
"""Functions of torch that it does not name itself."""
SET_ITEM = "torch.Tensor.__setitem__"
"""Gives the tensor it changed, as calls in place do, though Python gets nothing from it."""
CHANGED = "changed"
"""No call: the first value, of which the second is a view that was changed in place, is a new value."""
BYTES = {
    "complex128": 16, "float64": 8, "int64": 8, "complex64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2,
    "int16": 2,
}  # fmt: skip


class Source(StrEnum):
    """Where a value comes from.

    A *shared* weight is trained by an earlier block of the model: it gets a gradient here, but is updated there.
    """

    INPUT = "input"
    WEIGHT = "weight"
    SHARED = "shared"
    BUFFER = "buffer"
    MADE = "made"


_HELD = (Source.WEIGHT, Source.SHARED)


@dataclass(frozen=True)
class Affine:
    """A whole number that follows widths: (offset + Σ factor · width of an axis) / per."""

    per: int
    offset: int
    factors: tuple[tuple[int, int], ...]

    def at(self, point: Sequence[int]) -> int:
        """The number at a point."""
        number, rest = divmod(self.offset + sum(factor * point[axis] for axis, factor in self.factors), self.per)
        if rest:
            raise WidthError(f"widths of {','.join(map(str, point))}", f"give widths that {self.per} divides")
        return number


@dataclass(frozen=True)
class Sampled:
    """A size that the example's data decided, such as how many words a packed batch has: no part of what a kind is."""

    sampled: int = incidental(0, required=True)


Size = int | Affine | Sampled


@dataclass(frozen=True)
class Value:
    """A tensor of a program.

    Attributes:
        grad: whether it needs a gradient: a trained weight, an input that passes one on.
        low, high: of integers, the values they may take, `high` excluded; no part of what a kind is.
        order: the dimensions from outermost to innermost in memory, where that is not their own order.
    """

    source: Source
    dtype: str
    shape: tuple[Size, ...]
    grad: bool = False
    low: int = incidental(0)
    high: int = incidental(1)
    order: tuple[int, ...] = later(())

    @property
    def floating(self) -> bool:
        """Whether it holds real numbers."""
        return "float" in self.dtype or "complex" in self.dtype


@dataclass(frozen=True)
class Given:
    """A tensor in a call's result: where it stands in it, and which value it is."""

    path: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class Call:
    """One call: a function of torch by name, its arguments as JSON text, and what it gives.

    Attributes:
        grad: whether it is differentiated; False inside `torch.no_grad()`.
        once: whether it only prepares numbers that other blocks hand over (positions, masks): run when built.
    """

    op: str
    arguments: str
    gives: tuple[Given, ...]
    grad: bool = True
    once: bool = False

    @property
    def name(self) -> str:
        """The function's own name, without underscores of in-place calls."""
        if self.op.startswith(ATEN):
            return self.op.split(".")[1].strip("_")
        return self.op.removesuffix(".__get__").rpartition(".")[2].strip("_") or self.op

    @cached_property
    def parsed(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments."""
        positional, named = json.loads(self.arguments)
        return positional, named

    @cached_property
    def reads(self) -> tuple[int, ...]:
        """The values among its arguments, each once."""
        return tuple(dict.fromkeys(read_values(self.parsed)))

    @property
    def makes(self) -> tuple[int, ...]:
        """The values of its result."""
        return tuple(given.value for given in self.gives)


def read_values(argument: Any) -> Iterator[int]:
    """The values among arguments."""
    if isinstance(argument, dict):
        if set(argument) == {"value"}:
            yield argument["value"]
            return
        argument = list(argument.values())
    if isinstance(argument, (list, tuple)):
        for item in argument:
            yield from read_values(item)


@dataclass(frozen=True)
class Program:
    """Calls in order, over numbered values.

    Attributes:
        outputs: the values others read; one scalar where the program ends in the loss.
        axes: how many widths its sizes follow.
    """

    values: tuple[Value, ...]
    calls: tuple[Call, ...]
    outputs: tuple[int, ...]
    axes: int = 0

    def __post_init__(self) -> None:
        made = {number for number, value in enumerate(self.values) if value.source is not Source.MADE}
        for call in self.calls:
            if not made.issuperset(call.reads):
                raise ValueError(f"{call.op} reads a value that nothing made")
            made.update(call.makes)
        if not made.issuperset(self.outputs) or max(made, default=-1) >= len(self.values):
            raise ValueError("a program gives a value that nothing made")
        affine = [size for value in self.values for size in value.shape if isinstance(size, Affine)]
        if any(axis >= self.axes for size in affine for axis, _ in size.factors):
            raise ValueError("a size follows a width the program does not have")

    def at(self, point: Sequence[int]) -> Program:
        """The program at a point of its widths."""
        if not self.axes:
            return self
        values = tuple(replace(v, shape=tuple(_size(s, point) for s in v.shape)) if v.shape else v for v in self.values)
        calls = tuple(replace(c, arguments=_text(_settled(c.parsed, point))) for c in self.calls)
        return Program(values, calls, self.outputs)

    def numbers(self, *sources: Source) -> list[int]:
        """The numbers of the values from these sources."""
        return [number for number, value in enumerate(self.values) if value.source in sources]

    @property
    def parameters(self) -> int:
        """Trainable and frozen parameters, those of an earlier block not counted."""
        return sum(size_of(self.values[number]) for number in self.numbers(Source.WEIGHT))

    @property
    def trains(self) -> bool:
        """Whether anything of it has a backward pass."""
        return any(self.values[number].grad for number in self.outputs)

    @property
    def whole(self) -> bool:
        """Whether it is a model from its data to its loss, no piece that hands gradients back."""
        handed = any(self.values[number].grad for number in self.numbers(Source.INPUT))
        return not handed and len(self.outputs) == 1 and not self.values[self.outputs[0]].shape

    @property
    def flops(self) -> int:
        """FLOPs of one step: forward, and backward for every factor that needs a gradient; matrix work only."""
        return sum(self._flops(call) for call in self.calls if not call.once)

    @property
    def bytes(self) -> int:
        """Bytes that the forward pass reads and writes, call by call, as if nothing stayed in caches."""
        return sum(
            size_of(self.values[number]) * BYTES.get(self.values[number].dtype, 1)
            for call in self.calls
            if not call.once and call.op != CHANGED
            for number in (*call.reads, *call.makes)
        )

    @property
    def operations(self) -> tuple[str, ...]:
        """Names of the calls that run in every step."""
        return tuple(call.name for call in self.calls if not call.once and call.op != CHANGED)

    def _flops(self, call: Call) -> int:
        count = _FLOPS.get(call.name)
        if count is None or not call.makes:
            return 0
        forward, backward = count(call, self.values)
        return round(forward + backward * (call.grad and _trained(call, self.values)))


@dataclass(frozen=True)
class Tape:
    """A whole forward pass with its loss: one long program, and where its parts come from.

    Attributes:
        loss: the value that is trained.
        names: of weights and buffers.
        places: for each call, the module it ran in.
    """

    values: tuple[Value, ...]
    calls: tuple[Call, ...]
    loss: int
    names: Mapping[int, str]
    places: tuple[str, ...]


def settled(size: Size) -> int:
    """A size that follows no width."""
    if isinstance(size, Sampled):
        return size.sampled
    if isinstance(size, Affine):
        raise TypeError("this program's sizes follow widths: take it at a point first")
    return size


def size_of(value: Value) -> int:
    """How many numbers a value holds."""
    return math.prod(settled(size) for size in value.shape)


def _size(size: Size, point: Sequence[int]) -> int | Sampled:
    return size.at(point) if isinstance(size, Affine) else size


def _settled(argument: Any, point: Sequence[int]) -> Any:
    if isinstance(argument, dict):
        if set(argument) == {"size"}:
            per, offset, *rest = argument["size"]
            return Affine(per, offset, tuple(zip(rest[::2], rest[1::2], strict=True))).at(point)
        return {key: _settled(item, point) for key, item in argument.items()}
    return [_settled(item, point) for item in argument] if isinstance(argument, (list, tuple)) else argument


def _text(arguments: Any) -> str:
    return json.dumps(arguments, separators=(",", ":"))


def _shape(values: Sequence[Value], number: int) -> list[int]:
    return [settled(size) for size in values[number].shape]


Counted = tuple[float, float]
"""FLOPs of a call's forward and backward pass."""


def _trained(call: Call, values: Sequence[Value]) -> bool:
    """Whether the backward pass reaches anything the call gives."""
    return any(values[number].grad for number in call.makes)


def _product(forward: float, factors: Sequence[int], values: Sequence[Value]) -> Counted:
    """A product of two tensors: each one's gradient costs as much as the product."""
    return forward, forward * sum(values[number].grad for number in factors)


def _convolution(call: Call, values: Sequence[Value]) -> Counted:
    over = call.reads[0] if "transpose" in call.name else call.makes[0]
    forward = 2 * math.prod(_shape(values, over)) * math.prod(_shape(values, call.reads[1])[1:])
    return _product(forward, call.reads[:2], values)


def _linear(call: Call, values: Sequence[Value]) -> Counted:
    forward = 2 * math.prod(_shape(values, call.makes[0])) * _shape(values, call.reads[1])[-1]
    return _product(forward, call.reads[:2], values)


def _matmul(call: Call, values: Sequence[Value]) -> Counted:
    added = call.name in ("addmm", "baddbmm", "addmv", "addbmm")
    left, right = (call.reads[added:] * 2)[:2]  # the product of a tensor with itself reads one
    forward = 2 * math.prod(_shape(values, call.makes[0])) * _shape(values, left)[-1]
    return _product(forward, (left, right), values)


def _einsum(call: Call, values: Sequence[Value]) -> Counted:
    equation = call.parsed[0][0]
    if not isinstance(equation, str) or len(call.reads) != 2 or "..." in equation:
        return 0, 0
    sizes: dict[str, int] = {}
    for letters, number in zip(equation.replace(" ", "").split("->")[0].split(","), call.reads, strict=True):
        sizes |= dict(zip(letters, _shape(values, number), strict=True))
    return _product(2 * math.prod(sizes.values()), call.reads, values)


def _attention(call: Call, values: Sequence[Value]) -> Counted:
    query, key, value = (call.reads * 3)[:3]
    *lead, length, width = _shape(values, query)
    forward = 2 * math.prod(lead) * length * _shape(values, key)[-2] * (width + _shape(values, value)[-1])
    return forward, 2 * forward


def _multihead(call: Call, values: Sequence[Value]) -> Counted:
    found = {place: values[a["value"]] for place, a in enumerate(call.parsed[0]) if isinstance(a, dict)}
    query, key, value, outer = (found[place] for place in (0, 1, 2, 11))
    length, *batch, width = (settled(size) for size in query.shape)
    own, other = (2 * math.prod(batch) * width * width * steps for steps in (length, settled(key.shape[0])))
    scores = 4 * math.prod(batch) * length * settled(key.shape[0]) * width
    trained = found[5].grad if 5 in found else True
    backward = own * (trained + query.grad) + other * (2 * trained + key.grad + value.grad) + own * (1 + outer.grad)
    return 2 * own + 2 * other + scores, backward + 2 * scores


def _recurrent(call: Call, values: Sequence[Value]) -> Counted:
    steps = math.prod(_shape(values, call.reads[0])[:-1])
    weights = [n for n in call.reads[1:] if values[n].source in _HELD and len(values[n].shape) == 2]
    forward = 2 * steps * sum(math.prod(_shape(values, n)) for n in weights)
    return forward, 2 * forward


_FLOPS: dict[str, Callable[[Call, Sequence[Value]], Counted]] = {
    **{f"conv{d}d": _convolution for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": _convolution for d in (1, 2, 3)},
    "linear": _linear,
    **dict.fromkeys(("matmul", "bmm", "mm", "spmm", "mv", "addmm", "baddbmm", "addmv", "addbmm"), _matmul),
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    "multi_head_attention_forward": _multihead,
    **dict.fromkeys(("lstm", "gru", "rnn_tanh", "rnn_relu"), _recurrent),
    **dict.fromkeys(("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"), _recurrent),
}
MATRIX = frozenset({*_FLOPS, "embedding", "embedding_bag"})
"""Operations that do a model's main work; with weights of their own, they open a block."""
