from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from studies.additive import predicted_j, spec_of

from ampere_energy.errors import FileError
from ampere_energy.fit.campaign import profile
from ampere_energy.fit.profile import Profile, Quantity, load
from ampere_energy.measure.devices.simulated import SimulatedDevice


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
    assert fit.process(Quantity.TIME).covariance(at).equal(other.process(Quantity.TIME).covariance(at))
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
