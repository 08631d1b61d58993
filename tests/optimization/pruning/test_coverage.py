"""What a profile does not cover is compared with what it has, and the remedy serves."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ampere_energy.cost_model.known_kinds import Band, KnownKind
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.errors import CoverageError
from ampere_energy.estimation.coverage import differing, listed, nearest_words, recognised
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import Kind, Role
from ampere_energy.model.layers import layer
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Training
from ampere_energy.profiles.profile import Profile, load
from command import ampere, answer

MINE = """
from torch import nn
def net(width=8, bias=True, after=nn.ReLU):
    return nn.Sequential(nn.Conv2d(3, width, 3, bias=bias), after(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(width, 4))
def small(): return net(4)
def large(): return net(32)
def call():
    with open(__file__ + ".calls", "a+") as file:
        file.write(".")
        return file.tell()
def growing(): return net(8 + call())
def changing(): return net(after=(nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.ELU, nn.Mish, nn.Sigmoid)[call() % 7])
"""
INPUT = ("--input", "5,3,16,16")
DEVICE = ("--device", "simulated", "--points", "3", "--out")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's models, and profiles of some of them on the simulated device."""
    path = tmp_path_factory.mktemp("covering")
    (path / "mine.py").write_text(MINE)
    answer("profile", "mine.py:small", *INPUT, "--vary", *DEVICE, "vary.json", cwd=path)
    answer("profile", "mine.py:small", *INPUT, *DEVICE, "fixed.json", cwd=path)
    answer("profile", "lenet5", *DEVICE, "lenet5.json", cwd=path)
    answer("profile", "lenet5", "--widths", "3,8,60,40", *DEVICE, "narrow.json", cwd=path)
    return path


def follow(folder: Path, arguments: tuple[str, ...], profile: str) -> str:
    """Asks for an estimate that the profile does not cover, does what the error says, and asks again."""
    done = ampere(*arguments, "--profile", profile, cwd=folder)
    assert done.returncode == 4, done.stderr
    found = re.search(r"run ampere (profile .*?), then this again with --profile (\S+?)(,|;|$)", done.stderr.strip())
    assert found is not None, done.stderr
    answer(*shlex.split(found[1]), cwd=folder)
    again = ampere(*arguments, "--profile", found[2], cwd=folder)
    assert again.returncode == 0, again.stderr
    return done.stderr


def test_a_width_beyond_the_range_is_named_and_the_remedy_covers_it(folder: Path) -> None:
    told = follow(folder, ("estimate", "lenet5", "--widths", "6,16,120,84"), "narrow.json")
    assert "block conv1 has widths 6, the profile covers out 1–3, block conv2 has widths 6,16" in told
    assert "--widths 6,16,120,84" in told
    told = follow(folder, ("estimate", "mine.py:net", *INPUT, "--widths", "32"), "vary.json")
    assert "block 0 has widths 32, the profile covers out 1–4" in told


def test_a_profile_of_narrower_widths_is_followed_by_one_that_knows_them_too(folder: Path) -> None:
    told = follow(folder, ("estimate", "mine.py:large", *INPUT), "vary.json")
    assert " --vary " in told
    assert " --vary " not in follow(folder, ("estimate", "mine.py:large", *INPUT), "fixed.json")


def test_another_input_size_is_named(folder: Path) -> None:
    told = follow(folder, ("estimate", "lenet5", "--input", "10,1,32,32"), "lenet5.json")
    assert "the profile of lenet5 lacks conv1 (conv2d 5 padding 2 @1×32×32" in told
    assert "nearest to block conv1 that it has differs in the input size (1×32×32, the profile has 1×28×28)" in told


def test_a_model_that_was_changed_since_is_not_sent_in_a_circle(folder: Path, tmp_path: Path) -> None:
    for name in ("fixed.json", "mine.py"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "mine.py").write_text(MINE.replace("after=nn.ReLU):", "after=nn.Tanh):"))
    told = follow(tmp_path, ("estimate", "mine.py:small", *INPUT), "fixed.json")
    assert "differs in the layers after it (tanh · adaptive_avg_pool2d 1 · flatten, the profile has relu ·" in told
    assert "the model or its input is not what was profiled: to profile it as it is now, run ampere profile" in told


@pytest.mark.parametrize("factory", ["growing", "changing"])
def test_a_factory_that_gives_another_model_each_time_is_told_so(folder: Path, factory: str) -> None:
    """No profile could know it, so none is recommended."""
    answer("profile", f"mine.py:{factory}", *INPUT, *DEVICE, f"{factory}.json", cwd=folder)
    asked = ("estimate", f"mine.py:{factory}", *INPUT, "--profile", f"{factory}.json")
    done = ampere(*asked, cwd=folder)
    done = done if done.returncode else ampere(*asked, cwd=folder)
    assert done.returncode == 4
    assert f"mine.py:{factory} differs from call to call (block 0: conv2d 3 @3×16×16 · " in done.stderr
    assert "let the factory give the same model and inputs every time" in done.stderr
    assert "run ampere profile" not in done.stderr


def test_a_search_beyond_a_profile_names_one_that_would_do(folder: Path) -> None:
    done = ampere("search", "lenet5", "--profile", "lenet5.json", "--input", "10,1,32,32", cwd=folder)
    assert done.returncode == 4
    found = re.search(r"run ampere (profile .*?), then this again with --profile (\S+)", done.stderr)
    assert found is not None, done.stderr
    answer(*shlex.split(found[1]), cwd=folder)
    again = ("search", "lenet5", "--profile", found[2].strip(), "--input", "10,1,32,32", "--trials", "3")
    assert answer(*again, cwd=folder)["front"]


def test_nothing_is_measured_for_a_profile_that_could_not_learn_from_it(folder: Path) -> None:
    done = ampere("measure", "cnn5", "--device", "simulated", "--add-to", "lenet5.json", cwd=folder)
    assert (done.returncode, done.stdout) == (4, "")
    assert "the profile of lenet5 lacks conv1 (conv2d 3 padding 1" in done.stderr


def test_approximate_is_not_recommended_where_it_was_tried(folder: Path) -> None:
    arguments = ("estimate", "cnn5", "--input", "64,3,32,32", "--profile", "lenet5.json")
    assert "or add --approximate" in ampere(*arguments, cwd=folder).stderr
    tried = ampere(*arguments, "--approximate", cwd=folder)
    assert "or add --approximate" not in tried.stderr


CONV = layer("conv2d", kernel=(3, 3), stride=(1, 1), padding=(0, 0), dilation=(1, 1), bias=True)
HIDDEN = Kind(Role.HIDDEN, (CONV, layer("relu")), (8, 8), None, True, Training(4))


def known(kind: Kind) -> KnownKind:
    def at(points: Array) -> Band:
        raise AssertionError("descriptions are compared, not energies")

    return KnownKind(kind.id, f"{kind.role} {kind.label}", (), (), (), 0, at)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (Kind(Role.HIDDEN, (CONV, layer("relu")), (6, 6), None, True, Training(4)), "in the input size (8×8, the"),
        (Kind(Role.HIDDEN, (CONV, layer("gelu")), (8, 8), None, True, Training(4)), "(relu, the profile has gelu"),
        (
            Kind(Role.HIDDEN, (CONV, layer("relu")), (8, 8), None, False, Training(4)),
            "in the input's gradient (the backward pass below it, the profile has no backward pass)",
        ),
        (
            Kind(
                Role.HIDDEN,
                (layer("conv2d", **{**dict(CONV.options), "bias": False}), layer("relu")),
                (8, 8), None, True, Training(4),
            ),
            "in the bias of conv2d (True, the profile has False)",
        ),
    ],
)  # fmt: skip
def test_what_differs_is_named(there: Kind, words: str) -> None:
    far = Kind(Role.OUTPUT, (layer("linear", bias=True), layer("mse")), (), 3, True, Training(4))
    told = nearest_words(Block("conv", HIDDEN, (2, 3)), [known(far), known(there)])
    assert told.startswith("the nearest to block conv that it has differs ")
    assert words in told


def test_nothing_like_it_is_said_so() -> None:
    far = Kind(Role.OUTPUT, (layer("linear", bias=True), layer("mse")), (), 3, True, Training(4))
    assert nearest_words(Block("conv", HIDDEN, (2, 3)), [known(far)]) == "nothing in the profile is like block conv"
    assert nearest_words(Block("conv", HIDDEN, (2, 3)), []) == ""


def test_names_are_counted_where_there_are_many() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"


def test_equal_settings_do_not_differ() -> None:
    assert differing(Training(3), Training(3)) == ""


@pytest.fixture
def lenet(folder: Path) -> Profile:
    return load(folder / "narrow.json")


def test_a_model_may_be_known_beyond_its_widths(lenet: Profile) -> None:
    spec: ModelSpec = parse_ref(model_ref("lenet5", training=Training(10)))
    recognised(spec, lenet)  # it can be measured, and the profile learns from it
    with pytest.raises(CoverageError, match="lacks conv1"):
        recognised(parse_ref(model_ref("cnn5", input=(10, 1, 28, 28), training=Training(10))), lenet)


BRANCHED = """
from torch import nn
class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.inner, self.outer = nn.Conv2d(3, 32, 3), nn.Conv2d(32, 48, 1), nn.Conv2d(48, 32, 1)
        self.norm, self.fc = nn.BatchNorm2d(48), nn.Linear(32, 4)
    def forward(self, x):
        x = self.stem(x).relu()
        return self.fc((x + self.outer(self.norm(self.inner(x)).relu())).mean((2, 3)))
def residual(): return Residual()
"""


def test_a_profile_for_pruning_also_knows_the_model_itself(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BRANCHED)
    model = ("mine.py:residual", "--input", "16,3,16,16")
    answer("profile", *model, "--prunable", "--width-step", "8", *DEVICE, "p.json", cwd=tmp_path)
    record = answer("estimate", *model, "--profile", "p.json", cwd=tmp_path)
    assert (record["model"], record["approximate"]) == ("mine.py:residual", [])
    real = answer("measure", *model, "--device", "simulated", "--iterations", "1", cwd=tmp_path)
    assert record["energy_j"] == pytest.approx(real["energy_j"], rel=0.25)
