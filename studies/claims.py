"""Figures that the pages tell in words. Each sentence is made from the committed results, and must stand as it is.

Where the data changes, `make test` says which sentence is not on its page any more; the words are here and there, the
numbers only in the results.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from studies import company_on_gpu
from studies.standings import TOLD_APART, Sets, bars, of_plan
from studies.tables import on_other_cards, pooled

_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True)
class Claim:
    """A sentence, or a part of one, of a page."""

    page: str
    words: str


def claims(results: dict[str, Any]) -> Iterator[Claim]:
    """All sentences, as the results have them."""
    sets: Sets = results["evaluation"]["result"]
    card, cpu = of_plan("h200", sets), of_plan("cpu", sets)
    for words in (*_recorded(card, cpu), *_missed(card), *_run20(card)):
        yield Claim("docs/evaluation.md", words)
    for words in (*_readme(card, cpu, results["cards"]["result"]), _batches(results["batches"]["result"])):
        yield Claim("README.md", words)
    for words in _company():
        yield Claim("docs/decisions/036-two-ticks.md", words)


def _recorded(card: Sets, cpu: Sets) -> Iterator[str]:
    apart = [_ends(sets.values(), lambda found: found["apart_s"], 1) for sets in (cpu, card)]
    yield f"measurements are {apart[0]} s apart on the CPU and {apart[1]} s on the cards"
    yield f"AMPERE is off by {_errors(cpu, 'ampere', 1)} %, by {_mean(cpu):.1f} % on average"
    yield f"in proportion to FLOPs by {_errors(cpu, 'flops')} %"
    better = sum(_error(found, "run20") < _error(found) for found in cpu.values())
    yield f"twenty cold steps of the model itself are better on {_WORDS[better]} of the {_WORDS[len(cpu)]}"
    har = [_error(cpu[name]) - _error(cpu[name], "flops_bytes") for name in ("har-any eager", "har-aligned eager")]
    yield f"a constant for each block with FLOPs and bytes on `har` by {har[0]:.1f} and {har[1]:.1f} points"
    same = [_error(cpu[f"transformer-{widths} eager"]) for widths in ("aligned", "any")]
    yield f"came out at {same[0]:.1f} and at {same[1]:.1f} %"
    yield f"Intervals hold {_inside(cpu, 'ampere'):.0f} % of the {_members(cpu)} members"
    (most, least), (high, low) = ([_bias(sets, end) for end in (max, min)] for sets in (card, cpu))
    yield f"from {most} % too much to {-least} % too little on the cards, {-high} to {-low} % too little on the CPU"
    known = sum("neuralpower" in found["scores"] for found in card.values()) // 2
    better = [name for name, found in card.items() if _error(found, "neuralpower") < _error(found)]
    every = f"all {known}" if 2 * known == len(card) else f"{known} of the {len(card) // 2}"
    yield f"phases of operators are recorded of {every} sets"
    yield f"better than AMPERE on {_WORDS[len(better)]} of {2 * known} settings"
    modes = "each in two modes"
    yield f"90 % intervals hold {_inside(card, 'ampere'):.1f} % of the {_members(card) // 2} members, {modes}"
    refined = sum(5 for found in card.values() if "refined" in found["scores"]) // 2
    yield f"refined, {_inside(card, 'refined'):.1f} % of {refined}"


def _missed(card: Sets) -> Iterator[str]:
    har, small = ([card[f"{name} {mode}"] for mode in ("eager", "graph")] for name in ("har-any", "cnn5_10-aligned"))
    errors = f"{_error(har[0]):.1f} and {_error(har[1]):.1f} % off, rank {_rank(har[0]):.2f} and {_rank(har[1]):.2f}"
    yield f"HAR networks at arbitrary widths, the miss before, are {errors}"
    for method, of in (("refined", "they are"), ("run20", "the model itself")):
        yield f"{of} {_error(har[0], method):.1f} and {_error(har[1], method):.1f} %"
    yield f"`cnn5` at batch 10 at aligned widths as captured graphs ranks its members to {_rank(small[1]):.3f}"
    yield f"(0.98 are asked): {_error(small[1]):.1f} % off"
    asked = 100 * bars(small[0]).error
    yield f"eager and refined: {_error(small[0], 'refined'):.1f} % off on five members, where {asked:.1f} % are one"
    yield f"is {_error(small[0]):.1f} % off, more than the {asked:.1f} % that are one and a half times"
    yield f"twenty cold steps of the same models are {_error(small[0], 'run20'):.1f} % off"
    middling = [card[f"cnn5_128-aligned {mode}"] for mode in ("eager", "graph")]
    yield f"recorded in the same way, is {_error(middling[0]):.1f} and {_error(middling[1]):.1f} % off"
    waiting = {name: found for name, found in card.items() if _waits(found)}
    ours, bytes_ = _errors(waiting, "ampere", 1), _errors(waiting, "flops_bytes", 1)
    yield f"({bytes_} % on the four sets, AMPERE {ours} %)"


def _batches(rows: list[dict[str, Any]]) -> str:
    by_batch: dict[int, list[float]] = {128: [], 512: []}
    for row in rows:
        if {row["from"], row["to"]} == by_batch.keys():
            by_batch[row["to"]].append(100 * row["error"])
    low, high = sorted(map(statistics.fmean, by_batch.values()))
    return f"{low:.0f} to {high:.0f} % off at a quarter or four times a profile's batch"


def _company() -> Iterator[str]:
    found = {what: 100 * value for what, value in company_on_gpu.found().items()}
    time, energy, mean = (found[what] for what in ("time, deviation", "energy, deviation", "energy, mean"))
    yield f"a standard deviation of {time:.1f} % in time and {energy:.1f} in energy, once a mean of {mean:.1f} %"
    read, scatter = (found[f"power by what is read, {what}"] for what in ("mean", "deviation"))
    yield f"in place of normal ones change power by {read:.1f} % ± {scatter:.1f}"


def _run20(card: Sets) -> Iterator[str]:
    ran = {name: found for name, found in card.items() if "run20" in found["scores"]}
    waiting = {name: found for name, found in ran.items() if _waits(found)}
    others = {name: found for name, found in ran.items() if name not in waiting}
    told = f"{_errors(others, 'run20', 1)} % off on the card ({_errors(waiting, 'run20')} % at batch 10, eager)"
    yield f"Twenty cold steps of the model itself are {told}"


def _readme(card: Sets, cpu: Sets, cards: list[dict[str, Any]]) -> Iterator[str]:
    alike = on_other_cards(cards)
    half = sum(row["members"] for row in alike) // 2
    inside = 100 * pooled(alike, "inside elsewhere")
    yield f"held {inside:.0f} % of {half} members, each in two modes, measured on others"
    walls = _ends((found for found in card.values() if found["wall_s"]), lambda found: found["wall_s"], 1)
    yield f"Profiles were saved after {walls} s"
    yield f"{_inside(card, 'ampere'):.1f} % of the {_members(card) // 2} members, each in two modes, are inside"
    yield f"AMPERE is off by {_errors(cpu, 'ampere', 1)} %, FLOPs by {_errors(cpu, 'flops')} %"
    yield f"twenty steps of the model itself by {_errors(cpu, 'run20')} %"
    launched = card["cnn5_10-aligned eager"]
    missed = f"{_error(launched, 'refined'):.1f} % off, more than the {100 * bars(launched).error:.1f} % we ask"
    yield f"refined where steps wait for the host, is {missed}"


def _waits(found: dict[str, Any]) -> bool:
    """Whether its members can hardly be told apart, since steps wait for the host."""
    return bool(found["repeat_rank"] <= TOLD_APART)


def _error(found: dict[str, Any], method: str = "ampere") -> float:
    """In percent; infinite where the method was not tried."""
    return 100 * float(found["scores"][method]["mape"]) if method in found["scores"] else math.inf


def _rank(found: dict[str, Any]) -> float:
    return float(found["scores"]["ampere"]["spearman"])


def _mean(sets: Sets) -> float:
    return statistics.fmean(_error(found) for found in sets.values())


def _errors(sets: Sets, method: str, digits: int = 0) -> str:
    known = [found for found in sets.values() if method in found["scores"]]
    return _ends(known, lambda found: found["scores"][method]["mape"], 100, digits)


def _ends(
    sets: Iterable[dict[str, Any]], value: Callable[[dict[str, Any]], float], unit: float, digits: int = 0
) -> str:
    """From the least to the largest."""
    known = sorted(unit * value(found) for found in sets)
    return f"{known[0]:.{digits}f} to {known[-1]:.{digits}f}"


def _bias(sets: Sets, end: Callable[[Iterable[float]], float]) -> int:
    return round(100 * end(s["scores"]["neuralpower"]["bias"] for s in sets.values() if "neuralpower" in s["scores"]))


def _members(sets: Sets) -> int:
    return sum(found["models"] for found in sets.values())


def _inside(sets: Sets, method: str) -> float:
    return 100 * statistics.fmean(
        found["scores"][method]["coverage"] for found in sets.values() if method in found["scores"]
    )
