"""The families' builders: shapes, published sizes, one step of training, samples they cannot read."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ampere_energy.errors import ModelError
from ampere_energy.model.families import resnets, sequences
from ampere_energy.model.families.catalogue import FAMILIES, VOCABULARY, Family
from ampere_energy.model.families.convnets import CLASSES
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref

ORIGINAL = (64, 128, 256, 512)
NARROW = {18: (6, 8, 10, 12), 50: (3, 4, 5, 6)}


pytestmark = pytest.mark.usefixtures("one_thread")


def whole_network(family: Family, widths: tuple[int, ...], sample: tuple[int, ...]) -> nn.Module:
    place, _, name = family.builder.partition(":")
    module = getattr(import_module(place), name)(widths, sample)
    assert isinstance(module, nn.Module)
    return module


def example(batch: int, sample: tuple[int, ...], tokens: bool) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, *sample)) if tokens else torch.randn(batch, *sample)


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("name", FAMILIES)
def test_smallest_and_random_members_train_a_step(name: str) -> None:
    family = FAMILIES[name]
    sample = family.input[1:]
    for widths in (tuple(r.low for r in family.ranges), *family.sample(1, seed=0)):
        module = whole_network(family, widths, sample)
        before = [p.detach().clone() for p in module.parameters()]
        scores = module(example(2, sample, tokens=family.tokens > 0))
        assert scores.shape == (2, sequences.ACTIVITIES if name == "har" else CLASSES)
        F.cross_entropy(scores, torch.tensor([0, 1])).backward()
        assert all(p.grad is not None for p in module.parameters())
        torch.optim.SGD(module.parameters(), lr=1.0).step()
        assert any(not torch.equal(p, old) for p, old in zip(module.parameters(), before, strict=True))


@pytest.mark.parametrize("layers", [18, 34, 50, 101, 152])
def test_resnets_have_the_published_number_of_parameters(layers: int) -> None:
    published = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
    with torch.device("meta"):
        module = getattr(resnets, f"resnet{layers}")(ORIGINAL, (3, 224, 224), classes=1000)
        assert parameters(module) == published[layers]
        assert module(torch.empty(2, 3, 224, 224)).shape == (2, 1000)


def test_a_small_image_keeps_its_size_through_the_stem() -> None:
    small, large = (resnets.resnet18(NARROW[18], (3, size, size)) for size in (32, 64))
    assert small.stem(torch.randn(1, 3, 32, 32)).shape == (1, 6, 32, 32)  # type: ignore[operator]
    assert large.stem(torch.randn(1, 3, 64, 64)).shape == (1, 6, 16, 16)  # type: ignore[operator]


def test_a_bottleneck_stage_gives_four_times_its_width() -> None:
    module = resnets.resnet50(NARROW[50], (3, 32, 32))
    x = module.stem(torch.randn(1, 3, 32, 32))  # type: ignore[operator]
    for stage, width, size in zip(module.stages, (3, 4, 5, 6), (32, 16, 8, 4), strict=True):  # type: ignore[arg-type]
        x = stage(x)
        assert x.shape == (1, 4 * width, size, size)


def test_an_encoder_layer_computes_what_torch_computes() -> None:
    ours, theirs = sequences.EncoderLayer(32), nn.TransformerEncoderLayer(32, 8, 128, dropout=0.0, batch_first=True)
    names = {
        "qkv.weight": "self_attn.in_proj_weight", "qkv.bias": "self_attn.in_proj_bias",
        "out.weight": "self_attn.out_proj.weight", "out.bias": "self_attn.out_proj.bias",
        "up.weight": "linear1.weight", "up.bias": "linear1.bias",
        "down.weight": "linear2.weight", "down.bias": "linear2.bias",
        **{f"{norm}.{part}": f"{norm}.{part}" for norm in ("norm1", "norm2") for part in ("weight", "bias")},
    }  # fmt: skip
    state = theirs.state_dict()
    ours.load_state_dict({mine: state[their] for mine, their in names.items()})
    x = torch.randn(3, 5, 32)
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_encoder_of_the_base_transformer_has_the_published_size() -> None:
    layer = parameters(sequences.EncoderLayer(512))
    assert layer == 4 * 512 * 513 + 512 * 2048 + 2048 + 2048 * 512 + 512 + 2 * 1024
    module = sequences.transformer((6, 512), (128,))
    assert parameters(module) == VOCABULARY * 512 + 128 * 512 + 6 * layer + 513 * CLASSES


def test_an_lstm_has_torchs_four_gates_a_layer() -> None:
    def gates(before: int, after: int) -> int:
        return 4 * after * (before + after + 2)

    module = sequences.lstm((20, 30, 40), (7,))
    assert parameters(module) == VOCABULARY * 20 + gates(20, 30) + gates(30, 40) + 41 * CLASSES


@pytest.mark.parametrize(("builder", "widths"), [(sequences.lstm, (8, 6)), (sequences.transformer, (2, 16))])
def test_series_of_numbers_are_read_through_a_linear_layer(builder: object, widths: tuple[int, ...]) -> None:
    module = builder(widths, (12, 5), classes=3)  # type: ignore[operator]
    assert module(torch.randn(4, 12, 5)).shape == (4, 3)
    assert isinstance(module.embed, nn.Linear)


@pytest.mark.parametrize(
    ("name", "sample", "remedy"),
    [
        ("har", (9,), "batch,signals,steps"),
        ("har", (9, 7), "at least 8 steps"),
        ("lstm", (4, 4, 4), "batch,steps for token ids"),
        ("transformer", (), "batch,steps,features"),
        ("resnet18", (32, 32), "batch,channels,height,width"),
        ("resnet50", (3, 7, 32), "at least 8×8"),
    ],
)
def test_samples_that_cannot_be_read(name: str, sample: tuple[int, ...], remedy: str) -> None:
    family = FAMILIES[name]
    with pytest.raises(ModelError, match="cannot read samples") as caught:
        whole_network(family, family.largest, sample)
    assert remedy in caught.value.remedy


def test_families_of_token_ids_know_their_vocabulary() -> None:
    tokens = {name: family.tokens for name, family in FAMILIES.items() if family.tokens}
    assert tokens == {"lstm": VOCABULARY, "transformer": VOCABULARY}


def test_a_hidden_size_that_heads_do_not_divide() -> None:
    with pytest.raises(ModelError, match="multiple of 8"):
        sequences.transformer((2, 60), (16,))


@pytest.mark.parametrize(
    ("name", "taps"),
    [("lenet5", (25, 25, 1, 1, 1)), ("har", (5, 5, 5, 1, 1)), ("lstm", (1,) * 4), ("resnet18", (9,) * 9 + (1,))],
)
def test_taps_are_those_of_the_convolutions(name: str, taps: tuple[int, ...]) -> None:
    assert tuple(block.kind.taps for block in parse_ref(model_ref(name)).blocks) == taps
