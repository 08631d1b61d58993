"""Tables of docs/results/whole-models.md: whole models against what was learnt from their blocks."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.hardware import coupling_on_card, coupling_on_cpu
from benchmarks.pages.text import percent, signed, table
from benchmarks.results import result_of


def marks() -> dict[str, str]:
    result, every = result_of("whole models"), result_of("zoo")
    modes = result["by mode"]
    return {
        "whole models": whole_models(result),
        "coupling on a CPU": on_a_cpu(),
        "coupling on a card": on_a_card(),
        **{f"median, {mode}": percent(found["median error"]) for mode, found in modes.items()},
        "worst": percent(max(found["worst"] for found in modes.values())),
        "inside": f"{sum(t['inside'] for t in result['trials'])} of {len(result['trials'])}",
        "architectures": str(every["models"]),
        "architectures, mean": percent(every["mean error"]),
        "architectures, worst": percent(every["worst error"]),
    }


def whole_models(result: dict[str, Any]) -> str:
    """Every recorded model in every mode."""
    heads = ["model", "precision, mode", "blocks (kinds)", "profiled in", "estimate", "measured", "error", "time"]
    rows = [
        [
            t["model"],
            f"{t['precision']}, {t['mode']}",
            f"{t['blocks']} ({t['kinds']})",
            f"{t['profile_s']:.0f} s",
            f"{t['predicted_j']:.2f} J ± {percent(t['reach'])}",
            f"{t['measured_j']:.2f} J",
            signed(t["error"]),
            signed(t["time error"]),
        ]
        for t in sorted(result["trials"], key=lambda t: (t["precision"], t["mode"], t["model"]))
    ]
    sums = [
        f"{mode}: median error {percent(found['median error'])}, worst {percent(found['worst'])}"
        for mode, found in result["by mode"].items()
    ]
    inside = sum(t["inside"] for t in result["trials"])
    note = f"{'; '.join(sums)}; {inside} of {len(rows)} inside their 90 % intervals."
    return f"{table(heads, rows)}\n\n{note}"


def on_a_cpu() -> str:
    """Seconds of blocks alone against the model's."""
    record = json.loads(coupling_on_cpu.RECORDED.read_text())
    about = record["about"]
    rows = [
        [
            name,
            str(found["batch"]),
            f"{found['blocks']} ({found['kinds']})",
            f"{1e3 * found['whole_s']:.0f} ms",
            f"{1e3 * found['blocks_s']:.0f} ms",
            signed(found["difference"]),
        ]
        for name, found in record["models"].items()
    ]
    heads = ["model", "batch", "blocks (kinds)", "whole", "sum of blocks", "difference"]
    machine = f"{about['processor']}, one thread, torch {about['torch']}, {about['date']}"
    return f"{table(heads, rows)}\n\n{machine}; medians of {about['rounds']} rounds."


def on_a_card() -> str:
    """By how much networks differ from the sum of their blocks, and powers by what blocks read."""
    found = coupling_on_card.found()
    shown = {
        "time": "time of a network, against its blocks' sum",
        "energy": "energy of a network, against its blocks' sum",
        "power by what is read": "power of a block that reads what a ReLU gives, against normal numbers",
    }
    rows = [
        [label, signed(found[f"{name}, mean"]), percent(found[f"{name}, deviation"])] for name, label in shown.items()
    ]
    return table([f"{found['networks']} networks of `cnn5` on an H200", "mean", "standard deviation"], rows)
