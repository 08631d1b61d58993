from __future__ import annotations

import pytest

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.structures import Axis, structures
from ampere_energy.model.training import Precision, Training
from ampere_energy.profiles.profile import Profile

BLOCKS = """
import torch
from torch import nn

def blocks(width: int = 8, depth: int = 1, kernel: int = 3, hidden: int = 8):
    layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2), nn.ReLU()]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, kernel, padding=kernel // 2), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 3)]
    return nn.Sequential(*layers), torch.randn(4, 3, 8, 8)
"""
AXES = (
    Axis("width", (8, 16, 24, 32)),
    Axis("depth", (1, 2, 4)),
    Axis("hidden", (4, 8, 12, 16)),
    Axis("kernel", (3, 5)),
)


def simulated(name: str, input: tuple[int, ...] = (), training: Training | None = None, step: int = 1) -> Profile:
    """A family's profile of a simulated device, made in a moment."""
    ref = model_ref(name, input=input, training=training)
    spec = parse_ref(ref)
    ranges = family(name).aligned(step).up_to(spec.widths)
    rules = Rules(points=6, precision=0.1)
    return profile(spec, device=SimulatedDevice(0.01), ranges=ranges, rules=rules, ref=ref)


@pytest.fixture(scope="package")
def small() -> Profile:
    """lenet5 at batch 10, simulated."""
    return simulated("lenet5")


@pytest.fixture(scope="package")
def large() -> Profile:
    """lenet5 at batch 32 in bf16, simulated."""
    return simulated("lenet5", (32, 1, 28, 28), Training(1, precision=Precision.BF16))


@pytest.fixture(scope="package")
def layered() -> Profile:
    """transformer, simulated; its first width is a number of layers."""
    return simulated("transformer", step=64)


@pytest.fixture(scope="package")
def factory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A user's factory of four whole-number arguments, which tells its own input."""
    path = tmp_path_factory.mktemp("factory") / "mine.py"
    path.write_text(BLOCKS)
    return f"{path}:blocks"


@pytest.fixture
def axes() -> tuple[Axis, ...]:
    """Values of the factory's arguments; two are widths, and not all are evenly spaced."""
    return AXES


@pytest.fixture(scope="package")
def varied(factory: str) -> Profile:
    """All structures of the factory, simulated."""
    first, *more = structures(model_ref(factory), AXES, parse_ref)
    device, rules = SimulatedDevice(0.01), Rules(points=3)
    return profile(first.spec, device=device, ranges=first.ranges, rules=rules, ref=first.ref, more=more)
