"""Which code a study speaks for, and whether it still does."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "studies" / "results.json"
METERS = "src/ampere_energy/measure/meters"

FITTED = ("physics", "slow", "kernels", "observed", "rows", "posterior", "host", "nets", "learn")
ENGINE = tuple(f"src/ampere_energy/fit/{name}.py" for name in FITTED)
GUIDED = (
    *(
        f"src/ampere_energy/fit/{name}.py"
        for name in ("costs", "guide", "guided", "looks", "opening", "points", "rounds", "rules", "scope", "steps")
    ),
    "src/ampere_energy/measure/devices/simulated.py",
)
PARSING = ("blocks", "objective", "parse", "pieces", "program", "recipes", "record")
MODELS = tuple(sorted(f"studies/models/{path.name}" for path in (ROOT / "studies" / "models").glob("*.py")))
WHOLE = tuple(sorted(f"data/h200-whole/{path.name}" for path in (ROOT / "data" / "h200-whole").iterdir()))
RECORDED = [path for plan in ("h200", "cpu") for path in (ROOT / "data" / plan).rglob("*") if path.is_file()]
EXPERIMENTS = tuple(sorted(str(path.relative_to(ROOT)) for path in RECORDED))
CARDS = tuple(sorted(str(p.relative_to(ROOT)) for p in (ROOT / "data" / "h200-cards").rglob("*") if p.is_file()))
BATCHES = tuple(sorted(f"data/cpu-batches/{path.name}" for path in (ROOT / "data" / "cpu-batches").iterdir()))
PRUNED = tuple(sorted(str(p.relative_to(ROOT)) for p in (ROOT / "data" / "h200-pruned").rglob("*") if p.is_file()))
PACKED = (ROOT / "src/ampere_energy/bundled").rglob("*.json*")
BUNDLED = tuple(sorted(str(path.relative_to(ROOT)) for path in PACKED))
LAB = tuple(f"data/h200-lab/{name}.json" for name in ("aligned", "two", "g_big", "g_small"))

TESTED = {
    "additive": (
        "studies/additive.py",
        "src/ampere_energy/fit/gp.py",
        "src/ampere_energy/fit/acquire.py",
        "src/ampere_energy/fit/points.py",
        "src/ampere_energy/fit/paper.py",
        "src/ampere_energy/measure/devices/simulated.py",
        "src/ampere_energy/measure/measurement.py",
        "src/ampere_energy/model/variants.py",
        "src/ampere_energy/model/zoo/families.py",
    ),
    "lab": ("studies/lab.py", *ENGINE, "src/ampere_energy/fit/steps.py", "src/ampere_energy/fit/gp.py", *LAB),
    "candidates": ("studies/lab.py", *ENGINE, *LAB),
    "calibration": ("studies/calibration.py", *ENGINE, *GUIDED),
    "rules": ("studies/rules.py", *ENGINE, *GUIDED),
    "looks": ("studies/looks.py", *ENGINE, *GUIDED),
    "floor": (
        "studies/floor.py",
        "studies/rules.py",
        *GUIDED,
    ),
    "hostile": (
        "studies/hostile.py",
        "src/ampere_energy/plain.py",
        "src/ampere_energy/fit/file.py",
        "src/ampere_energy/fit/profile.py",
        *(f"src/ampere_energy/fit/{name}.py" for name in ("observed", "slow", "rows", "posterior", "host", "nets")),
        "src/ampere_energy/predict/estimate.py",
    ),
    "approximate": (
        "studies/approximate.py",
        *ENGINE,
        *(f"src/ampere_energy/fit/{name}.py" for name in ("references", "across")),
        "src/ampere_energy/predict/approximate.py",
        "src/ampere_energy/measure/devices/simulated.py",
        "data/cpu-blocks/timed.json",
        *LAB,
        *WHOLE,
    ),
    "batches": (
        "studies/batches.py",
        *ENGINE,
        *(f"src/ampere_energy/fit/{name}.py" for name in ("references", "across", "steps")),
        *(f"src/ampere_energy/predict/{name}.py" for name in ("batches", "estimate", "experiment", "recorded")),
        "src/ampere_energy/bundled/elsewhere.py",
        *BATCHES,
        *BUNDLED,
        *EXPERIMENTS,
    ),
    "zoo": (
        "studies/zoo.py",
        *MODELS,
        *(f"src/ampere_energy/model/{name}.py" for name in PARSING),
        *ENGINE,
        *GUIDED,
    ),
    "whole models": ("studies/whole_models.py", *ENGINE, "src/ampere_energy/fit/steps.py", *GUIDED, *WHOLE),
    "evaluation": (
        "studies/experiments.py",
        *ENGINE,
        *GUIDED,
        *(f"src/ampere_energy/fit/{name}.py" for name in ("gp", "paper", "steps")),
        *(
            f"src/ampere_energy/predict/{name}.py"
            for name in ("baselines", "estimate", "evaluate", "experiment", "recorded")
        ),
        *EXPERIMENTS,
    ),
    "cards": (
        "studies/cards.py",
        "src/ampere_energy/bundled/elsewhere.py",
        *ENGINE,
        *GUIDED,
        "src/ampere_energy/fit/steps.py",
        *(f"src/ampere_energy/predict/{name}.py" for name in ("estimate", "evaluate", "experiment", "recorded")),
        *BUNDLED,
        *CARDS,
        *(name for name in EXPERIMENTS if name.startswith("data/h200/")),
    ),
    "seconds": (
        "studies/seconds.py",
        *ENGINE,
        *GUIDED,
        "src/ampere_energy/fit/steps.py",
        *(f"src/ampere_energy/predict/{name}.py" for name in ("estimate", "evaluate", "experiment", "recorded")),
        *(name for name in EXPERIMENTS if name.startswith("data/h200/")),
    ),
    "search": (
        "studies/search.py",
        *(f"src/ampere_energy/decide/{name}.py" for name in ("descend", "front", "search", "space")),
        "src/ampere_energy/predict/many.py",
        *ENGINE,
        "src/ampere_energy/fit/steps.py",
        "src/ampere_energy/bundled/nvidia-h200/cnn5-128x3x64x64-graph.json.gz",
        "data/h200-cnn5/ampere/graph-campaign.jsonl.gz",
    ),
    "pruning": (
        "studies/pruning.py",
        *ENGINE,
        *GUIDED,
        *(f"src/ampere_energy/fit/{name}.py" for name in ("campaign", "steps")),
        "src/ampere_energy/predict/estimate.py",
        *PRUNED,
    ),
    "oracle": ("studies/oracle.py", "src/ampere_energy/fit/gp.py"),
    "counters": ("studies/counters.py", f"{METERS}/counters.py", f"{METERS}/rapl.py"),
    "phases": (
        "studies/phases.py",
        f"{METERS}/trace.py",
        f"{METERS}/recorder.py",
        "src/ampere_energy/measure/windows.py",
    ),
    "kills": (
        "studies/kills.py",
        "src/ampere_energy/fit/campaign.py",
        "src/ampere_energy/fit/paper.py",
        "src/ampere_energy/measure/store.py",
        "src/ampere_energy/plain.py",
    ),
}


def fingerprint(study: str) -> str:
    """A hash of the files a study tests."""
    total = hashlib.sha256()
    for name in TESTED[study]:
        total.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return total.hexdigest()[:16]
