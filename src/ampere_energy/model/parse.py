"""An `nn.Module` and an example input to blocks.

The model runs once on fake tensors (no memory, no arithmetic, no change to the model) while every call that
touches an activation is recorded, whether it came from a module or a functional call. A call that reads
weights of its own opens a block; normalisations and everything non-parametric join the block before them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.nn.parameter import UninitializedParameter
from torch.overrides import TorchFunctionMode

from ampere_energy.errors import ModelError, UnsupportedLayerError
from ampere_energy.model.blocks import Block, Kind, ModelSpec, Role
from ampere_energy.model.layers import (
    ADAPTIVE_POOLS,
    CONVOLUTIONS,
    ELEMENTWISE,
    NORMALISATIONS,
    PARAMETRIC,
    POOLS,
    Layer,
    Option,
    layer,
)
from ampere_energy.model.training import Training

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
    "mean": ("input", "dim", "keepdim"),
}
_RESHAPES = {"flatten", "view", "reshape", "squeeze"}
_KEPT = {"negative_slope", "alpha", "approximate", "min_val", "max_val", "beta", "threshold", "dim"}


@dataclass(frozen=True)
class Call:
    """One recorded call: what ran, on which weights, from which shape to which."""

    op: str
    arguments: dict[str, Any]
    weights: tuple[str, ...]
    activations: int
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    needs_gradient: bool

    @property
    def place(self) -> str:
        """The module that owns the weights, or the operation's name."""
        return self.weights[0].rpartition(".")[0] or self.weights[0] if self.weights else self.op


class _Recorder(TorchFunctionMode):
    """Records the calls that activations flow through."""

    def __init__(self, weights: dict[str, torch.Tensor], example: torch.Tensor) -> None:
        super().__init__()
        self.names = {id(tensor): name for name, tensor in weights.items()}
        self.activations: dict[int, torch.Tensor] = {id(example): example}
        self.calls: list[Call] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = list(_tensors((args, kwargs)))
        activations = [t for t in given if id(t) in self.activations]
        reads = tuple(activations[0].shape) if activations else ()
        result = func(*args, **kwargs)
        made = list(_tensors(result))
        if activations and made:
            # Keeping each activation alive keeps its id its own.
            self.activations.update({id(t): t for t in made})
            op = getattr(func, "__name__", str(func)).rstrip("_")
            names = _ARGUMENTS.get(op, ())
            self.calls.append(
                Call(
                    op=op,
                    arguments={**dict(zip(names, args, strict=False)), **kwargs},
                    weights=tuple(self.names[id(t)] for t in given if id(t) in self.names),
                    activations=len(activations),
                    reads=reads,
                    gives=tuple(made[0].shape),
                    needs_gradient=activations[0].requires_grad,
                )
            )
        return result


@dataclass
class _Draft:
    """A block being put together."""

    call: Call
    leading: list[Layer]
    reads: tuple[int, ...]
    main: Layer
    joined: list[Layer] = field(default_factory=list)


def parse(
    model: nn.Module, example: torch.Tensor | Sequence[int], *, training: Training | None = None, name: str = ""
) -> ModelSpec:
    """The blocks of a model.

    Args:
        model: the module; it is not run for real and not changed.
        example: an input batch, or its shape, batch first.
        training: how it will be trained; the batch is the example's.
        name: what to call it; by default its class name.

    Raises:
        ModelError: the model does not run on the example, or has nothing to train.
        UnsupportedLayerError: it has a parametric layer that the recipe book cannot rebuild.
    """
    shape = tuple(example.shape) if isinstance(example, torch.Tensor) else tuple(int(n) for n in example)
    if len(shape) < 2 or min(shape) < 1:
        raise ModelError(f"an input of shape {shape}", "give a batch of samples, batch first, such as 10,1,28,28")
    training = replace(training, batch=shape[0]) if training else Training(batch=shape[0])
    calls = record(model, shape)
    drafts, unattributed = _group(calls)
    if not drafts:
        raise ModelError(f"{type(model).__name__} has no trainable layer", "AMPERE estimates training; give it one")
    drafts[-1].joined.append(_loss(calls[-1].gives))
    blocks = tuple(_block(draft, index, len(drafts), training) for index, draft in enumerate(drafts))
    counted = sum(block.parameters for block in blocks)
    total = sum(p.numel() for p in model.parameters())
    if counted != total:
        unattributed.append(f"{total - counted:,} of {total:,} parameters")
    return ModelSpec(name or type(model).__name__, blocks, training, tuple(unattributed))


def record(model: nn.Module, shape: tuple[int, ...]) -> list[Call]:
    """The calls of one forward pass on fake tensors."""
    if any(isinstance(p, UninitializedParameter) for p in model.parameters()):
        raise ModelError(f"{type(model).__name__} has lazy layers", "run it once on real data before returning it")
    log = logging.getLogger("torch._subclasses.fake_tensor")  # it logs what we report in one line
    level = log.level
    log.setLevel(logging.CRITICAL)
    fake = FakeTensorMode()
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    weights: dict[str, torch.Tensor] = {name: fake.from_tensor(tensor) for name, tensor in state.items()}
    example: torch.Tensor
    was_training = model.training
    model.train()
    try:
        with fake:
            example = torch.empty(shape)
            recorder = _Recorder(weights, example)
            with recorder:
                result = torch.func.functional_call(model, weights, (example,))
    except DataDependentOutputException as error:
        raise ModelError(
            f"the control flow of {type(model).__name__} depends on its data ({error.func})",
            "give a model whose forward pass is the same for all inputs of a shape",
        ) from error
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} does not run on an input of shape {','.join(map(str, shape))} ({error})",
            "check --input (batch first)",
        ) from error
    finally:
        model.train(was_training)
        log.setLevel(level)
    if not isinstance(result, torch.Tensor):
        raise ModelError(
            f"{type(model).__name__} returns {type(result).__name__}, not one tensor",
            "wrap it to return what is trained",
        )
    return recorder.calls


def _group(calls: Sequence[Call]) -> tuple[list[_Draft], list[str]]:
    """Recorded calls to drafts: a call with weights of its own opens one, the rest joins the one before."""
    drafts: list[_Draft] = []
    leading: list[Layer] = []
    unattributed: list[str] = []
    first_read: tuple[int, ...] = ()
    used: set[str] = set()
    for call in calls:
        if call.weights and call.op not in PARAMETRIC | NORMALISATIONS:
            raise UnsupportedLayerError(
                f"{call.place} is a {call.op}, which the recipe book cannot rebuild at other widths",
                f"supported parametric layers: {', '.join(sorted(PARAMETRIC | NORMALISATIONS))}",
            )
        if set(call.weights) & used:
            raise UnsupportedLayerError(f"{call.place} is used twice", "layers with shared weights are not supported")
        used |= set(call.weights)
        steps = _layers(call)
        if not steps:
            unattributed.append(f"{call.op} {list(call.reads)} → {list(call.gives)}")
        elif steps[0].op in PARAMETRIC:
            reads = first_read if leading else call.reads
            drafts.append(_Draft(call, leading, reads, steps[0]))
            leading = []
        elif drafts:
            drafts[-1].joined.extend(steps)
        else:
            first_read = first_read or call.reads
            leading.extend(steps)
    return drafts, unattributed


def _block(draft: _Draft, index: int, count: int, training: Training) -> Block:
    role = Role.OUTPUT if index == count - 1 else Role.INPUT if index == 0 else Role.HIDDEN
    width_in, width_out = draft.reads[1], draft.call.gives[1]
    fixed = {Role.INPUT: width_in, Role.OUTPUT: width_out, Role.HIDDEN: None}[role]
    point = {Role.INPUT: (width_out,), Role.OUTPUT: (width_in,), Role.HIDDEN: (width_in, width_out)}[role]
    layers = (*draft.leading, draft.main, *draft.joined)
    try:
        kind = Kind(role, layers, draft.reads[2:], fixed, draft.call.needs_gradient, training)
    except ValueError as error:
        raise UnsupportedLayerError(f"{draft.call.place} cannot be rebuilt: {error}") from error
    return Block(draft.call.place, kind, point)


def _loss(gives: tuple[int, ...]) -> Layer:
    """Class scores are trained by cross-entropy, anything else by mean squared error."""
    return layer("cross_entropy" if len(gives) == 2 else "mse")


def _layers(call: Call) -> tuple[Layer, ...]:
    """The call as entries of the recipe book; none where it has none."""
    if call.activations > 1:
        return ()
    if call.op == "mean" and 3 <= len(call.reads) <= 5:
        d = len(call.reads) - 2
        pool = layer(f"adaptive_avg_pool{d}d", size=(1,) * d)
        given = {(*call.reads[:2], *(1,) * d): (pool,), call.reads[:2]: (pool, layer("flatten"))}
        return given.get(call.gives, ())
    step = _layer(call)
    return (step,) if step else ()


def _layer(call: Call) -> Layer | None:
    if call.op in CONVOLUTIONS:
        return _convolution(call)
    if call.op == "linear":
        if len(call.reads) != 2:
            raise UnsupportedLayerError(
                f"{call.place} is a linear layer on an input of {len(call.reads)} dimensions {list(call.reads)}",
                "linear layers on vectors (batch, features) are supported",
            )
        return layer("linear", bias=call.arguments.get("bias") is not None)
    if call.op in POOLS:
        return _pool(call)
    if call.op in ADAPTIVE_POOLS:
        return layer(call.op, size=call.gives[2:])
    if call.op == "batch_norm" or (call.op == "layer_norm" and len(call.reads) == 2):
        return layer(call.op, affine=call.arguments.get("weight") is not None)
    if call.op == "dropout":
        return layer("dropout", p=float(call.arguments.get("p", 0.5)))
    if call.op in ELEMENTWISE:
        kept = {k: v for k, v in call.arguments.items() if k in _KEPT and isinstance(v, (bool, int, float, str))}
        return layer(call.op, **kept)
    return _reshape(call)


def _reshape(call: Call) -> Layer | None:
    """A flatten, however it was written."""
    features = torch.Size(call.reads[1:]).numel()
    return layer("flatten") if call.op in _RESHAPES and call.gives == (call.reads[0], features) else None


def _convolution(call: Call) -> Layer:
    d = CONVOLUTIONS[call.op]
    if call.arguments.get("groups", 1) != 1:
        raise UnsupportedLayerError(
            f"{call.place} is a {call.op} with {call.arguments['groups']} groups", "groups of 1 are supported"
        )
    weight = call.arguments["weight"]
    kernel, dilation = tuple(weight.shape[2:]), _each(call.arguments.get("dilation", 1), d)
    padding = call.arguments.get("padding", 0)
    if padding == "same":
        padding = tuple(r * (k - 1) // 2 for r, k in zip(dilation, kernel, strict=True))
    return layer(
        call.op,
        kernel=kernel,
        stride=_each(call.arguments.get("stride", 1), d),
        padding=(0,) * d if padding == "valid" else _each(padding, d),
        dilation=dilation,
        bias=call.arguments.get("bias") is not None,
    )


def _pool(call: Call) -> Layer:
    d = POOLS[call.op]
    kernel = _each(call.arguments["kernel_size"], d)
    options: dict[str, Option] = {
        "kernel": kernel,
        "stride": _each(call.arguments.get("stride") or kernel, d),
        "padding": _each(call.arguments.get("padding", 0), d),
        "dilation": _each(call.arguments.get("dilation", 1), d),
        "ceil_mode": bool(call.arguments.get("ceil_mode", False)),
    }
    return layer(call.op, **options)


def _each(value: int | Sequence[int], dimensions: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * dimensions
    return tuple(value) * dimensions if len(value) == 1 else tuple(value)


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in nested arguments, each once a mention."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item)]
    return []
