"""`kill -9` of the campaign, of the worker or of the meter's sampler, at any moment of what measures; then it goes on.

A case is one command, killed up to three times and then left to end. On the simulated device its files must be those of
the command that nobody killed, dates and durations apart; on a processor it must have asked for the same networks. What
was acknowledged is there, nothing was measured again but what was in flight, and no process is left after two seconds.

Most kills are at a write of the command, numbered by an undisturbed run: before it, within it, after it, or some
milliseconds later. The others are at a moment of its time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.attacks import cases, process, sabotage
from benchmarks.attacks.cases import Case, Found
from benchmarks.attacks.process import Done
from benchmarks.attacks.sabotage import At

TINY = """
import torch
from torch import nn
def mlp(): return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), torch.randn(4, 6)
"""
METER = """#!/bin/sh
awk '/^cpu /{print ($2 + $3 + $4) / 10 " J"}' /proc/stat
"""
"""A meter that notices load: ten watts of each busy core of this machine."""
MOST_KILLS = 3
_LEFT = {"profile": 8, "refine": 3, "add": 3, "record": 2}
"""How often which command is attacked on the simulated device, of sixteen."""
WORKER, SAMPLER = "devices.worker", "meters.sampler"


@dataclass(frozen=True)
class Attack:
    """A command that measures, and where.

    Attributes:
        verb: `profile`, `refine`, `add` or `record`.
        device: `simulated:0.02` or `cpu`.
        target: whom to kill: `campaign`, `worker` or `sampler`.
        small: the model has two layers, on a processor always.
    """

    verb: str
    device: str
    target: str = "campaign"
    small: bool = False

    @property
    def simulated(self) -> bool:
        """Whether what is measured is the same again."""
        return self.device.startswith("simulated")

    @property
    def on(self) -> list[str]:
        """The options of the device."""
        meter = ["--meter", "command:sh meter.sh"] if self.target == "sampler" else []
        return ["--device", self.device, *([] if self.simulated else ["--threads", "1", *meter])]

    def arguments(self, folder: Path) -> list[str]:
        """The command line that begins, or goes on."""
        model = "tiny.py:mlp" if (self.small or not self.simulated) and self.verb != "record" else "lenet5"
        begun = (folder / "p.jsonl").exists() and (folder / "p.jsonl").stat().st_size > 0
        if self.verb == "profile":
            few = ["--points", "2", "--target", "90%"] if self.small or not self.simulated else []
            return ["profile", model, *self.on, "--out", "p.json", *few, *(["--resume"] if begun else [])]
        if self.verb == "refine":
            return ["estimate", model, "--profile", "p.json", "--refine", "0.45%" if self.simulated else "3%", "--json"]
        if self.verb == "add":
            return ["measure", model, *self.on, "--add-to", "p.json"]
        parts = "campaign,members,refined" if self.simulated else "campaign,members"
        budget = "1h" if self.simulated else "1s"
        return ["evaluate", model, "--record", "rec", *self.on, "--models", "2", "--budget", budget, "--parts", parts]

    def prepare(self, folder: Path) -> None:
        """The folder before the command."""
        folder.mkdir(parents=True)
        (folder / "tiny.py").write_text(TINY)
        (folder / "meter.sh").write_text(METER)
        if self.verb in ("refine", "add"):
            for name, data in _base(replace(self, verb="profile")).items():
                (folder / name).write_bytes(data)

    def limit_s(self) -> float:
        """What it may take on a machine that does other things too."""
        return 120.0 if self.simulated else 300.0


@cache
def _base(attack: Attack) -> dict[str, bytes]:
    """A profile with its log, to refine or to add to."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "base"
        attack.prepare(folder)
        done = process.command(*attack.arguments(folder), cwd=folder, limit_s=300, before=_before(attack, None, None))
        if done.code != 0:
            raise RuntimeError(f"{attack} made no profile: {done.last}")
        return {name: (folder / name).read_bytes() for name in ("p.json", "p.jsonl")}


@dataclass(frozen=True)
class State:
    """What a folder holds after a command.

    Attributes:
        logs: of each log its records without dates.
        profiles: each profile without dates.
        broken: logs with a line that cannot be read.
    """

    logs: dict[str, list[Any]]
    profiles: dict[str, Any]
    broken: tuple[str, ...] = ()

    @property
    def lines(self) -> int:
        """How many records there are."""
        return sum(map(len, self.logs.values()))

    def workloads(self) -> Counter[str]:
        """What was measured how often, metered and timed apart."""
        found: Counter[str] = Counter()
        for name, records in self.logs.items():
            for record in records:
                sort = "timing" if "timing" in record else "measurement"
                found[f"{name} {sort} {json.dumps(record[sort]['workload'], sort_keys=True)}"] += 1
        return found

    def infeasible(self) -> int:
        """How many records say that something cannot run."""
        return sum(
            bool((r.get("timing") or r["measurement"]).get("infeasible")) for rs in self.logs.values() for r in rs
        )


def state(folder: Path) -> State:
    """Reads a folder's logs and profiles."""
    logs: dict[str, list[Any]] = {}
    broken = []
    for path in sorted(folder.rglob("*.jsonl")):
        logs[str(path.relative_to(folder))] = kept = []
        *lines, rest = path.read_bytes().split(b"\n")
        try:
            kept += [sabotage.timeless(json.loads(line)) for line in lines]
        except ValueError:
            broken.append(path.name)
        if rest:
            broken.append(path.name)
    profiles = {}
    for path in sorted((*folder.glob("*.json"), *folder.glob("rec/profile.json"))):
        with contextlib.suppress(ValueError):
            profiles[str(path.relative_to(folder))] = sabotage.timeless(json.loads(path.read_bytes()))
    return State(logs, profiles, tuple(broken))


@dataclass(frozen=True)
class Whole:
    """A command that nobody disturbed: what it left, how many writes it made, and how long it took."""

    state: State
    operations: int
    seconds: float
    asked: int


@cache
def undisturbed(attack: Attack, times: int = 1) -> Whole:
    """The command, run so many times one after another, with nobody disturbing it."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "whole"
        attack.prepare(folder)
        journal = Path(place) / "journal"
        for _ in range(times):
            done = process.command(
                *attack.arguments(folder),
                cwd=folder,
                limit_s=attack.limit_s(),
                before=_before(attack, journal, None, counting=True),
            )
            if done.code != 0:
                raise RuntimeError(f"{attack} fails undisturbed: {done.last}")
        told = Counter(line.split()[0] for line in journal.read_text().splitlines())
        return Whole(state(folder), told["operation"] // times, done.seconds, told["asked"])


def _before(attack: Attack, journal: Path | None, at: At | None, counting: bool = False) -> Callable[[], None]:
    def break_it() -> None:
        told = sabotage.journal(journal) if journal is not None else None
        sabotage.remembering() if attack.simulated else sabotage.quick()
        if at is not None or counting:
            sabotage.Operations(at, told if counting else None)

    return break_it


@dataclass
class _Sniper:
    """Kills somebody after a time, from outside."""

    after_s: float
    word: str = ""
    killed: bool = False
    began_s: float = field(default_factory=time.monotonic)

    def __call__(self, child: int) -> None:
        if self.killed or time.monotonic() - self.began_s < self.after_s:
            return
        victim = process.find(child, self.word) if self.word else child
        if victim is not None:
            self.killed = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)


def attacked(attack: Attack, kills: int, seed: str, folder: Path) -> Found:
    """Kills a command so many times, lets it end, and judges what is there then."""
    draw, whole = random.Random(seed), undisturbed(attack)
    attack.prepare(folder)
    journal, died, causes = folder.parent / f"{folder.name}.journal", 0, []
    base, done, ends = state(folder).lines, None, 0
    for _ in range(kills):
        before = _saved(folder)
        done, killed = _once(attack, draw, whole, folder, journal)
        died += killed
        ends += killed and _saved(folder) != before
        causes += _of_the_killed(done, attack)
        if done.code == 0:
            break
    for _ in range(3):  # what failed for the moment may be tried again, as a user would
        if done is not None and done.code in (0, 2):
            break
        done = process.command(
            *attack.arguments(folder), cwd=folder, limit_s=attack.limit_s(), before=_before(attack, journal, None)
        )
    assert done is not None
    if done.code != 0:
        causes.append("hangs when resumed" if done.hung else f"does not go on, exit code {done.code}")
    if done.orphans:
        causes.append("an orphan after its end")
    after = state(folder)
    whole = undisturbed(attack, 1 + ends) if attack.verb == "refine" else whole
    causes += judge(attack, whole, after, journal.read_text() if journal.exists() else "", base, died)
    found = process.of(done, causes)
    found.figures["n kills"] = died
    shutil.rmtree(folder)
    return found


def _saved(folder: Path) -> bytes:
    """The profile, which refining saves when it ends: a command that is killed after that has refined."""
    path = folder / "p.json"
    return path.read_bytes() if path.exists() else b""


def _once(attack: Attack, draw: random.Random, whole: Whole, folder: Path, journal: Path) -> tuple[Done, bool]:
    """The command, killed at some moment; whether it was."""
    how = draw.choice(("before", "torn", "torn", "after", "later", "later", "moment", "moment"))
    at, sniper = None, None
    if attack.target != "campaign":
        word = WORKER if attack.target == "worker" else SAMPLER
        sniper = _Sniper(draw.uniform(0.1, 0.8 * whole.seconds), word)
    elif how == "moment":
        sniper = _Sniper(draw.uniform(0.0, 0.7 * whole.seconds))
    else:
        # What is left to do is not known: of a large number, nothing may come of it.
        at = At(int(whole.operations * draw.random() ** 2), how, draw.random())
    done = process.command(
        *attack.arguments(folder),
        cwd=folder,
        limit_s=attack.limit_s(),
        before=_before(attack, journal, at),
        during=sniper,
    )
    return done, done.code == -signal.SIGKILL or bool(sniper and sniper.killed and attack.target != "campaign")


def _of_the_killed(done: Done, attack: Attack) -> list[str]:
    causes = []
    if done.hung:
        causes.append("hangs when killed")
    if done.orphans:
        causes.append("an orphan of the killed")
    if attack.target == "campaign" and done.code not in (0, -signal.SIGKILL):
        causes.append(f"exit code {done.code} when resumed")
    return causes


def judge(attack: Attack, whole: Whole, after: State, told: str, base: int, kills: int) -> list[str]:
    """What does not hold in the files of a command that was killed and went on."""
    causes = []
    lines = [line.split() for line in told.splitlines()]
    logged = Counter(words[1] for words in lines if words[0] == "logged")
    there = Counter(
        sabotage.digest(record.get("timing") or record.get("measurement"))
        for records in after.logs.values()
        for record in records
    )
    if after.broken:
        causes.append("a torn line stays")
    if logged - there:
        causes.append("an acknowledged line is lost")
    asked = sum(words[0] == "asked" for words in lines)
    if asked > after.lines - base + kills:
        causes.append("measured again beyond what was in flight")
    if after.infeasible():
        causes.append("what failed is logged as infeasible")
    for name, profile in after.profiles.items():
        log = name.replace(".json", ".jsonl").replace("profile", "campaign")
        if log in after.logs and profile["profile"]["measurements"] != len(after.logs[log]):
            causes.append("logged but not learnt")
    if attack.verb == "add":
        times = max(1, after.lines - base)
        if attack.simulated and after != undisturbed(attack, times).state:
            causes.append("not the undisturbed result")
    elif attack.simulated:
        if after.logs != whole.state.logs:
            same = after.workloads() == whole.state.workloads()
            causes.append("other figures than undisturbed" if same else "other requests than undisturbed")
        elif after.profiles != whole.state.profiles:
            causes.append("another profile than undisturbed")
    elif attack.verb == "profile" and after.workloads() != whole.state.workloads():
        causes.append("other requests than undisturbed")
    return causes


def plan(kills: int, on_cpu: int, small: bool) -> Iterator[tuple[str, Attack, int]]:
    """Names, attacks and numbers of kills that make some kills together, the last `on_cpu` of them on a processor."""
    verbs = [verb for verb, share in _LEFT.items() for _ in range(share)]
    random.Random("verbs").shuffle(verbs)
    order = ["profile", "refine", "add"] if small else verbs
    done = number = 0
    while done < kills - on_cpu:
        attack = Attack(order[number % len(order)], "simulated:0.02", small=small or number % 2 == 1)
        times = min(1 + number % MOST_KILLS, kills - on_cpu - done)
        yield f"{number} {attack.verb} simulated{' small' * attack.small} x{times}", attack, times
        done, number = done + times, number + 1
    targets = [(v, t) for v in ("profile", "add", "refine", "profile") for t in ("campaign", "worker", "sampler")]
    targets.insert(6, ("record", "campaign"))
    for extra in range(on_cpu):
        verb, target = targets[extra % len(targets)]
        yield f"{number + extra} {verb} cpu {target}", Attack(verb, "cpu", target), 1


def run(
    kills: int, folder: Path, on_cpu: int = 0, seed: int = 0, keep: Path | None = None, small: bool = False
) -> dict[str, Any]:
    """So many kills, some of them on a processor; all of a small model, if there is little time."""
    process.ready()
    every: list[Case] = [
        (name, partial(_tried, attack, times, f"{seed} {name}", folder / name.replace(" ", "-")))
        for name, attack, times in plan(kills, on_cpu, small)
    ]
    return cases.run("kills", every, keep)


def _tried(attack: Attack, times: int, seed: str, folder: Path) -> Found:
    try:
        return attacked(attack, times, seed, folder)
    except RuntimeError as error:
        return Found(("cannot be tried",), str(error)[:300])
