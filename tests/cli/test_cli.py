from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ampere_energy
from ampere_energy.cli.main import main
from ampere_energy.measurement.log import MeasurementLog
from command import ampere, answer, process

MINE = """
from torch import nn
def mine(width=8):
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(width * 49, 4))
def broken(): raise KeyError("gone")
def leaves(): raise SystemExit(5)
def loud():
    print("chatter")
    return mine()
model = mine()
def number(): return 3
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right, self.last = nn.Linear(8, 6), nn.Linear(5, 6), nn.Linear(6, 3)
    def forward(self, one, two): return self.last(self.left(one) * self.right(two))
def two(): return Two()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a user's model and a profile of lenet5 on the simulated device."""
    path = tmp_path_factory.mktemp("cli")
    (path / "mine.py").write_text(MINE)
    answer("profile", "lenet5", "--device", "simulated:0.02", "--out", "sim.json", cwd=path)
    return path


def test_help_and_models_do_not_import_torch() -> None:
    for arguments in ([], ["--help"], ["models"], ["models", "--json"], ["estimate", "--help"], ["profiles"]):
        program = (
            f"import sys; sys.argv = ['ampere', *{arguments!r}]\n"
            "from ampere_energy.cli.main import main\n"
            "try: main()\n"
            "except SystemExit as end: assert not end.code, end.code\n"
            "assert 'torch' not in sys.modules and 'scipy' not in sys.modules and 'numpy' not in sys.modules"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_parse(folder: Path) -> None:
    record = answer("parse", "mine.py:mine", "--input", "5,3,16,16", cwd=folder)
    assert record["parameters"] == 3 * 8 * 9 + 8 + 8 * 49 * 4 + 4
    assert [b["role"] for b in record["blocks"]] == ["input", "output"]
    table = ampere("parse", "lenet5").stdout
    for text in ("conv1", "linear-", "61,706", "22.6 MFLOP", "every operation is attributed"):
        assert text in table


def test_a_model_is_asked_about_as_its_profile_was_made(folder: Path, tmp_path: Path) -> None:
    arguments = ("profile", "lenet5", "--device", "simulated:0.3", "--input", "24,1,28,28", "--points", "3")
    done = ampere(*arguments, "--out", str(tmp_path / "p.json"), cwd=folder)
    assert done.returncode == 0
    assert re.search(r"intervals reach \d+ % either way, more than --target 5%; give more --budget", done.stderr)
    record = answer("estimate", "lenet5", "--profile", str(tmp_path / "p.json"), cwd=folder)
    assert (record["training"]["batch"], record["from_batch"], record["partial"]) == (24, None, False)
    text = (tmp_path / "p.json").read_text()
    (tmp_path / "part.json").write_text(text.replace('"complete": true', '"complete": false', 1))
    done = ampere("estimate", "lenet5", "--profile", str(tmp_path / "part.json"), "--json", cwd=folder)
    assert json.loads(done.stdout)["partial"]
    assert "the profile is partial: finish it by ampere profile with --resume" in done.stderr


def test_a_model_profiled_as_it_is_cannot_be_narrowed(folder: Path, tmp_path: Path) -> None:
    model = ("mine.py:mine", "--input", "5,3,16,16")
    answer("profile", *model, "--device", "simulated", "--out", str(tmp_path / "as_it_is.json"), cwd=folder)
    done = ampere("prune", *model, "--profile", str(tmp_path / "as_it_is.json"), "--budget", "50%", cwd=folder)
    assert done.returncode == 4
    assert "the profile covers no narrower width of mine.py:mine; run ampere profile mine.py:mine" in done.stderr
    assert "--prunable" in done.stderr
    assert "halving every width" not in done.stderr


def test_numbers_are_not_cut_in_a_narrow_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert "11,173,962  33.3 GFLOP" in ampere("parse", "resnet18").stdout


def test_estimate_has_the_contracted_keys(folder: Path) -> None:
    arguments = ("estimate", "lenet5", "--profile", "sim.json", "--widths", "3,8,60,40", "--iterations", "50")
    record = answer(*arguments, "--battery", "15Wh", cwd=folder)
    keys = {"energy_j", "interval_j", "level", "time_s", "power_w", "provenance", "device", "iterations", "blocks"}
    assert keys <= record.keys()
    assert record["iterations"] == 50
    assert (record["provenance"], record["basis"]) == ("predicted", "simulated")
    assert sum(b["energy_j"] for b in record["blocks"]) + record["other_j"] == pytest.approx(record["energy_j"])
    assert {"name", "kind", "energy_j", "std_j"} <= record["blocks"][0].keys()
    assert record["battery"]["share"] == pytest.approx(record["energy_j"] / 54000)
    assert record["battery"]["p_fits"] > 0.99
    table = ampere(*arguments, "--battery", "15Wh", cwd=folder).stdout
    for text in ("█", "Wh", "90% interval", "average power", "of a 15 Wh battery", "SIMULATED"):
        assert text in table


def test_profile_estimate_and_measure_on_the_cpu_say_modelled(folder: Path) -> None:
    """The whole line, for a user's own model, with real training steps."""
    source = ("mine.py:mine", "--input", "5,3,16,16")
    one = ("--threads", "1", "--watts-per-core", "5")  # several wait for each other where the machine is busy
    record = answer("profile", *source, *one, "--device", "cpu", "--budget", "6s", "--out", "mine.json", cwd=folder)
    assert record["complete"]
    assert record["provenance"] == "modelled"
    assert '"provenance": "modelled"' in (folder / "mine.jsonl").read_text()
    assert '"provenance": "modelled"' in (folder / "mine.json").read_text()
    predicted = answer("estimate", *source, "--profile", "mine.json", cwd=folder)
    assert predicted["basis"] == "modelled"
    assert 0 <= predicted["interval_j"][0] < predicted["energy_j"] < predicted["interval_j"][1]
    assert "MODELLED" in process("estimate", *source, "--profile", "mine.json", cwd=folder).stdout
    real = answer("measure", *source, *one, "--iterations", "10", cwd=folder)
    assert {"energy_std_j", "iterations", "domains"} <= real.keys()
    assert real["provenance"] == "modelled"
    assert real["meter"] == "cputime, watts per core 5"
    assert 0 < real["energy_j"] <= 5.1 * real["time_s"]
    assert 0.25 < 10 * predicted["energy_j"] / real["energy_j"] < 4  # the machine may be busy


def test_a_profile_of_an_older_schema_is_made_anew_from_its_log(folder: Path, tmp_path: Path) -> None:
    for name in ("sim.json", "sim.jsonl"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    older = (tmp_path / "sim.json").read_text().replace('"schema": 7', '"schema": 6', 1)
    (tmp_path / "sim.json").write_text(older)
    done = ampere("estimate", "lenet5", "--profile", "sim.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "profile again with --resume" in done.stderr
    answer("profile", "lenet5", "--device", "simulated:0.02", "--out", "sim.json", "--resume", cwd=tmp_path)
    assert (tmp_path / "sim.jsonl").read_bytes() == (folder / "sim.jsonl").read_bytes()  # nothing was measured
    answer("estimate", "lenet5", "--profile", "sim.json", cwd=tmp_path)


def test_an_estimate_names_the_block_that_is_many_times_as_slow_as_most(tmp_path: Path) -> None:
    """cuDNN computes a gradient of it by FFT from 17 channels given on, as `data/h200-kernels` shows."""
    costs, slow = {}, {}
    for given in (16, 21):
        model = ("har", "--widths", f"25,128,{given},100", "--profile", "nvidia-h200")
        record = answer("estimate", *model, cwd=tmp_path)
        costs[given] = record["energy_j"]
        slow[given] = {block["name"]: block["slower"] for block in record["blocks"] if block["slower"] is not None}
    assert slow[16] == {}
    assert list(slow[21]) == ["conv3"]
    assert 15 < slow[21]["conv3"] < 40
    assert costs[21] > 5 * costs[16]
    assert record["training"]["batch"] == 16384
    table = ampere("estimate", *model, cwd=tmp_path).stdout
    assert f"conv3 takes {slow[21]['conv3']:.0f} times what its size would let expect" in " ".join(table.split())
    assert "batch 16384 with sgd in eager mode" in table


def test_refine_add_and_within(folder: Path, tmp_path: Path) -> None:
    device = ("--device", "simulated:0.01")
    answer("profile", "lenet5", *device, "--points", "3", "--out", "p.json", cwd=tmp_path)
    model = ("lenet5", "--widths", "5,11,77,33")
    before = answer("estimate", *model, "--profile", "p.json", "--within", "1kJ", cwd=tmp_path)
    assert before["within"] == {"budget_j": 1000.0, "p_fits": pytest.approx(1.0)}
    lines = len((tmp_path / "p.jsonl").read_text().splitlines())
    done = ampere("estimate", *model, "--profile", "p.json", "--refine", "2.5%", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert "refined by" in done.stderr
    told = json.loads(done.stdout)
    made = len((tmp_path / "p.jsonl").read_text().splitlines()) - lines
    assert 0 < told["refined"]["reach"] <= 0.025
    assert (told["refined"]["measurements"], told["refined"]["limit"]) == (made, None)
    low, high = told["interval_j"]
    assert high / low < before["interval_j"][1] / before["interval_j"][0]
    assert made > 0
    assert answer("estimate", *model, "--profile", "p.json", cwd=tmp_path)["interval_j"] == [low, high]
    far = answer("estimate", *model, "--profile", "p.json", "--refine", "0.1%", cwd=tmp_path)["refined"]
    assert far["reach"] > 0.001
    assert "a network differs by" in far["limit"]
    done = ampere("measure", *model, *device, "--add-to", "p.json", cwd=tmp_path)
    assert "added to p.json" in done.stderr
    after = answer("estimate", *model, "--profile", "p.json", cwd=tmp_path)["interval_j"]
    assert after[1] / after[0] < high / low
    resumed = answer("profile", "lenet5", *device, "--points", "3", "--out", "p.json", "--resume", cwd=tmp_path)
    assert resumed["complete"]
    again = answer("estimate", *model, "--profile", "p.json", cwd=tmp_path)["interval_j"]
    assert again[1] / again[0] < high / low  # what was added counts after resuming, too


def test_what_is_not_the_profiled_device_is_refused_before_it_measures(tmp_path: Path) -> None:
    answer("profile", "lenet5", "--device", "simulated:0.01", "--points", "3", "--out", "p.json", cwd=tmp_path)
    done = ampere("measure", "lenet5", "--device", "simulated:0.02", "--add-to", "p.json", cwd=tmp_path)
    assert done.returncode == 2
    assert not done.stdout
    assert "measure as it was profiled: --device, --threads and --meter" in done.stderr


def test_the_version_is_told() -> None:
    done = ampere("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ampere {ampere_energy.__version__}\n", "")


def test_a_report_overwrites_nothing_it_is_about(folder: Path) -> None:
    before = (folder / "sim.json").read_bytes()
    done = ampere("report", "sim.json", "--out", "./sim.json", cwd=folder)
    assert (done.returncode, (folder / "sim.json").read_bytes()) == (2, before)
    assert "choose another --out" in done.stderr
    missing = ampere("report", "missing.json", cwd=folder)
    assert missing.returncode == 2
    assert "cannot be read" in missing.stderr


def test_evaluate_writes_a_report(folder: Path) -> None:
    (record,) = answer("evaluate", "lenet5", "--profile", "sim.json", "--models", "4", "--report", "r.html", cwd=folder)
    keys = {"family", "device", "mode", "widths", "batch", "models", "points", "profile_s", "floor", "scores"}
    assert keys <= record.keys()
    assert {"mape", "bias", "p90", "spearman", "coverage"} <= record["scores"]["ampere"].keys()
    assert record["scores"]["ampere"]["mape"] < 0.1
    page = (folder / "r.html").read_text()
    assert "SIMULATED" in page
    for member in record["members"]:
        predicted = member["predictions"]["ampere"]["energy_j"]
        assert f'data-x="{member["measured_j"]:.6g}" data-y="{predicted:.6g}"' in page
    (folder / "evaluation.json").write_text(json.dumps([record]))
    for subject, made in (("evaluation.json", "evaluation.html"), ("sim.json", "sim.html")):
        assert ampere("report", subject, cwd=folder).stderr.strip() == f"report {made}"
        assert (folder / made).read_text().startswith("<!doctype html>")
    assert (folder / "evaluation.html").read_text() == page
    table = ampere("evaluate", "lenet5", "--profile", "sim.json", "--models", "2", cwd=folder).stdout
    assert "mean error" in table


ODD = """
import sys
import torch
from torch import nn

class Residual(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.up, self.down, self.head = nn.Linear(6, width), nn.Linear(width, 6), nn.Linear(6, 3)
    def forward(self, x): return self.head(x + self.down(self.up(x).relu()))

class Card(Residual):
    def forward(self, x): return super().forward(x.to("cuda"))

class Holds(Residual):
    def __init__(self):
        super().__init__()
        self.file, self.function = open(__file__), lambda x: x * 2
    def forward(self, x): return super().forward(self.function(x))

class Two(Residual):
    def forward(self, ids, mask): return super().forward(ids.float() * mask)

def nothing(): return nn.Sequential(nn.ReLU())
def frozen(): return Residual().requires_grad_(False)
def on_card(): return Residual().cuda()
def made_there(): return nn.Linear(6, 3, device="cuda")
def words(): return Residual(), "some text"
def numbers(): return Residual(), (torch.zeros(2, 6), 3)
def triple(): return Residual(), torch.zeros(2, 6), None
def detached():
    class Detached(Residual):
        def forward(self, x): return super().forward(x).detach()
    return Detached()
"""
SIX, RESNET = ("--input", "2,6"), ("--input", "2,3,16,16", "--widths", "1,2,3,4")


@pytest.fixture(scope="module")
def odd(folder: Path) -> Path:
    (folder / "odd.py").write_text(ODD)
    return folder


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("Residual", "--input", "2,5"), 2, "Residual does not run on an input of shape 2,5"),
        (("Residual", "--input", "ids:float32:2,6"), 2, "does not run on an input of shape ids 2,6"),
        (("nothing", *SIX), 2, "has no parameters; AMPERE estimates training"),
        (("frozen", *SIX), 2, "is frozen: none of its parameters is trained; set requires_grad on what you train"),
        (("detached", *SIX), 2, "gives nothing that depends on a trained parameter; let its forward return"),
        (("Card", *SIX), 2, "the model asks for a GPU: let its factory build it on the CPU"),
        (("on_card", *SIX), 2, "the model asks for a GPU: let its factory build it on the CPU"),
        (("made_there", *SIX), 2, "the model asks for a GPU: let its factory build it on the CPU"),
        (("words",), 2, "gives inputs that are not tensors; return (model, (tensor, …)) or a dict"),
        (("numbers",), 2, "gives inputs that are not tensors"),
        (("triple",), 2, "returned tuple; return a torch.nn.Module, or (model, inputs)"),
        (("Residual", "--input", "ids:int64"), 2, "--input ids:int64; give name:type:shape, such as ids:int64:8,128"),
        (("Residual", "--input", "90000000000,6"), 2, "--input 90000000000,6 takes 2160.0 GB and this machine has"),
        (("Residual", "--input", "a:b:c:d:e"), 2, "--input a:b:c:d:e; give name:type:shape"),
        (("Residual", "--input", "ids:int99:2,6"), 2, "an input of type int99; choose from float32"),
        (("Residual", "--input", "ids:int64:2,six"), 2, "--input 2,six; give whole numbers with commas"),
        (("Residual", "--input", "ids:int64:"), 2, "an input of shape (); give positive sizes"),
        (("Residual", "--input", "ids:int64:0,6"), 2, "an input of shape (0, 6); give positive sizes"),
        (("Residual", "--input", "ids:int64:2,6:many"), 2, "--input many; give whole numbers"),
        (("Two", "--input", "ids:int64:2,6", "--input", "2,6"), 2, "some inputs have names; name all of them or none"),
        (("Residual", *SIX, "--precision", "fp8"), 2, "--precision fp8; choose from fp32, tf32, bf16, fp16"),
        (("Residual", *SIX, "--accumulate", "0"), 2, "--accumulate 0; give at least 1"),
        (("Residual", *SIX, "--accumulate", "many"), 2, "--accumulate many; give a whole number such as 1000"),
        (("Residual", *SIX, "--optimizer", "adamx"), 2, "--optimizer adamx; choose from sgd, momentum, adam, adamw"),
    ],
)
def test_models_that_cannot_be_parsed_are_one_line(
    odd: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    name, *rest = arguments
    refused(odd, ("parse", f"odd.py:{name}", *rest), code, words, monkeypatch, capfd)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ("profile", "odd.py:Residual", *SIX, "--vary", "--device", "simulated", "--out", "x.json"),
            2,
            "--vary with odd.py:Residual, whose blocks are not a chain of layers with widths; give a factory with",
        ),
        (
            ("profile", "resnet18", *RESNET, "--method", "paper", "--device", "simulated", "--out", "x.json"),
            2,
            "the paper's method has no small networks for",
        ),
        (
            ("profile", "odd.py:frozen", *SIX, "--device", "simulated", "--out", "x.json"),
            2,
            "is frozen: none of its parameters is trained",
        ),
        (
            ("estimate", "lenet5", "--profile", "sim.json", "--precision", "bf16"),
            4,
            "made with --precision fp32, you asked for bf16; give --precision fp32, or run ampere profile",
        ),
        (
            ("estimate", "lenet5", "--profile", "sim.json", "--accumulate", "2"),
            4,
            "with --accumulate 1, you asked for 2",
        ),
        (("estimate", "lenet5", "--profile", "sim.json", "--channels-last"), 4, "with --no-channels-last, you"),
        (("estimate", "odd.py:Residual", *SIX, "--profile", "sim.json"), 4, "run ampere profile odd.py:Residual"),
        (("measure", "odd.py:nothing", *SIX), 2, "gives nothing that depends on a trained parameter"),
        (("measure", "odd.py:words"), 2, "gives inputs that are not tensors"),
    ],
)
def test_what_cannot_be_profiled_or_estimated_is_one_line(
    odd: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    refused(odd, arguments, code, words, monkeypatch, capfd)
    assert not (odd / "x.json").exists()
    assert not (odd / "x.jsonl").exists()


def refused(
    folder: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Runs the command, which must end with the code and one line that has the words."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["ampere", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    told = capfd.readouterr()
    assert words in told.err
    assert end.value.code == code
    assert told.err.startswith("ampere: ")
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err
    assert told.out == ""


@pytest.fixture
def inside(odd: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs the command in this process, which spares it importing torch, and gives its JSON."""

    def run(*arguments: str) -> Any:
        monkeypatch.chdir(odd)
        monkeypatch.setattr(sys, "argv", ["ampere", *arguments, "--json"])
        with pytest.raises(SystemExit) as end:
            main()
        told = capfd.readouterr()
        assert end.value.code == 0, told.err
        return json.loads(told.out)

    return run


def test_a_model_that_cannot_be_pickled_is_profiled(inside: Callable[..., Any]) -> None:
    """It holds a function without a name and an open file."""
    source = ("odd.py:Holds", *SIX)
    assert len(inside("parse", *source)["blocks"]) == 2
    assert inside("profile", *source, "--device", "simulated", "--out", "holds.json", "--fresh")["complete"]
    assert inside("estimate", *source, "--profile", "holds.json")["energy_j"] > 0


def test_several_inputs_and_settings(odd: Path, inside: Callable[..., Any]) -> None:
    inputs = ("--input", "ids:int64:4,6:9", "--input", "mask:float32:4,6")
    settings = ("--precision", "bf16", "--optimizer", "adamw", "--accumulate", "2", "--channels-last")
    found, plain = (inside("parse", "odd.py:Two", *inputs, *more) for more in (settings, ()))
    assert found["parameters"] == plain["parameters"] == 6 * 4 + 4 + 4 * 6 + 6 + 6 * 3 + 3
    assert found["training_flops"] == 2 * plain["training_flops"]
    where = ("--device", "simulated", "--out", "two.json", "--fresh")
    assert inside("profile", "odd.py:Two", *inputs, *settings, *where)["complete"]
    as_profiled = inside("estimate", "odd.py:Two", *inputs, "--profile", "two.json")
    assert as_profiled == inside("estimate", "odd.py:Two", *inputs, *settings, "--profile", "two.json")
    other = ampere("estimate", "odd.py:Two", *inputs, "--optimizer", "sgd", "--profile", "two.json", cwd=odd)
    assert other.returncode == 4
    assert "--input ids:int64:4,6:9 --input mask:float32:4,6 --optimizer sgd" in other.stderr


PROFILE = ("profile", "lenet5", "--device", "simulated", "--out", "sim.json")
SIM = ("--profile", "sim.json")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("parse", "lenet6"), 2, "no family is called 'lenet6'"),
        (("parse", "absent.py:net", "--input", "1,2"), 2, "there is no file absent.py"),
        (("parse", "mine.py:broken", "--input", "1,2"), 2, "raised KeyError: 'gone'"),
        (("parse", "mine.py:number", "--input", "1,2"), 2, "returned int"),
        (("parse", "mine.py:leaves", "--input", "1,2"), 2, "raised SystemExit: 5"),
        (("parse", "mine.py:model", "--input", "1,2"), 2, "is a module already"),
        (("parse", "mine.py:mine", "--input", "5,3,16,16", "--widths", "1,2"), 2, "are --widths its arguments?"),
        (("parse", "lenet5", "--mode", "fast"), 2, "--mode fast; choose from eager, graph, compile"),
        (("measure", "lenet5", "--device", "cuda", "--meter", "cputime"), 3, "torch sees no CUDA device"),
        (("measure", "lenet5", "--meter", "psychic"), 3, "no meter is called 'psychic'"),
        (("measure", "lenet5", "--meter", "rapl", "--watts-per-core", "5"), 2, "give one of them"),
        (("evaluate", "mine.py:mine", "--profile", "sim.json"), 2, "has no networks to draw; give values of its"),
        (("evaluate", "cnn5", "--profile", "sim.json"), 4, "run ampere profile cnn5 --device simulated"),
        (("estimate", "lenet5", "--profile", "."), 2, ". is a folder"),
        (("profile", "cnn5", "--device", "simulated", "--out", "sim.json", "--resume"), 2, "is a profile of lenet5"),
        (
            ("profile", "lenet5", "--device", "simulated", "--out", "sim.json", "--resume", "--optimizer", "adam"),
            2,
            "is a profile of lenet5 at batch 10 with sgd",
        ),
        ((*PROFILE, "--fresh", "--budget", "soon"), 2, "--budget soon"),
        (("parse", "mine.py:mine"), 2, "needs the shape of its input; give --input"),
        (("parse", "mine.py:mine", "--input", "5,1,16,16"), 2, "does not run on an input of shape 5,1,16,16"),
        (("parse", "mine.py:mine", "--input", "5,three"), 2, "--input 5,three; give whole numbers"),
        (("parse", "lenet5", "--input", "0,1,28,28"), 2, "--input 0,1,28,28; give positive sizes"),
        (("parse", "lenet5", "--widths", "7,16,120,84"), 2, "width 1 of lenet5 is 7; give 1–6"),
        (("parse", "lenet5", "--widths", "6,16"), 2, "has 4 widths, not 2"),
        (("parse", "lenet5", "--widths", "6,b"), 2, "--widths 6,b; give whole numbers with commas, such as 16,32,64"),
        (("parse", "lenet5", "--optimizer", "lion"), 2, "--optimizer lion; choose from sgd"),
        (("parse", "lenet5", "--colour"), 2, "No such option: --colour"),
        (("parse",), 2, "Missing argument"),
        (("estimate", "lenet5"), 2, "Missing option '--profile'; it is: a profile's name or file, or a bundle's name"),
        (("estimate", "lenet5", "--profile", "p", "--iterations", "1.5"), 2, "--iterations 1.5; give a whole number"),
        (("profile", "lenet5", "--points=1e6"), 2, "--points 1e6; give at most 1024"),
        (("parse", "lenet5", "--nonsense"), 2, "No such option: --nonsense; see ampere parse --help"),
        (("frobnicate",), 2, "No such command"),
        (
            ("estimate", "cnn5", *SIM),
            4,
            "run ampere profile cnn5 --device simulated:0.02 --input 10,1,28,28 --widths 64,128,256,256 --optimizer",
        ),
        (("estimate", "lenet5", "--input", "20,1,28,28", *SIM), 4, "made at batch 10"),
        (("estimate", "lenet5", *SIM, "--level", "2"), 2, "--level 2; give a probability"),
        (("estimate", "lenet5", *SIM, "--level", "much"), 2, "--level much; give a probability"),
        (("parse", "mine.py"), 2, "mine.py names no factory; give mine.py:NAME; it defines mine"),
        (("estimate", "lenet5", *SIM, "--iterations", "0"), 2, "--iterations 0"),
        (("estimate", "lenet5", *SIM, "--battery", "big"), 2, "--battery big; give a capacity such as 15Wh"),
        (("estimate", "lenet5", *SIM, "--battery", "15"), 2, "--battery 15; give a capacity such as 15Wh; of mAh, a"),
        (("estimate", "lenet5", "--profile", "absent.json"), 2, "profile absent.json cannot be read"),
        (("estimate", "lenet5", "--profile", "no-such-name"), 2, "make one with ampere profile"),
        (("estimate", "lenet5", "--profile", "cut.json"), 2, "profile cut.json is not JSON"),
        (("estimate", "lenet5", "--profile", "newer.json"), 2, "newer.json has schema 8, this version reads 7"),
        (("estimate", "lenet5", "--profile", "mine.py"), 2, "profile mine.py is not JSON"),
        (PROFILE, 2, "sim.jsonl holds measurements; go on with --resume"),
        ((*PROFILE, "--resume", "--fresh"), 2, "give one of them"),
        (
            ("profile", "lenet5", "--device", "simulated", "--out", "new.json", "--resume"),
            2,
            "there is no log new.jsonl",
        ),
        (("profile", "lenet5", "--device", "toaster", "--out", "x.json"), 2, "no device is called 'toaster'"),
        (("profile", "lenet5", "--budget", "soon", "--out", "x.json"), 2, "--budget soon; give a time such as 60s"),
        (("profile", "lenet5", "--guide", "luck", "--out", "x.json"), 2, "--guide luck; choose from energy, time"),
        (("profile", "lenet5", "--width-step", "8", "--out", "x.json"), 2, "no multiple of 8 lies in 1–6"),
        (("measure", "lenet5", "--threads", "0"), 2, "--threads 0; give at least 1"),
        (("measure", "mine.py:broken", "--input", "1,2"), 2, "raised KeyError"),
        (("measure", "lenet5", "--watts-per-core", "-3"), 2, "--watts-per-core -3"),
        (("evaluate", "lenet5", *SIM, "--models", "0"), 2, "--models 0"),
        (
            ("estimate", "lenet5", *SIM, "--iterations", "--json"),
            2,
            "--iterations is followed by --json, which is an option",
        ),
        (
            ("report", "sim.json", "--out", "--json"),
            2,
            "--out is followed by --json, which is an option; give --out its",
        ),
        (("evaluate", "lenet5"), 2, "needs one of --profile, --recorded and --record"),
        (("evaluate", "lenet5", *SIM, "--record", "x"), 2, "needs one of --profile, --recorded and --record"),
        (("evaluate", "all", "--recorded", "nowhere"), 2, "no experiment in nowhere"),
        (("evaluate", "lenet5", "--record", "x", "--parts", "some"), 2, "--parts some; choose from campaign, members"),
        (("evaluate", "lenet5", "--record", "x", "--input", "5"), 2, "5"),
        (("evaluate", "lenet7", *SIM), 2, "no family is called 'lenet7'"),
        (("estimate", "lenet5", *SIM, "--within", "5s"), 2, "--within 5s; give an energy such as 500J"),
        (("estimate", "cnn5", *SIM, "--approximate", "--refine", "3%"), 2, "--approximate with --refine"),
        (
            ("estimate", "lenet5", "--optimizer", "adam", *SIM, "--approximate"),
            4,
            "--approximate bridges batches, up to 64 times as large, and no other settings",
        ),
        (("estimate", "lenet5", *SIM, "--refine", "300%"), 2, "--refine 300%; give a share such as 3%"),
        (("profile", "lenet5", "--target", "0"), 2, "--target 0"),
        (("profile", "lenet5", "--mode", "graph"), 2, "--mode graph on a CPU; graphs are captured on CUDA devices"),
        (("evaluate", "lenet5", "--record", "x", "--mode", "graph"), 2, "--mode graph on a CPU"),
        (("--batch", "3"), 2, "No such option: --batch; see ampere --help"),
        (("profile", "lenet5", "--rule", "best"), 2, "--rule best; choose from guided, variance, random"),
        (("measure", "lenet5", "--add-to", "absent.json"), 2, "absent.json"),
    ],
)
def test_bad_input_is_one_line_with_the_exit_code(
    folder: Path,
    arguments: tuple[str, ...],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = (folder / "sim.json").read_text()
    (folder / "cut.json").write_text(text[:1000])
    (folder / "newer.json").write_text(text.replace('"schema": 7', '"schema": 8', 1))
    log = (folder / "sim.jsonl").read_bytes()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["ampere", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    told = capfd.readouterr()
    assert end.value.code == code
    assert words in told.err
    assert told.err.startswith("ampere: ")
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err
    assert told.out == ""
    assert (folder / "sim.jsonl").read_bytes() == log  # nothing that was measured is lost


def test_debug_shows_the_traceback(folder: Path) -> None:
    for arguments in (("--debug", "parse", "mine.py:broken"), ("parse", "mine.py:broken", "--debug")):
        done = ampere(*arguments, "--input", "1,2", cwd=folder)
        assert done.returncode == 2
        assert "Traceback" in done.stderr
        assert "KeyError" in done.stderr


def test_fresh_keeps_the_old_log(tmp_path: Path) -> None:
    arguments = ("profile", "lenet5", "--device", "simulated", "--out", "p.json")
    answer(*arguments, cwd=tmp_path)
    before = (tmp_path / "p.jsonl").read_bytes()
    answer(*arguments, "--fresh", cwd=tmp_path)
    assert (tmp_path / "p.1.jsonl").read_bytes() == before


def test_a_named_profile_lives_with_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    record = answer("profile", "lenet5", "--device", "simulated")
    assert record["profile"] == str(tmp_path / "ampere-energy" / "profiles" / "lenet5-simulated.json")
    assert answer("estimate", "lenet5", "--profile", "lenet5-simulated")["energy_j"] > 0


def test_an_interrupted_experiment_says_how_it_goes_on(tmp_path: Path) -> None:
    words = ["evaluate", "lenet5", "--record", "rec", "--device", "cpu", "--budget", "60s", "--parts", "campaign"]
    child = subprocess.Popen(
        [sys.executable, "-m", "ampere_energy", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    log = MeasurementLog(tmp_path / "rec" / "campaign.jsonl")
    end = time.monotonic() + 60
    while len(log.read()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "the same command goes on" in told
    assert "--resume" not in told


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_campaign_resumes(folder: Path, tmp_path: Path, how: signal.Signals) -> None:
    arguments = [
        "profile",
        f"{folder}/mine.py:mine",
        "--input",
        "5,3,16,16",
        "--vary",
        "--budget",
        "5s",
        "--out",
        "p.json",
    ]
    command = [sys.executable, "-m", "ampere_energy", *arguments]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    log = MeasurementLog(tmp_path / "p.jsonl")
    end = time.monotonic() + 60
    while len(log.read()) < 3 and time.monotonic() < end:
        time.sleep(0.1)
    os.kill(child.pid, how)
    _, told = child.communicate(timeout=60)
    acknowledged = log.read()
    assert len(acknowledged) >= 3
    if how is signal.SIGINT:
        assert child.returncode == 130
        assert "nothing measured is lost" in told
        assert "--resume" in told
    record = answer(*arguments, "--resume", cwd=tmp_path)
    assert record["complete"]
    kept = log.read()
    assert kept[: len(acknowledged)] == acknowledged
    assert len({(type(record), record.workload) for record in kept}) == len(kept)


def test_what_a_model_prints_stays_out_of_the_json(folder: Path) -> None:
    done = ampere("parse", "mine.py:loud", "--input", "5,3,16,16", "--json", cwd=folder)
    assert json.loads(done.stdout)["blocks"]
    assert "chatter" in done.stderr


def test_devices_names_every_meter() -> None:
    record = answer("devices")
    assert record["devices"][0]["name"] == "cpu"
    meters = {meter["name"]: meter for meter in record["meters"]}
    assert {"nvml", "rapl", "jetson", "battery", "command", "zeus", "cputime"} <= meters.keys()
    assert meters["cputime"]["readable"]
    assert all(meter["readable"] or meter["problem"] for meter in meters.values())
    assert "modelled" in ampere("devices").stdout


def test_a_noisy_profile_is_doubted(folder: Path) -> None:
    answer("profile", "lenet5", "--device", "simulated", "--method", "paper", "--out", "by-paper.json", cwd=folder)
    record = json.loads((folder / "by-paper.json").read_text())
    for kind in record["profile"]["kinds"]:
        if kind["kind"]["role"] == "hidden":
            kind["energy"]["values"] = [-value for value in kind["energy"]["values"]]
            kind["energy"]["hyper"]["mean"] *= -1
    (folder / "noisy.json").write_text(json.dumps(record))
    done = ampere("estimate", "lenet5", "--profile", "noisy.json", cwd=folder)
    assert done.returncode == 4
    assert re.search(
        r"the energy comes out at -\d.* mJ, which no training takes; the profile is too noisy", done.stderr
    )


def named(told: str) -> tuple[list[str], str]:
    """The profile command that an error names, and the profile it says to use then."""
    found = re.search(r"run ampere (profile .*?), then this again with --profile (\S+?)(,|;|$)", told.strip())
    assert found is not None, told
    return shlex.split(found[1]), found[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ("lenet5", "--input", "20,1,28,28", "--optimizer", "adamw", "--precision", "bf16", "--accumulate", "2"),
        ("har", "--channels-last"),
        ("transformer", "--widths", "2,64"),
        ("mine.py:mine", "--input", "10,3,16,16", "--widths", "4"),
        ("mine.py:two", "--input", "one:float32:10,8", "--input", "two:float32:10,5", "--mode", "graph"),
    ],
    ids=" ".join,
)
def test_the_command_an_error_names_makes_a_profile_that_serves(
    folder: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

    def run(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr(sys, "argv", ["ampere", *words])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capfd.readouterr()

    code, _, told = run("estimate", *arguments, *SIM)
    assert code == 4
    command, name = named(told)
    assert run(*command)[0] == 0
    code, out, told = run("estimate", *arguments, "--profile", name, "--json")
    assert code == 0, told
    assert json.loads(out)["energy_j"] > 0


def test_an_error_names_no_profile_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    answer("profile", "lenet5", "--device", "simulated")
    arguments = ("estimate", "lenet5", "--optimizer", "adam", "--profile", "lenet5-simulated")
    done = ampere(*arguments)
    assert "--out lenet5-simulated-2, then this again with --profile lenet5-simulated-2" in done.stderr
    command, name = named(done.stderr)
    answer(*command)
    assert answer(*arguments[:-1], name)["energy_j"] > 0


def test_approximate(folder: Path) -> None:
    done = ampere("estimate", "cnn5", "--widths", "8,16,24,24", *SIM, cwd=folder)
    assert done.returncode == 4
    for text in ("lacks conv1 (conv2d 3 padding 1", "conv4 (", "or add --approximate for a rough estimate"):
        assert text in done.stderr
    arguments = ("estimate", "cnn5", "--widths", "8,16,24,24", *SIM, "--approximate")
    record = answer(*arguments, cwd=folder)
    assert record["approximate"] == ["conv1", "conv2", "conv3", "conv4", "fc"]
    assert all(block["approximate"] for block in record["blocks"])
    assert record["provenance"] == "predicted"
    low, high = record["interval_j"]
    real = answer("measure", "cnn5", "--widths", "8,16,24,24", "--device", "simulated", cwd=folder)
    assert low < real["energy_j"] < high
    assert high / low > 1.5
    table = ampere(*arguments, cwd=folder).stdout
    for text in ("≈ conv1", "≈ approximate", "% of the joules guessed from kinds that are profiled"):
        assert text in " ".join(table.split())
    twice = answer("estimate", "lenet5", *SIM, "--input", "20,1,28,28", "--approximate", cwd=folder)
    assert (twice["from_batch"], twice["training"]["batch"]) == (10, 20)
    known = answer("estimate", "lenet5", *SIM, "--approximate", cwd=folder)
    assert known["energy_j"] < twice["energy_j"] < 2 * known["energy_j"]
    assert known["approximate"] == []
    assert "≈" not in ampere("estimate", "lenet5", *SIM, "--approximate", cwd=folder).stdout


def test_a_profile_by_the_papers_method_cannot_approximate(folder: Path) -> None:
    answer("profile", "lenet5", "--device", "simulated", "--method", "paper", "--out", "paper.json", cwd=folder)
    done = ampere("estimate", "cnn5", "--profile", "paper.json", "--approximate", cwd=folder)
    assert done.returncode == 2
    assert "by the method paper; profile with --method ampere" in done.stderr
    done = ampere("estimate", "cnn5", "--profile", "paper.json", cwd=folder)
    assert done.returncode == 4
    assert "--approximate" not in done.stderr


def test_search(folder: Path) -> None:
    (folder / "score.py").write_text("def width(ref): return sum(ref.widths)\n")
    arguments = ("search", "lenet5", *SIM, "--width-step", "2", "--objective", "score.py:width", "--trials", "30")
    stored = (*arguments, "--storage", "sqlite:///search.db", "--plot", "front.svg")
    record = answer(*stored, cwd=folder)
    assert record["objective"] == "width"
    assert record["space"]["widths"]["width2"] == {"low": 2, "high": 16, "step": 2}
    assert (record["trials"], record["provenance"], record["basis"]) == (30, "predicted", "simulated")
    best = record["front"][0]
    assert best["score"] == max(m["score"] for m in record["front"]) == sum(best["widths"])
    found = answer("estimate", "lenet5", *SIM, "--widths", ",".join(map(str, best["widths"])), cwd=folder)
    assert (best["energy_j"], *best["interval_j"]) == pytest.approx((found["energy_j"], *found["interval_j"]))
    plot = (folder / "front.svg").read_text()
    assert plot.count('data-series="front" data-x') == len(record["front"])
    done = ampere(*stored, cwd=folder)
    assert "60 trials of" in done.stdout
    assert "study 'ampere' in sqlite:///search.db: this again goes on with it" in done.stderr
    for text in ("width", "90% interval", "SIMULATED energy", "training on 10 samples"):
        assert text in done.stdout


def test_search_over_batches_and_precisions(folder: Path) -> None:
    settings = ("--input", "64,1,28,28", "--precision", "bf16")
    answer("profile", "lenet5", *settings, "--device", "simulated", "--points", "6", "--out", "wide.json", cwd=folder)
    own = ("--profile", "wide.json", "--trials", "20", "--width-step", "2")
    done = ampere("search", "lenet5", "--profile", "sim.json", *own, cwd=folder)
    assert done.returncode == 2
    assert "search with those of one device" in done.stderr  # another noise is another device
    answer("profile", "lenet5", "--device", "simulated", "--points", "6", "--out", "narrow.json", cwd=folder)
    done = ampere("search", "lenet5", "--profile", "narrow.json", *own, cwd=folder)
    assert done.returncode == 0
    assert "batch 64, bf16" in done.stdout or "batch 10, fp32" in done.stdout
    assert "training on 64 samples" in done.stdout


def test_search_by_gradient(folder: Path) -> None:
    whole = answer("estimate", "lenet5", *SIM, cwd=folder)["energy_j"]
    arguments = ("search", "lenet5", *SIM, "--gradient", "--budget-j", f"{0.95 * whole:.6g}")
    record = answer(*arguments, cwd=folder)
    member = record["member"]
    assert 0.8 * whole < member["energy_j"] <= 0.95 * whole
    assert 30_000 < member["score"] < 61_706
    assert len(record["continuous"]["widths"]) == 4
    assert "before rounding" in ampere(*arguments, cwd=folder).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--gradient",), 2, "--gradient needs one limit; give --budget 1.2J or --at-least 1e6"),
        (("--width-step", "0"), 2, "--width-step 0; give at least 1"),
        (("--plot", "front.png"), 2, "--plot front.png; plots are SVG"),
        (("--budget-j", "1"), 2, "without --gradient"),
        (("--gradient", "--budget-j", "1", "--plot", "x.svg"), 2, "--gradient with --storage or --plot"),
        (("--gradient", "--budget-j", "1e-9"), 2, "no network was found within 1e-09 J"),
        (("--widths", "1:4,8"), 2, "lenet5 has 4 widths, not 2"),
        (("--widths", "1:2:1:1,8,8,8"), 2, "give LOW:HIGH:STEP"),
        (("--objective", "score.py:gone"), 2, "score.py"),
        (("--objective", "accuracy"), 2, "--objective accuracy; choose from params, flops"),
        (("--samples", "0"), 2, "--samples 0; give at least 1"),
        (("--input", "10,1,32,32"), 4, "lacks conv1"),
    ],
)
def test_what_search_refuses(folder: Path, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = ampere("search", "lenet5", *SIM, *arguments, cwd=folder)
    assert done.returncode == code
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_profile_that_tells_nothing_says_so(tmp_path: Path) -> None:
    asked = ("profile", "lenet5", "--points", "2", "--fresh", "--out", "mine.json", "--device")
    noisy, calm = (ampere(*asked, device, cwd=tmp_path).stderr for device in ("simulated:0.49", "simulated:0.01"))
    assert "this profile is of little use: predicted from the rest" in " ".join(noisy.split())
    assert "little use" not in calm
