from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ampere_energy.child_process import Child
from ampere_energy.errors import WorkerError

ECHO = """
import os, sys, time
from ampere_energy.child_process import opened
channel = opened()
channel.reply({"hello": sys.argv[1:], "input": sys.stdin.read()})
def answer(request):
    os.write(1, b"to descriptor 1\\n")
    if "sleep" in request:
        time.sleep(request["sleep"])
    if "exit" in request:
        os._exit(request["exit"])
    if "large" in request:
        return {"length": len(request["large"]), "back": request["large"]}
    place = {"folder": os.getcwd(), "mine": os.environ.get("MINE"), "pid": os.getpid()}
    os.chdir("/")
    os.environ["MINE"] = "changed"
    return {"echo": request, **place}
channel.serve(answer)
"""
SPINS = "import itertools\ndef spins():\n    sum(itertools.repeat(0))  # never lets another thread run\n"
PARENT = """
import json, subprocess, sys, threading, time
from ampere_energy.measurement.devices.local import Worker
from ampere_energy.model.reading import _reader
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Training
from ampere_energy.serialization import encode
ref = encode(ModelRef(sys.argv[1] + ":spins", (), (2, 8), Training(2)))
reader, worker = _reader(), Worker(["cpu", "command:echo 5 W"])
reader.start()
worker.hello()
reader.hello()
requests = {"function": "ampere_energy.model.reading:_read", "ref": ref, "more": []}, {"do": "time", "workload": ref}
for child, request in zip((reader, worker), requests):
    place = {"folder": "", "path": [], "environment": {}}
    child._send(json.dumps({"number": 1, "place": place, "request": request}).encode() + b"\\n", 60)
print(reader._process.pid, worker._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    child = Child("echo", ["one", "two"])
    yield child
    child.stop()


def test_requests_are_answered_apart_from_what_is_printed(
    echo: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in the folder and environment of the parent, whatever the one before did to its own."""
    assert echo.hello() == {"hello": ["one", "two"], "input": ""}  # its standard input is empty
    monkeypatch.chdir(tmp_path)
    for value in ("first", "second"):
        monkeypatch.setenv("MINE", value)
        found = echo.ask({"n": value}, 10)
        assert (found["echo"], found["folder"], found["mine"]) == ({"n": value}, str(tmp_path), value)
        assert echo.words() == "to descriptor 1\n"
    assert echo.ask({"large": "x" * 10**6}, 10)["back"] == "x" * 10**6


def test_a_late_answer_is_not_taken_for_the_next_requests(echo: Child) -> None:
    echo.hello()
    place = {"folder": "", "path": [], "environment": {}}
    late = {"number": 1, "place": place, "request": {"n": "late"}}
    echo._send(json.dumps(late).encode() + b"\n", 10)  # as a request that was interrupted while it waited
    echo._number = 1
    assert echo.ask({"n": "next"}, 10)["echo"] == {"n": "next"}


def test_what_ends_or_hangs_is_said_and_the_next_request_has_a_new_process(echo: Child) -> None:
    first = echo.ask({}, 10)["pid"]
    with pytest.raises(WorkerError, match=r"no answer within 0.2 s \(to descriptor 1\)"):
        echo.ask({"sleep": 60}, 0.2)
    with pytest.raises(WorkerError, match="the worker died with exit code 0"):
        echo.ask({"exit": 0}, 10)
    second = echo.ask({}, 10)["pid"]
    assert second != first
    os.kill(second, signal.SIGSTOP)
    with pytest.raises(WorkerError, match=r"no answer within 0\.5 s"):
        echo.ask({"large": "x" * 10**6}, 0.5)  # which a pipe does not hold


def test_a_child_outlives_the_thread_that_started_it(echo: Child) -> None:
    thread = threading.Thread(target=echo.hello)
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert echo.ask({"n": 1}, 10)["echo"] == {"n": 1}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread looks, which needs its turn")
def test_no_process_outlives_a_killed_parent(tmp_path: Path) -> None:
    """One that reads and one that measures, in the middle of what never lets another thread run, and the sampler."""
    (tmp_path / "bad.py").write_text(SPINS)
    command = [sys.executable, "-c", PARENT, str(tmp_path / "bad.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        reader, worker = map(int, parent.stdout.readline().split())
        [sampler] = _children(worker)
        time.sleep(1)  # into the model's code
        assert all(map(_alive, (reader, worker, sampler)))
        parent.kill()
    end = time.monotonic() + 2
    while any(map(_alive, (reader, worker, sampler))) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(_alive, (reader, worker, sampler)))
