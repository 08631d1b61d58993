"""How good the estimates are: unseen members of a family, predicted and then really measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy.stats import spearmanr

from ampere_energy.errors import DeviceError
from ampere_energy.fit.profile import Profile
from ampere_energy.measure.devices import Device
from ampere_energy.measure.measurement import REPORT, Measurement, same_setting
from ampere_energy.model.source import ModelRef, instantiate
from ampere_energy.predict.estimate import Estimate, estimate


@dataclass(frozen=True)
class Trial:
    """One member: what was predicted, and what was measured."""

    member: ModelRef
    estimate: Estimate
    measurement: Measurement

    @property
    def error(self) -> float:
        """Relative error, positive where the prediction was too high."""
        return self.estimate.energy_j / self.measurement.energy_j - 1

    @property
    def covered(self) -> bool:
        """Whether the measured energy lies inside the interval."""
        low, high = self.estimate.interval_j
        return low <= self.measurement.energy_j <= high


@dataclass(frozen=True)
class Score:
    """Errors over several trials, relative.

    Attributes:
        mape: mean absolute error.
        bias: mean signed error.
        p90: the absolute error that nine of ten stay under.
        spearman: rank correlation of predicted and measured; None for fewer than three trials.
        coverage: the share of trials inside their interval.
        floor: standard error of the measurements themselves, below which no error can be told.
    """

    mape: float
    bias: float
    p90: float
    spearman: float | None
    coverage: float
    floor: float


def evaluate(
    members: Sequence[ModelRef],
    profile: Profile,
    device: Device,
    *,
    level: float = 0.9,
    observe: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Predicts every member first, then measures it on the profiled device."""
    from ampere_energy.model.parse import parse

    specs = [parse(instantiate(m), m.input, training=m.training, name=str(m)) for m in members]
    estimates = [estimate(spec, profile, level=level) for spec in specs]
    trials = []
    for member, predicted in zip(members, estimates, strict=True):
        measurement = device.measure(member, REPORT)
        same_setting(measurement, profile.device, profile.meter)
        if measurement.infeasible is not None:
            raise DeviceError(f"{member} could not be measured: {measurement.infeasible}")
        trials.append(Trial(member, predicted, measurement))
        observe(trials[-1])
    return trials


def score(trials: Sequence[Trial]) -> Score:
    """The errors of the trials, summed up."""
    errors = [trial.error for trial in trials]
    sizes = sorted(abs(error) for error in errors)
    return Score(
        mape=statistics.fmean(sizes),
        bias=statistics.fmean(errors),
        p90=sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        spearman=_spearman(trials),
        coverage=statistics.fmean(trial.covered for trial in trials),
        floor=statistics.fmean(t.measurement.energy_std_j / t.measurement.energy_j for t in trials),
    )


def _spearman(trials: Sequence[Trial]) -> float | None:
    if len(trials) < 3:
        return None
    predicted = [t.estimate.energy_j for t in trials]
    measured = [t.measurement.energy_j for t in trials]
    return float(spearmanr(predicted, measured).statistic)
