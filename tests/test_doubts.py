"""What is doubted of a measurement stands in the profile and in every estimate made from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ampere_energy import profile
from ampere_energy.campaign.additions import add
from ampere_energy.campaign.refine import refine
from ampere_energy.campaign.rules import Rules
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import POINT, Procedure
from ampere_energy.measurement.records import Measurement
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.source import model_ref
from ampere_energy.profiles.merge import merged
from ampere_energy.profiles.profile import Profile, load
from ampere_energy.reporting.as_json import estimate_json, profile_json
from ampere_energy.reporting.profile_page import profile_page
from ampere_energy.serialization import encode
from benchmarks.specs import spec_of
from command import ampere, answer

STUCK = "untrusted: plug reads 100 W idle and 100.5 W under full load"


class Doubted(SimulatedDevice):
    """A device whose meter is doubted, and each third measurement besides."""

    count = 0

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        self.count += 1
        more = (f"not steady after {self.count} s",) if self.count % 3 == 0 else ()
        return replace(super().measure(workload, procedure), doubts=(STUCK, *more))


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Profile:
    log = tmp_path_factory.mktemp("doubts") / "p.jsonl"
    device = Doubted(0.01)
    first = profile(spec_of("lenet5"), device=device, rules=Rules(points=2), log=log)
    assert profile(spec_of("lenet5"), device=device, rules=Rules(points=2), log=log).doubts == first.doubts
    return first


def test_a_profile_and_its_estimates_carry_the_doubts(learnt: Profile, tmp_path: Path) -> None:
    every, some = learnt.doubts
    assert every == STUCK
    assert some.endswith("meterings: not steady after 3 s")
    learnt.save(tmp_path / "p.json")
    again = load(tmp_path / "p.json")
    assert again == learnt
    found = estimate(spec_of("lenet5"), again)
    assert found.doubts == (f"of the profile: {STUCK}", f"of the profile: {some}")
    assert estimate_json(found)["doubts"] == list(found.doubts)
    assert profile_json(learnt, "p.json")["doubts"] == [every, some]
    assert STUCK in profile_page(learnt)
    for command in (("estimate", "lenet5"), ("search", "lenet5", "--trials", "5")):
        table = " ".join(ampere(*command, "--profile", "p.json", cwd=tmp_path).stdout.split())
        assert STUCK in table
    assert answer("search", "lenet5", "--trials", "5", "--profile", "p.json", cwd=tmp_path)["doubts"][0] == STUCK


def test_a_profile_nobody_doubts_is_written_as_before(tmp_path: Path) -> None:
    calm = profile(spec_of("lenet5"), device=SimulatedDevice(0.01), rules=Rules(points=2))
    assert calm.doubts == ()
    assert "doubts" not in encode(calm)
    calm.save(tmp_path / "p.json")
    assert "doubts" not in json.loads((tmp_path / "p.json").read_text())["profile"]
    assert estimate(spec_of("lenet5"), calm).doubts == ()


def test_what_is_learnt_later_brings_its_doubts(learnt: Profile) -> None:
    spec, ref = spec_of("lenet5"), model_ref("lenet5")
    calm = profile(spec, device=SimulatedDevice(0.01), rules=Rules(points=2))
    device = Doubted(0.01)
    ref = replace(ref, training=spec.training)
    taught = add(calm, spec.blocks, device.measure(ref, POINT))
    assert taught.doubts == (STUCK,)
    assert add(taught, spec.blocks, device.measure(ref, POINT)).doubts == (STUCK,)
    refined = refine(calm, ref, spec, device, 0.001)
    assert refined.measurements
    assert STUCK in refined.profile.doubts
    assert merged([calm, learnt]).doubts == learnt.doubts
    assert merged([learnt, taught]).doubts == learnt.doubts
