from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.costs import cost, costs, steps_s
from ampere_energy.campaign.rules import Rules
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import POINT
from benchmarks.specs import spec_of


def test_nothing_made_costs_what_is_expected_and_little_made_its_median() -> None:
    assert cost([], 0.1).of(5.0) == 0.1
    assert cost([(1e-3, 0.0)], 0.1).of(5.0) == 0.1, "a simulated device's seconds"
    assert cost([(1e-3, 0.2), (2e-3, 9.0), (3e-3, 0.4)], 0.1).of(5.0) == 0.4
    assert cost([(1e-3, 0.2)] * 20, 0.1).of(5.0) == 0.2, "one network again and again"


def test_a_cost_is_a_fixed_part_and_steps_whatever_the_first_took() -> None:
    draw = random.Random(1)
    times = [draw.uniform(1e-3, 9e-3) for _ in range(40)]
    found = cost([(2e-3, 6.2), *((t, 0.03 + 13 * t) for t in times)], 0.1)
    assert found.of(88e-3) == pytest.approx(0.03 + 13 * 88e-3, rel=0.01)
    assert found.of(1e-5) == found.usual_s == pytest.approx(0.03 + 13 * 5e-3, rel=0.2)


def test_steps_of_networks_of_any_make() -> None:
    campaign, device = Guided(spec_of("lenet5"), None, Rules(points=3), meters_graphs=False), SimulatedDevice()
    for request in campaign.opening.requests:
        campaign.tell(device.measure(request.workload, POINT) if request.metered else device.time(request.workload))
    known = campaign.fit()
    assert known is not None
    nets = [net for net, _ in campaign.measured.records]
    said = steps_s(known, nets)
    assert said == pytest.approx(
        [device.true_time_s(r.workload.blocks) for _, r in campaign.measured.records], rel=0.05
    )
    assert {len(net) for net in nets} > {1}


def test_a_whole_costs_what_wholes_cost() -> None:
    campaign = Guided(spec_of("lenet5"), None, Rules(points=3), meters_graphs=False)
    device = SimulatedDevice()
    assert {cost.of(1e-3) for cost in costs([], True).values()} == {2.0, 0.1}
    for request in campaign.opening.requests:
        record = device.measure(request.workload, POINT) if request.metered else device.time(request.workload)
        campaign.tell(
            replace(record, cost_s=(1.5 if len(request.workload.blocks) == 1 else 4.0) if request.metered else 0.05)
        )
    first = device.time(campaign.opening.requests[0].workload)
    campaign.tell(replace(first, cost_s=9.0))  # the first of all loads libraries
    assert {of: cost.of(1e-3) for of, cost in costs(campaign.measured.records, True).items()} == {
        (False, True): 1.5,
        (False, False): 0.05,
        (True, True): 4.0,
        (True, False): 0.1,
    }
