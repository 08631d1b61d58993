"""Data that a machine had an accident with, energies that are no energies, sizes of nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from ampere_energy.campaign.paper import Subtracting
from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.gaussian_process import Hyper
from ampere_energy.cost_model.per_kind import KindFit, Learnt
from ampere_energy.errors import ModelError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import Procedure, point_of
from ampere_energy.measurement.records import Measurement, Timing
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.kinds import Kind, Role
from ampere_energy.model.layers import layer
from ampere_energy.model.parse import parse
from ampere_energy.model.training import Training
from ampere_energy.model.variants import lessons
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile, load
from ampere_energy.reporting.as_json import estimate_json
from ampere_energy.reporting.tables import estimate_table
from benchmarks.specs import spec_of

pytestmark = pytest.mark.usefixtures("one_thread")


class Accident(SimulatedDevice):
    """One of its measurements, or of its timings, is off by a factor."""

    def __init__(self, metered: bool, place: int, factor: float, joules_too: bool = True) -> None:
        super().__init__(0.01)
        self.metered, self.left, self.factor, self.joules_too = metered, place, factor, joules_too

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        found = super().measure(workload, procedure)
        if not self._now(self.metered):
            return found
        more = self.factor if self.joules_too else 1.0
        windows = tuple(replace(w, energy_j=w.energy_j * self.factor, time_s=w.time_s * more) for w in found.windows)
        return replace(found, windows=windows)

    def time(self, workload: Workload) -> Timing:
        found = super().time(workload)
        assert found.device_s is not None
        return replace(found, device_s=found.device_s * self.factor) if self._now(not self.metered) else found

    def _now(self, counts: bool) -> bool:
        self.left -= counts
        return counts and self.left == 0


def deep() -> ModelSpec:
    """A model as it is, of three kinds of blocks."""
    hidden = [module for _ in range(4) for module in (nn.Linear(8, 8), nn.ReLU())]
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), *hidden, nn.Linear(8, 3))
    return replace(parse(model, torch.randn(2, 4)), widths=(), follows=())


@pytest.mark.parametrize(
    ("metered", "place", "factor", "joules_too"),
    [(True, 1, 1e3, True), (True, 3, 1e3, False), (True, 2, 1e-3, True), (False, 2, 1e3, True)],
)
def test_one_measurement_that_is_off_by_a_thousand_costs_no_profile(
    tmp_path: Path, metered: bool, place: int, factor: float, joules_too: bool
) -> None:
    for spec, ranges in ((deep(), []), (spec_of("lenet5"), family("lenet5").ranges)):
        device = Accident(metered, place, factor, joules_too)
        learnt = profile(spec, device=device, ranges=ranges, rules=Rules(points=3))
        assert device.left <= 0
        learnt.save(tmp_path / "p.json")
        found = estimate(spec, load(tmp_path / "p.json"))
        assert found.energy_j == pytest.approx(device.true_energy_j(spec.blocks), rel=0.1)
        assert found.std_j < 0.1 * found.energy_j


OUTPUT = Kind(Role.OUTPUT, (layer("linear", bias=True), layer("cross_entropy")), (), 3, False, Training(4))


def known_exactly(energy_j: float) -> tuple[ModelSpec, Profile]:
    """A model of one block, and a profile by the paper's method that is certain of its energy."""
    learnt = Learnt((energy_j,), (0.0,), Hyper(energy_j, (1.0,), 1e-12, 1e-20))
    fit = KindFit(OUTPUT, (WidthRange(5, 5),), ((5,),), learnt, Learnt((1e-3,), (0.0,), learnt.hyper))
    device = SimulatedDevice()
    about = (device.info, device.meter, Training(4), True, 1, 1.0, "now")
    return ModelSpec("m", (Block("a", OUTPUT, (5,)),), Training(4)), Profile("m", "paper", *about, kinds=(fit,))


@pytest.mark.parametrize("energy_j", [0.0, 2e-3, -2.4e-3])
def test_an_energy_that_is_known_exactly_is_shown(energy_j: float) -> None:
    found = estimate(*known_exactly(energy_j))
    estimate_table(found)
    estimate_json(found)
    low, high = found.interval_j
    assert low <= high
    assert bool(found.doubts) == (energy_j <= 0)


def test_less_than_nothing_is_said_to_be_impossible() -> None:
    found = estimate(*known_exactly(-2.4e-3))
    assert found.energy_j == pytest.approx(-2.4e-3)
    assert "comes out at -2.4 mJ, which no training takes" in found.doubts[0]
    assert found.interval_j[1] < 0  # what the method says; an end at 0 would look as if it were known to be little


def test_what_costs_nothing_is_as_uncertain_as_can_be() -> None:
    """Subtracting what others take may leave exactly nothing, of which no deviation is a share."""

    class Free(SimulatedDevice):
        def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
            found = super().measure(workload, procedure)
            return replace(found, windows=tuple(replace(w, energy_j=1e-3, time_s=1e-3) for w in found.windows))

    spec = spec_of("lenet5", (2, 3, 4, 5))
    campaign = Subtracting(lessons(spec), Rules(points=3))
    device = Free()
    for _ in range(60):
        if (request := campaign.ask()) is None:
            break
        campaign.tell(device.measure(request.workload, point_of(device.meter)))
    assert campaign.complete()


@pytest.mark.parametrize("shape", [(0, 6), (4, 0, 6)])
def test_an_input_of_nothing_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=rf"an input of shape \(?{', ?'.join(map(str, shape))}.*batch first"):
        parse(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)), torch.zeros(shape))
