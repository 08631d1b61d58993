from __future__ import annotations

import pytest

from ampere_energy.fit.campaign import profile
from ampere_energy.fit.profile import Profile
from ampere_energy.fit.rules import Rules
from ampere_energy.measure.devices.simulated import SimulatedDevice
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Precision, Training
from ampere_energy.model.zoo.families import family


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
