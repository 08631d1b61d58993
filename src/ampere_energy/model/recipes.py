"""Recorded calls to entries of the recipe book: which pieces of a model can be rebuilt at any widths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ampere_energy.model.kinds import DTYPES, USUAL
from ampere_energy.model.layers import (
    ADAPTIVE_POOLS,
    CONVOLUTIONS,
    ELEMENTWISE,
    PARAMETRIC,
    POOLS,
    Layer,
    Option,
    layer,
)
from ampere_energy.model.program import Call, Program, Source, Value, settled

_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_MAX_POOL = ("input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
_AVG_POOL = ("input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
_ARGUMENTS = {
    **dict.fromkeys(CONVOLUTIONS, _CONVOLUTION),
    **{op: _MAX_POOL if op.startswith("max") else _AVG_POOL for op in POOLS},
    **dict.fromkeys(ADAPTIVE_POOLS, ("input", "output_size")),
    "linear": ("input", "weight", "bias"),
    "batch_norm": ("input", "running_mean", "running_var", "weight", "bias", "training"),
    "layer_norm": ("input", "normalized_shape", "weight", "bias", "eps"),
    "dropout": ("input", "p", "training", "inplace"),
    "leaky_relu": ("input", "negative_slope", "inplace"),
    "elu": ("input", "alpha", "inplace"),
    "gelu": ("input", "approximate"),
    "hardtanh": ("input", "min_val", "max_val", "inplace"),
    "softplus": ("input", "beta", "threshold"),
    "softmax": ("input", "dim"),
    "log_softmax": ("input", "dim"),
}
_RESHAPES = {"flatten", "view", "reshape", "squeeze"}
_KEPT = {"negative_slope", "alpha", "approximate", "min_val", "max_val", "beta", "threshold", "dim"}
_LOSSES = {"cross_entropy": "cross_entropy", "mse_loss": "mse"}
_UNUSUAL = {"weight", "size_average", "reduce", "label_smoothing"}


@dataclass(frozen=True)
class Recipe:
    """A piece as a recipe: its layers, its type, and the shapes it reads and its parametric layer gives."""

    layers: tuple[Layer, ...]
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    input_grad: bool
    dtype: str

    @property
    def ends(self) -> bool:
        """Whether it ends in the loss."""
        return self.layers[-1].op in ("cross_entropy", "mse")


def recipe(program: Program) -> Recipe | None:
    """The program as a recipe; None where it is not one parametric layer with what belongs to it, in a chain."""
    weights = [program.values[n] for n in program.numbers(Source.WEIGHT, Source.SHARED)]
    if not all(value.grad and value.source is Source.WEIGHT for value in weights) or len(program.outputs) != 1:
        return None
    reads = next((n for n in program.numbers(Source.INPUT) if program.values[n].floating), None)
    dtype = _dtype(program)
    if reads is None or dtype is None:
        return None
    current, layers, gives = reads, list[Layer](), None
    for call in program.calls:
        if call.name == "add" and not call.gives[0].path and _counts(call, program.values):
            continue
        if call.once or not call.grad or not call.reads or call.reads[0] != current or len(call.makes) != 1:
            return None
        steps = _layers(call, program.values)
        if not steps:
            return None
        current = call.makes[0]
        if steps[0].op in PARAMETRIC:
            if gives is not None:
                return None
            gives = _shape(program.values[current])
        layers += steps
    if gives is None or current != program.outputs[0]:
        return None
    first = program.values[reads]
    return Recipe(tuple(layers), _shape(first), gives, first.grad, dtype)


def _dtype(program: Program) -> str | None:
    """What all of it is kept in; None where that is no one type. Autocast hands on other activations than weights."""
    kept = {v.dtype for v in program.values if v.floating and v.source not in (Source.INPUT, Source.MADE)}
    dtype = kept.pop() if len(kept) == 1 else None
    if dtype == USUAL or (dtype in DTYPES and all(v.dtype == dtype for v in program.values if v.floating)):
        return dtype
    return None


def _counts(call: Call, values: Sequence[Value]) -> bool:
    """Whether it is batch normalisation's count of batches."""
    return len(call.reads) == 1 and values[call.reads[0]].source is Source.BUFFER and not values[call.reads[0]].shape


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(map(settled, value.shape))


def _layers(call: Call, values: Sequence[Value]) -> tuple[Layer, ...]:
    """The call as entries of the recipe book; none where it has none."""
    activations = [n for n in call.reads if values[n].source in (Source.MADE, Source.INPUT)]
    reads, gives = _shape(values[call.reads[0]]), _shape(values[call.makes[0]])
    if call.name in _LOSSES:
        usual = not any(value for name, value in call.parsed[1].items() if name in _UNUSUAL)
        return (layer(_LOSSES[call.name]),) if usual and len(activations) == 2 and not gives else ()
    if len(activations) > 1:
        return ()
    if call.name == "mean" and 3 <= len(reads) <= 5:
        d = len(reads) - 2
        pool = layer(f"adaptive_avg_pool{d}d", size=(1,) * d)
        return {(*reads[:2], *(1,) * d): (pool,), reads[:2]: (pool, layer("flatten"))}.get(gives, ())
    step = _layer(call, _arguments(call, values), reads, gives)
    return (step,) if step else ()


def _arguments(call: Call, values: Sequence[Value]) -> dict[str, Any]:
    """Arguments by name, tensors as their values."""
    positional, named = call.parsed
    return {
        name: _literal(argument, values)
        for name, argument in {**dict(zip(_ARGUMENTS.get(call.name, ()), positional, strict=False)), **named}.items()
    }


def _literal(argument: Any, values: Sequence[Value]) -> Any:
    if isinstance(argument, dict) and set(argument) == {"value"}:
        return values[argument["value"]]
    if isinstance(argument, dict) and set(argument) == {"tuple"}:
        return tuple(argument["tuple"])
    return argument


def _layer(call: Call, given: dict[str, Any], reads: tuple[int, ...], gives: tuple[int, ...]) -> Layer | None:
    op = call.name
    if op in CONVOLUTIONS:
        return _convolution(op, given)
    if op == "linear":
        return layer("linear", bias=given.get("bias") is not None) if len(reads) == 2 else None
    if op in POOLS:
        return _pool(op, given)
    if op in ADAPTIVE_POOLS:
        return layer(op, size=gives[2:])
    if (op == "batch_norm" and given.get("training")) or (op == "layer_norm" and len(reads) == 2):
        return layer(op, affine=given.get("weight") is not None)
    if op == "dropout":
        return layer("dropout", p=float(given.get("p", 0.5)))
    if op in ELEMENTWISE:
        kept = {k: v for k, v in given.items() if k in _KEPT and isinstance(v, (bool, int, float, str))}
        return layer(op, **kept)
    flat = op in _RESHAPES and gives == (reads[0], math.prod(reads[1:]))
    return layer("flatten") if flat else None


def _convolution(op: str, given: dict[str, Any]) -> Layer | None:
    d = CONVOLUTIONS[op]
    if given.get("groups", 1) != 1:
        return None
    kernel, dilation = _shape(given["weight"])[2:], _each(given.get("dilation", 1), d)
    padding = given.get("padding", 0)
    if padding == "same":
        if any(r * (k - 1) % 2 for r, k in zip(dilation, kernel, strict=True)):
            return None  # one side gets more than the other
        padding = tuple(r * (k - 1) // 2 for r, k in zip(dilation, kernel, strict=True))
    return layer(
        op,
        kernel=kernel,
        stride=_each(given.get("stride", 1), d),
        padding=(0,) * d if padding == "valid" else _each(padding, d),
        dilation=dilation,
        bias=given.get("bias") is not None,
    )


def _pool(op: str, given: dict[str, Any]) -> Layer:
    d = POOLS[op]
    kernel = _each(given["kernel_size"], d)
    options: dict[str, Option] = {
        "kernel": kernel,
        "stride": _each(given.get("stride") or kernel, d),
        "padding": _each(given.get("padding", 0), d),
        "dilation": _each(given.get("dilation", 1), d),
        "ceil_mode": bool(given.get("ceil_mode", False)),
    }
    return layer(op, **options)


def _each(value: int | Sequence[int], dimensions: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * dimensions
    return tuple(value) * dimensions if len(value) == 1 else tuple(value)
