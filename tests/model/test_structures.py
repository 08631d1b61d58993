"""A factory with whole-number arguments as the structures it builds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cli.arguments import axis_of
from ampere_energy.errors import CoverageError, ModelError, RequestError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.parse import parse, parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.structures import MOST, Axis, structures
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.merge import merged

pytestmark = pytest.mark.usefixtures("one_thread")
FACTORIES = """
import torch
from torch import nn

def net(width: int = 16, depth: int = 2, kernel: int = 3):
    layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, kernel, padding=kernel // 2), nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)), torch.randn(4, 3, 8, 8)

def attends(width: int = 32, heads: int = 4):
    layer = nn.TransformerEncoderLayer(width, heads, 2 * width, batch_first=True)
    return nn.Sequential(nn.Linear(8, width), layer, nn.Linear(width, 3)), torch.randn(4, 6, 8)

def halves(width: int = 32, halved: int = 2):
    hidden = width // 16 if halved == 2 else width
    return nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 3)), torch.randn(4, 8)
"""
AXES = [Axis("width", (8, 16, 24, 32)), Axis("depth", (1, 2, 3)), Axis("kernel", (3, 5))]


@pytest.fixture(scope="module")
def factories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "factories.py"
    path.write_text(FACTORIES)
    return path


def net(factories: Path, **arguments: int) -> ModelRef:
    return model_ref(f"{factories}:net", widths=tuple(arguments.values()), names=tuple(arguments))


def test_widths_are_followed_and_other_arguments_make_structures(factories: Path) -> None:
    found = structures(net(factories), AXES, parse_ref)
    assert [structure.ref.widths for structure in found if structure.ref] == [
        (32, depth, kernel) for depth in (1, 2, 3) for kernel in (3, 5)
    ]
    assert found[0].ranges == (WidthRange(8, 32, 8), WidthRange(1, 1), WidthRange(3, 3))
    assert {len(structure.spec.blocks) for structure in found} == {3, 4, 5}
    kinds = {block.kind for structure in found for block in structure.spec.blocks}
    assert len(kinds) == 7, "an input, hidden ones with and without the pool, each of two kernels, and one output"


def test_a_width_that_must_be_a_multiple_of_something_is_one_all_the_same(factories: Path) -> None:
    spec = parse_ref(model_ref(f"{factories}:attends", widths=(48,), names=("width",)))
    assert {place for followed in spec.follows for place, _ in followed} == {0}


def test_a_width_that_one_structure_does_not_follow_makes_structures(factories: Path) -> None:
    ref, axes = model_ref(f"{factories}:halves"), [Axis("width", (16, 32)), Axis("halved", (1, 2))]
    for ordered in (axes, [axes[0], Axis("halved", (1, 2, 3))]):
        found = structures(ref, ordered, parse_ref)
        assert len(found) == 2 * len(ordered[1].values)
        assert len({structure.ref for structure in found}) == len(found)


def test_axes_are_told_as_they_are_typed() -> None:
    told = [str(Axis("width", values)) for values in ((16, 24, 32, 40), (2, 3, 4, 5), (3, 5), (3, 5, 9, 11), (7,))]
    assert told == ["width=16:40:8", "width=2:5", "width=3,5", "width=3,5,9,11", "width=7"]
    assert all(axis_of(text) == Axis("width", axis_of(text).values) for text in told)
    assert axis_of(told[0]).values == (16, 24, 32, 40)


def test_one_campaign_knows_networks_of_every_structure(factories: Path) -> None:
    device = SimulatedDevice(0.01)
    first, *more = structures(net(factories), AXES, parse_ref)
    rules = Rules(points=3)
    learnt = profile(first.spec, device=device, ranges=first.ranges, rules=rules, ref=first.ref, more=more)
    assert learnt.complete
    for arguments in ({"width": 24, "depth": 2, "kernel": 5}, {"width": 16, "depth": 5, "kernel": 3}):
        spec = parse_ref(net(factories, **arguments))
        found = estimate(spec, learnt)
        assert found.energy_j == pytest.approx(device.true_energy_j(spec.blocks), rel=0.06)
    with pytest.raises(CoverageError, match="conv2d 7"):
        estimate(parse_ref(net(factories, width=24, depth=2, kernel=7)), learnt)
    with pytest.raises(CoverageError, match="covers"):
        estimate(parse_ref(net(factories, width=64, depth=2, kernel=3)), learnt)


def test_profiles_of_one_device_become_one(factories: Path) -> None:
    device = SimulatedDevice(0.01)
    small, large = (parse_ref(net(factories, width=w, depth=2, kernel=k)) for w, k in ((16, 3), (24, 5)))
    asked = {"device": device, "rules": Rules(points=3)}
    one, other = (profile(spec, ranges=[WidthRange(1, 32), WidthRange(2, 2), WidthRange(k, k)], **asked)
                  for spec, k in ((small, 3), (large, 5)))  # fmt: skip
    both = merged([one, other])
    assert both.measurements == one.measurements + other.measurements
    for spec in (small, large):
        assert estimate(spec, both).energy_j == pytest.approx(device.true_energy_j(spec.blocks), rel=0.06)
    with pytest.raises(CoverageError):
        estimate(large, one)
    louder = profile(small, ranges=[WidthRange(1, 32), WidthRange(2, 2), WidthRange(3, 3)],
                     device=SimulatedDevice(0.03), rules=Rules(points=3))  # fmt: skip
    with pytest.raises(RequestError, match="device"):
        merged([one, louder])


def test_structures_need_no_widths(factories: Path) -> None:
    device, depths = SimulatedDevice(0.01), [Axis("depth", (1, 2, 4))]
    first, *more = structures(net(factories), depths, parse_ref)
    assert first.ranges == ()
    learnt = profile(first.spec, device=device, ranges=[], rules=Rules(points=3), ref=first.ref, more=more)
    assert learnt.complete
    spec = parse_ref(net(factories, depth=3))
    assert estimate(spec, learnt).energy_j == pytest.approx(device.true_energy_j(spec.blocks), rel=0.06)


def test_what_cannot_be_varied_says_so(factories: Path) -> None:
    with pytest.raises(RequestError, match="name each argument once"):
        structures(net(factories), [AXES[0], AXES[0]], parse_ref)
    with pytest.raises(RequestError, match=f"at most {MOST}"):
        structures(net(factories), [Axis("depth", tuple(range(1, 70)))], parse_ref)
    with pytest.raises(ModelError, match="its arguments"):
        structures(net(factories), [Axis("layers", (1, 2))], parse_ref)
    with pytest.raises(RequestError, match="whole numbers"):
        Axis("width", (8, 8))


def test_a_module_given_in_python_is_metered_whole_as_well() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    spec = parse(model, torch.zeros(4, 8))
    assert spec.recorded is not None
    assert spec.recorded.parameters(()) == sum(p.numel() for p in model.parameters())
