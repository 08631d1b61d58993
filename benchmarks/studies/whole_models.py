"""Whole models of full size on an NVIDIA card: predicted from their blocks alone, and measured."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ampere_energy.campaign.adaptive import REACH_90, Guided
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.measurement.records import Measurement, Record, durations, energies
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.training import Mode, Precision
from benchmarks.hardware.whole_models import FOLDER, RULES, recorded, with_mode


@dataclass(frozen=True)
class Trial:
    """One model in one mode: joules and seconds a step, predicted from its blocks and measured."""

    model: str
    precision: Precision
    mode: Mode
    blocks: int
    kinds: int
    profile_s: float
    predicted_j: float
    spread: float
    predicted_s: float
    measured_j: float
    measured_s: float

    @property
    def error(self) -> float:
        return self.predicted_j / self.measured_j - 1

    @property
    def covered(self) -> bool:
        return abs(np.log(self.measured_j / self.predicted_j)) <= REACH_90 * self.spread


def trials(name: str, spec: ModelSpec, records: list[Record]) -> Iterator[Trial]:
    """What the blocks' records predict of the whole, in each mode it was measured in."""
    *own, whole = records
    if not isinstance(whole, Measurement) or whole.infeasible:
        return
    windows = {spec.training.mode: whole.windows}
    if spec.training.mode is Mode.EAGER and whole.busy:
        windows[Mode.GRAPH] = whole.busy
    for mode, seen in windows.items():
        asked = with_mode(spec, mode)
        campaign = Guided(asked, [], RULES, mode is Mode.EAGER)
        for record in own:
            campaign.tell(record)
        fit = campaign.fit()
        if fit is None:
            continue
        net = campaign.scope.net_at(())
        found = steps(fit, [kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net])
        yield Trial(
            name,
            spec.training.precision,
            mode,
            len(spec.blocks),
            len(spec.kinds),
            sum(record.cost_s for record in own),
            float(found.energy_j[0]),
            float(found.spread[0]),
            float(found.time_s[0]),
            statistics.median(energies(seen)),
            statistics.median(durations(seen)),
        )


def table() -> list[Trial]:
    """Every recorded model in every mode."""
    found: dict[tuple[str, Precision, Mode], Trial] = {}
    for path in sorted(FOLDER.glob("*.jsonl.gz")):
        spec, records = recorded(path)
        for trial in trials(spec.name, spec, records):
            key = trial.model, trial.precision, trial.mode
            if key not in found or trial.mode is spec.training.mode:
                found[key] = trial
    return list(found.values())


def run() -> dict[str, Any]:
    """Errors of every recorded model, and their medians by mode."""
    found = table()
    errors = {mode: [abs(t.error) for t in found if t.mode is mode] for mode in Mode}
    return {
        "trials": [
            {
                "model": t.model,
                "precision": t.precision.value,
                "mode": t.mode.value,
                "blocks": t.blocks,
                "kinds": t.kinds,
                "profile_s": t.profile_s,
                "predicted_j": t.predicted_j,
                "reach": REACH_90 * t.spread,
                "measured_j": t.measured_j,
                "error": t.error,
                "time error": t.predicted_s / t.measured_s - 1,
                "inside": bool(t.covered),
            }
            for t in found
        ],
        "by mode": {
            mode.value: {"models": len(own), "median error": statistics.median(own), "worst": max(own)}
            for mode, own in errors.items()
            if own
        },
    }
