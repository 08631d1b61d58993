"""How well the time of steps that wait for their host is predicted, on an H200.

Whole models of `data/h200-whole` are predicted from their blocks alone and side by side, without the recording of the
model itself. Networks of the families in `data/h200` are predicted from their family's campaign, which did not run
them. A step waits for its host where it takes 15 % longer than its device computes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from ampere_energy.estimation.estimate import estimate
from ampere_energy.evaluation.experiment import Part
from ampere_energy.measurement.records import Measurement, durations
from ampere_energy.model.training import Mode
from benchmarks.hardware.families import packed
from benchmarks.hardware.whole_models import FOLDER, recorded
from benchmarks.studies.whole_models import trials

WAITS = 1.15
Error = tuple[str, float]
"""A setting, and by which share the time of one of its steps is predicted too long."""


def run() -> dict[str, list[float]]:
    """The errors of every step that waits, by setting."""
    found: dict[str, list[float]] = {}
    for setting, error in (*_models(), *_families()):
        found.setdefault(setting, []).append(error)
    return found


def _models() -> Iterator[Error]:
    for path in sorted(FOLDER.glob("*.jsonl.gz")):
        spec, records = recorded(path)
        whole = records[-1]
        if spec.training.mode is Mode.EAGER and isinstance(whole, Measurement) and waits(whole):
            eager = next(trials(spec.name, spec, records))
            yield path.name.partition(".")[0], eager.predicted_s / eager.measured_s - 1


def _families() -> Iterator[Error]:
    for planned, kept in packed("h200"):
        if Mode.EAGER not in kept.modes:
            continue
        campaign, records = kept.campaign(Mode.EAGER)
        learnt = kept.profile(campaign, records, None)
        specs = kept.experiment.specs(Mode.EAGER)
        for spec, rounds in zip(specs, kept.by_network(Part.MEMBERS, Mode.EAGER), strict=True):
            ran = [measured for measured in rounds if measured.infeasible is None]
            if ran and all(map(waits, ran)):
                measured_s = statistics.fmean(measured.time_s for measured in ran)
                yield planned.name, estimate(spec, learnt).time_s / measured_s - 1


def waits(measured: Measurement) -> bool:
    """Whether a step takes notably longer than its device computes."""
    return bool(measured.busy) and measured.time_s > WAITS * statistics.median(durations(measured.busy))
