"""A model run once without a trace: its modes, buffers and random numbers as they were, and torch's log silent."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import torch
from torch import nn

from ampere_energy.model.load import repeatable
from ampere_energy.model.objective import train_mode


@contextlib.contextmanager
def capturing(answer: bool) -> Iterator[None]:
    """Answers a model that asks whether it is being captured: some, such as transformers' masks, compute otherwise."""
    usual = torch.cuda.is_current_stream_capturing
    torch.cuda.is_current_stream_capturing = lambda: answer
    try:
        yield
    finally:
        torch.cuda.is_current_stream_capturing = usual


@contextlib.contextmanager
def in_training(model: nn.Module) -> Iterator[None]:
    """Training mode, as a training loop would set it, and each module's own mode back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    train_mode(model)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Buffers and random numbers as they were, after a real run."""
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        with torch.random.fork_rng(), repeatable():
            yield
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                buffer.copy_(kept[name])


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences torch's own log of what we report in one line."""
    logs = [logging.getLogger(name) for name in ("torch._subclasses.fake_tensor", "torch.fx.experimental")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
