"""`ampere search` and `ampere evaluate` over the arguments of a user's own factory."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command import ampere, answer

pytestmark = pytest.mark.usefixtures("one_thread")
MINE = """
import torch
from torch import nn

def blocks(width: int = 8, depth: int = 1, kernel: int = 3):
    layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, kernel, padding=kernel // 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3)), torch.randn(4, 3, 8, 8)

def loud(depth):
    print("chatter")
    return blocks(16, depth)

def narrow(ref): return -dict(zip(ref.names, ref.widths))["width"]
"""
MODEL = ("mine.py:blocks", "--profile", "P.json")
VARY = ("--vary", "width=8:32:8", "--vary", "depth=1:2", "--vary", "kernel=3,5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's factory, and a profile of its structures on the simulated device."""
    path = tmp_path_factory.mktemp("structures")
    (path / "mine.py").write_text(MINE)
    profiled = ("--device", "simulated:0.01", "--points", "3", "--out", "P.json")
    answer("profile", "mine.py:blocks", *VARY, *profiled, cwd=path)
    return path


def test_search_calls_arguments_by_their_names(folder: Path) -> None:
    record = answer("search", *MODEL, *VARY, "--objective", "mine.py:narrow", cwd=folder)
    widths = record["space"]["widths"]
    assert list(widths) == ["depth", "kernel", "width"]
    assert widths["width"] == {"low": 8, "high": 32, "step": 8}
    assert (record["space"]["members"], record["trials"], record["samples"]) == (16, 16, 4)
    [best] = record["front"]
    assert best["arguments"] == {"depth": 1, "kernel": 3, "width": 8}, "the narrowest is also the cheapest"
    one = answer("estimate", *MODEL, "--widths", "width=8,depth=1,kernel=3", cwd=folder)
    assert best["energy_j"] == pytest.approx(one["energy_j"])
    table = ampere("search", *MODEL, *VARY, cwd=folder).stdout
    assert "arguments" in table
    assert "depth=2,kernel=5,width=32" in table


def test_search_of_uneven_values_tries_exactly_these(folder: Path) -> None:
    record = answer("search", *MODEL, "--vary", "width=8,16,32", "--vary", "depth=1,2,4", cwd=folder)
    assert record["space"]["widths"] == {"depth": [1, 2, 4], "width": [8, 16, 32]}
    assert record["distinct"] == record["space"]["members"] == 9


def test_what_a_factory_prints_is_no_part_of_the_answer(folder: Path) -> None:
    record = answer("search", "mine.py:loud", *MODEL[1:], "--vary", "depth=1,2,4", cwd=folder)
    assert [member["arguments"]["depth"] for member in record["front"]] == [4, 2, 1]


def test_search_by_gradient_tells_arguments(folder: Path) -> None:
    limited = ("search", *MODEL, *VARY, "--gradient", "--budget")
    whole = answer("estimate", *MODEL, "--widths", "width=32,depth=2,kernel=5", cwd=folder)["energy_j"]
    record = answer(*limited, f"{0.5 * whole}J", cwd=folder)
    assert record["member"]["energy_j"] <= 0.5 * whole
    assert list(record["member"]["arguments"]) == ["depth", "kernel", "width"]
    assert 8 <= record["continuous"]["arguments"]["width"] <= 32
    table = ampere(*limited, f"{2 * whole}J", cwd=folder).stdout
    assert re.search(r"arguments +depth=2,kernel=5,width=32", table)
    assert "before rounding  width=32.0" in table


def test_evaluate_draws_members_of_a_factory(folder: Path) -> None:
    asked = ("evaluate", *MODEL, *VARY, "--models", "5")
    [record] = answer(*asked, "--report", "r.html", cwd=folder)
    drawn = [member["arguments"] for member in record["members"]]
    assert len({tuple(arguments.items()) for arguments in drawn}) == 5
    assert all(list(arguments) == ["depth", "kernel", "width"] for arguments in drawn)
    assert record["scores"]["ampere"]["mape"] < 0.06
    assert record["scores"]["flops"]["mape"] > record["scores"]["ampere"]["mape"]
    assert record["widths"] == "aligned", "numbers of layers and sizes of kernels are no widths"
    shown = ",".join(f"{name}={value}" for name, value in drawn[0].items())
    assert shown in (folder / "r.html").read_text()
    (folder / "e.json").write_text(json.dumps([record]))
    ampere("report", "e.json", cwd=folder)
    assert shown in (folder / "e.html").read_text()
    table = ampere(*asked, cwd=folder).stdout
    assert shown.replace(",", ", ") in table, "the same seed draws the same networks"
    assert "arguments" in table


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("search", *MODEL, *VARY, "--widths", "8"), 2, "--vary width=8:32:8 with --widths 8; give values of every"),
        (("search", *MODEL, *VARY, "--width-step", "8"), 2, "with --width-step 8; give the step with the values"),
        (("search", "lenet5", "--profile", "P.json", *VARY), 2, "with lenet5; vary the arguments of a factory"),
        (("search", *MODEL), 2, "or its arguments by name, as --vary width=16:64:8"),
        (("search", *MODEL, "--vary"), 2, "give values such as depth=2:6"),
        (("search", *MODEL, "--vary", "layers=1:2"), 2, "are layers its arguments?"),
        (
            ("search", *MODEL, "--vary", "width=8,16,32", "--gradient", "--budget", "1J"),
            2,
            "width=8,16,32 along gradients; give evenly spaced values",
        ),
        (
            ("search", *MODEL, "--vary", "width=8:40:8", "--vary", "kernel=3,5"),
            4,
            "run ampere profile mine.py:blocks --device simulated:0.01 --optimizer sgd --mode eager "
            "--vary width=8:40:8 --vary kernel=3,5 --out",
        ),
        (("evaluate", *MODEL, "--vary", "kernel=3,7"), 4, "--vary kernel=3,7 --out"),
        (("evaluate", *MODEL, "--vary", "kernel=3,5"), 2, "20 networks asked of mine.py:blocks, which has 2"),
        (("evaluate", *MODEL), 2, "has no networks to draw; give values of its arguments, as --vary"),
        (("evaluate", "lenet5", "--profile", "P.json", *VARY), 2, "with lenet5; vary the arguments of a factory"),
        (("evaluate", "mine.py:blocks", "--record", "x", *VARY), 2, "with --record; records are of families"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_varied_is_said_in_a_line(
    folder: Path, arguments: tuple[str, ...], code: int, told: str
) -> None:
    done = ampere(*arguments, cwd=folder)
    assert done.returncode == code, done.stderr
    line = done.stderr.strip().splitlines()[-1]
    assert told in line
    assert sum(text.startswith("ampere:") for text in done.stderr.splitlines()) == 1
