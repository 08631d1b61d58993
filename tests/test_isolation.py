"""The command line and users' code that misbehaves: one line, the documented exit code, and nothing else disturbed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ampere_energy.profiles.profile import load
from command import ampere, answer

INPUT = ("--input", "4,8")
MODELS = """
import os, sys
import torch
from torch import nn
def net(): return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
class Leaves(nn.Linear):
    def __init__(self): super().__init__(8, 4)
    def forward(self, x): sys.exit(0)
def exits(): os._exit(0)
def moves():
    os.chdir("/")
    return net()
def prints():
    os.write(1, b"to descriptor 1\\n")
    return net()
def double():
    torch.set_default_dtype(torch.float64)
    return net()
def score(ref): sys.exit(0)
"""
INTERRUPTS = """
import os, signal, sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
sys.argv = ["ampere", "parse", "lenet5"]
from ampere_energy.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("isolation")
    (path / "bad.py").write_text(MODELS)
    return path


def refused(*arguments: str, cwd: Path, code: int = 2) -> str:
    done = ampere(*arguments, cwd=cwd)
    assert (done.returncode, done.stdout) == (code, "")
    line, *more = [line for line in done.stderr.splitlines() if line.startswith("ampere: ")]
    assert not more
    return line


def test_a_model_that_ends_the_program_is_refused(folder: Path) -> None:
    told = refused("parse", "bad.py:Leaves", *INPUT, cwd=folder)
    assert "bad.py:Leaves ends the program (SystemExit: 0); call the model by itself" in told
    told = refused("profile", "bad.py:exits", *INPUT, "--device", "simulated", "--out", "no.json", cwd=folder)
    assert "bad.py:exits cannot be read: the process that reads it died with exit code 0" in told
    assert not list(folder.glob("no.*"))
    told = refused("estimate", "bad.py:Leaves", *INPUT, "--profile", "nvidia-h200", cwd=folder)
    assert "ends the program" in told


def test_what_a_model_prints_or_moves_does_not_reach_the_command(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert answer("parse", "bad.py:prints", *INPUT, cwd=folder)["batch"] == 4
    assert capfd.readouterr().out == ""
    found = answer("profile", "bad.py:moves", *INPUT, "--device", "simulated", "--out", "moved.json", cwd=folder)
    assert found["profile"] == "moved.json"
    assert (folder / "moved.json").is_file()


def test_a_profile_is_not_for_models_that_set_torch_otherwise(folder: Path) -> None:
    device = ("--device", "simulated", "--out")
    answer("profile", "bad.py:net", *INPUT, *device, "net.json", cwd=folder)
    told = refused("estimate", "bad.py:double", *INPUT, "--profile", "net.json", cwd=folder, code=4)
    assert "was made with torch's own global settings, this model's code sets default_dtype float64; run ampere" in told
    answer("profile", "bad.py:double", *INPUT, *device, "double.json", cwd=folder)
    assert load(folder / "double.json").training.torch_settings == (("default_dtype", "float64"),)
    assert answer("estimate", "bad.py:double", *INPUT, "--profile", "double.json", cwd=folder)["energy_j"] > 0
    told = refused("estimate", "bad.py:net", *INPUT, "--profile", "double.json", cwd=folder, code=4)
    assert "with torch's default_dtype float64, this model's code sets own global settings" in told
    told = refused("estimate", "bad.py:double", *INPUT, "--profile", "nvidia-h200", cwd=folder, code=4)
    assert "nothing in nvidia-h200 covers bad.py:double, whose code sets torch's default_dtype float64" in told


def test_a_score_that_ends_the_program_is_refused(folder: Path) -> None:
    answer("profile", "lenet5", "--device", "simulated", "--points", "3", "--out", "lenet5.json", cwd=folder)
    words = ("search", "lenet5", "--profile", "lenet5.json", "--objective", "bad.py:score", "--trials", "4")
    assert "ends the program (SystemExit: 0); call it by itself" in refused(*words, cwd=folder)


@pytest.mark.parametrize("module", ["typer", "torch", "torch.nn"])
def test_ctrl_c_is_one_line_whatever_is_imported_just_then(module: str) -> None:
    program = [sys.executable, "-c", INTERRUPTS.format(module=module)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ampere: interrupted\n")


def test_a_command_about_a_users_model_does_not_import_torch_itself(folder: Path) -> None:
    program = (
        "import sys; sys.argv = ['ampere', *sys.argv[1:]]\n"
        "from ampere_energy.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules"
    )
    words = ("estimate", "bad.py:net", *INPUT, "--profile", "net.json", "--json")
    command = [sys.executable, "-c", program, *words]
    answer("profile", "bad.py:net", *INPUT, "--device", "simulated", "--out", "net.json", "--fresh", cwd=folder)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["energy_j"] > 0


def test_an_error_whose_message_cannot_be_shown_is_one_line(tmp_path: Path) -> None:
    odd = "class Odd(Exception):\n    def __str__(self): return str(1 / 0)\ndef f(): raise Odd\n"
    (tmp_path / "odd.py").write_text(odd)
    done = ampere("parse", "odd.py:f", "--input", "4,3", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "raised Odd: its message cannot be shown; call the factory by itself" in done.stderr
