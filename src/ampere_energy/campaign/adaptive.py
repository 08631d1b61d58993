"""The guided campaign: time densely, meter sparsely, and ask for what teaches most about whole models per second.

It opens with a fixed design (`opening`). Then rounds of the most telling measurements (`batch_planner`, `acquisition`)
over a sample of the family's networks, until intervals are narrow enough, the time is spent, or the points are. Where a
kind is slow at some widths, some timings look for all of them, one after another (`slow_region_search`).

All choices follow from the records alone, in their order, so a killed campaign resumes where it was. What is asked for
is the first request of the opening, or of the round, that no record answers: records of other requests, or more of the
same, are taken in and take no request's place.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ampere_energy.campaign.batch_planner import BatchPlanner, Chosen, failed
from ampere_energy.campaign.measured import Measured
from ampere_energy.campaign.opening import Opening, opening
from ampere_energy.campaign.rules import Request, Rules, Status
from ampere_energy.campaign.scope import Key, Scope
from ampere_energy.campaign.slow_region_search import next_search
from ampere_energy.campaign.unanswered import Unanswered, answered
from ampere_energy.cost_model.fitting import learn
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.slow_regions import slow_blocks
from ampere_energy.measurement.records import Measurement, Record
from ampere_energy.measurement.workloads import manner
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.source import ModelRef
from ampere_energy.model.structures import Structure
from ampere_energy.model.variants import spec_ranges
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import MOST_POINTS

QUESTIONS = 96
"""Networks whose estimates matter: of half as many, the campaign would learn those very widths, and not the rest."""
EVEN_QUESTIONS = 24
"""Networks with round widths that a part of each round is for, where timings are cheap enough to spare some."""
BATCH = 16
REACH_90 = 1.645
_TIMINGS = 5
_REPEATS = 4
"""How often a block is metered at most, where a model is profiled as it is and nothing else limits that."""
_GROWTH = 1.5
_TRAININGS = 10
"""How often a model that is profiled as it is, is trained itself before the scatter of its trainings is known."""
_TIMED = 128
_STEPS, _LEARNT_FROM = 25, 320
"""While measuring, hyperparameters are learnt in fewer steps, from fewer timings: the device waits meanwhile."""
_LATER = 512
"""Measurements that a profile has room for when its campaign ends: refining and whole models add to it."""
_AFAR = 4
"""Of so many looks for slow widths one is far from known boxes, also while these have edges that are not known."""


class Guided:
    """The guided campaign as ask and tell.

    Args:
        spec: the parsed model, at its largest widths.
        ranges: the values to cover of each of the model's widths.
        rules: end conditions and rule.
        meters_graphs: blocks of eager steps are metered as CUDA graphs, which shows what the device takes alone.
        ref: how to build whole networks of a model that is no chain of recipes.
        elapsed: seconds since the campaign began, of which what it thinks takes some too.
        more: further structures of the same factory.
    """

    def __init__(
        self,
        spec: ModelSpec,
        ranges: Sequence[WidthRange] | None,
        rules: Rules,
        meters_graphs: bool,
        ref: ModelRef | None = None,
        elapsed: Callable[[], float] = lambda: 0.0,
        more: Sequence[Structure] = (),
    ) -> None:
        self.scope = Scope(spec, spec_ranges(spec) if ranges is None else ranges, meters_graphs, ref, tuple(more))
        self.rules, self._elapsed = rules, elapsed
        rng = random.Random(f"questions:{spec.name}")
        members = [self.scope.random_widths(rng) for _ in range(QUESTIONS)]
        self.questions = list(dict.fromkeys(self.scope.net_at(widths, which) for which, widths in members))
        evened = map(self.scope.even, members[:: QUESTIONS // EVEN_QUESTIONS])
        even = dict.fromkeys(self.scope.net_at(widths, which) for which, widths in evened)
        self.even_questions = [net for net in even if net not in self.questions]
        self.open_with(opening(self.scope, members, rules.timings))
        self.measured = Measured(self.scope)
        self._opened: int | None = None
        self._skipped: dict[Key, str] = {}
        self._cut: dict[int, int] = {}

    def open_with(self, design: Opening) -> None:
        """Makes this the design that the campaign opens with; before anything was measured."""
        self.opening = design
        self._left = Unanswered(enumerate(map(self._key, design.requests)))

    def ask(self) -> Request | None:
        """The next network to measure, or None when an end condition is met."""
        if self._open:
            return self._next_of_opening()
        while True:
            n = len(self.measured)
            start = self._start(n)
            if self._spent() or self._used_up() or not self.measured.all_kinds(start):
                return None
            if self._uncertainty(start) < self.rules.precise and self._scatter_known():
                return None
            request = self._next_of_batch(start, n)
            if request is None or self._key(request) not in self._skipped:
                return request
            if start == n:  # of a whole round nothing can be measured in this run
                return None
            self._cut[start] = n

    def _next_of_opening(self) -> Request | None:
        """The first request without a record; where the time is spent, only of what every kind needs."""
        essential = self._left.first < self.opening.essential or not self._spent()
        return self.opening.requests[self._left.first] if essential else None

    def _next_of_batch(self, start: int, n: int) -> Request | None:
        """The first request of a round without a record; None where there is none left to ask for."""
        chosen = self._batch(start)
        done = answered(self._batch_keys(start), chosen.searches, self.measured.keys[start:])
        left: list[Request] = []
        for place, request in enumerate(chosen.requests):
            if place in done:
                continue
            searched = self._search_request(start, n) if place in chosen.searches else None
            request = searched or request
            if self._key(request) not in self._skipped:
                return request
            left.append(request)
        return left[0] if left else None

    def _key(self, request: Request) -> Key:
        key = self.scope.key(request.workload, request.metered)
        assert key is not None, "a campaign asks for what it is about"
        return key

    def tell(self, record: Record) -> bool:
        """Takes a record in; False where it is of none of the campaign's kinds."""
        key = self.scope.key(record.workload, isinstance(record, Measurement))
        if key is None:
            return False
        self._keep(key, record)
        return True

    def add(self, blocks: Sequence[Block], record: Record) -> None:
        """Takes in a record of a whole model made of blocks of known kinds."""
        net = tuple((self.scope.kinds.index(b.kind), b.point) for b in blocks)
        self._keep((net, manner(record.workload, isinstance(record, Measurement))), record)

    def skip(self, request: Request, reason: str) -> None:
        """Leaves a network out in this run: each attempt to measure it failed."""
        key = self._key(request)
        self._skipped[key] = f"{request.workload}: {reason}"
        self._left.drop(key)
        self._note_opened()

    def _keep(self, key: Key, record: Record) -> None:
        self.measured.add(key, record)
        self._left.answer(key)
        self._note_opened()

    def _note_opened(self) -> None:
        if self._opened is None and not self._left:
            self._opened = len(self.measured)

    @property
    def _open(self) -> bool:
        """Whether the opening goes on; the first round begins when nothing of it is left."""
        return self._opened is None

    def fit(self, before: JointFit | None = None) -> JointFit | None:
        """What is known now; None while a kind lacks a metering or a second timing.

        Args:
            before: a fit to go on from, after a few more measurements.
        """
        count = len(self.measured)
        if not self.measured.all_kinds(count):
            return None
        seen, idle_w = self.measured.observations(count), self.measured.idle_w(count)
        if before is None:
            return learn(self.scope.subjects, seen, idle_w=idle_w, cached=self.measured.on_processor)
        return learn(
            self.scope.subjects,
            seen,
            idle_w=idle_w,
            cached=self.measured.on_processor,
            before=before,
            iterations=_STEPS,
        )

    def complete(self) -> bool:
        """Whether an end condition was met with every kind known."""
        return not self._skipped and self.ask() is None and self.measured.all_kinds(len(self.measured))

    def failures(self) -> list[str]:
        """What could not be measured, with reasons."""
        infeasible = [
            f"{record.workload}: {record.infeasible}" for _, record in self.measured.records if record.infeasible
        ]
        return [*infeasible, *self._skipped.values()]

    @lru_cache(maxsize=2)  # noqa: B019 - lives as long as the campaign
    def _uncertainty(self, count: int) -> float:
        """Half the 90 % interval of a network's energy, as a share, the mean over the questions.

        With a budget it is the interval that an estimate states, in which measurements scatter: that is what the time
        given is for. Without one a campaign on a device that never repeats itself would not end.
        """
        known = self._learn(count)
        variances = np.diagonal(known.log_covariance(self.questions))[len(self.questions) :]
        if self.rules.budget_s is not None:
            variances = variances + known.repeats_var
        return float(np.mean(REACH_90 * np.sqrt(np.maximum(variances, 0.0))))

    def _scatter_known(self) -> bool:
        """Whether the model itself was trained often enough, where there is a budget, to tell how trainings differ.

        A few that happen to agree would make an interval that most others lie outside of.
        """
        if self.rules.budget_s is None or self.scope.itself is None:
            return True
        own = self.measured.of_itself()
        return len(own) >= _TRAININGS or any(record.infeasible for record in own)

    def _start(self, count: int) -> int:
        """How many records there were when the current round began."""
        return self._starts(count)[-1]

    def _starts(self, count: int) -> list[int]:
        """How many records there were when each round began."""
        found = [self._after_opening]
        while found[-1] < count and (after := self._end(found[-1])) <= count:
            found.append(after)
        return found

    def _end(self, start: int) -> int:
        """How many records there are when a round ends."""
        return self._cut.get(start, start + self._length(start))

    @property
    def _after_opening(self) -> int:
        """How many records there were when the opening was complete, or would be if only its own came in."""
        return len(self.opening.requests) if self._opened is None else self._opened

    def _length(self, start: int) -> int:
        """How many measurements a round asks for: more as timings pile up, of which one more tells ever less."""
        return BATCH * max(1, self.measured.timings[start] // _TIMED)

    def _used_up(self) -> bool:
        """Whether as many networks were metered as the rules allow, or timed, where no budget limits that.

        Or as many as a profile can be made of, with room for some that are measured later.
        """
        if len(self.measured) >= MOST_POINTS - _LATER:
            return True
        if (most := self._most) is None:
            return False
        return self.measured.meterings >= most or (
            self.rules.budget_s is None and self.measured.timings[-1] >= _TIMINGS * most
        )

    @property
    def _most(self) -> int | None:
        """How many networks may be metered; None for as many as the budget has room for."""
        limited = self.rules.budget_s is None or self.rules.points is not None
        most = self.rules.most if self.scope.varied or self.rules.points is not None else _REPEATS
        return most * len(self.scope.kinds) if limited else None

    def status(self) -> Status:
        """Where the campaign stands."""
        n, spent, meterings = len(self.measured), self.measured.spent_s, self.measured.meterings
        known = not self._open and self.measured.all_kinds(self._start(n))
        left_s = [] if (left := self._left_s) is None else [left]
        if self._most is not None and meterings:
            left_s.append(spent / meterings * (self._most - meterings))
        rounds = len(self._starts(n)) - 1
        return Status(
            doing="the opening" if self._open else "the most telling networks",
            unit="round",
            index=1 + rounds + (not self._open),
            of=None,
            points=n,
            uncertainty=self._uncertainty(self._start(n)) if known else None,
            measurements=n,
            spent_s=spent,
            remaining_s=max(0.0, min(left_s)) if left_s else None,
            skipped=tuple(self._skipped.values()),
        )

    def _spent(self) -> bool:
        return (left_s := self._left_s) is not None and left_s <= 0

    @property
    def _left_s(self) -> float | None:
        """What is left of the budget."""
        if self.rules.budget_s is None:
            return None
        return self.rules.budget_s - max(self.measured.spent_s, self._elapsed())

    def _learn(self, count: int) -> JointFit:
        """The fit to the first records; hyperparameters are learnt anew only when half as many more are in."""
        stage = self._after_opening
        while stage * _GROWTH <= count:
            stage = max(stage + 1, int(stage * _GROWTH))
        return self._cached(count, min(stage, count))

    @lru_cache(maxsize=4)  # noqa: B019 - lives as long as the campaign
    def _cached(self, count: int, stage: int) -> JointFit:
        before = (
            learn(
                self.scope.subjects,
                self.measured.observations(stage),
                cached=self.measured.on_processor,
                iterations=_STEPS,
                timings=_LEARNT_FROM,
            )
            if count == stage
            else self._cached(stage, stage)
        )
        if count == stage:
            return before
        return learn(self.scope.subjects, self.measured.observations(count), before=before, iterations=0)

    @lru_cache(maxsize=2)  # noqa: B019
    def _batch(self, start: int) -> Chosen:
        """What to measure after the first `start` records."""
        return self._begun(start).chosen()

    @lru_cache(maxsize=2)  # noqa: B019
    def _batch_keys(self, start: int) -> tuple[Key, ...]:
        return tuple(self._key(request) for request in self._batch(start).requests)

    def _begun(self, start: int) -> BatchPlanner:
        """The round that begins after the first `start` records."""
        records, known, length = self.measured.records[:start], self._learn(start), self._length(start)
        return BatchPlanner(self.scope, self.rules, self.questions, self.even_questions, records, known, length)

    @lru_cache(maxsize=2)  # noqa: B019
    def _search_request(self, start: int, count: int) -> Request | None:
        """A block that is timed to find the widths at which a kind is slow, by what is known now; None if none is."""
        slow = slow_blocks(self.scope.subjects, self.measured.observations(count), self._learn(start).time)
        searches = self._batch(start).searches
        known = {net[0] for net in (*failed(self.measured.records[:count]), *self._fixed(start)) if len(net) == 1}
        rng, edges = (
            random.Random(f"look:{self.scope.spec.name}:{count}"),
            (count - start - searches.start) % _AFAR > 0,
        )
        found = next_search(slow, known, list(self.scope.domains.values()), rng, edges=edges)
        return Request(self.scope.block(self.scope.kinds[found[0]], found[1]), False) if found else None

    @lru_cache(maxsize=2)  # noqa: B019
    def _fixed(self, start: int) -> tuple[Net, ...]:
        """What a round measures without a look."""
        chosen = self._batch(start)
        nets = (self.scope.net(request.workload) for request in chosen.requests[chosen.searches.stop :])
        return tuple(net for net in nets if net is not None)
