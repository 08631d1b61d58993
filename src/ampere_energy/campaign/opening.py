"""How a guided campaign opens: a fixed design, in shuffled order so that drift is not mistaken for width.

Every kind is timed at its bounds and at a few widths in between and metered at three of them, and some whole networks
are metered, which alone can tell what blocks cost together. All as CUDA graphs where the device can; what the host
takes to issue a step is timed at some of these widths and of a few networks: it scatters, and jumps where a library
takes kernels that come in other numbers. A model that stands as it is is metered whole as well: nothing else tells as
much of what it costs, and its blocks then say how that divides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ampere_energy.campaign.points import bounds, opposite, random_points
from ampere_energy.campaign.rules import Request
from ampere_energy.campaign.scope import Scope, Widths
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import Block
from ampere_energy.model.variants import Variant, alone

_INSIDE = 10
_WHOLE, _WHOLE_OF_MANY = 2, 6
"""How many networks are metered whole: of one structure, and of several."""
_WHOLE_AT_LEAST = 3
"""How many of these where there are several structures, whatever the budget: the many kinds alone may outlast it."""
_ISSUED, _ISSUED_WHOLE, _ISSUED_LIGHT = 5, 4, 4
"""At how many points of a kind, of how many networks and of how many of the lightest issuing a step is timed."""
_LEAST = 2
"""At how many points every kind of several structures is timed, whatever the budget: there may be hundreds of kinds."""
_SIDE_BY_SIDE = 3
_ITSELF = 3
"""How often a model that stands as it is is metered whole."""


@dataclass(frozen=True)
class Opening:
    """What is asked first, and how much of it every kind needs, whatever the budget."""

    requests: tuple[Request, ...]
    essential: int


def opening(scope: Scope, random_networks: Sequence[Widths], timings: bool) -> Opening:
    """What every kind needs first, then whole networks and more; each part shuffled.

    Args:
        scope: what the campaign is about.
        random_networks: networks drawn by chance, of which some are measured whole.
        timings: whether blocks are timed as well as metered.
    """
    rng = random.Random(f"opening:{scope.spec.name}")
    members = _whole_networks(scope, random_networks)
    timed: list[Request] = []
    metered: list[Request] = []
    later: list[Request] = []
    for kind, domain in scope.domains.items():
        corners = bounds(domain)
        largest = () if members else corners[:1]  # else the largest network, metered, tells of it
        inside = [point for point in random_points(domain, _INSIDE * len(domain), rng) if point not in corners]
        points = [*corners, *inside]
        looked = list(dict.fromkeys((corners[-1], *opposite(domain), *largest)))
        if scope.more:  # many kinds, of which whole models tell as well
            looked = looked[1:2] or looked
        issued = list(dict.fromkeys((corners[0], *looked, *inside)))[: _ISSUED if scope.meters_graphs else len(looked)]
        if not scope.varied:
            points = looked = issued = scope.own(kind)
        metered += [Request(scope.block(kind, point), True) for point in looked]
        if timings:
            own = [Request(alone(kind, point), False) for point in issued]
            own += [Request(scope.block(kind, point), False) for point in points if point not in issued]
            least = _LEAST if scope.more else len(own)
            timed, later = [*timed, *own[:least]], [*later, *own[least:]]
        else:
            metered += [Request(scope.block(kind, point), True) for point in points if point not in looked]
    bundles = _bundles(scope)
    wholes = [Request(whole, False) for whole in members if scope.meters_graphs and timings]
    metered_wholes = [
        Request(scope.as_graph(whole), True) for whole in members[: _WHOLE_OF_MANY if scope.more else _WHOLE]
    ]
    first = metered_wholes[:_WHOLE_AT_LEAST] if scope.more else []
    wholes += metered_wholes[len(first) :]
    wholes += [Request(bundle, False) for bundle in bundles if timings]
    wholes += [Request(scope.as_graph(bundle), True) for bundle in bundles[:1]]
    for requests in (timed, metered, later):
        rng.shuffle(requests)
    requests = [*timed, *metered, *first]
    if scope.itself is not None:
        requests = _between(requests, Request(scope.itself, itself=True), _ITSELF)
    return Opening((*requests, *wholes, *later), len(requests))


def _between(requests: Sequence[Request], itself: Request, times: int) -> list[Request]:
    """Requests with one more among them, some times over: first, last, and in between, so that drift averages out."""
    places = {round(n * len(requests) / (times - 1)) for n in range(times)}
    found: list[Request] = []
    for place in range(len(requests) + 1):
        found += [itself] if place in places else []
        found += requests[place : place + 1]
    return found


def _whole_networks(scope: Scope, random_networks: Sequence[Widths]) -> list[Workload]:
    """The largest network, some drawn by chance, and the lightest of these, which wait for the host."""
    if not scope.varied:
        return []
    some = _WHOLE_OF_MANY if scope.more else _ISSUED_WHOLE
    chosen = [scope.largest[0], *random_networks[: some - 1]]
    if scope.meters_graphs:
        chosen += sorted(random_networks, key=scope.flops)[:_ISSUED_LIGHT]
    return list(dict.fromkeys(whole for which, own in chosen if (whole := scope.whole(own, which)) is not None))


def _bundles(scope: Scope) -> list[Workload]:
    """Blocks trained side by side: what a step pays once, whatever it trains, shows in no block alone.

    The lightest, where it shows best; and all of a model whose steps wait for the host, which tells what issuing
    them takes.
    """
    spec = scope.spec
    if spec.chain and spec.widths:
        return []
    light = sorted(dict.fromkeys((b.kind, b.point) for b in spec.blocks), key=lambda kp: kp[0].flops(kp[1]))
    groups = [light[:_SIDE_BY_SIDE]]
    if scope.meters_graphs:
        groups.append([(b.kind, b.point) for b in spec.blocks])
    return [
        Variant(tuple(Block("subject", kind, point) for kind, point in group), apart=True)
        for group in groups
        if len(group) > 1
    ]
