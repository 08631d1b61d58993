"""Transformers and their relatives, written with torch alone."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class _Classifier(nn.Module):
    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(4000, width)
        self.position = nn.Parameter(0.02 * torch.randn(48, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.out = nn.Linear(width, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.encoder(self.embed(tokens) + self.position[: tokens.shape[1]]).mean(dim=1))


def transformer_classifier(width: int = 64, depth: int = 2, heads: int = 4) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Text classifier on `nn.TransformerEncoder`."""
    return _Classifier(width, depth, heads), (torch.randint(0, 4000, (16, 48)),)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class _ViTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = _Attention(width, heads, causal=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class _VisionTransformer(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, patch: int = 8, side: int = 48) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
        self.blocks = nn.Sequential(*(_ViTBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.out(self.norm(self.blocks(x))[:, 0])


def vision_transformer(width: int = 96, depth: int = 3, heads: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """ViT on 48×48 images with 8×8 patches and a class token."""
    return _VisionTransformer(width, depth, heads), (torch.randn(8, 3, 48, 48),)


class _MixerBlock(nn.Module):
    def __init__(self, width: int, patches: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.places = nn.Sequential(nn.Linear(patches, 2 * patches), nn.GELU(), nn.Linear(2 * patches, patches))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.places(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class _Mixer(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.Sequential(*(_MixerBlock(width, 64) for _ in range(depth)), nn.LayerNorm(width))
        self.out = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.out(self.blocks(self.patches(images).flatten(2).transpose(1, 2)).mean(dim=1))


def mlp_mixer(width: int = 64, depth: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """MLP-Mixer on 32×32 images: one perceptron across patches, one across channels."""
    return _Mixer(width, depth), (torch.randn(8, 3, 32, 32),)


class _RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6)


class _DecoderBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = _RMSNorm(width), _RMSNorm(width)
        self.attention = _Attention(width, heads, causal=True)
        self.up = nn.Linear(width, 6 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * value)


class _CausalDecoder(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, words: int = 512, length: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(_DecoderBlock(width, heads) for _ in range(depth))
        self.norm = _RMSNorm(width)
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def causal_decoder(width: int = 64, depth: int = 3, heads: int = 4) -> tuple[nn.Module, dict[str, Tensor]]:
    """Decoder-only language model: causal attention, RMS norm, gated feed-forward."""
    return _CausalDecoder(width, depth, heads), {"tokens": torch.randint(0, 512, (8, 64))}


class _Translator(nn.Module):
    def __init__(self, width: int, depth: int, words: int = 600) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.transformer = nn.Transformer(width, 4, depth, depth, 2 * width, 0.1, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        return self.out(self.transformer(self.embed(source), self.embed(target), tgt_mask=mask))


def translator(width: int = 64, depth: int = 2) -> tuple[nn.Module, dict[str, Tensor]]:
    """Encoder and decoder of `nn.Transformer` with cross-attention."""
    return _Translator(width, depth), {
        "source": torch.randint(0, 600, (8, 32)),
        "target": torch.randint(0, 600, (8, 24)),
    }


class _Pooler(nn.Module):
    def __init__(self, width: int, depth: int, heads: int, latents: int = 16) -> None:
        super().__init__()
        self.points = nn.Sequential(nn.Linear(6, width), nn.GELU(), nn.Linear(width, width))
        self.latents = nn.Parameter(0.02 * torch.randn(latents, width))
        self.read = nn.MultiheadAttention(width, heads, batch_first=True)
        self.blocks = nn.Sequential(*(_ViTBlock(width, heads) for _ in range(depth)))
        self.out = nn.Linear(width, 8)

    def forward(self, points: Tensor) -> Tensor:
        memory = self.points(points)
        latents = self.latents.expand(points.shape[0], -1, -1)
        read, _ = self.read(latents, memory, memory, need_weights=False)
        return self.out(self.blocks(latents + read).mean(dim=1))


def point_set_attention(width: int = 64, depth: int = 2, heads: int = 4) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Learned latents that read a set of 256 points by cross-attention, then attend to each other."""
    return _Pooler(width, depth, heads), (torch.randn(16, 256, 6),)
