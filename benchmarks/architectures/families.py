"""The paper's six families through the package's builders, at widths below the originals' where those are slow."""

from __future__ import annotations

import torch

from ampere_energy.model.families import convnets, resnets, sequences
from ampere_energy.model.families.catalogue import VOCABULARY
from benchmarks.architectures.contract import Built, seeded

ORIGINAL = (64, 128, 256, 512)


@seeded
def lenet5() -> Built:
    return convnets.lenet5((6, 16, 120, 84), (1, 28, 28)), (torch.randn(4, 1, 28, 28),)


@seeded
def cnn5() -> Built:
    return convnets.cnn5((16, 32, 64, 64), (1, 28, 28)), (torch.randn(4, 1, 28, 28),)


@seeded
def har() -> Built:
    return sequences.har((64, 128, 256, 128), (9, 128)), (torch.randn(4, 9, 128),)


@seeded
def lstm() -> Built:
    return sequences.lstm((48, 64, 32), (24,)), (torch.randint(VOCABULARY, (4, 24)),)


@seeded
def transformer() -> Built:
    return sequences.transformer((3, 64), (32,)), (torch.randint(VOCABULARY, (4, 32)),)


@seeded
def resnet18() -> Built:
    return resnets.resnet18(ORIGINAL, (3, 32, 32)), (torch.randn(4, 3, 32, 32),)


@seeded
def resnet50() -> Built:
    return resnets.resnet50(ORIGINAL, (3, 64, 64)), (torch.randn(2, 3, 64, 64),)
