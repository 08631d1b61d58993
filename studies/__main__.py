"""`make study`: every study in full; the results go to `studies/results.json` with the commit and the date."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies import (
    additive,
    approximate,
    batches,
    calibration,
    cards,
    counters,
    experiments,
    floor,
    hostile,
    kills,
    lab,
    looks,
    oracle,
    phases,
    pruning,
    rules,
    search,
    seconds,
    tables,
    whole_models,
    zoo,
)
from studies.attacks import cases, commands, factories, faults, files, properties
from studies.attacks import kills as attacked
from studies.results import RESULTS, made_at


def main(names: Sequence[str]) -> None:
    """Runs the studies of these names, or all; the others' results stay as they are."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, run in {
        "additive": lambda _: additive.run(seeds=5, members=50),
        "oracle": lambda _: oracle.run(seeds=20),
        "counters": lambda folder: {
            "wraps": counters.run_wraps(10_000, 0),
            "resets": counters.run_resets(10_000, 0),
            "faults": counters.run_faults(1_000, 0, folder),
        },
        "phases": lambda _: phases.run(1_000),
        "kills": lambda folder: kills.run(kills=50, folder=folder),
        "lab": lambda _: lab.run(),
        "candidates": lambda _: lab.candidates(),
        "calibration": lambda _: calibration.run(worlds=200, members=20),
        "rules": lambda _: rules.run(seeds=30, members=40),
        "looks": lambda _: looks.run(worlds=20, members=600),
        "floor": lambda _: floor.run(seeds=30, members=40),
        "hostile": lambda _: hostile.run(10_000),
        "approximate": lambda _: approximate.run(worlds=3, members=20),
        "batches": lambda _: batches.run(),
        "zoo": lambda _: zoo.run(),
        "whole models": lambda _: whole_models.run(),
        "evaluation": lambda _: experiments.run(),
        "cards": lambda _: cards.run(),
        "seconds": lambda _: seconds.run(),
        "search": lambda _: search.run(seeds=5),
        "pruning": lambda _: pruning.run(),
        "attacks: kills": lambda folder: attacked.run(500, folder, on_cpu=48, keep=cases.KEEP),
        "attacks: faults": lambda folder: faults.run(folder, keep=cases.KEEP),
        "attacks: factories": lambda folder: factories.run(folder, keep=cases.KEEP),
        "attacks: files": lambda folder: files.run(10_000, folder, keep=cases.KEEP),
        "attacks: commands": lambda folder: commands.run(1_000, folder, keep=cases.KEEP),
        "attacks: properties": lambda folder: properties.run(30, folder, keep=cases.KEEP),
    }.items():
        if names and name not in names:
            continue
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            results[name] = {**made_at(), "result": run(Path(folder))}
        print(f"{name}: {time.monotonic() - start:.0f} s")
        if name.startswith("attacks: "):
            cases.show(name, results[name]["result"])
        else:
            print(json.dumps(results[name]["result"], indent=1))
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    tables.main()


if __name__ == "__main__":
    main(sys.argv[1:])
