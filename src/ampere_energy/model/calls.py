"""Recorded calls as plain data: a function's name, its arguments as JSON values, what is known of its tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import resolve_name

from ampere_energy.errors import ModelError
from ampere_energy.model.program import NAMELESS

_UNKNOWN = 0, 2
"""Range of integers nobody knows: any table has rows 0 and 1."""


def with_sizes(argument: Any, known: Mapping[int, list[Any]]) -> Any:
    """Arguments with the numbers that are sizes the data decided written as such."""
    if type(argument) is int and argument in known:
        return {"sizeof": known[argument]}
    if isinstance(argument, list):
        return [with_sizes(item, known) for item in argument]
    if isinstance(argument, dict) and set(argument) != {"value"}:
        return {key: with_sizes(item, known) for key, item in argument.items()}
    return argument


def name_of(func: Callable[..., Any]) -> str:
    """The name under which the function is found again."""
    found = resolve_name(func)
    if found is not None:
        return str(found)
    name = getattr(func, "__name__", str(func))
    if name not in NAMELESS:
        raise ModelError(f"a call of {name} cannot be written down", "replace it by one of torch's own functions")
    return f"torch.{name}"


def memory_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """How a tensor lies in memory, where it is dense but not in the order of its dimensions."""
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return ()
    strides = [int(stride) for stride in tensor.stride()]
    order = tuple(sorted(range(tensor.dim()), key=lambda d: (-strides[d], d)))
    expected = 1
    for d in reversed(order):
        if tensor.shape[d] > 1 and strides[d] != expected:
            return ()  # a view with gaps, or of one number many times: taken as if it were whole
        expected *= tensor.shape[d]
    return order if order != tuple(range(tensor.dim())) else ()


def integer_range(tensor: torch.Tensor) -> tuple[int, int]:
    """The values integers take, the end excluded."""
    if tensor.is_floating_point() or tensor.is_complex() or not tensor.numel():
        return 0, 1
    if isinstance(tensor, torch._subclasses.FakeTensor) or tensor.is_meta:
        return _UNKNOWN
    with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
        return int(tensor.min()), int(tensor.max()) + 1


def encoded(argument: Any, number: Callable[[torch.Tensor], int]) -> Any:
    """An argument as JSON values."""
    if isinstance(argument, torch.Tensor):
        return {"value": number(argument)}
    if argument is None or isinstance(argument, (bool, str)):
        return argument
    if isinstance(argument, int):
        return int(argument)
    if isinstance(argument, float):
        return argument if argument - argument == 0 else {"float": str(argument)}
    if isinstance(argument, torch.dtype):
        return {"dtype": str(argument).removeprefix("torch.")}
    if isinstance(argument, torch.device):
        return {"device": True}
    if isinstance(argument, (torch.memory_format, torch.layout)):
        return {"torch": str(argument).removeprefix("torch.")}
    if isinstance(argument, slice):
        return {"slice": [encoded(part, number) for part in (argument.start, argument.stop, argument.step)]}
    if argument is Ellipsis:
        return {"ellipsis": True}
    if isinstance(argument, tuple):
        return {"tuple": [encoded(item, number) for item in argument]}
    if isinstance(argument, list):
        return [encoded(item, number) for item in argument]
    if isinstance(argument, dict):
        return {"dict": {str(key): encoded(item, number) for key, item in argument.items()}} if argument else {}
    raise ModelError(f"a call takes {argument!r}, which cannot be written down", "replace it by a tensor or a number")


def tensors_of(result: Any, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """The tensors of a result, with where they stand in it."""
    if isinstance(result, torch.Tensor):
        yield path, result
    elif isinstance(result, (tuple, list)):
        for place, item in enumerate(result):
            yield from tensors_of(item, (*path, place))
