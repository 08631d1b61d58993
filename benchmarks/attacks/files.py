"""Damaged profiles, logs and the other files that AMPERE reads: refused in one line with a next step, or usable.

Nothing that a file names is imported or run, as an audit hook sees; nothing is written but in the file's own folder, no
file takes ten seconds or 1.5 GB. Files are read in forked children, a hundred in each, so that one that ends its reader
is found and the rest go on.
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.attacks import cases, process
from benchmarks.attacks.cases import Case, Found
from benchmarks.studies import hostile_profiles

BATCH = 50
SLOWEST_S = 10.0
PLANTED = ("planted_evil", "planted_package")
"""Modules that stand beside the files and that damaged files name; importing one leaves a mark."""
NAMES = ("planted_evil.py:f", "planted_package:f", "planted_package.evil:f", "os:_exit", "os:abort", "posix:kill",
         "builtins:exec", "subprocess:getoutput", "planted_evil.py:missing", "/dev/stdin:f", "../planted_evil.py:f",
         "torch.hub:load", "webbrowser:open", "antigravity:fly", "this:s")  # fmt: skip
CALLS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.kill", "pty.spawn",
         "socket.connect", "socket.bind", "webbrowser.open", "ctypes.dlopen")  # fmt: skip
_EVIL = "open({mark!r}, 'a').write('imported')\ndef f(*a, **k): open({mark!r}, 'a').write('called')\n"


class Watch:
    """What happens while a file is read, by Python's own audit events."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.on, self.seen = str(folder), False, []  # type: ignore[var-annotated]
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "import" and self._named(str(arguments[0])):
            self.seen.append("imports what a file names")
        elif event == "exec" and self._named(str(getattr(arguments[0], "co_filename", ""))):
            self.seen.append("executes what a file names")
        elif event == "open":
            place, flags = str(arguments[0]), arguments[2] or 0
            if self._named(place):
                self.seen.append("opens what a file names")
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if writes and not str(Path(place).absolute()).startswith((self.folder, os.devnull)):
                self.seen.append("writes elsewhere")
        elif event in CALLS:
            self.seen.append(f"calls {event}")

    def _named(self, name: str) -> bool:
        return any(word in name for word in (*PLANTED, "webbrowser", "antigravity", "torch.hub"))


@cache
def texts() -> dict[str, str]:
    """Valid files: profiles by both methods, a log with a whole, an evaluation, an experiment, a pruned model."""
    from ampere_energy.campaign.rules import Rules
    from ampere_energy.campaign.run import profile
    from ampere_energy.evaluation.experiment import random_experiment
    from ampere_energy.measurement.devices.simulated import SimulatedDevice
    from ampere_energy.measurement.log import MeasurementLog
    from ampere_energy.measurement.procedures import POINT
    from ampere_energy.model.source import model_ref
    from ampere_energy.serialization import encode

    found = {f"profile {name}": json.dumps(record) for name, record in hostile_profiles.bases().items()}
    with TemporaryDirectory() as place:
        log, device = Path(place) / "log.jsonl", SimulatedDevice(0.02)
        profile(_spec(), device=device, rules=Rules(points=2, precision=0.9), log=log)
        MeasurementLog(log).append(device.measure(model_ref("lenet5"), POINT))
        found["log"] = log.read_text()
    experiment = random_experiment(
        "lenet5", (10, 1, 28, 28), model_ref("lenet5").training, models=2, seed=0, step=1, budget_s=1.0
    )
    found["experiment"] = json.dumps(encode(experiment))
    found["evaluation"] = json.dumps([{"model": "lenet5", "device": "cpu", "members": 3,
                                       "scores": {"ampere": {"mape": 3.2, "spearman": 0.9}}}])  # fmt: skip
    found["pruned"] = json.dumps({"ref": encode(model_ref("lenet5")), "groups": [["conv1", 3], ["conv2", 8]]})
    return found


@cache
def _spec() -> Any:
    from benchmarks.specs import spec_of

    return spec_of("lenet5")


@cache
def _weights() -> dict[str, Any]:
    from ampere_energy.model.load import instantiate
    from ampere_energy.model.source import model_ref

    return instantiate(model_ref("lenet5")).state_dict()


SORTS = ("profile ampere", "profile paper", "log", "log", "log", "experiment", "evaluation", "pruned")


def spoiled(draw: random.Random, sort: str) -> bytes:
    """A damaged file of a sort."""
    text = texts()[sort]
    if sort.startswith("profile"):
        if draw.random() < 0.1:
            return _renamed(draw, text).encode("utf-8", "surrogatepass")
        return hostile_profiles.case(draw, [text])
    if sort != "log":
        record = json.loads(text)
        for _ in range(draw.choice((1, 1, 2, 3))):
            hostile_profiles._change(draw, record)
        changed = json.dumps(record) if draw.random() < 0.8 else _renamed(draw, text)
        data = changed.encode("utf-8", "surrogatepass")
        return hostile_profiles._spoil(draw, data) if draw.random() < 0.2 else data
    lines = text.splitlines()
    if draw.random() < 0.3:  # a few lines read as quickly as all
        lines = [*draw.sample(lines, 3), lines[-1]]
    for _ in range(draw.choice((1, 1, 2))):
        number = draw.choice((draw.randrange(len(lines)), len(lines) - 1))
        record = json.loads(lines[number]) if _whole(lines[number]) else {}
        if draw.random() < 0.4:
            lines[number] = _renamed(draw, lines[-1])
            continue
        hostile_profiles._change(draw, record)
        lines[number] = json.dumps(record)
    sort_of = draw.random()
    if sort_of < 0.1:
        draw.shuffle(lines)
    elif sort_of < 0.2:
        lines *= 2
    data = ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")
    return hostile_profiles._spoil(draw, data) if draw.random() < 0.2 else data


def _whole(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _renamed(draw: random.Random, text: str) -> str:
    """The same, with something that could be run in the place of a name."""
    name = draw.choice(NAMES)
    try:
        record = json.loads(text)
    except ValueError:
        return text
    if not isinstance(record, dict):
        return text
    at: Any = record.get("measurement", record)
    at = at.get("workload", at.get("ref", at)) if isinstance(at, dict) else at
    if isinstance(at, dict) and "source" in at:
        at["source"] = name
        if draw.random() < 0.5:
            at["widths"], at["names"] = [], []
        if draw.random() < 0.3:
            at["step"] = draw.choice(NAMES)
        return json.dumps(record)
    return text.replace('"lenet5"', json.dumps(name))


SPECIAL = ("fifo", "endless", "folder", "loop of links", "broken link", "link to a device", "bomb of gzip",
           "gzip cut off",
           "gzip of gzip", "not gzip", "empty", "only line breaks", "one long line", "a socket", "deep", "many keys",
           "two hundred megabytes", "sparse gigabytes")  # fmt: skip


def special(sort: str, path: Path) -> Path:
    """A file of a special sort at a path, or beside it where it is packed."""
    packed = path.with_name(f"{path.name}.gz")
    if sort == "fifo":
        os.mkfifo(path)
    elif sort in ("endless", "link to a device"):
        path.symlink_to("/dev/zero" if sort == "endless" else "/dev/tty")
    elif sort == "folder":
        path.mkdir()
    elif sort == "loop of links":
        path.symlink_to(path.name)
    elif sort == "broken link":
        path.symlink_to("nowhere")
    elif sort == "bomb of gzip":
        with gzip.open(packed, "wb", compresslevel=9) as file:
            for _ in range(300):
                file.write(bytes(10**7))
        path.write_bytes(packed.read_bytes()) if path.suffix == ".json" else None
    elif sort in ("gzip cut off", "gzip of gzip", "not gzip"):
        data = gzip.compress(texts()["log"].encode())
        packed.write_bytes({"gzip cut off": data[:-20], "gzip of gzip": gzip.compress(data)}.get(sort, b"text"))
    elif sort == "a socket":
        import socket

        with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(path.parent):
            listening.bind(path.name)
    elif sort == "sparse gigabytes":
        with path.open("wb") as file:
            file.truncate(3 * 10**9)
    else:
        path.write_bytes({
            "empty": b"", "only line breaks": b"\n" * 1000, "one long line": b'{"schema": 1, "x": "' + b"y" * 10**8,
            "deep": b"[" * 10**6, "many keys": b"{" + b'"a":1,' * 10**6 + b'"b":1}\n',
            "two hundred megabytes": (b'{"schema": 1, "timing": {}}\n' * (2 * 10**8 // 28)),
        }[sort])  # fmt: skip
    return path


def read(sort: str, path: Path, whole: bool) -> None:
    """Reads a file as the command that is given it would; a log at times as `--resume` does."""
    from ampere_energy.evaluation.recorded import load as load_recorded
    from ampere_energy.measurement.log import MeasurementLog
    from ampere_energy.optimization.pruning.pruned import load_pruned
    from ampere_energy.profiles.collection import load as load_named
    from ampere_energy.profiles.file import heading
    from ampere_energy.reporting.evaluated_sets import read_sets

    if sort.startswith("profile"):
        heading(path, older=True)
        load_named(path)
    elif sort == "log":
        MeasurementLog(path).read()
        if whole:
            _resume(path)
    elif sort == "experiment":
        load_recorded(path.parent)
    elif sort == "evaluation":
        read_sets(path)
    else:
        with contextlib.suppress(TypeError):  # where the model must be given, it cannot be read without
            load_pruned(path.parent)


class _EnoughError(Exception):
    """The log was read."""


def _resume(log: Path) -> None:
    from ampere_energy.campaign.run import profile
    from ampere_energy.measurement.devices.simulated import SimulatedDevice

    def stop(status: Any) -> None:
        raise _EnoughError

    with contextlib.suppress(_EnoughError):
        profile(_spec(), device=SimulatedDevice(0.02), log=log, observe=stop)


FILE_OF = {"profile ampere": "p.json", "profile paper": "p.json", "log": "p.jsonl", "experiment": "experiment.json",
           "evaluation": "sets.json", "pruned": "pruned.json"}  # fmt: skip


class _SlowError(BaseException):
    """A file that takes too long to read."""


def became(sort: str, path: Path, watch: Watch, whole: bool) -> tuple[list[str], str]:
    """What is wrong with how a file is read, and what was said of it."""
    from ampere_energy.errors import AmpereError

    def slow(*_: Any) -> None:
        raise _SlowError

    causes: list[str] = []
    said = "read"
    signal.signal(signal.SIGALRM, slow)
    signal.setitimer(signal.ITIMER_REAL, SLOWEST_S * process.busy())
    watch.seen.clear()
    watch.on = True
    try:
        read(sort, path, whole)
    except AmpereError as error:
        said = str(error)
        if error.exit_code != 2:
            causes.append(f"refused as {type(error).__name__}")
        if not error.remedy:
            causes.append("no next step")
        if "\n" in said or len(said) > 1000:
            causes.append("not one short line")
        if any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in said):
            causes.append("control characters in a message")
    except _SlowError:
        causes.append("takes over ten seconds")
    except MemoryError:
        causes.append("takes all memory")
    except BaseException as error:  # noqa: BLE001 - that none comes is what is studied
        said = f"{type(error).__name__}: {str(error)[:150]}"
        causes.append(f"raises {type(error).__name__}")
    finally:
        watch.on = False
        signal.setitimer(signal.ITIMER_REAL, 0)
    return [*causes, *dict.fromkeys(watch.seen)], said


def _in_child(sorts: list[tuple[str, str, Callable[[Path], Path]]], folder: Path, told: int) -> None:
    """Reads files in this process and tells a line of each."""
    from benchmarks.attacks import sabotage

    resource.setrlimit(resource.RLIMIT_DATA, (3 * 10**9, 3 * 10**9))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    texts()
    watch, mark, inherited = Watch(folder), folder.parent / f"{folder.name}.mark", process.inherited_mb()
    for number, (name, sort, make) in enumerate(sorts):
        place = folder / str(number)
        place.mkdir(parents=True)
        os.chdir(place)
        for planted in (place / "planted_evil.py", place / "planted_package" / "__init__.py"):
            planted.parent.mkdir(exist_ok=True)
            planted.write_text(_EVIL.format(mark=str(mark)))
        path = make(place / FILE_OF[sort])
        sabotage._write(told, f"{json.dumps({'begin': name})}\n".encode())
        start = time.monotonic()
        causes, said = became(sort, path, watch, number % 3 == 0 or not name.split()[0].isdigit())
        if mark.exists():
            causes.append("runs what a file names")
            mark.unlink()
        if process.memory_mb(os.getpid()) - inherited > process.MOST_MB:
            causes.append("over 1.5 GB")
        figures = {"read s": round(time.monotonic() - start, 2), "mb": round(process.memory_mb(os.getpid()))}
        result = {"end": name, "causes": causes, "about": said[:200], "figures": figures}
        sabotage._write(told, f"{json.dumps(result)}\n".encode())
        os.chdir("/")
        shutil.rmtree(place, ignore_errors=True)


def batch(sorts: list[tuple[str, str, Callable[[Path], Path]]], folder: Path) -> dict[str, Found]:
    """Reads files in children; where one ends its child, another child goes on after it."""
    found: dict[str, Found] = {}
    while rest := [entry for entry in sorts if entry[0] not in found]:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reader)
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                _in_child(rest, folder, writer)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            told = [json.loads(line) for line in _patient(lines, child)]
        _, status = os.waitpid(child, 0)
        for line in told:
            if "end" in line:
                found[line["end"]] = Found(tuple(dict.fromkeys(line["causes"])), line["about"], line["figures"])
        begun = next((line["begin"] for line in told if "begin" in line and line["begin"] not in found), None)
        if begun is not None:
            found[begun] = Found(("ends its reader",), f"status {status}")
        elif len(found) < len(sorts) and not told:
            raise RuntimeError(f"a reader of files ended at once, status {status}")
    return found


def _patient(lines: Any, child: int) -> Iterator[str]:
    """The lines of a child, which is ended where it says nothing for long, whatever its signals do."""
    import select

    while True:
        ready, _, _ = select.select([lines], [], [], 12 * SLOWEST_S)
        if not ready:
            os.kill(child, signal.SIGKILL)
        line = lines.readline()
        if not line:
            return
        yield line


def written(name: str, sort: str, path: Path) -> Path:
    """A damaged file of a name, the same each time."""
    path.write_bytes(spoiled(random.Random(name), sort))
    if sort == "pruned":
        torch.save(_weights(), path.with_name("weights.pt"))
    return path


def every(count: int, seed: int) -> Iterator[list[tuple[str, str, Callable[[Path], Path]]]]:
    """Damaged files in batches, the special ones first."""
    specials = [
        (f"{sort} that is {how}", sort, partial(special, how)) for sort in dict.fromkeys(SORTS) for how in SPECIAL
    ]
    names = [(f"{number} {SORTS[number % len(SORTS)]}", SORTS[number % len(SORTS)]) for number in range(count)]
    damaged = [(name, sort, partial(written, f"{seed} {name}", sort)) for name, sort in names]
    few = specials if count >= 1000 else specials[:: max(1, len(specials) // (1 + count // 20))]
    entries = iter([*few, *damaged])
    while chunk := list(itertools.islice(entries, BATCH)):
        yield chunk


def run(count: int, folder: Path, seed: int = 0, keep: Path | None = None) -> dict[str, Any]:
    """So many damaged files, and the special ones."""
    process.ready()
    texts()
    every_case: list[Case] = []
    for number, chunk in enumerate(every(count, seed)):
        once = cache(partial(batch, chunk, folder / str(number)))
        every_case += [(entry[0], lambda name=entry[0], once=once: once()[name]) for entry in chunk]  # type: ignore[misc]
    return cases.run("files", every_case, keep)
