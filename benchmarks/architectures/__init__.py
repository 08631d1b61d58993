"""One model of each architecture, which must be read right: small, but with the structure of the full model.

Each factory gives a module and the real tensors it is called with, batch first: a tuple is positional, a dict is
keyword arguments. They are written here by the papers they name (Hugging Face's come from `transformers`) and are
always the same, so that what they are parsed into is compared with `tests/golden`. `full.FULL` has full-size ones for a
card, `small` four that keep a processor busy. Models to be trained by plain loops, as a user's, are in
`benchmarks.models`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.parse import parse
from benchmarks.architectures import attention, convnets, families, huggingface, images, others, sequences
from benchmarks.architectures.contract import Built, Inputs

__all__ = ["MODELS", "Built", "Inputs", "as_it_is"]

MODELS: dict[str, Callable[[], Built]] = {
    factory.__name__: factory
    for factory in (
        families.lenet5, families.cnn5, families.har, families.lstm, families.transformer,
        families.resnet18, families.resnet50,
        convnets.vgg11, convnets.mobilenet_v2, convnets.mobilenet_v3_small, convnets.efficientnet_b0,
        convnets.convnext_tiny, convnets.densenet, convnets.se_resnet,
        images.unet, images.diffusion_unet, images.gan_generator, images.gan_discriminator,
        images.autoencoder, images.vae, images.detector,
        attention.vit, attention.swin, attention.mlp_mixer, attention.perceiver,
        sequences.gru, sequences.bilstm, sequences.seq2seq, sequences.tied_language_model, sequences.pointer,
        sequences.whisper_encoder, sequences.masked_encoder, sequences.caption_decoder, sequences.speech,
        sequences.wavenet,
        huggingface.bert, huggingface.distilbert, huggingface.roberta, huggingface.gpt2, huggingface.t5,
        huggingface.llama,
        others.graph_net, others.mixture_of_experts, others.early_exit, others.recommender, others.pointnet,
        others.siamese, others.tied_autoencoder, others.universal_transformer, others.convnet_3d,
        others.frozen_backbone, others.lora, others.functional_only, others.functional_residual,
    )
}  # fmt: skip


def as_it_is(name: str) -> ModelSpec:
    """A model parsed without widths, as `ampere profile` takes a user's factory."""
    module, inputs = MODELS[name]()
    return replace(parse(module, inputs, name=name), widths=(), follows=())
