"""Every number of every option has a range, which is checked before anything is opened, moved or measured."""

from __future__ import annotations

import os
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ampere_energy import parse
from ampere_energy.campaign.rules import Rules
from ampere_energy.cli.app import app
from ampere_energy.cli.arguments import axis_of, width_ranges
from ampere_energy.cli.listing import merge, profiles
from ampere_energy.errors import ModelError, RequestError
from ampere_energy.measurement.devices import open_device
from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.model.source import InputSpec
from ampere_energy.model.widths import WidthRange
from command import ampere

DIGITS = "9" * 400
CORES = os.cpu_count() or 1
PARSE, ESTIMATE = ("parse", "lenet5"), ("estimate", "lenet5", "--profile", "nvidia-h200")
PROFILE, SEARCH = ("profile", "lenet5", "--fresh"), ("search", "lenet5", "--profile", "nvidia-h200")
PRUNE = ("prune", "lenet5", "--profile", "nvidia-h200")
MANY = f"{DIGITS[:40]}…"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("measure", "lenet5", "--threads", "100000"), f"--threads 100000 on a machine with {CORES} cores; give at m"),
        (("profile", "lenet5", "--threads", DIGITS), f"--threads {MANY}; give a whole number"),
        (("measure", "lenet5", "--threads", "nan"), "--threads nan; give a whole number"),
        (("measure", "lenet5", "--watts-per-core", "inf"), "--watts-per-core inf; give positive watts"),
        (("measure", "lenet5", "--watts-per-core", "1e10W"), "--watts-per-core 1e10W; give 1mW to 10kW"),
        (("measure", "lenet5", "--iterations", "1e16"), "--iterations 1e16; give at most 1000000000000000"),
        (("measure", "lenet5", "--device", "cpu:1"), "--device cpu:1; give cpu, cuda, a card by its number"),
        (("measure", "lenet5", "--device", "cuda:x"), "--device cuda:x; give cpu, cuda, a card by its number"),
        ((*PARSE, "--accumulate", "-1"), "--accumulate -1; give at least 1"),
        ((*PARSE, "--accumulate", "1e9"), "--accumulate 1e9; give at most 65536"),
        ((*PARSE, "--input", f"2,{DIGITS}"), f"--input {f'2,{DIGITS}'[:40]}…; give at most 1000000000000"),
        ((*PARSE, "--input", ",".join("2" * 200)), "…; give at most 16 sizes"),
        ((*PARSE, "--input", "0,1,28,28"), "--input 0,1,28,28; give positive sizes"),
        ((*PARSE, "--input", ":int64:1,2:-5"), "--input -5; give at least 1"),
        ((*PARSE, "--input", ":int64:0,2:5"), "an input of shape (0, 2); give positive sizes"),
        ((*PARSE, "--widths", "-6,16"), "--widths -6,16; give at least 0"),
        ((*PARSE, "--widths", DIGITS), f"--widths {MANY}; give at most 2147483647"),
        ((*PARSE, "--widths", "width=²"), "--widths width=²; give each argument a whole number"),
        ((*ESTIMATE, "--level", "0.99999999999999999"), "--level 0.99999999999999999; give a probability"),
        ((*ESTIMATE, "--level", "0.9999999"), "--level 0.9999999; give 1% to 99.99%"),
        ((*ESTIMATE, "--level", "nan"), "--level nan; give a probability"),
        ((*ESTIMATE, "--iterations", DIGITS), f"--iterations {MANY}; give a whole number"),
        ((*ESTIMATE, "--iterations", "-3"), "--iterations -3; give at least 1"),
        ((*ESTIMATE, "--battery", "1e300kWh"), "--battery 1e300kWh; give 1e-3mWh to 1e9kWh"),
        ((*ESTIMATE, "--within", "1e308GJ"), "--within 1e308GJ; give 1e-12mJ to 1e9GJ"),
        ((*ESTIMATE, "--within", "-1J"), "--within -1J; give an energy"),
        ((*ESTIMATE, "--refine", "1e-9"), "--refine 1e-9; give 0.01% to less than 100%"),
        ((*PROFILE, "--budget", "0s"), "--budget 0s; give a time"),
        ((*PROFILE, "--budget", "inf"), "--budget inf; give a time"),
        ((*PROFILE, "--budget", "1e300h"), "--budget 1e300h; give 1ms to 10000h"),
        ((*PROFILE, "--points", "1"), "--points 1; give at least 2"),
        ((*PROFILE, "--points", "1e5"), "--points 1e5; give at most 1024"),
        ((*PROFILE, "--target", "nan"), "--target nan; give a share"),
        ((*PROFILE, "--method", "papr"), "--method papr; choose from ampere, paper"),
        ((*PROFILE, "--rule", "best"), "--rule best; choose from guided"),
        ((*PROFILE, "--guide", "luck"), "--guide luck; choose from energy, time"),
        ((*PROFILE, "--precision", "fp8"), "--precision fp8; choose from fp32"),
        ((*PROFILE, "--device", "toaster"), "no device is called 'toaster'"),
        ((*PROFILE, "--width-step", "1e9"), "--width-step 1e9; give at most 65536"),
        ((*SEARCH, "--seed", "-1"), "--seed -1; give at least 0"),
        ((*SEARCH, "--seed", "1e10"), "--seed 1e10; give at most 4294967295"),
        ((*SEARCH, "--trials", "1e9"), "--trials 1e9; give at most 1000000"),
        ((*SEARCH, "--gradient", "--at-least", "nan"), "--at-least nan; give a number such as 0.9 or 1e6"),
        ((*SEARCH, "--gradient", "--at-least", DIGITS), f"--at-least {MANY}; give a number"),
        ((*SEARCH, "--gradient", "--budget", "infJ"), "--budget infJ; give an energy"),
        ((*SEARCH, "--widths", "8:4,8,8,8"), "--widths 8:4,8,8,8; give the lower value first: 4:8"),
        ((*SEARCH, "--widths", "8:64:0"), "--widths 8:64:0; give at least 1"),
        (("search", "a:b", "--profile", "x", "--vary", "n=1:1000000000"), "--vary n=1:1000000000; give at most 65536"),
        (("search", "a:b", "--profile", "x", "--vary", "n=6:2"), "--vary n=6:2; give the lower value first: 2:6"),
        (("evaluate", "lenet5", "--profile", "x", "--models", "1e6"), "--models 1e6; give at most 10000"),
        (("evaluate", "lenet5", "--profile", "x", "--seed", "1.5"), "--seed 1.5; give a whole number"),
        (("evaluate", "lenet5", "--record", "x", "--budget", "nan"), "--budget nan; give a time"),
        ((*PRUNE, "--budget", "150%"), "--budget 150%; give a share below 100%"),
        ((*PRUNE, "--budget", "50%", "--samples", "1e9"), "--samples 1e9; give at most 10000"),
        ((*PRUNE, "--budget", "50%", "--step", "0"), "--step 0; give at least 1"),
        ((*PRUNE, "--budget", "50%", "--guide", "luck"), "--guide luck; choose from ampere, flops, random"),
        ((*PRUNE, "--budget", "50%", "--importance", "l9"), "--importance l9; choose from"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_a_number_out_of_its_range_is_refused_before_anything_is_done(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    (tmp_path / "lenet5-cpu.jsonl").write_text("{}\n")
    out = ("--out", "lenet5-cpu.json") if arguments[0] == "profile" else ()
    done = ampere(*arguments, *out, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert words in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["lenet5-cpu.jsonl"], "no log was moved, nothing written"


@pytest.mark.parametrize("command", [*(info.callback for info in app.registered_commands), merge, profiles])
def test_no_option_takes_a_number_without_a_range(command: Callable[..., Any]) -> None:
    """Whatever is annotated as a number is read by a parser of `arguments`."""
    hints = typing.get_type_hints(command, include_extras=True)
    numbers = {name: hint for name, hint in hints.items() if re.search(r"\b(int|float)\b", str(hint).split(",")[0])}
    assert bool(numbers) is (
        command.__name__ in ("profile", "estimate", "measure", "evaluate", "search", "prune", "parse")
    )
    for name, hint in numbers.items():
        assert typing.get_args(hint)[1].parser is not None, name


def test_ranges_hold_in_python_too() -> None:
    for threads in (0, -1, CORES + 1, 100_000):
        with pytest.raises(RequestError, match=rf"--threads {threads}( on a machine with {CORES} cores)?; give at"):
            LocalDevice("cpu", "cputime", threads=threads)
        with pytest.raises(RequestError, match=f"--threads {threads}"):
            open_device("cpu", meter="cputime", threads=threads)
    for budget_s in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(RequestError, match="--budget"):
            Rules(budget_s=budget_s)
    with pytest.raises(RequestError, match="an input of values below -5"):
        InputSpec("", "int64", (1, 2), -5)


def test_a_batch_of_no_samples_gets_no_number(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"an input of shape \(0, 3\) has no samples; give at least 1, batch first"):
        parse(torch.nn.Linear(3, 4), torch.zeros(0, 3))
    (tmp_path / "m.py").write_text("import torch\ndef empty(): return torch.nn.Linear(3, 4), torch.zeros(0, 3)\n")
    done = ampere("parse", "m.py:empty", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "an input of shape 0,3 holds nothing" in done.stderr


def test_what_is_in_range_is_read_as_before() -> None:
    assert width_ranges("8:64:8,16:128,10") == (WidthRange(8, 64, 8), WidthRange(16, 128), WidthRange(10, 10))
    assert axis_of("depth=2:6").values == (2, 3, 4, 5, 6)
    assert axis_of("width=16:64:16,5").values == (5, 16, 32, 48, 64)
