"""The paper's campaign: kind after kind, each minus its predicted companions.

Output kinds first, then input kinds minus the predicted output (eq. 1), then hidden kinds minus both (eq. 2), each with
Gaussian processes of its own and the paper's rules for the next point and the end. The campaign's state follows from
the measurements alone, so a killed one resumes from its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ampere_energy.campaign.paper_acquisition import most_uncertain
from ampere_energy.campaign.points import bounds, candidates
from ampere_energy.campaign.rules import PRECISE, Request, Rules, Status
from ampere_energy.cost_model.per_kind import KindFit, Quantity, learn
from ampere_energy.measurement.records import Measurement, Record, pooled_error
from ampere_energy.model.kinds import Kind, Point
from ampere_energy.model.variants import Lesson, Variant


@dataclass
class _Progress:
    """What was measured of one kind."""

    lesson: Lesson
    measured: dict[Point, list[Measurement]] = field(default_factory=dict)
    failed: dict[Point, str] = field(default_factory=dict)
    skipped: dict[Point, str] = field(default_factory=dict)
    spent_s: float = 0.0
    fit: KindFit | None = None
    before: KindFit | None = None
    ended: str | None = None

    @property
    def taken(self) -> int:
        return len(self.measured) + len(self.failed)


class Subtracting:
    """The paper's method as ask and tell.

    Args:
        plan: the kinds to learn, in the order of the equations.
        rules: end conditions and guide.
    """

    def __init__(self, plan: Sequence[Lesson], rules: Rules) -> None:
        self.rules = rules
        self._progress = {lesson.kind: _Progress(lesson) for lesson in plan}
        self._uncertainty: dict[Kind, float] = {}

    def ask(self) -> Request | None:
        """The next network to measure, or None when every kind has met an end condition."""
        for progress in self._progress.values():
            point = self._next_point(progress)
            if point is not None:
                return Request(progress.lesson.variant(point))
        return None

    def tell(self, measurement: Record) -> bool:
        """Takes a measurement in; False where it is of none of the campaign's networks."""
        if not isinstance(measurement, Measurement):
            return False
        variant = measurement.workload
        subject = (
            next((b for b in variant.blocks if b.name == "subject"), None) if isinstance(variant, Variant) else None
        )
        kind = subject.kind if subject else None
        progress = self._progress.get(kind) if isinstance(kind, Kind) else None
        if progress is None or subject is None or progress.lesson.variant(subject.point) != variant:
            return False
        progress.spent_s += measurement.cost_s
        if measurement.infeasible is not None:
            progress.failed[subject.point] = measurement.infeasible
        else:
            progress.measured.setdefault(subject.point, []).append(measurement)
        self._forget(progress.lesson.kind)
        self._fit(progress)  # now, so that each fit starts from the one before, also when a log is taken in again
        return True

    def skip(self, request: Request, reason: str) -> None:
        """Leaves a network out in this run: each attempt to measure it failed."""
        assert isinstance(request.workload, Variant)
        subject = next(block for block in request.workload.blocks if block.name == "subject")
        assert isinstance(subject.kind, Kind)
        self._progress[subject.kind].skipped[subject.point] = reason

    def fits(self) -> tuple[KindFit, ...]:
        """What is known so far; kinds without a measurement are missing."""
        known = (self._fit(progress) for progress in self._progress.values())
        return tuple(fit for fit in known if fit is not None)

    def complete(self) -> bool:
        """Whether every kind met an end condition and has a fit."""
        skipped = any(progress.skipped for progress in self._progress.values())
        return not skipped and self.ask() is None and len(self.fits()) == len(self._progress)

    def failures(self) -> list[str]:
        """Points that could not be measured, with their reasons."""
        return [
            f"{progress.lesson.kind.id}{list(point)}: {reason}"
            for progress in self._progress.values()
            for point, reason in (progress.failed | progress.skipped).items()
        ]

    def status(self) -> Status:
        """Where the campaign stands."""
        order = list(self._progress.values())
        index = next((i for i, p in enumerate(order) if self._next_point(p) is not None), len(order) - 1)
        current = order[index]
        spent, taken = sum(p.spent_s for p in order), sum(p.taken for p in order)
        unfinished = [p for p in order if p.ended is None]
        most = sum(max(0, self.rules.most - p.taken) for p in unfinished)
        least = sum(max(0, len(bounds(p.lesson.domain)) - p.taken) for p in unfinished)
        each_s = spent / taken if taken else None
        remaining = each_s * most if each_s is not None else None
        if each_s is not None and self.rules.budget_s is not None:
            remaining = max(each_s * least, min(each_s * most, self.rules.budget_s - spent))
        return Status(
            doing=f"{current.lesson.kind.role} {current.lesson.kind.label}",
            unit="kind",
            index=index + 1,
            of=len(order),
            points=current.taken,
            uncertainty=self._uncertainty.get(current.lesson.kind),
            measurements=taken,
            spent_s=spent,
            remaining_s=remaining,
            skipped=tuple(
                f"{p.lesson.kind.id}{list(point)}: {reason}" for p in order for point, reason in p.skipped.items()
            ),
        )

    def _next_point(self, progress: _Progress) -> Point | None:
        """The kind's next point; None, with the reason kept, when it has met an end condition."""
        if progress.ended is not None:
            return None
        domain = progress.lesson.domain
        taken = {*progress.measured, *progress.failed, *progress.skipped}
        for corner in bounds(domain):
            if corner not in taken:
                return corner
        fit = self._fit(progress)
        if fit is None:
            progress.ended = "infeasible"
            return None
        point, deviation = most_uncertain(fit, candidates(domain), taken, self.rules.guide)
        values = (fit.energy if self.rules.guide is Quantity.ENERGY else fit.time).values
        usual = abs(sum(values) / len(values))
        uncertainty = deviation / usual if usual else float("inf")
        self._uncertainty[progress.lesson.kind] = uncertainty
        if uncertainty < (self.rules.precision or PRECISE) and progress.taken >= self.rules.least:
            progress.ended = "precise"
        elif progress.taken >= self.rules.most:
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
            before = progress.before
            energy, duration = (
                learn(lesson.domain, points, *_subtract([m for _, m in taken], known, quantity), earlier)
                for quantity, earlier in (
                    (Quantity.ENERGY, before.energy if before else None),
                    (Quantity.TIME, before.time if before else None),
                )
            )
            progress.fit = progress.before = KindFit(lesson.kind, lesson.domain, tuple(points), energy, duration)
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
    relative = pooled_error([e / whole for e, whole in zip(errors, wholes, strict=True)], len(measurements[0].windows))
    values, variances = [], []
    for measurement, whole in zip(measurements, wholes, strict=True):
        value, variance = whole, (relative * whole) ** 2
        assert isinstance(measurement.workload, Variant)
        for block in measurement.workload.blocks:
            if block.name != "subject" and isinstance(block.kind, Kind):
                fit = known[block.kind]
                process, at = fit.process(quantity), fit.unit([block.point])
                value -= float(process.mean(at)[0])
                variance += float(process.variance(at)[0])
        values.append(value)
        variances.append(variance)
    return values, variances
