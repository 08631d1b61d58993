"""Models a user may bring: each factory gives a module and the real tensors it is called with, batch first.

A tuple of tensors is positional, a dict is keyword arguments. Small, but with the structure of the full model;
written here by the papers they name (Hugging Face's come from `transformers`). `full.FULL` has full-size ones.
"""

from __future__ import annotations

from collections.abc import Callable

from studies.models import attention, convnets, families, huggingface, images, others, sequences
from studies.models.contract import Built, Inputs

__all__ = ["MODELS", "Built", "Inputs"]

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
