"""What a sum of blocks cannot see is found where the model was measured whole, and said."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from ampere_energy.campaign.run import profile
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import Measurement
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.kinds import Fragment
from ampere_energy.model.parse import parse, parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.variants import Variant
from ampere_energy.profiles.profile import Profile
from ampere_energy.reporting.as_json import estimate_json
from ampere_energy.reporting.tables import estimate_table
from ampere_energy.reporting.terminal import console

pytestmark = pytest.mark.usefixtures("one_thread")


class Whole(SimulatedDevice):
    """A model takes so many times what its blocks do."""

    def __init__(self, times: float) -> None:
        super().__init__(0.02)
        self.times = times

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        found = super().measure(workload, procedure)
        if not (isinstance(workload, Variant) and isinstance(workload.blocks[0].kind, Fragment)):
            return found
        more = [replace(w, energy_j=w.energy_j * self.times, time_s=w.time_s * self.times) for w in found.windows]
        return replace(found, windows=tuple(more))


def model() -> ModelSpec:
    hidden = [module for _ in range(4) for module in (nn.Linear(8, 8), nn.ReLU())]
    spec = parse(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), *hidden, nn.Linear(8, 3)), torch.randn(2, 4))
    return replace(spec, widths=(), follows=())


def learnt(times: float) -> tuple[ModelSpec, Profile, float]:
    spec, device = model(), Whole(times)
    return spec, profile(spec, device=device), device.true_energy_j(spec.blocks) * times


@pytest.mark.parametrize("times", [1.3, 1.9, 3.6])
def test_work_that_is_in_no_block_is_named(times: float) -> None:
    spec, known, truth_j = learnt(times)
    found = estimate(spec, known)
    assert found.outside is not None
    assert found.outside.share == pytest.approx(1 - 1 / times, abs=0.05)
    assert f"{100 * found.outside.share:.0f} % of this model's step is outside" in found.doubts[0]
    assert estimate_json(found)["outside"] == found.outside.share
    shown = console()
    with shown.capture() as capture:
        shown.print(estimate_table(found))
    assert "of this model's step is outside what its blocks take" in capture.get()
    low, high = found.interval_j
    assert low < truth_j < high
    assert found.energy_j == pytest.approx(truth_j, rel=0.1)
    assert found.std_j / found.energy_j > 0.1 * found.outside.apart


def test_work_that_several_blocks_have_is_named() -> None:
    spec, known, truth_j = learnt(0.4)
    found = estimate(spec, known)
    assert found.outside is not None
    assert "blocks take 2.5 times what it takes whole" in found.doubts[0]
    assert found.outside.share < 0
    assert found.interval_j[0] < truth_j < found.interval_j[1]


def test_a_model_of_one_block_is_compared_with_its_block() -> None:
    class Orthogonal(SimulatedDevice):
        """The recorded block takes 2.5 times what the model does, of which three longer measurements are made."""

        def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
            found = super().measure(workload, procedure)
            whole = isinstance(workload, ModelRef)
            more = 1.0 if whole else 2.5
            return replace(found, windows=tuple(replace(w, energy_j=w.energy_j * more) for w in found.windows))

    ref = model_ref(f"{__file__}:one_block")
    spec = parse_ref(ref)
    found = estimate(spec, profile(spec, device=Orthogonal(0.02), ref=replace(ref, training=spec.training)))
    assert len(spec.blocks) == 1
    assert found.outside is not None
    assert re.search(r"blocks take 2\.[4-6] times", found.doubts[0])


def one_block() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """A model that is one block."""
    return nn.Sequential(nn.Linear(4, 3), nn.Softsign()), (torch.randn(2, 4),)


def test_where_blocks_and_whole_agree_nothing_is_said() -> None:
    spec, known, _ = learnt(1.0)
    found = estimate(spec, known)
    assert found.outside is None
    assert not found.doubts
    assert estimate_json(found)["outside"] is None


def test_of_what_was_not_measured_whole_nothing_is_said() -> None:
    spec, known, _ = learnt(3.6)
    assert known.nets is not None
    fewer = replace(spec, blocks=(*spec.blocks[:2], *spec.blocks[3:]))
    assert estimate(fewer, known).outside is None
    alone = tuple(o for o in known.nets.observations if len(o.blocks) == 1 or o.apart)
    never = replace(known, nets=replace(known.nets, observations=alone))
    assert estimate(spec, never).outside is None


def test_the_interval_is_wider_by_what_may_change() -> None:
    spec, known, _ = learnt(3.6)
    _, usual, _ = learnt(1.0)
    wide, narrow = (found.std_j / found.energy_j for found in (estimate(spec, known), estimate(spec, usual)))
    assert wide > 3 * narrow
