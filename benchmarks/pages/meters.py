"""Tables of docs/results/meters.md: what the meters are worth."""

from __future__ import annotations

import json
import math
import statistics
from itertools import pairwise
from typing import Any

from benchmarks.pages.families import trial
from benchmarks.pages.text import listing, percent, signed, table
from benchmarks.results import DATA, result_of

_SHOWN_LATE_S = 0.03
_SETTLED_S = 0.7


def marks() -> dict[str, str]:
    record = _data("h200-meter/meter.json")
    slowest = max(record[f"slowdown {mode}"]["median slowdown"] for mode in ("eager", "graph"))
    return {
        "meter": meter(record),
        "settling": settling(*(_data(f"h200-meter/{name}.json") for name in ("settling", "meterings", "warming"))),
        "phases": table(["what", "value"], listing(result_of("phases"))),
        "counters": table(["what", "value"], listing(result_of("counters"))),
        "first run": first_run(),
        "repeats": percent(record["repeats graph"]["energy_j"]["relative std"], 2),
        "range": percent(record["repeats graph"]["energy_j"]["relative range"]),
        "slowdown": percent(slowest, 2),
    }


def meter(record: dict[str, Any]) -> str:
    """What the meter is worth on the recorded card."""
    about = dict(record["device"]["details"])
    agreement, counter, timed = record["agreement"], record["counter"], record["timings"]["rows"]
    times_ms = [1e3 * row["timing cost_s"] for row in timed]
    apart = max(abs(row["timed device_s"]["median"] / row["metered device_s"] - 1) for row in timed)
    slowdowns = ", ".join(
        f"{mode} {percent(record[f'slowdown {mode}']['median slowdown'], 3)}" for mode in ("eager", "graph")
    )
    same = "identical, bit for bit" if record["identical"]["with meter equals without"] else "different"
    rows = [
        ("card, driver, torch", f"{about['gpu']}, {about['driver']}, {about['torch']}; {record['recorded_at'][:10]}"),
        ("network", record["net"]),
        ("idle power, context open", f"{record['idle_w']:.0f} W"),
        ("the counter ticks every", f"{1e3 * counter['tick_s']:.0f} ms"),
        ("a reading takes", f"{1e3 * counter['reading_s']:.1f} ms"),
        ("CUDA graph, 10 repeats", _repeats(record["repeats graph"])),
        ("eager, 10 repeats", _repeats(record["repeats eager"])),
        ("slowdown of the step by the sampler", f"{slowdowns}, medians of 12 turns"),
        ("integrated power against the counter",
         f"{percent(agreement['difference'], 2)} in {agreement['seconds']:.0f} s"),
        ("weights after 200 steps with and without the meter", same),
        ("a timing-only measurement", f"{min(times_ms):.0f} to {max(times_ms):.0f} ms, against "
         f"{min(row['metering cost_s'] for row in timed):.1f} s metered eager and as a CUDA graph; device times differ "
         f"by at most {percent(apart, 2)}"),
    ]  # fmt: skip
    return table(["what", "found"], rows)


def _repeats(result: dict[str, Any]) -> str:
    energy = result["energy_j"]
    spread = f"{percent(energy['relative std'], 2)} standard deviation, {percent(energy['relative range'], 2)} range"
    return f"{spread} ({energy['median']:.3f} J a step, {result['seconds each']:.1f} s each)"


def settling(runs: dict[str, Any], meterings: dict[str, Any], warming: dict[str, Any]) -> str:
    """What a card's power does after a step begins, and what meterings make of it."""
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
    turns = ("first", "second")
    short = [row[turn]["step_j"] / row["long"]["step_j"] - 1 for row in meterings["rows"] for turn in turns]
    before, long, after = ([look["step_j"] for look in row["looks"]] for row in warming["rows"])
    warm = [look["temperature C"] for look in warming["rows"][1]["looks"]]
    watts = statistics.fmean(look["step_j"] / look["step_s"] for look in warming["rows"][1]["looks"])
    rows = [
        (f"cards, {len(runs['rows'])} workloads", "; ".join(sorted({_card(r) for r in (runs, meterings, warming)}))),
        *((f"power in whole tick {n} after a step begins", _deviation(found)) for n, found in first.items()),
        ("ticks 2 to 4 together, as they were seen", _deviation(seen)),
        ("the same, taken as regular", _deviation(regular)),
        ("a window of 0.5 s whose last tick is half idle", _deviation(ended)),
        (f"a campaign's metering against two seconds, {len(short)} of them", _deviation(short)),
        (f"two minutes at {watts:.0f} W, the last 20 s against the first 20", _change(long[:20], long[-20:])),
        ("temperature then", f"{warm[0]:.0f} °C at first, {warm[3]:.0f} after 3 s, {max(warm):.0f} at most"),
        ("another model after the two minutes against before", _change(before, after)),
    ]
    return table(["what", "found"], rows)


def _deviation(shares: list[float]) -> str:
    return f"{signed(statistics.fmean(shares))} on average, standard deviation {100 * statistics.stdev(shares):.1f}"


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
    return f"{signed(change, 2)} of a step's energy, standard error {100 * spread:.2f}"


def first_run() -> str:
    """Networks that no campaign ran on the recorded card, estimated by the paper's method."""
    (result,) = _data("h200-cnn5/evaluation.json")
    own = result["scores"]["paper"]
    note = (
        f"{result['points']} networks trained in {result['profile_s']:.0f} s; mean absolute error "
        f"{percent(own['mape'])}, {percent(own['coverage'], 0)} inside the interval; repeated measurements agree to "
        f"{percent(result['floor'])}."
    )
    heads = ["widths", "estimate", "90 % interval", "measured", "error"]
    return f"{table(heads, map(trial, result['trials']))}\n\n{note}"


def _data(name: str) -> Any:
    return json.loads((DATA / name).read_text())
