"""Whether searching for slow widths pays: HAR networks on simulated devices that are slow where an H200 was seen to be.

One convolution takes many times as long in two boxes of widths, a large one and one of half a percent of all. Campaigns
of so many seconds, with and without a search (`campaign.slow_region_search`), in worlds that are rough besides.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ampere_energy.campaign import adaptive, batch_planner
from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.points import anywhere
from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import record_of
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import Measurement, Timing
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import Block
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.kinds import Point
from ampere_energy.model.variants import Variant, whole_network
from benchmarks.specs import spec_of

BUDGET_S = 100.0
TIMED_S, WHOLE_S, SLOW_S = 0.066, 0.35, 0.6
METERED_S, SLOWLY_METERED_S = 0.82, 0.3
"""What timing a block and a whole takes on a card, and how much more where it is slow; what metering does."""
TIMES = {"large": 25.0, "small": 15.0}


def box(point: Point) -> str | None:
    """The box that the widths lie in."""
    read, given = point
    if read >= 67 and 17 <= given <= 64:
        return "large"
    return "small" if 28 <= read <= 31 and given <= 42 else None


class Boxed(SimulatedDevice):
    """A simulated device on which HAR networks' last convolution is slow at some widths."""

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        """Takes what it takes on a card."""
        return replace(
            super().measure(workload, procedure), cost_s=METERED_S + SLOWLY_METERED_S * _slow_somewhere(workload)
        )

    def time(self, workload: Workload) -> Timing:
        """Takes what it takes on a card."""
        alone = isinstance(workload, Variant) and len(workload.blocks) == 1
        cost_s = (TIMED_S if alone else WHOLE_S) + SLOW_S * _slow_somewhere(workload)
        return replace(super().time(workload), cost_s=cost_s)

    def _energy_j(self, block: Block) -> float:
        return super()._energy_j(block) * times(block)


def times(block: Block) -> float:
    """How many times what it would take elsewhere a block takes."""
    found = box(block.point) if len(block.point) == 2 and _last(block.kind) else None
    return TIMES[found] if found else 1.0


def _slow_somewhere(workload: Workload) -> bool:
    assert isinstance(workload, Variant)
    return any(times(block) > 1 for block in workload.blocks)


@contextmanager
def _without_search() -> Iterator[None]:
    """Campaigns that offer points by chance alone."""
    kept = adaptive.next_search, batch_planner.afar
    adaptive.next_search = lambda *_, **__: None
    batch_planner.afar = lambda slow, kind, domain, draw, count: [anywhere(domain, draw) for _ in range(count)]
    try:
        yield
    finally:
        adaptive.next_search, batch_planner.afar = kept


def run(worlds: int, networks: int) -> dict[str, dict[str, float]]:
    """Means over the worlds, without the search and with it."""
    with _without_search():
        without = [_world(world, networks) for world in range(1, worlds + 1)]
    searched = [_world(world, networks) for world in range(1, worlds + 1)]
    return {"without": _summed(without), "with looks": _summed(searched)}


def _summed(found: list[dict[str, float]]) -> dict[str, float]:
    means = {name: statistics.fmean(one[name] for one in found) for name in found[0]}
    return means | {"worlds": len(found), "small box known": sum(one["small"] > 0.5 for one in found)}


def _world(world: int, networks: int) -> dict[str, float]:
    spec, ranges = spec_of("har"), FAMILIES["har"].ranges
    device = Boxed(noise=0.005, rough=0.12, world=world, seed=world)
    campaign = Guided(spec, ranges, Rules(precision=0.001, points=1000, budget_s=BUDGET_S), meters_graphs=False)
    while (request := campaign.ask()) is not None:
        campaign.tell(record_of(device, request))
    fit = campaign.fit()
    assert fit is not None
    kind = next(i for i, (k, d) in enumerate(campaign.scope.domains.items()) if len(d) == 2 and _last(k))
    every = [(a, b) for a in range(1, 129) for b in range(1, 257)]
    slow = fit.slow.at(kind, np.array(every, dtype=float))
    small = np.array([box(point) == "small" for point in every])
    draw = random.Random(f"members:{world}")
    widths = [tuple(r[draw.randrange(len(r))] for r in campaign.scope.axes[0]) for _ in range(networks)]
    nets = [campaign.scope.net_at(own) for own in widths]
    kinds = [block for block, _ in nets[0]]
    points = [np.array([net[place][1] for net in nets], dtype=float) for place in range(len(kinds))]
    truth = np.array([device.true_energy_j(whole_network(spec, own).blocks) for own in widths])
    errors = np.abs(fit.predict(kinds, points).energy_j / truth - 1)
    asked = points[kinds.index(kind)]
    rightly = fit.slow.at(kind, asked) == [box((int(a), int(b))) is not None for a, b in asked]
    return {
        "error": float(errors.mean()),
        "error of the others": float(errors[rightly].mean()),
        "mistaken": float(np.mean(slow != [box(point) is not None for point in every])),
        "small": float(slow[small].mean()),
    }


def _last(kind: Any) -> bool:
    return getattr(kind, "spatial", None) == (32,)
