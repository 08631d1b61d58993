"""What a round of a guided campaign asks for: its parts, and what each is chosen from.

    one network's issuing          where a step may wait for the host
    a quarter for round networks   what tells most about networks of round widths, where timings are cheap
    a quarter for small kinds     what tells most among all widths of kinds that have few, until all of them are timed
    the rest                      what tells most about networks of any widths …
    … of which half the timings   give way to searches for slow widths, where a kind has some (`slow_region_search`)

What is chosen from are blocks at widths drawn by chance, where they were measured last, and whole networks, timed or
metered, each for what it costs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import assert_never

from ampere_energy.campaign.acquisition import Offer, best, widest
from ampere_energy.campaign.costs import Cost, costs, steps_s
from ampere_energy.campaign.points import EVERY, anywhere, every, rounded, size
from ampere_energy.campaign.rules import Request, Rule, Rules
from ampere_energy.campaign.scope import Scope, Widths
from ampere_energy.campaign.slow_region_search import afar
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.whole_step import may_wait
from ampere_energy.measurement.records import Measurement, Record
from ampere_energy.model.kinds import Point

_TRIED = 20
_TRIED_WHOLE = 20
_AGAIN = 4
"""How often a round may measure the same, where nothing is varied: the same few networks are all there is."""
_FEW = 128
"""Kinds of so many widths are timed at all of them."""

Requests = dict[tuple[Net, bool], Request]
"""What could be measured: by the network as the fit sees it, and whether it is metered."""


@dataclass(frozen=True)
class Chosen:
    """A round's measurements, in order, and in which places slow widths are looked for instead."""

    requests: tuple[Request, ...]
    searches: range


@dataclass(frozen=True, eq=False)
class BatchPlanner:
    """What is known when a round begins.

    Attributes:
        scope: what the campaign is about.
        rules: what guides it.
        questions: networks whose estimates are asked for …
        even_questions: … and those of round widths.
        records: all that was measured before.
        known: the fit to it.
        length: how many measurements the round has.
    """

    scope: Scope
    rules: Rules
    questions: Sequence[Net]
    even_questions: Sequence[Net]
    records: Sequence[tuple[Net, Record]]
    known: JointFit
    length: int

    def chosen(self) -> Chosen:
        """What to measure."""
        rng = random.Random(f"round:{self.scope.spec.name}:{len(self.records)}")
        points, widths = self._tried(rng)
        requests = self._requests([[*own, *self._latest(kind)] for kind, own in enumerate(points)], widths)
        offers = self.offers(requests) * (1 if self.scope.varied else _AGAIN)
        first = self.issued(rng)
        count, searches = self.length - len(first), 0
        match self.rules.rule:
            case Rule.GUIDED:
                even, small = self._even(points, widths), self._small()
                requests |= even | small
                chosen, searches = self._with_searches(self._most_informative(offers, even, small, count))
            case Rule.VARIANCE:
                chosen = widest(self.known, [offer for offer in offers if len(offer.net) == 1], count)
            case Rule.RANDOM | Rule.MEMBERS:
                single = self.rules.rule is Rule.RANDOM
                fitting = [offer for offer in offers if (len(offer.net) == 1) is single]
                chosen = rng.sample(fitting, min(count, len(fitting)))
            case _:
                assert_never(self.rules.rule)
        wanted = (*first, *(requests[offer.net, offer.metered] for offer in chosen))
        if self.scope.itself is not None:
            wanted = self._with_itself(wanted, chosen)
        return Chosen(wanted, range(len(first), len(first) + searches))

    def _with_itself(self, wanted: Sequence[Request], chosen: Sequence[Offer]) -> tuple[Request, ...]:
        """Half of the time is for the model itself, whose cost nothing else tells as well."""
        assert self.scope.itself is not None
        net = self.scope.net_at(())
        if net in self._failed:
            return tuple(wanted)
        itself, [offer] = Request(self.scope.itself, itself=True), self.offers([(net, True)])
        found, blocks_s = [itself], 0.0
        for request, block in zip(wanted, chosen, strict=True):
            if blocks_s >= offer.cost_s:
                found, blocks_s = [*found, itself], 0.0
            found.append(request)
            blocks_s += block.cost_s
        found += [itself] * (self.length - len(found))  # a short round would end the campaign, whatever its budget
        return tuple(found[: self.length])

    def _most_informative(self, offers: Sequence[Offer], even: Requests, small: Requests, count: int) -> list[Offer]:
        """What tells most: a part of it of round networks, a part of all widths of small kinds."""
        chosen = best(self.known, self.even_questions, self.offers(even), count // EVERY)
        swept = best(self.known, self.questions, self.offers(small), count // EVERY)
        chosen += [offer for offer in swept if offer not in chosen]
        rest = [offer for offer in offers if offer not in chosen]
        return chosen + best(self.known, self.questions, rest, count - len(chosen))

    def _with_searches(self, chosen: list[Offer]) -> tuple[list[Offer], int]:
        """Where a kind is slow somewhere, the half of the timings that tells least comes first: searches replace it."""
        if not self.known.slow.boxes:
            return chosen, 0
        timed = [offer for offer in chosen if not offer.metered]
        way = timed[(len(timed) + 1) // 2 :]
        return [*way, *(offer for offer in chosen if offer not in way)], len(way)

    def _tried(self, rng: random.Random) -> tuple[list[list[Point]], list[Widths]]:
        """Points of each kind and widths of networks, by chance; the model's own where its widths are not varied."""
        if not self.scope.varied:
            return [self.scope.own(kind) for kind in self.scope.kinds], []
        tried, domains = max(_TRIED, self.length), list(self.scope.domains.values())
        points = [[anywhere(domain, rng) for _ in range(tried)] for domain in domains]
        if self.rules.rule is Rule.GUIDED:
            for kind in self.known.slow.boxes:  # what is offered of it is mostly where a slow box may hide
                some = tried // EVERY
                points[kind][some:] = afar(self.known.slow, kind, domains[kind], rng, tried - some)
        return points, [self.scope.random_widths(rng) for _ in range(_TRIED_WHOLE)]

    def _even(self, points: Sequence[Sequence[Point]], networks: Sequence[Widths]) -> Requests:
        """Blocks and networks of round widths; none where timings are not cheap enough to spare some for them."""
        if not (self.rules.timings and self.even_questions):
            return {}
        some = zip(points, self.scope.domains.values(), strict=True)
        even = [[rounded(point, domain) for point in own[::EVERY]] for own, domain in some]
        return self._requests(even, [self.scope.even(own) for own in networks[::EVERY]])

    def _small(self) -> Requests:
        """Timings of kinds with few widths at those that are not known yet: what one takes no other may tell."""
        if not (self.rules.timings and self.scope.varied):
            return {}
        seen = {net for net, _ in self.records}
        few = [every(domain) if size(domain) <= _FEW else [] for domain in self.scope.domains.values()]
        new = [[point for point in own if ((kind, point),) not in seen] for kind, own in enumerate(few)]
        return {wanted: request for wanted, request in self._requests(new, []).items() if not request.metered}

    def _latest(self, kind: int) -> list[Point]:
        """Where a kind was measured last, to be measured again."""
        return [net[0][1] for net, _ in self.records if len(net) == 1 and net[0][0] == kind][-_TRIED:]

    def _requests(self, points: Sequence[Sequence[Point]], networks: Sequence[Widths]) -> Requests:
        """Blocks of each kind and whole networks, timed or metered, as far as that was not done and did not fail."""
        requests: Requests = {}
        for index, (kind, own) in enumerate(zip(self.scope.kinds, points, strict=True)):
            for point in dict.fromkeys(own):
                for metered in (True, False) if self.rules.timings else (True,):
                    requests[((index, point),), metered] = Request(self.scope.block(kind, point), metered)
        for which, widths in networks:
            if (whole := self.scope.whole(widths, which)) is not None:
                requests[self.scope.net_at(widths, which), True] = Request(self.scope.as_graph(whole))
        again = not self.scope.varied  # the same few networks are all there is: one more look at each tells more
        left = {wanted: request for wanted, request in requests.items() if wanted[0] not in self._failed}
        return left if again else {wanted: request for wanted, request in left.items() if wanted not in self._taken}

    @cached_property
    def _failed(self) -> set[Net]:
        return failed(self.records)

    @cached_property
    def _taken(self) -> set[tuple[Net, bool]]:
        return {(net, isinstance(record, Measurement)) for net, record in self.records}

    def offers(self, requests: Iterable[tuple[Net, bool]]) -> list[Offer]:
        """What could be measured, and what each is expected to cost."""
        wanted = sorted(requests)
        each = zip(wanted, steps_s(self.known, [net for net, _ in wanted]), strict=True)
        return [Offer(net, metered, self._costs[len(net) > 1, metered].of(step_s)) for (net, metered), step_s in each]

    @cached_property
    def _costs(self) -> dict[tuple[bool, bool], Cost]:
        return costs(self.records, self.scope.spec.training.mode.waits)

    def issued(self, rng: random.Random) -> list[Request]:
        """A network whose issuing is timed in a round: a host's speed drifts, and one moment tells of itself alone.

        None where the device takes much longer than the host, which may then be as fast as it likes.
        """
        if not (self.scope.meters_graphs and self.rules.timings and self.scope.varied):
            return []
        which, widths = self.scope.random_widths(rng)
        whole = self.scope.whole(widths, which)
        if whole is None or not may_wait(self.known, self.scope.net_at(widths, which)):
            return []
        return [Request(whole, False)]


def failed(records: Iterable[tuple[Net, Record]]) -> set[Net]:
    """What could not be measured."""
    return {net for net, record in records if record.infeasible}
