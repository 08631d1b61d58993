"""Models at full size, for the real GPU: each takes `batch=` and gives what `MODELS` gives.

timm's are imported when they are built: it is installed on the lent machine alone. No weights are downloaded.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from torch import nn

from ampere_energy.model.families import resnets
from benchmarks.architectures import attention, convnets, images, sequences
from benchmarks.architectures.contract import Built, seeded

IMAGE, CLASSES, WORDS = 224, 1000, 10_000
ORIGINAL = (64, 128, 256, 512)


def pictures(batch: int) -> tuple[torch.Tensor]:
    return (torch.randn(batch, 3, IMAGE, IMAGE),)


@seeded
def resnet18(*, batch: int = 128) -> Built:
    return resnets.resnet18(ORIGINAL, (3, IMAGE, IMAGE), CLASSES), pictures(batch)


@seeded
def resnet50(*, batch: int = 64) -> Built:
    return resnets.resnet50(ORIGINAL, (3, IMAGE, IMAGE), CLASSES), pictures(batch)


@seeded
def mobilenet_v2(*, batch: int = 128) -> Built:
    return convnets.mobile_v2(classes=CLASSES), pictures(batch)


@seeded
def vgg11(*, batch: int = 64) -> Built:
    return convnets.Vgg11(classes=CLASSES), pictures(batch)


@seeded
def convnext_tiny(*, batch: int = 64) -> Built:
    return convnets.ConvNext((3, 3, 9, 3), (96, 192, 384, 768), CLASSES), pictures(batch)


@seeded
def densenet121(*, batch: int = 64) -> Built:
    convolution = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
    stem = nn.Sequential(convolution, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    return convnets.DenseNet((6, 12, 24, 16), 32, stem, 64, CLASSES), pictures(batch)


@seeded
def vit_small(*, batch: int = 64) -> Built:
    """ViT-S/16."""
    return attention.Vit(IMAGE, patch=16, width=384, depth=12, heads=6, classes=CLASSES), pictures(batch)


@seeded
def unet(*, batch: int = 16) -> Built:
    return images.UNet(width=64, levels=4), (torch.randn(batch, 3, 256, 256),)


@seeded
def bert_base(*, batch: int = 32, steps: int = 128) -> Built:
    """A classifier that returns its loss; no mask, as for texts cut to one length."""
    config = transformers.BertConfig(num_labels=2)
    inputs = {"input_ids": torch.randint(config.vocab_size, (batch, steps)), "labels": torch.randint(2, (batch,))}
    return transformers.BertForSequenceClassification(config), inputs


@seeded
def gpt2_small(*, batch: int = 8, steps: int = 512) -> Built:
    """A language model that returns its loss."""
    config = transformers.GPT2Config()
    words = torch.randint(config.vocab_size, (batch, steps))
    return transformers.GPT2LMHeadModel(config), {"input_ids": words, "labels": words}


@seeded
def lstm_language_model(*, batch: int = 64, steps: int = 128) -> Built:
    module = sequences.LanguageModel(WORDS, 1024, 1024, layers=2, tied=False)
    return module, (torch.randint(WORDS, (batch, steps)),)


@seeded
def timm_efficientnet_b0(*, batch: int = 64) -> Built:
    return _timm("efficientnet_b0"), pictures(batch)


@seeded
def timm_swin_tiny(*, batch: int = 64) -> Built:
    return _timm("swin_tiny_patch4_window7_224"), pictures(batch)


def _timm(name: str) -> nn.Module:
    import timm

    return timm.create_model(name, pretrained=False, num_classes=CLASSES)


FULL: dict[str, Callable[..., Built]] = {
    factory.__name__: factory
    for factory in (
        resnet18, resnet50, mobilenet_v2, vgg11, convnext_tiny, densenet121, vit_small, unet, bert_base, gpt2_small,
        lstm_language_model, timm_efficientnet_b0, timm_swin_tiny,
    )
}  # fmt: skip
