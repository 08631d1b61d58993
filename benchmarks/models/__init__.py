"""Models of a user who knows nothing of AMPERE: what builds each, what it may be varied in, how it is trained.

The modules import torch and transformers alone. Each factory takes integer arguments and gives a module with one batch
of inputs, drawn anew at each call, batch first; a processor trains a step in milliseconds. `hardware/own_loop.py`
estimates them and `hardware/plain_loop.py` trains them. Models that reading is tried on are in
`benchmarks.architectures`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["CARD", "MODELS", "Model"]


@dataclass(frozen=True)
class Model:
    """One factory as `FILE:FUNCTION` from the repository's root.

    `vary` says which argument takes which values: LOW:HIGH, LOW:HIGH:STEP or a comma list. `others` are argument sets
    within these, other than the defaults, to predict and then to measure.
    """

    factory: str
    vary: tuple[str, ...]
    others: tuple[dict[str, int], ...]
    optimizer: str = "sgd"
    precision: str = "fp32"


def _model(place: str, vary: str, *others: str, optimizer: str = "sgd") -> tuple[str, Model]:
    """A row of the table: `convnets:vgg_like`, the varied arguments, and other values of them in the same order."""
    module, name = place.split(":")
    axes = tuple(vary.split())
    arguments = [axis.partition("=")[0] for axis in axes]
    sets = tuple(dict(zip(arguments, map(int, other.split()), strict=True)) for other in others)
    return name, Model(f"benchmarks/models/{module}.py:{name}", axes, sets, optimizer)


MODELS: dict[str, Model] = dict(
    [
        _model("convnets:plain_cnn", "width=16:48:8 depth=2:4 kernel=3,5", "24 2 5", "40 4 3", "48 3 3"),
        _model(
            "convnets:vgg_like", "width=8:32:4 depth=1:3 kernel=3,5", "16 3 3", "28 1 5", "12 2 5", optimizer="momentum"
        ),
        _model(
            "convnets:preact_resnet", "width=8:24:4 depth=1:3 kernel=3,5", "12 3 3", "20 1 5", "24 2 3",
            optimizer="momentum",
        ),
        _model("convnets:bottleneck_resnet", "width=8:24:4 depth=1:3", "12 3", "20 1", "24 2"),
        _model("convnets:densenet_like", "growth=8:16:4 depth=2:6 kernel=3,5", "8 6 3", "16 3 3", "8 3 5"),
        _model(
            "convnets:mobilenet_like", "width=8:24:4 depth=1:3 kernel=3,5", "12 3 3", "20 1 5", "24 2 3",
            optimizer="adam",
        ),
        _model("convnets:efficientnet_like", "width=8:24:4 depth=1:3 kernel=3,5", "12 3 3", "20 1 5", "8 2 5"),
        _model(
            "convnets:convnext_like", "width=16:48:8 depth=1:3 kernel=3,5,7", "24 3 7", "40 1 5", "48 2 3",
            optimizer="adamw",
        ),
        _model("convnets:inception_like", "width=8:24:4 branches=2:4 depth=2:4", "12 4 2", "20 2 4", "24 3 2"),
        _model("convnets:shufflenet_like", "width=32:64:8 depth=2:4", "32 4", "40 2", "64 3"),
        _model("convnets:conv3d_net", "width=4:12:2 depth=2:3 kernel=3,5", "6 3 5", "10 2 3", "12 3 3"),
        _model("images:unet", "width=4:12:2 depth=2:4", "6 4", "10 2", "12 3", optimizer="adam"),
        _model("images:conv_autoencoder", "width=8:24:4 depth=2:4 kernel=3,5", "12 4 3", "20 2 5", "24 3 3"),
        _model(
            "images:variational_autoencoder", "width=256:768:64 latent=16:64:16 depth=1:3", "320 16 3", "640 48 1",
            "384 64 2", optimizer="adam",
        ),
        _model("images:gan_discriminator", "width=8:24:4 depth=2:4 kernel=3,5", "12 4 3", "20 2 5", "24 3 3"),
        _model("images:detector", "width=16:48:8 scales=2:4 depth=1:2", "24 4 1", "40 2 2", "16 3 2"),
        _model("images:super_resolution", "width=16:32:4 depth=2:5 kernel=3,5", "16 5 3", "28 2 3", "20 3 5"),
        _model("tabular:mlp_regression", "width=128:512:64 depth=2:5", "192 5", "384 2", "448 3"),
        _model(
            "tabular:wide_and_deep", "width=128:384:64 depth=2:4 embedding=8:32:8", "192 4 8", "320 2 24", "384 3 32",
        ),
        _model(
            "tabular:cross_network", "width=128:512:64 depth=1:3 crosses=1:4", "192 3 4", "384 1 2", "448 2 1",
            optimizer="adam",
        ),
        _model("tabular:siamese", "width=16:48:8 depth=2:4", "24 4", "40 2", "48 3"),
        _model("tabular:dense_mixture", "width=96:288:32 experts=2:6 depth=1:3", "128 6 2", "256 2 3", "288 4 1"),
        _model("sequences:gru_classifier", "width=32:96:16 depth=1:3", "48 3", "80 1", "96 2"),
        _model("sequences:bilstm_tagger", "width=32:96:16 depth=1:2", "48 2", "80 1", "96 2", optimizer="adam"),
        _model("sequences:seq2seq_attention", "width=32:96:16 depth=1:2", "48 2", "80 1", "96 2"),
        _model("sequences:packed_gru", "width=32:80:16 depth=1:2", "32 2", "64 1", "80 2"),
        _model("sequences:lstm_language_model", "width=32:96:16 depth=1:3", "48 3", "80 1", "96 2"),
        _model("sequences:text_cnn", "width=32:96:16 branches=2:4", "48 4", "80 2", "96 3"),
        _model(
            "sequences:speech_encoder", "width=32:96:16 depth=1:3 convs=2:4", "48 3 2", "80 1 3", "96 2 4",
            optimizer="adamw",
        ),
        _model("sequences:wavenet", "width=16:48:8 depth=3:7 kernel=2,3", "24 7 2", "40 4 3", "48 5 2"),
        _model("sequences:temporal_conv_net", "width=16:48:8 depth=2:5 kernel=3,5", "24 5 3", "40 3 5", "48 2 3"),
        _model("attention:transformer_classifier", "width=32:96:16 depth=1:3 heads=2,4", "48 3 4", "80 1 2", "96 2 4"),
        _model(
            "attention:vision_transformer", "width=48:144:24 depth=2:4 heads=2,3,6", "72 4 6", "120 2 3", "144 3 2",
            optimizer="adamw",
        ),
        _model("attention:mlp_mixer", "width=32:96:16 depth=2:4", "48 4", "80 2", "96 3"),
        _model(
            "attention:causal_decoder", "width=32:96:16 depth=2:4 heads=2,4", "48 4 4", "80 2 2", "96 3 2",
            optimizer="adamw",
        ),
        _model("attention:translator", "width=32:96:16 depth=1:3", "48 3", "80 1", "96 2", optimizer="adam"),
        _model("attention:point_set_attention", "width=32:96:16 depth=1:4 heads=2,4", "48 4 2", "80 1 4", "96 3 4"),
        _model(
            "huggingface:bert", "width=32:96:16 depth=1:3 heads=2,4", "48 3 4", "80 1 2", "96 2 4", optimizer="adamw"
        ),
        _model("huggingface:distilbert", "width=32:96:16 depth=1:3 heads=2,4", "48 3 4", "80 1 2", "96 2 4"),
        _model(
            "huggingface:gpt2", "width=32:96:16 depth=1:3 heads=2,4", "48 3 4", "80 1 2", "96 2 4", optimizer="adamw"
        ),
        _model("huggingface:llama", "width=32:96:16 depth=1:3 heads=2,4", "48 3 4", "80 1 2", "96 2 4"),
        _model("huggingface:t5", "width=32:96:16 depth=1:3", "48 3", "80 1", "96 2", optimizer="adamw"),
        _model("huggingface:hf_vit", "width=32:96:16 depth=1:3 heads=2,4", "48 3 4", "80 1 2", "96 2 4"),
        _model("huggingface:hf_resnet", "width=8:24:4 depth=1:3", "12 3", "20 1", "24 2", optimizer="momentum"),
        _model("adapted:lora_decoder", "width=64:128:16 depth=2:4 rank=2:8:2", "80 4 8", "112 2 2", "128 3 6"),
        _model("adapted:frozen_backbone", "width=16:48:8 depth=1:3", "24 3", "40 1", "48 2", optimizer="momentum"),
        _model("adapted:last_layers_encoder", "width=64:128:16 depth=3:5 trained=1:3", "80 5 3", "112 3 2", "128 4 1"),
        _model("graphs:graph_convolution", "width=48:144:16 depth=2:4", "64 4", "112 2", "144 3"),
        _model("graphs:message_passing", "width=32:64:8 depth=1:3", "40 3", "56 1", "64 2", optimizer="adam"),
    ]
)  # fmt: skip


def _on_card(name: str, optimizer: str, precision: str, **arguments: int) -> tuple[str, tuple[Model, dict[str, int]]]:
    return name, (replace(MODELS[name], optimizer=optimizer, precision=precision), arguments)


CARD = dict(
    [
        _on_card("densenet_like", "sgd", "fp32", growth=32, depth=6),
        _on_card("bilstm_tagger", "sgd", "fp32", width=256, depth=2),
        _on_card("efficientnet_like", "adamw", "bf16", width=32, depth=3),
        _on_card("preact_resnet", "momentum", "fp32", width=64, depth=3),
        _on_card("vision_transformer", "adamw", "bf16", width=384, depth=4, heads=6),
        _on_card("gpt2", "adamw", "bf16", width=256, depth=4, heads=4),
        _on_card("unet", "adam", "fp32", width=32, depth=4),
        _on_card("gru_classifier", "sgd", "fp32", width=256, depth=2),
        _on_card("convnext_like", "adamw", "bf16", width=96, depth=3),
        _on_card("bert", "adamw", "fp32", width=256, depth=4, heads=4),
        _on_card("mobilenet_like", "adam", "bf16", width=32, depth=3),
        _on_card("wavenet", "sgd", "fp32", width=96, depth=7),
        _on_card("t5", "adamw", "fp32", width=256, depth=3),
        _on_card("translator", "adam", "bf16", width=256, depth=3),
    ]
)
"""Wider than a processor would like, each with one setting: an optimizer and a precision."""
