"""The step that is measured is the one that a user's loop takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.errors import ModelError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.training_step import training_step
from ampere_energy.model.parse import parse, parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode, Optimizer, Training
from ampere_energy.model.variants import alone

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")
FILE = """
import torch
from torch import nn

calls = []

def net():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), torch.randn(4, 6)

def step(model, inputs, optimizer):
    calls.append(1)
    optimizer.zero_grad()
    model(*inputs).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def block_trained(**settings: Any) -> Any:
    spec = parse(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), (4, 6), training=Training(4, **settings))
    return alone(spec.blocks[0].kind, spec.blocks[0].point)


@pytest.mark.parametrize("optimizer", [Optimizer.ADAM, Optimizer.ADAMW])
def test_an_optimizer_is_torchs_default_but_in_a_graph(optimizer: Optimizer, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    name = {Optimizer.ADAM: "Adam", Optimizer.ADAMW: "AdamW"}[optimizer]
    original = getattr(torch.optim, name)

    def noted(*arguments: Any, **options: Any) -> Any:
        made.append(options["capturable"])
        return original(*arguments, **{**options, "capturable": False})  # which a CPU does not have

    monkeypatch.setattr(torch.optim, name, noted)
    workload = block_trained(optimizer=optimizer)
    training_step(workload, CPU, Mode.EAGER).run()
    training_step(workload, CPU, Mode.EAGER, capturable=True)
    assert made == [False, True]


def test_gradients_are_clipped_schedules_kept_and_losses_read_where_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    clip, item = nn.utils.clip_grad_norm_, torch.Tensor.item
    schedule = torch.optim.lr_scheduler.LambdaLR.step
    monkeypatch.setattr(nn.utils, "clip_grad_norm_", lambda *a: (seen.append("clip"), clip(*a))[1])
    monkeypatch.setattr(torch.Tensor, "item", lambda t: (seen.append("item"), item(t))[1])
    workload = block_trained(clip_gradients=True, scheduler=True, sync_each_step=True)
    step = training_step(workload, CPU, Mode.EAGER)
    monkeypatch.setattr(
        torch.optim.lr_scheduler.LambdaLR, "step", lambda s, *a: (seen.append("schedule"), schedule(s, *a))[1]
    )
    seen.clear()
    step.repeat(2)
    assert [seen.count(name) for name in ("clip", "schedule")] == [2, 2]
    assert seen.count("item") >= 2
    plain = training_step(block_trained(), CPU, Mode.EAGER)
    seen.clear()
    plain.repeat(2)
    assert "clip" not in seen
    assert "schedule" not in seen
    captured = training_step(workload, CPU, Mode.EAGER, capturable=True)
    seen.clear()
    captured.run()
    assert "schedule" not in seen, "a graph does not run what the host does"


def test_the_users_own_step_is_what_is_run(file: Path) -> None:
    ref = model_ref(f"{file}:net", step=f"{file}:step")
    step = training_step(ref, CPU, Mode.EAGER)
    before = {name: p.detach().clone() for name, p in step.module.named_parameters()}
    assert all(p.grad is None for p in step.module.parameters())
    step.repeat(3)
    assert all(p.grad is not None for p in step.module.parameters())
    assert before.keys() == dict(step.module.named_parameters()).keys()
    with pytest.raises(ModelError, match="has no step 'other'"):
        training_step(replace(ref, step=f"{file}:other"), CPU, Mode.EAGER)


def test_a_model_with_its_own_step_is_estimated_from_the_blocks_it_trains(file: Path) -> None:
    ref = model_ref(f"{file}:net", step=f"{file}:step")
    spec, device = replace(parse_ref(ref), widths=(), follows=()), SimulatedDevice(0.005)
    learnt = profile(spec, device=device, ranges=[], rules=Rules(points=3), ref=ref)
    assert estimate(spec, learnt).energy_j == pytest.approx(device.true_energy_j(spec.blocks), rel=0.03)


def test_settings_of_a_step_are_settings_of_a_kind() -> None:
    kinds = {block_trained(**settings).blocks[0].kind.id for settings in (
        {}, {"clip_gradients": True}, {"scheduler": True}, {"sync_each_step": True}
    )}  # fmt: skip
    assert len(kinds) == 4


@pytest.mark.parametrize("spread", ["DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"])
def test_a_distributed_model_is_refused_by_name(spread: str) -> None:
    inner = nn.Linear(6, 3)
    wrapper = type(spread, (nn.Module,), {"forward": lambda self, x: self.module(x)})()
    wrapper.module = inner
    with pytest.raises(ModelError, match=f"{spread}.*profile that"):
        parse(nn.Sequential(wrapper), (4, 6))
    assert parse(inner, (4, 6)).blocks
    assert "DataParallel" in str(type(nn.DataParallel(inner)))
    with pytest.raises(ModelError, match="DataParallel"):
        parse(nn.DataParallel(inner), (4, 6))
