from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from ampere_energy.model.build import build
from ampere_energy.model.kinds import Kind
from ampere_energy.model.layers import Layer, layer
from ampere_energy.model.parse import parse
from ampere_energy.model.recipes import Recipe, recipe
from ampere_energy.model.record import record
from ampere_energy.model.splitting import cut, extract

pytestmark = pytest.mark.usefixtures("one_thread")


def first(model: nn.Module, *shape: int) -> Recipe | None:
    """The recipe of a model's first piece."""
    tape = record(model, (torch.randn(shape),))
    return recipe(extract(tape, cut(tape))[0])


def then(*modules: nn.Module) -> nn.Module:
    """Modules, and a last layer that closes the chain behind them."""
    return nn.Sequential(*modules, nn.Flatten(), nn.LazyLinear(3))


def made(*modules: nn.Module, shape: tuple[int, ...]) -> Recipe | None:
    model = then(*modules)
    model(torch.zeros(shape))
    return first(model, *shape)


CONV = {"kernel": (3, 3), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "bias": True}


@pytest.mark.parametrize(
    ("modules", "shape", "layers"),
    [
        ([nn.Linear(5, 7, bias=False), nn.ReLU()], (2, 5), [layer("linear", bias=False), layer("relu")]),
        ([nn.Conv2d(3, 4, 3)], (2, 3, 9, 9), [layer("conv2d", **CONV)]),
        (
            [nn.Conv2d(3, 4, 3, 2, 1, 2, bias=False), nn.BatchNorm2d(4, affine=False)],
            (2, 3, 9, 9),
            [
                layer("conv2d", **{**CONV, "stride": (2, 2), "padding": (1, 1), "dilation": (2, 2), "bias": False}),
                layer("batch_norm", affine=False),
            ],
        ),
        (
            [nn.Conv2d(3, 4, (3, 5), padding="same", dilation=(2, 1))],
            (2, 3, 9, 9),
            [layer("conv2d", **{**CONV, "kernel": (3, 5), "padding": (2, 2), "dilation": (2, 1)})],
        ),
        ([nn.Conv2d(3, 4, 3, padding="valid")], (2, 3, 9, 9), [layer("conv2d", **CONV)]),
        (
            [nn.Conv1d(3, 4, 3), nn.MaxPool1d(2), nn.Dropout(0.3), nn.LeakyReLU(0.2)],
            (2, 3, 9),
            [
                layer("conv1d", kernel=(3,), stride=(1,), padding=(0,), dilation=(1,), bias=True),
                layer("max_pool1d", kernel=(2,), stride=(2,), padding=(0,), dilation=(1,), ceil_mode=False),
                layer("dropout", p=0.3),
                layer("leaky_relu", negative_slope=0.2),
            ],
        ),
        (
            [nn.Conv2d(3, 4, 3), nn.AvgPool2d(3, 2, 1, ceil_mode=True), nn.GELU("tanh")],
            (2, 3, 9, 9),
            [
                layer("conv2d", **CONV),
                layer("avg_pool2d", kernel=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(1, 1), ceil_mode=True),
                layer("gelu", approximate="tanh"),
            ],
        ),
        (
            [nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d((None, 2))],
            (2, 3, 9, 9),
            [layer("conv2d", **CONV), layer("adaptive_avg_pool2d", size=(7, 2))],
        ),
        ([nn.Linear(5, 7), nn.LayerNorm(7)], (2, 5), [layer("linear", bias=True), layer("layer_norm", affine=True)]),
        (
            [nn.Conv3d(3, 4, 1), nn.BatchNorm3d(4)],
            (2, 3, 2, 3, 4),
            [
                layer("conv3d", kernel=(1,) * 3, stride=(1,) * 3, padding=(0,) * 3, dilation=(1,) * 3, bias=True),
                layer("batch_norm", affine=True),
            ],
        ),
    ],
)
def test_pieces_with_a_recipe(modules: list[nn.Module], shape: tuple[int, ...], layers: list[Layer]) -> None:
    found = made(*modules, shape=shape)
    assert found is not None
    assert (found.reads, found.input_grad, found.ends) == (shape, False, False)
    assert list(found.layers) == [*layers, *[layer("flatten")] * (len(shape) > 2)]


class Rectified(nn.Module):
    """A linear layer, and whatever a test does with it."""

    def __init__(self, function: Callable[..., Any], weight: nn.Module | None = None) -> None:
        super().__init__()
        self.fc, self.last, self.function = weight or nn.Linear(5, 5), nn.Linear(5, 2), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(self.fc, x))


def frozen(module: nn.Module) -> nn.Module:
    return module.requires_grad_(False)


class Eval(nn.BatchNorm1d):
    """Batch normalisation by running statistics, also in training: it costs less than the other."""

    def train(self, mode: bool = True) -> nn.Module:
        return super().train(False)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (then(nn.Conv2d(4, 4, 3, groups=2)), (2, 4, 9, 9)),
        (then(nn.ConvTranspose2d(4, 4, 3)), (2, 4, 9, 9)),
        (then(nn.Conv2d(3, 4, 4, padding="same")), (2, 3, 9, 9)),  # pads one side more than the other
        (then(nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")), (2, 3, 9, 9)),
        (then(nn.Linear(5, 7)), (2, 4, 5)),
        (then(nn.Linear(5, 7), nn.PReLU()), (2, 5)),
        (then(nn.Linear(5, 7), Eval(7)), (2, 5)),
        (then(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4)), (2, 3, 9, 9)),
        (then(frozen(nn.Linear(5, 7))), (2, 5)),
        (Rectified(lambda fc, x: fc(x) + x), (2, 5)),
        (Rectified(lambda fc, x: fc(x).square()), (2, 5)),
        (Rectified(lambda fc, x: torch.relu(fc(x)) * 2), (2, 5)),
        (Rectified(lambda fc, x: functional.linear(x, fc.weight * 2)), (2, 5)),
        (Rectified(lambda fc, x: fc(fc(x))), (2, 5)),
        (Rectified(lambda fc, x: fc(x).view(5, 2).view(2, 5)), (2, 5)),
    ],
)
def test_pieces_without_one(model: nn.Module, shape: tuple[int, ...]) -> None:
    model(torch.zeros(shape))
    tape = record(model, (torch.randn(shape),))
    found = [recipe(program) for program in extract(tape, cut(tape))]
    assert None in (found[:-1] or found)


def last(loss: Callable[..., torch.Tensor], *shape: int) -> Recipe | None:
    class Ends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(5, 3)

        def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return loss(self.fc(x), target)

    target = torch.zeros(shape) if len(shape) == 2 else torch.zeros(shape, dtype=torch.long)
    tape = record(Ends(), (torch.randn(4, 5), target))
    return recipe(extract(tape, cut(tape))[-1])


def test_a_recipe_may_end_in_the_usual_losses_only() -> None:
    usual = last(functional.cross_entropy, 4)
    assert usual is not None
    assert usual.ends
    assert usual.layers == (layer("linear", bias=True), layer("cross_entropy"))
    squares = last(functional.mse_loss, 4, 3)
    assert squares is not None
    assert squares.layers[-1] == layer("mse")
    for unusual in (
        lambda y, t: functional.cross_entropy(y, t, label_smoothing=0.1),
        lambda y, t: functional.cross_entropy(y, t, weight=torch.ones(3)),
        lambda y, t: functional.cross_entropy(y, t) * 2,
        lambda y, t: functional.nll_loss(y.log_softmax(1), t),
    ):
        assert last(unusual, 4) is None


def test_the_count_of_batches_is_part_of_batch_normalisation() -> None:
    found = made(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), shape=(2, 3, 9, 9))
    assert found is not None
    assert [step.op for step in found.layers] == ["conv2d", "batch_norm", "relu", "flatten"]


def test_a_recipe_knows_what_it_reads_and_gives() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(24, 2))
    tape = record(model, (torch.randn(5, 3, 10, 10),))
    found = [recipe(program) for program in extract(tape, cut(tape))]
    assert [(r.reads, r.gives, r.input_grad) for r in found if r is not None] == [
        ((5, 3, 10, 10), (5, 4, 8, 8), False),
        ((5, 4, 4, 4), (5, 6, 2, 2), True),
        ((5, 24), (5, 2), True),
    ]


@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(3, 4, (3, 5), padding="same", dilation=(2, 1)),
        nn.Conv2d(3, 4, 3, stride=2, padding=1, dilation=2),
        nn.Conv2d(3, 4, 4, padding="valid"),
    ],
)
@pytest.mark.parametrize(
    "pool", [nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AvgPool2d(2), nn.AdaptiveMaxPool2d(2), nn.MaxPool2d(2, 1, 0, 2)]
)
def test_what_is_built_from_a_recipe_computes_the_same(convolution: nn.Module, pool: nn.Module) -> None:
    model = nn.Sequential(convolution, nn.BatchNorm2d(4), nn.ELU(0.5), pool, nn.Flatten(), nn.LazyLinear(3))
    x = torch.randn(2, 3, 17, 18)
    model(x)
    spec = parse(model, x)
    assert all(isinstance(block.kind, Kind) for block in spec.blocks)
    built = build(spec.blocks)
    built.load_state_dict(dict(zip(built.state_dict(), model.state_dict().values(), strict=True)))
    assert torch.equal(built(x), model.train()(x))
