from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import Any

import pytest

from ampere_energy.cost_model.per_kind import learn
from ampere_energy.errors import AmpereError, FileError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.files import LARGEST_BYTES
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.collection import default_name
from ampere_energy.profiles.profile import load
from benchmarks.specs import spec_of
from benchmarks.studies import hostile_profiles

SOURCES = sorted((Path(__file__).parents[2] / "src").rglob("*.py"))


@pytest.fixture(scope="module")
def bases() -> dict[str, Any]:
    return hostile_profiles.bases()


def _broken(bases: dict[str, Any], method: str, place: str, value: Any) -> bytes:
    record = json.loads(json.dumps(bases[method]))
    at = record["profile"]
    *path, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    for step in path:
        at = at[step]
    at[last] = value(at[last]) if callable(value) else value
    return json.dumps(record).encode()


def test_hundreds_of_broken_profiles_are_refused_or_usable() -> None:
    found = hostile_profiles.run(400, seed=1)
    assert found["other errors"] == 0, found["first other errors"]
    assert found["refused without a next step"] == 0
    assert found["loaded"] > 20
    assert found["refused"] > 200
    assert found["slowest s"] < 10
    assert found["largest memory mb"] - found["memory mb before"] < 300


@pytest.mark.parametrize(
    ("method", "place", "value", "message"),
    [
        ("ampere", "nets.observations.0.time_s", math.nan, "should be float"),
        ("ampere", "nets.observations.0.time_s", 1e308, "values within reason"),
        ("ampere", "nets.observations.0.time_s", 1e-308, "values within reason"),
        ("ampere", "nets.observations", [], "and observations"),
        ("ampere", "nets.observations", lambda old: old * 200, "observations, more than 2048"),
        ("ampere", "nets.time_hyper.0.scales.0.0", 1e8, "standard deviation of 1e"),
        ("ampere", "nets.time_hyper.0.lengths.0.0", 2e-9, "lengths of residuals"),
        ("ampere", "nets.time.base", 1e300, "mean out of reason"),
        ("ampere", "nets.subjects.0.domain.0.high", 2**40, "widths out of reason"),
        ("ampere", "nets.host", {"base_s": 1.0, "structures": [], "spread": 1e8, "gap_s": 0.0}, "host times"),
        ("ampere", "nets", None, "singly or jointly"),
        ("paper", "kinds.0.energy.hyper.lengthscales.0", 1e-308, "out of reason"),
        ("paper", "kinds.0.energy.hyper.outputscale", 1e308, "out of reason"),
        ("paper", "kinds.0.energy.values.0", -1e300, "out of reason"),
        ("paper", "kinds.0.time.noise.0", 1e308, "out of reason"),
        ("paper", "kinds", [], "singly or jointly"),
        ("paper", "model", "\x1b[2J", "control characters"),
        ("paper", "model", "\ud800", "control characters"),
        ("paper", "model", "x" * 10**6, "too long"),
        ("paper", "measurements", -1, "-1 measurements"),
        ("paper", "training.batch", 10**400, "should be int"),
    ],
)
def test_what_is_wrong_is_said_in_one_short_line(
    bases: dict[str, Any], tmp_path: Path, method: str, place: str, value: Any, message: str
) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(_broken(bases, method, place, value))
    with pytest.raises(FileError, match=message) as caught:
        load(path)
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_points_that_coincide_without_noise_are_refused(bases: dict[str, Any], tmp_path: Path) -> None:
    record = json.loads(json.dumps(bases["paper"]))
    kind = record["profile"]["kinds"][0]
    kind["points"] = [kind["points"][0]] * len(kind["points"])
    for learnt in (kind["energy"], kind["time"]):
        learnt["noise"] = [0.0] * len(kind["points"])
        learnt["hyper"]["noise"] = 1e-60
    path = tmp_path / "p.json"
    path.write_text(json.dumps(record))
    with pytest.raises(FileError, match="positive definite"):
        load(path)


def test_huge_deep_and_ambiguous_files_are_refused_at_once(bases: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    text = json.dumps(bases["ampere"]).encode()
    head, _, tail = text.partition(b'"observations": [')
    nested = b'{"schema": 7, "profile": '
    for data, message in (
        (b" " * (LARGEST_BYTES + 1), "larger than any profile"),
        (head + b'"observations": [' + b"{}," * 10**6 + tail, "larger than any profile"),
        (b'{"schema": 7, "profile": [' + b"1," * 200_000 + b"1]}", "should be an object"),
        (nested + b"[" * 400_000 + b"]" * 400_000 + b"}", "is not JSON"),
        (nested + b'{"a":' * 400_000 + b"1" + b"}" * 400_001, "is not JSON"),
        (b'{"schema": 7, "schema": 7}', "'schema' stands there twice"),
        (b'{"schema": true}', "is not an AMPERE profile"),
        (b'{"schema": ' + b"9" * 4000 + b"}", "schema 9999"),
        (b'{"schema": ' + b"9" * 400_000 + b"}", "is not JSON"),
    ):
        path.write_bytes(data)
        start = time.perf_counter()
        with pytest.raises(FileError, match=message) as caught:
            load(path)
        assert time.perf_counter() - start < 20
        assert len(str(caught.value)) < 1000


def test_a_folder_or_an_endless_file_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path)
    if Path("/dev/zero").exists():
        with pytest.raises(FileError, match=r"cannot be read \(it is a device\)"):
            load("/dev/zero")


def test_names_are_shown_and_lead_nowhere(bases: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    for method in ("ampere", "paper"):
        path.write_bytes(_broken(bases, method, "model", "../../../etc/passwd"))
        loaded = load(path)
        estimate(spec_of("lenet5"), loaded)
        assert loaded.model == "../../../etc/passwd"
    assert [p.name for p in tmp_path.iterdir()] == ["p.json"]
    assert default_name("../../../etc/passwd", "../cpu") == "passwd-..-cpu"


def test_a_joint_profile_of_large_numbers_estimates_finitely_or_says_no(bases: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    specs = [spec_of("lenet5"), spec_of("lenet5", (1, 1, 1, 1))]
    for scale in (1e-12, 1e-6, 1e-3, 1e3, 1e6, 1e12):

        def scaled(old: Any, scale: float = scale) -> Any:
            return [{**o, "time_s": o["time_s"] * scale} if i % 2 else o for i, o in enumerate(old)]

        path.write_bytes(_broken(bases, "ampere", "nets.observations", scaled))
        assert hostile_profiles.use(path, specs) in ("refused", "loaded", "loaded, then refused")


def test_nothing_is_unpickled() -> None:
    for source in SOURCES:
        text = source.read_text()
        assert not re.search(r"\b(pickle|cPickle|dill|joblib|shelve|marshal)\b", text), source
        for call in re.findall(r"torch\.load\([^)]*\)", text):
            assert "weights_only=True" in call, source


def test_a_warm_refit_finds_what_a_cold_one_does() -> None:
    domain = (WidthRange(1, 64), WidthRange(1, 64))
    points = [(1, 1), (64, 64), (1, 64), (64, 1), (32, 32), (16, 48), (48, 16), (8, 8), (20, 60)]
    values = [1 + 1e-3 * a * b + 0.01 * (a % 3) for a, b in points]
    noise = [1e-4] * len(points)
    before = learn(domain, points[:-1], values[:-1], noise[:-1])
    warm, cold = learn(domain, points, values, noise, before), learn(domain, points, values, noise)
    assert warm.hyper.lengthscales == pytest.approx(cold.hyper.lengthscales, rel=1e-2)
    assert warm.hyper.noise == pytest.approx(cold.hyper.noise, rel=1e-2)


def test_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(AmpereError, match="make one with ampere profile"):
        load(tmp_path / "absent.json")
