"""Tables of docs/results/families.md: the recorded sets against other methods, the paper, and what was asked of them.

The paper gives its figures in its text and its table 1; its figures 8 to 10 are bars and curves without numbers.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.pages.text import percent, signed, span, table
from benchmarks.results import DATA, result_of

Sets = dict[str, dict[str, Any]]
"""What the study `evaluation` found, by plan, set and mode."""

RANKED_ALIKE, HARDLY_DIFFER = 0.9, 1.5
"""Where repeats rank networks less alike, an estimate may be this many times their measurements' own error off."""
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
_WIDTHS = {"aligned": "aligned", "any": "arbitrary"}


def marks() -> dict[str, str]:
    sets: Sets = result_of("evaluation")
    card, cpu = of_plan("h200", sets), of_plan("cpu", sets)
    return {
        "families": families(card),
        "errors beside": errors_beside(sets),
        "time costs": time_costs(sets),
        "on a card": on_a_card(card),
        "evaluation": evaluation(sets),
        "another card's parts": parts_of_another_card(card),
        "refining": refining(card),
        "seconds": seconds(result_of("seconds")),
        "one campaign": one_campaign(),
        "median on a card": percent(median(card, "ampere")),
        "span on a card": span(known(card.values(), "ampere")),
        "FLOPs on a card": percent(median(card, "flops")),
        "median on a CPU": percent(median(cpu, "ampere")),
        "floor on a CPU": span(found["floor"] for found in cpu.values()),
        "inside on a card": percent(inside(card)),
        "inside on a CPU": percent(inside(cpu), 0),
        "missed": "; ".join(f"{label(found)} ({percent(_error(found))})" for found in missed(card)),
        "better, CPU": f"{sum(_error(found, 'run20') < _error(found) for found in cpu.values())} of {len(cpu)}",
        "apart on a card": _seconds_apart(card),
        "apart on a CPU": _seconds_apart(cpu),
    }


@dataclass(frozen=True)
class Bars:
    """What is asked of a set in a mode; a rank only where the networks can be told apart."""

    error: float
    refined: float
    rank: float | None
    wall_s: float = 120.0


def bars(found: dict[str, Any]) -> Bars:
    """What is asked of a set."""
    if found["repeat_rank"] > RANKED_ALIKE:
        return Bars(0.04 if found["widths"] == "aligned" else 0.05, 0.03, 0.98)
    least = HARDLY_DIFFER * found["floor"]
    return Bars(least, least, None)


def meets(found: dict[str, Any]) -> bool:
    """Whether estimates of a set have the error and the rank that are asked."""
    own, bar = found["scores"]["ampere"], bars(found)
    return own["mape"] <= bar.error and (bar.rank is None or own["spearman"] >= bar.rank)


def missed(sets: Sets) -> list[dict[str, Any]]:
    """The settings that do not, the largest error first."""
    return sorted((found for found in sets.values() if not meets(found)), key=_error, reverse=True)


def of_plan(plan: str, sets: Sets) -> Sets:
    """The sets of a plan, by their own names."""
    return {name.removeprefix(f"{plan}/"): found for name, found in sets.items() if name.startswith(f"{plan}/")}


def median(sets: Sets, method: str) -> float:
    """A method's mean error in the median setting."""
    return statistics.median(known(sets.values(), method))


def inside(sets: Sets) -> float:
    """The share of networks inside their 90 % intervals."""
    return statistics.fmean(found["scores"]["ampere"]["coverage"] for found in sets.values())


def known(sets: Iterable[dict[str, Any]], method: str) -> Iterator[float]:
    """A method's errors, where it was tried."""
    return (_error(found, method) for found in sets if method in found["scores"])


def label(found: dict[str, Any]) -> str:
    """A setting in words: `ResNets, batch 512, aligned widths, eager`."""
    return f"{_family(found)}, {_WIDTHS[found['widths']]} widths, {found['mode']}"


def _family(found: dict[str, Any]) -> str:
    family, _, setting = found["recorded"].partition("-")[0].partition("_")
    return f"{_FAMILIES[family]}, batch {found['batch']:,}{', bf16 with AdamW' if setting == 'bf16' else ''}"


def families(found: Sets) -> str:
    """A family's errors at aligned and at arbitrary widths, eager and as CUDA graphs, beside other methods."""
    heads = ["on an H200", "aligned widths: eager, graph", "arbitrary widths", "refined", "FLOPs", "best other"]
    rows = []
    for start in dict.fromkeys(name.partition("-")[0] for name in found):
        own = {name: one for name, one in found.items() if name.partition("-")[0] == start}
        cells = [_standings([one for one in own.values() if one["widths"] == w]) for w in _WIDTHS]
        refined, flops, run20 = (_range(known(own.values(), method)) for method in ("refined", "flops", "run20"))
        more = [refined, flops, _range(min(_others(one).values()) for one in own.values()), run20]
        rows.append([_family(next(iter(own.values()))), *(cell or "–" for cell in cells), *more])
    return table([*heads, "twenty steps"], rows)


def _standings(sets: Sequence[dict[str, Any]]) -> str:
    """A set's modes, and those of a set of the same widths on another card."""
    pairs = [sets[start : start + 2] for start in range(0, len(sets), 2)]
    return "; again ".join(", ".join(_met(percent(_error(found)), meets(found)) for found in pair) for pair in pairs)


def errors_beside(sets: Sets) -> str:
    """Mean errors: the paper's over its devices, and of ours the median setting's, the least and the largest."""
    shown = {"flops": "in proportion to FLOPs", "paper": "the paper's method", "ampere": "AMPERE", "refined": "refined"}
    rows = []
    for method, name in shown.items():
        cells = [_middle(of_plan(plan, sets).values(), method) for plan in _OURS]
        rows.append([name, PAPER_ERRORS.get(method, "–"), *cells])
    return table(["mean error", "the paper, five devices", *_OURS.values()], rows)


def time_costs(sets: Sets) -> str:
    """Seconds of profiling a family: the paper's table 1, and ours from the start of the process to a saved profile."""
    rows = [
        [f"the paper, {device}", *(_seconds(spent.get(family)) for family in _FAMILIES)]
        for device, spent in PAPER_S.items()
    ]
    for plan, device in _OURS.items():
        for widths, called in _WIDTHS.items():
            found = (sets.get(f"{plan}/{family}-{widths} eager", {}).get("wall_s") for family in _FAMILIES)
            rows.append([f"AMPERE, {device}, {called} widths", *map(_seconds, found)])
    return table(["", *_FAMILIES.values()], rows)


def on_a_card(sets: Sets) -> str:
    """Each set against what is asked of it; bold what misses, italic what is better than ours."""
    heads = ["set, mode", "AMPERE", "bar", "rank", "bar", "refined", "bar", "profile after", "bar"]
    rows = []
    for name, found in sets.items():
        bar, own, wall_s = bars(found), found["scores"]["ampere"], found["wall_s"]
        refined = found["scores"].get("refined", {}).get("mape")
        others = _others(found)
        best = min(others, key=others.__getitem__)
        next_best = f"{percent(others[best])} ({best})"
        rows.append(
            [
                name.replace(" ", ", "),
                _met(percent(own["mape"]), own["mape"] <= bar.error),
                percent(bar.error, 0) if bar.rank else f"{percent(bar.error)} ({HARDLY_DIFFER} × floor)",
                _met(f"{own['spearman']:.3f}", bar.rank is None or own["spearman"] >= bar.rank),
                "–" if bar.rank is None else f"{bar.rank}",
                "–" if refined is None else _met(percent(refined), refined <= bar.refined),
                percent(bar.refined, 0 if bar.rank else 1),
                "–" if wall_s is None else _met(_seconds(wall_s), wall_s <= bar.wall_s),
                _seconds(bar.wall_s),
                f"*{next_best}*" if others[best] < own["mape"] else next_best,
                percent(found["scores"]["flops"]["mape"], 0),
            ]
        )
    return table([*heads, "next best method", "FLOPs"], rows)


def evaluation(sets: Sets) -> str:
    """Every method's mean error in every recorded setting."""
    heads = ["device, set, mode", "networks", "profiled", "floor", "rank of repeats", "inside", "rank", *METHODS]
    rows = []
    for name, found in sets.items():
        own = found["scores"]["ampere"]
        first = [str(found["models"]), f"{found['points']} in {found['profile_s']:.0f} s", percent(found["floor"])]
        first += [_rank(found["repeat_rank"]), percent(own["coverage"], 0), _rank(own["spearman"])]
        errors = [percent(_error(found, method)) if method in found["scores"] else "–" for method in METHODS]
        rows.append([name, *first, *errors])
    return table(heads, rows)


def parts_of_another_card(sets: Sets) -> str:
    """What was recorded on another card than its set's campaign, and what blocks metered on both say of the two."""
    rows = [
        [
            name.removesuffix(" eager"),
            other["part"],
            other["card"],
            ", ".join(f"{ratio:.3f}" for ratio in other["anchors"]),
            f"{statistics.median(other['anchors']):.3f}",
        ]
        for name, found in sets.items()
        if name.endswith(" eager")
        for other in found["elsewhere"]
    ]
    ratios = "joules on the campaign's card for one there, of three blocks"
    return table(["set", "recorded on another card", "which", ratios, "taken"], rows)


def refining(sets: Sets) -> str:
    """What was measured to refine five networks of each set."""
    counts = ("blocks timed", "blocks metered", "models metered")
    rows = [
        [name.removesuffix(" eager"), *(str(found["refining"][what]) for what in counts)]
        for name, found in sets.items()
        if name.endswith(" eager") and found["refining"] is not None
    ]
    return table(["set", *counts], rows)


def seconds(result: list[dict[str, Any]]) -> str:
    """Errors of recorded campaigns, had they ended earlier."""
    rows = []
    for row in result:
        errors = ", ".join(f"{percent(value)} {mode}" for mode, value in row["errors"].items())
        held = ", ".join(percent(value, 0) for value in row["inside"].values())
        rows.append([row["set"], f"{row['seconds']:.0f}", f"{row['timed']}, {row['metered']}", errors, held])
    return table(["set", "seconds of measuring", "timed, metered", "error", "inside"], rows)


def one_campaign() -> str:
    """Networks of one family, each estimated by the default method and measured."""
    rows, sums = [], []
    for mode in ("graph", "eager"):
        (record,) = _first(f"{mode}-evaluation")
        rows += [[mode, *trial(one)] for one in record["trials"]]
        own = record["scores"]["ampere"]
        sums.append(
            f"{mode}: {record['points']} networks in {record['profile_s']:.0f} s of measuring, mean absolute error "
            f"{percent(own['mape'])}, rank correlation {own['spearman']:.2f}, {percent(own['coverage'], 0)} inside the "
            f"interval, repeats agree to {percent(record['floor'])}."
        )
    measured = {tuple(one["widths"]): one for one in _first("graph-evaluation")[0]["trials"]}
    refined = [
        f"{', '.join(map(str, row['widths']))}: {signed(before['error'])} → "
        f"{signed(row['predicted_j'] / before['measured_j'] - 1)}"
        for row in _first("graph-refined")["rows"]
        for before in [measured[tuple(row["widths"])]]
    ]
    heads = ["mode", "widths", "estimate", "90 % interval", "measured", "error"]
    note = f"The three worst after `--refine 3%` (5 measurements each): {'; '.join(refined)}."
    return "\n".join([table(heads, rows), "", *sums, "", note])


def trial(found: dict[str, Any]) -> list[str]:
    """The cells of one network: widths, estimate, interval, measured, error."""
    low, high = found["interval_j"]
    energies = [f"{found['predicted_j']:.3f} J", f"{low:.3f} – {high:.3f} J", f"{found['measured_j']:.3f} J"]
    return [", ".join(map(str, found["widths"])), *energies, signed(found["error"])]


def _first(name: str) -> Any:
    return json.loads((DATA / "h200-cnn5" / "ampere" / f"{name}.json").read_text())


def _error(found: dict[str, Any], method: str = "ampere") -> float:
    return float(found["scores"][method]["mape"])


def _others(found: dict[str, Any]) -> dict[str, float]:
    """The errors of other methods that are fitted to what was profiled, but for FLOPs alone."""
    left_out = ("ampere", "refined", "run20", "flops")
    return {method: score["mape"] for method, score in found["scores"].items() if method not in left_out}


def _range(errors: Iterable[float]) -> str:
    """From the least to the largest, to a tenth of a percent where all are small."""
    found = list(errors)
    return span(found, 1 if max(found) < 0.1 else 0) if found else "–"


def _middle(sets: Iterable[dict[str, Any]], method: str) -> str:
    found = sorted(known(sets, method))
    if not found:
        return "–"
    return f"{percent(statistics.median(found))} ({span(found).removesuffix(' %')}, {len(found)} settings)"


def _met(text: str, met: bool) -> str:
    return text if met else f"**{text}**"


def _rank(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} s"


def _seconds_apart(sets: Sets) -> str:
    """How long after one another the networks of a set were measured."""
    found = sorted(each["apart_s"] for each in sets.values())
    return f"{found[0]:.0f} to {found[-1]:.0f} s"
