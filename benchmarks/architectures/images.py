"""Networks that give images, boxes or codes rather than one class: skips, upsampling, several inputs and outputs."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from benchmarks.architectures.contract import Built, seeded
from benchmarks.architectures.convnets import unit


def double(channels: int, width: int) -> nn.Sequential:
    return nn.Sequential(unit(channels, width, 3), unit(width, width, 3))


class UNet(nn.Module):
    """Ronneberger et al. 2015 with padding and batch normalisation: down, up, and what was seen on the way down."""

    def __init__(self, width: int = 64, levels: int = 4, channels: int = 3, classes: int = 2) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels + 1)]
        self.first = double(channels, width)
        self.down = nn.ModuleList(double(a, b) for a, b in pairwise(widths))
        narrowing = list(pairwise(reversed(widths)))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in narrowing)
        self.join = nn.ModuleList(double(a, b) for a, b in narrowing)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = [self.first(x)]
        for down in self.down:
            seen.append(down(functional.max_pool2d(seen[-1], 2)))
        x = seen.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([seen.pop(), up(x)], 1))
        return self.last(x)


class TimeBlock(nn.Module):
    """A residual block of a diffusion network, told the time."""

    def __init__(self, channels: int, width: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, channels), nn.Conv2d(channels, width, 3, padding=1)
        self.time = nn.Linear(time, width)
        self.norm2, self.conv2 = nn.GroupNorm(8, width), nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, width, 1) if channels != width else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x)))
        y = y + self.time(functional.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(functional.silu(self.norm2(y)))


class PixelAttention(nn.Module):
    """Self-attention among positions."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, rows, columns = x.shape
        split = self.qkv(self.norm(x)).view(batch, 3, self.heads, channels // self.heads, rows * columns)
        q, k, v = split.transpose(-1, -2).unbind(1)
        y = functional.scaled_dot_product_attention(q, k, v).transpose(-1, -2)
        return x + self.out(y.reshape(batch, channels, rows, columns))


class DiffusionUNet(nn.Module):
    """A small noise predictor in the manner of Ho et al. 2020: an image and its time step in, the noise out."""

    def __init__(self, width: int = 32, channels: int = 3) -> None:
        super().__init__()
        self.width, time = width, 4 * width
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(channels, width, 3, padding=1)
        self.down1, self.reduce = TimeBlock(width, width, time), nn.Conv2d(width, width, 3, 2, 1)
        self.down2, self.attend = TimeBlock(width, 2 * width, time), PixelAttention(2 * width, 4)
        self.middle = TimeBlock(2 * width, 2 * width, time)
        self.up2 = TimeBlock(4 * width, width, time)
        self.up1 = TimeBlock(2 * width, width, time)
        self.norm, self.last = nn.GroupNorm(8, width), nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        rates = torch.exp(-math.log(10_000) * torch.arange(self.width // 2, device=x.device) / (self.width // 2))
        angles = t[:, None] * rates
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        wide = self.down1(self.first(x), time)
        narrow = self.attend(self.down2(self.reduce(wide), time))
        y = self.up2(torch.cat([narrow, self.middle(narrow, time)], 1), time)
        y = functional.interpolate(y, scale_factor=2, mode="nearest")
        y = self.up1(torch.cat([wide, y], 1), time)
        return self.last(functional.silu(self.norm(y)))


class Vae(nn.Module):
    """A convolutional variational autoencoder: the picture again, and the mean and spread of its code."""

    def __init__(self, width: int = 16, code: int = 20) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2, 1), nn.ReLU(), nn.Flatten()
        )
        self.mean, self.spread = nn.Linear(98 * width, code), nn.Linear(98 * width, code)
        self.decoder = nn.Sequential(
            nn.Linear(code, 98 * width), nn.ReLU(), nn.Unflatten(1, (2 * width, 7, 7)),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = self.encoder(x)
        mean, spread = self.mean(y), self.spread(y)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * spread)
        return self.decoder(code), mean, spread


class Detector(nn.Module):
    """A pyramid that predicts boxes at three scales: one head, shared, and a list of outputs."""

    def __init__(self, width: int = 16, outputs: int = 18) -> None:
        super().__init__()
        widths = (width, 2 * width, 4 * width, 8 * width)
        self.stem = unit(3, width, 3, 2, act=nn.SiLU)
        self.stages = nn.ModuleList(unit(a, b, 3, 2, act=nn.SiLU) for a, b in pairwise(widths))
        self.lateral = nn.ModuleList(nn.Conv2d(b, 2 * width, 1) for b in widths[1:])
        self.head = nn.Sequential(unit(2 * width, 2 * width, 3, act=nn.SiLU), nn.Conv2d(2 * width, outputs, 1))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = self.stem(x)
        levels = []
        for stage, lateral in zip(self.stages, self.lateral, strict=True):
            x = stage(x)
            levels.append(lateral(x))
        merged = [levels[-1]]
        for level in levels[-2::-1]:
            merged.append(level + functional.interpolate(merged[-1], size=level.shape[-2:], mode="nearest"))
        return [self.head(level) for level in merged]


@seeded
def unet() -> Built:
    return UNet(width=16, levels=3), (torch.randn(2, 3, 64, 64),)


@seeded
def diffusion_unet() -> Built:
    return DiffusionUNet(), (torch.randn(2, 3, 16, 16), torch.randint(1000, (2,)))


@seeded
def gan_generator() -> Built:
    """The generator of Radford et al. 2016 (DCGAN): from 64 numbers to 32×32 pixels."""
    layers: list[nn.Module] = [nn.Unflatten(1, (64, 1, 1))]
    for before, after, stride, padding in ((64, 128, 1, 0), (128, 64, 2, 1), (64, 32, 2, 1)):
        transposed = nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False)
        layers += [transposed, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
    layers += [nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh()]
    return nn.Sequential(*layers), (torch.randn(4, 64),)


@seeded
def gan_discriminator() -> Built:
    """Strided convolutions whose weights are divided by their spectral norm at each call (Miyato et al. 2018)."""
    layers: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        layers += [spectral_norm(nn.Conv2d(before, after, 4, 2, 1)), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 1)), (torch.randn(4, 3, 32, 32),)


@seeded
def autoencoder() -> Built:
    encoder = [nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 32), nn.ReLU()]
    decoder = [nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 784), nn.Sigmoid(), nn.Unflatten(1, (1, 28, 28))]
    return nn.Sequential(*encoder, *decoder), (torch.rand(8, 1, 28, 28),)


@seeded
def vae() -> Built:
    return Vae(), (torch.rand(4, 1, 28, 28),)


@seeded
def detector() -> Built:
    return Detector(), (torch.randn(2, 3, 64, 64),)
