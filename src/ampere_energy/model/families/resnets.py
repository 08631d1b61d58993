"""Builders of the residual networks of He et al. 2016.

Four widths, those of the stages; 64, 128, 256, 512 is the original. The stem is as wide as the first stage, so that
all networks have the same shortcuts. In a network of bottlenecks a stage's width is that of its inner convolutions, and
the stage gives four times as many channels.
Images smaller than 64 pixels get the small stem (one 3×3 convolution, no pooling), as is usual on CIFAR.
As in torchvision's, a bottleneck strides in its 3×3 convolution.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from ampere_energy.model.families.convnets import CLASSES, chain, image

SMALL = 64


def resnet18(widths: Sequence[int], sample: Sequence[int], classes: int = CLASSES) -> nn.Module:
    """ResNet-18: 2, 2, 2, 2 basic blocks."""
    return ResNet("resnet18", Basic, (2, 2, 2, 2), widths, sample, classes)


def resnet34(widths: Sequence[int], sample: Sequence[int], classes: int = CLASSES) -> nn.Module:
    """ResNet-34: 3, 4, 6, 3 basic blocks."""
    return ResNet("resnet34", Basic, (3, 4, 6, 3), widths, sample, classes)


def resnet50(widths: Sequence[int], sample: Sequence[int], classes: int = CLASSES) -> nn.Module:
    """ResNet-50: 3, 4, 6, 3 bottlenecks."""
    return ResNet("resnet50", Bottleneck, (3, 4, 6, 3), widths, sample, classes)


def resnet101(widths: Sequence[int], sample: Sequence[int], classes: int = CLASSES) -> nn.Module:
    """ResNet-101: 3, 4, 23, 3 bottlenecks."""
    return ResNet("resnet101", Bottleneck, (3, 4, 23, 3), widths, sample, classes)


def resnet152(widths: Sequence[int], sample: Sequence[int], classes: int = CLASSES) -> nn.Module:
    """ResNet-152: 3, 8, 36, 3 bottlenecks."""
    return ResNet("resnet152", Bottleneck, (3, 8, 36, 3), widths, sample, classes)


class Basic(nn.Module):
    """Two 3×3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = _shortcut(channels, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (batch, width, rows / stride, columns / stride)."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return functional.relu(y + self.shortcut(x))


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions beside a shortcut, the last of them four times as wide."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        outer = self.expansion * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outer, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(outer)
        self.shortcut = _shortcut(channels, outer, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (batch, 4 · width, rows / stride, columns / stride)."""
        y = functional.relu(self.norm1(self.conv1(x)))
        y = functional.relu(self.norm2(self.conv2(y)))
        y = self.norm3(self.conv3(y))
        return functional.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, and a linear layer on the mean over positions."""

    def __init__(
        self,
        family: str,
        block: type[Basic] | type[Bottleneck],
        depths: Sequence[int],
        widths: Sequence[int],
        sample: Sequence[int],
        classes: int,
    ) -> None:
        super().__init__()
        channels, height, width = image(family, sample, least=8)
        stem = widths[0]
        self.stem = _small_stem(channels, stem) if min(height, width) < SMALL else _stem(channels, stem)
        self.stages = nn.ModuleList()
        before = stem
        for stage, (inner, depth) in enumerate(zip(widths, depths, strict=True)):
            blocks = nn.Sequential()
            for position in range(depth):
                blocks.append(block(before, inner, stride=2 if stage and not position else 1))
                before = block.expansion * inner
            self.stages.append(blocks)
        self.fc = nn.Linear(before, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores, of shape (batch, classes)."""
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        scores: torch.Tensor = self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return scores


def _stem(channels: int, width: int) -> nn.Module:
    return chain(
        conv=nn.Conv2d(channels, width, 7, 2, 3, bias=False), norm=nn.BatchNorm2d(width), relu=nn.ReLU(),
        pool=nn.MaxPool2d(3, 2, 1),
    )  # fmt: skip


def _small_stem(channels: int, width: int) -> nn.Module:
    return chain(
        conv=nn.Conv2d(channels, width, 3, 1, 1, bias=False), norm=nn.BatchNorm2d(width), relu=nn.ReLU()
    )  # fmt: skip


def _shortcut(channels: int, outer: int, stride: int) -> nn.Module:
    """Nothing where the shapes agree, else a 1×1 convolution (option B)."""
    if stride == 1 and channels == outer:
        return nn.Identity()
    return chain(conv=nn.Conv2d(channels, outer, 1, stride, bias=False), norm=nn.BatchNorm2d(outer))
