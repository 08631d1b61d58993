from __future__ import annotations

from pathlib import Path

import pytest

from ampere_energy.errors import ModelError, RequestError, WidthError
from ampere_energy.model.source import instantiate, model_ref
from ampere_energy.model.zoo.families import family

FILE = """
from torch import nn
import neighbour
def small(width=4): return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))
def broken(): raise KeyError("no such thing")
def number(): return 7
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("x = 1")
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_factory_in_a_file(file: Path) -> None:
    module = instantiate(model_ref(f"{file}:small", widths=(9,), input=(5, 3)))
    assert sum(p.numel() for p in module.parameters()) == 3 * 9 + 9 + 9 * 2 + 2


def test_a_factory_in_a_package() -> None:
    module = instantiate(model_ref("torch.nn:Identity", input=(5, 3)))
    assert type(module).__name__ == "Identity"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{}:broken", "raised KeyError: 'no such thing'"),
        ("{}:number", "returned int; return a torch.nn.Module"),
        ("{}:absent", "has no factory 'absent'; it defines small, broken, number"),
        ("/nowhere/x.py:small", "there is no file /nowhere/x.py"),
        ("no_such_package.models:small", "cannot be imported .ModuleNotFoundError"),
        ("{}:", "names no factory"),
    ],
)
def test_a_factory_that_cannot_be_used_is_named(file: Path, source: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        instantiate(model_ref(source.format(file), input=(5, 3)))


def test_a_factory_needs_an_input() -> None:
    with pytest.raises(RequestError, match="--input"):
        model_ref("some.module:factory")


def test_families_check_their_widths() -> None:
    with pytest.raises(RequestError, match="no family is called 'lenet6'; choose from lenet5, cnn5"):
        model_ref("lenet6")
    with pytest.raises(WidthError, match="has 4 widths, not 2"):
        model_ref("lenet5", widths=(1, 2))
    with pytest.raises(WidthError, match="width 1 of lenet5 is 7; give 1–6"):
        model_ref("lenet5", widths=(7, 16, 120, 84))
    with pytest.raises(ModelError, match="at least 12×12"):
        instantiate(model_ref("lenet5", input=(10, 1, 8, 8)))


def test_samples_are_different_in_range_and_repeatable() -> None:
    members = family("cnn5").aligned(8).sample(200, seed=1)
    assert len(set(members)) == 200
    assert members == family("cnn5").aligned(8).sample(200, seed=1)
    assert members != family("cnn5").aligned(8).sample(200, seed=2)
    for widths in members:
        assert family("cnn5").aligned(8).check(widths) == widths
    with pytest.raises(RequestError, match="which has"):
        family("lenet5").sample(10**7, seed=0)
