"""What each component of the fit buys: every recorded set predicted without it.

    python -m benchmarks.studies.ablation FILE [ROW …]      goes on where it stopped; a row is a component

A row is fitted to the same campaigns and judged by the same networks as the results of the families, with one component
left out. `python -m benchmarks.pages` makes the table of FILE where that is `benchmarks/ablation.jsonl`.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ampere_energy.cost_model import (
    fitting,
    host_overhead,
    hyperparameters,
    joint,
    kernels,
    linearisation,
    outliers,
    posterior,
    slow_regions,
)
from ampere_energy.cost_model.gaussian_process import LogNormal
from ampere_energy.estimation.estimate import estimate
from ampere_energy.evaluation.experiment import Part
from ampere_energy.evaluation.recorded import load

MODULES = (fitting, host_overhead, hyperparameters, joint, kernels, linearisation, outliers, posterior, slow_regions)
NEXT_TO_NOTHING = LogNormal(1e-6, 1e-3)
Change = dict[str, Any]
"""Names of the cost model's modules, and what they are in place of what they were."""


def components(*names: str) -> Change:
    """The residuals without some of their parts."""
    return {
        which: tuple(part for part in getattr(kernels, which) if part.name not in names) for which in ("TIME", "POWER")
    }


def rows() -> dict[str, Callable[[], Change]]:
    """What is left out, row by row."""
    return {
        "nothing": dict,
        "tiles": lambda: components("tile"),
        "strips": lambda: components("first", "last"),
        "nearness in widths": lambda: components("near"),
        "classes of divisibility": lambda: components("class"),
        "fills": lambda: components("fill"),
        "roughness from width to width": lambda: components("point"),
        "slow regions": lambda: {**components("slow", "slowly"), "slow_blocks": _no_slow_blocks},
        "coupling of blocks": lambda: {
            "COUPLING_TIME": 1e-6, "COUPLING_POWER": 1e-6, "COUPLING_OWN": (1e-6, 1e-6),
            "own_coupling": lambda *_: (NEXT_TO_NOTHING, NEXT_TO_NOTHING),
            "TOGETHER": NEXT_TO_NOTHING, "TOGETHER_CACHED": NEXT_TO_NOTHING,
        },
        "power that goes with time": lambda: {"_FOLLOWS": 1e-6},
        "switching kernels in power": lambda: {"SWITCHED": 1e-6},
        "noise common to time and energy": lambda: {"CARRIED": NEXT_TO_NOTHING},
        "jumps of the host": lambda: {"_candidates": lambda _: iter(())},
        "outliers": lambda: {"discounted": lambda observations, _: list(observations)},
    }  # fmt: skip


def _no_slow_blocks(*_: Any) -> slow_regions.Slow:
    return slow_regions.Slow({}, {})


@contextlib.contextmanager
def changed(change: Change) -> Iterator[None]:
    """The cost model with some names changed wherever they are known."""
    kept = [(module, name, getattr(module, name)) for module in MODULES for name in change if hasattr(module, name)]
    if missing := set(change) - {name for _, name, _ in kept}:
        raise LookupError(f"the cost model has no {', '.join(sorted(missing))}")
    for module, name, _ in kept:
        setattr(module, name, change[name])
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)


def score(folder: Path) -> Iterator[dict[str, Any]]:
    """How far the networks of a recorded set are off, in each mode it has."""
    recorded, twin = load(folder), None
    for mode in recorded.modes:
        campaign, found = recorded.campaign(mode)
        profile = recorded.profile(campaign, found, twin)
        twin, measured = profile.nets, recorded.by_network(Part.MEMBERS, mode)
        errors, inside = [], 0
        for spec, own in zip(recorded.experiment.specs(mode), measured, strict=True):
            told, value = estimate(spec, profile), statistics.fmean(m.energy_j for m in own)
            errors.append(abs(told.energy_j / value - 1))
            inside += told.interval_j[0] <= value <= told.interval_j[1]
        yield {"set": f"{folder.name} {mode}", "error": statistics.fmean(errors), "coverage": inside / len(errors)}


def run(path: Path, names: list[str], folders: list[Path]) -> None:
    """Each row over each set; what is in the file already is not run again."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(line["row"], line["folder"]) for line in lines}
    for name, change in rows().items():
        if names and name not in names:
            continue
        for folder in folders:
            if (name, str(folder)) in done:
                continue
            start = time.monotonic()
            with changed(change()):
                found = list(score(folder))
            with path.open("a") as file:
                for one in found:
                    file.write(json.dumps({"row": name, "folder": str(folder), **one}) + "\n")
            print(f"{name}, {folder.name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    data = Path(__file__).parents[2] / "data"
    recorded = sorted(p.parent for plan in ("h200", "cpu") for p in (data / plan).glob("*/experiment.json*"))
    run(Path(sys.argv[1]), sys.argv[2:], recorded)
