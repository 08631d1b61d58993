"""Tables of docs/results/pruning.md: models pruned to half their energy, and whole trainings of some of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.hardware.trainings import RECORDED, read
from benchmarks.pages import trainings as whole
from benchmarks.pages.text import percent, table
from benchmarks.results import result_of

NOTHING = "Nothing is recorded yet."


def marks() -> dict[str, str]:
    result = result_of("pruning")
    flops = [row["share"] for row in result if row["guide"] == "flops"]
    spent_j = {found.model: found.energy_j for found in read(RECORDED)}
    return {
        "pruning": pruning(result),
        "trainings": trainings(),
        "kept": "{} of {}".format(*_kept(result)),
        "by FLOPs": f"{100 * min(flops):.0f} to {percent(max(flops), 0)}",
        "a whole training": percent(spent_j["ampere"] / spent_j["original"]),
    }


def _kept(result: list[dict[str, Any]]) -> tuple[int, int]:
    """How many of AMPERE's choices kept the budget, of how many."""
    asked = [row for row in result if row["guide"] == "ampere"]
    return sum(row["holds"] for row in asked), len(asked)


def pruning(result: list[dict[str, Any]]) -> str:
    """Models pruned to half their energy: estimated and measured shares of the original's."""
    if not result:
        return NOTHING
    asked = [row for row in result if row["guide"] == "ampere"]
    missed = ", ".join(row["net"] for row in asked if not row["holds"])
    held = f"Measured between 45 and 50 %, as asked, by AMPERE: {'{} of {}'.format(*_kept(result))}"
    inside = sum(row["interval"][0] <= row["share"] <= row["interval"][1] for row in result)
    first = ", ".join(f"{row['net']} {percent(row['first'])}" for row in asked)
    heads = ["model, batch first, mode", "by", "estimate, 90 % interval", "when chosen", "measured", "rounds", "time"]
    return "\n".join(
        [
            table([*heads, "FLOPs", "parameters", "profiled", "models on the way"], map(_row, result)),
            "",
            f"{held}{f'; not {missed}' if missed else ''}. "
            "A measured share is the mean of its rounds, ± half their range.",
            f"Inside the interval from the profile alone: {inside} of {len(result)} measured shares.",
            *([f"The first model measured on the way, chosen when only the original had been: {first}."] * bool(first)),
        ]
    )


def _row(row: dict[str, Any]) -> list[str]:
    low, high = row["interval"]
    rounds, chosen = len(row["measured"]), row["when_chosen"]
    scatter = f" ± {50 * (max(row['measured']) - min(row['measured'])):.1f}" if rounds > 1 else ""
    return [
        f"{row['net']}, {'×'.join(map(str, row['input']))}, {row['mode']}",
        row["guide"],
        f"{percent(row['predicted'])} ({100 * low:.1f} – {percent(high)})",
        "–" if chosen is None else percent(chosen),
        f"{100 * row['share']:.1f}{scatter} %",
        str(rounds),
        *(percent(row[what]) for what in ("time", "flops", "parameters")),
        f"{row['profile_s']:.0f} s",
        str(row["tried"] or "–"),
    ]


def trainings(log: Path = RECORDED) -> str:
    """The joules of whole trainings, and what they came to."""
    trained = read(log)
    if not trained:
        return NOTHING
    plan, about, seeds = trained[0].plan, dict(trained[0].device.details), len({found.plan.seed for found in trained})
    how = f"{plan.steps:,} steps of {plan.batch} images, {plan.mode}, {seeds} seed{'s' if seeds > 1 else ''}"
    where = f"{about['gpu']}, torch {about['torch']}, {trained[0].recorded_at[:10]}"
    return f"{whole.table(trained)}\n\n{how}; {where}."
