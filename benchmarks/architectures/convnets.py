"""Classifiers made of convolutions, by their papers' tables; `full.py` builds the same classes at full size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

from benchmarks.architectures.contract import Built, seeded

Activation = Callable[[], nn.Module]


def unit(
    channels: int, width: int, kernel: int, stride: int = 1, groups: int = 1, act: Activation | None = nn.ReLU
) -> nn.Sequential:
    """Convolution, batch normalisation, activation: what most of these networks are made of."""
    convolution = nn.Conv2d(channels, width, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width), *([act()] if act else []))


def rounded(width: float) -> int:
    """To a multiple of 8, never more than a tenth below, as the mobile networks do."""
    near = max(8, int(width + 4) // 8 * 8)
    return near + 8 if near < 0.9 * width else near


class Vgg11(nn.Module):
    """Simonyan and Zisserman 2015, configuration A with batch normalisation."""

    def __init__(self, scale: float = 1.0, pooled: int = 7, hidden: int = 4096, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
            if not width:
                layers.append(nn.MaxPool2d(2))
                continue
            width = int(width * scale)
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(pooled)
        self.classifier = nn.Sequential(
            nn.Linear(channels * pooled**2, hidden), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout(),
            nn.Linear(hidden, classes),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


class Squeeze(nn.Module):
    """Squeeze and excitation: channels weighed by what their means say (Hu et al. 2018)."""

    def __init__(self, channels: int, inner: int, act: Activation = nn.ReLU, gate: Activation = nn.Sigmoid) -> None:
        super().__init__()
        self.reduce, self.act = nn.Conv2d(channels, inner, 1), act()
        self.expand, self.gate = nn.Conv2d(inner, channels, 1), gate()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """Inverted residual: widen by 1×1, filter depthwise, weigh, narrow by 1×1; a sum where the shapes agree."""

    def __init__(
        self,
        channels: int,
        width: int,
        kernel: int,
        stride: int,
        inner: int,
        act: Activation,
        squeeze: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *([unit(channels, inner, 1, act=act)] if inner != channels else []),
            unit(inner, inner, kernel, stride, groups=inner, act=act),
            *([squeeze] if squeeze else []),
            unit(inner, width, 1, act=None),
        )
        self.residual = stride == 1 and channels == width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class Mobile(nn.Module):
    """A stem, inverted residuals, a 1×1 convolution, the mean over positions and a classifier."""

    def __init__(self, stem: nn.Module, blocks: Sequence[nn.Module], last: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.features = nn.Sequential(stem, *blocks, last)
        self.head = head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(functional.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


def mobile_v2(scale: float = 1.0, classes: int = 1000) -> Mobile:
    """Sandler et al. 2018, table 2: expansion, channels, repeats, stride."""
    table = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    channels = first = rounded(32 * scale)
    blocks = []
    for expansion, width, repeats, stride in table:
        for position in range(repeats):
            given = rounded(width * scale)
            step = 1 if position else stride
            blocks.append(Inverted(channels, given, 3, step, expansion * channels, nn.ReLU6))
            channels = given
    last = max(1280, rounded(1280 * scale))
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))
    return Mobile(unit(3, first, 3, 2, act=nn.ReLU6), blocks, unit(channels, last, 1, act=nn.ReLU6), head)


def mobile_v3_small(classes: int = 1000) -> Mobile:
    """Howard et al. 2019, table 2: kernel, inner channels, channels, squeeze, h-swish, stride."""
    table = [
        (3, 16, 16, True, False, 2), (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
        (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
        (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1), (5, 288, 96, True, True, 2),
        (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
    ]  # fmt: skip
    channels = 16
    blocks = []
    for kernel, inner, width, squeezed, swish, stride in table:
        squeeze = Squeeze(inner, rounded(inner / 4), gate=nn.Hardsigmoid) if squeezed else None
        act = nn.Hardswish if swish else nn.ReLU
        blocks.append(Inverted(channels, width, kernel, stride, inner, act, squeeze))
        channels = width
    last = unit(channels, 6 * channels, 1, act=nn.Hardswish)
    head = nn.Sequential(nn.Linear(6 * channels, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, classes))
    return Mobile(unit(3, 16, 3, 2, act=nn.Hardswish), blocks, last, head)


def efficient_b0(classes: int = 1000) -> Mobile:
    """Tan and Le 2019, table 1: expansion, kernel, channels, repeats, stride; no stochastic depth."""
    table = [
        (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2),
        (6, 5, 112, 3, 1), (6, 5, 192, 4, 2), (6, 3, 320, 1, 1),
    ]  # fmt: skip
    channels = 32
    blocks = []
    for expansion, kernel, width, repeats, stride in table:
        for position in range(repeats):
            inner = expansion * channels
            squeeze = Squeeze(inner, channels // 4, act=nn.SiLU)
            blocks.append(Inverted(channels, width, kernel, 1 if position else stride, inner, nn.SiLU, squeeze))
            channels = width
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))
    return Mobile(unit(3, 32, 3, 2, act=nn.SiLU), blocks, unit(channels, 1280, 1, act=nn.SiLU), head)


class ChannelNorm(nn.LayerNorm):
    """Normalisation over the channels of an image."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """Depthwise 7×7, then two linear layers a position, scaled and added."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """Liu et al. 2022."""

    def __init__(self, depths: Sequence[int], widths: Sequence[int], classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0], eps=1e-6))
        self.stages = nn.ModuleList()
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            before = widths[max(0, stage - 1)]
            reduce = [ChannelNorm(before, eps=1e-6), nn.Conv2d(before, width, 2, 2)] if stage else []
            self.stages.append(nn.Sequential(*reduce, *(ConvNextBlock(width) for _ in range(depth))))
        self.norm, self.head = nn.LayerNorm(widths[-1], eps=1e-6), nn.Linear(widths[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(self.norm(x.mean((-2, -1))))


class DenseLayer(nn.Module):
    """A bottleneck of two convolutions; what it finds is put beside what it read."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(functional.relu(self.norm2(y)))], 1)


class DenseNet(nn.Module):
    """Huang et al. 2017, with bottlenecks and transitions that halve the channels."""

    def __init__(self, depths: Sequence[int], growth: int, stem: nn.Module, channels: int, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(stem)
        for stage, depth in enumerate(depths):
            for _ in range(depth):
                self.features.append(DenseLayer(channels, growth))
                channels += growth
            self.features.append(nn.BatchNorm2d(channels))
            if stage < len(depths) - 1:
                narrow = nn.Conv2d(channels, channels // 2, 1, bias=False)
                self.features.append(nn.Sequential(nn.ReLU(), narrow, nn.AvgPool2d(2)))
                channels //= 2
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(functional.adaptive_avg_pool2d(functional.relu(self.features(x)), 1).flatten(1))


class SeBlock(nn.Module):
    """A basic residual block with squeeze and excitation before the sum."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(channels, width, 3, stride), unit(width, width, 3, act=None))
        self.squeeze = Squeeze(width, width // 4)
        same = stride == 1 and channels == width
        self.shortcut = nn.Identity() if same else unit(channels, width, 1, stride, act=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.squeeze(self.body(x)) + self.shortcut(x))


@seeded
def vgg11() -> Built:
    return Vgg11(scale=0.5, pooled=1, hidden=256, classes=10), (torch.randn(4, 3, 32, 32),)


@seeded
def mobilenet_v2() -> Built:
    return mobile_v2(classes=10), (torch.randn(4, 3, 64, 64),)


@seeded
def mobilenet_v3_small() -> Built:
    return mobile_v3_small(classes=10), (torch.randn(4, 3, 64, 64),)


@seeded
def efficientnet_b0() -> Built:
    return efficient_b0(classes=10), (torch.randn(4, 3, 64, 64),)


@seeded
def convnext_tiny() -> Built:
    return ConvNext((2, 2, 4, 2), (24, 48, 96, 192), classes=10), (torch.randn(4, 3, 64, 64),)


@seeded
def densenet() -> Built:
    stem = nn.Conv2d(3, 24, 3, padding=1, bias=False)
    return DenseNet((3, 4, 3), 12, stem, 24, classes=10), (torch.randn(4, 3, 32, 32),)


@seeded
def se_resnet() -> Built:
    blocks = [SeBlock(16, 16, 1), SeBlock(16, 32, 2), SeBlock(32, 32, 1), SeBlock(32, 64, 2), SeBlock(64, 64, 1)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return nn.Sequential(unit(3, 16, 3), *blocks, head), (torch.randn(4, 3, 32, 32),)
