"""Networks of which only a part is trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _LowRank(nn.Module):
    """A frozen linear layer plus a trained product of two thin matrices."""

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        super().__init__()
        self.frozen = frozen
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.frozen(x) + 2.0 * self.up(self.down(x))


class _Block(nn.Module):
    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        q, k, v = (
            layer(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class _Decoder(nn.Module):
    def __init__(self, width: int, depth: int, words: int = 512) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(0.02 * torch.randn(48, width))
        self.blocks = nn.ModuleList(_Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def lora_decoder(width: int = 96, depth: int = 3, rank: int = 4) -> tuple[nn.Module, dict[str, Tensor]]:
    """Frozen decoder whose query and value layers have trained low-rank adapters."""
    model = _Decoder(width, depth).requires_grad_(False)
    for block in model.blocks:
        block.query = _LowRank(block.query, rank)
        block.value = _LowRank(block.value, rank)
    return model, {"tokens": torch.randint(0, 512, (8, 48))}


class _FrozenBackbone(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for stage in range(3):
            for index in range(depth):
                stride = 2 if index == 0 else 1
                layers += [
                    nn.Conv2d(channels, width * 2**stage, 3, stride, 1, bias=False),
                    nn.BatchNorm2d(width * 2**stage),
                    nn.ReLU(inplace=True),
                ]
                channels = width * 2**stage
        self.backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()).requires_grad_(False)
        self.head = nn.Sequential(nn.Linear(channels, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 20))

    def train(self, mode: bool = True) -> _FrozenBackbone:
        super().train(mode)
        self.backbone.eval()  # the statistics of its batch norms are frozen too
        return self

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.backbone(images))


def frozen_backbone(width: int = 32, depth: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Frozen convolutions in evaluation mode below a trained head."""
    return _FrozenBackbone(width, depth), (torch.randn(16, 3, 64, 64),)


class _PartlyFrozenEncoder(nn.Module):
    def __init__(self, width: int, depth: int, trained: int) -> None:
        super().__init__()
        self.inputs = nn.Linear(20, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, norm_first=True) for _ in range(depth)
        )
        for layer in (self.inputs, *list(self.layers)[: depth - trained]):
            layer.requires_grad_(False)
        self.out = nn.Linear(width, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inputs(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(dim=1))


def last_layers_encoder(width: int = 96, depth: int = 4, trained: int = 1) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Transformer encoder of which only the last `trained` layers and the head are trained."""
    return _PartlyFrozenEncoder(width, depth, trained), (torch.randn(8, 64, 20),)
