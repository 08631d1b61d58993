"""How good the estimates are: unseen networks of a family, predicted by every method and really measured.

A `Trials` is one family in one mode on one device. It comes from a device at hand (`evaluate`: a profile is tried on
networks that are measured now) or from the logs of an experiment (`rescore`: no hardware).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from scipy.stats import spearmanr

from ampere_energy.campaign.paper import Subtracting
from ampere_energy.campaign.rules import Rules
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.errors import DeviceError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.evaluation.baselines import by_operators, by_time, by_work
from ampere_energy.evaluation.experiment import ROUNDS, Part
from ampere_energy.evaluation.recorded import Recorded, fitted, spent_j
from ampere_energy.measurement import retries
from ampere_energy.measurement.devices import Device
from ampere_energy.measurement.procedures import REPORT
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, same_setting
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.reading import read
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import followed, lessons
from ampere_energy.profiles.profile import Profile

ALIGNED = 8
"""Widths that are all multiples of this are called aligned."""


@dataclass(frozen=True)
class Prediction:
    """Joules a step, and the interval where the method gives one."""

    energy_j: float
    interval_j: tuple[float, float] | None = None

    def scaled(self, factor: float) -> Prediction:
        """So many times as much."""
        low_high = self.interval_j and (factor * self.interval_j[0], factor * self.interval_j[1])
        return Prediction(factor * self.energy_j, low_high)


@dataclass(frozen=True)
class Trial:
    """One network: what was measured, in rounds some time apart, and what each method predicted."""

    widths: tuple[int, ...]
    repeats_j: tuple[float, ...]
    predictions: dict[str, Prediction]

    @property
    def measured_j(self) -> float:
        """Joules a step, the mean of the rounds."""
        return statistics.fmean(self.repeats_j)

    @property
    def measured_std_j(self) -> float:
        """Standard error of `measured_j`, from the difference of the rounds."""
        return statistics.stdev(self.repeats_j) / math.sqrt(len(self.repeats_j)) if len(self.repeats_j) > 1 else 0.0

    def error(self, method: str) -> float:
        """Relative error, positive where the prediction was too high."""
        return self.predictions[method].energy_j / self.measured_j - 1

    def covered(self, method: str) -> bool | None:
        """Whether the measured energy lies inside the interval; None where there is none."""
        interval = self.predictions[method].interval_j
        return None if interval is None else interval[0] <= self.measured_j <= interval[1]


@dataclass(frozen=True)
class Trials:
    """Unseen networks of a family in one setting.

    Attributes:
        aligned: whether all widths that blocks follow, and so no numbers of layers, are multiples of 8.
        points: networks measured for the profile.
        profile_s, profile_j: what measuring them took.
        wall_s: the campaign from the start of its process to the saved profile; None where that was not timed.
        level: probability of the intervals.
        recorded: the folder that it was scored from; None where it was measured now.
        names: what a factory calls the networks' widths; none of a family.
    """

    family: str
    device: DeviceInfo
    meter: MeterInfo
    training: Training
    aligned: bool
    points: int
    profile_s: float
    profile_j: float | None
    wall_s: float | None
    level: float
    networks: tuple[Trial, ...]
    recorded: str | None = None
    names: tuple[str, ...] = ()

    @property
    def methods(self) -> list[str]:
        """The methods that predicted any network, the profile's own first."""
        return list(dict.fromkeys(method for member in self.networks for method in member.predictions))

    def tried(self, method: str) -> list[Trial]:
        """The networks that a method predicted; refining was tried on some only."""
        return [member for member in self.networks if method in member.predictions]

    @property
    def floor(self) -> float:
        """Standard error of the measurements themselves, below which no error can be told.

        The windows of one measurement agree better with each other than with a measurement minutes later.
        """
        return statistics.fmean(m.measured_std_j / m.measured_j for m in self.networks)

    @property
    def repeat_rank(self) -> float | None:
        """Rank correlation of the first two rounds: how well the networks can be told apart at all."""
        pairs = [m.repeats_j[:2] for m in self.networks if len(m.repeats_j) > 1]
        return _rank([a for a, _ in pairs], [b for _, b in pairs])


@dataclass(frozen=True)
class Score:
    """Errors of one method over the networks, relative.

    Attributes:
        mape: mean absolute error.
        bias: mean signed error.
        p90: the absolute error that nine of ten stay under.
        spearman: rank correlation of predicted and measured; None for fewer than three networks, or all alike.
        coverage: the share of networks inside their interval; None where the method gives none.
    """

    mape: float
    bias: float
    p90: float
    spearman: float | None
    coverage: float | None


def score(trials: Trials, method: str) -> Score:
    """The errors of a method, summed up."""
    members = trials.tried(method)
    errors = [member.error(method) for member in members]
    sizes = sorted(abs(error) for error in errors)
    covered = [member.covered(method) for member in members]
    return Score(
        mape=statistics.fmean(sizes),
        bias=statistics.fmean(errors),
        p90=sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))],
        spearman=_rank([m.predictions[method].energy_j for m in members], [m.measured_j for m in members]),
        coverage=None if None in covered else statistics.fmean(bool(c) for c in covered),
    )


def _rank(a: Sequence[float], b: Sequence[float]) -> float | None:
    told_apart = len(a) >= 3 and len(set(a)) > 1 and len(set(b)) > 1
    return float(spearmanr(a, b).statistic) if told_apart else None


def evaluate(
    networks: Sequence[ModelRef],
    profile: Profile,
    device: Device,
    *,
    specs: Sequence[ModelSpec] | None = None,
    level: float = 0.9,
    observe: Callable[[int], None] = lambda measured: None,
) -> Trials:
    """Predicts every network first, then measures them all on the profiled device, twice round.

    Args:
        networks: what to try: networks of one family, or models of one factory.
        profile: what predicts them.
        device: the profiled one.
        specs: their blocks, where these are known; each is parsed otherwise.
        level: probability of the intervals.
        observe: called with the number of measurements made, of twice as many as there are networks.
    """
    specs = specs or [read(m) for m in networks]
    predictions = _predicted(specs, profile, level)
    measured: list[Measurement] = []
    for network in list(networks) * ROUNDS:
        measurement = retries.measured(device, network, REPORT)
        same_setting(measurement, profile.device, profile.meter)
        if measurement.infeasible is not None:
            raise DeviceError(f"{network} could not be measured: {measurement.infeasible}")
        measured.append(measurement)
        observe(len(measured))
    rounds = [tuple(m.energy_j for m in measured[i :: len(networks)]) for i in range(len(networks))]
    return Trials(
        family=profile.model,
        device=profile.device,
        meter=profile.meter,
        training=profile.training,
        aligned=_aligned(specs),
        points=profile.measurements,
        profile_s=profile.profile_s,
        profile_j=None,
        wall_s=None,
        level=level,
        networks=tuple(Trial(*found) for found in zip([n.widths for n in networks], rounds, predictions, strict=True)),
        names=networks[0].names,
    )


def rescore(recorded: Recorded, *, level: float = 0.9) -> list[Trials]:
    """The trials of an experiment, one in each mode it was measured in."""
    found: list[Trials] = []
    fits: Fits = (None, None)
    for mode in recorded.modes:
        trials, fits = _in_mode(recorded, mode, level, fits)
        found.append(trials)
    return found


Fits = tuple[JointFit | None, JointFit | None]
"""What a campaign learnt, and with what was measured to refine networks."""


def _in_mode(recorded: Recorded, mode: Mode, level: float, twins: Fits) -> tuple[Trials, Fits]:
    """The trials in a mode, and the fits they rest on; `twins` are those of the mode before."""
    asked = recorded.experiment
    specs = asked.specs(mode)
    campaign, records = recorded.campaign(mode)
    profile = recorded.profile(campaign, records, twins[0])
    refined: JointFit | None = None
    predictions = _predicted(specs, profile, level)
    operators = by_operators(campaign, recorded.records(Part.OPERATORS, mode), [spec.blocks for spec in specs])
    _add(predictions, "neuralpower", operators and [recorded.card_scale(Part.OPERATORS) * j for j in operators])
    short = recorded.by_network(Part.SHORT, mode)
    ran = all(own and own[0].infeasible is None for own in short)
    _add(predictions, "run20", [own[0].energy_j for own in short] if ran else None)
    if paper := _by_paper(recorded, mode, profile):
        for found, spec in zip(predictions, specs, strict=True):
            found["paper"] = _interval(spec, paper, level).scaled(recorded.card_scale(Part.PAPER))
    if Part.REFINED in recorded.parts:
        members = dict(zip(asked.members, specs, strict=True))
        more = recorded.records(Part.REFINED, mode)
        for record in more:
            if not campaign.tell(record) and isinstance(record.workload, ModelRef):
                campaign.add(members[record.workload.widths].blocks, record)
        refined = fitted(campaign, len(records) + len(more), twins[1], profile.nets)
        again = replace(profile, nets=refined)
        for found, spec in list(zip(predictions, specs, strict=True))[: asked.refine]:
            found["refined"] = _interval(spec, again, level)
    measured = recorded.by_network(Part.MEMBERS, mode)
    rounds = [tuple(m.energy_j for m in own if m.infeasible is None) for own in measured]
    trials = Trials(
        family=asked.family,
        device=profile.device,
        meter=profile.meter,
        training=profile.training,
        aligned=_aligned(specs),
        points=len(records),
        profile_s=profile.profile_s,
        profile_j=spent_j(records),
        wall_s=recorded.wall_s,
        level=level,
        networks=tuple(
            Trial(widths, own, found)
            for widths, own, found in zip(asked.members, rounds, predictions, strict=True)
            if own
        ),
        recorded=recorded.name,
    )
    return trials, (profile.nets, refined)


def _aligned(specs: Sequence[ModelSpec]) -> bool:
    return all(spec.widths[place] % ALIGNED == 0 for spec in specs for place in followed(spec))


def _predicted(specs: Sequence[ModelSpec], profile: Profile, level: float) -> list[dict[str, Prediction]]:
    """What a profile's method says of each network, and what methods on the same data say."""
    estimates = [estimate(spec, profile, level=level) for spec in specs]
    found = [{profile.method: Prediction(e.energy_j, e.interval_j)} for e in estimates]
    if profile.nets is None:
        return found
    for name, energies in by_work(profile.nets, [spec.blocks for spec in specs]).items():
        _add(found, name, energies)
    _add(found, "time_power", by_time(profile.nets, [e.time_s for e in estimates]))
    return found


def _add(found: list[dict[str, Prediction]], name: str, energies: Sequence[float] | None) -> None:
    for own, energy_j in zip(found, energies or (), strict=False):
        own[name] = Prediction(energy_j)


def _interval(spec: ModelSpec, profile: Profile, level: float) -> Prediction:
    found = estimate(spec, profile, level=level)
    return Prediction(found.energy_j, found.interval_j)


def _by_paper(recorded: Recorded, mode: Mode, like: Profile) -> Profile | None:
    """The paper's profile from its own campaign; None where none was run, or it is not complete."""
    records = recorded.records(Part.PAPER, mode)
    if not records:
        return None
    spec, ranges = recorded.experiment.scope(mode)
    campaign = Subtracting(lessons(spec, ranges), Rules())
    for record in records:
        campaign.tell(record)
    fits = campaign.fits()
    known = {fit.kind for fit in fits}
    if any(block.kind not in known for block in spec.blocks):
        return None
    return replace(like, method="paper", kinds=fits, nets=None)
