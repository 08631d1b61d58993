"""What does not fit a chain of layers: graphs, experts, early exits, shared, tied, frozen and functional weights."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from ampere_energy.model.families import resnets, sequences
from ampere_energy.model.families.catalogue import VOCABULARY
from benchmarks.architectures.contract import Built, seeded


class GraphLayer(nn.Module):
    """Messages along edges, added up at their ends, divided by how many came (Kipf and Welling 2017, by the mean)."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.own, self.sent = nn.Linear(width_in, width_out), nn.Linear(width_in, width_out, bias=False)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges
        messages = self.sent(x)
        total = torch.zeros_like(messages).index_add(0, target, messages[source])
        ones = torch.ones_like(target, dtype=x.dtype)
        count = torch.zeros(len(x), dtype=x.dtype, device=x.device).scatter_add(0, target, ones)
        return self.own(x) + total / count.clamp(min=1)[:, None]


class GraphNet(nn.Module):
    """Classes of the nodes of one graph; its nodes are the batch."""

    def __init__(self, features: int = 16, width: int = 32, classes: int = 7) -> None:
        super().__init__()
        self.first, self.second = GraphLayer(features, width), GraphLayer(width, classes)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.second(functional.relu(self.first(nodes, edges)), edges)


class Experts(nn.Module):
    """Each token goes to the two experts its router prefers; how many tokens an expert gets depends on the data."""

    def __init__(self, width: int, experts: int, chosen: int = 2) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, -2)
        weights, choice = self.router(tokens).softmax(-1).topk(self.chosen, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, rank = torch.where(choice == number)
            if len(token):
                out = out.index_add(0, token, expert(tokens[token]) * weights[token, rank, None])
        return out.view_as(x)


class MixtureOfExperts(nn.Module):
    """Two layers of experts over embedded words."""

    def __init__(self, words: int = 300, width: int = 32, experts: int = 4, classes: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.layers = nn.ModuleList(Experts(width, experts) for _ in range(2))
        self.head = nn.Linear(width, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x))
        return self.head(x.mean(1))


class EarlyExit(nn.Module):
    """Stops after the first stage when the picture is bright."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.exit = nn.Linear(width, classes)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.first(x))
        if x.mean() > 0:
            return self.exit(y.mean((2, 3)))
        return self.head(functional.relu(self.second(y)).mean((2, 3)))


class Recommender(nn.Module):
    """Naumov et al. 2019 (DLRM): bags of ids and numbers become vectors; their products are scored."""

    def __init__(self, sizes: tuple[int, ...] = (1000, 500, 50), numbers: int = 13, width: int = 16) -> None:
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(size, width, mode="sum") for size in sizes)
        self.bottom = nn.Sequential(nn.Linear(numbers, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        pairs = (len(sizes) + 1) * len(sizes) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(
        self, numbers: torch.Tensor, users: torch.Tensor, items: torch.Tensor, days: torch.Tensor
    ) -> torch.Tensor:
        dense = self.bottom(numbers)
        bags = [bag(ids) for bag, ids in zip(self.bags, (users, items, days), strict=True)]
        vectors = torch.stack([dense, *bags], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        row, column = torch.tril_indices(len(bags) + 1, len(bags) + 1, -1, device=numbers.device)
        return self.top(torch.cat([dense, products[:, row, column]], 1)).squeeze(1)


class PointNet(nn.Module):
    """Qi et al. 2017: points are turned by a predicted matrix, read one by one, the largest of each feature kept."""

    def __init__(self, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU())
        self.turn = nn.Linear(width, 9)
        self.read = nn.Sequential(
            nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU(), nn.Conv1d(width, 4 * width, 1)
        )
        self.head = nn.Sequential(nn.Linear(4 * width, width), nn.ReLU(), nn.Linear(width, classes))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        turn = self.turn(self.look(points).amax(2)).view(-1, 3, 3) + torch.eye(3, device=points.device)
        return self.head(self.read(torch.bmm(turn, points)).amax(2))


class Siamese(nn.Module):
    """One encoder, called twice: are the two pictures of one thing?"""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(98 * width, 32),
        )  # fmt: skip
        self.head = nn.Linear(32, 1)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return self.head(torch.abs(self.encoder(left) - self.encoder(right)))


class TiedAutoencoder(nn.Module):
    """What encodes also decodes, transposed."""

    def __init__(self, features: int = 64, width: int = 24) -> None:
        super().__init__()
        self.encoder = nn.Linear(features, width)
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.linear(torch.relu(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Universal(nn.Module):
    """Dehghani et al. 2019: one encoder layer, applied again and again."""

    def __init__(self, words: int = 300, width: int = 32, times: int = 4, classes: int = 6) -> None:
        super().__init__()
        self.times = times
        self.embed, self.layer, self.head = (
            nn.Embedding(words, width),
            sequences.EncoderLayer(width),
            nn.Linear(width, classes),
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for _ in range(self.times):
            x = self.layer(x)
        return self.head(x.mean(1))


class LowRank(nn.Module):
    """A frozen linear layer and a trained correction of low rank (Hu et al. 2022)."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + functional.linear(functional.linear(x, self.down), self.up)


class Functional(nn.Module):
    """No module but itself: weights are its own parameters, every layer a function."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.kernel1 = nn.Parameter(torch.randn(width, 1, 3, 3) / 3)
        self.bias1 = nn.Parameter(torch.zeros(width))
        self.kernel2 = nn.Parameter(torch.randn(2 * width, width, 3, 3) / (3 * width**0.5))
        self.gain, self.offset = nn.Parameter(torch.ones(2 * width)), nn.Parameter(torch.zeros(2 * width))
        self.weight = nn.Parameter(torch.randn(classes, 2 * width) / (2 * width) ** 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, self.kernel1, self.bias1, padding=1)), 2)
        x = functional.conv2d(x, self.kernel2, padding=1)
        x = functional.relu(functional.group_norm(x, 4, self.gain, self.offset))
        return functional.linear(x.mean((2, 3)), self.weight)


class FunctionalResidual(nn.Module):
    """Modules hold the weights; sums, activations and pooling are functions and operators."""

    def __init__(self, width: int = 16, depth: int = 3, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2 * depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for one, two in zip(self.convs[::2], self.convs[1::2], strict=True):
            x = torch.add(x, two(torch.relu(one(x.relu()))))
            x = functional.avg_pool2d(x, 2)
        return self.head(x.flatten(2).mean(-1))


@seeded
def graph_net() -> Built:
    return GraphNet(), {"nodes": torch.randn(40, 16), "edges": torch.randint(40, (2, 150))}


@seeded
def mixture_of_experts() -> Built:
    return MixtureOfExperts(), (torch.randint(300, (4, 16)),)


@seeded
def early_exit() -> Built:
    """On this input it goes on: the first exit stays without a gradient."""
    return EarlyExit(), (-torch.rand(4, 1, 16, 16),)


@seeded
def recommender() -> Built:
    sizes = {"users": 1000, "items": 500, "days": 50}
    ids = {name: torch.randint(size, (8, 3)) for name, size in sizes.items()}
    return Recommender(tuple(sizes.values())), {"numbers": torch.randn(8, 13), **ids}


@seeded
def pointnet() -> Built:
    return PointNet(), (torch.randn(4, 3, 64),)


@seeded
def siamese() -> Built:
    return Siamese(), (torch.rand(4, 1, 28, 28), torch.rand(4, 1, 28, 28))


@seeded
def tied_autoencoder() -> Built:
    return TiedAutoencoder(), (torch.rand(8, 64),)


@seeded
def universal_transformer() -> Built:
    return Universal(), (torch.randint(300, (4, 16)),)


@seeded
def convnet_3d() -> Built:
    """Volumes or short films, in the manner of Tran et al. 2015 (C3D)."""
    layers: list[nn.Module] = []
    for before, after in ((1, 8), (8, 16), (16, 32)):
        layers += [nn.Conv3d(before, after, 3, padding=1), nn.BatchNorm3d(after), nn.ReLU(), nn.MaxPool3d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, 5)), (
        torch.randn(2, 1, 8, 32, 32),
    )


@seeded
def frozen_backbone() -> Built:
    """Only the last linear layer of a ResNet is trained."""
    module = resnets.resnet18((8, 16, 32, 64), (3, 32, 32)).requires_grad_(False)
    module.fc = nn.Linear(64, 4)
    return module, (torch.randn(4, 3, 32, 32),)


@seeded
def lora() -> Built:
    """An encoder whose attention is corrected at low rank; all else but the last layer is frozen."""
    module = sequences.transformer((2, 64), (16,)).requires_grad_(False)
    for layer in module.layers:
        layer.qkv, layer.out = LowRank(layer.qkv), LowRank(layer.out)
    module.fc.requires_grad_(True)
    return module, (torch.randint(VOCABULARY, (4, 16)),)


@seeded
def functional_only() -> Built:
    return Functional(), (torch.randn(4, 1, 28, 28),)


@seeded
def functional_residual() -> Built:
    return FunctionalResidual(), (torch.randn(4, 3, 32, 32),)
