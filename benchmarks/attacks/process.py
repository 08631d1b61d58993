"""The `ampere` command in a forked child: torch is imported once, and all that a process can do wrong is seen.

The parent adopts what its children leave behind, so that an orphan is a descendant that outlives its command.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import io
import json
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import torch

from benchmarks.attacks.cases import Found

LIMIT_S = 60.0
MOST_MB = 1500.0
ORPHAN_S = 2.0
CODES = {0, 2, 3, 4, 5, 130}
"""The exit codes that are documented."""
_ADOPT, _DIE_WITH = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG
_ENDED_MB = 5000.0
_FRESH_MB = 300.0
_LOOK_S = 0.02
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Done:
    """What a command did.

    Attributes:
        code: its exit code; negative the signal that ended it.
        hung: it was ended because it took longer than its limit.
        most_mb: the most memory that one of its processes held.
        orphans: the command lines of processes that outlived it by two seconds.
    """

    arguments: tuple[str, ...]
    code: int
    hung: bool
    out: bytes
    err: bytes
    seconds: float
    most_mb: float
    orphans: tuple[str, ...]

    @property
    def last(self) -> str:
        """The last line on standard error."""
        lines = self.err.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def ready() -> None:
    """Pays for what every child would: imports, and one thread, as a pool does not survive a fork."""
    import ampere_energy
    from ampere_energy.campaign import run
    from ampere_energy.cli import main
    from ampere_energy.estimation import many
    from ampere_energy.evaluation import experiment
    from ampere_energy.measurement.devices import local, simulated
    from ampere_energy.model import parse
    from ampere_energy.reporting import progress, tables

    _ = (main, run, local, simulated, parse, experiment, many, progress, tables)
    for name in ampere_energy.__all__:
        getattr(ampere_energy, name)
    torch.set_num_threads(1)


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """What children leave behind becomes a child of this process, while this lasts."""
    _libc.prctl(_ADOPT, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(_ADOPT, 0, 0, 0, 0)


def command(
    *arguments: str,
    cwd: Path,
    limit_s: float = LIMIT_S,
    before: Callable[[], None] | None = None,
    during: Callable[[int], None] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Done:
    """Runs the command to its end, or ends it.

    Args:
        arguments: of the command line.
        cwd: where it runs.
        limit_s: when it is ended, on a machine that does nothing else.
        before: called in the child first, to break what the study breaks.
        during: called in the parent with the child's number, over and over.
        environment: more variables.
    """
    with adopting(), TemporaryFile() as out, TemporaryFile() as err:
        others = set(descendants(os.getpid()))
        start, most_s = time.monotonic(), limit_s * busy()
        own, inherited = command_line(os.getpid()), inherited_mb()
        child = os.fork()
        if child == 0:
            _child(arguments, cwd, (out.fileno(), err.fileno()), before, environment or {})
        hung, status, most_mb = False, 0, 0.0
        while True:
            ended, status, used = os.wait4(child, os.WNOHANG)
            if ended:
                most_mb = max(most_mb, used.ru_maxrss / 1024 - inherited)
                break
            family = [child, *descendants(child)]
            for pid in family:
                most_mb = max(most_mb, memory_mb(pid) - (inherited if command_line(pid) == own else 0.0))
            if time.monotonic() - start > most_s or most_mb > _ENDED_MB:
                hung = True
                for pid in reversed(family):
                    _kill(pid)
            if during is not None:
                during(child)
            time.sleep(_LOOK_S)
        seconds = time.monotonic() - start
        orphans = () if hung else _outliving(others)
        _end(others)
        out.seek(0)
        err.seek(0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return Done(arguments, code, hung, out.read(), err.read(), seconds, most_mb, orphans)


def busy() -> float:
    """How many times longer things take here now than on a machine that does nothing else, at most four times."""
    return min(4.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))


def _child(
    arguments: tuple[str, ...],
    cwd: Path,
    streams: tuple[int, int],
    before: Callable[[], None] | None,
    environment: Mapping[str, str],
) -> None:
    """The child's whole life: as `python -m ampere_energy` lives, from its first line to its last."""
    code = 70
    try:
        _libc.prctl(_DIE_WITH, signal.SIGKILL, 0, 0, 0)
        atexit._clear()
        os.setpgid(0, 0)
        os.chdir(cwd)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for here, there in ((nothing, 0), (streams[0], 1), (streams[1], 2)):
            os.dup2(here, there)
        os.environ.update({"OMP_NUM_THREADS": "1", "COLUMNS": "120", **environment})
        sys.stdin, sys.stdout, sys.stderr = (
            io.TextIOWrapper(os.fdopen(fd, mode, closefd=False), "utf-8", line_buffering=fd == 2)
            for fd, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
        )
        sys.argv = ["ampere", *arguments]
        sys.path[:] = ["", *(place for place in sys.path if place)]
        # What a test runner has done to these is not what a user's process has.
        warnings.resetwarnings()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if before is not None:
            before()
        from ampere_energy.cli.main import main

        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:  # noqa: BLE001 - what Python does with what nobody caught
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            code = 1
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except (OSError, ValueError) as error:  # which Python ends so
            os.write(2, f"Exception ignored in: <stdout>\n{type(error).__name__}: {error}\n".encode())
            code = 120
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - nothing of the child may run in the parent's place
        with contextlib.suppress(BaseException):
            os.write(2, b"the harness's child failed\n")
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
            sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


def descendants(pid: int) -> list[int]:
    """The processes below one, nearest first."""
    found, rest = [], [pid]
    while rest:
        at = rest.pop(0)
        try:
            threads = os.listdir(f"/proc/{at}/task")  # noqa: PTH208 - quick
            below = [int(p) for t in threads for p in Path(f"/proc/{at}/task/{t}/children").read_text().split()]
        except OSError:
            continue
        found += below
        rest += below
    return found


def inherited_mb() -> float:
    """What a process forked from this one holds from the start, beyond what one that has imported torch does."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return max(0.0, pages * os.sysconf("SC_PAGE_SIZE") / 2**20 - _FRESH_MB)


def memory_mb(pid: int) -> float:
    """The most memory a process held so far; 0 where it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    line = next((line for line in text.splitlines() if line.startswith("VmHWM")), "VmHWM: 0 kB")
    return int(line.split()[1]) / 1024


def command_line(pid: int) -> str:
    """What a process was started as; empty where it is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def find(above: int, *words: str) -> int | None:
    """A descendant whose command line has one of some words."""
    return next((pid for pid in descendants(above) if any(word in command_line(pid) for word in words)), None)


def _alive(others: set[int]) -> list[int]:
    """What is left of a command: its zombies are reaped on the way."""
    for pid in descendants(os.getpid()):
        if pid not in others:
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)
    return [pid for pid in descendants(os.getpid()) if pid not in others and command_line(pid)]


def _outliving(others: set[int]) -> tuple[str, ...]:
    ends_s = time.monotonic() + ORPHAN_S
    while alive := _alive(others):
        if time.monotonic() > ends_s:
            return tuple(command_line(pid)[:200] for pid in alive)
        time.sleep(0.05)
    return ()


def _end(others: set[int]) -> None:
    for _ in range(200):
        alive = _alive(others)
        for pid in alive:
            _kill(pid)
        if not alive:
            return
        time.sleep(0.02)


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def has_next_step(line: str) -> bool:
    """Whether a refusal goes on to say what to do: after a semicolon, as all errors of AMPERE do."""
    return bool(line.partition("; ")[2].strip())


def judged(done: Done, before: Mapping[str, str] | None = None, cwd: Path | None = None) -> list[str]:
    """What a command did that none should: undocumented exits, tracebacks, silence, hanging, wasting, leftovers."""
    causes = []
    text = done.err.decode(errors="replace")
    lines = [line for line in text.splitlines() if line.startswith("ampere: ") and "ampere: warning:" not in line]
    if done.hung:
        causes.append("takes all memory" if done.most_mb > _ENDED_MB else "hangs")
    elif done.code not in CODES:
        causes.append(f"exit code {done.code}")
    if "Traceback (most recent call last)" in text:
        causes.append("traceback")
    if not done.hung and done.code not in (0, 130):
        if not lines:
            causes.append("refuses in silence")
        elif not text.rstrip("\n").splitlines()[-1].startswith("ampere: "):
            causes.append("its line is not the last one")
        elif len(lines) > 1:
            causes.append("more than one line")
        elif not has_next_step(lines[0]):
            causes.append("no next step")
    if any(ord(c) < 32 and c not in "\n\t" for c in text):
        causes.append("control characters on the terminal")
    if done.most_mb > MOST_MB:
        causes.append("over 1.5 GB")
    if done.orphans:
        causes.append("an orphan")
    about_itself = {"--help", "--version"} & set(done.arguments)
    if done.code == 0 and not done.hung and "--json" in done.arguments and not about_itself:
        causes += _json(done.out)
    if done.code != 0 and "--json" in done.arguments and done.out.strip() and done.code != 130:
        causes.append("output beside a failure")
    if before is not None and cwd is not None and tree(cwd) != before:
        causes.append("leaves the folder changed")
    return causes


def _json(out: bytes) -> list[str]:
    if not out.strip():
        return ["exit 0 without a result"]
    try:
        json.loads(out, parse_constant=_no_constant)
    except ValueError:
        return ["--json does not parse"]
    return []


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def tree(folder: Path) -> dict[str, str]:
    """What lies in a folder, in a form that shows a change; what Python compiles beside a file is no change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts:
            continue
        about = path.lstat()
        found[str(path.relative_to(folder))] = f"{about.st_mode} {about.st_size} {about.st_mtime_ns}"
    return {name: what for name, what in found.items() if not Path(folder / name).is_dir()}


def of(done: Done, causes: list[str]) -> Found:
    """A case's result: its causes, how it ended, and what it took."""
    return Found(
        tuple(dict.fromkeys(causes)),
        f"exit {done.code}: {done.last[:200]}",
        {"command s": round(done.seconds, 2), "mb": round(done.most_mb)},
    )
