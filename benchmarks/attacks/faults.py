"""What happens to a campaign other than a kill: a full disk, a stopped worker, a clock that jumps, another campaign.

After each the same command goes on to the undisturbed result, and what it said meanwhile was one line with a next step.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attacks import cases, process, sabotage
from benchmarks.attacks.cases import Case, Found
from benchmarks.attacks.kills import WORKER, Attack, state, undisturbed
from benchmarks.attacks.process import Done
from benchmarks.attacks.sabotage import At

ELSEWHERE = "another-house"


def full_disk(attack: Attack, number: int, share: float, folder: Path) -> Found:
    """No space is left from one write on; then there is space again, and the command goes on."""
    attack.prepare(folder)
    before = {path.name for path in folder.iterdir()}
    at = At(number, "full", share)
    done = _run(attack, folder, lambda: sabotage.Operations(at))
    causes = [f"full: {cause}" for cause in process.judged(done)]
    needing_space = undisturbed(attack).operations - 1  # the last one takes the lock's file away
    if done.code == 0 and number < needing_space and "space" not in done.err.decode():
        causes.append("full: says nothing of it")
    left = {path.name for path in folder.iterdir()} - before
    if any(name.startswith((".ampere-", ".p.json.")) for name in left):
        causes.append("full: a temporary file stays")
    return _goes_on(attack, folder, causes, done)


def _run(attack: Attack, folder: Path, before: Callable[[], Any] | None = None, **more: Any) -> Done:
    def break_it() -> None:
        if attack.simulated:
            sabotage.remembering()
        if before is not None:
            before()

    return process.command(*attack.arguments(folder), cwd=folder, limit_s=attack.limit_s(), before=break_it, **more)


def _slowly() -> None:
    sabotage.slowly(0.05)


def _goes_on(attack: Attack, folder: Path, causes: list[str], disturbed: Done) -> Found:
    """Runs the command once more, and compares."""
    whole = undisturbed(attack).state
    done = _run(attack, folder) if disturbed.code != 0 else disturbed
    after = state(folder)
    if done.code != 0:
        causes.append(f"does not go on, exit code {done.code}")
    elif after.broken:
        causes.append("a torn line stays")
    elif attack.verb != "add" and after != whole:
        causes.append("not the undisturbed result")
    shutil.rmtree(folder, ignore_errors=True)
    return process.of(disturbed, causes)


def jumping_clock(attack: Attack, seed: int, folder: Path) -> Found:
    """The wall clock jumps by up to a year either way whenever it is read."""
    attack.prepare(folder)
    done = _run(attack, folder, lambda: sabotage.jumping(seed))
    return _goes_on(attack, folder, process.judged(done), done)


@dataclass
class _Meanwhile:
    """Does something once a log has some lines, with the command stopped; then lets it go on."""

    log: Path
    lines: int
    does: Callable[[], None]
    done: bool = False

    def __call__(self, child: int) -> None:
        if self.done or not self.log.exists() or self.log.read_bytes().count(b"\n") < self.lines:
            return
        self.done = True
        os.kill(child, signal.SIGSTOP)
        try:
            self.does()
        finally:
            os.kill(child, signal.SIGCONT)


def two_at_once(attack: Attack, lines: int, folder: Path) -> Found:
    """A second campaign on a log, while the first has it, is refused with the number of its process."""
    attack.prepare(folder)
    second: list[Done] = []

    def start_another() -> None:
        arguments = attack.arguments(folder)
        second.append(process.command(*arguments, cwd=folder, limit_s=20, before=sabotage.remembering))

    first = _run(attack, folder, _slowly, during=_Meanwhile(folder / "p.jsonl", lines, start_another))
    causes = [f"the first: {cause}" for cause in process.judged(first)]
    if not second:
        causes.append("the first was too quick")
    elif second[0].hung:
        causes.append("the second waits unasked")
    elif second[0].code == 0:
        causes.append("the second is not refused")
    else:
        causes += [f"the second: {cause}" for cause in process.judged(second[0])]
        if not any(word.strip("().,;").isdigit() for word in second[0].last.split()):
            causes.append("does not name the process that has the log")
    return _goes_on(attack, folder, causes, first)


def _killed(attack: Attack, lines: int, folder: Path) -> None:
    """Runs the command until its log has some lines, and kills it."""
    sniper = _Meanwhile(folder / "p.jsonl", lines, lambda: None)

    def kill(child: int) -> None:
        sniper(child)
        if sniper.done:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    _run(attack, folder, _slowly, during=kill)


def lock_of_another_host(attack: Attack, lines: int, folder: Path) -> Found:
    """A campaign is killed; its lock is made to name another host; then it must not be taken over."""
    attack.prepare(folder)
    before = {path.name for path in folder.iterdir()} | {"p.json", "p.jsonl"}
    _killed(attack, lines, folder)
    host, changed = socket.gethostname(), False
    for path in folder.iterdir():
        if path.name in before or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        if host in text:
            path.write_text(text.replace(host, ELSEWHERE))
            changed = True
    done = _run(attack, folder)
    causes = [] if changed else ["no lock names its host"]
    if changed and done.code != 2:
        causes.append("takes over the lock of another host")
    if changed and ELSEWHERE not in done.last:
        causes.append("does not name the other host")
    shutil.rmtree(folder)
    return process.of(done, causes + process.judged(done))


def packed(attack: Attack, lines: int, folder: Path) -> Found:
    """A campaign is killed, its log packed by gzip, and the same command goes on with it."""
    attack.prepare(folder)
    _killed(attack, lines, folder)
    log = folder / "p.jsonl"
    (folder / "p.jsonl.gz").write_bytes(gzip.compress(log.read_bytes()))
    known = log.read_bytes().count(b"\n")
    log.unlink()
    journal = folder.parent / f"{folder.name}.journal"
    arguments = [*attack.arguments(folder), "--resume"]

    def watched() -> None:
        sabotage.journal(journal)
        sabotage.remembering()

    done = process.command(*arguments, cwd=folder, limit_s=attack.limit_s(), before=watched)
    causes = process.judged(done)
    if done.code != 0:
        causes.append("a packed log is not gone on with")
    asked = journal.read_text().count("asked ") if journal.exists() else 0
    if done.code == 0 and asked != undisturbed(attack).asked - known:
        causes.append("measured again beyond what was in flight")
    if done.code == 0 and state(folder).profiles != undisturbed(attack).state.profiles:
        causes.append("not the undisturbed result")
    shutil.rmtree(folder)
    return process.of(done, causes)


def stopped_worker(verb: str, after_s: float, folder: Path) -> Found:
    """A worker stops for longer than it is waited for; what it was asked is asked again, and is no knowledge."""
    attack = Attack(verb, "cpu")
    attack.prepare(folder)
    began, stopped = time.monotonic(), []

    def stop(child: int) -> None:
        if stopped or time.monotonic() - began < after_s:
            return
        victim = process.find(child, WORKER)
        if victim is not None:
            stopped.append(victim)
            os.kill(victim, signal.SIGSTOP)

    def impatient() -> None:
        sabotage.quick()
        sabotage.impatient(6.0)

    done = _run(attack, folder, impatient, during=stop)
    causes = [] if stopped else ["no worker was found"]
    causes += process.judged(done)
    for _ in range(2):
        if done.code in (0, 2):
            break
        done = _run(attack, folder, sabotage.quick)
    if done.code != 0:
        causes.append(f"does not go on, exit code {done.code}")
    after = state(folder)
    if after.infeasible():
        causes.append("what failed is logged as infeasible")
    if verb == "profile" and after.workloads() != undisturbed(attack).state.workloads():
        causes.append("other requests than undisturbed")
    shutil.rmtree(folder)
    return process.of(done, causes)


def every(folder: Path, small: bool = False) -> Iterator[Case]:
    """All cases; a few of each sort where there is little time."""
    places = (folder / str(number) for number in range(10**6))
    profile = Attack("profile", "simulated:0.02", small=small)
    others = () if small else (Attack(verb, "simulated:0.02") for verb in ("refine", "add", "record"))
    for attack in (profile, *others):
        writes = undisturbed(attack).operations
        numbers: Iterable[int] = (0, writes // 2, writes - 1) if small else range(writes + 1)
        if writes > 60 and not small:  # most are of a line like the last one
            numbers = sorted({*range(12), *range(12, writes - 12, writes // 20), *range(writes - 12, writes + 1)})
        for number in numbers:
            share = random.Random(number).random()
            yield f"full disk {attack.verb} write {number}", partial(full_disk, attack, number, share, next(places))
    for seed in range(1 if small else 5):
        yield f"jumping clock {seed}", partial(jumping_clock, profile, seed, next(places))
    for lines in (3,) if small else (1, 20, 70):
        yield f"two at once after {lines}", partial(two_at_once, profile, lines, next(places))
        yield f"a lock of another host after {lines}", partial(lock_of_another_host, profile, lines, next(places))
        yield f"a log packed after {lines}", partial(packed, profile, lines, next(places))
    for verb in () if small else ("profile", "add", "profile", "profile"):
        place = next(places)
        after_s = random.Random(str(place.name)).uniform(3, 12)
        yield f"stopped worker {verb} {place.name}", partial(stopped_worker, verb, after_s, place)


def run(folder: Path, keep: Path | None = None, small: bool = False) -> dict[str, Any]:
    """Every fault, or a few."""
    process.ready()
    return cases.run("faults", every(folder, small), keep)
