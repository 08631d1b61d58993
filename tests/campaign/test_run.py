from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ampere_energy.campaign.paper import Subtracting
from ampere_energy.campaign.points import bounds
from ampere_energy.campaign.rules import Rules, Status
from ampere_energy.campaign.run import profile as profile_by
from ampere_energy.cost_model.per_kind import Quantity
from ampere_energy.errors import DeviceError, RequestError
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import POINT, Procedure
from ampere_energy.measurement.records import Measurement
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.kinds import Role
from ampere_energy.model.variants import Variant, lessons
from benchmarks.specs import spec_of

profile = partial(profile_by, method="paper")


def subject(variant: Variant) -> tuple[Role, tuple[int, ...]]:
    block = next(b for b in variant.blocks if b.name == "subject")
    return block.kind.role, block.point


def run(campaign: Subtracting, device: SimulatedDevice) -> list[Variant]:
    asked = []
    while (request := campaign.ask()) is not None:
        asked.append(request.workload)
        assert campaign.tell(device.measure(request.workload, POINT))
    return asked


def test_outputs_then_inputs_then_hidden_and_bounds_first() -> None:
    plan = lessons(spec_of("lenet5"))
    asked = run(Subtracting(plan, Rules()), SimulatedDevice())
    roles = [subject(v)[0] for v in asked]
    assert roles == sorted(roles, key=[Role.OUTPUT, Role.INPUT, Role.HIDDEN].index)
    for lesson in plan:
        points = [v.blocks for v in asked if any(b.kind == lesson.kind and b.name == "subject" for b in v.blocks)]
        corners = bounds(lesson.domain)
        assert [next(b for b in blocks if b.name == "subject").point for blocks in points[: len(corners)]] == corners


def test_sequential_subtraction_recovers_each_kind() -> None:
    device, spec = SimulatedDevice(), spec_of("lenet5")
    learnt = profile(spec, device=device, rules=Rules(points=24, precision=0.01))
    for fit in learnt.kinds:
        for point, energy, duration in zip(fit.points, fit.energy.values, fit.time.values, strict=True):
            block = replace(spec.blocks[0], kind=fit.kind, point=point)
            assert energy == pytest.approx(device.true_energy_j([block]), rel=0.02)
            assert duration == pytest.approx(device.true_time_s([block]), rel=0.02)


def test_both_end_conditions() -> None:
    plan = lessons(spec_of("lenet5"))
    precise = Subtracting(plan, Rules(points=50, least=4, precision=0.5))
    run(precise, SimulatedDevice())
    assert all(len(fit.points) <= 6 for fit in precise.fits())
    limited = Subtracting(plan, Rules(points=7, precision=1e-9))
    run(limited, SimulatedDevice(0.03))
    for fit in limited.fits():
        possible = 1
        for allowed in fit.domain:
            possible *= len(allowed)
        assert len(fit.points) == min(7, possible)


def test_the_guide_is_selectable() -> None:
    chosen = {}
    for guide in Quantity:
        device = SimulatedDevice(0.05)
        campaign = Subtracting(lessons(spec_of("cnn5")), Rules(guide=guide))
        chosen[guide] = [subject(v) for v in run(campaign, device)]
    assert chosen[Quantity.ENERGY] != chosen[Quantity.TIME]


class Slow(SimulatedDevice):
    """Charges one second a measurement."""

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        return replace(super().measure(workload, procedure), cost_s=1.0)


def test_a_budget_is_shared_out_and_bounds_are_always_measured() -> None:
    spec = spec_of("lenet5")
    rules = Rules(points=40, precision=1e-9)
    generous = profile(spec, device=Slow(0.05), rules=replace(rules, budget_s=60.0))
    assert 50 <= generous.profile_s <= 62
    tight = profile(spec, device=Slow(0.05), rules=replace(rules, budget_s=5.0))
    assert tight.complete
    assert tight.measurements == sum(len(bounds(fit.domain)) for fit in tight.kinds)


class Failing(SimulatedDevice):
    """Runs out of memory at large widths, or everywhere."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        measurement = super().measure(workload, procedure)
        assert isinstance(workload, Variant)
        if max(max(b.point) for b in workload.blocks) > self.limit:
            return replace(measurement, windows=(), infeasible="out of memory")
        return measurement


def test_infeasible_points_are_recorded_and_the_campaign_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    learnt = profile(spec_of("lenet5"), device=Failing(200), log=log)
    assert learnt.complete
    assert all(max(map(max, fit.points)) <= 200 for fit in learnt.kinds)
    assert any(m.infeasible == "out of memory" for m in MeasurementLog(log).read())


def test_a_device_that_runs_nothing_is_an_error() -> None:
    with pytest.raises(DeviceError, match=r"nothing ran: .* out of memory"):
        profile(spec_of("lenet5"), device=Failing(0))


def test_resuming_measures_nothing_again_and_gives_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    spec = spec_of("lenet5")

    class Interrupted(SimulatedDevice):
        left = 20

        def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
            if self.left == 0:
                raise KeyboardInterrupt
            self.left -= 1
            return super().measure(workload, procedure)

    interrupted = profile(spec, device=Interrupted(0.02), log=log)
    assert not interrupted.complete
    assert interrupted.measurements == 20
    whole = profile(spec, device=SimulatedDevice(0.02), log=log)
    assert whole.complete
    kept = MeasurementLog(log).read()
    assert len({m.workload for m in kept}) == len(kept) == whole.measurements
    assert whole.kinds == profile(spec, device=SimulatedDevice(0.02)).kinds


def test_a_log_of_another_device_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    spec = spec_of("lenet5")
    profile(spec, device=SimulatedDevice(0.02), log=log)
    with pytest.raises(RequestError, match=r"recorded on simulated \(noise 0.02.*this is simulated \(noise 0.05"):
        profile(spec, device=SimulatedDevice(0.05), log=log)


def test_status_tells_where_it_stands() -> None:
    seen: list[Status] = []
    learnt = profile(spec_of("lenet5"), device=Slow(0.02), observe=seen.append)
    assert [s.measurements for s in seen] == list(range(learnt.measurements + 1))
    assert [s.index for s in seen] == sorted(s.index for s in seen)
    assert seen[0].of == len(learnt.kinds)
    assert all(s.remaining_s is not None and s.remaining_s >= 0 for s in seen[1:])
    assert any(s.uncertainty is not None for s in seen)


def test_bad_rules_and_methods_are_refused() -> None:
    for rules in ({"points": 1}, {"precision": 0.0}, {"budget_s": 0.0}):
        with pytest.raises(RequestError):
            Rules(**rules)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="no method is called 'magic'; choose from ampere, paper"):
        profile_by(spec_of("lenet5"), device=SimulatedDevice(), method="magic")
