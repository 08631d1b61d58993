from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.traits import PER_KIND, Reference, Traits, spread_out, traits_of
from ampere_energy.errors import FileError
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.parse import parse
from ampere_energy.model.training import Training
from ampere_energy.profiles.profile import Profile, load
from benchmarks.specs import spec_of


@pytest.fixture(scope="module")
def learnt() -> Profile:
    return profile(spec_of("lenet5"), device=SimulatedDevice(0.01))


class Residual(nn.Module):
    def __init__(self, frozen: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.first.requires_grad_(not frozen)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x + self.second(torch.relu(self.first(x))))


def test_traits_of_a_recipe() -> None:
    first, second = spec_of("lenet5").blocks[:2]
    one, two = (traits_of(block.kind, block.point) for block in (first, second))
    assert (one.op, two.op) == ("conv2d", "conv2d")
    assert one.flops == first.training_flops
    assert one.parameters == first.parameters
    layers = len(first.kind.layers)  # type: ignore[union-attr]
    assert one.calls == 2 * layers + 3 * 2  # no gradient goes on below an input; weight and bias are updated
    assert two.calls == 3 * len(second.kind.layers) + 3 * 2  # type: ignore[union-attr]
    assert one.bytes == 2 * first.kind.bytes(first.point)
    assert two.bytes == 3 * second.kind.bytes(second.point)


def test_traits_of_a_recorded_piece_know_what_is_frozen() -> None:
    trained, frozen = (parse(Residual(frozen), (4, 8)) for frozen in (False, True))
    whole, part = ([traits_of(b.kind, b.point) for b in spec.blocks if b.parameters] for spec in (trained, frozen))
    assert sum(t.parameters for t in whole) == 2 * 72 + 27
    assert sum(t.parameters for t in part) == 72 + 27
    assert sum(t.calls for t in part) < sum(t.calls for t in whole)
    assert sum(t.bytes for t in part) < sum(t.bytes for t in whole)


def test_passes_are_counted_in_accumulated_steps() -> None:
    one, four = (parse(Residual(), (4, 8), training=Training(4, accumulate=passes)).blocks[0] for passes in (1, 4))
    single, several = traits_of(one.kind, one.point), traits_of(four.kind, four.point)
    assert several.bytes == 4 * single.bytes
    assert several.flops == 4 * single.flops
    assert several.parameters == single.parameters
    assert single.calls < several.calls < 4 * single.calls


def test_a_profile_keeps_some_blocks_of_each_kind_from_small_to_large(learnt: Profile) -> None:
    assert learnt.nets is not None
    for index in range(len(learnt.nets.subjects)):
        own = [r for r in learnt.references if r.subject == index]
        seen = {o.blocks[0][1] for o in learnt.nets.observations if [k for k, _ in o.blocks] == [index]}
        assert 1 < len(own) <= PER_KIND
        assert {r.point for r in own} <= seen
        assert {min(seen), max(seen)} <= {r.point for r in own}


def test_spreading_keeps_the_ends() -> None:
    many = [Reference(0, (i,), Traits("linear", 1, i, i, i)) for i in range(30)]
    assert [r.point[0] for r in spread_out(many, 4)] == [0, 10, 19, 29]
    assert spread_out(many, 30) == many
    assert spread_out(many, 1) == [many[15]]


def test_references_are_saved_and_loaded_and_older_files_have_none(learnt: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    learnt.save(path)
    assert load(path) == learnt
    replace(learnt, references=()).save(path)
    assert "references" not in json.loads(path.read_text())["profile"]
    assert load(path).references == ()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("subject",), 99, "a reference to subject 99"),
        (("subject",), -1, "a reference to subject -1"),
        (("point",), [1, 2, 3], "not among the widths profiled"),
        (("point",), [10**6], "not among the widths profiled"),
        (("traits", "flops"), -1.0, "out of reason"),
        (("traits", "bytes"), 1e300, "out of reason"),
        (("traits", "calls"), 0.0, "out of reason"),
        (("traits", "op"), 3, "should be str"),
    ],
)
def test_broken_references_are_refused(
    learnt: Profile, tmp_path: Path, place: tuple[str, ...], value: Any, message: str
) -> None:
    path = tmp_path / "p.json"
    learnt.save(path)
    record = json.loads(path.read_text())
    at = record["profile"]["references"][0]
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    path.write_text(json.dumps(record))
    with pytest.raises(FileError, match=message):
        load(path)


def test_references_are_not_too_many(learnt: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with pytest.raises(FileError, match="9000 references"):
        replace(learnt, references=learnt.references[:1] * 9000).save(path)
    assert not path.exists()
