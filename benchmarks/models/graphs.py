"""Networks on graphs. Each row of the batch is a graph with the same number of nodes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _GraphConvolution(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16 if i == 0 else width, width) for i in range(depth))
        self.out = nn.Linear(width, 5)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        loops = adjacency + torch.eye(adjacency.shape[-1], device=adjacency.device)
        scale = loops.sum(dim=-1).rsqrt()
        smooth = scale.unsqueeze(-1) * loops * scale.unsqueeze(-2)
        for layer in self.layers:
            nodes = torch.relu(smooth @ layer(nodes))
        return self.out(nodes.mean(dim=1))


def graph_convolution(width: int = 96, depth: int = 3) -> tuple[nn.Module, dict[str, Tensor]]:
    """Graph convolutions with a dense adjacency matrix; one class for each graph."""
    upper = (torch.rand(48, 64, 64) < 0.05).float().triu(1)
    return _GraphConvolution(width, depth), {
        "nodes": torch.randn(48, 64, 16),
        "adjacency": upper + upper.transpose(1, 2),
    }


class _MessagePassing(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(16, width)
        self.messages = nn.ModuleList(
            nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width)) for _ in range(depth)
        )
        self.updates = nn.ModuleList(nn.GRUCell(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 5)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        graphs, count, _ = nodes.shape
        # All graphs become one: the nodes of graph g are numbered from g · count.
        first = (torch.arange(graphs, device=edges.device) * count).view(-1, 1, 1)
        source, target = (edges + first).flatten(0, 1).unbind(dim=1)
        x = self.inputs(nodes.flatten(0, 1))
        for message, update in zip(self.messages, self.updates, strict=True):
            sent = message(torch.cat([x[source], x[target]], dim=1))
            x = update(torch.zeros_like(x).index_add(0, target, sent), x)
        return self.out(x.unflatten(0, (graphs, count)).mean(dim=1))


def message_passing(width: int = 48, depth: int = 2) -> tuple[nn.Module, dict[str, Tensor]]:
    """Messages along random edges, summed at their targets with `index_add`, and a GRU update."""
    return _MessagePassing(width, depth), {
        "nodes": torch.randn(32, 32, 16),
        "edges": torch.randint(0, 32, (32, 96, 2)),
    }
