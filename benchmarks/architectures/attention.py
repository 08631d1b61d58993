"""Images read by attention or mixing rather than by convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from benchmarks.architectures.contract import Built, seeded


class Mlp(nn.Module):
    """Two linear layers."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.up(x)))


class Attention(nn.Module):
    """What `x` gathers from `context`, or from itself."""

    def __init__(self, width: int, heads: int, context: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(width, width), nn.Linear(context or width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor | None = None, causal: bool = False) -> torch.Tensor:
        q, k, v = (self.split(y) for y in (self.q(x), *self.kv(x if context is None else context).chunk(2, -1)))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class PreNorm(nn.Module):
    """Attention and two linear layers, each normalised before and added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """Dosovitskiy et al. 2021: patches, a class token, learned positions, an encoder."""

    def __init__(self, image: int, patch: int, width: int, depth: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*(PreNorm(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.layers(x))[:, 0])


class WindowAttention(nn.Module):
    """Attention inside windows, with a learned bias for each relative position and a mask where windows wrap."""

    position: torch.Tensor
    mask: torch.Tensor | None

    def __init__(self, width: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        cell = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = cell[:, :, None] - cell[:, None, :] + window - 1
        self.register_buffer("position", apart[0] * (2 * window - 1) + apart[1])
        self.register_buffer("mask", self.walls(size) if shift else None)

    def walls(self, size: int) -> torch.Tensor:
        """Minus infinity, nearly, between positions of one window that were not neighbours before the shift."""
        along = torch.arange(size)
        region = (along >= size - self.window).long() + (along >= size - self.shift).long()
        regions = self.windows((3 * region[:, None] + region)[None, :, :, None]).squeeze(-1)
        return (regions[:, None, :] != regions[:, :, None]) * -100.0

    def windows(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, columns, width = x.shape
        x = x.view(batch, rows // self.window, self.window, columns // self.window, self.window, width)
        return x.transpose(2, 3).reshape(-1, self.window**2, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, columns, width = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        q, k, v = self.qkv(self.windows(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.bias[self.position].permute(2, 0, 1)[None]
        if self.mask is not None:
            bias = bias + self.mask.repeat(batch, 1, 1)[:, None]
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(len(q), -1, -1, -1))
        y = self.out(y.transpose(1, 2).flatten(2)).view(batch, rows // self.window, -1, self.window, self.window, width)
        y = y.transpose(2, 3).reshape(batch, rows, columns, width)
        return torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y


class SwinBlock(nn.Module):
    """Attention in windows and two linear layers."""

    def __init__(self, width: int, heads: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), WindowAttention(width, heads, size, window, shift)
        self.norm2, self.mlp = nn.LayerNorm(width), Mlp(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Merge(nn.Module):
    """Four neighbours become one position of twice the width."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        corners = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        return self.reduce(self.norm(torch.cat(corners, -1)))


class Swin(nn.Module):
    """Liu et al. 2021: windows, every second layer of them shifted by half."""

    def __init__(
        self, image: int, patch: int, width: int, depths: Sequence[int], heads: Sequence[int], window: int, classes: int
    ) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, width, patch, patch), nn.LayerNorm(width)
        size = image // patch
        self.stages = nn.Sequential()
        for stage, (depth, split) in enumerate(zip(depths, heads, strict=True)):
            if stage:
                self.stages.append(Merge(width))
                width, size = 2 * width, size // 2
            for layer in range(depth):
                shift = window // 2 if layer % 2 and size > window else 0
                self.stages.append(SwinBlock(width, split, size, window, shift))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.patches(x).permute(0, 2, 3, 1))
        return self.head(self.last(self.stages(x)).mean((1, 2)))


class Mixer(nn.Module):
    """One layer of Tolstikhin et al. 2021: mix positions, then channels."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.norm1, self.across = nn.LayerNorm(width), Mlp(positions, 2 * positions)
        self.norm2, self.along = nn.LayerNorm(width), Mlp(width, 4 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norm2(x))


class MlpMixer(nn.Module):
    """Patches, mixer layers, mean, classes."""

    def __init__(self, image: int, patch: int, width: int, depth: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.Sequential(*(Mixer((image // patch) ** 2, width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


class Perceiver(nn.Module):
    """Jaegle et al. 2021: a few learned latents question a long input, twice with the same weights."""

    def __init__(self, features: int, latents: int, width: int, classes: int) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, width) * 0.02)
        self.norm = nn.LayerNorm(features)
        self.ask = Attention(width, 1, context=features)
        self.think = nn.Sequential(PreNorm(width, 4), PreNorm(width, 4))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        context = self.norm(x)
        y = self.latents.expand(x.shape[0], -1, -1)
        for _ in range(2):
            y = self.think(y + self.ask(y, context))
        return self.head(y.mean(1))


@seeded
def vit() -> Built:
    return Vit(image=32, patch=8, width=64, depth=4, heads=4, classes=10), (torch.randn(4, 3, 32, 32),)


@seeded
def swin() -> Built:
    module = Swin(image=32, patch=2, width=32, depths=(2, 2), heads=(2, 4), window=4, classes=10)
    return module, (torch.randn(2, 3, 32, 32),)


@seeded
def mlp_mixer() -> Built:
    return MlpMixer(image=32, patch=8, width=64, depth=3, classes=10), (torch.randn(4, 3, 32, 32),)


@seeded
def perceiver() -> Built:
    return Perceiver(features=20, latents=8, width=48, classes=10), (torch.randn(2, 200, 20),)
