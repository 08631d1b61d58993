"""Double, bfloat16 and half: a block is of its model's type, and runs in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from ampere_energy.cost_model.observations import subject
from ampere_energy.cost_model.traits import traits_of
from ampere_energy.measurement.training_step import training_step
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.kinds import Fragment, Kind
from ampere_energy.model.parse import parse
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Variant, alone, lessons, whole_network
from ampere_energy.serialization import decode, encode

pytestmark = pytest.mark.usefixtures("one_thread")

TYPES = [torch.float64, torch.bfloat16, torch.float16]
CPU = torch.device("cpu")


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))


def convnet() -> nn.Module:
    first = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*first, nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))


class Mixed(nn.Module):
    """Double, then float, then bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8).double(), nn.Linear(8, 8)
        self.c = nn.Linear(8, 3).to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.c(self.b(self.a(x).relu().float()).relu().bfloat16())
        return found


def spec_in(dtype: torch.dtype, make: object = mlp) -> ModelSpec:
    model, shape = (mlp(), (4, 6)) if make is mlp else (convnet(), (4, 2, 8, 8))
    return parse(model.to(dtype), torch.randn(shape, dtype=dtype))


def run_in(workload: Variant) -> set[torch.dtype]:
    """What a workload's weights and their gradients are kept in, after a step."""
    step = training_step(workload, CPU, Mode.EAGER)
    step.run()
    weights = list(step.module.parameters())
    return {weight.dtype for weight in weights} | {w.grad.dtype for w in weights if w.grad is not None}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("make", [mlp, convnet])
def test_a_block_runs_in_its_models_type(dtype: torch.dtype, make: object) -> None:
    spec = spec_in(dtype, make)
    assert spec.chain
    for block in spec.blocks:
        assert run_in(alone(block.kind, block.point)) == {dtype}
    assert run_in(whole_network(spec, spec.widths)) == {dtype}
    assert spec.recorded is not None
    assert run_in(alone(spec.recorded, ())) == {dtype}


def test_blocks_of_another_type_are_of_another_kind() -> None:
    specs = [spec_in(dtype) for dtype in (torch.float32, *TYPES)]
    for name in ("id", "work", "label"):
        found = {getattr(block.kind, name) for spec in specs for block in spec.blocks}
        assert len(found) == sum(len(spec.blocks) for spec in specs)
    usual, double = (spec.blocks[1] for spec in specs[:2])
    assert double.kind.bytes(double.point) == 2 * usual.kind.bytes(usual.point)
    assert traits_of(double.kind, double.point).op != traits_of(usual.kind, usual.point).op
    assert "float64" in subject(double.kind, ()).label
    half = specs[-1].blocks[1].kind.bytes(usual.point)
    assert half == usual.kind.bytes(usual.point) / 2


def test_float_kinds_are_called_and_written_as_they_always_were() -> None:
    kind = spec_in(torch.float32).blocks[1].kind
    assert kind.id == "linear-7923ca6f"
    assert "dtype" not in encode(kind)
    double = spec_in(torch.float64).blocks[1].kind
    assert decode(Kind, encode(double), "kind") == double


def test_a_kind_is_of_a_type_that_recipes_are_made_of() -> None:
    kind = spec_in(torch.float64).blocks[1].kind
    assert isinstance(kind, Kind)
    with pytest.raises(ValueError, match="no recipes"):
        replace(kind, dtype="load")


def test_types_may_be_mixed_in_one_model() -> None:
    spec = parse(Mixed(), torch.randn(4, 6).double())
    ran = [run_in(alone(block.kind, block.point)) for block in spec.blocks]
    assert ran == [{torch.float64}, {torch.float32}, {torch.bfloat16}]
    assert isinstance(spec.blocks[0].kind, Fragment)
    assert spec.blocks[0].kind.label == "linear + 2 more float64 @4×6"


def test_the_papers_small_networks_are_of_the_models_type() -> None:
    for lesson in lessons(spec_in(torch.float64, convnet)):
        assert run_in(lesson.variant(tuple(r.high for r in lesson.domain))) == {torch.float64}


def test_a_default_type_that_a_model_sets_stays_with_its_calls() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.linear(x) * torch.ones(3) + torch.arange(3.0)
            return found

    torch.set_default_dtype(torch.float64)
    try:
        spec = parse(Scaled(), torch.randn(4, 6))
    finally:
        torch.set_default_dtype(torch.float32)
    [block] = spec.blocks
    assert isinstance(block.kind, Fragment)
    made = [call.arguments for call in block.kind.program.calls if call.op in ("torch.ones", "torch.arange")]
    assert len(made) == 2
    assert all('"dtype":"float64"' in arguments for arguments in made)
