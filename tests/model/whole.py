"""A recorded model put together again from its rebuilt pieces, beside a real run of the model itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ampere_energy.model import record, splitting
from ampere_energy.model.objective import Inputs, tensors_in, train_mode
from ampere_energy.model.program import Program, Source, Tape
from ampere_energy.model.rebuild import Rebuilt

CPU = torch.device("cpu")
Values = dict[int, torch.Tensor]
"""Tensors by their numbers on the tape."""


@dataclass(frozen=True)
class Run:
    """A real training step of a model, recorded: its tape, every tensor as it was, and the gradients of its weights."""

    tape: Tape
    values: Values
    before: dict[str, torch.Tensor]
    loss: torch.Tensor
    gradients: dict[str, torch.Tensor | None]


class _Keeping(record._Recorder):
    """A recorder that keeps copies: a call in place changes what was recorded before."""

    kept: Values

    def _enter(self, tensor: torch.Tensor, source: Source, *rest: int, **more: Any) -> int:
        number = super()._enter(tensor, source, *rest, **more)
        with torch._C.DisableTorchFunction():
            self.__dict__.setdefault("kept", {})[number] = tensor.detach().clone()
        return number


def run(model: nn.Module, inputs: Inputs, seed: int = 0) -> Run:
    """Trains the model one step, for real, and records it."""
    before = {name: t.detach().clone() for name, t in (*model.named_parameters(), *model.named_buffers())}
    train_mode(model)
    recorder = _Keeping({**dict(model.named_parameters()), **dict(model.named_buffers())}, *[tensors_in(inputs)] * 2)
    torch.manual_seed(seed)
    with recorder, record._located(model, recorder):
        result = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    loss = record._loss(model, result, recorder, inputs)
    loss.backward()
    tape = recorder.tape(loss)
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return Run(tape, recorder.kept, before, loss.detach(), gradients)


def numbers(tape: Tape, piece: splitting.Piece, program: Program) -> dict[int, int]:
    """The tape's number of each value of a piece."""
    inside = {n for place in piece for n in tape.calls[place].makes}
    calls = [
        *splitting._preparation(tape, piece, inside, splitting._constants(tape)),
        *(tape.calls[place] for place in piece),
    ]
    found: dict[int, int] = {}
    for mine, theirs in zip(program.calls, calls, strict=True):
        assert mine.op == theirs.op
        found |= dict(zip((*mine.reads, *mine.makes), (*theirs.reads, *theirs.makes), strict=True))
    return found


def rebuilt(real: Run, seed: int = 0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss of the pieces chained, with the model's weights, and the gradients of these."""
    tape, values = real.tape, dict(real.values)
    cut = splitting.cut(tape)
    modules = []
    for piece, program in zip(cut, splitting.extract(tape, cut), strict=True):
        module, theirs = Rebuilt(program, CPU).train(), numbers(tape, piece, program)
        for name, tensor in (*module.state.named_parameters(), *module.state.named_buffers(remove_duplicate=False)):
            number = theirs[int(name.removeprefix("v"))]
            tensor.data = real.before.get(tape.names.get(number, ""), real.values[number]).clone()
        modules.append((module, program, theirs))
    torch.manual_seed(seed)
    for module, program, theirs in modules:
        given = module(*(values[theirs[n]] for n in program.numbers(Source.INPUT)))
        ends = [n for n in program.outputs if program.values[n].grad] or program.outputs
        values |= {theirs[n]: tensor for n, tensor in zip(ends, given, strict=True)}
    loss = values[tape.loss]
    loss.backward()
    gradients: dict[str, torch.Tensor] = {}
    for module, program, theirs in modules:
        for n in program.numbers(Source.WEIGHT, Source.SHARED):
            gradient, name = module.state.weight(n).grad, tape.names[theirs[n]]
            if gradient is not None:
                gradients[name] = gradients.get(name, torch.zeros_like(gradient)) + gradient
    return loss.detach(), gradients
