"""How good the estimates are: unseen members of a family, predicted and then really measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy.stats import spearmanr

from ampere_energy.errors import DeviceError
from ampere_energy.fit.profile import Profile
from ampere_energy.measure.devices import Device
from ampere_energy.measure.measurement import REPORT, Measurement, same_setting
from ampere_energy.model.source import ModelRef
from ampere_energy.predict.estimate import Estimate, estimate

ROUNDS = 2


@dataclass(frozen=True)
class Trial:
    """One member: what was predicted, and what was measured, in rounds some time apart."""

    member: ModelRef
    estimate: Estimate
    rounds: tuple[Measurement, ...]

    @property
    def measured_j(self) -> float:
        """Joules a step, the mean of the rounds."""
        return statistics.fmean(m.energy_j for m in self.rounds)

    @property
    def measured_std_j(self) -> float:
        """Standard error of `measured_j`, from the difference of the rounds."""
        return statistics.stdev(m.energy_j for m in self.rounds) / math.sqrt(len(self.rounds))

    @property
    def error(self) -> float:
        """Relative error, positive where the prediction was too high."""
        return self.estimate.energy_j / self.measured_j - 1

    @property
    def covered(self) -> bool:
        """Whether the measured energy lies inside the interval."""
        low, high = self.estimate.interval_j
        return low <= self.measured_j <= high


@dataclass(frozen=True)
class Score:
    """Errors over several trials, relative.

    Attributes:
        mape: mean absolute error.
        bias: mean signed error.
        p90: the absolute error that nine of ten stay under.
        spearman: rank correlation of predicted and measured; None for fewer than three trials.
        coverage: the share of trials inside their interval.
        floor: standard error of the measurements themselves, below which no error can be told: the
            windows of one measurement agree better with each other than with a measurement minutes later.
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
    observe: Callable[[int], None] = lambda measured: None,
) -> list[Trial]:
    """Predicts every member first, then measures them all on the profiled device, twice round.

    `observe` is called with the number of measurements made, of twice as many as there are members.
    """
    from ampere_energy.model.parse import parse_ref

    specs = [parse_ref(m) for m in members]
    estimates = [estimate(spec, profile, level=level) for spec in specs]
    measured: list[Measurement] = []
    for member in list(members) * ROUNDS:
        measurement = device.measure(member, REPORT)
        same_setting(measurement, profile.device, profile.meter)
        if measurement.infeasible is not None:
            raise DeviceError(f"{member} could not be measured: {measurement.infeasible}")
        measured.append(measurement)
        observe(len(measured))
    count = len(members)
    return [Trial(members[i], estimates[i], tuple(measured[i::count])) for i in range(count)]


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
        floor=statistics.fmean(t.measured_std_j / t.measured_j for t in trials),
    )


def _spearman(trials: Sequence[Trial]) -> float | None:
    if len(trials) < 3:
        return None
    predicted = [t.estimate.energy_j for t in trials]
    measured = [t.measured_j for t in trials]
    return float(spearmanr(predicted, measured).statistic)
