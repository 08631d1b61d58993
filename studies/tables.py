"""`make tables`: results of studies and of recorded hardware as tables in the docs, between their markers."""

from __future__ import annotations

import json
import math
import re
import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

from studies import case as case_study
from studies import standings
from studies.results import RESULTS, ROOT
from studies.rules import CHANCE
from studies.standings import percent

PAGES = (
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("method", "measurement", "models", "evaluation", "search", "pruning")),
)


def additive(result: dict[str, Any]) -> list[str]:
    rows = [
        "| family, noise, rules | blocks | mean error | worst seed's mean | worst network |",
        "|---|---|---|---|---|",
    ]
    for case, sizes in result.items():
        for size, errors in sizes.items():
            shown = " | ".join(f"{100 * value:.2f} %" for value in errors.values())
            rows.append(f"| {case} | {size} | {shown} |")
    return rows


def listing(result: dict[str, Any], prefix: str = "") -> list[str]:
    rows = [] if prefix else ["| what | value |", "|---|---|"]
    for name, value in result.items():
        if isinstance(value, dict):
            rows += listing(value, f"{prefix}{name}: ")
        elif isinstance(value, list):
            rows.append(f"| {prefix}{name} | {', '.join(map(str, value)) or 'none'} |")
        else:
            rows.append(f"| {prefix}{name} | {value if isinstance(value, int) else format(value, '.3g')} |")
    return rows


def meter(record: dict[str, Any]) -> list[str]:
    """What the meter is worth on the recorded card."""
    about = dict(record["device"]["details"])
    graph, eager = record["repeats graph"], record["repeats eager"]
    agreement, counter = record["agreement"], record["counter"]
    timed = record["timings"]["rows"]

    def repeats(result: dict[str, Any]) -> str:
        energy = result["energy_j"]
        spread = (
            f"{percent(energy['relative std'], 2)} standard deviation, {percent(energy['relative range'], 2)} range"
        )
        return f"{spread} ({energy['median']:.3f} J a step, {result['seconds each']:.1f} s each)"

    rows = [
        ("card, driver, torch", f"{about['gpu']}, {about['driver']}, {about['torch']}; {record['recorded_at'][:10]}"),
        ("network", record["net"]),
        ("idle power, context open", f"{record['idle_w']:.0f} W"),
        ("the counter ticks every", f"{1e3 * counter['tick_s']:.0f} ms"),
        ("a reading takes", f"{1e3 * counter['reading_s']:.1f} ms"),
        ("captured graph, 10 repeats", repeats(graph)),
        ("eager, 10 repeats", repeats(eager)),
        ("slowdown of the step by the sampler", f"eager {percent(record['slowdown eager']['median slowdown'], 3)}, "
         f"graph {percent(record['slowdown graph']['median slowdown'], 3)}, medians of 12 turns"),
        ("integrated power against the counter",
         f"{percent(agreement['difference'], 2)} in {agreement['seconds']:.0f} s"),
        ("weights after 200 steps with and without the meter", "identical, bit for bit"
         if record["identical"]["with meter equals without"] else "different"),
        ("a timing-only measurement", f"{1e3 * min(r['timing cost_s'] for r in timed):.0f} to "
         f"{1e3 * max(r['timing cost_s'] for r in timed):.0f} ms, against "
         f"{min(r['metering cost_s'] for r in timed):.1f} s metered eager and captured; device times differ by at most "
         f"{percent(max(abs(r['timed device_s']['median'] / r['metered device_s'] - 1) for r in timed), 2)}"),
    ]  # fmt: skip
    return ["| what | found |", "|---|---|", *(f"| {name} | {found} |" for name, found in rows)]


def settling(runs: dict[str, Any], meterings: dict[str, Any], warming: dict[str, Any]) -> list[str]:
    """What a card's power does after a step begins, and what meterings make of it."""

    def share(values: list[float]) -> str:
        mean, spread = statistics.fmean(values), statistics.stdev(values)
        return f"{100 * mean:+.1f} % on average, standard deviation {100 * spread:.1f}"

    first: dict[int, list[float]] = {1: [], 2: [], 3: []}
    seen, regular, ended, tick_s = [], [], [], runs["meter"]["tick_s"]
    for run in runs["rows"]:
        ticks, end_s = run["ticks"], run["steps"][-1][0]
        begun = [t for t in ticks if _SHOWN_LATE_S < t[0] < end_s]
        settled_w = _regular_w([t for t in begun if t[0] > _SETTLED_S], tick_s)
        for number, found in first.items():
            found.append(_regular_w(begun[number - 1 : number + 1], tick_s) / settled_w - 1)
        regular.append(_regular_w(begun[1:5], tick_s) / settled_w - 1)
        seen.append((begun[4][1] - begun[1][1]) / (begun[4][0] - begun[1][0]) / settled_w - 1)
        ended.append((_energy_at(ticks, end_s) - _energy_at(ticks, end_s - 0.5)) / 0.5 / settled_w - 1)
    short = [
        row[turn]["step_j"] / row["long"]["step_j"] - 1 for row in meterings["rows"] for turn in ("first", "second")
    ]
    before, long, after = ([look["step_j"] for look in row["looks"]] for row in warming["rows"])
    warm = [look["temperature C"] for look in warming["rows"][1]["looks"]]
    watts = statistics.fmean(look["step_j"] / look["step_s"] for look in warming["rows"][1]["looks"])
    rows = [
        (f"cards, {len(runs['rows'])} workloads", "; ".join(sorted({_card(r) for r in (runs, meterings, warming)}))),
        *((f"power in whole tick {n} after a step begins", share(found)) for n, found in first.items()),
        ("ticks 2 to 4 together, as they were seen", share(seen)),
        ("the same, taken as regular", share(regular)),
        ("a window of 0.5 s whose last tick is half idle", share(ended)),
        (f"a campaign's metering against two seconds, {len(short)} of them", share(short)),
        (f"two minutes at {watts:.0f} W, the last 20 s against the first 20", _change(long[:20], long[-20:])),
        ("temperature then", f"{warm[0]:.0f} °C at first, {warm[3]:.0f} after 3 s, {max(warm):.0f} at most"),
        ("another model after the two minutes against before", _change(before, after)),
    ]
    return ["| what | found |", "|---|---|", *(f"| {name} | {found} |" for name, found in rows)]


_SHOWN_LATE_S = 0.03
_SETTLED_S = 0.7


def _card(record: dict[str, Any]) -> str:
    about = dict(record["device"]["details"])
    return f"{about['gpu']} {about['uuid'][:8]}, {record['recorded_at'][:10]}"


def _regular_w(ticks: list[list[float]], tick_s: float) -> float:
    """Mean power from the first to the last of some ticks, if they are regular."""
    return (ticks[-1][1] - ticks[0][1]) / ((len(ticks) - 1) * tick_s)


def _energy_at(ticks: list[list[float]], moment_s: float) -> float:
    before, after = next((a, b) for a, b in pairwise(ticks) if a[0] <= moment_s <= b[0])
    return before[1] + (after[1] - before[1]) * (moment_s - before[0]) / (after[0] - before[0])


def _change(before: list[float], after: list[float]) -> str:
    spread = math.sqrt(sum(statistics.variance(v) / len(v) for v in (before, after))) / statistics.fmean(before)
    change = statistics.fmean(after) / statistics.fmean(before) - 1
    return f"{100 * change:+.2f} % of a step's energy, standard error {100 * spread:.2f}"


def _trial(trial: dict[str, Any]) -> str:
    """The cells of one member: widths, predicted, interval, measured, error."""
    low, high = trial["interval_j"]
    return (
        f"{', '.join(map(str, trial['widths']))} | {trial['predicted_j']:.3f} J | {low:.3f} – {high:.3f} J | "
        f"{trial['measured_j']:.3f} J | {100 * trial['error']:+.1f} %"
    )


def first_run(record: list[dict[str, Any]]) -> list[str]:
    """Unseen members on the recorded card, predicted by the paper's method."""
    (result,) = record
    score = result["scores"]["paper"]
    rows = ["| widths | predicted | 90 % interval | measured | error |", "|---|---|---|---|---|"]
    rows += [f"| {_trial(trial)} |" for trial in result["trials"]]
    summary = (
        f"{result['points']} networks trained in {result['profile_s']:.0f} s; mean absolute error "
        f"{100 * score['mape']:.1f} %, {100 * score['coverage']:.0f} % inside the interval; repeated measurements of "
        f"the members themselves agree to {100 * result['floor']:.1f} %."
    )
    return [*rows, "", summary]


BARS = {
    ("aligned", "graph"): 0.045,
    ("aligned", "graph, time given"): 0.03,
    ("aligned", "eager"): 0.055,
    ("two aligned", "graph"): 0.042,
    ("two any", "graph"): 0.047,
}
MEAN_BAR = 0.08


def lab(result: dict[str, Any]) -> list[str]:
    """The recorded networks: errors against what was asked for, references and floors."""
    rows = ["| set | mode | error | asked | reference | floor | inside 90 % |", "|---|---|---|---|---|---|---|"]
    sets = {name: entry for name, entry in result.items() if isinstance(entry, dict)}
    for name, entry in sets.items():
        for mode in ("graph", "eager", "graph, time given"):
            if mode not in entry:
                continue
            found = entry[mode]
            bar = BARS.get((name, mode))
            reference = next((f"{k} {percent(found[k])}" for k in ("paper", "plain GP sum") if k in found), "")
            floor = percent(found["floor"]) if "floor" in found else ""
            asked = percent(bar) if bar else ""
            rows.append(
                f"| {name} | {mode} | {percent(found['mape'], 2)} | {asked} | {reference} | {floor} | "
                f"{percent(found['coverage'], 0)} of {found['models']} |"
            )
    mean = sum(sets[s][m]["mape"] for s in ("g_big", "g_small") for m in ("graph", "eager")) / 4
    rows += [
        f"| g_big, g_small | all four, mean | {percent(mean, 2)} | {percent(MEAN_BAR)} | | | |",
        "",
        f"Inside the 90 % interval, all sets as graph and eager pooled: {percent(result['pooled coverage'])} of "
        f"{result['pooled models']}. Eager on `aligned` takes host time, gap and idle power from the five test rows of "
        f"widths {'; '.join(sets['aligned']['named rows'])} and is scored on the other 35.",
    ]
    return rows


def candidates(result: dict[str, Any]) -> list[str]:
    """Candidates × sets: left-one-out error and surprise on what is fitted, and the error on the test rows."""
    rows = [
        "| set | candidate | left one out | surprise (less is better) | test rows |",
        "|---|---|---|---|---|",
    ]
    for name, entries in result.items():
        for candidate, found in entries.items():
            left = percent(found["left out"]) if "left out" in found else ""
            surprise = f"{found['surprise']:.3f}" if "surprise" in found else ""
            rows.append(f"| {name} | {candidate} | {left} | {surprise} | {percent(found['test'], 2)} |")
    return rows


def calibration(result: dict[str, Any]) -> list[str]:
    """Coverage over simulated families, and how reliable P(fits) is."""
    groups = {"all": result, **result["by noise"], **result["by roughness"]}
    labels = ["all", *(f"noise {k}" for k in result["by noise"]), *(f"roughness {k}" for k in result["by roughness"])]
    rows = ["| families | members | inside 90 % | mean error |", "|---|---|---|---|"]
    for label, found in zip(labels, groups.values(), strict=True):
        rows.append(
            f"| {label} ({found['worlds']}) | {found['members']} | {percent(found['coverage'])} | "
            f"{percent(found['mean error'])} |"
        )
    rows += ["", "| P(fits) stated | observed | members |", "|---|---|---|"]
    for entry in result["P(fits)"]:
        rows.append(f"| {percent(entry['predicted'], 0)} | {percent(entry['observed'], 0)} | {entry['count']} |")
    return rows


def rules(result: dict[str, Any]) -> list[str]:
    """Measurements each rule takes to an error, and the guided rule's share of the others'."""
    others = ("random", "variance", "members")
    rows = [
        "| family, error | guided | random blocks | largest variance | random members | guided / each |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in result.items():
        for entry in found["errors"]:
            took, shares = entry["took"], entry["guided / other"]
            counts = [f"{'never' if r in entry['never'] else format(took[r], '.0f')}" for r in ("guided", *others)]
            rows.append(
                f"| {name}, {percent(entry['error'], 2)} | {' | '.join(counts)} "
                f"| {', '.join(format(shares[r], '.2f') for r in others)} |"
            )
        mean = ", ".join(f"{found['mean share'][r]:.2f}" for r in others)
        rows.append(f"| {name}, mean | | | | | {mean} |")
    return rows


def by_chance(result: dict[str, Any]) -> list[str]:
    """Measurements the guided rule takes to an error, and blocks drawn at random from the first on."""
    rows = ["| family, error | guided | random from the first | guided / random |", "|---|---|---|---|"]
    for name, found in result.items():
        for entry in found[CHANCE]:
            took, share = entry["took"], entry["guided / other"][CHANCE]
            rows.append(
                f"| {name}, {percent(entry['error'], 2)} | {took['guided']:.0f} | {took[CHANCE]:.0f} | {share:.2f} |"
            )
        rows.append(f"| {name}, mean | | | {found['mean share'][CHANCE]:.2f} |")
    return rows


def approximate(result: dict[str, Any]) -> list[str]:
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
    rows = ["| what | estimates | median error | bias | inside 90 % | interval ×÷ |", "|---|---|---|---|---|---|"]
    for label, found in groups.items():
        rows.append(
            f"| {label} | {found['trials']} | {percent(found['median error'], 0)} | {100 * found['bias']:+.0f} % | "
            f"{percent(found['coverage'], 0)} | {found['reach']:.1f} |"
        )
    return rows


def batches(result: list[dict[str, Any]]) -> list[str]:
    """Estimates at other batches than the profile's, the sets and modes of a family together."""
    rows = [
        "| family | from batch, to batch | members | mean error | bias | inside 90 % | interval ×÷ |",
        "|---|---|---|---|---|---|---|",
    ]
    found: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for row in sorted(result, key=lambda row: (row["set"].partition("/")[0] != "h200", row["from"] < row["to"])):
        family = row["set"].partition("-")[0].partition("_")[0]
        found.setdefault((family, row["from"], row["to"]), []).append(row)
    for (family, start, end), own in found.items():
        members = sum(row["members"] for row in own)
        error, bias, inside, reach = (pooled(own, share) for share in ("error", "bias", "inside", "reach"))
        batch = f"{start}, {end}" if start != end else f"{start}, the same"
        rows.append(
            f"| {family} | {batch} | {members} | {percent(error)} | {100 * bias:+.1f} % | {percent(inside, 0)} | "
            f"{reach:.2f} |"
        )
    return rows


def looks(result: dict[str, dict[str, float]]) -> list[str]:
    """What looking for slow widths is worth."""
    rows = [
        "| | mistaken | worlds with more than half of the small box known | mean error | of members not mistaken |",
        "|---|---|---|---|---|",
    ]
    for name, found in result.items():
        known = f"{found['small box known']} of {found['worlds']}"
        errors = [percent(found[which]) for which in ("error", "error of the others")]
        rows.append(f"| {name} | {percent(found['mistaken'], 2)} | {known} | {' | '.join(errors)} |")
    return rows


def floor(result: dict[str, Any]) -> list[str]:
    """Errors to expect of an oracle under three designs, and the best design's share of chance's measurements."""
    rows = [
        "| family, measurements | best | random blocks | random members | best / random blocks |",
        "|---|---|---|---|---|",
    ]
    for name, found in result.items():
        errors = found["expected error"]
        opening, *later = errors["random"]
        for count, share in zip((opening, *later), (None, *found["best / random"]), strict=True):
            shown = " | ".join(percent(errors[design][count], 2) for design in ("best", "random", "members"))
            rows.append(f"| {name}, {count} | {shown} | {'' if share is None else format(share, '.2f')} |")
        rows.append(f"| {name}, mean | | | | {found['mean share']:.2f} |")
    return rows


def joint_run() -> list[str]:
    """Unseen members on recorded cards, predicted by the joint method."""
    rows = ["| mode | widths | predicted | 90 % interval | measured | error |", "|---|---|---|---|---|---|"]
    sums = []
    for mode in ("graph", "eager"):
        (record,) = _data(f"h200-cnn5/ampere/{mode}-evaluation.json")
        rows += [f"| {mode} | {_trial(trial)} |" for trial in record["trials"]]
        score = record["scores"]["ampere"]
        sums.append(
            f"{mode}: {record['points']} networks in {record['profile_s']:.0f} s of measuring, mean absolute error "
            f"{percent(score['mape'])}, rank correlation {score['spearman']:.2f}, {percent(score['coverage'], 0)} "
            f"inside the interval, repeats of the members agree to {percent(record['floor'])}."
        )
    measured = {tuple(t["widths"]): t for t in _data("h200-cnn5/ampere/graph-evaluation.json")[0]["trials"]}
    refined = [
        f"{', '.join(map(str, row['widths']))}: {100 * measured[tuple(row['widths'])]['error']:+.1f} % → "
        f"{100 * (row['predicted_j'] / measured[tuple(row['widths'])]['measured_j'] - 1):+.1f} %"
        for row in _data("h200-cnn5/ampere/graph-refined.json")["rows"]
    ]
    return [*rows, "", *sums, "", f"The three worst after `--refine 3%` (5 measurements each): {'; '.join(refined)}."]


def whole_models(result: dict[str, Any]) -> list[str]:
    """Whole models on a recorded card, predicted from their blocks."""
    rows = [
        "| model | precision, mode | blocks (kinds) | profiled in | predicted | measured | error | time |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for t in sorted(result["trials"], key=lambda t: (t["precision"], t["mode"], t["model"])):
        rows.append(
            f"| {t['model']} | {t['precision']}, {t['mode']} | {t['blocks']} ({t['kinds']}) | {t['profile_s']:.0f} s | "
            f"{t['predicted_j']:.2f} J ± {percent(t['reach'])} | {t['measured_j']:.2f} J | "
            f"{100 * t['error']:+.1f} % | {100 * t['time error']:+.1f} % |"
        )
    inside = sum(t["inside"] for t in result["trials"])
    sums = "; ".join(
        f"{mode}: median error {percent(found['median error'])}, worst {percent(found['worst'])}"
        for mode, found in result["by mode"].items()
    )
    return [*rows, "", f"{sums}; {inside} of {len(result['trials'])} inside their 90 % intervals."]


def on_other_cards(result: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of profiles on members of their own widths, measured on another card."""
    return [row for row in result if row["inside elsewhere"] is not None and f"-{_widths(row)}" in row["set"]]


def pooled(rows: list[dict[str, Any]], share: str) -> float:
    """A share of members, over the members of all rows."""
    return sum(row["members"] * row[share] for row in rows) / sum(row["members"] for row in rows)


def _widths(row: dict[str, Any]) -> str:
    """The widths of a row's profile."""
    return "aligned" if row["profile"].endswith("aligned") else "any"


def cards(result: list[dict[str, Any]]) -> list[str]:
    """Profiles of one card on members measured on another."""
    rows = [
        "| set, mode | profile's widths | profile's card, members' card | members | own profile | this one | "
        "its bias | inside | inside, elsewhere | without the bias |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result:
        beyond = row["inside elsewhere"]
        rows.append(
            f"| {row['set']}, {row['mode']} | {_widths(row)} | {', '.join(row['cards'])} | {row['members']} | "
            f"{percent(row['own'])} | "
            f"{percent(row['other'])} | {100 * row['bias']:+.1f} % | {percent(row['inside'], 0)} | "
            f"{'–' if beyond is None else percent(beyond, 0)} | {percent(row['without bias'])} |"
        )
    alike = on_other_cards(result)
    members = sum(row["members"] for row in alike)
    narrow, wide = (percent(pooled(alike, share)) for share in ("inside", "inside elsewhere"))
    told = f"Of the {members} members of a profile's widths on other cards, {narrow} are inside their 90 % intervals"
    return [*rows, "", f"{told}, {wide} inside those for elsewhere."]


def seconds(result: list[dict[str, Any]]) -> list[str]:
    """Errors of recorded campaigns, had they ended earlier."""
    rows = ["| set | seconds of measuring | timed, metered | error | inside |", "|---|---|---|---|---|"]
    for row in result:
        errors = ", ".join(f"{percent(value)} {mode}" for mode, value in row["errors"].items())
        inside = ", ".join(percent(value, 0) for value in row["inside"].values())
        rows.append(f"| {row['set']} | {row['seconds']:.0f} | {row['timed']}, {row['metered']} | {errors} | {inside} |")
    return rows


def search(result: dict[str, Any]) -> list[str]:
    """A search against measuring its candidates, and against all members."""

    def spread(values: list[float]) -> str:
        return f"{percent(min(values))} to {percent(max(values))} (median {percent(statistics.median(values))})"

    seconds, trials = result["search_s"], result["trials"]
    parts = ", ".join(f"{name} {value:.1f} s" for name, value in result["spent_s"].items() if value)
    rows = [
        ("members of the space", f"{result['members']:,}; {result['whole front']} on its front"),
        (f"a search of {trials:,} candidates", f"{min(seconds):.1f} to {max(seconds):.1f} s on one core, loading and "
         f"reading the model included; in the median {parts}"),
        (f"measuring {trials:,} such members",
         f"{result['measuring all_s']:,.0f} s at {result['measuring one_s']:.2f} s each"),
        ("the search is cheaper", f"{result['times cheaper']:,.0f} times"),
        ("the profile, which serves every later search", f"{result['profile_s']:.0f} s of measuring, not counted"),
        ("of the whole front's hypervolume", spread(result["hypervolume"])),
        ("the same of logarithms", spread(result["hypervolume, logarithms"])),
        ("as many candidates at random", spread(result["hypervolume at random"])),
        ("the same of logarithms", spread(result["hypervolume at random, logarithms"])),
        ("estimating all members instead", f"{result['whole_s']:.0f} s"),
    ]  # fmt: skip
    rows += [
        (f"along gradients, {percent(g['budget'], 0)} of the largest's joules",
         f"{', '.join(map(str, g['widths']))}: {percent(g['energy'])} of its joules, {percent(g['score / best'])} of "
         f"the best score within; {g['seconds']:.1f} s")
        for g in result["gradients"]
    ]  # fmt: skip
    return ["| what | found |", "|---|---|", *(f"| {name} | {found} |" for name, found in rows)]


def pruning(result: list[dict[str, Any]]) -> list[str]:
    """Models pruned to half their energy: predicted and measured shares of the original's."""
    if not result:
        return ["Nothing is recorded yet."]
    rows = [
        "| model, batch first, mode | by | predicted, 90 % interval | when chosen | measured | rounds | time | FLOPs | "
        "parameters | profiled | models on the way |",
        f"|{'---|' * 11}",
    ]
    for row in result:
        low, high = row["interval"]
        rounds, chosen, tried = len(row["measured"]), row["when_chosen"], row["tried"]
        scatter = f" ± {50 * (max(row['measured']) - min(row['measured'])):.1f}" if rounds > 1 else ""
        rows.append(
            f"| {row['net']}, {'×'.join(map(str, row['input']))}, {row['mode']} | {row['guide']} | "
            f"{percent(row['predicted'])} ({100 * low:.1f} – {percent(high)}) | "
            f"{'–' if chosen is None else percent(chosen)} | {100 * row['share']:.1f}{scatter} % | {rounds} | "
            f"{percent(row['time'])} | {percent(row['flops'])} | {percent(row['parameters'])} | "
            f"{row['profile_s']:.0f} s | {tried or '–'} |"
        )
    asked = [row for row in result if row["guide"] == "ampere"]
    held, missed = ([row["net"] for row in asked if row["holds"] is holds] for holds in (True, False))
    words = [f"Measured between 45 and 50 %, as asked, by AMPERE: {len(held)} of {len(asked)}"]
    words += [f"not {', '.join(missed)}"] if missed else []
    inside = sum(row["interval"][0] <= row["share"] <= row["interval"][1] for row in result)
    first = ", ".join(f"{row['net']} {percent(row['first'])}" for row in asked)
    return [
        *rows,
        "",
        f"{'; '.join(words)}. A measured share is the mean of its rounds, ± half their range.",
        f"Inside the interval from the profile alone: {inside} of {len(result)} measured shares.",
        *([f"The first model measured on the way, chosen when only the original had been: {first}."] if first else []),
    ]


def trainings(log: Path = case_study.RECORDED) -> list[str]:
    """The case study: the joules of whole trainings, and what they came to."""
    trained = case_study.read(log)
    if not trained:
        return ["Nothing is recorded yet."]
    plan, about, seeds = trained[0].plan, dict(trained[0].device.details), len({found.plan.seed for found in trained})
    how = f"{plan.steps:,} steps of {plan.batch} images, {plan.mode}, {seeds} seed{'s' if seeds > 1 else ''}"
    where = f"{about['gpu']}, torch {about['torch']}, {trained[0].recorded_at[:10]}"
    return [*case_study.table(trained), "", f"{how}; {where}."]


def company() -> list[str]:
    """Blocks alone against the model, on a CPU."""
    record = _data("cpu-company/company.json")
    about = record["about"]
    rows = ["| model | batch | blocks (kinds) | whole | sum of blocks | difference |", "|---|---|---|---|---|---|"]
    for name, found in record["models"].items():
        rows.append(
            f"| {name} | {found['batch']} | {found['blocks']} ({found['kinds']}) | {1e3 * found['whole_s']:.0f} ms | "
            f"{1e3 * found['blocks_s']:.0f} ms | {100 * found['difference']:+.1f} % |"
        )
    machine = f"{about['processor']}, one thread, torch {about['torch']}, {about['date']}"
    return [*rows, "", f"{machine}; medians of {about['rounds']} rounds."]


MAKERS = {
    "additive": additive, "lab": lab, "candidates": candidates, "calibration": calibration, "rules": rules,
    "approximate": approximate, "whole models": whole_models, "floor": floor, "evaluation": standings.evaluation,
    "batches": batches, "cards": cards, "seconds": seconds, "search": search, "pruning": pruning, "looks": looks,
}  # fmt: skip


def rendered(page: str) -> str:
    """The page with every table made anew from the committed results."""
    results = json.loads(RESULTS.read_text())
    tables = {name: MAKERS.get(name, listing)(entry["result"]) for name, entry in results.items()}
    tables["meter"] = meter(_data("h200-meter/meter.json"))
    tables["settling"] = settling(*(_data(f"h200-meter/{n}.json") for n in ("settling", "meterings", "warming")))
    tables["first run"] = first_run(_data("h200-cnn5/evaluation.json"))
    tables["joint run"] = joint_run()
    tables["company"] = company()
    tables["case study"] = trainings()
    sets = results["evaluation"]["result"]
    for name in ("on a card", "families", "refining", "time costs", "errors beside", "elsewhere"):
        tables[name] = standings.MAKERS[name](sets)
    tables["by chance"] = by_chance(results["rules"]["result"])
    for name, table in tables.items():
        marked = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        text = "\n".join(table)
        page = re.sub(marked, lambda m, text=text: f"{m[1]}{text}\n{m[2]}", page, flags=re.DOTALL)
    return page


def _data(name: str) -> Any:
    return json.loads((ROOT / "data" / Path(name)).read_text())


def main() -> None:
    for page in PAGES:
        page.write_text(rendered(page.read_text()))


if __name__ == "__main__":
    main()
