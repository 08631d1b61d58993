"""A child process for what may die, hang or misbehave: a request a line in, an answer a line out.

    parent    Child("ampere_energy.measurement.devices.worker", ["cpu", "cputime"]).ask(request, deadline_s)
    child     channel = opened(); channel.reply(hello); channel.serve(answer)

Requests are numbered, so that a late answer is never taken for that of the next request. Both sides' lines travel
apart from the child's standard input and output: its standard input is empty, and what it prints goes to standard
error. A child dies with its parent, whatever it is doing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ampere_energy import errors
from ampere_energy.errors import AmpereError, WorkerError

_PARENT = "AMPERE_PARENT"
_PR_SET_PDEATHSIG = 1
_LONGEST = 2**28
_WORDS = 2**16
_FIRST_TO_GO = "500"
"""Where the memory runs out, Linux ends such a process rather than its parent."""
_START_S = 120.0
Answer = dict[str, Any]


class Child:
    """The parent's side; the process is started when first needed, and again after it ended.

    Args:
        module: what it runs, as `python -m` does.
        arguments: of its command line.
        name: what it is called in errors.
    """

    def __init__(self, module: str, arguments: Sequence[str] = (), name: str = "the worker") -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: Any = None
        self._hello: Answer | None = None
        self._number = 0
        self._rest = b""

    def start(self) -> None:
        """Starts the process, where none runs, and does not wait for it."""
        if self._process is not None:
            return
        self._stderr = tempfile.TemporaryFile("ab+")  # noqa: SIM115 - lives as long as the process
        fcntl.fcntl(self._stderr, fcntl.F_SETFL, os.O_APPEND)  # also after it was cut, or read from here
        self._number, self._rest = 0, b""
        self._process = subprocess.Popen(
            self._command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=environment(),
            start_new_session=True,  # Ctrl-C belongs to the parent, which then ends the child
        )

    def hello(self) -> Answer:
        """What the process said of itself when it started; starts it if need be."""
        self.start()
        if self._hello is None:
            self._hello = self._receive(0, _START_S)
        return self._hello

    def ask(self, request: Mapping[str, Any], deadline_s: float) -> Answer:
        """The answer to a request; `WorkerError` where none came in time."""
        self.hello()
        self._stderr.truncate(0)  # last words are those about this request
        self._number += 1
        told = {"number": self._number, "place": _place(), "request": request}
        self._send(json.dumps(told).encode() + b"\n", deadline_s)
        return self._receive(self._number, deadline_s)

    def words(self) -> str:
        """What it has printed about the last request, as far as it is not too long."""
        self._stderr.seek(0)
        return str(self._stderr.read(_WORDS).decode(errors="replace"))

    def stop(self) -> None:
        """Ends the process and whatever it started, at once."""
        process, self._process, self._hello = self._process, None, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        process.wait()
        self._stderr.close()

    def _send(self, line: bytes, deadline_s: float) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        pipe, end = self._process.stdin.fileno(), time.monotonic() + deadline_s
        os.set_blocking(pipe, False)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(pipe, selectors.EVENT_WRITE)
                while line:
                    if not selector.select(max(0.0, end - time.monotonic())):
                        raise self._failure(f"no answer within {deadline_s:g} s")
                    line = line[os.write(pipe, line[:65536]) :]
        except OSError as error:
            raise self._failure(f"{self._name} died") from error
        except KeyboardInterrupt:
            self.stop()  # half a line is no request
            raise

    def _receive(self, number: int, deadline_s: float) -> Answer:
        """The answer of a number; late ones to earlier requests are passed over."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                told = json.loads(self._line(end, deadline_s))
                if told["number"] == number:
                    return dict(told["answer"])
            except (ValueError, TypeError, KeyError) as error:
                raise self._failure(f"{self._name} gave no answer that can be read") from error

    def _line(self, end: float, deadline_s: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, parts = self._process.stdout.fileno(), [self._rest]
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in parts[-1]:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise self._failure(f"no answer within {deadline_s:g} s")
                chunk = os.read(pipe, 65536)
                if not chunk:
                    raise self._failure(f"{self._name} died")
                parts.append(chunk)
                if sum(map(len, parts[:1])) + 65536 * len(parts) > _LONGEST:
                    raise self._failure(f"an answer of more than {_LONGEST} bytes")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return line

    def _failure(self, what: str) -> WorkerError:
        """Ends the process and says why, in its own last words."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            died = self._process.wait(0.5)  # a closed pipe comes a moment before the exit status
            what += f" by signal {-died}" if died < 0 else f" with exit code {died}"
        words = self.words().strip().splitlines()
        self.stop()
        return WorkerError(f"{what} ({words[-1]})" if words else what)


@dataclass(frozen=True)
class Channel:
    """The child's side: where requests come from, and where answers go."""

    requests: IO[bytes]
    answers: IO[bytes]

    def reply(self, answer: Answer, number: int = 0) -> None:
        """Writes the answer to a request; number 0 is the greeting."""
        self.answers.write(json.dumps({"number": number, "answer": answer}).encode() + b"\n")
        self.answers.flush()

    def serve(self, answer: Callable[[Answer], Answer]) -> None:
        """Answers requests until the parent closes; each in the folder and environment that the parent is in."""
        for line in self.requests:
            told = json.loads(line)
            _enter(told["place"])
            found = answer(told["request"])
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            self.reply(found, told["number"])


def opened() -> Channel:
    """Ties this process to its parent, and takes over its standard input and output for requests and answers."""
    die_with_parent()
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO)
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return channel


def environment() -> dict[str, str]:
    """The environment of a child: this very package, and whose child it is.

    Linux kills a child when the thread that started it ends, which is the parent's end for the main thread alone.
    """
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    lasting = threading.current_thread() is threading.main_thread()
    parent = f"{os.getpid()} {'thread' if lasting else ''}"
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), _PARENT: parent}


def die_with_parent() -> None:
    """Lets the system end this process when its parent ends; where it cannot, a thread looks twice a second."""
    told, _, lasting = os.environ.pop(_PARENT, str(os.getppid())).partition(" ")
    parent = int(told)
    if not (lasting and sys.platform == "linux" and _killed_with_parent()):
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it ended before this was said
        os._exit(1)


def _killed_with_parent() -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _place() -> Answer:
    """What decides which file a name means, and what a program sees around it."""
    try:
        folder = str(Path.cwd())
    except OSError:  # it was removed
        folder = ""
    return {"folder": folder, "path": sys.path, "environment": dict(os.environ)}


def _enter(place: Answer) -> None:
    """Undoes what an earlier request changed of it."""
    with contextlib.suppress(OSError):
        os.chdir(place["folder"])
    sys.path += [folder for folder in place["path"] if folder not in sys.path]
    os.environ.update(place["environment"])


def error_answer(error: AmpereError) -> Answer:
    """An error as an answer."""
    return {"error": type(error).__name__, "what": error.what, "remedy": error.remedy}


def as_error(answer: Answer) -> AmpereError | None:
    """The error that an answer tells; None where it tells none."""
    if "error" not in answer:
        return None
    kind: type[AmpereError] = getattr(errors, str(answer["error"]))
    return kind(str(answer["what"]), str(answer["remedy"]))
