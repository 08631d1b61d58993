"""`make tables`: results of studies and of recorded hardware as tables in the docs, between their markers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from studies.freshness import RESULTS, ROOT

PAGES = (ROOT / "docs" / "method.md", ROOT / "docs" / "measurement.md")


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
        else:
            rows.append(f"| {prefix}{name} | {value if isinstance(value, int) else format(value, '.3g')} |")
    return rows


def meter(record: dict[str, Any]) -> list[str]:
    """What the meter is worth on the recorded card."""
    about = dict(record["device"]["details"])
    graph, eager = record["repeats graph"], record["repeats eager"]
    agreement, counter = record["agreement"], record["counter"]
    timed = record["timings"]["rows"]

    def percent(value: float, digits: int = 2) -> str:
        return f"{100 * value:.{digits}f} %"

    def repeats(result: dict[str, Any]) -> str:
        energy = result["energy_j"]
        spread = f"{percent(energy['relative std'])} standard deviation, {percent(energy['relative range'])} range"
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
        ("integrated power against the counter", f"{percent(agreement['difference'])} in {agreement['seconds']:.0f} s"),
        ("weights after 200 steps with and without the meter", "identical, bit for bit"
         if record["identical"]["with meter equals without"] else "different"),
        ("a timing-only measurement", f"{1e3 * min(r['timing cost_s'] for r in timed):.0f} to "
         f"{1e3 * max(r['timing cost_s'] for r in timed):.0f} ms, against "
         f"{min(r['metering cost_s'] for r in timed):.1f} s metered eager and captured; device times differ by at most "
         f"{percent(max(abs(r['timed device_s']['median'] / r['metered device_s'] - 1) for r in timed))}"),
    ]  # fmt: skip
    return ["| what | found |", "|---|---|", *(f"| {name} | {found} |" for name, found in rows)]


def first_run(record: list[dict[str, Any]]) -> list[str]:
    """Unseen members on the recorded card, predicted by the paper's method."""
    (result,) = record
    score = result["scores"]["paper"]
    rows = ["| widths | predicted | 90 % interval | measured | error |", "|---|---|---|---|---|"]
    for trial in result["trials"]:
        low, high = trial["interval_j"]
        rows.append(
            f"| {', '.join(map(str, trial['widths']))} | {trial['predicted_j']:.3f} J | {low:.3f} – {high:.3f} J | "
            f"{trial['measured_j']:.3f} J | {100 * trial['error']:+.1f} % |"
        )
    summary = (
        f"{result['points']} networks trained in {result['profile_s']:.0f} s; mean absolute error "
        f"{100 * score['mape']:.1f} %, {100 * score['coverage']:.0f} % inside the interval; repeated measurements of "
        f"the members themselves agree to {100 * result['floor']:.1f} %."
    )
    return [*rows, "", summary]


def rendered(page: str) -> str:
    """The page with every table made anew from the committed results."""
    results = json.loads(RESULTS.read_text())
    tables = {name: (additive if name == "additive" else listing)(entry["result"]) for name, entry in results.items()}
    tables["meter"] = meter(_data("h200-meter/meter.json"))
    tables["first run"] = first_run(_data("h200-cnn5/evaluation.json"))
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
