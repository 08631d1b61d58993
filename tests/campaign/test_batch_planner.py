from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ampere_energy.campaign.adaptive import BATCH, EVEN_QUESTIONS, Guided
from ampere_energy.campaign.costs import costs
from ampere_energy.campaign.points import every, size
from ampere_energy.campaign.rules import Request, Rules
from ampere_energy.campaign.run import record_of
from ampere_energy.cost_model.observations import Net
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import POINT
from ampere_energy.measurement.records import Timing
from ampere_energy.model.blocks import Block
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.training import Mode
from benchmarks.specs import spec_of


def test_what_takes_longer_is_offered_for_more() -> None:
    """Where one convolution is slow at some widths, a timing there costs as much as ten elsewhere."""
    campaign, device = Guided(spec_of("lenet5"), None, Rules(points=3), meters_graphs=False), SimulatedDevice()
    for request in campaign.opening.requests:
        record = device.measure(request.workload, POINT) if request.metered else device.time(request.workload)
        step_s = device.true_time_s(request.workload.blocks)  # type: ignore[union-attr]
        campaign.tell(replace(record, cost_s=2.0 if request.metered else 0.02 + 1000 * step_s))
    begun = campaign._begun(len(campaign.measured.records))
    usual_s = costs(campaign.measured.records, waits=True)[False, False].usual_s
    bounds = [
        [tuple(r.low for r in domain), tuple(r.high for r in domain)] for domain in campaign.scope.domains.values()
    ]
    nets = [((kind, point),) for kind, own in enumerate(bounds) for point in own]
    for offer in begun.offers([(net, False) for net in nets]):
        ((kind, point),) = offer.net
        step_s = device.true_time_s([Block("", campaign.scope.kinds[kind], point)])
        assert offer.cost_s == pytest.approx(max(usual_s, 0.02 + 1000 * step_s), rel=0.1)


def asked(campaign: Guided) -> Request:
    request = campaign.ask()
    assert request is not None
    return request


def test_a_quarter_of_each_round_is_for_round_members() -> None:
    spec = spec_of("cnn5")
    campaign = Guided(spec, FAMILIES["cnn5"].ranges, Rules(points=100, precision=1e-6), meters_graphs=False)

    def is_round(net: Net) -> bool:
        """Of the linear layer, which reads nine features a channel, any width is."""
        last = len(campaign.scope.kinds) - 1
        return all(width % 8 == 0 or width < 8 or kind == last for kind, point in net for width in point)

    assert all(is_round(net) for net in campaign.even_questions)
    assert len(campaign.even_questions) == EVEN_QUESTIONS
    device, first = SimulatedDevice(noise=0.01, rough=0.15), len(campaign.opening.requests)
    while len(campaign.measured.records) < first + 4 * BATCH:
        campaign.tell(record_of(device, asked(campaign)))
    told = [is_round(net) for net, _ in campaign.measured.records[first:]]
    rounds = [told[start : start + BATCH] for start in range(0, len(told), BATCH)]
    assert all(all(own[: BATCH // 4]) for own in rounds)
    assert sum(sum(own[BATCH // 4 :]) for own in rounds) < 0.2 * len(told)
    aligned = Guided(spec, FAMILIES["cnn5"].aligned(8).ranges, Rules(points=100), meters_graphs=False)
    assert aligned.even_questions == []  # all its networks are


def test_issuing_is_timed_only_where_a_step_may_wait_for_it() -> None:
    spec = spec_of("lenet5")
    campaign, device = Guided(spec, None, Rules(points=3), meters_graphs=True), SimulatedDevice()
    for request in campaign.opening.requests:
        record = device.measure(request.workload, POINT) if request.metered else device.time(request.workload)
        waits = isinstance(record, Timing) and request.workload.training.mode is Mode.EAGER
        campaign.tell(replace(record, host_s=1e-5, wall_s=record.device_s) if waits else record)  # type: ignore[union-attr,call-arg]
    known = campaign.fit()
    assert known is not None
    assert known.host is not None
    slow = replace(known, host=replace(known.host, base_s=1e3))
    unknown = replace(known, host=replace(known.host, structures=()))
    begun = campaign._begun(len(campaign.measured.records))
    for fit, count in ((known, 0), (slow, 1), (unknown, 1), (replace(known, host=None), 1)):
        assert len(replace(begun, known=fit).issued(random.Random(0))) == count


def test_kinds_of_few_widths_are_timed_at_all_of_them() -> None:
    """LeNet's second convolution has 96 widths: the guide alone would leave some of them, sure of its neighbours."""
    campaign, device = (
        Guided(spec_of("lenet5"), None, Rules(points=500, precision=1e-6), meters_graphs=False),
        SimulatedDevice(),
    )
    domains = list(campaign.scope.domains.values())
    (kind,) = [i for i, domain in enumerate(domains) if len(domain) == 2 and size(domain) <= 128]
    first = len(campaign.opening.requests)
    while unknown := set(every(domains[kind])) - known(campaign, kind):
        assert len(campaign.measured.records) < first + 40 * BATCH, f"{len(unknown)} are not known"
        request = asked(campaign)  # a metering takes ten times as long as a timing
        campaign.tell(replace(record_of(device, request), cost_s=0.3 if request.metered else 0.03))
    metered_only = Guided(spec_of("lenet5"), None, Rules(timings=False, points=500), meters_graphs=False)
    while len(metered_only.measured.records) < len(metered_only.opening.requests):
        metered_only.tell(record_of(device, asked(metered_only)))
    assert all(request.metered for request in metered_only._batch(len(metered_only.measured.records)).requests)


def known(campaign: Guided, kind: int) -> set[tuple[int, ...]]:
    return {net[0][1] for net, _ in campaign.measured.records if len(net) == 1 and net[0][0] == kind}
