from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ampere_energy.errors import ModelError, RequestError, WidthError
from ampere_energy.model.families.catalogue import VOCABULARY, family
from ampere_energy.model.load import find, instantiate, load
from ampere_energy.model.source import InputSpec, ModelRef, model_ref
from ampere_energy.model.training import Training
from ampere_energy.serialization import decode, encode

FILE = """
import torch
from torch import nn
import neighbour
def small(width=4): return nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, 2))
def broken(): raise KeyError("no such thing")
def number(): return 7
def brings(): return small(), torch.full((5, 3), 2.0)
def names(): return small(), {"x": torch.zeros(5, 3)}
def table(): return nn.ModuleList([nn.Embedding(30, 4), nn.EmbeddingBag(11, 4)])
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
        ("{}:absent", "has no factory 'absent'; it defines small, broken, number, brings, names, table"),
        ("/nowhere/x.py:small", "there is no file /nowhere/x.py"),
        ("no_such_package.models:small", "cannot be imported .ModuleNotFoundError"),
        ("{}:", "names no factory"),
    ],
)
def test_a_factory_that_cannot_be_used_is_named(file: Path, source: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        instantiate(model_ref(source.format(file), input=(5, 3)))


def test_a_factory_needs_an_input(file: Path) -> None:
    with pytest.raises(RequestError, match=r"needs the shape of its input; give --input batch,… such as"):
        load(model_ref(f"{file}:small"))


def test_inputs_of_the_factory_and_of_the_request(file: Path) -> None:
    own = load(model_ref(f"{file}:brings"))
    assert isinstance(own.inputs, tuple)
    assert [tuple(t.shape) for t in own.inputs] == [(5, 3)]
    assert torch.equal(own.inputs[0], torch.full((5, 3), 2.0))
    named = load(model_ref(f"{file}:names"))
    assert isinstance(named.inputs, dict)
    assert {name: tuple(t.shape) for name, t in named.inputs.items()} == {"x": (5, 3)}
    asked = load(model_ref(f"{file}:brings", input=(7, 3)))  # what is asked for comes first
    assert isinstance(asked.inputs, tuple)
    assert [tuple(t.shape) for t in asked.inputs] == [(7, 3)]


def test_inputs_by_name_and_position_have_their_types_and_ranges(file: Path) -> None:
    specs = (InputSpec("ids", "int64", (64, 9)), InputSpec("mask", "bool", (64, 9)), InputSpec("n", "int32", (64,), 3))
    named = load(model_ref(f"{file}:table", inputs=specs)).inputs
    assert isinstance(named, dict)
    assert list(named) == ["ids", "mask", "n"]
    assert [t.dtype for t in named.values()] == [torch.int64, torch.bool, torch.int32]
    assert (int(named["ids"].min()), int(named["ids"].max())) == (0, 10)  # the smaller of its two tables
    assert set(named["n"].tolist()) == {0, 1, 2}
    assert all({bool(x) for x in row} == {True, False} for row in named["mask"])  # no row is all padding, or none
    unnamed = load(model_ref(f"{file}:table", inputs=tuple(replace(s, name="") for s in specs))).inputs
    assert isinstance(unnamed, tuple)
    assert all(torch.equal(a, b) for a, b in zip(unnamed, named.values(), strict=True))  # the same each time
    assert model_ref(f"{file}:table", inputs=specs).training.batch == 64


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InputSpec("x", "int7", (2, 3)), "an input of type int7; choose from float32"),
        (lambda: InputSpec("x", "int64", ()), r"an input of shape \(\); give positive sizes"),
        (lambda: InputSpec("x", "int64", (2, 0)), r"an input of shape \(2, 0\)"),
    ],
)
def test_inputs_that_cannot_be(make: Callable[[], InputSpec], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        make()


def test_families_of_tokens_read_token_ids() -> None:
    ref = model_ref("lstm", input=(3, 12))
    assert (ref.input, ref.inputs) == ((), (InputSpec("", "int64", (3, 12), VOCABULARY),))
    assert ref.training.batch == 3
    series = model_ref("lstm", input=(3, 12, 5))
    assert (series.input, series.inputs) == ((3, 12, 5), ())


def test_references_travel_as_plain_data() -> None:
    ref = model_ref("a.py:b", inputs=(InputSpec("ids", "int64", (2, 3), 9),), training=Training(1, accumulate=2))
    assert decode(ModelRef, encode(ref), "ref") == ref
    old = model_ref("lenet5")
    assert "inputs" not in encode(old)  # what older files lack is not written where it is the default
    assert set(encode(old)["training"]) == {"batch", "optimizer", "mode"}


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


def test_a_family_of_tokens_reads_its_input_as_it_is_written() -> None:
    """The command that an error names gives the input in full."""
    short = model_ref("transformer", widths=(1, 64), input=(32, 64))
    assert model_ref("transformer", widths=(1, 64), inputs=short.inputs) == short
    assert short.training.batch == 32


CANDIDATES = """
from __future__ import annotations
import torch
from torch import nn
from torch.nn import Linear
def small(width=8): return nn.Linear(3, width)
def typed() -> nn.Sequential: return nn.Sequential(small())
def pair() -> tuple[nn.Module, torch.Tensor]: return small(), torch.zeros(2, 3)
def unknown() -> Gone: return small()
def main() -> nn.Module: raise SystemExit("main was called")
def _hidden(): return small()
def needs(width): return small(width)
def number() -> int: return 3
def nothing() -> None: return None
def names() -> list[str]: return []
def tensor() -> torch.Tensor: return torch.zeros(3)
def loss(model, batch): return 0.0
class Net(nn.Module):
    def __init__(self, width=3): super().__init__()
class Wide(nn.Module):
    def __init__(self, width): super().__init__()
class Plain: pass
"""


def test_only_what_gives_a_model_is_proposed(tmp_path: Path) -> None:
    path = tmp_path / "candidates.py"
    path.write_text(CANDIDATES)
    proposed = "it defines small, typed, pair, unknown, Net"
    with pytest.raises(RequestError) as no_name:
        model_ref(str(path))
    assert str(no_name.value) == f"{path} names no factory; give {path}:NAME; {proposed}"
    with pytest.raises(ModelError) as absent:
        instantiate(model_ref(f"{path}:absent", input=(5, 3)))
    assert str(absent.value).endswith(f"has no factory 'absent'; {proposed}")
    with pytest.raises(ModelError, match=r"it defines small, .*needs, number, .*loss$"):
        find(f"{path}:absent", "function")


def test_a_file_without_a_factory_says_what_one_is(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("def main() -> None: pass\n")
    with pytest.raises(RequestError, match=r"define a function that returns a torch.nn.Module, or \(model, inputs\)"):
        model_ref(str(path))
