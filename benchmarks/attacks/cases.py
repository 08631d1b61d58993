"""Cases of an attack: each is kept as soon as it is known, so that a long study goes on where it was stopped."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.results import ROOT, made_at

CHUNK_S = 6600.0
"""What a chunk of a study may take; the same command goes on where it ended."""
_NAMED = 12


@dataclass(frozen=True)
class Found:
    """What became of a case.

    Attributes:
        causes: what did not hold, in a few words that other cases share; empty where all held.
        about: one line for whoever reads on.
        figures: seconds, megabytes and counts; of all cases the largest of each is told, and the sum of `n …`.
    """

    causes: tuple[str, ...] = ()
    about: str = ""
    figures: dict[str, float] = field(default_factory=dict)


Case = tuple[str, Callable[[], Found]]


def run(name: str, cases: Iterable[Case], keep: Path | None = None, chunk_s: float = CHUNK_S) -> dict[str, Any]:
    """Runs the cases that are not kept yet, for as long as a chunk may take, and sums up those that are known.

    Args:
        name: the study's.
        cases: each with a name of its own, in an order that does not change.
        keep: a folder where the results of this commit are kept from chunk to chunk; None to keep none.
        chunk_s: how long this chunk may take.
    """
    file = None if keep is None else keep / f"{name}-{made_at()['commit']}.jsonl"
    known = _kept(file)
    ends_s, left = time.monotonic() + chunk_s, 0
    found: dict[str, Found] = {}
    for case, judge in cases:
        if case in known:
            found[case] = known[case]
        elif time.monotonic() > ends_s:
            left += 1
        else:
            start = time.monotonic()
            judged = judge()
            judged.figures["s"] = round(time.monotonic() - start, 2)
            found[case] = judged
            if file is not None:
                _keep(file, case, judged)
    return _summed(found, left)


def _kept(file: Path | None) -> dict[str, Found]:
    if file is None or not file.exists():
        return {}
    *whole, _ = file.read_text().split("\n")  # a line that was cut off is done again
    lines = [json.loads(line) for line in whole]
    return {line["case"]: Found(tuple(line["causes"]), line["about"], line["figures"]) for line in lines}


def _keep(file: Path, case: str, found: Found) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and not (data := file.read_bytes()).endswith(b"\n"):
        file.write_bytes(data[: data.rfind(b"\n") + 1])
    with file.open("a") as lines:
        lines.write(json.dumps({"case": case, **asdict(found)}) + "\n")


def _summed(found: dict[str, Found], left: int) -> dict[str, Any]:
    by_cause: dict[str, list[str]] = {}
    for case, judged in found.items():
        for cause in judged.causes:
            by_cause.setdefault(cause, []).append(case)
    names = {name for judged in found.values() for name in judged.figures}
    figures: Counter[str] = Counter()
    for name in sorted(names):
        values = [judged.figures[name] for judged in found.values() if name in judged.figures]
        figures[name if name.startswith("n ") else f"largest {name}"] = round(  # type: ignore[assignment]
            sum(values) if name.startswith("n ") else max(values), 2
        )
    return {
        "cases": len(found),
        "hold": sum(not judged.causes for judged in found.values()),
        "left for the next chunk": left,
        **figures,
        "fails": {
            cause: {"cases": len(cases), "such as": cases[:_NAMED]}
            for cause, cases in sorted(by_cause.items(), key=lambda pair: -len(pair[1]))
        },
    }


def show(name: str, result: dict[str, Any]) -> None:
    """Prints a result as a table."""
    print(f"{name}: {result['hold']} of {result['cases']} hold, {result['left for the next chunk']} left")
    for cause, cases in result["fails"].items():
        print(f"  {cases['cases']:5}  {cause}: {', '.join(cases['such as'])}")


KEEP = ROOT / "build" / "attacks"
