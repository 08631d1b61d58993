"""Users' models are read in a process of their own: whatever they do ends with it."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ampere_energy.errors import ModelError, RequestError
from ampere_energy.model import reading
from ampere_energy.model.load import instantiate
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.reading import PATIENCE, Listed, apart, listed, read
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.optimization.pruning.coverage import covering
from ampere_energy.serialization import decode, encode

MODELS = """
import ctypes, os, random, sys, time
import numpy as np
import torch
from torch import nn

def net(width=16, last=None):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))
def leaves(): sys.exit(0)
def exits(): os._exit(0)
def segfaults(): ctypes.string_at(0)
def stops(): raise KeyboardInterrupt
def sleeps(): time.sleep(1000)
class At(nn.Linear):
    def __init__(self, does):
        super().__init__(8, 4)
        self.does = does
    def forward(self, x):
        self.does()
        return super().forward(x)
def leaves_in_forward(): return At(lambda: sys.exit(0))
def moves():
    os.chdir("/")
    return At(lambda: os.chdir("/usr"))
def prints():
    os.write(1, b"to descriptor 1\\n")
    print("to standard output")
    return net()
def double():
    torch.set_default_dtype(torch.float64)
    return net()
def deterministic():
    torch.autograd.set_detect_anomaly(True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.mkldnn.set_flags(False)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("medium")
    torch.set_flush_denormal(True)
    return net()
def threads():
    torch.set_num_threads(3)
    return net()
def without_gradients():
    torch.set_grad_enabled(False)
    return net()
def drawn():
    width = random.randint(1, 10**6) + int(np.random.randint(10**6)) + int(torch.randint(10**6, ()))
    return nn.Linear(8, width), torch.zeros(2, 8)
def allocates(): torch.ones(2**45)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "bad.py"
    path.write_text(MODELS)
    return path


def ref(models: Path, factory: str) -> ModelRef:
    return model_ref(f"{models}:{factory}", input=(2, 8))


def test_a_bug_of_ours_is_told_as_one_and_shown_where_it_is_debugged(models: Path) -> None:
    with pytest.raises(RuntimeError, match=r"AttributeError: .*no_such_function") as told:
        apart(Listed, "ampere_energy.model.reading:no_such_function", ref(models, "net"))
    assert "Traceback" in told.value.__notes__[0]


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("leaves", r"raised SystemExit: 0"),
        ("leaves_in_forward", r"ends the program .SystemExit: 0.; call the model by itself"),
        ("stops", r"raised KeyboardInterrupt"),
        ("allocates", r"raised RuntimeError: .*allocate"),
        ("exits", r"died with exit code 0; call the factory and its model by itself"),
        ("segfaults", r"died by signal 11"),
    ],
)
def test_what_a_model_does_to_its_process_is_an_error_of_the_model(models: Path, factory: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(ref(models, factory))


def test_a_model_that_hangs_is_given_up(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(ref(models, "net"))
    monkeypatch.setenv(PATIENCE, "0.5")
    start = time.monotonic()
    with pytest.raises(ModelError, match=rf"no answer within 0\.5 s; does it wait .* {PATIENCE}=2 in the environment"):
        read(ref(models, "sleeps"))
    assert time.monotonic() - start < 5
    monkeypatch.setenv(PATIENCE, "soon")
    with pytest.raises(RequestError, match=f"{PATIENCE}=soon; give the seconds"):
        read(ref(models, "net"))


def test_what_is_read_apart_is_what_is_read_here(models: Path, capfd: pytest.CaptureFixture[str]) -> None:
    here, folder, drawn = parse_ref(ref(models, "net")), Path.cwd(), random.getstate()
    assert read(ref(models, "net")) == here
    assert decode(Listed, encode(listed(here)), "").spec == here
    assert read(ref(models, "moves")).blocks
    assert read(ref(models, "prints")).blocks == here.blocks
    out, told = capfd.readouterr()
    assert (out, sorted(told.split("\n"))) == ("", ["", "to descriptor 1", "to standard output"])
    assert (Path.cwd(), random.getstate()) == (folder, drawn)
    with pytest.raises(RequestError, match=r"names no factory; give .*bad.py:NAME; it defines net, leaves"):
        model_ref(str(models))


def test_names_stay_as_they_were_typed(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file beside the caller is found there, wherever the models that were read before went."""
    monkeypatch.chdir(models.parent)
    typed = model_ref("bad.py:moves", input=(2, 8))
    assert read(typed).name == "bad.py:moves"
    assert read(typed) == parse_ref(typed)
    assert Path.cwd() == models.parent


def test_a_factory_draws_the_same_each_time_and_nobody_elses_numbers(models: Path) -> None:
    one = ref(models, "drawn")
    kept = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    width = instantiate(one).out_features
    assert instantiate(one).out_features == width
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == kept
    assert read(one) == read(one)
    assert read(one).blocks[0].kind.fixed == width


def test_torchs_global_settings_are_those_of_the_model_that_set_them(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = read(ref(models, "net"))
    assert usual.training.torch_settings == ()
    assert "torch_settings" not in encode(usual.training)  # so that kinds are called as before
    double = read(ref(models, "double"))
    assert double.training.torch_settings == (("default_dtype", "float64"),)
    assert all(block.kind.training == double.training for block in double.blocks)
    found = dict(read(ref(models, "deterministic")).training.torch_settings)
    assert found == {
        "anomaly_enabled": "True",
        "deterministic_debug_mode": "1",
        "mkldnn.enabled": "False",
        "cudnn.benchmark": "True",
        "float32_matmul_precision": "medium",
        "flush_denormal": "True",
    }
    assert read(ref(models, "threads")) == replace(usual, name=str(ref(models, "threads")))
    told = capsys.readouterr().err
    assert "bad.py:threads sets torch's threads to 3; on a processor, profile it with --threads 3" in told
    with pytest.raises(ModelError, match="switches gradients off; leave out"):
        read(ref(models, "without_gradients"))
    assert read(ref(models, "net")) == usual
    assert torch.get_default_dtype() is torch.float32


def test_what_pruning_would_need_is_read_apart_too(models: Path) -> None:
    found = covering(ref(models, "net"), 4)
    assert found.ref.pruned == ()
    assert found.ref.widths == found.spec.widths == (16,)
    assert [(r.low, r.high, r.step) for r in found.ranges] == [(4, 16, 4)]


def test_models_are_read_from_any_thread(models: Path) -> None:
    reading.stop()
    found: list[int] = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.append(len(read(ref(models, "net")).blocks)))
        thread.start()
        thread.join()
    assert found == [2, 2]
