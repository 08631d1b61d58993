"""Tables of docs/results/fit.md: what the parts of the fit and of the campaign are worth."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.pages.text import listing, percent, signed, table
from benchmarks.results import result_of
from benchmarks.studies.acquisition_rules import CHANCE

BARS = {
    ("aligned", "graph"): 0.045,
    ("aligned", "graph, time given"): 0.03,
    ("aligned", "eager"): 0.055,
    ("two aligned", "graph"): 0.042,
    ("two any", "graph"): 0.047,
}
MEAN_BAR = 0.08
_ALONE = ("aligned", "two aligned", "two any")
"""The recorded sets of blocks alone."""


def marks() -> dict[str, str]:
    steps, tried, intervals = result_of("rules"), result_of("candidates"), result_of("calibration")
    return {
        "lab": lab(result_of("lab")),
        "candidates": candidates(tried),
        "calibration": calibration(intervals),
        "probabilities": probabilities(intervals),
        "rules": rules(steps),
        "random start": random_start(steps),
        "floor": floor(result_of("floor")),
        "slow regions": slow_regions(result_of("looks")),
        "unseen kinds": unseen_kinds(result_of("approximate")),
        "nearest profile": nearest_profile(result_of("nearest")),
        "additive": additive(result_of("additive")),
        "oracle": table(["what", "value"], listing(result_of("oracle"))),
        **{
            name: percent(statistics.fmean(tried[own][name]["test"] for own in _ALONE))
            for name in ("plain GP a kind", "shape and point only", "all components")
        },
        "coverage": percent(intervals["coverage"]),
        "worlds": str(intervals["worlds"]),
    }


def lab(result: dict[str, Any]) -> str:
    """The recorded networks: errors against what was asked for, references and floors."""
    rows = []
    sets = {name: entry for name, entry in result.items() if isinstance(entry, dict)}
    for name, entry in sets.items():
        for mode in ("graph", "eager", "graph, time given"):
            if mode not in entry:
                continue
            found, bar = entry[mode], BARS.get((name, mode))
            reference = next((f"{k} {percent(found[k])}" for k in ("paper", "plain GP sum") if k in found), "")
            limit, floor = (percent(value) if value else "" for value in (bar, found.get("floor")))
            inside = f"{percent(found['coverage'], 0)} of {found['models']}"
            rows.append([name, mode, percent(found["mape"], 2), limit, reference, floor, inside])
    mean = sum(sets[s][m]["mape"] for s in ("g_big", "g_small") for m in ("graph", "eager")) / 4
    rows.append(["g_big, g_small", "all four, mean", percent(mean, 2), percent(MEAN_BAR), "", "", ""])
    pooled = f"{percent(result['pooled coverage'])} of {result['pooled models']}"
    note = (
        f"Inside the 90 % interval, all sets as graph and eager pooled: {pooled}. Eager on `aligned` takes host time, "
        f"gap and idle power from the five test rows of widths {'; '.join(sets['aligned']['named rows'])} and is "
        "scored on the other 35."
    )
    return f"{table(['set', 'mode', 'error', 'bar', 'reference', 'floor', 'inside 90 %'], rows)}\n\n{note}"


def candidates(result: dict[str, Any]) -> str:
    """Candidates × sets: left-one-out error and surprise on what is fitted, and the error on the test rows."""
    rows = [
        [
            name,
            candidate,
            percent(found["left out"]) if "left out" in found else "",
            f"{found['surprise']:.3f}" if "surprise" in found else "",
            percent(found["test"], 2),
        ]
        for name, entries in result.items()
        for candidate, found in entries.items()
    ]
    return table(["set", "candidate", "left one out", "surprise (less is better)", "test rows"], rows)


def calibration(result: dict[str, Any]) -> str:
    """Coverage over simulated families."""
    groups = {"all": result}
    groups |= {f"noise {span}": found for span, found in result["by noise"].items()}
    groups |= {f"roughness {span}": found for span, found in result["by roughness"].items()}
    rows = [
        [f"{name} ({own['worlds']})", str(own["members"]), percent(own["coverage"]), percent(own["mean error"])]
        for name, own in groups.items()
    ]
    return table(["families", "networks", "inside 90 %", "mean error"], rows)


def probabilities(result: dict[str, Any]) -> str:
    """How reliable P(fits) is."""
    rows = [
        [percent(found["predicted"], 0), percent(found["observed"], 0), str(found["count"])]
        for found in result["P(fits)"]
    ]
    return table(["P(fits) stated", "observed", "networks"], rows)


def rules(result: dict[str, Any]) -> str:
    """Measurements each rule takes to an error, and the guided rule's share of the others'."""
    others = ("random", "variance", "members")
    rows = []
    for name, found in result.items():
        for entry in found["errors"]:
            took, shares, never = entry["took"], entry["guided / other"], entry["never"]
            counts = ["never" if rule in never else f"{took[rule]:.0f}" for rule in ("guided", *others)]
            rows.append([f"{name}, {percent(entry['error'], 2)}", *counts, _shares([shares[r] for r in others])])
        rows.append([f"{name}, mean", "", "", "", "", _shares([found["mean share"][r] for r in others])])
    heads = ["family, error", "guided", "random blocks", "largest variance", "random networks", "guided / each"]
    return table(heads, rows)


def _shares(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.2f}" for share in shares)


def random_start(result: dict[str, Any]) -> str:
    """Measurements the guided rule takes to an error, and blocks drawn at random from the first on."""
    rows = []
    for name, found in result.items():
        for entry in found[CHANCE]:
            took, share = entry["took"], entry["guided / other"][CHANCE]
            counts = [f"{took['guided']:.0f}", f"{took[CHANCE]:.0f}", f"{share:.2f}"]
            rows.append([f"{name}, {percent(entry['error'], 2)}", *counts])
        rows.append([f"{name}, mean", "", "", f"{found['mean share'][CHANCE]:.2f}"])
    return table(["family, error", "guided", "random from the first", "guided / random"], rows)


def floor(result: dict[str, Any]) -> str:
    """Errors to expect of an oracle under three designs, and the best design's share of chance's measurements."""
    rows = []
    for name, found in result.items():
        errors = found["expected error"]
        for count, share in zip(errors["random"], (None, *found["best / random"]), strict=True):
            expected = [percent(errors[design][count], 2) for design in ("best", "random", "members")]
            rows.append([f"{name}, {count}", *expected, "" if share is None else f"{share:.2f}"])
        rows.append([f"{name}, mean", "", "", "", f"{found['mean share']:.2f}"])
    return table(["family, measurements", "best", "random blocks", "random networks", "best / random blocks"], rows)


def slow_regions(result: dict[str, dict[str, float]]) -> str:
    """What searching for slow widths is worth."""
    rows = [
        [
            {"without": "without the search", "with looks": "with it"}[name],
            percent(found["mistaken"], 2),
            f"{found['small box known']} of {found['worlds']}",
            percent(found["error"]),
            percent(found["error of the others"]),
        ]
        for name, found in result.items()
    ]
    known = "worlds with more than half of the small region known"
    return table(["", "mistaken", known, "mean error", "of networks not mistaken"], rows)


def unseen_kinds(result: dict[str, Any]) -> str:
    """Approximated estimates: how far off, and how often inside their intervals."""
    simulated, recorded = result["simulated"], result["recorded"]
    groups = {
        "simulated: whole models from another's profile": simulated,
        **{f"… profiles of {label} kinds": found for label, found in simulated["by kinds"].items()},
        "simulated: families at widths up to twice those profiled": result["beyond"],
        "H200: blocks of a kind left out": recorded["blocks"],
        **{f"… `{kind}`": found["blocks"] for kind, found in recorded["by kind"].items()},
        "H200: whole models, a kind left out": recorded["models"],
        "H200: blocks at widths up to twice those profiled": recorded["beyond"]["blocks"],
        "H200: whole models with such blocks": recorded["beyond"]["models"],
        **{
            f"H200: whole models at full size from another's profile, {mode}": found
            for mode, found in result["whole"].items()
        },
        "CPU: time of whole models from another's blocks": result["timed"],
    }
    rows = [
        [
            label,
            str(found["trials"]),
            percent(found["median error"], 0),
            signed(found["bias"], 0),
            percent(found["coverage"], 0),
            f"{found['reach']:.1f}",
        ]
        for label, found in groups.items()
    ]
    return table(["what", "estimates", "median error", "bias", "inside 90 %", "interval ×÷"], rows)


def nearest_profile(result: dict[str, Any]) -> str:
    """The profile of a bundle that is least in doubt, beside the one that is usual."""
    rows = [
        [name, str(found["models"]), *(percent(found[which], 0) for which in ("nearest", "usual", "inside"))]
        for name, found in result.items()
    ]
    return table(["not covered", "models", "least in doubt", "usual profile", "inside 90 %"], rows)


def additive(result: dict[str, Any]) -> str:
    """How well the paper's method recovers a device that is exactly additive."""
    rows = [
        [case, size, *(percent(value, 2) for value in errors.values())]
        for case, sizes in result.items()
        for size, errors in sizes.items()
    ]
    return table(["family, noise, rules", "blocks", "mean error", "worst seed's mean", "worst network"], rows)
