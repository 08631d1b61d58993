"""The campaign: ask for a variant, have it measured, tell the result, until every kind is known.

`method="paper"`: output kinds first, then input kinds minus the predicted output (eq. 1), then hidden kinds
minus both (eq. 2), each with Gaussian processes of its own and the paper's rules for the next point and the
end. The campaign's state follows from the measurements alone, so a killed one resumes from its log.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ampere_energy.errors import DeviceError, RequestError
from ampere_energy.fit.acquire import bounds, candidates, most_uncertain
from ampere_energy.fit.profile import KindFit, Profile, Quantity, learn
from ampere_energy.measure.devices import Device, open_device
from ampere_energy.measure.measurement import POINT, Measurement, same_setting
from ampere_energy.measure.store import MeasurementLog
from ampere_energy.model.blocks import Kind, ModelSpec, Point
from ampere_energy.model.variants import Lesson, Variant, WidthRange, lessons

METHODS = ("paper",)


@dataclass(frozen=True)
class Rules:
    """When a campaign stops, and what guides it.

    Attributes:
        points: the most points of one kind.
        least: points every kind gets before the precision counts; two bounds cannot tell noise from shape.
        precision: stop a kind when its largest predictive standard deviation is under this share of the
            mean profiled value.
        guide: whose predictive variance chooses the next point; time is what the paper uses where live
            energy is not to be had.
        budget_s: seconds of measuring, shared out over the kinds; bounds are always measured.
    """

    points: int = 16
    least: int = 8
    precision: float = 0.05
    guide: Quantity = Quantity.ENERGY
    budget_s: float | None = None

    def __post_init__(self) -> None:
        if self.points < 2:
            raise RequestError(f"--points {self.points}", "give at least 2, the bounds")
        if not 0 < self.precision < 1:
            raise RequestError(f"a precision of {self.precision}", "give a share between 0 and 1")
        if self.budget_s is not None and self.budget_s <= 0:
            raise RequestError(f"--budget {self.budget_s:g}s", "give a positive time")


@dataclass(frozen=True)
class Status:
    """Where a campaign stands, for a progress display."""

    kind: str
    kind_index: int
    kinds: int
    points: int
    uncertainty: float | None
    measurements: int
    spent_s: float
    remaining_s: float | None


@dataclass
class _Progress:
    """What was measured of one kind."""

    lesson: Lesson
    measured: dict[Point, list[Measurement]] = field(default_factory=dict)
    failed: dict[Point, str] = field(default_factory=dict)
    spent_s: float = 0.0
    fit: KindFit | None = None
    ended: str | None = None

    @property
    def taken(self) -> int:
        return len(self.measured) + len(self.failed)


class Campaign:
    """The paper's method as ask and tell.

    Args:
        plan: the kinds to learn, in the order of the equations.
        rules: end conditions and guide.
    """

    def __init__(self, plan: Sequence[Lesson], rules: Rules) -> None:
        self.rules = rules
        self._progress = {lesson.kind: _Progress(lesson) for lesson in plan}
        self._uncertainty: dict[Kind, float] = {}

    def ask(self) -> Variant | None:
        """The next network to measure, or None when every kind has met an end condition."""
        for progress in self._progress.values():
            point = self._next_point(progress)
            if point is not None:
                return progress.lesson.variant(point)
        return None

    def tell(self, measurement: Measurement) -> bool:
        """Takes a measurement in; False where it is of none of the campaign's networks."""
        variant = measurement.workload
        subject = (
            next((b for b in variant.blocks if b.name == "subject"), None) if isinstance(variant, Variant) else None
        )
        progress = self._progress.get(subject.kind) if subject else None
        if progress is None or subject is None or progress.lesson.variant(subject.point) != variant:
            return False
        progress.spent_s += measurement.cost_s
        if measurement.infeasible is not None:
            progress.failed[subject.point] = measurement.infeasible
        else:
            progress.measured.setdefault(subject.point, []).append(measurement)
        self._forget(subject.kind)
        return True

    def fits(self) -> tuple[KindFit, ...]:
        """What is known so far; kinds without a measurement are missing."""
        known = (self._fit(progress) for progress in self._progress.values())
        return tuple(fit for fit in known if fit is not None)

    def complete(self) -> bool:
        """Whether every kind met an end condition and has a fit."""
        return self.ask() is None and len(self.fits()) == len(self._progress)

    def failures(self) -> list[str]:
        """Points that could not be measured, with their reasons."""
        return [
            f"{progress.lesson.kind.id}{list(point)}: {reason}"
            for progress in self._progress.values()
            for point, reason in progress.failed.items()
        ]

    def status(self) -> Status:
        """Where the campaign stands."""
        order = list(self._progress.values())
        index = next((i for i, p in enumerate(order) if self._next_point(p) is not None), len(order) - 1)
        current = order[index]
        spent, taken = sum(p.spent_s for p in order), sum(p.taken for p in order)
        unfinished = [p for p in order if p.ended is None]
        most = sum(max(0, self.rules.points - p.taken) for p in unfinished)
        least = sum(max(0, len(bounds(p.lesson.domain)) - p.taken) for p in unfinished)
        each_s = spent / taken if taken else None
        remaining = each_s * most if each_s is not None else None
        if each_s is not None and self.rules.budget_s is not None:
            remaining = max(each_s * least, min(each_s * most, self.rules.budget_s - spent))
        return Status(
            kind=f"{current.lesson.kind.role} {current.lesson.kind.label}",
            kind_index=index + 1,
            kinds=len(order),
            points=current.taken,
            uncertainty=self._uncertainty.get(current.lesson.kind),
            measurements=taken,
            spent_s=spent,
            remaining_s=remaining,
        )

    def _next_point(self, progress: _Progress) -> Point | None:
        """The kind's next point; None, with the reason kept, when it has met an end condition."""
        if progress.ended is not None:
            return None
        domain = progress.lesson.domain
        taken = {*progress.measured, *progress.failed}
        for corner in bounds(domain):
            if corner not in taken:
                return corner
        fit = self._fit(progress)
        if fit is None:
            progress.ended = "infeasible"
            return None
        point, deviation = most_uncertain(fit, candidates(domain), taken, self.rules.guide)
        values = (fit.energy if self.rules.guide is Quantity.ENERGY else fit.time).values
        uncertainty = deviation / abs(sum(values) / len(values))
        self._uncertainty[progress.lesson.kind] = uncertainty
        if uncertainty < self.rules.precision and progress.taken >= self.rules.least:
            progress.ended = "precise"
        elif progress.taken >= self.rules.points:
            progress.ended = "points"
        elif point is None:
            progress.ended = "exhausted"
        elif progress.spent_s >= self._share_s(progress):
            progress.ended = "budget"
        return point if progress.ended is None else None

    def _share_s(self, progress: _Progress) -> float:
        """The kind's share of what is left of the budget, by the number of its bounds."""
        if self.rules.budget_s is None:
            return float("inf")
        order = list(self._progress.values())
        index = order.index(progress)
        left = self.rules.budget_s - sum(p.spent_s for p in order[:index])
        weights = [len(bounds(p.lesson.domain)) for p in order[index:]]
        return left * weights[0] / sum(weights)

    def _fit(self, progress: _Progress) -> KindFit | None:
        """The kind's fit to its measurements minus the predicted companions."""
        if progress.fit is None and progress.measured:
            lesson = progress.lesson
            companions = [self._fit(self._progress[k]) for k in (lesson.feeder, lesson.reader) if k is not None]
            if any(fit is None for fit in companions):
                return None
            known = {fit.kind: fit for fit in companions if fit is not None}
            taken = [(point, m) for point, several in progress.measured.items() for m in several]
            points = [point for point, _ in taken]
            energy, duration = (
                learn(lesson.domain, points, *_subtract([m for _, m in taken], known, quantity))
                for quantity in (Quantity.ENERGY, Quantity.TIME)
            )
            progress.fit = KindFit(lesson.kind, lesson.domain, tuple(points), energy, duration)
        return progress.fit

    def _forget(self, kind: Kind) -> None:
        """Drops the kind's fit, and those that subtract it."""
        for progress in self._progress.values():
            if kind in (progress.lesson.kind, progress.lesson.feeder, progress.lesson.reader):
                again = progress.fit is not None and progress.lesson.kind != kind
                progress.fit = progress.ended = None
                if again:
                    self._forget(progress.lesson.kind)


def _subtract(
    measurements: Sequence[Measurement], known: dict[Kind, KindFit], quantity: Quantity
) -> tuple[list[float], list[float]]:
    """The subjects' own values and their noise variances: the wholes minus the predicted companions."""
    energy = quantity is Quantity.ENERGY
    wholes = [m.energy_j if energy else m.time_s for m in measurements]
    errors = [m.energy_std_j if energy else m.time_std_s for m in measurements]
    relative = _pooled([e / whole for e, whole in zip(errors, wholes, strict=True)], len(measurements[0].windows))
    values, variances = [], []
    for measurement, whole in zip(measurements, wholes, strict=True):
        value, variance = whole, (relative * whole) ** 2
        assert isinstance(measurement.workload, Variant)
        for block in measurement.workload.blocks:
            if block.name != "subject":
                fit = known[block.kind]
                process, at = fit.process(quantity), fit.unit([block.point])
                value -= float(process.mean(at))
                variance += float(process.variance(at))
        values.append(value)
        variances.append(variance)
    return values, variances


def _pooled(errors: Sequence[float], windows: int) -> float:
    """One relative standard error for all: two or three windows say too little about their own spread.

    The median does not mind an outlier; that of a chi-squared of k = windows − 1 degrees is (1 − 2/9k)³ of its mean.
    """
    median_to_mean = (1 - 2 / (9 * max(1, windows - 1))) ** 3
    return math.sqrt(statistics.median(error**2 for error in errors) / median_to_mean)


def profile(
    spec: ModelSpec,
    *,
    device: Device | str = "cpu",
    ranges: Sequence[WidthRange] | None = None,
    rules: Rules | None = None,
    log: str | Path | None = None,
    method: str = "paper",
    observe: Callable[[Status], None] = lambda status: None,
    budget_s: float | None = None,
) -> Profile:
    """Profiles what a model is made of on a device, and fits it.

    Args:
        spec: the parsed model, at its largest widths.
        device: an open device, or a name such as `cpu` (opened and closed here).
        ranges: for each block but the last, the widths to cover; by default from 1 to the model's own.
        rules: end conditions and guide.
        log: where each measurement is kept; what it already holds is taken in, not measured again.
        method: `paper`.
        observe: called with the campaign's status after each measurement.
        budget_s: short for `rules=Rules(budget_s=…)`.

    Returns:
        The profile; marked incomplete where it was interrupted (Ctrl-C) or a kind could not be measured.
    """
    if method not in METHODS:
        raise RequestError(f"no method is called {method!r}", f"choose from {', '.join(METHODS)}")
    if rules is None:
        rules = Rules(budget_s=budget_s)
    opened = open_device(device) if isinstance(device, str) else device
    try:
        return _run(spec, Campaign(lessons(spec, ranges), rules), opened, log, method, observe)
    finally:
        if isinstance(device, str):
            opened.close()


def _run(
    spec: ModelSpec,
    campaign: Campaign,
    device: Device,
    log: str | Path | None,
    method: str,
    observe: Callable[[Status], None],
) -> Profile:
    kept = MeasurementLog(Path(log)) if log is not None else None
    for measurement in kept.read() if kept else ():
        same_setting(measurement, device.info, device.meter)
        campaign.tell(measurement)
    interrupted = False
    try:
        observe(campaign.status())
        while (variant := campaign.ask()) is not None:
            measurement = device.measure(variant, POINT)
            if kept:
                kept.append(measurement)
            campaign.tell(measurement)
            observe(campaign.status())
    except KeyboardInterrupt:
        interrupted = True
    status = campaign.status()
    if not campaign.fits():
        if interrupted:
            raise KeyboardInterrupt
        raise DeviceError(f"nothing ran: {campaign.failures()[0]}", "try a smaller batch or model")
    return Profile(
        model=spec.name,
        method=method,
        device=device.info,
        meter=device.meter,
        training=spec.training,
        complete=not interrupted and campaign.complete(),
        measurements=status.measurements,
        profile_s=status.spent_s,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        kinds=campaign.fits(),
    )
