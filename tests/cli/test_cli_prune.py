from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from ampere_energy.optimization.pruning.pruned import load_pruned
from command import ampere, answer

MINE = """
import torch
from torch import nn
class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.inner, self.outer = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 48, 1), nn.Conv2d(48, 32, 1)
        self.norm, self.fc = nn.BatchNorm2d(48), nn.Linear(32, 4)
    def forward(self, x):
        x = self.stem(x).relu()
        x = x + self.outer(self.norm(self.inner(x)).relu())
        return self.fc(x.mean((2, 3)))
def residual():
    torch.manual_seed(0)
    return Residual()
def recurrent(): return nn.LSTM(3, 8, batch_first=True)
def loss(model): return model(torch.ones(2, 3, 16, 16)).square().sum()
def narrow(model): return -model.stem.out_channels
"""
MODEL = ("mine.py:residual", "--input", "64,3,16,16")
UNKNOWN = ("--input", "11,3,64,64", "--widths", "5,5,5,5")  # no batch that is bundled
KNOWN = (*MODEL, "--profile", "mine.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's model, profiled for pruning on the simulated device."""
    path = tmp_path_factory.mktemp("prune")
    (path / "mine.py").write_text(MINE)
    arguments = ("--device", "simulated:0.01", "--prunable", "--width-step", "8", "--out", "mine.json")
    record = answer("profile", *MODEL, *arguments, cwd=path)
    assert [kind["widths"] for kind in record["kinds"]] == [
        ["8–32 step 8"],
        ["8–32 step 8", "8–48 step 8"],
        ["8–32 step 8"],
    ]
    return path


def test_prune_has_the_contracted_keys_and_keeps_the_budget(folder: Path) -> None:
    record = answer("prune", *KNOWN, "--budget", "60%", "--verify", "--out", "small", cwd=folder)
    share = record["after"]["energy_j"] / record["before"]["energy_j"]
    assert 0.5 < share < record["after"]["interval_j"][1] / record["before"]["energy_j"] <= 0.6
    assert 0.5 < record["measured"]["share"] <= 0.6
    assert record["measured"]["provenance"] == record["basis"] == "simulated"
    assert (record["guide"], record["importance"], record["aim"], record["step"]) == ("ampere", "l2", "upper", 8)
    assert [row["name"] for row in record["widths"]] == ["stem", "inner"]
    assert record["groups"] == {row["name"]: row["after"] for row in record["widths"]}
    assert 0 < record["reward"]["here"]["saves"] < 1
    assert record["out"] == "small"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        module = load_pruned("small", "mine.py:residual")
    assert module.get_submodule("stem").out_channels == record["groups"]["stem"]
    assert module(torch.zeros(2, 3, 16, 16)).shape == (2, 4)


def test_the_table_says_what_was_promised_and_what_was_found(folder: Path) -> None:
    done = ampere("prune", *KNOWN, "--budget", "60%", "--verify", cwd=folder)
    for text in ("to 60 % by ampere, l2 importance", "stem", "run, simulated energy", "90% interval", "SIMULATED"):
        assert text in done.stdout
    assert "inside the budget, at" in done.stdout
    assert "halving every width saves" in done.stderr
    flops = ampere("prune", *KNOWN, "--budget", "60%", "--guide", "flops", cwd=folder).stdout
    assert "60 % of the FLOPs are" in flops


def test_refining_measures_and_teaches_the_profile(folder: Path) -> None:
    shutil.copy(folder / "mine.json", folder / "taught.json")
    shutil.copy(folder / "mine.jsonl", folder / "taught.jsonl")
    lines = len((folder / "taught.jsonl").read_text().splitlines())
    done = ampere("prune", *MODEL, "--profile", "taught.json", "--budget", "60%", "--refine", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert 0.56 <= record["measured"]["share"] <= 0.6
    assert record["budget"] == {"share": 0.6, "energy_j": None}
    assert record["aim"] == "mean"
    assert any("measured on the way" in note for note in record["notes"])
    assert "inside the budget" in record["notes"][-1]
    assert "added to taught.json" in done.stderr
    assert len((folder / "taught.jsonl").read_text().splitlines()) >= lines + 2
    again = answer(
        "profile",
        *MODEL,
        "--device",
        "simulated:0.01",
        "--prunable",
        "--width-step",
        "8",
        "--out",
        "taught.json",
        "--resume",
        cwd=folder,
    )
    assert again["complete"]


def test_other_guides_and_importances(folder: Path) -> None:
    taylor = answer("prune", *KNOWN, "--budget", "70%", "--importance", "taylor", "--mean", cwd=folder)
    assert (taylor["aim"], taylor["importance"]) == ("mean", "taylor")
    assert "random targets" in taylor["notes"][0]
    told = answer("prune", *KNOWN, "--budget", "70%", "--importance", "taylor", "--loss", "mine.py:loss", cwd=folder)
    assert told["notes"] == []
    chance = ("--guide", "random", "--samples", "3", "--objective", "mine.py:narrow", "--importance", "random")
    drawn = answer("prune", *KNOWN, "--budget", "70%", *chance, cwd=folder)
    assert drawn["after"]["interval_j"][1] <= 0.7 * drawn["before"]["energy_j"]
    assert "of 3 random width configurations" in drawn["notes"][0]


def test_weights_of_a_file_are_pruned(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        names: dict[str, object] = {}
        exec(MINE, names)
        model = names["residual"]()  # type: ignore[operator]
        with torch.no_grad():
            model.stem.weight.zero_()
            model.stem.weight[5:] = 3.0
        torch.save(model.state_dict(), "trained.pt")
        answer("prune", *KNOWN, "--budget", "90%", "--weights", "trained.pt", "--out", "trained", cwd=folder)
        weights = load_pruned("trained", "mine.py:residual").get_submodule("stem").weight
        assert weights.shape[0] < 32
        assert (weights == 3.0).all()
    failed = ampere("prune", *KNOWN, "--budget", "90%", "--weights", "mine.py", cwd=folder)
    assert failed.returncode == 2
    assert "mine.py holds no weights of this model" in failed.stderr


def test_budgets_that_are_met_or_cannot_be(folder: Path) -> None:
    met = answer("prune", *KNOWN, "--budget", "500J", "--verify", cwd=folder)
    assert (met["changed"], met["measured"]) == (False, None)
    told = ampere("prune", *KNOWN, "--budget", "500J", cwd=folder).stdout
    assert "nothing was removed" in " ".join(told.split())
    lost = ampere("prune", *KNOWN, "--budget", "1%", cwd=folder)
    assert lost.returncode == 2
    assert "cannot be met: the best reachable is" in lost.stderr
    assert "(8,8)" in lost.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("prune", "mine.py:recurrent", "--input", "64,5,3", "--profile", "mine.json", "--budget", "50%"), 2, "LSTM"),
        (("prune", "lstm", "--profile", "nvidia-h200", "--budget", "50%"), 2, "of its LSTM layers; choose smaller"),
        (("prune", "resnet34", "--profile", "nvidia-h200", "--budget", "50%"), 4, "covers resnet34"),
        (("prune", "cnn5", *UNKNOWN, "--profile", "nvidia-h200", "--budget", "50%"), 4, "multiples of 8"),
        (("profile", "mine.py:recurrent", "--input", "64,5,3", "--prunable"), 2, "ampere search --widths"),
        (("profile", *MODEL, "--prunable", "--vary"), 2, "--prunable with --vary"),
        (("prune", *KNOWN, "--budget", "half"), 2, "--budget half; give a share below 100%, such as 50%, or joules"),
        (("prune", *KNOWN, "--budget", "200%"), 2, "--budget 200%; give a share below 100%"),
        (("prune", *KNOWN, "--budget", "50%", "--step", "0"), 2, "--step 0; give at least 1"),
        (("prune", *KNOWN, "--budget", "50%", "--objective", "mine.py:net"), 2, "it is for --guide random"),
        (("prune", *KNOWN, "--budget", "50%", "--verify", "--device", "cpu"), 2, "the profile is of simulated"),
        (("prune", *KNOWN, "--budget", "50%", "--guide", "luck"), 2, "choose from ampere, flops, random"),
        (("prune", *KNOWN, "--budget", "50%", "--importance", "l3"), 2, "choose from random, l1, l2, bn, taylor"),
        (("prune", *KNOWN, "--budget", "0.1J", "--guide", "flops"), 2, "FLOPs know no joules"),
        (("prune", "cnn5", "--profile", "nvidia-h200", "--budget", "50%", "--verify"), 2, "say on which --device"),
        (("prune", "cnn5", "--profile", "nvidia-h200", "--budget", "50%", "--refine"), 2, "nvidia-h200 is bundled"),
        (("prune", *KNOWN, "--budget", "50%", "--refine", "--guide", "flops"), 2, "--refine with --guide flops"),
    ],
)
def test_bad_requests(folder: Path, arguments: tuple[str, ...], code: int, told: str) -> None:
    done = ampere(*arguments, cwd=folder)
    assert done.returncode == code
    assert told in done.stderr


def test_a_profile_of_the_model_as_it_is_names_the_one_that_does(folder: Path) -> None:
    answer("profile", *MODEL, "--device", "simulated:0.01", "--out", "plain.json", cwd=folder)
    done = ampere("prune", *MODEL, "--profile", "plain.json", "--budget", "60%", cwd=folder)
    assert done.returncode == 4
    command = done.stderr.partition("run ampere ")[2].partition(", then this again")[0]
    assert "--prunable --width-step 8" in command
    assert ampere(*shlex.split(command), cwd=folder).returncode == 0
    name = shlex.split(command)[-1]
    record = json.loads(ampere("prune", *MODEL, "--profile", name, "--budget", "60%", "--json", cwd=folder).stdout)
    assert record["changed"]


def test_what_a_bundle_does_not_cover_is_not_guessed() -> None:
    done = ampere("prune", "resnet34", "--profile", "nvidia-h200", "--input", "512,3,32,32", "--budget", "50%")
    assert done.returncode == 4
    assert "covers resnet34" in done.stderr
    assert "--approximate" not in done.stderr  # which prune does not have


def test_a_bundle_prunes_for_a_card_that_is_not_here() -> None:
    done = ampere("prune", "cnn5", "--profile", "nvidia-h200", "--budget", "50%", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["after"]["interval_j"][1] <= 0.5 * record["before"]["energy_j"]
    assert record["basis"] == "measured"
    assert record["after"]["training_flops"] < 0.4 * record["before"]["training_flops"]  # FLOPs fall faster there
    others = {(other["training"]["mode"], other["training"]["batch"]) for other in record["reward"]["others"]}
    assert others >= {("graph", 512), ("eager", 128), ("graph", 128)}
