"""How AMPERE stands: the recorded sets against what is asked of them, against other methods, and against the paper.

Tables of docs/evaluation.md and README.md. The paper tells its figures in its text and its table 1; its figures 8 to 10
are bars and curves without numbers.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Sets = dict[str, dict[str, Any]]
"""What the study `evaluation` found, by plan, set and mode."""

TOLD_APART, HARDLY_DIFFER = 0.9, 1.5
"""Where repeats rank members less alike, an estimate may be this many times their measurements' own error off."""
METHODS = ("ampere", "refined", "paper", "flops", "flops_affine", "flops_bytes", "neuralpower", "time_power", "run20")
PAPER_S = {
    "OPPO": {"lenet5": 694, "cnn5": 1688, "har": 2188, "lstm": 1615},
    "iPhone": {"lenet5": 1201, "cnn5": 1012, "har": 2446, "lstm": 1168},
    "Xavier": {"lenet5": 184, "cnn5": 421, "har": 740, "lstm": 1145},
    "TX2": {"lenet5": 285, "cnn5": 1211, "har": 4433, "lstm": 422},
    "server": {"lenet5": 235, "cnn5": 268, "har": 562, "lstm": 436},
}
"""The paper's table 1: seconds of profiling and fitting."""
PAPER_ERRORS = {"flops": "about 40 %", "paper": "about 10 %"}
_FAMILIES = {
    "lenet5": "LeNets", "cnn5": "`cnn5`", "har": "HAR networks", "lstm": "LSTMs", "transformer": "Transformers",
    "resnet": "ResNets",
}  # fmt: skip
_OURS = {"h200": "an H200", "cpu": "a CPU, modelled energy"}


def percent(value: float, digits: int = 1) -> str:
    """A share, for people."""
    return f"{100 * value:.{digits}f} %"


@dataclass(frozen=True)
class Bars:
    """What is asked of a set in a mode; a rank only where the members can be told apart."""

    error: float
    refined: float
    rank: float | None
    wall_s: float = 120.0


def bars(found: dict[str, Any]) -> Bars:
    """What is asked of a set."""
    if found["repeat_rank"] > TOLD_APART:
        return Bars(0.04 if found["widths"] == "aligned" else 0.05, 0.03, 0.98)
    least = HARDLY_DIFFER * found["floor"]
    return Bars(least, least, None)


def of_plan(plan: str, sets: Sets) -> Sets:
    """The sets of a plan, by their own names."""
    return {name.removeprefix(f"{plan}/"): found for name, found in sets.items() if name.startswith(f"{plan}/")}


def evaluation(sets: Sets) -> list[str]:
    """Every method's mean error in every recorded setting."""
    rows = [
        f"| device, set, mode | members | profiled | floor | rank of repeats | inside | rank | {' | '.join(METHODS)} |",
        f"|{'---|' * (7 + len(METHODS))}",
    ]
    for name, found in sets.items():
        scores = found["scores"]
        errors = [percent(scores[method]["mape"]) if method in scores else "–" for method in METHODS]
        own = scores["ampere"]
        about = (
            f"{found['models']} | {found['points']} in {found['profile_s']:.0f} s | {percent(found['floor'])} | "
            f"{_rank(found['repeat_rank'])} | {percent(own['coverage'], 0)} | {_rank(own['spearman'])}"
        )
        rows.append(f"| {name} | {about} | {' | '.join(errors)} |")
    return rows


def on_a_card(sets: Sets) -> list[str]:
    """The sets recorded on a card against what is asked of them; bold what misses, italic what is better than ours."""
    rows = [
        "| set, mode | AMPERE | asked | rank | asked | refined | asked | profile after | asked | next best of the "
        "profiled | FLOPs |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in of_plan("h200", sets).items():
        scores, asked = found["scores"], bars(found)
        own, wall_s = scores["ampere"], found["wall_s"]
        refined = scores.get("refined", {}).get("mape")
        others = _others(found)
        best = min(others, key=others.__getitem__)
        next_best = f"{percent(others[best])} ({best})"
        cells = [
            _met(percent(own["mape"]), own["mape"] <= asked.error),
            percent(asked.error, 0) if asked.rank else f"{percent(asked.error)} ({HARDLY_DIFFER} × floor)",
            _met(f"{own['spearman']:.3f}", asked.rank is None or own["spearman"] >= asked.rank),
            "–" if asked.rank is None else f"{asked.rank}",
            "–" if refined is None else _met(percent(refined), refined <= asked.refined),
            percent(asked.refined, 0 if asked.rank else 1),
            "–" if wall_s is None else _met(f"{wall_s:.0f} s", wall_s <= asked.wall_s),
            f"{asked.wall_s:.0f} s",
            f"*{next_best}*" if others[best] < own["mape"] else next_best,
            percent(scores["flops"]["mape"], 0),
        ]
        rows.append(f"| {name.replace(' ', ', ')} | {' | '.join(cells)} |")
    return rows


def families(sets: Sets) -> list[str]:
    """The same in short: a family's errors at aligned and at arbitrary widths, eager and captured."""
    found = of_plan("h200", sets)
    rows = [
        "| on an H200 | aligned widths, eager, captured | arbitrary widths | refined | FLOPs | best other | "
        "twenty steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for start in dict.fromkeys(name.partition("-")[0] for name in found):
        own = {name: one for name, one in found.items() if name.partition("-")[0] == start}
        batch = next(iter(own.values()))["batch"]
        cells = [_standings([one for one in own.values() if one["widths"] == w]) for w in ("aligned", "any")]
        refined, flops, run20 = (_range(_known(own.values(), method)) for method in ("refined", "flops", "run20"))
        more = [refined, flops, _range(min(_others(one).values()) for one in own.values()), run20]
        family, _, setting = start.partition("_")
        label = f"{_FAMILIES[family]}, batch {batch:,}{', bf16 with AdamW' if setting == 'bf16' else ''}"
        rows.append(f"| {label} | {' | '.join(cell or '–' for cell in cells)} | {' | '.join(more)} |")
    return rows


def _standings(sets: Sequence[dict[str, Any]]) -> str:
    """A set's modes, and those of a set of the same widths on another card."""
    pairs = [sets[start : start + 2] for start in range(0, len(sets), 2)]
    return "; again ".join(", ".join(_standing(found) for found in pair) for pair in pairs)


def _standing(found: dict[str, Any]) -> str:
    own, asked = found["scores"]["ampere"], bars(found)
    return _met(
        percent(own["mape"]), own["mape"] <= asked.error and (asked.rank is None or own["spearman"] >= asked.rank)
    )


def _known(sets: Iterable[dict[str, Any]], method: str) -> Iterator[float]:
    """A method's errors, where it was tried."""
    return (found["scores"][method]["mape"] for found in sets if method in found["scores"])


def _others(found: dict[str, Any]) -> dict[str, float]:
    """The errors of other methods that are fitted to what was profiled, but for FLOPs alone."""
    left_out = ("ampere", "refined", "run20", "flops")
    return {method: score["mape"] for method, score in found["scores"].items() if method not in left_out}


def _range(errors: Iterable[float]) -> str:
    """From the least to the largest."""
    known = sorted(errors)
    if not known:
        return "–"
    digits = 1 if known[-1] < 0.1 else 0
    low, high = (f"{100 * value:.{digits}f}" for value in (known[0], known[-1]))
    return f"{high} %" if low == high else f"{low} to {high} %"


def refining(sets: Sets) -> list[str]:
    """What was measured to refine five members of each set."""
    rows = ["| set | blocks timed | blocks metered | models metered |", "|---|---|---|---|"]
    for name, found in of_plan("h200", sets).items():
        if (spent := found["refining"]) is not None and name.endswith(" eager"):
            counts = (str(spent[what]) for what in ("blocks timed", "blocks metered", "models metered"))
            rows.append(f"| {name.removesuffix(' eager')} | {' | '.join(counts)} |")
    return rows


def elsewhere(sets: Sets) -> list[str]:
    """What was recorded on another card than its set's campaign, and what blocks metered on both say of the two."""
    rows = [
        "| set | recorded on another card | which | joules on the campaign's for one there, of three blocks | taken |",
        "|---|---|---|---|---|",
    ]
    for name, found in of_plan("h200", sets).items():
        for other in found["elsewhere"] if name.endswith(" eager") else ():
            ratios = ", ".join(f"{ratio:.3f}" for ratio in other["anchors"])
            taken = f"{statistics.median(other['anchors']):.3f}"
            rows.append(f"| {name.removesuffix(' eager')} | {other['part']} | {other['card']} | {ratios} | {taken} |")
    return rows


def costs(sets: Sets) -> list[str]:
    """Seconds of profiling a family: the paper's table 1, and ours from the start of the process to a saved profile."""
    rows = [f"| | {' | '.join(_FAMILIES.values())} |", f"|---|{'---|' * len(_FAMILIES)}"]
    for device, spent in PAPER_S.items():
        rows.append(_seconds(f"the paper, {device}", (spent.get(family) for family in _FAMILIES)))
    for plan, label in _OURS.items():
        for widths, called in (("aligned", "aligned"), ("any", "arbitrary")):
            found = (sets.get(f"{plan}/{family}-{widths} eager", {}).get("wall_s") for family in _FAMILIES)
            rows.append(_seconds(f"AMPERE, {label}, {called} widths", found))
    return rows


def errors(sets: Sets) -> list[str]:
    """Mean errors: the paper's over its devices, and of ours the median setting's, the least and the largest."""
    rows = [
        f"| mean error | the paper, five devices | {' | '.join(_OURS.values())} |",
        f"|---|---|{'---|' * len(_OURS)}",
    ]
    shown = {"flops": "in proportion to FLOPs", "paper": "the paper's method", "ampere": "AMPERE", "refined": "refined"}
    for method, label in shown.items():
        cells = [_middle(of_plan(plan, sets).values(), method) for plan in _OURS]
        rows.append(f"| {label} | {PAPER_ERRORS.get(method, '–')} | {' | '.join(cells)} |")
    return rows


MAKERS = {
    "on a card": on_a_card, "families": families, "refining": refining, "time costs": costs, "errors beside": errors,
    "elsewhere": elsewhere,
}  # fmt: skip


def _met(text: str, met: bool) -> str:
    return text if met else f"**{text}**"


def _rank(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _seconds(label: str, seconds: Iterable[float | None]) -> str:
    return f"| {label} | {' | '.join('–' if s is None else f'{s:.0f} s' for s in seconds)} |"


def _middle(sets: Iterable[dict[str, Any]], method: str) -> str:
    known = sorted(_known(sets, method))
    if not known:
        return "–"
    return f"{percent(statistics.median(known))} ({100 * known[0]:.1f} to {100 * known[-1]:.1f}, {len(known)} settings)"
