"""The models that parsing is tried on: they run, train, and are what their papers say."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from benchmarks.architectures import MODELS, attention, convnets
from benchmarks.architectures.contract import Inputs
from benchmarks.architectures.full import FULL

DICTS = {
    "seq2seq", "masked_encoder", "graph_net", "recommender", "bert", "distilbert", "roberta", "gpt2", "t5",
}  # fmt: skip
SEVERAL = {"diffusion_unet": 2, "siamese": 2, "caption_decoder": 2}
OWN_LOSS = {"bert", "roberta", "gpt2", "t5"}
NO_GRADIENT = {
    "early_exit": {"exit.weight", "exit.bias"},
    "wavenet": {"layers.5.stay.weight", "layers.5.stay.bias"},
}
PUBLISHED = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "mobilenet_v2": 3_504_872,
    "vgg11": 132_868_840,
    "convnext_tiny": 28_589_128,
    "densenet121": 7_978_856,
    "vit_small": 22_050_664,
    "bert_base": 109_483_778,
    "gpt2_small": 124_439_808,
}


pytestmark = pytest.mark.usefixtures("one_thread")


def call(module: nn.Module, inputs: Inputs) -> object:
    return module(**inputs) if isinstance(inputs, dict) else module(*inputs)


def tensors(inputs: Inputs) -> list[torch.Tensor]:
    return list(inputs.values()) if isinstance(inputs, dict) else list(inputs)


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_there_are_enough_of_them() -> None:
    assert len(MODELS) >= 44
    assert len(FULL) >= 12


@pytest.mark.parametrize("name", MODELS)
def test_a_model_trains(name: str) -> None:
    module, inputs = MODELS[name]()
    assert isinstance(inputs, dict) == (name in DICTS)
    if not isinstance(inputs, dict):
        assert len(inputs) == SEVERAL.get(name, 1)
    if name != "graph_net":  # its batch is its nodes, its edges come as they are
        assert len({len(x) for x in tensors(inputs)}) == 1
    out = call(module, inputs)
    assert (getattr(out, "loss", None) is not None) == (name in OWN_LOSS)
    floats = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor) and x.is_floating_point()]
    total = sum(x.sum() for x in floats)
    assert isinstance(total, torch.Tensor)
    assert total.isfinite()
    total.backward()
    without = {n for n, p in module.named_parameters() if p.requires_grad and p.grad is None}
    assert without == NO_GRADIENT.get(name, set())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_the_same_each_time(name: str) -> None:
    state = torch.get_rng_state()
    (one, read), (other, again) = MODELS[name](), MODELS[name]()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(tensors(read), tensors(again), strict=True))


def test_tied_weights_are_one_parameter() -> None:
    module, _ = MODELS["tied_language_model"]()
    assert module.head.weight is module.embed.weight  # type: ignore[union-attr]


@pytest.mark.parametrize(("name", "trained"), [("frozen_backbone", 65 * 4), ("lora", 2 * 4 * (4 * 64 + 2 * 64) + 650)])
def test_what_is_frozen_stays_frozen(name: str, trained: int) -> None:
    module, _ = MODELS[name]()
    assert sum(p.numel() for p in module.parameters() if p.requires_grad) == trained


def test_the_routing_of_experts_depends_on_the_tokens() -> None:
    module, (ids,) = MODELS["mixture_of_experts"]()  # type: ignore[misc]
    counts: list[int] = []
    for expert in module.layers[0].experts:  # type: ignore[index,union-attr]
        expert.register_forward_hook(lambda _, args, out: counts.append(len(out)))
    module(ids)
    first = list(counts)
    counts.clear()
    module(ids.flip(0) // 2)
    assert sum(first) == sum(counts) == 2 * ids.numel()
    assert first != counts


def test_a_bright_picture_leaves_early() -> None:
    module, (dark,) = MODELS["early_exit"]()  # type: ignore[misc]
    module(-dark).sum().backward()
    assert module.second.weight.grad is None  # type: ignore[union-attr]


@pytest.mark.parametrize("name", FULL)
def test_a_full_model_has_its_shape_and_published_size(name: str) -> None:
    if name.startswith("timm_"):
        pytest.importorskip("timm")
    with FakeTensorMode():  # shapes alone
        module, inputs = FULL[name](batch=2)
        assert {len(x) for x in tensors(inputs)} == {2}
        out = call(module, inputs)
    leaves = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor)]
    assert leaves
    assert all(len(x) == 2 for x in leaves if x.ndim)
    if name in PUBLISHED:
        assert parameters(module) == PUBLISHED[name]


def test_others_at_full_size_have_the_published_size() -> None:
    with torch.device("meta"):
        assert parameters(convnets.mobile_v3_small()) == 2_542_856
        assert parameters(convnets.efficient_b0()) == 5_288_548
        swin = attention.Swin(224, 4, 96, (2, 2, 6, 2), (3, 6, 12, 24), 7, 1000)
        assert parameters(swin) == 28_288_354
