"""Settings: as names, in the public API, and taken from a profile where a command is not told them."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ampere_energy
from ampere_energy import Mode, Optimizer, Precision, Training
from ampere_energy.errors import AmpereError, CoverageError, FileError, RequestError
from ampere_energy.profiles.bundles.catalogue import ROOT, BundleEntry, Widths, entries
from ampere_energy.serialization import decode, encode
from command import ampere, answer

SOURCE = Path(__file__).parents[2] / "src"
UNUSUAL = ("--optimizer", "adam", "--precision", "bf16", "--channels-last", "--accumulate", "2", "--mode", "graph")
PUBLIC = {
    "AmpereError", "Axis", "CoverageError", "DeviceError", "Estimate", "FileError", "MeterError", "Mode", "ModelError",
    "Optimizer", "Precision", "Profile", "Pruned", "RequestError", "Rules", "Training", "WidthError", "WorkerError",
    "energy_objective", "estimate", "estimate_many", "load", "load_pruned", "parse", "profile", "prunable", "prune",
    "search", "space_of",
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert set(ampere_energy.__all__) == PUBLIC
    assert dir(ampere_energy) == sorted({*dir(ampere_energy), *PUBLIC})
    for name in PUBLIC:
        assert getattr(ampere_energy, name).__name__ == name
    errors = [getattr(ampere_energy, name) for name in PUBLIC if name.endswith("Error")]
    assert all(issubclass(error, AmpereError) for error in errors)
    with pytest.raises(AttributeError, match="no attribute 'Trainings'"):
        _ = ampere_energy.Trainings


def test_importing_errors_and_settings_imports_no_torch() -> None:
    program = (
        "import sys, ampere_energy\n"
        "try: ampere_energy.Training(32, optimizer='lion')\n"
        "except ampere_energy.RequestError as error: print(error)\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "an optimizer called 'lion'; choose from sgd, momentum, adam, adamw\n", done.stderr


def test_settings_may_be_names() -> None:
    named = Training(32, optimizer="adam", mode="graph", precision="bf16")
    assert named == Training(32, Optimizer.ADAM, Mode.GRAPH, Precision.BF16)
    assert (named.optimizer, named.mode, named.precision) == (Optimizer.ADAM, Mode.GRAPH, Precision.BF16)
    assert hash(named) == hash(Training(32, Optimizer.ADAM, Mode.GRAPH, Precision.BF16))
    assert str(named) == "batch 32 with adam in graph mode, bf16"


def test_settings_are_written_as_before() -> None:
    assert encode(Training(8)) == {"batch": 8, "optimizer": "sgd", "mode": "eager"}
    record = {"batch": 8, "optimizer": "adam", "mode": "eager", "precision": "bf16"}
    assert encode(Training(8, optimizer="adam", precision="bf16")) == record
    assert decode(Training, record, "here") == Training(8, optimizer="adam", precision="bf16")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"optimizer": "lion"}, "an optimizer called 'lion'; choose from sgd, momentum, adam, adamw"),
        ({"mode": "fast"}, "a mode called 'fast'; choose from eager, graph, compile"),
        ({"precision": "fp8"}, "a precision called 'fp8'; choose from fp32, tf32, bf16, fp16"),
    ],
)
def test_names_that_mean_nothing_are_refused(wrong: dict[str, str], words: str) -> None:
    with pytest.raises(RequestError, match=re.escape(words)):
        Training(32, **wrong)  # type: ignore[arg-type]


def test_names_pass_a_strict_type_checker(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from ampere_energy.model.training import Training\n"
        'good = Training(32, optimizer="adam", precision="bf16")\n'
        "reveal_type(good.optimizer)\n"
        "bad = Training(32, optimizer=3)\n"
    )
    files = [str(SOURCE / "ampere_energy/model/training.py"), "mine.py"]
    options = ("--strict", "--follow-imports=skip", "--allow-untyped-calls", "--cache-dir", ".cache")
    environment = {"MYPYPATH": str(SOURCE), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("mine.py")]
    assert len(told) == 2, done.stdout + done.stderr
    assert 'Revealed type is "ampere_energy.model.training.Optimizer"' in told[0]
    assert re.match(r"mine.py:4: error: .*Optimizer \| str", told[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Profiles of lenet5 on the simulated device: one with the usual settings, one with others."""
    path = tmp_path_factory.mktemp("settings")
    device = ("--device", "simulated:0.01", "--points", "3")
    answer("profile", "lenet5", *device, "--out", "usual.json", cwd=path)
    answer("profile", "lenet5", *device, *UNUSUAL, "--input", "24,1,28,28", "--out", "unusual.json", cwd=path)
    return path


def test_a_saved_profile_is_loaded_by_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    saved = folder / "data/ampere-energy/profiles"
    saved.mkdir(parents=True)
    (saved / "mine.json").write_bytes((folder / "usual.json").read_bytes())
    monkeypatch.chdir(folder)
    own = ampere_energy.load("mine")
    assert own == ampere_energy.load(folder / "usual.json") == ampere_energy.load("usual.json")
    with pytest.raises(FileError, match="no profile or bundle is called 'yours'"):
        ampere_energy.load("yours")


def test_one_profile_of_a_bundle_is_loaded_by_its_name() -> None:
    name = "cnn5-128x3x64x64-graph"
    bundled = json.loads(gzip.decompress((ROOT / "nvidia-h200" / f"{name}.json.gz").read_bytes()))
    found = ampere_energy.load(f"nvidia-h200/{name}").record()
    assert found == {**bundled, "profile": {**bundled["profile"], "bundled": True}}
    for missing, words in (("nvidia-h200", "is a bundle of"), ("nvidia-h200/cnn9", "has no profile 'cnn9'")):
        with pytest.raises(RequestError, match=words) as error:
            ampere_energy.load(missing)
        assert all(own in str(error.value) for own in entries("nvidia-h200"))


THERE = {
    "batch": 24, "optimizer": "adam", "mode": "graph", "precision": "bf16", "channels_last": True, "accumulate": 2,
}  # fmt: skip


def test_estimates_take_the_settings_of_the_profile(folder: Path) -> None:
    asked = ("estimate", "lenet5", "--profile")
    assert answer(*asked, "unusual.json", cwd=folder)["training"] == THERE
    assert answer(*asked, "usual.json", cwd=folder)["training"] == {"batch": 10, "optimizer": "sgd", "mode": "eager"}
    assert answer(*asked, "unusual.json", "--optimizer", "adam", cwd=folder)["training"] == THERE


def test_what_is_measured_for_a_profile_is_trained_as_it_was(folder: Path, tmp_path: Path) -> None:
    for name in ("unusual.json", "unusual.jsonl"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    arguments = ("measure", "lenet5", "--device", "simulated:0.01", "--add-to", "unusual.json")
    done = ampere(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "added to unusual.json" in done.stderr
    last = (tmp_path / "unusual.jsonl").read_text().splitlines()[-1].replace(" ", "")
    assert json.dumps(THERE).replace(" ", "") in last
    refused = ampere(*arguments, "--precision", "fp32", cwd=tmp_path)
    assert refused.returncode == 4
    assert not refused.stdout, "it is refused before anything is measured"


def test_searches_and_evaluations_take_the_settings_of_the_profile(folder: Path) -> None:
    found = answer("search", "lenet5", "--profile", "unusual.json", "--trials", "5", cwd=folder)
    assert found["space"]["trainings"] == [THERE]
    [tried] = answer("evaluate", "lenet5", "--profile", "unusual.json", "--models", "2", cwd=folder)
    assert (tried["mode"], tried["batch"]) == ("graph", 24)


def test_pruning_takes_the_settings_of_the_profile(folder: Path) -> None:
    record = answer("prune", "lenet5", "--profile", "unusual.json", "--budget", "90%", "--step", "1", cwd=folder)
    assert record["reward"]["here"]["training"] == THERE


def test_a_bundle_is_asked_in_any_of_its_settings(tmp_path: Path) -> None:
    done = ampere("estimate", "cnn5", "--profile", "nvidia-h200", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = ampere("estimate", "cnn5", "--profile", "nvidia-h200", "--optimizer", "adam", "--mode", "compile")
    assert done.returncode == 4
    said = "made with --optimizer adamw or --optimizer sgd, you asked for adam; with --mode eager or --mode graph, you"
    assert said in done.stderr


def test_a_bundle_that_has_no_usual_settings_is_used_without_naming_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("profile", "lenet5", "--device", "simulated:0.01", "--points", "3", "--optimizer", "adamw")
    answer(*arguments, "--precision", "bf16", "--out", "p.json", cwd=tmp_path)
    bundle = tmp_path / "bundles" / "odd"
    bundle.mkdir(parents=True)
    (bundle / "one.json.gz").write_bytes(gzip.compress((tmp_path / "p.json").read_bytes()))
    about = BundleEntry(
        "lenet5", (10, 1, 28, 28), Widths.ANY, Mode.EAGER, Precision.BF16, Optimizer.ADAMW, "none", "none", "2026",
        1.0, None,
    )  # fmt: skip
    (bundle / "about.json").write_text(json.dumps({"one": encode(about)}))
    monkeypatch.setattr("ampere_energy.profiles.bundles.catalogue.ROOT", tmp_path / "bundles")
    record = answer("estimate", "lenet5", "--profile", "odd", cwd=tmp_path)
    assert record["training"] == {"batch": 10, "optimizer": "adamw", "mode": "eager", "precision": "bf16"}
    assert answer("estimate", "lenet5", "--profile", "odd", "--precision", "bf16", cwd=tmp_path) == record
    done = ampere("estimate", "lenet5", "--profile", "odd", "--precision", "fp32", cwd=tmp_path)
    assert done.returncode == 4
    assert (
        "its profiles were made with --precision bf16, you asked for fp32; it has lenet5 at 10,1,28,28" in done.stderr
    )


SAME = "lenet5", "--profile", "usual.json"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("estimate", *SAME, "--optimizer", "adam"),
            "the profile was made with --optimizer sgd, you asked for adam; give --optimizer sgd, or run ampere",
        ),
        (
            ("estimate", *SAME, "--channels-last"),
            "the profile was made with --no-channels-last, you asked for --channels-last; give --no-channels-last, or",
        ),
        (
            ("estimate", *SAME, "--input", "20,1,28,28", "--mode", "compile"),
            "made at batch 10, you asked for 20; with --mode eager, you asked for compile; "
            "give --mode eager --input 10,1,28,28, or run",
        ),
        (
            ("measure", "lenet5", "--add-to", "usual.json", "--device", "simulated:0.01", "--accumulate", "2"),
            "the profile was made with --accumulate 1, you asked for 2; give --accumulate 1, or run ampere profile",
        ),
        (
            ("evaluate", *SAME, "--precision", "tf32"),
            "the profile was made with --precision fp32, you asked for tf32; give --precision fp32, or another",
        ),
        (
            ("search", *SAME, "--optimizer", "adamw", "--trials", "3"),
            "the profile was made with --optimizer sgd, you asked for adamw; give --optimizer sgd, or another",
        ),
        (
            ("prune", *SAME, "--budget", "90%", "--optimizer", "momentum"),
            "the profile was made with --optimizer sgd, you asked for momentum; give --optimizer sgd, or run ampere",
        ),
    ],
)
def test_a_setting_that_the_profile_does_not_have_is_named(
    folder: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = ampere(*arguments, cwd=folder)
    assert words in done.stderr
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.count("\n") == 1


def test_a_model_profiled_otherwise_is_said_so_in_python_as_well() -> None:
    profile = ampere_energy.load("nvidia-h200/cnn5-128x3x64x64-graph")
    from ampere_energy.model.parse import parse_ref
    from ampere_energy.model.source import model_ref

    spec = parse_ref(model_ref("cnn5", input=(128, 3, 64, 64), training=Training(128, precision="bf16")))
    with pytest.raises(CoverageError, match="made with --mode graph, you asked for eager; with --precision fp32, you"):
        ampere_energy.estimate(spec, profile)
