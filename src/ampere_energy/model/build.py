"""Blocks to trainable torch modules: recipes layer by layer, fragments call by call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ampere_energy.model.blocks import Block
from ampere_energy.model.kinds import Kind
from ampere_energy.model.layers import (
    ADAPTIVE_POOLS,
    CONVOLUTIONS,
    LOSSES,
    PARAMETRIC,
    POOLS,
    Layer,
    Signal,
    signal_after,
)


class Apply(nn.Module):
    """A functional call as a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies the function."""
        return self.function(x)


def build(blocks: Sequence[Block]) -> nn.Sequential:
    """The module that blocks of recipes make in a chain, in training mode."""
    return nn.Sequential(*(_block(block, block.kind) for block in blocks if isinstance(block.kind, Kind))).train()


def _block(block: Block, kind: Kind) -> nn.Sequential:
    modules, signal, width = [], kind.source, kind.width_in(block.point)
    for step in kind.layers:
        if step.op in LOSSES:
            continue
        modules.append(_module(step, signal, signal.per_width * width, kind.width_out(block.point)))
        signal = signal_after(step, signal)
        if step.op in PARAMETRIC:
            width = kind.width_out(block.point)
    return nn.Sequential(*modules).to(getattr(torch, kind.dtype))


def _module(step: Layer, signal: Signal, features_in: int, width_out: int) -> nn.Module:
    options: dict[str, Any] = dict(step.options)
    if step.op in CONVOLUTIONS:
        options["kernel_size"] = options.pop("kernel")
        convolution = {"conv1d": nn.Conv1d, "conv2d": nn.Conv2d, "conv3d": nn.Conv3d}[step.op]
        return convolution(features_in, width_out, **options)
    if step.op == "linear":
        return nn.Linear(features_in, width_out, bias=options["bias"])
    if step.op == "batch_norm":
        norms = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
        return norms[len(signal.spatial)](features_in, affine=options["affine"])
    if step.op == "layer_norm":
        return nn.LayerNorm(features_in, elementwise_affine=options["affine"])
    if step.op == "flatten":
        return nn.Flatten()
    if step.op == "dropout":
        return nn.Dropout(options["p"])
    if step.op in ADAPTIVE_POOLS:
        return Apply(partial(getattr(functional, step.op), output_size=options["size"]))
    if step.op in POOLS:
        options["kernel_size"] = options.pop("kernel")
        if step.op.startswith("avg"):
            del options["dilation"]
        return Apply(partial(getattr(functional, step.op), **options))
    return Apply(partial(getattr(functional, step.op), **options))
