"""Builders of the convolutional families."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from ampere_energy.errors import ModelError

CLASSES = 10


def lenet5(widths: Sequence[int], sample: Sequence[int]) -> nn.Module:
    """LeNet-5 (LeCun et al. 1998) with ReLU and max pooling; 6, 16, 120, 84 is the original."""
    c1, c2, f1, f2 = widths
    channels, height, width = image("lenet5", sample, least=12)
    rows, columns = (height // 2 - 4) // 2, (width // 2 - 4) // 2
    return chain(
        conv1=nn.Conv2d(channels, c1, 5, padding=2), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(c1, c2, 5), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2), flatten=nn.Flatten(),
        fc1=nn.Linear(c2 * rows * columns, f1), relu3=nn.ReLU(),
        fc2=nn.Linear(f1, f2), relu4=nn.ReLU(),
        fc3=nn.Linear(f2, CLASSES),
    )  # fmt: skip


def cnn5(widths: Sequence[int], sample: Sequence[int]) -> nn.Module:
    """The five-layer network of the recorded H200 data: conv, conv+BN pooled, conv+BN, conv+BN pooled, linear."""
    c1, c2, c3, c4 = widths
    channels, height, width = image("cnn5", sample, least=8)
    return chain(
        conv1=nn.Conv2d(channels, c1, 3, padding=1), relu1=nn.ReLU(), pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(c1, c2, 3, padding=1), norm2=nn.BatchNorm2d(c2), relu2=nn.ReLU(), pool2=nn.MaxPool2d(2),
        conv3=nn.Conv2d(c2, c3, 3, padding=1), norm3=nn.BatchNorm2d(c3), relu3=nn.ReLU(),
        conv4=nn.Conv2d(c3, c4, 3, padding=1), norm4=nn.BatchNorm2d(c4), relu4=nn.ReLU(), pool4=nn.MaxPool2d(2),
        flatten=nn.Flatten(),
        fc=nn.Linear(c4 * (height // 8) * (width // 8), CLASSES),
    )  # fmt: skip


def chain(**modules: nn.Module) -> nn.Module:
    """Named modules, one after the other."""
    return nn.Sequential(OrderedDict(modules))


def image(family: str, sample: Sequence[int], least: int) -> tuple[int, int, int]:
    """Channels, height and width of an image sample, none of them too small."""
    if len(sample) != 3 or min(sample[1:]) < least:
        raise ModelError(
            f"{family} cannot read samples of shape {tuple(sample)}",
            f"give --input batch,channels,height,width with images of at least {least}×{least}",
        )
    channels, height, width = sample
    return channels, height, width
