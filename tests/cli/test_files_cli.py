"""What commands do about files: locks, packed logs, names with dots, full disks, and what is no file at all."""

from __future__ import annotations

import errno
import gzip
import json
import multiprocessing
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ampere_energy import files
from ampere_energy.campaign import additions
from ampere_energy.campaign import run as campaign
from ampere_energy.errors import FileError
from ampere_energy.measurement.lock import held
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.profiles.collection import log_of, profile_path
from ampere_energy.profiles.profile import Profile, load
from benchmarks.specs import spec_of
from command import ampere, answer

PROCESSES = multiprocessing.get_context("fork")
SIM = ("--device", "simulated:0.01")
MEMBER = ("lenet5", "--widths", "5,11,77,33")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a profile and its log."""
    path = tmp_path_factory.mktemp("made")
    answer("profile", "lenet5", *SIM, "--points", "3", "--out", "p.json", cwd=path)
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "own"))


def refused(*arguments: str, cwd: Path, code: int = 2) -> str:
    """Runs a command that must end with the code and one line; what it says."""
    done = ampere(*arguments, cwd=cwd)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("ampere: ")
    assert done.stderr.count("\n") == 1
    assert "unexpected" not in done.stderr
    return done.stderr


def lines(log: Path) -> int:
    return len(log.read_bytes().splitlines())


def test_names_keep_their_dots(made: Path, tmp_path: Path) -> None:
    for name in ("runs/exp.v1", "runs/exp.v2"):
        record = answer("profile", "lenet5", *SIM, "--points", "3", "--out", name, cwd=tmp_path)
        assert record["profile"] == f"{name}.json"
        assert answer("estimate", "lenet5", "--profile", name, cwd=tmp_path)["energy_j"] > 0
    found = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert found == ["exp.v1.json", "exp.v1.jsonl", "exp.v2.json", "exp.v2.jsonl"]
    assert profile_path("a/b.json") == Path("a/b.json")
    assert log_of(Path("a/b.v1.json")).path == Path("a/b.v1.jsonl")
    assert log_of(Path("a/b.v1")).path == Path("a/b.v1.jsonl")


def test_fresh_moves_the_log_last(folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    for wrong in (("--method", "papr"), ("--points", "1"), ("--rule", "best"), ("--method", "paper")):
        own = ("resnet18", "--input", "2,3,16,16", "--widths", "1,2,3,4", *SIM, "--out", "p.json", "--fresh")
        assert ampere("profile", *own, *wrong, cwd=folder).returncode == 2
        assert sorted(path.name for path in folder.iterdir()) == before
    assert "--method papr; choose from ampere, paper" in refused(
        "profile", "lenet5", *SIM, "--out", "p.json", "--fresh", "--method", "papr", cwd=folder
    )
    assert sorted(path.name for path in folder.iterdir()) == before


def _hold(log: Path) -> None:
    with held(log):
        log.with_name("is-held").write_text("")
        time.sleep(120)


def test_a_log_in_use_is_refused_by_all_that_measure(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    child = PROCESSES.Process(target=_hold, args=(folder / "p.jsonl",))
    child.start()
    try:
        while not (folder / "is-held").exists():
            time.sleep(0.01)
        (folder / "is-held").unlink()
        for arguments in (
            ("profile", "lenet5", *SIM, "--out", "p.json", "--resume"),
            ("profile", "lenet5", *SIM, "--out", "p.json", "--fresh"),
            ("estimate", *MEMBER, "--profile", "p.json", "--refine", "0.1%"),
            ("measure", *MEMBER, *SIM, "--add-to", "p.json"),
            ("prune", "lenet5", "--profile", "p.json", "--budget", "50%", "--refine"),
        ):
            done = ampere(*arguments, cwd=folder)
            assert done.returncode == 2
            told = f"ampere: p.jsonl is in use by process {child.pid} on "
            assert told in done.stderr
            assert "wait for it with --wait, or end it" in done.stderr
        assert answer("estimate", *MEMBER, "--profile", "p.json", cwd=folder)["energy_j"] > 0
        with pytest.raises(FileError, match=f"in use by process {child.pid}"):
            campaign.profile(spec_of("lenet5"), device="simulated", log=folder / "p.jsonl")
    finally:
        child.kill()
        child.join()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"} == before
    (folder / "p.jsonl.lock").write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    told = refused("profile", "lenet5", *SIM, "--out", "p.json", "--resume", cwd=folder)
    assert "p.jsonl is in use by process 1 on elsewhere; end it there" in told


def test_an_experiment_in_use_is_refused(tmp_path: Path) -> None:
    child = PROCESSES.Process(target=_hold, args=(tmp_path / "rec" / "campaign.jsonl",))
    child.start()
    try:
        while not (tmp_path / "rec" / "is-held").exists():
            time.sleep(0.01)
        told = refused("evaluate", "lenet5", "--record", "rec", "--device", "simulated", cwd=tmp_path)
        assert f"rec/campaign.jsonl is in use by process {child.pid} on " in told
        assert not (tmp_path / "rec" / "experiment.json").exists()
    finally:
        child.kill()
        child.join()


def _add(folder: Path, widths: str) -> None:
    done = ampere("measure", "lenet5", "--widths", widths, *SIM, "--add-to", "p.json", "--wait", cwd=folder)
    os._exit(done.returncode)


def test_of_two_that_add_at_once_none_is_lost(folder: Path) -> None:
    before, logged = load(folder / "p.json"), lines(folder / "p.jsonl")
    children = [PROCESSES.Process(target=_add, args=(folder, widths)) for widths in ("5,11,77,33", "3,8,40,20")]
    for child in children:
        child.start()
    for child in children:
        child.join(120)
        assert child.exitcode == 0
    after = load(folder / "p.json")
    assert before.nets is not None
    assert after.nets is not None
    assert after.measurements == before.measurements + 2
    assert len(after.nets.observations) == len(before.nets.observations) + 2
    assert lines(folder / "p.jsonl") == logged + 2
    assert not (folder / "p.jsonl.lock").exists()


def test_a_good_profile_is_not_replaced_by_one_that_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def contradicts(profile: Profile, *_: object) -> Profile:
        assert profile.nets is not None
        return replace(profile, nets=replace(profile.nets, idle_w=1e-9, time=replace(profile.nets.time, base=1e300)))

    monkeypatch.setattr(additions, "add", contradicts)
    done = ampere("measure", *MEMBER, *SIM, "--add-to", "p.json", cwd=folder)
    assert done.returncode == 2
    assert "profile p.json cannot be used: a physical mean out of reason; so it is not saved" in done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_packed_log_is_gone_on_with(folder: Path) -> None:
    log = folder / "p.jsonl"
    measured = log.read_bytes()
    (folder / "p.jsonl.gz").write_bytes(gzip.compress(measured))
    log.unlink()
    command = ("profile", "lenet5", *SIM, "--points", "3", "--out", "p.json")
    assert "p.jsonl holds measurements; go on with --resume" in refused(*command, cwd=folder)
    answer(*command, "--resume", cwd=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["p.json", "p.jsonl.gz"]  # nothing was measured
    answer("measure", *MEMBER, *SIM, "--add-to", "p.json", cwd=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["p.json", "p.jsonl"]
    assert log.read_bytes().startswith(measured)
    assert lines(log) == len(measured.splitlines()) + 1
    log.write_bytes(b"".join(measured.splitlines(keepends=True)[:-4]))
    (folder / "p.jsonl.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    answer(*command, "--resume", cwd=folder)
    workloads = [(type(record), record.workload) for record in MeasurementLog(log).read()]
    assert len(workloads) == len(measured.splitlines())
    answer(*command, "--fresh", cwd=folder)
    assert lines(folder / "p.1.jsonl") == len(measured.splitlines())


@pytest.mark.timeout(120)
def test_what_is_no_file_is_refused_at_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "fifo.json")
    os.mkfifo(folder / "q.jsonl")
    assert "fifo.json cannot be read (it is a FIFO)" in refused(
        "estimate", "lenet5", "--profile", "fifo.json", cwd=folder
    )
    assert "(it is a FIFO)" in refused("report", "fifo.json", cwd=folder)
    assert "(it is a FIFO)" in refused("profile", "lenet5", *SIM, "--out", "q.json", cwd=folder)
    assert "(it is a device)" in refused("report", "p.json", "--out", "/dev/null", cwd=folder)
    assert Path("/dev/null").is_char_device()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    collection = tmp_path / "ampere-energy" / "profiles"
    collection.mkdir(parents=True)
    os.mkfifo(collection / "fifo.json")
    saved = {entry["profile"]: entry["problem"] for entry in answer("profiles")["saved"]}
    assert "it is a FIFO" in saved["fifo"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("estimate", "lenet5", "--profile", "x" * 300),
        ("profile", "lenet5", *SIM, "--out", "x" * 300),
        ("report", "p.json", "--out", "x" * 300),
        ("report", "x" * 300),
        ("parse", f"{'x' * 300}.py:model"),
        ("evaluate", "all", "--recorded", "x" * 300),
        ("evaluate", "lenet5", "--record", "x" * 300, "--device", "simulated"),
        ("prune", "lenet5", "--profile", "p.json", "--budget", "96%", "--step", "1", "--out", "x" * 300),
    ],
    ids=lambda arguments: " ".join(arguments[:1]),
)
def test_a_name_that_is_too_long_is_said(folder: Path, arguments: tuple[str, ...]) -> None:
    done = ampere(*arguments, cwd=folder)
    assert (done.returncode, "(File name too long); give a shorter name" in done.stderr) == (2, True), done.stderr


def test_a_full_disk_is_said_and_nothing_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for way in ("put", "sync", "rename"):
        for arguments in (
            ("measure", *MEMBER, *SIM, "--add-to", "p.json"),
            ("report", "p.json"),
            ("profile", "lenet5", *SIM, "--points", "3", "--out", "p.json", "--fresh"),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(files, way, full)
                done = ampere(*arguments, cwd=folder)
            assert done.returncode == 2
            assert "(No space left on device); make room on the disk" in done.stderr
            for path in list(folder.iterdir()):
                if path.name not in before:  # an empty log that was begun, or the old one under its new name
                    assert path.name in ("p.1.jsonl",) or path.stat().st_size == 0, path
            if (folder / "p.1.jsonl").exists():
                (folder / "p.1.jsonl").replace(folder / "p.jsonl")
            assert (folder / "p.json").read_bytes() == before["p.json"]
            assert (folder / "p.jsonl").read_bytes().startswith(before["p.jsonl"])
    answer("measure", *MEMBER, *SIM, "--add-to", "p.json", cwd=folder)
    assert lines(folder / "p.jsonl") > len(before["p.jsonl"].splitlines())
