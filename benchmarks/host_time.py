"""How well the time of steps that wait for their host is predicted, on an H200, from what is recorded.

    python -m benchmarks.results        scores all recorded eager steps, into docs/results/host-time.md

Whole models of `data/h200-whole` are predicted from their blocks alone and side by side, without the recording of the
model itself. Networks of the families in `data/h200` are predicted from their family's campaign, which did not run
them. A step waits for its host where it takes 15 % longer than its device computes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from studies import whole_models
from studies.experiments import packed

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.estimation.estimate import estimate
from ampere_energy.evaluation.experiment import Part
from ampere_energy.measurement.records import Measurement, durations
from ampere_energy.model.training import Mode

WAITS = 1.15


@dataclass(frozen=True)
class Waiting:
    """A step that waits for its host: seconds predicted and measured."""

    setting: str
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        return self.predicted_s / self.measured_s - 1


def models() -> Iterator[Waiting]:
    for path in sorted(whole_models.DATA.glob("*.jsonl.gz")):
        spec, records = whole_models.recorded(path)
        *own, whole = records
        if spec.training.mode is not Mode.EAGER or not isinstance(whole, Measurement) or not waits(whole):
            continue
        campaign = Guided(spec, [], whole_models.RULES, captures=True)
        for record in own:
            campaign.tell(record)
        fit = campaign.fit()
        assert fit is not None
        net = campaign.scope.member(())
        found = steps(fit, [kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net])
        yield Waiting(path.name.partition(".")[0], float(found.time_s[0]), whole.time_s)


def families() -> Iterator[Waiting]:
    for planned, recorded in packed("h200"):
        if Mode.EAGER not in recorded.modes:
            continue
        campaign, records = recorded.campaign(Mode.EAGER)
        learnt = recorded.profile(campaign, records, None)
        specs = recorded.experiment.specs(Mode.EAGER)
        for spec, rounds in zip(specs, recorded.by_member(Part.MEMBERS, Mode.EAGER), strict=True):
            ran = [measured for measured in rounds if measured.infeasible is None]
            if ran and all(waits(measured) for measured in ran):
                measured_s = statistics.fmean(measured.time_s for measured in ran)
                yield Waiting(planned.name, estimate(spec, learnt).time_s, measured_s)


def waits(measured: Measurement) -> bool:
    """Whether a step takes notably longer than its device computes."""
    return bool(measured.busy) and measured.time_s > WAITS * statistics.median(durations(measured.busy))


def table(found: list[Waiting]) -> str:
    """A row a setting, and all of them."""
    rows = ["| setting | steps that wait | median error of the time | bias |", "|---|---|---|---|"]
    settings = dict.fromkeys(waiting.setting for waiting in found)
    for name in settings:
        rows.append(_row(name, [w.error for w in found if w.setting == name]))
    medians = [statistics.median(abs(w.error) for w in found if w.setting == name) for name in settings]
    rows.append(_row("**all**", [w.error for w in found]))
    return "\n".join(rows) + f"\n\nThe median setting is {100 * statistics.median(medians):.1f} % off.\n"


def _row(name: str, errors: list[float]) -> str:
    off, bias = statistics.median(map(abs, errors)), statistics.fmean(errors)
    return f"| {name} | {len(errors)} | {100 * off:.1f} % | {100 * bias:+.1f} % |"
