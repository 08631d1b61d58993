"""Every model of `benchmarks.architectures`: what it is parsed into, whether it adds up and can be estimated.

`pytest tests/test_golden.py --overwrite` writes the golden files anew. They hold for the versions of torch and
transformers in constraints.txt.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.training_step import training_step
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.build import build
from ampere_energy.model.kinds import Fragment, Kind, Role
from ampere_energy.model.objective import tensors_in
from ampere_energy.model.parse import parse, parts
from ampere_energy.model.program import Source
from ampere_energy.model.rebuild import Rebuilt
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import alone
from benchmarks.architectures import MODELS, Inputs, as_it_is
from benchmarks.studies import every_architecture
from flop_counter import counted_flops

pytestmark = pytest.mark.usefixtures("one_thread")
GOLDEN = Path(__file__).parent / "golden"


@cache
def made(name: str) -> tuple[nn.Module, Inputs]:
    return MODELS[name]()


@cache
def parsed(name: str) -> ModelSpec:
    module, inputs = made(name)
    return parse(module, inputs, name=name)


def described(block: Block) -> dict[str, Any]:
    return {
        "name": block.name,
        "kind": block.kind.label,
        "id": block.kind.id,
        "point": list(block.point),
        "role": str(block.kind.role),
        "parameters": block.parameters,
        "flops": block.training_flops,
        "opaque": isinstance(block.kind, Fragment) and block.kind.opaque,
    }


def written(spec: ModelSpec) -> str:
    """A golden file: one line a block, so that a change shows where it is."""
    lines = ",\n".join(json.dumps(described(block), ensure_ascii=False) for block in spec.blocks)
    head = f'"model": {json.dumps(spec.name)},\n"unattributed": {json.dumps(spec.unattributed)},\n'
    return f'{{\n{head}"widths": {json.dumps(spec.widths)},\n"blocks": [\n{lines}\n]\n}}\n'


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_parsed_as_before(name: str, overwrite: bool) -> None:
    path, text = GOLDEN / f"{name}.json", written(parsed(name))
    if overwrite:
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "if this is meant, run pytest tests/test_golden.py --overwrite"


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_of_blocks_sum_to_the_models(name: str) -> None:
    spec, (module, _) = parsed(name), made(name)
    total = sum(p.numel() for p in module.parameters())
    unused = sum(int(text.partition(" of ")[0].replace(",", "")) for text in spec.unattributed)
    assert sum(block.parameters for block in spec.blocks) + unused == total
    assert (unused > 0) == (name == "early_exit")


class Stub:
    """In a recurrent layer's place: its results without its products, and the formula of these.

    Two FLOPs a weight and step, three times over: forward, and backward for what was read and for the weight.
    """

    def __init__(self, layer: nn.Module) -> None:
        self.layer, self.flops = layer, 0
        self.weights = [p for name, p in layer.named_parameters() if name.startswith("weight")]
        layer.forward = self  # type: ignore[method-assign,assignment]

    def __call__(self, x: torch.Tensor, state: Any = None) -> Any:
        layer, batch = self.layer, x.shape[0]
        self.flops += 3 * 2 * math.prod(x.shape[:-1]) * sum(w.numel() for w in self.weights)
        nothing = 0 * (x.sum() + sum(w.sum() for w in self.weights) + sum(s.sum() for s in tensors_in(state)))
        if isinstance(layer, nn.RNNCellBase):
            h = nothing.expand(batch, layer.hidden_size)
            return (h, h) if isinstance(layer, nn.LSTMCell) else h
        assert isinstance(layer, nn.RNNBase)
        assert layer.batch_first
        directions = 1 + layer.bidirectional
        out = nothing.expand(batch, x.shape[1], directions * layer.hidden_size)
        h = nothing.expand(directions * layer.num_layers, batch, layer.hidden_size)
        return out, (h, h) if isinstance(layer, nn.LSTM) else h


@pytest.mark.parametrize("name", MODELS)
def test_flops_of_blocks_sum_to_the_counters(name: str) -> None:
    """Of forward, backward and loss together, within 2 %.

    Recurrent layers go by formula, and are left out of the count.
    """
    module, inputs = MODELS[name]()
    stubs = [Stub(layer) for layer in module.modules() if isinstance(layer, (nn.RNNBase, nn.RNNCellBase))]
    expected = counted_flops(module, inputs) + sum(stub.flops for stub in stubs)
    assert sum(block.training_flops for block in parsed(name).blocks) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("name", MODELS)
def test_every_block_trains(name: str) -> None:
    """Each block by itself, for real: two steps, and a finite gradient for each of its trained weights."""
    for kind, point in dict.fromkeys((block.kind, block.point) for block in parsed(name).blocks):
        step = training_step(alone(kind, point), torch.device("cpu"), Mode.EAGER)
        step.run()
        step.run()
        [module] = step.module.children()
        trained = module.trained() if isinstance(module, Rebuilt) else list(module.parameters())
        assert all(weight.grad is not None and torch.isfinite(weight.grad).all() for weight in trained)
        frozen = [weight for weight in module.parameters() if not weight.requires_grad]
        assert all(weight.grad is None for weight in frozen)
        if isinstance(kind, Kind) or not kind.program.numbers(Source.SHARED):
            assert sum(weight.numel() for weight in module.parameters()) == kind.parameters(point)


@pytest.mark.parametrize("name", MODELS)
def test_recipes_give_what_they_say(name: str) -> None:
    spec = parsed(name)
    for block in spec.blocks:
        if isinstance(block.kind, Kind):
            out = build([block])(torch.randn(2, *block.reads))
            assert tuple(out.shape[1:]) == block.gives
    last = spec.blocks[-1]
    assert last.kind.role is Role.OUTPUT or last.gives == ()  # the loss


@pytest.mark.parametrize("name", MODELS)
def test_a_model_recorded_as_one_piece_is_cut_into_the_same_blocks(name: str) -> None:
    spec = parsed(name)
    assert spec.recorded is not None
    assert spec.recorded.program.whole
    assert [(b.kind, b.point) for b in parts(spec.recorded)] == [(b.kind, b.point) for b in spec.blocks]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_profiled_and_estimated_as_it_is(name: str) -> None:
    found = every_architecture.estimated(as_it_is(name))
    assert found["complete"]
    assert abs(found["error"]) < 0.04
    assert found["measurements"] >= found["kinds"]


def test_the_sum_is_exact_without_noise() -> None:
    spec = as_it_is("unet")
    assert abs(every_architecture.estimated(spec, noise=0.0)["error"]) < 0.01
    assert SimulatedDevice().true_energy_j(spec.blocks) > 0
