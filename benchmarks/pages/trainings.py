"""Whole trainings as a table, and as figures of loss and accuracy over joules.

python -m benchmarks.pages.trainings LOG [FOLDER]    the table, and the figures into a folder
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from ampere_energy.reporting.axes import Axis
from ampere_energy.reporting.plot import Mark, Series, lines
from ampere_energy.units import si
from benchmarks.hardware.trainings import Trained, read
from benchmarks.pages import text
from benchmarks.pages.text import percent


def table(trained: Sequence[Trained]) -> str:
    """The models, means over seeds, against the first of them."""
    groups = _grouped(trained)
    first_j, first_right = _outcome(next(iter(groups.values())))
    rows = []
    for name, own in groups.items():
        joules, right = _outcome(own)
        spent = [si(joules, "J"), percent(joules / first_j), si(statistics.fmean(found.time_s for found in own), "s")]
        fared = [percent(right), f"{100 * (right - first_right):+.1f} points"]
        rows.append([name, f"{own[0].parameters:,}", f"{own[0].plan.steps:,}", *spent, *fared])
    energy = f"energy, {trained[0].meter.provenance}"
    heads = ["model", "parameters", "steps", energy, "of the first", "time", "accuracy", "against the first"]
    return text.table(heads, rows)


def _outcome(own: Sequence[Trained]) -> tuple[float, float]:
    """Joules and accuracy in the mean."""
    return statistics.fmean(f.energy_j for f in own), statistics.fmean(f.curve[-1].accuracy for f in own)


def _grouped(trained: Sequence[Trained]) -> dict[str, list[Trained]]:
    groups: dict[str, list[Trained]] = {}
    for found in trained:
        groups.setdefault(found.model, []).append(found)
    return groups


def figures(trained: Sequence[Trained]) -> dict[str, str]:
    """Loss and accuracy over the joules spent so far, means over seeds with their range."""
    joules = Axis(f"{trained[0].meter.provenance} energy of training so far", "J")
    wanted = {
        "loss": (Axis("loss on unseen images"), lambda point: point.test_loss),
        "accuracy": (Axis("accuracy on unseen images", "%"), lambda point: 100 * point.accuracy),
    }
    drawn = {}
    for name, (axis, value) in wanted.items():
        series = []
        for tint, (model, own) in enumerate(_grouped(trained).items()):
            marks = []
            for points in zip(*(found.curve for found in own), strict=True):
                values = [value(point) for point in points]
                at_j = statistics.fmean(f.joules_at(p) for f, p in zip(own, points, strict=True))
                reach = (min(values), max(values)) if len(values) > 1 else None
                marks.append(Mark(at_j, statistics.fmean(values), reach, f"step {points[0].step}"))
            series.append(Series(model, marks, tint))
        drawn[name] = lines(f"{name} against energy", series, joules, axis)
    return drawn


def main(log: Path, folder: Path | None = None) -> None:
    trained = read(log)
    for name, figure in figures(trained).items() if folder else ():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.svg").write_text(figure)
    print(table(trained))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
