from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from whole import run

from ampere_energy.errors import ModelError
from ampere_energy.model.objective import Inputs
from ampere_energy.model.program import Source, Tape
from ampere_energy.model.record import record
from ampere_energy.model.training import Mode, Training
from benchmarks.architectures import MODELS

pytestmark = pytest.mark.usefixtures("one_thread")


class Net(nn.Module):
    """Two linear layers and whatever a test does with them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("seen", torch.zeros(3))
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def operations(tape: Tape) -> list[str]:
    return [call.name for call in tape.calls]


def taped(function: Callable[..., Any], inputs: Inputs | None = None) -> Tape:
    return record(Net(function), (torch.randn(6, 8),) if inputs is None else inputs)


def test_modules_functions_and_methods_are_all_written_down() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(net.one(x))
        x = torch.cat([x[:, :4], x[:, 4:].flip(1)], dim=1)
        return net.two(x.tanh())

    tape = taped(forward)
    assert operations(tape) == [
        "linear", "relu", "getitem", "getitem", "flip", "cat", "tanh", "linear", "cross_entropy",
    ]  # fmt: skip
    assert [tape.names[n] for n in sorted(tape.names)] == ["one.weight", "one.bias", "two.weight", "two.bias"]
    assert [tape.places[i] for i in (0, 1, 7, 8)] == ["one", "", "two", ""]
    assert tape.calls[2].parsed[0][1] == {"tuple": [{"slice": [None, None, None]}, {"slice": [None, 4, None]}]}
    assert tape.values[tape.calls[5].makes[0]].shape == (6, 8)
    assert tape.loss == tape.calls[-1].makes[0]


def test_a_tensor_taken_apart_by_iteration() -> None:
    tape = taped(lambda net, x: sum(net.two(row)[None] for row in x))
    assert operations(tape)[0] == "unbind"
    assert operations(tape).count("linear") == 6


def test_what_changes_nothing_is_not_written_down() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous().to(torch.float32).float()
        assert x.shape[0] == 6
        assert x.dtype is torch.float32
        return net.two(functional.dropout(x, 0.5, training=False))

    assert operations(taped(forward)) == ["linear", "cross_entropy"]


def test_calls_in_place_make_new_values() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        y = net.one(x)
        y.relu_()
        y += 1
        return net.two(y)

    tape = taped(forward)
    linear, relu, added, last, _ = tape.calls
    assert [relu.reads, added.reads, last.reads[:1]] == [linear.makes, relu.makes, added.makes]
    assert len({*linear.makes, *relu.makes, *added.makes}) == 3


def test_assigning_to_a_part_makes_a_new_value_that_needs_a_gradient() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(6, 8)
        out[:, 2:] = net.one(x)[:, 2:]
        return net.two(out)

    tape = taped(forward)
    assert operations(tape) == ["zeros", "linear", "getitem", "setitem", "linear", "cross_entropy"]
    zeros, *_, assigned, last, _ = tape.calls
    assert assigned.reads[0] == zeros.makes[0] != assigned.makes[0] == last.reads[0]
    assert (tape.values[zeros.makes[0]].grad, tape.values[assigned.makes[0]].grad) == (False, True)


def test_what_does_not_lead_to_the_loss_needs_no_gradient() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        net.one(x).relu()
        return net.two(x)

    tape = taped(forward)
    grads = {name: tape.values[number].grad for number, name in tape.names.items()}
    assert grads == {"one.weight": False, "one.bias": False, "two.weight": True, "two.bias": True}


def test_calls_without_a_gradient_say_so() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = net.one(x)
        return net.two(x)

    tape = taped(forward)
    assert [call.grad for call in tape.calls] == [False, True, True]


@pytest.mark.parametrize("by", ["position", "name"])
def test_several_inputs(by: str) -> None:
    def forward(net: Net, x: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return net.two(x[ids] * mask[:, None])

    given = (torch.randn(6, 8), torch.tensor([2, 5, 3, 3]), torch.tensor([True, False, True, True]))
    tape = taped(forward, given if by == "position" else dict(zip(("x", "ids", "mask"), given, strict=True)))
    inputs = [value for value in tape.values if value.source is Source.INPUT]
    assert [(v.dtype, v.shape, v.low, v.high) for v in inputs] == [
        ("float32", (6, 8), 0, 1),
        ("int64", (4,), 2, 6),  # from the least to past the largest that was given
        ("bool", (4,), 0, 2),
        ("int64", (4,), 0, 4),  # the target: any of the four classes
    ]


def test_integers_the_model_holds_keep_their_range() -> None:
    class Places(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, 3)
            self.register_buffer("places", torch.tensor([4, 6, 5]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + self.table(self.places)).sum()

    tape = record(Places(), (torch.randn(2, 3, 3),))
    [held] = [value for value in tape.values if value.source is Source.BUFFER]
    assert (held.low, held.high) == (4, 7)


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def counts(net: Net, x: torch.Tensor) -> torch.Tensor:
    net.seen.add_(1).mul_(2)
    return net.two(functional.dropout(net.norm(net.one(x)), 0.5))


def depends(net: Net, x: torch.Tensor) -> torch.Tensor:
    y = counts(net, x)
    return y if y.sum() > 1e9 else y * 2


def converts(net: Net, x: torch.Tensor) -> torch.Tensor:
    assert net.seen.tolist() == [0, 0, 0]  # which fake tensors cannot answer
    return counts(net, x)


@pytest.mark.parametrize("function", [counts, depends, converts])
def test_recording_leaves_the_model_and_chance_as_they_were(function: Callable[..., Any]) -> None:
    net = Net(function).eval()
    net.norm.train()
    before, chance = state_of(net), torch.get_rng_state()
    tape = record(net, (torch.randn(6, 8, generator=torch.Generator().manual_seed(1)),))
    assert "batch_norm" in operations(tape)
    assert ("mul" in operations(tape)[-2:]) == (function is depends)
    assert torch.equal(torch.get_rng_state(), chance)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert [m.training for m in (net, net.one, net.norm)] == [False, False, True]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert all(p.grad is None for p in net.parameters())


def test_a_model_that_fails_is_left_as_it_was_too() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        counts(net, x)
        raise RuntimeError("gone wrong\nand more")

    net = Net(forward).eval()
    before, chance = state_of(net), torch.get_rng_state()
    with pytest.raises(ModelError, match=r"^Net does not run on an input of shape 6,8 \(gone wrong\); check --input"):
        record(net, (torch.zeros(6, 8),))
    assert torch.equal(torch.get_rng_state(), chance)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert not net.training
    assert not any(m._forward_hooks for m in net.modules())


@pytest.mark.parametrize("name", ["lenet5", "se_resnet", "bilstm", "masked_encoder", "early_exit", "lora"])
def test_a_fake_run_writes_down_what_a_real_run_does(name: str) -> None:
    model, inputs = MODELS[name]()
    fake, real = record(model, inputs), run(model, inputs).tape
    assert fake == real


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda net, x: net.two(x.cuda()), "the model asks for a GPU: let its factory build it on the CPU"),
        (lambda net, x: net.two(x + torch.zeros(8, device="cuda")), "the model asks for a GPU"),
        (lambda net, x: net.two(torch.empty_like(x).uniform_(generator=torch.Generator())), "cannot be written down"),
        (lambda net, x: net.three(x), "has no attribute 'three'"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_models_that_do_not_run_say_why(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        taped(function)
    assert "\n" not in str(caught.value)


def test_failing_inputs_are_named_by_name() -> None:
    given = {"x": torch.zeros(6, 8), "ids": torch.zeros(3, dtype=torch.long)}
    with pytest.raises(ModelError, match=r"on an input of shape x 6,8 and ids 3 \("):
        taped(lambda net, x: net.two(x), given)


def test_arguments_that_json_lacks() -> None:
    def forward(net: Net, x: torch.Tensor) -> torch.Tensor:
        x = x.masked_fill(x > 0, float("-inf")).to(dtype=torch.float64).clamp(min=-1.5)
        x = x[..., None, 1:7:2].to(torch.float32, memory_format=torch.contiguous_format)
        return x.sum() * net.two(torch.ones(1, 8, device=x.device)).sum()

    tape = taped(forward)
    written = json.dumps([call.parsed for call in tape.calls])
    for part in ('{"float": "-inf"}', '{"dtype": "float64"}', '{"ellipsis": true}', '{"slice": [1, 7, 2]}'):
        assert part in written
    for part in ('{"torch": "contiguous_format"}', '{"device": true}', "null"):
        assert part in written


def test_a_model_that_asks_is_told_whether_it_will_be_captured() -> None:
    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(self.layer(x)) if torch.cuda.is_current_stream_capturing() else torch.cos(self.layer(x))

    def names(mode: Mode) -> set[str]:
        return {call.name for call in record(Asks(), (torch.randn(6, 8),), Training(6, mode=mode)).calls}

    asked = torch.cuda.is_current_stream_capturing
    assert "sin" in names(Mode.GRAPH)
    assert "cos" in names(Mode.EAGER)
    assert torch.cuda.is_current_stream_capturing is asked
