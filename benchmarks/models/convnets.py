"""Convolutional classifiers, from a plain stack of convolutions to ConvNeXt blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _conv_norm_act(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act=nn.ReLU) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


def plain_cnn(width: int = 32, depth: int = 3, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`depth` convolutions, each followed by ReLU and pooling, then a two-layer head."""
    layers: list[nn.Module] = []
    channels = 3
    for level in range(depth):
        layers += [nn.Conv2d(channels, width * (level + 1), kernel, padding=kernel // 2), nn.ReLU(), nn.MaxPool2d(2)]
        channels = width * (level + 1)
    side = 32 // 2**depth
    layers += [nn.Flatten(), nn.Linear(channels * side * side, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers), (torch.randn(16, 3, 32, 32),)


def vgg_like(width: int = 24, depth: int = 2, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Four stages of `depth` convolutions; the width doubles and the image halves at each stage."""
    layers: list[nn.Module] = []
    channels = 3
    for stage in range(4):
        for _ in range(depth):
            layers += [nn.Conv2d(channels, width * 2**stage, kernel, padding=kernel // 2), nn.ReLU(inplace=True)]
            channels = width * 2**stage
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(channels * 4, 256), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(256, 100)]
    return nn.Sequential(*layers, nn.Flatten(), *head), (torch.randn(8, 3, 32, 32),)


class _PreActivationBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, kernel: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, kernel, 1, kernel // 2, bias=False)
        self.shortcut = None if inputs == outputs and stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = torch.relu(self.norm1(x))
        kept = x if self.shortcut is None else self.shortcut(active)
        return kept + self.conv2(torch.relu(self.norm2(self.conv1(active))))


def preact_resnet(width: int = 16, depth: int = 2, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Pre-activation residual network for 32×32 images: three stages of `depth` blocks."""
    blocks: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
    channels = width
    for stage in range(3):
        for index in range(depth):
            outputs = width * 2**stage
            blocks.append(_PreActivationBlock(channels, outputs, 2 if stage and index == 0 else 1, kernel))
            channels = outputs
    head = [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]
    return nn.Sequential(*blocks, *head), (torch.randn(12, 3, 32, 32),)


class _Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.reduce = _conv_norm_act(inputs, width, 1)
        self.spatial = _conv_norm_act(width, width, 3, stride)
        self.expand = nn.Sequential(nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if inputs != outputs or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.expand(self.spatial(self.reduce(x))) + self.shortcut(x))


def bottleneck_resnet(width: int = 16, depth: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """ResNet-50's layout in small: a strided stem, then four stages of `depth` bottleneck blocks."""
    layers: list[nn.Module] = [_conv_norm_act(3, width, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage in range(4):
        for index in range(depth):
            layers.append(_Bottleneck(channels, width * 2**stage, 2 if stage and index == 0 else 1))
            channels = 4 * width * 2**stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100)), (
        torch.randn(8, 3, 64, 64),
    )


class _DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int, kernel: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False))
        self.grow = nn.Sequential(
            nn.BatchNorm2d(4 * growth),
            nn.ReLU(),
            nn.Conv2d(4 * growth, growth, kernel, padding=kernel // 2, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.grow(self.squeeze(x))], dim=1)


def densenet_like(growth: int = 12, depth: int = 4, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Three dense blocks of `depth` layers that each add `growth` channels; transitions halve both sides."""
    channels = 2 * growth
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, 2, 1, bias=False)]
    for block in range(3):
        for _ in range(depth):
            layers.append(_DenseLayer(channels, growth, kernel))
            channels += growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        if block < 2:
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)), (
        torch.randn(16, 3, 32, 32),
    )


class _InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, kernel: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.body = nn.Sequential(
            _conv_norm_act(inputs, hidden, 1, act=nn.ReLU6),
            _conv_norm_act(hidden, hidden, kernel, stride, groups=hidden, act=nn.ReLU6),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_like(width: int = 16, depth: int = 2, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Inverted residuals with depthwise convolutions: three stages of `depth` blocks that expand four times."""
    layers: list[nn.Module] = [_conv_norm_act(3, width, 3, 2, act=nn.ReLU6)]
    channels = width
    for stage in range(3):
        outputs = width * (stage + 1)
        for index in range(depth):
            layers.append(_InvertedResidual(channels, outputs, 2 if index == 0 else 1, kernel, expansion=4))
            channels = outputs
    layers += [_conv_norm_act(channels, 4 * channels, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(4 * channels, 100)), (torch.randn(8, 3, 64, 64),)


class _SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Conv2d(channels, max(channels // 8, 1), 1)
        self.up = nn.Conv2d(max(channels // 8, 1), channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        gate = x.mean(dim=(2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(nn.functional.silu(self.down(gate))))


class _MBConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, kernel: int) -> None:
        super().__init__()
        hidden = 4 * inputs
        self.expand = _conv_norm_act(inputs, hidden, 1, act=nn.SiLU)
        self.depthwise = _conv_norm_act(hidden, hidden, kernel, stride, groups=hidden, act=nn.SiLU)
        self.excite = _SqueezeExcite(hidden)
        self.project = nn.Sequential(nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.excite(self.depthwise(self.expand(x))))
        return x + y if self.residual else y


def efficientnet_like(width: int = 16, depth: int = 2, kernel: int = 5) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """MBConv blocks with squeeze-and-excite and SiLU: three stages of `depth` blocks."""
    layers: list[nn.Module] = [_conv_norm_act(3, width, 3, 2, act=nn.SiLU)]
    channels = width
    for stage in range(3):
        outputs = width * 2**stage
        for index in range(depth):
            layers.append(_MBConv(channels, outputs, 2 if index == 0 else 1, kernel))
            channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100)), (
        torch.randn(8, 3, 48, 48),
    )


class _ConvNeXtBlock(nn.Module):
    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 1e-1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(nn.functional.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext_like(width: int = 32, depth: int = 2, kernel: int = 7) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A 4×4 patch stem, then three stages of `depth` ConvNeXt blocks."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, 4)]
    for stage in range(3):
        if stage:
            layers.append(nn.Conv2d(width * 2 ** (stage - 1), width * 2**stage, 2, 2))
        layers += [_ConvNeXtBlock(width * 2**stage, kernel) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(4 * width), nn.Linear(4 * width, 100)]
    return nn.Sequential(*layers, *head), (torch.randn(8, 3, 64, 64),)


class _Inception(nn.Module):
    def __init__(self, inputs: int, width: int, branches: int) -> None:
        super().__init__()
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(inputs, width, 1))
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(inputs, width, 1), nn.ReLU(), nn.Conv2d(width, width, 2 * i + 1, padding=i))
            for i in range(branches)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(torch.cat([self.pooled(x), *(branch(x) for branch in self.branches)], dim=1))


def inception_like(width: int = 16, branches: int = 3, depth: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`depth` Inception modules whose `branches` convolutions have kernels 1, 3, 5, … beside a pooling branch."""
    layers: list[nn.Module] = [_conv_norm_act(3, width, 3, 2)]
    channels = width
    for _ in range(depth):
        layers.append(_Inception(channels, width, branches))
        channels = width * (branches + 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)), (
        torch.randn(16, 3, 32, 32),
    )


class _ShuffleUnit(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(
            _conv_norm_act(half, half, 1),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False),
            nn.BatchNorm2d(half),
            _conv_norm_act(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, dim=1)
        y = torch.stack([kept, self.body(changed)], dim=2)  # interleaves the halves: the channel shuffle
        return y.flatten(1, 2)


def shufflenet_like(width: int = 48, depth: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Three stages of `depth` units that work on half of the channels and shuffle them."""
    layers: list[nn.Module] = [_conv_norm_act(3, width, 3, 2)]
    for stage in range(3):
        layers += [_ShuffleUnit(width * 2**stage) for _ in range(depth)]
        layers.append(_conv_norm_act(width * 2**stage, width * 2 ** (stage + 1), 3, 2, groups=2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 100)), (
        torch.randn(8, 3, 48, 48),
    )


def conv3d_net(width: int = 8, depth: int = 3, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """3-D convolutions on short clips (channels, frames, height, width)."""
    layers: list[nn.Module] = []
    channels = 3
    for level in range(depth):
        outputs = width * 2**level
        layers += [
            nn.Conv3d(channels, outputs, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
            nn.MaxPool3d((1, 2, 2) if level == 0 else 2),
        ]
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(channels, 20)), (
        torch.randn(4, 3, 8, 32, 32),
    )
