from __future__ import annotations

import errno
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ampere_energy import files
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.per_kind import Quantity
from ampere_energy.errors import FileError, RequestError
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.profiles import profile as profiles
from ampere_energy.profiles.profile import Profile, load
from benchmarks.specs import spec_of
from benchmarks.studies.additive_device import predicted_j


@pytest.fixture(scope="module")
def learnt() -> Profile:
    return profile(spec_of("lenet5"), device=SimulatedDevice(0.02), method="paper")


def test_saved_and_loaded_it_predicts_the_same(learnt: Profile, tmp_path: Path) -> None:
    learnt.save(tmp_path / "deep" / "p.json")
    again = load(tmp_path / "deep" / "p.json")
    assert again == learnt
    blocks = spec_of("lenet5", (3, 9, 50, 40)).blocks
    assert predicted_j(again, blocks) == predicted_j(learnt, blocks)
    fit, other = learnt.kinds[-1], again.kinds[-1]
    at = fit.unit([(30, 20), (7, 7)])
    assert np.array_equal(*(own.process(Quantity.TIME).covariance(at) for own in (fit, other)))
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["p.json"]  # nothing half-written is left


def test_files_that_are_no_profile_are_refused(learnt: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    learnt.save(path)
    text = path.read_text()
    for broken, message in (
        ("", "is not JSON"),
        (text[: len(text) // 2], "is not JSON"),
        ("hello", "is not JSON"),
        ("[1, 2]", "is not an AMPERE profile"),
        ('{"schema": "1"}', "is not an AMPERE profile"),
        (text.replace('"schema": 7', '"schema": 8', 1), "schema 8, this version reads 7; upgrade ampere-energy"),
        (text.replace('"schema": 7', '"schema": 6', 1), "schema 6, this version reads 7; profile again with --resume"),
        ('{"schema": 7, "profile": {}}', "has no 'model'"),
        ('{"schema": 7}', "should be an object"),
    ):
        path.write_text(broken)
        with pytest.raises(FileError, match=message):
            load(path)
    with pytest.raises(FileError, match="make one with ampere profile"):
        load(tmp_path / "absent.json")


def _set(place: str, value: Any) -> Any:
    def change(record: dict[str, Any]) -> None:
        at: Any = record["profile"]
        *path, last = place.split(".")
        for step in path:
            at = at[int(step) if step.isdigit() else step]
        at[int(last) if last.isdigit() else last] = value

    return change


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("kinds.0.energy.values", [], "points, but not as many values"),
        ("kinds.0.energy.hyper.noise", -1.0, "are positive"),
        ("kinds.0.energy.hyper.lengthscales", [1.0, 1.0], "wrong shape"),
        ("kinds.0.energy.values.0", None, r"values\[0\] should be float"),
        ("kinds.0.points.0", [1, 2], "has 1 widths"),
        ("kinds.0.kind.layers.0.op", "attention", "not in the recipe book"),
        ("kinds.0.domain.0.low", 0, "width range of 0"),
        ("kinds.0.kind.role", "hidden", "does not fit the role"),
        ("training.batch", 0, "a batch of 0"),
        ("complete", 1, "should be bool"),
    ],
)
def test_every_broken_value_is_named(learnt: Profile, tmp_path: Path, place: str, value: Any, message: str) -> None:
    path = tmp_path / "p.json"
    learnt.save(path)
    record = json.loads(path.read_text())
    _set(place, value)(record)
    path.write_text(json.dumps(record))
    with pytest.raises(Exception, match=message) as caught:
        load(path)
    assert getattr(caught.value, "exit_code", None) == 2


def test_a_kind_stands_in_a_profile_once(learnt: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    learnt.save(path)
    record = json.loads(path.read_text())
    record["profile"]["kinds"].append(record["profile"]["kinds"][0])
    path.write_text(json.dumps(record))
    with pytest.raises(FileError, match="twice"):
        load(path)


def test_what_load_refuses_is_not_saved(learnt: Profile, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    learnt.save(path)
    before = path.read_bytes()
    first, *others = learnt.kinds
    far = replace(first, energy=replace(first.energy, values=(1e300, *first.energy.values[1:])))
    for bad in (
        replace(learnt, kinds=(far, *others)),
        replace(learnt, model="\x1b[2J"),
        replace(learnt, model="x" * 5000),
        replace(learnt, profile_s=float("nan")),
        replace(learnt, measurements=-1),
    ):
        with pytest.raises(FileError, match="so it is not saved, and what there was is as it was; measure again"):
            bad.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]


def test_a_full_disk_leaves_the_old_profile(learnt: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    learnt.save(path)
    before = path.read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for way in ("put", "sync", "rename"):
        with monkeypatch.context() as patch:
            patch.setattr(files, way, full)
            with pytest.raises(FileError, match=r"p.json cannot be written .*; make room on the disk, then run this"):
                replace(learnt, model="another").save(path)
        assert path.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["p.json"]
    replace(learnt, model="another").save(path)
    assert load(path).model == "another"


def test_hundreds_of_kinds_are_saved_and_loaded(learnt: Profile, tmp_path: Path) -> None:
    first = next(known for known in learnt.kinds if known.kind.spatial)
    shapes = itertools.islice(itertools.product(range(8, 64), repeat=2), 561)
    many = [replace(first, kind=replace(first.kind, spatial=shape)) for shape in shapes]
    large = replace(learnt, kinds=tuple(many))
    large.save(tmp_path / "p.json")
    assert len(load(tmp_path / "p.json").kinds) == 561


def test_more_kinds_than_a_profile_holds_are_refused_before_they_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "MOST_KINDS", 3)
    with pytest.raises(RequestError, match="has 4 kinds of blocks, and a profile holds at most 3; profile a part"):
        profile(spec_of("lenet5"), device=SimulatedDevice(0.02), log=tmp_path / "p.jsonl")
    assert not list(tmp_path.iterdir())
