from __future__ import annotations

import copy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from ampere_energy.errors import ModelError, RequestError, WidthError
from ampere_energy.model import groups as module_under_test
from ampere_energy.model.groups import Group, groups, narrowed, recurrent, some
from ampere_energy.model.load import load
from ampere_energy.model.parse import parse_groups, parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.variants import block_points
from benchmarks.architectures.images import diffusion_unet, unet

pytestmark = pytest.mark.usefixtures("one_thread")
IMAGES = torch.randn(4, 3, 16, 16)


class Branches(nn.Module):
    """A residual sum, a concatenation, a depthwise and a grouped convolution, and a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1)
        self.norm = nn.BatchNorm2d(12)
        self.inner = nn.Conv2d(12, 20, 1)
        self.depthwise = nn.Conv2d(20, 20, 3, padding=1, groups=20)
        self.outer = nn.Conv2d(20, 12, 1)
        self.side = nn.Conv2d(12, 8, 1)
        self.grouped = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.fc = nn.Linear(20, 5)
        self.side.weight.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.stem(x)).relu()
        y = self.outer(self.depthwise(self.inner(x)).relu()) + x
        z = self.grouped(self.side(y)).relu()
        scores: torch.Tensor = self.fc(torch.cat((y, z), 1).mean((2, 3)))
        return scores


def by_name(found: tuple[Group, ...]) -> dict[str, Group]:
    return {group.name: group for group in found}


def test_what_goes_together() -> None:
    model = Branches()
    found = by_name(groups(model, (IMAGES,)))
    assert {name: (group.size, group.parts) for name, group in found.items()} == {
        "stem": (12, 1),
        "inner": (20, 1),
        "side": (8, 4),
        "grouped": (8, 4),
    }
    layers = {name: {share.layer for share in group.shares} for name, group in found.items()}
    assert layers["stem"] == {"stem", "norm", "inner", "outer", "side", "fc"}
    assert layers["inner"] == {"inner", "depthwise", "outer"}
    read = next(share for share in found["grouped"].shares if share.layer == "fc")
    assert read.indices == tuple((12 + channel,) for channel in range(8))  # after what it is concatenated to


def test_channels_that_do_nothing_are_not_missed() -> None:
    """Of a model whose removed channels give zero, the narrowed copy computes the same."""
    torch.manual_seed(0)
    model = Branches().eval()
    found = by_name(groups(model, (IMAGES,)))
    assert model.training is False
    with torch.no_grad():
        for layer, gone in ((model.stem, [0, 7, 11]), (model.outer, [0, 7, 11]), (model.inner, [3, 19])):
            assert layer.bias is not None
            layer.weight[gone] = 0
            layer.bias[gone] = 0
        assert model.depthwise.bias is not None
        model.depthwise.bias[[3, 19]] = 0
    kept = {
        "stem": [c for c in range(12) if c not in (0, 7, 11)],
        "inner": [c for c in range(20) if c not in (3, 19)],
        "side": range(8),
        "grouped": range(8),
    }
    before = copy.deepcopy(model.state_dict())
    narrow = narrowed(model, tuple(found.values()), [kept[name] for name in found])
    torch.testing.assert_close(narrow(IMAGES), model(IMAGES), atol=1e-5, rtol=1e-5)
    assert (narrow.stem.out_channels, narrow.depthwise.groups, narrow.fc.in_features) == (9, 18, 17)
    assert [name for name, p in narrow.named_parameters() if not p.requires_grad] == ["side.weight"]
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_parts_stay_equal() -> None:
    group = by_name(groups(Branches(), (IMAGES,)))["side"]
    assert group.best([5, 1, 1, 5, 2, 3, 0, 9], 4) == [0, 3, 5, 7]  # the better of each two
    with pytest.raises(WidthError, match="side with 6 channels; give multiples of 4 up to its 8"):
        some(group, 6)


def test_heads_stay_equal() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 48, dropout=0.0, batch_first=True), 2)
    model = nn.Sequential(nn.Linear(6, 32), encoder, nn.Linear(32, 3))
    found = groups(model, (torch.randn(2, 5, 6),))
    assert sorted((group.size, group.parts) for group in found) == [(32, 4), (48, 1), (48, 1)]
    narrow = narrowed(model, found, [some(group, group.size // 2) for group in found])
    assert narrow[1].layers[0].self_attn.embed_dim == 16
    assert narrow(torch.randn(2, 5, 6)).shape == (2, 5, 3)


def test_what_a_recurrent_layer_reads_stays() -> None:
    loaded = load(model_ref("lstm"))
    assert groups(loaded.module, loaded.inputs) == ()
    assert recurrent(loaded.module) == ["LSTM"]


class Mixed(nn.Module):
    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(4, 16, 3, padding=1), nn.Conv1d(16, 24, 3, padding=1)
        self.steps = layer(24, 12, batch_first=True)  # type: ignore[arg-type]
        self.third, self.last = nn.Linear(12, 20), nn.Linear(20, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.steps(self.second(self.first(x).relu()).transpose(1, 2))
        scores: torch.Tensor = self.last(self.third(y[:, -1]).relu())
        return scores


def test_a_model_is_pruned_around_its_lstm() -> None:
    inputs = (torch.randn(4, 4, 10),)
    assert [group.name for group in groups(Mixed(nn.LSTM), inputs)] == ["first", "third"]
    with pytest.raises(ModelError, match=r"cannot follow the channels of Mixed \(it has GRU layers\)"):
        groups(Mixed(nn.GRU), inputs)


def test_a_graph_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_under_test, "_PATIENCE_S", 0.3)
    model, inputs = diffusion_unet()
    with pytest.raises(ModelError, match="comes to no end in following the channels of"):
        groups(model, inputs)


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_pruning", None)
    with pytest.raises(RequestError, match=r"torch-pruning is not installed; pip install 'ampere-energy\[prune\]'"):
        groups(Branches(), (IMAGES,))


def test_a_model_that_cannot_be_traced_is_named() -> None:
    class Strange(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ZeroDivisionError("seven")

    with pytest.raises(ModelError, match=r"cannot trace Strange \(ZeroDivisionError: seven\)"):
        groups(Strange(), (IMAGES,))


@pytest.mark.parametrize("name", ["unet", "branches"])
def test_blocks_follow_the_groups(name: str) -> None:
    """What is told at full width from slightly narrower copies is what a much narrower copy really has."""
    model, inputs = unet() if name == "unet" else (Branches(), (IMAGES,))
    found = groups(model, inputs)
    spec = parse_groups(model, inputs, found)
    assert spec.widths == tuple(group.size for group in found)
    followed = {width for axes in spec.follows for width, _ in axes}
    assert followed == {place for place, group in enumerate(found) if group.size > 2 * group.parts}
    half = [g.size // 2 // g.parts * g.parts if place in followed else g.size for place, g in enumerate(found)]
    narrow = parse_groups(model, inputs, found, half)
    assert [block.kind for block in narrow.blocks] == [block.kind for block in spec.blocks]
    assert [block.point for block in narrow.blocks] == block_points(spec, half)
    assert max(len(block.point) for block in spec.blocks) <= 4
    parameters = sum(
        p.numel() for p in narrowed(model, found, [some(g, w) for g, w in zip(found, half, strict=True)]).parameters()
    )
    assert sum(block.parameters for block in narrow.blocks) == parameters


def test_a_chain_is_read_as_ever() -> None:
    ref = model_ref("lenet5")
    pruned = replace(ref, widths=(3, 8, 60, 42), pruned=ref.widths)
    assert parse_ref(pruned).blocks == parse_ref(replace(ref, widths=(3, 8, 60, 42))).blocks
    assert str(pruned) == "lenet5[6,16,120,84] pruned to 3,8,60,42"
    assert pruned.original == ref


def test_a_pruned_reference_is_built() -> None:
    original = model_ref("resnet18", widths=(16, 24, 32, 40), input=(2, 3, 32, 32))
    found = groups(load(original).module, load(original).inputs)
    ref = ModelRef(
        "resnet18", tuple(g.size // 2 for g in found), (2, 3, 32, 32), original.training, (), original.widths
    )
    module = load(ref).module
    assert module.stages[3][1].conv1.weight.shape == (20, 20, 3, 3)
    with pytest.raises(WidthError, match="has 12 groups of channels, not 2"):
        load(replace(ref, widths=(8, 8)))


def test_a_group_the_model_counts_on_is_followed_by_none() -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.Linear(6, 16), nn.Linear(16, 10), nn.Linear(10, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.third(self.second(self.first(x).view(-1, 16)).relu())
            return scores

    model, inputs = Fixed(), (torch.randn(4, 6),)
    found = groups(model, inputs)
    spec = parse_groups(model, inputs, found)
    assert [group.name for group in found] == ["first", "second"]
    assert {width for axes in spec.follows for width, _ in axes} == {1}


def test_a_broken_torch_pruning_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As where a folder beside the model has the name of a package that it imports."""
    (tmp_path / "torch_pruning.py").write_text("raise AttributeError(\"module 'timm' has no attribute 'models'\")\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch_pruning", raising=False)
    with pytest.raises(
        RequestError, match=r"cannot be imported \(module 'timm' has .*; is there a folder with the name"
    ):
        groups(nn.Linear(2, 2), (torch.zeros(1, 2),))
