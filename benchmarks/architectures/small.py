"""Four models that a CPU trains in fractions of a second, at a batch that gives it work to do."""

from __future__ import annotations

import torch
import transformers

from ampere_energy.model.families import resnets, sequences
from ampere_energy.model.families.catalogue import VOCABULARY
from benchmarks.architectures import convnets
from benchmarks.architectures.contract import Built, seeded


@seeded
def resnet18() -> Built:
    """The small-image ResNet-18 at half its widths."""
    return resnets.resnet18((32, 64, 128, 256), (3, 32, 32)), (torch.randn(16, 3, 32, 32),)


@seeded
def lstm() -> Built:
    return sequences.lstm((200, 200, 200), (64,)), (torch.randint(VOCABULARY, (16, 64)),)


@seeded
def bert() -> Built:
    """BERT of the size its authors call mini."""
    config = transformers.BertConfig(
        hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, num_labels=2
    )
    inputs = {"input_ids": torch.randint(config.vocab_size, (8, 64)), "labels": torch.randint(2, (8,))}
    return transformers.BertForSequenceClassification(config), inputs


@seeded
def mobilenet_v2() -> Built:
    return convnets.mobile_v2(classes=10), (torch.randn(8, 3, 64, 64),)
