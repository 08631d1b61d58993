"""What docs/results/README.md says: the best, the typical and the missed setting, and other pages' answers."""

from __future__ import annotations

from typing import Any

from benchmarks.pages import batches, families, host_time, meters, other_cards, own_loop, pruning, search, whole_models
from benchmarks.pages.text import percent, table
from benchmarks.results import result_of


def marks() -> dict[str, str]:
    loops, cards = own_loop.marks(), other_cards.marks()
    return {
        "headline": headline(families.of_plan("h200", result_of("evaluation"))),
        "own loop": loops["profiled, median"],
        "own loop, unseen": loops["unseen, median"],
        "host time": host_time.marks()["median setting"],
        "other cards": cards["median"],
        "batches": batches.marks()["a quarter or four times"],
        "whole models": whole_models.marks()["median, eager"],
        "meters": meters.marks()["repeats"],
        "pruning": pruning.marks()["kept"],
        "search": search.marks()["cheaper"],
    }


def headline(sets: families.Sets) -> str:
    """On a card: the setting with the least error, the median, and of those that miss what is asked the largest."""
    best, worst = min(sets.values(), key=_error), families.missed(sets)[0]
    flops = percent(families.median(sets, "flops"))
    typical = [percent(families.median(sets, "ampere")), percent(families.inside(sets)), flops]
    bar = percent(families.bars(worst).error)
    rows = [
        ["best", *_row(best)],
        ["typical", f"the median of {len(sets)} settings; of intervals, the mean", *typical],
        ["missed", *_row(worst, f" (bar: {bar})")],
    ]
    return table(["", "setting", "off by", "inside the 90 % interval", "by FLOPs"], rows)


def _row(found: dict[str, Any], more: str = "") -> list[str]:
    own = found["scores"]["ampere"]
    flops = percent(found["scores"]["flops"]["mape"])
    return [families.label(found), percent(own["mape"]) + more, percent(own["coverage"]), flops]


def _error(found: dict[str, Any]) -> float:
    return float(found["scores"]["ampere"]["mape"])
