from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
import time
import warnings
from pathlib import Path

import pytest

from ampere_energy.errors import FileError
from ampere_energy.measurement.lock import Holder, held, lock_path
from ampere_energy.measurement.log import MeasurementLog

PROCESSES = multiprocessing.get_context("fork")


def _hold(log: Path, seconds: float) -> None:
    with held(log):
        log.with_name("held").write_text("")
        time.sleep(seconds)


def holding(log: Path, seconds: float = 60.0) -> multiprocessing.process.BaseProcess:
    """A process that holds a log."""
    child = PROCESSES.Process(target=_hold, args=(log, seconds))
    child.start()
    end = time.monotonic() + 30
    while not log.with_name("held").exists() and time.monotonic() < end:
        time.sleep(0.01)
    return child


def test_a_second_process_is_refused_by_the_first_ones_name(tmp_path: Path) -> None:
    log = tmp_path / "p.jsonl"
    child = holding(log)
    with pytest.raises(FileError) as caught, MeasurementLog(log).held():
        pass
    assert str(caught.value) == (
        f"{log} is in use by process {child.pid} on {platform.node()}; wait for it with --wait, or end it"
    )
    assert caught.value.exit_code == 2
    child.kill()
    child.join()
    with held(log):  # whose holder died
        assert json.loads(lock_path(log).read_text()) == {"pid": os.getpid(), "host": platform.node()}
    assert not lock_path(log).exists()


def test_it_can_be_waited_for(tmp_path: Path) -> None:
    log = tmp_path / "p.jsonl"
    child = holding(log, 0.3)
    lock = held(log, wait=True)
    with pytest.warns(UserWarning, match=f"in use by process {child.pid} .*: waiting for it"):
        lock.__enter__()
    child.join()
    assert child.exitcode == 0
    with pytest.raises(FileError, match=f"process {os.getpid()}"):
        _in_another(log)
    lock.__exit__(None, None, None)
    assert not lock_path(log).exists()


def _in_another(log: Path) -> None:
    """Tries to hold a log in another process; raises what that one is told."""
    reader, writer = PROCESSES.Pipe()
    child = PROCESSES.Process(target=_told, args=(log, writer))
    child.start()
    child.join(60)
    raise FileError(reader.recv())


def _told(log: Path, answer: multiprocessing.connection.Connection) -> None:
    try:
        with held(log):
            answer.send("held")
    except FileError as error:
        answer.send(str(error))


def test_many_that_wait_hold_it_one_after_the_other(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("0")
    children = [PROCESSES.Process(target=_count, args=(tmp_path / "p.jsonl", count)) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert count.read_text() == "40"
    assert not lock_path(tmp_path / "p.jsonl").exists()


def _count(log: Path, count: Path) -> None:
    warnings.simplefilter("ignore")
    for _ in range(10):
        with held(log, wait=True):
            before = int(count.read_text())
            time.sleep(0.001)
            count.write_text(str(before + 1))


def test_who_holds_it_may_ask_again(tmp_path: Path) -> None:
    with held(tmp_path / "p.jsonl"):
        with held(tmp_path / "p.jsonl", wait=True):
            pass
        assert lock_path(tmp_path / "p.jsonl").exists()


@pytest.mark.parametrize("wait", [False, True])
def test_a_lock_of_another_host_is_never_taken(tmp_path: Path, wait: bool) -> None:
    log, lock = tmp_path / "p.jsonl", tmp_path / "p.jsonl.lock"
    text = json.dumps({"pid": 12, "host": "elsewhere"})
    lock.write_text(text)
    with pytest.raises(FileError, match=f"is in use by {Holder(12, 'elsewhere')}; end it there, .*remove {lock}"):
        held(log, wait).__enter__()
    assert lock.read_text() == text


def test_a_lock_whose_holder_died_before_it_signed_is_free(tmp_path: Path) -> None:
    for text in ("", '{"pid": 1', "[1]"):
        (tmp_path / "p.jsonl.lock").write_text(text)
        with held(tmp_path / "p.jsonl"):
            pass


def test_ctrl_c_frees_it(tmp_path: Path) -> None:
    child = holding(tmp_path / "p.jsonl")
    os.kill(child.pid or 0, signal.SIGINT)
    child.join(60)
    assert not lock_path(tmp_path / "p.jsonl").exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be locked"), held(tmp_path / "file" / "p.jsonl"):
        pass


def test_a_folder_that_was_made_for_nothing_goes_away(tmp_path: Path) -> None:
    with held(tmp_path / "a" / "b" / "p.jsonl"):
        assert (tmp_path / "a" / "b").is_dir()
    assert not list(tmp_path.iterdir())
    with held(tmp_path / "a" / "b" / "p.jsonl"):
        (tmp_path / "a" / "p.json").write_text("")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["p.json"]
