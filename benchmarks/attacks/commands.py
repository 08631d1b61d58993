"""A thousand command lines, drawn from what the program says it takes: each ends as documented, in one line.

A line is one that works, changed in some places: an option given an odd value, given twice, without a value or in the
wrong command, a file that is something else; or it runs where it cannot print, or where text is ASCII.
"""

from __future__ import annotations

import functools
import io
import os
import random
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks.attacks import cases, process
from benchmarks.attacks.cases import Case, Found
from benchmarks.attacks.kills import TINY
from benchmarks.attacks.process import Done

NUMBERS = ("0", "-1", "1", "2", "007", "1e3", "1e400", "9" * 400, "-0", "nan", "inf", "-inf", "0x10", "1_000", "½", "١",
           "2147483648", "9223372036854775808", "1.5", "", " ", "1,2", "--", "-", "1e-400")  # fmt: skip
TEXTS = ("", " ", "-", "--", "a", "A" * 300, "A" * 5000, "/", ".", "..", "/dev/null", "/dev/full", "/proc/self/mem",
         "nowhere/at/all", "folder", "text.txt", "fifo", "loop", "\x1b[2J", "[/bold]", "a\nb", "é", "\udcff",
         "%s", "{}", "$HOME", "~", "*", "a:b", ":", "a:", ":b", "tiny.py:", "tiny.py:none", "tiny.py:mlp", "os:getcwd",
         "json:loads", "lenet5", "cnn5", "nvidia-h200", "nvidia-h200/none", "p.json", "p.jsonl", "b.json",
         "p.exp.v1", "x=1", "width=8", "width=0", "depth=2:6:0", "width=9:1", "=1", "32,1,28,28", "0,1", "1,-1",
         "ids:int64:8,128",
         ":int64:1,2:-5", ":int64:1,2:99999999999999999999", "x:odd:1,2", "x:float32:", "50%", "101%", "-3%", "1e999%",
         "60s", "0s", "-1s", "1e99h", "1 fortnight", "15Wh", "15mAh", "-1J", "1J", "cpu", "cuda",
         "cuda:99", "simulated:9",
         "simulated:nan", "simulated:-1", "rapl", "nvml", "cputime:0", "cputime:nan", "command:", "command:false",
         "command:sleep 1", "command:\"", "trace:none", "tiny.csv", "energy", "nan", "99" * 50)  # fmt: skip
SAFE_OF = {"--threads": ("0", "-1", "1", "2", "1.5", "nan", "", "a"),
           "--device": ("", "a", "cuda", "cuda:99", "cuda:-1",
           "simulated:9", "simulated:nan", "simulated", "simulated:", "simulated:0.1", "tpu", "\x1b[2J", "é"),
           "--budget": ("1s", "0s", "-1s", "50%", "nan", "1e400s", "5 parsecs", "", "1J", "1ms"),
           "--models": ("0", "-1", "1", "2", "nan", "1e3", ""), "--trials": ("0", "-1", "1", "5", "nan", ""),
           "--samples": ("0", "-1", "1", "5", "nan", ""),
           "--points": ("0", "-1", "1", "2", "3", "nan", "", "9" * 30),
           "--meter": ("", "a", "nvml", "rapl+", "+", "cputime", "cputime:0", "cputime:nan", "command:",
                       "command:false", "command:\"", "rapl+nvml", "cputime:1e400")}  # fmt: skip
"""Options that a line may not give any value: they take the machine's time, or the machine, by what they mean."""
BASES: dict[str, tuple[str, ...]] = {
    "parse": ("tiny.py:mlp",),
    "profile": ("tiny.py:mlp", "--device", "simulated", "--points", "2", "--target", "90%", "--out", "new.json"),
    "estimate": ("tiny.py:mlp", "--profile", "p.json"),
    "measure": ("tiny.py:mlp", "--device", "simulated"),
    "evaluate": ("lenet5", "--profile", "b.json", "--models", "2"),
    "search": ("lenet5", "--profile", "b.json"),
    "prune": ("lenet5", "--profile", "b.json", "--budget", "50%"),
    "report": ("p.json", "--out", "page.html"),
    "profiles": (),
    "profiles merge": ("p.json", "b.json", "--out", "merged.json"),
    "models": (),
    "devices": (),
}
_LIKELY = ("parse", "profile", "estimate", "measure", "evaluate", "search", "prune", "report", "profile", "estimate",
           "measure", "profiles merge", "profiles", "models", "devices", "report")  # fmt: skip


@cache
def options() -> dict[str, list[tuple[str, bool, bool]]]:
    """The options of each command: a name, whether it is a flag, and whether it takes a number."""
    import typer

    from ampere_energy.cli.app import app

    def of(command: Any) -> list[tuple[str, bool, bool]]:
        named = [p for p in command.params if getattr(p, "param_type_name", "") == "option"]
        return [
            (name, bool(p.is_flag), isinstance(p.default, (int, float)) and not p.is_flag)
            for p in named
            for name in p.opts
            if name not in ("--help", "--install-completion", "--show-completion")
        ]

    found = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        found[name] = of(command)
        for below, inner in getattr(command, "commands", {}).items():
            found[f"{name} {below}"] = of(inner)
    return found


def line(draw: random.Random) -> list[str]:
    """A command line."""
    verb = draw.choice(_LIKELY)
    words = list(BASES[verb])
    for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3))):
        words = _changed(draw, verb, words)
    if draw.random() < 0.3 and "--json" not in words:
        words.append("--json")
    if draw.random() < 0.02:
        verb = draw.choice(("", "profil", "--version", "--help", "\x1b[2J", "-x", "PARSE", "é"))
    return [word for word in [*verb.split(" "), *words] if "\0" not in word]


def _changed(draw: random.Random, verb: str, words: list[str]) -> list[str]:
    known = options().get(verb, [])
    how = draw.choice(("option", "option", "option", "option", "value", "drop", "twice", "elsewhere", "bare", "extra"))
    if how == "elsewhere":
        known = options()[draw.choice(sorted(options()))]
    if how in ("option", "elsewhere", "bare") and known:
        name, flag, number = draw.choice(known)
        if flag:
            return [*words, name]
        if how == "bare":
            return [*words, name]
        value = _value(draw, name, number)
        if name in words:
            at = words.index(name)
            return [*words[: at + 1], value, *words[at + 2 :]]
        return [*words, *((f"{name}={value}",) if draw.random() < 0.3 else (name, value))]
    if how == "value" and words:
        at = draw.randrange(len(words))
        if at > 0 and words[at - 1] in SAFE_OF:
            return [*words[:at], draw.choice(SAFE_OF[words[at - 1]]), *words[at + 1 :]]
        return words if words[at] in SAFE_OF else [*words[:at], draw.choice(TEXTS), *words[at + 1 :]]
    if how == "drop" and words:
        at = draw.randrange(len(words))
        return words if words[at] in SAFE_OF or words[max(0, at - 1)] in SAFE_OF else [*words[:at], *words[at + 1 :]]
    if how == "twice" and words:
        return [*words, *words[draw.randrange(len(words)) :]]
    return [*words, draw.choice(TEXTS)]


def _value(draw: random.Random, name: str, number: bool) -> str:
    if name in SAFE_OF:
        return draw.choice(SAFE_OF[name])
    return draw.choice(NUMBERS if number or draw.random() < 0.2 else TEXTS)


SURROUNDINGS: dict[str, Callable[[], None]] = {}
"""What a line may run in, beside what is usual."""


def _surrounding(made: Callable[[], None]) -> Callable[[], None]:
    SURROUNDINGS[made.__name__.strip("_").replace("_", " ")] = made
    return made


@_surrounding
def _full_output() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


@_surrounding
def _closed_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 1)


@_surrounding
def _closed_output() -> None:
    os.close(1)
    sys.stdout = None  # type: ignore[assignment]  # as Python starts then


@_surrounding
def _ascii() -> None:
    plain = io.open

    @functools.wraps(plain)
    def narrow(
        file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, *rest: Any, **more: Any
    ) -> Any:
        return plain(file, mode, buffering, encoding or (None if "b" in mode else "ascii"), *rest, **more)

    io.open = narrow  # type: ignore[assignment]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="ascii", errors="strict" if stream is sys.stdout else "backslashreplace")  # type: ignore[union-attr]


@_surrounding
def _narrow_window() -> None:
    os.environ["COLUMNS"] = "1"


@_surrounding
def _no_home() -> None:
    for name in ("HOME", "XDG_DATA_HOME", "PATH"):
        os.environ.pop(name, None)
    os.environ["HOME"] = "/dev/null"


def prepared(folder: Path) -> None:
    """A folder with a model, two profiles, and things that are none."""
    folder.mkdir(parents=True)
    (folder / "tiny.py").write_text(TINY)
    few = ("--points", "2", "--target", "90%", "--device", "simulated")
    for name, model in (("p", "tiny.py:mlp"), ("b", "lenet5")):
        done = process.command("profile", model, *few, "--out", f"{name}.json", cwd=folder, limit_s=300)
        if done.code != 0:
            raise RuntimeError(done.last)
    (folder / "folder").mkdir()
    (folder / "text.txt").write_text("text\n")
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")


def tried(words: list[str], surrounding: str, template: Path, folder: Path, limit_s: float) -> Found:
    """A command line, in a folder of its own."""
    import shutil

    shutil.copytree(template, folder, symlinks=True, ignore=shutil.ignore_patterns("fifo"))
    os.mkfifo(folder / "fifo")
    before = process.tree(folder)
    home = {"HOME": str(folder / "home"), "XDG_DATA_HOME": str(folder / "home")}
    done = process.command(*words, cwd=folder, limit_s=limit_s, before=SURROUNDINGS.get(surrounding), environment=home)
    causes = judged(done, surrounding)
    if done.code == 2 and any(after for name, after in _kept(folder).items() if before.get(name) != after):
        causes.append("a refused line leaves files changed")
    shutil.rmtree(folder)
    found = process.of(done, causes)
    return Found(found.causes, f"{words} {surrounding}: {found.about}"[:500], found.figures)


def _kept(folder: Path) -> dict[str, str]:
    return {name: what for name, what in process.tree(folder).items() if not name.startswith("home")}


def judged(done: Done, surrounding: str) -> list[str]:
    """What is wrong with how a line ended: with a pipe that is closed, 141 is what programs exit with."""
    causes = process.judged(done)
    if surrounding in ("closed pipe", "closed output", "full output"):
        causes = [cause for cause in causes if cause not in ("exit 0 without a result", "--json does not parse")]
    if surrounding == "closed pipe" and done.code == 141:
        causes = [cause for cause in causes if cause not in ("exit code 141", "refuses in silence", "no next step")]
    return causes


def run(
    count: int, folder: Path, seed: int = 0, keep: Path | None = None, limit_s: float = process.LIMIT_S
) -> dict[str, Any]:
    """So many command lines, each in a folder of its own."""
    process.ready()
    template = cache(partial(_template, folder))
    every: list[Case] = []
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        words = line(draw)
        surrounding = draw.choice(sorted(SURROUNDINGS)) if draw.random() < 0.15 else ""
        name = f"{number} {words[0]!r}{f' in {surrounding}' if surrounding else ''}"
        every.append(
            (name, lambda w=words, s=surrounding, n=number: tried(w, s, template(), folder / str(n), limit_s))  # type: ignore[misc]
        )
    return cases.run("commands", every, keep)


def _template(folder: Path) -> Path:
    place = folder / "template"
    prepared(place)
    return place
