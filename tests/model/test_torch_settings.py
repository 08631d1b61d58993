from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ampere_energy.campaign.run import profile
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.training_step import training_step
from ampere_energy.model import torch_settings
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.parse import parse
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode, Precision, Training
from ampere_energy.model.variants import alone
from ampere_energy.profiles.profile import load

QUICK = Procedure(windows=2, ticks=1, window_s=0.01, warm_up_s=0.0)
SPY = """
import json, torch
from torch import nn
from ampere_energy.model.torch_settings import current
def sets():
    torch.set_default_dtype(torch.float64)
    torch.autograd.set_detect_anomaly(True)
    torch.set_num_threads(2)
    return nn.Linear(8, 4)
def tells():
    with open(__file__ + ".json", "w") as file:
        json.dump(current(), file)
    return nn.Linear(8, 4)
"""


@pytest.fixture(autouse=True)
def kept() -> Iterator[None]:
    before = torch_settings.current()
    yield
    torch_settings.restore(before)
    assert torch_settings.current() == before


def spec(settings: tuple[tuple[str, str], ...] = ()) -> ModelSpec:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return parse(model, (4, 8), training=Training(4, torch_settings=settings))


def test_settings_are_told_put_in_force_and_restored() -> None:
    assert torch_settings.unusual() == ()
    before = torch_settings.current()
    asked = (
        ("default_dtype", "bfloat16"),
        ("anomaly_enabled", "True"),
        ("deterministic_debug_mode", "2"),
        ("float32_matmul_precision", "high"),
        ("flush_denormal", "True"),
        ("mkldnn.enabled", "False"),
        ("cudnn.benchmark", "True"),
        ("flash_sdp", "False"),
    )
    torch_settings.apply(asked)
    assert torch_settings.unusual() == asked
    assert ("float32_matmul_precision", "high") not in torch_settings.unusual(Precision.TF32)
    torch_settings.restore(before)
    assert torch_settings.current() == before
    for wrong in (("default_dtype", "save"), ("num_threads", "many"), ("os", "system")):
        with pytest.raises(RequestError, match="global setting"):
            torch_settings.apply((wrong,))


def test_blocks_are_trained_with_what_their_model_set() -> None:
    for settings in ((("anomaly_enabled", "True"), ("float32_matmul_precision", "medium")), ()):
        before = torch_settings.current()
        block = spec(settings).blocks[0]
        step = training_step(alone(block.kind, block.point), torch.device("cpu"), Mode.EAGER)
        assert torch_settings.unusual() == settings
        step.run()
        torch_settings.restore(before)


def test_a_worker_forgets_what_a_model_set(tmp_path: Path) -> None:
    file = tmp_path / "spy.py"
    file.write_text(SPY)
    device = LocalDevice("cpu", "cputime:7", threads=1)
    try:
        assert device.time(model_ref(f"{file}:sets", input=(4, 8))).infeasible is None
        assert device.time(model_ref(f"{file}:tells", input=(4, 8))).infeasible is None
        found = (tmp_path / "spy.py.json").read_text()
        assert '["default_dtype", "float32"]' in found
        assert '["anomaly_enabled", "False"]' in found
        assert '["num_threads", "1"]' in found
        assert device.measure(alone(spec().blocks[0].kind, (16,)), QUICK).infeasible is None
    finally:
        device.close()


def test_a_profile_answers_for_models_with_its_settings_alone(tmp_path: Path) -> None:
    usual, double = spec(), spec((("default_dtype", "float64"),))
    assert not {kind.id for kind in usual.kinds} & {kind.id for kind in double.kinds}
    as_they_are = (replace(one, widths=(), follows=()) for one in (usual, double))
    of_usual, of_double = (profile(one, device=SimulatedDevice()) for one in as_they_are)
    of_double.save(tmp_path / "double.json")
    assert load(tmp_path / "double.json").training == double.training
    assert "torch_settings" not in str(of_usual.record())
    assert estimate(double, of_double).energy_j > 0
    with pytest.raises(CoverageError, match=r"own global settings, this model's code sets default_dtype float64"):
        estimate(double, of_usual)
    with pytest.raises(CoverageError, match=r"default_dtype float64, this model's code sets own global settings"):
        estimate(usual, of_double)
