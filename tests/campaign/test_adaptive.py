from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ampere_energy.campaign import acquisition
from ampere_energy.campaign.acquisition import Offer, best
from ampere_energy.campaign.adaptive import BATCH, Guided
from ampere_energy.campaign.additions import add
from ampere_energy.campaign.points import random_points
from ampere_energy.campaign.refine import refine
from ampere_energy.campaign.rules import Request, Rule, Rules, Status
from ampere_energy.campaign.run import profile, record_of
from ampere_energy.cost_model.host_overhead import Host
from ampere_energy.cost_model.slow_regions import slow_blocks
from ampere_energy.errors import CoverageError, DeviceError, RequestError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.many import estimate_many
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import POINT, Procedure
from ampere_energy.measurement.records import Measurement, Timing
from ampere_energy.measurement.workloads import Whole, Workload, run_as
from ampere_energy.model import variants
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Variant, whole_network
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import MOST_POINTS, Profile
from benchmarks.specs import spec_of

ROUGH = {"noise": 0.01, "rough": 0.1, "world": 3}


class Costly(SimulatedDevice):
    """A metering takes two seconds, a timing a tenth."""

    metering_s, timing_s = 2.0, 0.1

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        return replace(super().measure(workload, procedure), cost_s=self.metering_s)

    def time(self, workload: Workload) -> Timing:
        return replace(super().time(workload), cost_s=self.timing_s)


class Cheap(Costly):
    """A metering takes an eighth of a second, a timing as long."""

    metering_s = timing_s = 0.125


def test_a_campaign_ends_before_its_profile_is_too_large_to_be_read() -> None:
    campaign = Guided(spec_of("lenet5"), None, Rules(precision=1e-6, budget_s=1e9), meters_graphs=False)
    once = SimulatedDevice().time(campaign.opening.requests[0].workload)
    while not campaign._used_up():
        assert campaign.tell(once)
    assert len(campaign.measured.records) + 500 < MOST_POINTS < len(campaign.measured.records) + 600


def test_every_kind_is_timed_and_metered_and_whole_members_too() -> None:
    learnt = profile(spec_of("lenet5"), device=SimulatedDevice(0.01), rules=Rules(points=3))
    nets = learnt.nets
    assert nets is not None
    for kind in range(len(nets.subjects)):
        own = [o for o in nets.observations if [k for k, _ in o.blocks] == [kind]]
        assert sum(o.energy_j is not None for o in own) >= 2
        assert sum(o.energy_j is None for o in own) >= 2
    assert any(len(o.blocks) == 5 for o in nets.observations)


def test_each_end_condition() -> None:
    spec = spec_of("lenet5")
    precise = profile(spec, device=SimulatedDevice(0.002), rules=Rules(precision=0.2))
    limited = profile(spec, device=SimulatedDevice(**ROUGH), rules=Rules(points=4, precision=1e-6))
    timed = profile(spec, device=Costly(**ROUGH), rules=Rules(precision=1e-6, budget_s=40.0))
    assert precise.measurements < limited.measurements
    assert limited.nets is not None
    meterings = sum(o.energy_j is not None for o in limited.nets.observations)
    assert meterings == 4 * 4 or len(limited.nets.observations) - meterings == 5 * 4 * 4  # lenet5 has four kinds
    assert 38 <= timed.profile_s <= 44
    cheap = profile(spec, device=Cheap(**ROUGH), rules=Rules(precision=1e-6, budget_s=20.0))
    assert cheap.nets is not None
    assert sum(o.energy_j is not None for o in cheap.nets.observations) > 16 * 4, "a budget alone limits meterings"
    both = profile(spec, device=Cheap(**ROUGH), rules=Rules(points=5, precision=1e-6, budget_s=20.0))
    assert both.nets is not None
    assert sum(o.energy_j is not None for o in both.nets.observations) == 5 * 4
    tight = profile(spec, device=Costly(0.01), rules=Rules(budget_s=1.0))
    assert tight.complete  # what every kind needs is measured all the same


def test_a_resumed_campaign_asks_for_the_same(tmp_path: Path) -> None:
    spec, rules = spec_of("lenet5"), Rules(points=3, precision=0.02)
    log = tmp_path / "log.jsonl"
    whole = profile(spec, device=SimulatedDevice(**ROUGH), rules=rules, log=log)
    for cut in (3, 60, whole.measurements - 1):
        part = tmp_path / f"{cut}.jsonl"
        part.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:cut]))
        again = profile(spec, device=SimulatedDevice(**ROUGH), rules=rules, log=part)
        assert [r.workload for r in MeasurementLog(part).read()] == [r.workload for r in MeasurementLog(log).read()]
        assert again.measurements == whole.measurements


class Failing(SimulatedDevice):
    """Runs out of memory where the widths multiply to more than a limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def _large(self, workload: Workload) -> bool:
        assert isinstance(workload, Variant)
        return max(int(np.prod(b.point)) for b in workload.blocks) > self.limit

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        found = super().measure(workload, procedure)
        return replace(found, windows=(), infeasible="out of memory") if self._large(workload) else found

    def time(self, workload: Workload) -> Timing:
        found = super().time(workload)
        return replace(found, device_s=None, infeasible="out of memory") if self._large(workload) else found


def test_what_cannot_run_is_recorded_and_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    learnt = profile(spec_of("lenet5"), device=Failing(5000), log=log, rules=Rules(points=3))
    assert learnt.complete
    assert learnt.nets is not None
    assert any(record.infeasible for record in MeasurementLog(log).read())
    assert all(np.prod(p) <= 5000 for o in learnt.nets.observations for _, p in o.blocks)
    with pytest.raises(DeviceError, match=r"nothing ran: .*out of memory"):
        profile(spec_of("lenet5"), device=Failing(0))


def test_status_counts_rounds() -> None:
    seen: list[Status] = []
    learnt = profile(spec_of("lenet5"), device=Costly(**ROUGH), rules=Rules(budget_s=40.0), observe=seen.append)
    assert [s.measurements for s in seen] == list(range(learnt.measurements + 1))
    assert [s.index for s in seen] == sorted(s.index for s in seen)
    assert seen[-1].uncertainty is not None
    assert all(s.remaining_s is not None and s.remaining_s >= 0 for s in seen if s.measurements > 75)


def test_offers_are_ranked_by_what_they_teach_per_second() -> None:
    spec = spec_of("lenet5")
    learnt = profile(spec, device=SimulatedDevice(**ROUGH), rules=Rules(points=3)).nets
    assert learnt is not None
    asked = tuple((learnt.find(b.kind.id) or 0, b.point) for b in spec_of("lenet5", (3, 9, 50, 40)).blocks)
    blocks = [(block,) for block in asked]
    cheap = best(learnt, [asked], [Offer(net, False, 0.1) for net in blocks], len(blocks))
    before = learnt.log_covariance([asked])[1, 1]
    gains = []
    for offer in cheap[:1] + cheap[-1:]:
        joint = learnt.log_covariance([asked, offer.net])
        gains.append(joint[2, 1] ** 2 / (joint[1, 1] + learnt.noise[0] ** 2))
    assert gains[0] > gains[1]
    assert gains[0] < before
    dear = [Offer(net, False, 0.1 if net != cheap[0].net else 1e6) for net in blocks]
    assert best(learnt, [asked], dear, 1)[0].net != cheap[0].net


def test_an_offer_is_worth_what_measuring_it_takes_off() -> None:
    spec = spec_of("lenet5")
    learnt = profile(spec, device=SimulatedDevice(**ROUGH), rules=Rules(points=3)).nets
    assert learnt is not None
    asked = tuple((learnt.find(b.kind.id) or 0, b.point) for b in spec_of("lenet5", (3, 9, 50, 40)).blocks)
    covariance = learnt.log_covariance([asked, asked[:1]])
    rows = {False: [1], True: [1, 3]}
    gains = acquisition._gains(covariance, [2], [rows[False], rows[True]], learnt.scatter)
    for gain, own in zip(gains, rows.values(), strict=True):
        after = acquisition._after_observing(covariance, own, learnt.scatter)
        assert gain == pytest.approx(covariance[2, 2] - after[2, 2])
    assert gains[1] > gains[0] > 0


@pytest.mark.parametrize("rule", list(Rule))
def test_every_rule_runs(rule: Rule) -> None:
    rules = Rules(points=6, precision=1e-6, rule=rule, timings=False)
    learnt = profile(spec_of("lenet5"), device=SimulatedDevice(**ROUGH), rules=rules)
    assert learnt.complete
    assert learnt.nets is not None
    assert all(o.energy_j is not None for o in learnt.nets.observations)


Wide = tuple[ModelSpec, ModelRef, Profile]


@pytest.fixture(scope="module")
def wide() -> Wide:
    """A model whose interval a short campaign leaves wide."""
    widths = (5, 11, 77, 33)
    learnt = profile(spec_of("lenet5"), device=SimulatedDevice(**ROUGH), rules=Rules(points=3))
    return spec_of("lenet5", widths), model_ref("lenet5", widths=widths), learnt


def test_refining_narrows_the_interval_onto_the_truth(wide: Wide, tmp_path: Path) -> None:
    (spec, ref, learnt), device = wide, SimulatedDevice(**ROUGH)
    before = estimate(spec, learnt)
    log = tmp_path / "log.jsonl"
    found = refine(learnt, ref, spec, device, 0.03, log=log)
    after = estimate(spec, found.profile)
    truth = device.true_energy_j(spec.blocks)
    assert found.limit is None
    assert found.reach <= 0.03
    records = MeasurementLog(log).read()
    assert found.measurements == len(records) > 0
    assert all(isinstance(r.workload, Variant) for r in records[:-1])
    assert after.std_j < before.std_j
    assert after.interval_j[0] < truth < after.interval_j[1]
    hopeless = refine(learnt, ref, spec, device, 1e-4)
    assert hopeless.limit is not None
    found_percent = re.search(r"measured again, a network differs by ±([\d.]+) %", hopeless.limit)
    assert found_percent is not None
    assert 0.1 < float(found_percent[1]) < 3, "the device's noise is 1 %"
    assert hopeless.reach > 1e-4


def test_refining_meters_the_model_at_once_where_blocks_cannot_be_enough(wide: Wide, tmp_path: Path) -> None:
    (spec, ref, learnt), device = wide, SimulatedDevice(**ROUGH)
    found = refine(learnt, ref, spec, device, 0.02, log=tmp_path / "log.jsonl")
    assert found.limit is None
    assert 0 < found.measurements <= 3
    assert all(isinstance(r.workload, Whole) for r in MeasurementLog(tmp_path / "log.jsonl").read())


def test_refining_says_that_it_is_the_host_that_scatters(wide: Wide) -> None:
    (spec, ref, learnt), device = wide, SimulatedDevice(**ROUGH)
    assert learnt.nets is not None
    busy_s = max(o.time_s for o in learnt.nets.observations)
    host = Host(2 * busy_s, tuple((s.structure, 0.0) for s in learnt.nets.subjects), spread=0.2, gap_s=0.0)
    waiting = replace(learnt, nets=replace(learnt.nets, host=host, idle_w=100.0))
    found = refine(waiting, ref, spec, device, 0.1)
    assert found.measurements == 0, "the device is known well enough"
    assert found.limit is not None
    assert "waits for the host, whose time differs by ±33 %" in found.limit
    of_all = estimate(spec, waiting)
    assert found.reach == pytest.approx(1.645 * of_all.std_j / of_all.energy_j, rel=0.2), "what an estimate then says"


def test_refining_says_that_the_model_itself_does_not_run(wide: Wide, tmp_path: Path) -> None:
    class Small(SimulatedDevice):
        """A simulated device on which whole models do not fit."""

        def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
            found = super().measure(workload, procedure)
            if isinstance(workload, ModelRef):
                return replace(found, windows=(), infeasible="OutOfMemoryError")
            return found

    (spec, ref, learnt), device = wide, Small(**ROUGH)
    found = refine(learnt, ref, spec, device, 0.02, log=tmp_path / "log.jsonl")
    assert found.limit is not None
    assert "does not run (OutOfMemoryError)" in found.limit
    first, *rest = MeasurementLog(tmp_path / "log.jsonl").read()
    assert isinstance(first.workload, Whole)
    assert rest, "its blocks are measured instead"
    assert all(isinstance(r.workload, Variant) for r in rest)
    assert found.reach < refine(learnt, ref, spec, device, 0.9).reach


def test_refining_runs_no_whole_model_where_blocks_are_enough(wide: Wide) -> None:
    (spec, ref, learnt), device = wide, SimulatedDevice(**ROUGH)
    nothing = refine(learnt, ref, spec, device, 0.9)
    assert nothing.measurements == 0
    found = refine(learnt, ref, spec, device, 0.97 * nothing.reach)
    assert found.limit is None
    assert found.profile.nets is not None
    assert found.measurements == found.profile.measurements - learnt.measurements > 0
    wholes = [o for o in found.profile.nets.observations[-found.measurements :] if len(o.blocks) > 1]
    assert not wholes


def test_a_whole_model_can_be_added() -> None:
    spec, device = spec_of("lenet5", (5, 11, 77, 33)), SimulatedDevice(**ROUGH)
    learnt = profile(spec_of("lenet5"), device=device, rules=Rules(points=3))
    measured = device.measure(model_ref("lenet5", widths=(5, 11, 77, 33)), POINT)
    taught = add(learnt, spec.blocks, measured)
    assert estimate(spec, taught).std_j < 0.6 * estimate(spec, learnt).std_j
    assert taught.measurements == learnt.measurements + 1
    with pytest.raises(RequestError, match="recorded on simulated"):
        add(learnt, spec.blocks, SimulatedDevice(0.3).measure(model_ref("lenet5"), POINT))
    with pytest.raises(CoverageError, match="lacks conv1"):
        add(learnt, spec_of("cnn5").blocks, measured)
    by_paper = profile(spec_of("lenet5"), device=device, method="paper", rules=Rules(points=4))
    with pytest.raises(RequestError, match="method paper; profile with --method ampere"):
        add(by_paper, spec.blocks, measured)


def test_many_candidates_are_estimated_as_one_is() -> None:
    spec = spec_of("lenet5")
    learnt = profile(spec, device=SimulatedDevice(**ROUGH), rules=Rules(points=3))
    widths = np.array([[5, 11, 77, 33], [1, 1, 1, 1], [6, 16, 120, 84], [5, 11, 77, 33]])
    found = estimate_many(spec, learnt, widths, level=0.8, gradient=True)
    for i, row in enumerate(widths.tolist()):
        one = estimate(spec_of("lenet5", tuple(row)), learnt, level=0.8)
        assert found.energy_j[i] == pytest.approx(one.energy_j)
        assert (found.low_j[i], found.high_j[i]) == pytest.approx(one.interval_j)
        assert found.time_s[i] == pytest.approx(one.time_s)
    assert found.gradient_j is not None
    assert found.gradient_j.shape == widths.shape
    with pytest.raises(CoverageError, match="block conv1 has a width of 7, the profile covers 1–6"):
        estimate_many(spec, learnt, np.array([[7, 11, 77, 33]]))


def test_blocks_of_eager_steps_are_metered_as_captured_twins() -> None:
    spec = spec_of("lenet5")
    campaign = Guided(spec, None, Rules(points=3), meters_graphs=True)
    asked = campaign.opening.requests
    assert {r.workload.training.mode.value for r in asked if r.metered} == {"graph"}
    issued = [r.workload for r in asked if r.workload.training.mode.value == "eager"]
    of_kinds = Counter(w.blocks[0].kind for w in issued if len(w.blocks) == 1)
    assert set(of_kinds.values()) == {5}  # what issuing a step takes is timed of a few
    members = [w for w in issued if len(w.blocks) > 1]
    assert len(members) == 8
    work = [sum(block.kind.flops(block.point) for block in w.blocks) for w in members]
    assert max(work[4:]) < min(work[:4])  # the lightest, which wait for the host
    assert len([r for r in asked if r.metered and not alone(r)]) == 2
    net = campaign.scope.variant(whole_network(spec, (3, 9, 50, 40)))
    assert net[0] == (0, (3,))
    whole = run_as(whole_network(spec, (3, 9, 50, 40)), Mode.GRAPH)
    assert campaign.tell(SimulatedDevice().measure(whole, POINT))
    assert campaign.measured.records[-1][0] == net


def test_issuing_is_timed_throughout_a_campaign() -> None:
    rules, device = Rules(points=100, precision=1e-6), SimulatedDevice(0.01)
    campaign = Guided(spec_of("lenet5"), None, rules, meters_graphs=True)
    for _ in range(len(campaign.opening.requests) + 2 * BATCH):
        request = campaign.ask()
        assert request is not None
        campaign.tell(record_of(device, request))
    rounds = [record for _, record in campaign.measured.records[len(campaign.opening.requests) :]]
    for start in (0, BATCH):
        eager = [r for r in rounds[start : start + BATCH] if r.workload.training.mode is Mode.EAGER]
        assert eager == rounds[start : start + 1], "a host's speed drifts"
        assert isinstance(eager[0], Timing)
        assert isinstance(eager[0].workload, Variant)
        assert len(eager[0].workload.blocks) > 1


def alone(request: Request) -> bool:
    return isinstance(request.workload, Variant) and len(request.workload.blocks) == 1


def test_rounds_grow_as_timings_pile_up_and_seconds_are_what_limits_them() -> None:
    spec, device = spec_of("lenet5"), SimulatedDevice()
    hasty, precise = (
        Guided(spec, None, Rules(points=3, budget_s=limit), meters_graphs=False) for limit in (60.0, None)
    )
    kind, domain = next((kind, domain) for kind, domain in hasty.scope.domains.items() if len(domain) == 2)
    grid = [(a, b) for a in range(1, domain[0].high + 1) for b in range(1, domain[1].high + 1)]
    for point in (grid * 400)[:400]:
        for campaign in (hasty, precise):
            campaign.tell(device.time(variants.alone(kind, point)))
    starts = sorted({hasty._start(count) for count in range(400)})
    lengths = [after - before for before, after in itertools.pairwise(starts)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (BATCH, 2 * BATCH)
    assert precise._used_up()
    assert not hasty._used_up()


def as_it_is(name: str, widths: tuple[int, ...], shape: tuple[int, ...]) -> tuple[ModelSpec, ModelRef]:
    ref = model_ref(name, widths=widths, input=shape)
    return replace(parse_ref(ref), widths=(), follows=()), ref


def test_a_model_as_it_is_is_measured_at_its_own_points() -> None:
    spec, ref = as_it_is("transformer", (2, 64), (2, 16))
    device = SimulatedDevice(0.005)
    campaign = Guided(spec, [], Rules(points=3), meters_graphs=False, ref=ref)
    own = {(block.kind.id, block.point) for block in spec.blocks}
    asked = [request.workload for request in campaign.opening.requests]
    wholes = [place for place, workload in enumerate(asked) if workload == ref]
    assert wholes[0] == 0, "the model itself comes first, and is met again when the others have been"
    assert len(wholes) == 3
    blocks = [workload.blocks for workload in asked if isinstance(workload, Variant)]
    assert {(b.kind.id, b.point) for group in blocks for b in group} == own
    assert all(workload.apart for workload in asked if isinstance(workload, Variant) and len(workload.blocks) > 1)
    assert any(len(group) > 1 for group in blocks)  # what a step pays once shows in no block alone
    learnt = profile(spec, device=device, ranges=[], rules=Rules(points=3), ref=ref)
    assert learnt.complete
    assert estimate(spec, learnt).energy_j == pytest.approx(device.true_energy_j(spec.blocks), rel=0.03)
    with pytest.raises(CoverageError):
        estimate(parse_ref(replace(ref, widths=(2, 72))), learnt)
    with pytest.raises(RequestError, match="has no widths to vary"):
        estimate_many(spec, learnt, np.array([[2, 64]]))


def test_a_member_of_another_number_of_layers_is_not_taken_for_one_of_this() -> None:
    ref = model_ref("transformer", widths=(3, 64), input=(2, 16))
    spec = replace(parse_ref(ref), name="transformer")
    ranges, device = [WidthRange(3, 3), WidthRange(16, 64, 8)], SimulatedDevice(0.005)
    campaign = Guided(spec, ranges, Rules(points=4), meters_graphs=False, ref=ref)
    assert campaign.tell(device.measure(replace(ref, widths=(3, 32)), POINT))
    assert not campaign.tell(device.measure(replace(ref, widths=(2, 32)), POINT))


def test_what_a_campaign_thinks_counts_as_its_time() -> None:
    seconds, spec = 0.0, spec_of("lenet5")
    rules = Rules(points=100, precision=1e-6, budget_s=1e6)
    campaign = Guided(spec, None, rules, meters_graphs=False, elapsed=lambda: seconds)
    device = SimulatedDevice(0.01)
    for _ in range(len(campaign.opening.requests)):
        request = campaign.ask()
        assert request is not None
        campaign.tell(record_of(device, request))
    assert campaign.ask() is not None
    seconds = 1e6
    assert campaign.ask() is None
    assert campaign.complete()


def test_a_family_that_is_no_chain_is_covered_with_whole_members() -> None:
    ref = model_ref("lstm", widths=(24, 32, 16), input=(2, 9))
    spec = parse_ref(ref)
    ranges, device = [WidthRange(1, width) for width in ref.widths], SimulatedDevice(0.005)
    campaign = Guided(spec, ranges, Rules(points=4), meters_graphs=False, ref=ref)
    wholes = [r.workload for r in campaign.opening.requests if isinstance(r.workload, ModelRef)]
    assert wholes[0] == ref  # the largest
    assert len(wholes) == 2
    measured = device.measure(replace(ref, widths=(5, 6, 7)), POINT)
    assert campaign.tell(measured)
    assert campaign.measured.records[-1][0] == tuple(
        (campaign.scope.kinds.index(block.kind), block.point)
        for block in parse_ref(replace(ref, widths=(5, 6, 7))).blocks
    )
    assert not campaign.tell(device.measure(model_ref("lenet5"), POINT))
    learnt = profile(spec, device=device, ranges=ranges, rules=Rules(points=4), ref=ref)
    assert learnt.nets is not None
    assert any(len(o.blocks) == len(spec.blocks) for o in learnt.nets.observations)
    for widths in ((20, 9, 12), (3, 30, 5)):
        other = parse_ref(replace(ref, widths=widths))
        found = estimate(other, learnt)
        assert found.energy_j == pytest.approx(device.true_energy_j(other.blocks), rel=0.08)
        many = estimate_many(spec, learnt, np.array([widths]), gradient=True)
        assert many.energy_j[0] == pytest.approx(found.energy_j)
        assert many.gradient_j is not None
        assert many.gradient_j.shape == (1, 3)


def test_widths_that_no_block_follows_stay_as_they_are() -> None:
    ref = model_ref("transformer", widths=(2, 72), input=(2, 8))
    spec = parse_ref(ref)
    ranges = [WidthRange(1, 6), WidthRange(64, 72, 8)]
    campaign = Guided(spec, ranges, Rules(points=3), meters_graphs=False, ref=ref)
    wholes = [r.workload for r in campaign.opening.requests if isinstance(r.workload, ModelRef)]
    assert {whole.widths[0] for whole in wholes} == {2}
    assert {whole.widths[1] for whole in wholes} <= {64, 72}


def test_a_quarter_of_the_opening_is_round() -> None:
    domain = (WidthRange(1, 300), WidthRange(3, 7), WidthRange(10, 250, 5))
    found = random_points(domain, 800, random.Random(0))
    assert all(width in r for point in found for width, r in zip(point, domain, strict=True))
    round_ones = [point for point in found if point[0] % 8 == 0]
    assert len(round_ones) == pytest.approx(len(found) * (0.25 + 0.75 / 8), rel=0.15)
    assert {point[1] for point in round_ones} == set(range(3, 8))  # where no multiple of 8 is, any width


class Boxed(SimulatedDevice):
    """One convolution is twenty times as slow in a box of widths."""

    def _energy_j(self, block: Block) -> float:
        slow = len(block.point) == 2 and block.kind.label.startswith("conv") and _in_box(block.point)
        return (20 if slow else 1) * super()._energy_j(block)


def _in_box(point: tuple[int, ...]) -> bool:
    return 40 <= point[0] <= 100 and 20 <= point[1] <= 90


def test_half_of_the_timings_look_for_slow_widths_where_there_are_some() -> None:
    spec, rules = spec_of("cnn5"), Rules(points=100, precision=1e-6)
    looked, calm = (Guided(spec, FAMILIES["cnn5"].ranges, rules, meters_graphs=False) for _ in range(2))
    for campaign, device in ((looked, Boxed(noise=0.01)), (calm, SimulatedDevice(noise=0.01))):
        while len(campaign.measured.records) < len(campaign.opening.requests) + 96:
            request = campaign.ask()
            assert request is not None
            campaign.tell(record_of(device, request))
    start = len(looked.measured.records)
    while not _looks(looked, start):
        looked.tell(record_of(Boxed(noise=0.01), _asked(looked)))
        start += 1
    assert looked._learn(start).slow.boxes
    assert not calm._learn(calm._start(len(calm.measured.records))).slow.boxes
    assert not calm._batch(calm._start(len(calm.measured.records))).searches
    chosen = looked._batch(start)
    assert len(chosen.requests) == looked._length(start)
    assert any(request.metered for request in chosen.requests)
    assert 2 * len(chosen.searches) == pytest.approx(sum(not request.metered for request in chosen.requests), abs=2)
    # What cannot be measured is not looked at again.
    count = len(looked.measured.records)
    again = looked._search_request(start, count)
    assert again is not None
    assert not again.metered
    assert isinstance(again.workload, Variant)
    looked.tell(replace(Boxed().time(again.workload), device_s=None, infeasible="out of memory"))
    asked = looked._search_request(start, count + 1)
    assert asked is not None
    assert asked.workload != again.workload


def test_each_look_knows_what_the_one_before_it_found() -> None:
    """Of the three kinds that are slow, the edges are found one after another, within a few rounds."""
    spec, rules = spec_of("cnn5"), Rules(points=100, precision=1e-6)
    campaign, device = Guided(spec, FAMILIES["cnn5"].ranges, rules, meters_graphs=False), Boxed(noise=0.01)
    while (
        not (start := len(campaign.measured.records))
        or not campaign.measured.all_kinds(start)
        or not _looks(campaign, start)
    ):
        campaign.tell(record_of(device, _asked(campaign)))
    looks = _looks(campaign, start)
    while len(campaign.measured.records) < start + looks[0]:
        campaign.tell(record_of(device, _asked(campaign)))
    kinds = list(campaign._learn(start).slow.boxes)
    for _ in range(120):
        campaign.tell(record_of(device, _asked(campaign)))
    known = campaign._learn(start)
    slow = slow_blocks(
        campaign.scope.subjects, campaign.measured.observations(len(campaign.measured.records)), known.time
    )
    every = np.array([(a, b) for a in range(1, 65) for b in range(1, 129)], dtype=float)
    truth = np.array([_in_box(tuple(point)) for point in every.tolist()])
    before, after = (sum((found.at(k, every) != truth).mean() for k in kinds) for found in (known.slow, slow))
    assert after < 0.4 * before


def _looks(campaign: Guided, start: int) -> range:
    """The places of looks in a round, where one begins now."""
    return campaign._batch(start).searches if start in campaign._starts(start) else range(0)


def _asked(campaign: Guided) -> Request:
    request = campaign.ask()
    assert request is not None
    return request
