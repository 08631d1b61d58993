"""No table cuts a number, a unit or a name, neither in a narrow window nor where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.table import Table

from ampere_energy.reporting.terminal import WIDE, console, whole
from command import ampere, answer

LONG = "a_module_with_a_name_that_is_longer_than_most"
FACTORY = "a_factory_whose_name_does_not_fit_into_a_column"
MINE = f"""
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.{"a_stem_of_many_words_" * 3} = nn.Conv2d(3, 1024, 3)
        self.{"a_head_of_many_words_" * 3} = nn.Linear(1024, 1000)
    def forward(self, x):
        stem, head = self.children()
        return head(stem(x).relu().mean((2, 3)))
def {FACTORY}(): return Net()
"""
MODEL = (f"{LONG}.py:{FACTORY}", "--input", "4,3,16,16")
SIM = ("--profile", "lenet5-with-a-very-long-name-for-a-profile.json")
COMMANDS = {
    "models": ("models",),
    "devices": ("devices",),
    "profiles": ("profiles",),
    "parse": ("parse", *MODEL),
    "parse a family": ("parse", "resnet50"),
    "profile": ("profile", *MODEL, "--device", "simulated:0.01", "--points", "3", "--fresh", "--out", "again.json"),
    "profile by the paper": (
        "profile", "lenet5", "--device", "simulated", "--method", "paper", "--points", "3", "--fresh",
        "--out", "paper.json",
    ),
    "estimate": (
        "estimate", *MODEL, "--profile", "mine.json", "--iterations", "123456", "--battery", "15Wh", "--within", "3kJ",
    ),
    "measure": ("measure", *MODEL, "--device", "simulated:0.01", "--iterations", "123456"),
    "evaluate": ("evaluate", "lenet5", *SIM, "--models", "3"),
    "search": ("search", "lenet5", *SIM, "--trials", "20"),
    "search by gradient": ("search", "lenet5", *SIM, "--gradient", "--at-least", "3e4"),
    "prune": ("prune", "lenet5", *SIM, "--budget", "95%", "--mean", "--step", "1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of long names, and profiles on the simulated device; one of them saved under a long name."""
    path = tmp_path_factory.mktemp("whole")
    (path / f"{LONG}.py").write_text(MINE)
    device = ("--device", "simulated:0.01", "--points", "3", "--out")
    answer("profile", *MODEL, *device, "mine.json", cwd=path)
    answer("profile", "lenet5", *device, SIM[1], cwd=path)
    saved = path / "data/ampere-energy/profiles"
    saved.mkdir(parents=True)
    (saved / SIM[1]).write_bytes((path / SIM[1]).read_bytes())
    (saved / f"{'broken-' * 10}.json").write_text("{")
    return path


def numbers(text: str) -> set[str]:
    """Words that are numbers, with what holds them together."""
    return set(re.findall(r"(?<!\S)[±+−-]?\d[\d.,:–-]*%?(?!\S)", text))


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_cut(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = ampere(*COMMANDS[name], cwd=folder)
    assert wide.returncode == 0, wide.stderr
    monkeypatch.setenv("COLUMNS", "80")
    narrow = ampere(*COMMANDS[name], cwd=folder)
    assert narrow.returncode == 0, narrow.stderr
    assert "…" not in wide.stdout + narrow.stdout
    if name not in ("measure", "search", "search by gradient", "profile", "profile by the paper"):  # these take time
        assert numbers(wide.stdout) <= numbers(narrow.stdout)
        letters = {
            kind: sorted(re.sub(r"[\s█▏▎▍▌▋▊▉]", "", done.stdout)) for kind, done in (("w", wide), ("n", narrow))
        }
        assert letters["w"] == letters["n"], "words are folded, and nothing of them is lost"


def test_names_stand_in_one_piece_where_there_is_no_window(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = ampere("parse", *MODEL, cwd=folder).stdout
    assert ("a_stem_of_many_words_" * 3).rstrip() in table
    assert f"{LONG}.py:{FACTORY}: blocks" in table


def test_a_console_is_as_wide_as_its_window_or_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console().width == WIDE
    monkeypatch.setenv("COLUMNS", "80")
    assert console().width == 80


def test_columns_of_numbers_keep_their_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    table = Table(box=None)
    table.add_column("name")
    table.add_column("energy", justify="right", no_wrap=True)
    table.add_column("widths")
    table.add_row("a name without any space in it".replace(" ", "-"), "123,456,789.25 MJ", "128,256,512")
    console().print(whole(table), crop=False)
    out = capsys.readouterr().out
    assert "123,456,789.25 MJ" in out
    assert "128,256,512" in out
    assert "…" not in out
