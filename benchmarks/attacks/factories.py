"""A hundred factories that misbehave, each parsed, some profiled and estimated: AMPERE answers whatever a model does.

Exit codes are the documented ones, a refusal is one line with a next step, `--json` is JSON, the folder stays as it
was, no process stays, and nothing takes over a minute or 1.5 GB.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attacks import cases, process, sabotage
from benchmarks.attacks.cases import Case, Found
from benchmarks.attacks.hostile_models import HARMLESS, MODELS, PROFILED, TRAINED, source
from benchmarks.attacks.process import Done

FEW = ("chdir in the factory", "exit in the forward", "printing to descriptor 1", "double", "os exit in the factory",
       "default dtype", "raising in the backward", "escape sequences in names")  # fmt: skip
"""Those of a test: one of each sort that ends soon."""


def parsed(name: str, folder: Path, limit_s: float = process.LIMIT_S) -> Found:
    """`ampere parse` of a hostile factory."""
    _prepare(name, folder)
    before = process.tree(folder)
    done = process.command("parse", "hostile.py:f", "--json", cwd=folder, limit_s=limit_s)
    return process.of(done, [*process.judged(done, before, folder), *_refused(name, done)])


def profiled(name: str, device: str, folder: Path, limit_s: float = 120.0) -> Found:
    """`ampere profile` of a hostile factory and `ampere estimate` from what came of it."""
    _prepare(name, folder)
    before = process.tree(folder)
    few = ["--threads", "1", "--points", "2", "--target", "90%", "--budget", "5s"] if device == "cpu" else []
    made = process.command(
        "profile", "hostile.py:f", "--device", device, *few, "--out", "p.json", "--json",
        cwd=folder, limit_s=limit_s, before=sabotage.quick,
    )  # fmt: skip
    causes = [*process.judged(made), *_refused(name, made)]
    if {path for path in process.tree(folder) if not path.startswith(("p.", ".p."))} != set(before):
        causes.append("leaves the folder changed")
    if made.code == 0 and not (folder / "p.json").exists():
        causes.append("exit 0 without a profile")
    found = process.of(made, causes)
    if made.code == 0 and (folder / "p.json").exists():
        told = process.command("estimate", "hostile.py:f", "--profile", "p.json", "--json", cwd=folder, limit_s=60)
        causes += [f"estimate: {cause}" for cause in process.judged(told)]
        if told.code not in (0, 4):
            causes.append(f"estimate: exit {told.code} where the profile was made")
        found = process.of(told if len(causes) else made, causes)
    return found


def _refused(name: str, done: Done) -> list[str]:
    return ["refuses what trains like any other model"] if name in HARMLESS and done.code != 0 else []


def _prepare(name: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "hostile.py").write_bytes(source(name).encode("utf-8", "surrogateescape"))
    (folder / "precious.txt").write_text("to be left alone\n")


def every(folder: Path) -> list[Case]:
    """All cases, those that hang last."""
    found: list[Case] = [
        (f"parse {name}", partial(parsed, name, folder / f"{number}-parse" / "in"))
        for number, name in enumerate(MODELS)
    ]
    for device, names in (("simulated", PROFILED), ("cpu", TRAINED)):
        found += [
            (f"profile {device} {name}", partial(profiled, name, device, folder / f"{number}-{device}" / "in"))
            for number, name in enumerate(names)
        ]
    return found


def run(folder: Path, keep: Path | None = None, few: bool = False) -> dict[str, Any]:
    """Every factory, or a few that are parsed."""
    process.ready()
    wanted = [f"parse {name}" for name in FEW]
    chosen = [case for case in every(folder) if not few or case[0] in wanted]
    return {"factories": len(MODELS), **cases.run("factories", chosen, keep)}
