"""What a model is trained towards: its own loss where it gives one, class scores by cross-entropy, else numbers."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ampere_energy.errors import ModelError

Inputs = tuple[torch.Tensor, ...] | Mapping[str, torch.Tensor]
OWN, CROSS_ENTROPY, MSE = "own", "cross_entropy", "mse"


@dataclass(frozen=True)
class Objective:
    """What is trained, and how.

    Attributes:
        scores: the tensor of the model's result that is trained.
        name: `own` where it is a loss already, else which loss it gets.
    """

    scores: torch.Tensor
    name: str

    @property
    def classes(self) -> int:
        """How many classes a target may be."""
        return int(self.scores.shape[-1]) if self.name == CROSS_ENTROPY else 1

    def target(self) -> torch.Tensor:
        """A random target."""
        if self.name == MSE:
            return torch.randn_like(self.scores, requires_grad=False)
        return torch.randint(self.classes, (self.scores.shape[:-1].numel(),), device=self.scores.device)

    def loss(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The loss of scores such as these."""
        if self.name == OWN:
            return scores
        if self.name == MSE:
            return functional.mse_loss(scores, target)
        return functional.cross_entropy(scores if scores.dim() == 2 else scores.flatten(0, 1), target)


def objective(model: nn.Module, result: Any, inputs: Inputs) -> Objective:
    """How a model's result is trained.

    A scalar, or an attribute `loss`, is the model's own loss. Else it is the first tensor that depends on a trained
    parameter: scores of classes (two dimensions, or three where the inputs are tokens), or numbers.
    """
    scores = chosen(result)
    if scores is None:
        raise ModelError(
            f"{type(model).__name__} gives nothing that depends on a trained parameter",
            "let its forward return a tensor, or a loss, that is trained",
        )
    if scores.dim() == 0:
        return Objective(scores, OWN)
    tokens = any(not tensor.is_floating_point() for tensor in tensors_in(inputs))
    return Objective(scores, CROSS_ENTROPY if scores.dim() == 2 or (tokens and scores.dim() == 3) else MSE)


def chosen(result: Any) -> torch.Tensor | None:
    """The tensor of a result that is trained."""
    own = getattr(result, "loss", None)
    found = [own] if isinstance(own, torch.Tensor) else tensors_in(result)
    return next((tensor for tensor in found if tensor.requires_grad), None)


def train_mode(model: nn.Module) -> nn.Module:
    """The model in training mode; an exported program keeps the mode it was exported in."""
    with contextlib.suppress(NotImplementedError):
        model.train()
    return model


def called(model: Callable[..., Any], inputs: Inputs) -> Any:
    """What a model gives for its inputs, by position or by name."""
    return model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)


def mapped(inputs: Inputs, function: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """Inputs of the same form, each put through a function."""
    if isinstance(inputs, Mapping):
        return {name: function(tensor) for name, tensor in inputs.items()}
    return tuple(function(tensor) for tensor in inputs)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in nested values."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


def mask(shape: Sequence[int], all_true: bool = False) -> torch.Tensor:
    """Truth values: every other one, so that whichever of them masks, no row is masked as a whole."""
    return torch.arange(math.prod(shape)).reshape(tuple(shape)) % 2 < 1 + all_true
