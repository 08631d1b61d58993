"""A program back to a module that trains: the recorded calls on fresh weights, as torch code without its model."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import get_overridable_functions, resolve_name

from ampere_energy.errors import ModelError
from ampere_energy.model.objective import mask
from ampere_energy.model.program import (
    ATEN,
    CHANGED,
    NAMELESS,
    PROPERTIES,
    SET_ITEM,
    Call,
    Program,
    Source,
    Value,
    settled,
)

_FACTORIES = (
    "arange", "empty", "empty_strided", "eye", "from_numpy", "full", "linspace", "logspace", "normal", "ones", "rand",
    "randint", "randn", "randperm", "scalar_tensor", "tensor", "zeros", "as_tensor", "tril_indices", "triu_indices",
)  # fmt: skip
_PYTHONS = {"__array__", "__array_wrap__", "__deepcopy__", "__format__", "__reduce_ex__", "__repr__", "__setstate__"}
"""Methods of tensors that are Python's, not torch's."""
_VIEWS = {
    "view", "view_as", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim",
    "getitem", "select", "narrow", "chunk", "split", "unbind", "expand", "expand_as", "diagonal", "unfold", "t",
}  # fmt: skip


class Rebuilt(nn.Module):
    """A program as a module: reads the program's inputs, gives its outputs that have a gradient."""

    def __init__(self, program: Program, device: torch.device) -> None:
        super().__init__()
        self.program = program
        self.state = _State(program, device)
        with torch.no_grad():
            prepared = _run_once(program, self.state, device)
        for number, tensor in prepared.items():
            self.state.keep(number, tensor)
        self.body = fx.GraphModule(self.state, _graph(program, set(prepared), device))

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The outputs others read; the loss where the program ends in it."""
        given: tuple[torch.Tensor, ...] = self.body(*inputs)
        return given

    def inputs(self, device: torch.device) -> tuple[torch.Tensor, ...]:
        """Random inputs of the right shapes."""
        return tuple(
            _random(self.program.values[number], device).requires_grad_(self.program.values[number].grad)
            for number in self.program.numbers(Source.INPUT)
        )

    def trained(self) -> list[nn.Parameter]:
        """The weights that an optimizer updates here."""
        own = (self.program.values[number] for number in self.program.numbers(Source.WEIGHT))
        weights = (self.state.weight(number) for number in self.program.numbers(Source.WEIGHT))
        return [weight for weight, value in zip(weights, own, strict=True) if value.grad]


class _State(nn.Module):
    """Weights and buffers of a program, by number."""

    def __init__(self, program: Program, device: torch.device) -> None:
        super().__init__()
        for number, value in enumerate(program.values):
            if value.source in (Source.WEIGHT, Source.SHARED):
                self.register_parameter(f"v{number}", nn.Parameter(_random(value, device), requires_grad=value.grad))
            elif value.source is Source.BUFFER:
                tensor = _random(value, device)
                # Running statistics and scales: ones are valid for all of them.
                self.register_buffer(f"v{number}", torch.ones_like(tensor) if value.floating else tensor)

    def keep(self, number: int, tensor: torch.Tensor) -> None:
        self.register_buffer(f"v{number}", tensor)

    def weight(self, number: int) -> nn.Parameter:
        return self.get_parameter(f"v{number}")


def _random(value: Value, device: torch.device) -> torch.Tensor:
    """Numbers of ordinary size: weights scaled by what they sum over, so that activations neither vanish nor grow."""
    shape = tuple(map(settled, value.shape))
    dtype = _constant(value.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        if dtype is torch.bool:
            return mask(shape, all_true=value.low == 1).to(device)
        high = max(value.high, value.low + 1)
        if len(shape) == 1:  # such as lengths, which must fall where sequences are packed
            return torch.linspace(high - 1, value.low, shape[0], device=device).round().to(dtype)
        return torch.randint(value.low, high, shape, device=device).to(dtype)
    if value.source in (Source.WEIGHT, Source.SHARED):
        if len(shape) < 2:
            return torch.ones(shape, dtype=dtype, device=device)
        return (torch.randn(shape, device=device) / math.sqrt(math.prod(shape[1:]))).to(dtype)
    if not value.order:
        return torch.randn(shape, device=device).to(dtype)
    laid_out = torch.randn([shape[d] for d in value.order], device=device).to(dtype)
    return laid_out.permute([value.order.index(d) for d in range(len(shape))])


@cache
def _overridable() -> dict[str, Callable[..., Any]]:
    """Torch's own functions on tensors, by name."""
    functions = (function for group in get_overridable_functions().values() for function in group)
    return {name: function for function in functions for name in [resolve_name(function)] if name is not None}


def function_of(op: str) -> Callable[..., Any]:
    """The function of a recorded name: one that torch has for tensors, and no other.

    Raises:
        ModelError: this version of torch has no such function on tensors.
    """
    place, _, name = op.rpartition(".")
    found = _overridable().get(op) if name not in _PYTHONS else None
    if found is None and place == "torch.Tensor" and not name.startswith("_"):
        found = getattr(torch.Tensor, name, None)
    if found is None and place == torch.nn.functional.__name__ and not name.startswith("_"):
        found = getattr(torch.nn.functional, name, None)
        found = found if getattr(found, "__module__", "") == place else None
    if found is None and place == "torch" and (name in _FACTORIES or name in NAMELESS or name.endswith("_like")):
        found = getattr(torch, name, None)
    if op.startswith(ATEN) and op.count(".") == 2:
        packet = place.removeprefix(ATEN)
        private = packet.startswith("_") and not packet.startswith("__")
        allowed = not private and packet != "from_file"  # which reads a file
        found = getattr(getattr(torch.ops.aten, packet, None), name, None) if allowed else None
        found = found if isinstance(found, torch._ops.OpOverload) else None
    if not callable(found):
        raise ModelError(
            f"torch {torch.__version__} has no function {op} on tensors", "record the model with this torch"
        )
    return found


def _property(op: str) -> str | None:
    """The property that a call gets; None where it is another call."""
    found = [name for name in PROPERTIES if op == f"torch.Tensor.{name}.__get__"]
    return found[0] if found else None


def _exists(op: str) -> bool:
    try:
        return callable(function_of(op))
    except ModelError:
        return False


def _argument(argument: Any, value: Callable[[int], Any], device: torch.device) -> Any:
    """An argument as it was given, tensors looked up."""
    if isinstance(argument, list):
        return [_argument(item, value, device) for item in argument]
    if not isinstance(argument, dict) or not argument:
        return argument
    [(tag, content)] = argument.items()
    if tag == "value":
        return value(content)
    if tag == "sizeof":
        whose, dimension = value(content[0]["value"]), content[1]
        of_node = isinstance(whose, fx.Node)
        return whose.graph.call_method("size", (whose, dimension)) if of_node else whose.size(dimension)
    if tag == "tuple":
        return tuple(_argument(item, value, device) for item in content)
    if tag == "dict":
        return {key: _argument(item, value, device) for key, item in content.items()}
    if tag == "slice":
        return slice(*(_argument(item, value, device) for item in content))
    if tag in ("dtype", "torch"):
        return _constant(content)
    if tag == "float":
        return float(content)
    return {"device": device, "ellipsis": Ellipsis}[tag]


def _constant(name: str) -> Any:
    """A type or layout of tensors by its name."""
    found = getattr(torch, name, None)
    if not isinstance(found, (torch.dtype, torch.memory_format, torch.layout)):
        raise ModelError(f"torch {torch.__version__} has no type {name}", "record the model with this torch")
    return found


def _arguments(call: Call, value: Callable[[int], Any], device: torch.device) -> tuple[tuple[Any, ...], dict[str, Any]]:
    positional, named = call.parsed
    if not all(key.isidentifier() for key in named):  # they become code
        raise ModelError(f"{call.op} takes no argument {', '.join(named)}", "record the model with this torch")
    args = tuple(_argument(item, value, device) for item in positional)
    kwargs = {key: _argument(item, value, device) for key, item in named.items()}
    plain = call.op.removeprefix("torch.")
    if plain in _FACTORIES:
        kwargs = {**kwargs, "device": device}
    return args, kwargs


def _run_once(program: Program, state: _State, device: torch.device) -> dict[int, torch.Tensor]:
    """What the preparing calls make of inputs and constants."""
    known: dict[int, torch.Tensor] = {}

    def value(number: int) -> torch.Tensor:
        if number not in known:
            own = program.values[number]
            known[number] = _random(own, device) if own.source is Source.INPUT else getattr(state, f"v{number}")
        return known[number]

    made: dict[int, torch.Tensor] = {}
    for call in program.calls:
        if call.once:
            args, kwargs = _arguments(call, value, device)
            given_back = function_of(call.op)(*args, **kwargs) if call.op != CHANGED else None
            result = args[0] if call.op in (SET_ITEM, CHANGED) else given_back
            for given in call.gives:
                known[given.value] = made[given.value] = _at(result, given.path)
    return made


def _at(result: Any, path: Sequence[int]) -> Any:
    for place in path:
        result = result[place]
    return result


def _graph(program: Program, prepared: set[int], device: torch.device) -> fx.Graph:
    graph = fx.Graph()
    nodes = {number: graph.placeholder(f"v{number}") for number in program.numbers(Source.INPUT)}
    borrowed = {*nodes, *prepared}
    stored = {*prepared, *program.numbers(Source.WEIGHT, Source.SHARED, Source.BUFFER)}

    def value(number: int) -> fx.Node:
        if number not in nodes:
            assert number in stored
            nodes[number] = graph.get_attr(f"v{number}")
        return nodes[number]

    for number in sorted(_changed_in_part(program, borrowed)):
        nodes[number] = graph.call_method("clone", (value(number),))
        borrowed.remove(number)
    differentiated = True
    for call in program.calls:
        if call.once:
            continue
        if call.grad != differentiated:
            graph.call_function(torch._C._set_grad_enabled, (call.grad,))
            differentiated = call.grad
        if call.op == CHANGED:
            nodes[call.makes[0]] = value(call.reads[0])
            continue
        node = _call(graph, _not_in_place(call, borrowed), value, device)
        for given in call.gives:
            nodes[given.value] = value(call.reads[0]) if call.op == SET_ITEM else _chosen(graph, node, given.path)
        borrowed -= set(call.makes)
    if not differentiated:
        graph.call_function(torch._C._set_grad_enabled, (True,))
    ends = [n for n in program.outputs if program.values[n].grad] or list(program.outputs)
    graph.output(tuple(nodes[number] for number in ends))
    return graph


def _in_place(call: Call) -> bool:
    """Whether a call changes the first value it reads."""
    return _without_underscore(call.op) != call.op or call.op == SET_ITEM or '"inplace":true' in call.arguments


def _without_underscore(op: str) -> str:
    """The name of a function that gives what the one in place changes."""
    place, dot, overload = op.rpartition(".") if op.startswith(ATEN) else (op, "", "")
    if not place.endswith("_") or place.endswith("__"):
        return op
    return f"{place.removesuffix('_')}{dot}{overload}"


def _changed_in_part(program: Program, borrowed: set[int]) -> set[int]:
    """What the block was handed and changes through a view or an index: only a copy of it can be."""
    roots = {number: number for number in borrowed}
    found: set[int] = set()
    for call in program.calls:
        if call.once or not call.reads or call.reads[0] not in roots:
            continue
        first = call.reads[0]
        if call.name in _VIEWS:
            roots |= dict.fromkeys(call.makes, roots[first])
        elif _in_place(call) and (call.op == SET_ITEM or first not in borrowed):
            found.add(roots[first])
    return found


def _not_in_place(call: Call, borrowed: set[int]) -> Call:
    """A call that changes what the block was handed, which autograd does not allow, gives a copy instead."""
    if not call.reads or call.reads[0] not in borrowed:
        return call
    if _exists(_without_underscore(call.op)):
        call = replace(call, op=_without_underscore(call.op))
    return replace(call, arguments=call.arguments.replace('"inplace":true', '"inplace":false'))


def _call(graph: fx.Graph, call: Call, value: Callable[[int], fx.Node], device: torch.device) -> fx.Node:
    args, kwargs = _arguments(call, value, device)
    if name := _property(call.op):
        return graph.call_function(getattr, (args[0], name))
    function = function_of(call.op)
    if call.op == "torch.Tensor.__getitem__":
        return graph.call_function(operator.getitem, args)
    if call.op == SET_ITEM:
        return graph.call_function(operator.setitem, args)
    if call.op.startswith("torch.Tensor."):
        return graph.call_method(call.op.rpartition(".")[2], args, kwargs)
    return graph.call_function(function, args, kwargs)


def _chosen(graph: fx.Graph, node: fx.Node, path: Sequence[int]) -> fx.Node:
    for place in path:
        node = graph.call_function(operator.getitem, (node, place))
    return node
