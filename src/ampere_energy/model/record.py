"""Running a model once and writing down what it did.

The model runs on fake tensors (shapes without numbers: no memory, no arithmetic, no change to the model) while every
call of a torch function is recorded, whether it came from a module or a functional call. Where the model's control
flow depends on its data, it runs once for real instead. The loss is part of the record.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parameter import UninitializedParameter
from torch.overrides import TorchFunctionMode

from ampere_energy.errors import ModelError, words_of
from ampere_energy.model.autocast import AUTOCAST, as_on_cuda
from ampere_energy.model.calls import encoded, integer_range, memory_order, name_of, tensors_of, with_sizes
from ampere_energy.model.load import needs_cuda
from ampere_energy.model.objective import OWN, Inputs, called, mapped, objective, tensors_in
from ampere_energy.model.program import (
    CHANGED,
    PROPERTIES,
    Call,
    Given,
    Sampled,
    Size,
    Source,
    Tape,
    Value,
    read_values,
    settled,
)
from ampere_energy.model.training import Mode, Precision, Training
from ampere_energy.model.undisturbed import capturing, in_training, quiet, unchanged

_CONVERSIONS = {
    "to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "bool", "cpu", "cuda",
    "contiguous", "flatten", "reshape", "expand", "squeeze", "requires_grad_", "dropout",
}  # fmt: skip
_COUNTED = {
    "nonzero", "argwhere", "unique", "unique_consecutive", "masked_select", "_pack_padded_sequence",
    "repeat_interleave", "bincount",
}  # fmt: skip
"""Operations that give as many of something as the data has."""
_DEFAULTED = {
    "arange", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "rand", "randn", "scalar_tensor",
    "tensor", "zeros",
}  # fmt: skip
"""Operations that give real numbers in whatever type torch's default is, which a model may have set."""
_SHAPED = {"view", "reshape", "expand", "new_zeros", "new_ones", "new_empty", "new_full", "repeat"}
"""Operations whose whole numbers are sizes, so that one the data decided is written as such."""
_SPREAD = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule"}
PLAIN = Training(1)


def record(model: nn.Module, inputs: Inputs, training: Training = PLAIN) -> Tape:
    """What a model does with its inputs in one training step's forward pass.

    Under autocast, activations pass from block to block in the types that autocast on CUDA gives them. A model that
    asks whether it is being captured as a graph is told what the mode will make true.

    Raises:
        ModelError: the model does not run on the inputs, or gives nothing that can be trained.
    """
    _check(model)
    _check_sizes(inputs)
    with in_training(model), quiet(), capturing(training.mode is Mode.GRAPH):
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        try:
            given = mapped(inputs, lambda t: fake.from_tensor(t))
            with unchanged(model), fake:  # arithmetic among buffers alone is done for real even so
                return _record(model, inputs, given, training.precision)
        except ModelError:
            raise
        except Exception:  # noqa: BLE001 - what needs numbers, or cannot be faked, only a real run can show
            pass
        try:
            with unchanged(model):
                return _record(model, inputs, inputs, training.precision)
        except ModelError:
            raise
        except Exception as error:
            raise _failed(model, inputs, error) from error


def _check(model: nn.Module) -> None:
    name = type(model).__name__
    if sort := _distributed(model):
        raise ModelError(
            f"{name} is trained on several devices ({sort}): what they tell each other is not estimated",
            "give the module that one of them trains (of DDP and DataParallel: .module), and profile that",
        )
    parameters = list(model.parameters())
    if any(isinstance(p, UninitializedParameter) for p in parameters):
        raise ModelError(f"{name} has lazy layers", "run it once on real data before returning it")
    if not parameters:
        raise ModelError(f"{name} has no parameters", "AMPERE estimates training; give it a layer to train")
    if not any(p.requires_grad for p in parameters):
        raise ModelError(f"{name} is frozen: none of its parameters is trained", "set requires_grad on what you train")


def _check_sizes(inputs: Inputs) -> None:
    for tensor in tensors_in(inputs):
        if not tensor.numel():
            shape = ",".join(map(str, tensor.shape))
            raise ModelError(f"an input of shape {shape} holds nothing", "give at least one sample, batch first")


def _distributed(model: nn.Module) -> str | None:
    """How a model is spread over several devices; None where it is not."""
    for module in model.modules():
        names = {each.__name__ for each in type(module).__mro__}
        if found := names & _SPREAD:
            return min(found)
    tensors = [*model.parameters(), *model.buffers()]
    if any(type(tensor).__name__ == "DTensor" or type(tensor.data).__name__ == "DTensor" for tensor in tensors):
        return "DTensor"
    cards = {tensor.device for tensor in tensors if tensor.device.type not in ("cpu", "meta")}
    return f"parameters on {len(cards)} devices" if len(cards) > 1 else None


def _failed(model: nn.Module, inputs: Inputs, error: Exception) -> ModelError:
    named = inputs.items() if isinstance(inputs, Mapping) else ((None, tensor) for tensor in inputs)
    shapes = " and ".join((f"{name} " if name else "") + ",".join(map(str, t.shape)) for name, t in named)
    said = words_of(error).strip().splitlines()[0] if words_of(error).strip() else type(error).__name__
    remedy = needs_cuda(error) or "check --input (batch first)"
    return ModelError(f"{type(model).__name__} does not run on an input of shape {shapes} ({said})", remedy)


def _record(model: nn.Module, inputs: Inputs, given: Inputs, precision: Precision) -> Tape:
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    recorder = _Recorder(state, tensors_in(given), tensors_in(inputs))
    lower = AUTOCAST.get(precision)
    with torch.autocast("cpu", dtype=lower, enabled=lower is not None):
        with recorder, _located(model, recorder):
            result = called(model, given)
        loss = _loss(model, result, recorder, given)
    return recorder.tape(loss)


def _needed(values: Sequence[Value], calls: Sequence[Call], loss: int) -> tuple[Value, ...]:
    """The values, those that do not lead to the loss without a gradient: the backward pass never gets there."""
    reached = {loss}
    for call in reversed(calls):
        if not reached.isdisjoint(call.makes):
            reached.update(call.reads)
    return tuple(replace(v, grad=v.grad and number in reached) for number, v in enumerate(values))


def _loss(model: nn.Module, result: Any, recorder: _Recorder, given: Inputs) -> torch.Tensor:
    goal = objective(model, result, given)
    if goal.name == OWN:
        return goal.scores
    target = recorder.target(goal.target(), goal.classes)
    with recorder:
        return goal.loss(goal.scores, target)


class _Recorder(TorchFunctionMode):
    """Writes down each call that makes or changes tensors."""

    def __init__(
        self, state: Mapping[str, torch.Tensor], given: Sequence[torch.Tensor], real: Sequence[torch.Tensor]
    ) -> None:
        super().__init__()
        self.values: list[Value] = []
        self.calls: list[Call] = []
        self.places: list[str] = []
        self.names: dict[int, str] = {}
        self.place = ""
        self._numbers: dict[int, int] = {}
        self._makers: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []  # an id is its own only while the tensor lives
        self._state = {id(tensor): (name, tensor) for name, tensor in state.items()}
        for tensor, original in zip(given, real, strict=True):
            self._enter(tensor, Source.INPUT, *integer_range(original))

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor; one that no call made is a weight, a buffer, or a constant of the model."""
        known = self._numbers.get(id(tensor))
        if known is not None:
            if tensor.grad_fn is not None and not self.values[known].grad:
                self._differentiate(known)
            return known
        if tensor.grad_fn is not None:
            raise ModelError(
                "a call reads what no recorded call made: a scripted module, or an extension of torch, did",
                "give the module it was scripted from, or write it in torch's own functions",
            )
        name, _ = self._state.get(id(tensor), ("", tensor))
        trained = isinstance(tensor, nn.Parameter)
        number = self._enter(tensor, Source.WEIGHT if trained else Source.BUFFER, *integer_range(tensor))
        if name:
            self.names[number] = name
        return number

    def tape(self, loss: torch.Tensor) -> Tape:
        """What was written down, up to the loss."""
        end = self.number(loss)
        read = {end}.union(*(call.reads for call in self.calls))
        kept = [i for i, call in enumerate(self.calls) if call.op != CHANGED or not read.isdisjoint(call.makes)]
        calls = tuple(self.calls[i] for i in kept)
        return Tape(_needed(self.values, calls, end), calls, end, self.names, tuple(self.places[i] for i in kept))

    def target(self, tensor: torch.Tensor, classes: int = 1) -> torch.Tensor:
        """A tensor that joins the inputs: what the model is trained towards."""
        self._enter(tensor, Source.INPUT, 0, classes)
        return tensor

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "__iter__":
            return iter(self.__torch_function__(torch.Tensor.unbind, types, args, kwargs))
        # Arguments are written down first: an in-place call makes its tensor a new value.
        read: Any = None
        try:
            read = [[encoded(a, self.number) for a in args], {k: encoded(a, self.number) for k, a in kwargs.items()}]
        except ModelError as error:
            unreadable = error  # which matters only where the call makes something
        result = as_on_cuda(func, name, args, kwargs)
        made = [((), args[0])] if name == "__setitem__" else list(tensors_of(result))
        if not made or (name == "__get__" and not _is_view(func)):
            return result
        if name in _CONVERSIONS and id(made[0][1]) in self._numbers:
            return result  # nothing was done: a tensor that is already contiguous, or of the type asked for
        if read is None:
            raise unreadable
        if name in _DEFAULTED and "dtype" not in kwargs and made[0][1].dtype in (torch.float64, *AUTOCAST.values()):
            read[1]["dtype"] = encoded(made[0][1].dtype, self.number)
        self._write(name_of(func), read, made)
        if name.endswith("_") and not name.startswith("__"):
            self._change_base(made[0][1])
        return result

    def _write(self, op: str, read: Any, made: Sequence[tuple[tuple[int, ...], torch.Tensor]]) -> None:
        known = self._sampled(read)
        if known and op.rpartition(".")[2] in _SHAPED:
            read = with_sizes(read, known)
        sizes = {(place, size) for size, (_, place) in known.items()}
        if self._counts(op, read):
            sizes = {(0, tensor.shape[0]) for _, tensor in made if tensor.dim()}
        if op.endswith("_pad_packed_sequence"):  # as long as the longest text, beside the batch
            sizes = {(place, tensor.shape[place]) for _, tensor in made for place in (0, 1) if place < tensor.dim() - 1}
            sizes -= {(place, n) for place, n in sizes if n == made[-1][1].shape[0]}
        gives = tuple(Given(path, self._enter(tensor, Source.MADE, sampled=sizes)) for path, tensor in made)
        self._makers |= {given.value: len(self.calls) for given in gives}
        self.calls.append(Call(op, json.dumps(read, separators=(",", ":")), gives, torch.is_grad_enabled()))
        self.places.append(self.place)

    def _counts(self, op: str, read: Any) -> bool:
        """Whether the data decides how much a call gives: an index of truth values does as well."""
        if op == "torch.Tensor.__getitem__":
            return any(self.values[number].dtype == "bool" for number in read_values(read[0][1:]))
        name = op.rpartition(".")[2]
        return name in _COUNTED or (name == "where" and len(read[0]) == 1)

    def _sampled(self, read: Any) -> dict[int, list[Any]]:
        """Sizes that the data decided of what a call reads, each with where it is found."""
        return {
            size.sampled: [{"value": number}, place]
            for number in read_values(read)
            for place, size in enumerate(self.values[number].shape)
            if isinstance(size, Sampled)
        }

    def _change_base(self, view: torch.Tensor) -> None:
        """What a changed view is a view of has changed as well: it is a new value from here on."""
        base = view._base if view._is_view() else None
        if base is not None and id(base) in self._numbers:
            changed = [{"value": self._numbers[id(tensor)]} for tensor in (base, view)]
            self._write(CHANGED, [changed, {}], [((), base)])

    def _differentiate(self, number: int) -> None:
        """The calls of a custom `autograd.Function` run without a gradient; what it gives has one all the same."""
        wanted, found = [number], set[int]()
        while wanted:
            place = self._makers.get(wanted.pop())
            if place is not None and place not in found and not self.calls[place].grad:
                found.add(place)
                wanted += self.calls[place].reads
        for place in sorted(found):
            call = self.calls[place] = replace(self.calls[place], grad=True)
            flows = any(self.values[n].grad for n in call.reads)
            for n in call.makes:
                self.values[n] = replace(self.values[n], grad=flows and self.values[n].floating)

    def _enter(
        self,
        tensor: torch.Tensor,
        source: Source,
        low: int = 0,
        high: int = 1,
        sampled: Collection[tuple[int, int]] = (),
    ) -> int:
        if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            raise ModelError("a call runs inside torch.vmap or torch.func", "write it out over the batch")
        shape: tuple[Size, ...] = tuple(int(size) for size in tensor.shape)
        if sampled:
            places = enumerate(map(settled, shape))
            shape = tuple(Sampled(size) if (place, size) in sampled else size for place, size in places)
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.values.append(Value(source, dtype, shape, bool(tensor.requires_grad), low, high, memory_order(tensor)))
        self._alive.append(tensor)
        self._numbers[id(tensor)] = len(self.values) - 1
        return len(self.values) - 1


def _is_view(func: Any) -> bool:
    """Whether a property gives a view of its tensor that the model computes with."""
    return getattr(getattr(func, "__self__", None), "__name__", "") in PROPERTIES


@contextlib.contextmanager
def _located(model: nn.Module, recorder: _Recorder) -> Iterator[None]:
    """Lets the recorder know which module is running."""
    handles = []
    stack: list[str] = [""]

    def enter(name: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            stack.append(name)
            recorder.place = name

        return hook

    def leave(*_: Any) -> None:
        stack.pop()
        recorder.place = stack[-1]

    try:
        for name, module in model.named_modules():
            if name and not isinstance(module, torch.jit.ScriptModule):  # which has no hooks
                handles += [module.register_forward_pre_hook(enter(name)), module.register_forward_hook(leave)]
        yield
    finally:
        for handle in handles:
            handle.remove()
