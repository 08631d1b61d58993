"""The guided campaign: time densely, meter sparsely, and ask for what teaches most about whole models per second.

It opens with a fixed design, in shuffled order so that drift is not mistaken for width: every kind timed at its bounds
and at a few widths in between, metered at three of them, and some whole members metered, which alone can tell what
blocks cost in company. Then rounds of the most telling measurements (`guide`) over a sample of the family's members,
until their intervals are narrow enough, the time is spent, or the points are.

All choices follow from the records alone, in their order, so a killed campaign resumes where it was.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ampere_energy.fit.acquire import bounds
from ampere_energy.fit.guide import Offer, best, widest
from ampere_energy.fit.learn import learn
from ampere_energy.fit.nets import Net, NetFit, Observation, Subject
from ampere_energy.fit.rules import Request, Rule, Rules, Status
from ampere_energy.measure.measurement import Measurement, Record, Timing, Window, durations, energies, pooled_error
from ampere_energy.model.blocks import Block, Kind, ModelSpec, Point
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Domain, Variant, WidthRange, alone, block_domains, member

QUESTIONS = 48
ROUND = 16
REACH_90 = 1.645
_INSIDE = 10
_WHOLE = 2
_TRIED = 20
_TRIED_WHOLE = 20
_TIMINGS = 5
_GROWTH = 1.25
_USUAL_COST = {True: 2.0, False: 0.1}


class Guided:
    """The guided campaign as ask and tell.

    Args:
        spec: the parsed model, at its largest widths.
        ranges: for each block but the last, the widths to cover.
        rules: end conditions and rule.
        captures: blocks of eager steps are metered as captured graphs, which shows what the device takes alone.
    """

    def __init__(self, spec: ModelSpec, ranges: Sequence[WidthRange] | None, rules: Rules, captures: bool) -> None:
        self.spec, self.rules, self.captures = spec, rules, captures
        if ranges is None:
            ranges = [WidthRange(1, block.width_out) for block in spec.blocks[:-1]]
        self.ranges = ranges
        self.domains = block_domains(spec, ranges)
        self.kinds = list(self.domains)
        self.subjects = tuple(subject(kind, domain) for kind, domain in self.domains.items())
        draw = random.Random(f"questions:{spec.name}")
        widths = [[r[draw.randrange(len(r))] for r in ranges] for _ in range(QUESTIONS)]
        largest = [r.high for r in ranges]
        self._wholes = list(dict.fromkeys(member(spec, w) for w in (largest, *widths[: _WHOLE - 1])))
        self.questions = [self.net(member(spec, w)) for w in widths]
        self._opening = self._design()
        self._records: list[tuple[Net, Record]] = []

    def ask(self) -> Request | None:
        """The next network to measure, or None when an end condition is met."""
        n = len(self._records)
        if n < len(self._opening):
            essential = n < self._essential or not self._spent()
            return self._opening[n] if essential else None
        start = self._start(n)
        if (
            self._spent()
            or self._used_up()
            or not self._known(start)
            or self._uncertainty(start) < self.rules.precision
        ):
            return None
        chosen = self._round(start)
        return chosen[n - start] if n - start < len(chosen) else None

    def tell(self, record: Record) -> bool:
        """Takes a record in; False where it is of none of the campaign's kinds."""
        workload = record.workload
        if not isinstance(workload, Variant) or any(
            self._original(b.kind) not in self.domains for b in workload.blocks
        ):
            return False
        self._records.append((self.net(workload), record))
        return True

    def add(self, blocks: Sequence[Block], record: Record) -> None:
        """Takes in a record of a whole model made of blocks of known kinds."""
        self._records.append((tuple((self.kinds.index(b.kind), b.point) for b in blocks), record))

    def fit(self) -> NetFit | None:
        """What is known now; None while a kind lacks a metering or a second timing."""
        return self._learn(len(self._records), fresh=True) if self._known(len(self._records)) else None

    def complete(self) -> bool:
        """Whether an end condition was met with every kind known."""
        return self.ask() is None and self._known(len(self._records))

    def failures(self) -> list[str]:
        """What could not be measured, with reasons."""
        return [f"{record.workload}: {record.infeasible}" for _, record in self._records if record.infeasible]

    @lru_cache(maxsize=2)  # noqa: B019 - lives as long as the campaign
    def _uncertainty(self, count: int) -> float:
        """Half the 90 % interval of a member's energy, as a share, the mean over the questions."""
        variances = np.diagonal(self._learn(count).posterior(self.questions))[QUESTIONS:]
        return float(np.mean(REACH_90 * np.sqrt(np.maximum(variances, 0.0))))

    def _start(self, count: int) -> int:
        """How many records there were when the current round began."""
        return len(self._opening) + (count - len(self._opening)) // ROUND * ROUND

    def _used_up(self) -> bool:
        """Whether as many networks were metered, or timed, as the rules allow."""
        meterings = sum(isinstance(record, Measurement) for _, record in self._records)
        most = self.rules.points * len(self.kinds)
        return meterings >= most or len(self._records) - meterings >= _TIMINGS * most

    def status(self) -> Status:
        """Where the campaign stands."""
        n = len(self._records)
        spent = sum(record.cost_s for _, record in self._records)
        meterings = sum(isinstance(record, Measurement) for _, record in self._records)
        known = n >= len(self._opening) and self._known(n)
        each_s = spent / meterings if meterings else None
        most = self.rules.points * len(self.kinds) - meterings
        remaining = each_s * most if each_s is not None else None
        if remaining is not None and self.rules.budget_s is not None:
            remaining = max(0.0, min(remaining, self.rules.budget_s - spent))
        rounds = max(0, n - len(self._opening)) // ROUND
        return Status(
            doing="the opening" if n < len(self._opening) else "the most telling networks",
            unit="round",
            index=1 + rounds + (n >= len(self._opening)),
            of=None,
            points=n,
            uncertainty=self._uncertainty(self._start(n)) if known else None,
            measurements=n,
            spent_s=spent,
            remaining_s=remaining,
        )

    def net(self, variant: Variant) -> Net:
        """A variant as the fit sees it."""
        return tuple((self.kinds.index(self._original(block.kind)), block.point) for block in variant.blocks)

    def observations(self, count: int) -> list[Observation]:
        """The first records, as the fit sees them."""
        metered = [r for _, r in self._records[:count] if isinstance(r, Measurement) and r.infeasible is None]
        error = (
            pooled_error([m.energy_std_j / m.energy_j for m in metered], len(metered[0].windows)) if metered else 0.0
        )
        eager = self.spec.training.mode is Mode.EAGER
        found = (observation(net, record, error, eager) for net, record in self._records[:count])
        return [o for o in found if o is not None]

    def _original(self, kind: Kind) -> Kind:
        """The kind whose captured twin was measured."""
        return replace(kind, training=self.spec.training) if self.captures else kind

    def _design(self) -> list[Request]:
        """The opening: what every kind needs first, then whole members and more; each part shuffled."""
        draw = random.Random(f"opening:{self.spec.name}")
        timed: list[Request] = []
        metered: list[Request] = []
        for kind, domain in self.domains.items():
            corners = bounds(domain)
            inside = [tuple(r[draw.randrange(len(r))] for r in domain) for _ in range(_INSIDE * len(domain))]
            points = list(dict.fromkeys((*corners, *inside)))
            looked = list(dict.fromkeys((corners[0], corners[-1], *inside[:1])))
            metered += [Request(self._block(kind, point), True) for point in looked]
            if self.rules.timings:
                timed += [Request(self._block(kind, point), False) for point in points]
            else:
                metered += [Request(self._block(kind, point), True) for point in points if point not in looked]
        wholes = [Request(whole, True) for whole in self._wholes]
        draw.shuffle(timed)
        draw.shuffle(metered)
        self._essential = len(timed) + len(metered)
        return [*timed, *metered, *wholes]

    def _block(self, kind: Kind, point: Point) -> Variant:
        twin = replace(kind, training=replace(kind.training, mode=Mode.GRAPH)) if self.captures else kind
        return alone(twin, point)

    def _spent(self) -> bool:
        spent = sum(record.cost_s for _, record in self._records)
        return self.rules.budget_s is not None and spent >= self.rules.budget_s

    def _known(self, count: int) -> bool:
        """Whether every kind was metered, and seen at two points, by itself."""
        seen: dict[int, list[bool]] = {}
        for net, record in self._records[:count]:
            if len(net) == 1 and record.infeasible is None:
                seen.setdefault(net[0][0], []).append(isinstance(record, Measurement))
        return len(seen) == len(self.kinds) and all(any(own) and len(own) > 1 for own in seen.values())

    def _learn(self, count: int, fresh: bool = False) -> NetFit:
        """The fit to the first records; hyperparameters are learnt anew only when a quarter more are in."""
        if fresh:
            return learn(self.subjects, self.observations(count), idle_w=self._idle_w(count))
        stage = len(self._opening)
        while stage * _GROWTH <= count:
            stage = max(stage + 1, int(stage * _GROWTH))
        return self._cached(count, min(stage, count))

    @lru_cache(maxsize=4)  # noqa: B019 - lives as long as the campaign
    def _cached(self, count: int, stage: int) -> NetFit:
        before = (
            learn(self.subjects, self.observations(stage), iterations=25)
            if count == stage
            else self._cached(stage, stage)
        )
        if count == stage:
            return before
        return learn(self.subjects, self.observations(count), before=before, iterations=0)

    def _idle_w(self, count: int) -> float | None:
        watts = [r.idle_w for _, r in self._records[:count] if isinstance(r, Measurement) and r.idle_w is not None]
        return float(np.median(watts)) if watts else None

    @lru_cache(maxsize=2)  # noqa: B019
    def _round(self, start: int) -> tuple[Request, ...]:
        """What to measure after the first `start` records."""
        known, draw = self._learn(start), random.Random(f"round:{self.spec.name}:{start}")
        failed = {net for net, record in self._records[:start] if record.infeasible}
        taken = {(net, isinstance(r, Measurement)) for net, r in self._records[:start]}
        costs = self._costs(start)
        requests: dict[tuple[Net, bool], Request] = {}
        for index, (kind, domain) in enumerate(self.domains.items()):
            points = [tuple(r[draw.randrange(len(r))] for r in domain) for _ in range(_TRIED)]
            points += [net[0][1] for net, _ in self._records[:start] if len(net) == 1 and net[0][0] == index][-_TRIED:]
            for point in dict.fromkeys(points):
                for metered in (True, False) if self.rules.timings else (True,):
                    if ((index, point),) not in failed and (((index, point),), metered) not in taken:
                        requests[((index, point),), metered] = Request(self._block(kind, point), metered)
        for widths in ([r[draw.randrange(len(r))] for r in self.ranges] for _ in range(_TRIED_WHOLE)):
            whole = member(self.spec, widths)
            if self.net(whole) not in failed and (self.net(whole), True) not in taken:
                requests[self.net(whole), True] = Request(whole)
        offers = [Offer(net, metered, costs[metered]) for net, metered in sorted(requests)]
        single = self.rules.rule is not Rule.MEMBERS
        fitting = [offer for offer in offers if (len(offer.net) == 1) is single]
        if self.rules.rule is Rule.GUIDED:
            chosen = best(known, self.questions, offers, ROUND)
        elif self.rules.rule is Rule.VARIANCE:
            chosen = widest(known, fitting, ROUND)
        else:
            chosen = draw.sample(fitting, min(ROUND, len(fitting)))
        return tuple(requests[offer.net, offer.metered] for offer in chosen)

    def _costs(self, count: int) -> dict[bool, float]:
        """Seconds a metering and a timing of a block take."""
        found = dict(_USUAL_COST)
        for metered in found:
            own = [
                r.cost_s for net, r in self._records[:count] if isinstance(r, Measurement) is metered and len(net) == 1
            ]
            if own and sum(own) > 0:
                found[metered] = sum(own) / len(own)
        return found


def subject(kind: Kind, domain: Domain) -> Subject:
    """A kind as the fit sees it."""
    return Subject(kind.id, kind.work, kind.structure, domain, f"{kind.role} {kind.label}")


def observation(net: Net, record: Record, energy_error: float, eager: bool) -> Observation | None:
    """A record as the fit sees it; None where nothing ran. Only eager steps wait for the host."""
    if record.infeasible is not None:
        return None
    if isinstance(record, Timing):
        assert record.device_s is not None
        return Observation(net, record.device_s, None, 0.0, host_s=record.host_s if eager else None)
    windows = record.busy or record.windows
    time_s, energy_j = _median(durations, windows), _median(energies, windows)
    error = record.time_std_s / record.time_s
    if not (eager and record.busy):
        return Observation(net, time_s, energy_j, error, energy_error)
    return Observation(net, time_s, energy_j, error, energy_error, record.host_s, record.time_s)


def _median(values: object, windows: Sequence[Window]) -> float:
    return float(np.median(values(windows)))  # type: ignore[operator]
