"""`make study`: every study in full, or those named; results go to `results.json` with the commit and the date."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.attacks import cases, commands, factories, faults, files, kills, properties
from benchmarks.pages.render import write
from benchmarks.results import RESULTS, made_at
from benchmarks.studies import (
    acquisition_rules,
    additive_device,
    calibration,
    counter_phases,
    counters,
    design_floor,
    every_architecture,
    families,
    gpytorch_oracle,
    host_time,
    hostile_profiles,
    killed_campaigns,
    lab_networks,
    nearest_profile,
    other_batches,
    other_cards,
    pruning,
    search,
    shorter_campaigns,
    slow_region_search,
    unseen_kinds,
    whole_models,
)

STUDIES: dict[str, Callable[[Path], Any]] = {
    "additive": lambda _: additive_device.run(seeds=5, networks=50),
    "oracle": lambda _: gpytorch_oracle.run(seeds=20),
    "counters": lambda folder: {
        "wraps": counters.run_wraps(10_000, 0),
        "resets": counters.run_resets(10_000, 0),
        "faults": counters.run_faults(1_000, 0, folder),
    },
    "phases": lambda _: counter_phases.run(1_000),
    "kills": lambda folder: killed_campaigns.run(kills=50, folder=folder),
    "lab": lambda _: lab_networks.run(),
    "candidates": lambda _: lab_networks.candidates(),
    "calibration": lambda _: calibration.run(worlds=200, networks=20),
    "rules": lambda _: acquisition_rules.run(seeds=30, networks=40),
    "looks": lambda _: slow_region_search.run(worlds=20, networks=600),
    "floor": lambda _: design_floor.run(seeds=30, networks=40),
    "hostile": lambda _: hostile_profiles.run(10_000),
    "approximate": lambda _: unseen_kinds.run(worlds=3, networks=20),
    "nearest": lambda _: nearest_profile.run(),
    "batches": lambda _: other_batches.run(),
    "zoo": lambda _: every_architecture.run(),
    "whole models": lambda _: whole_models.run(),
    "host time": lambda _: host_time.run(),
    "evaluation": lambda _: families.run(),
    "cards": lambda _: other_cards.run(),
    "seconds": lambda _: shorter_campaigns.run(),
    "search": lambda _: search.run(seeds=5),
    "pruning": lambda _: pruning.run(),
    "attacks: kills": lambda folder: kills.run(500, folder, on_cpu=48, keep=cases.KEEP),
    "attacks: faults": lambda folder: faults.run(folder, keep=cases.KEEP),
    "attacks: factories": lambda folder: factories.run(folder, keep=cases.KEEP),
    "attacks: files": lambda folder: files.run(10_000, folder, keep=cases.KEEP),
    "attacks: commands": lambda folder: commands.run(1_000, folder, keep=cases.KEEP),
    "attacks: properties": lambda folder: properties.run(30, folder, keep=cases.KEEP),
}


def main(names: Sequence[str]) -> None:
    """Runs the studies of these names, or all; the others' results stay as they are."""
    if unknown := [name for name in names if name not in STUDIES]:
        sys.exit(f"no study is called {', '.join(unknown)}; choose from {', '.join(STUDIES)}")
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or STUDIES:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            results[name] = {**made_at(), "result": STUDIES[name](Path(folder))}
        print(f"{name}: {time.monotonic() - start:.0f} s")
        if name.startswith("attacks: "):
            cases.show(name, results[name]["result"])
        else:
            print(json.dumps(results[name]["result"], indent=1))
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    write()


if __name__ == "__main__":
    main(sys.argv[1:])
