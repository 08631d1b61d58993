"""Fully connected networks: regression, tables with categories, pairs, mixtures of experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


def _stack(inputs: int, width: int, depth: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, outputs))


class _Regression(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.body = _stack(64, width, depth, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).squeeze(-1)


def mlp_regression(width: int = 256, depth: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Multilayer perceptron that predicts one number from 64 features."""
    return _Regression(width, depth), (torch.randn(1024, 64),)


class _WideAndDeep(nn.Module):
    def __init__(self, width: int, depth: int, embedding: int, fields: int = 12, values: int = 1000) -> None:
        super().__init__()
        self.wide = nn.EmbeddingBag(fields * values, 2, mode="sum")
        self.deep = nn.ModuleList(nn.Embedding(values, embedding) for _ in range(fields))
        self.norm = nn.BatchNorm1d(16)
        self.body = _stack(fields * embedding + 16, width, depth, 2)
        self.register_buffer("offsets", torch.arange(fields) * values, persistent=False)

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        fields = [table(categories[:, i]) for i, table in enumerate(self.deep)]
        deep = self.body(torch.cat([*fields, self.norm(numbers)], dim=1))
        return deep + self.wide(categories + self.offsets)


def wide_and_deep(width: int = 256, depth: int = 3, embedding: int = 16) -> tuple[nn.Module, dict[str, Tensor]]:
    """Wide-and-deep click model: one embedding table for each of 12 categories, and 16 numbers."""
    return _WideAndDeep(width, depth, embedding), {
        "categories": torch.randint(0, 1000, (384, 12)),
        "numbers": torch.randn(384, 16),
    }


class _CrossNetwork(nn.Module):
    def __init__(self, width: int, depth: int, crosses: int, inputs: int = 128) -> None:
        super().__init__()
        self.crosses = nn.ModuleList(nn.Linear(inputs, inputs) for _ in range(crosses))
        self.deep = _stack(inputs, width, depth, width)
        self.out = nn.Linear(inputs + width, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for cross in self.crosses:
            y = x * cross(y) + y
        return self.out(torch.cat([y, self.deep(x)], dim=1))


def cross_network(width: int = 256, depth: int = 2, crosses: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Deep-and-cross network: products of features beside a perceptron."""
    return _CrossNetwork(width, depth, crosses), (torch.randn(512, 128),)


class _Siamese(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 1
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        side = 32 // 2**depth
        self.encoder = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * side * side, 64))

    def forward(self, left: Tensor, right: Tensor, same: Tensor) -> Tensor:
        distance = F.pairwise_distance(self.encoder(left), self.encoder(right))
        return (same * distance.square() + (1 - same) * F.relu(1 - distance).square()).mean()


def siamese(width: int = 32, depth: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """One encoder called on both images of a pair; forward returns the contrastive loss."""
    images = torch.randn(12, 1, 32, 32), torch.randn(12, 1, 32, 32)
    return _Siamese(width, depth), (*images, torch.randint(0, 2, (12,)).float())


class _DenseMixture(nn.Module):
    def __init__(self, width: int, experts: int, depth: int, inputs: int = 64) -> None:
        super().__init__()
        self.gate = nn.Linear(inputs, experts)
        self.experts = nn.ModuleList(_stack(inputs, width, depth, 32) for _ in range(experts))
        self.out = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(dim=-1)
        answers = torch.stack([expert(x) for expert in self.experts], dim=1)
        return self.out(torch.einsum("be,bed->bd", weights, answers))


def dense_mixture(width: int = 192, experts: int = 4, depth: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Mixture of experts with dense gating: all experts see all rows."""
    return _DenseMixture(width, experts, depth), (torch.randn(512, 64),)
