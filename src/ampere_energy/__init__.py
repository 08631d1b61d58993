"""AMPERE: what training a neural network on a device will cost, before you run it.

    spec = ampere_energy.parse(model, torch.zeros(10, 1, 28, 28))
    profile = ampere_energy.profile(spec, device="cpu", budget_s=60)
    print(ampere_energy.estimate(spec, profile, iterations=1000).energy_j)
    profile.save("mine.json")
    profile = ampere_energy.load("mine.json")

The names below are imported when first used, so that `import ampere_energy` stays quick and free of torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ampere_energy.collection import load
    from ampere_energy.decide.channels import prunable
    from ampere_energy.decide.objective import energy_objective
    from ampere_energy.decide.prune import prune
    from ampere_energy.decide.pruned import Pruned, load_pruned
    from ampere_energy.decide.search import search
    from ampere_energy.decide.space import space_of
    from ampere_energy.errors import (
        AmpereError,
        CoverageError,
        DeviceError,
        FileError,
        MeterError,
        ModelError,
        RequestError,
        WidthError,
        WorkerError,
    )
    from ampere_energy.fit.campaign import profile
    from ampere_energy.fit.profile import Profile
    from ampere_energy.fit.rules import Rules
    from ampere_energy.model.parse import parse
    from ampere_energy.model.structures import Axis
    from ampere_energy.model.training import Mode, Optimizer, Precision, Training
    from ampere_energy.predict.estimate import Estimate, estimate
    from ampere_energy.predict.many import estimate_many

__version__ = "0.1.0"
__all__ = [
    "AmpereError",
    "Axis",
    "CoverageError",
    "DeviceError",
    "Estimate",
    "FileError",
    "MeterError",
    "Mode",
    "ModelError",
    "Optimizer",
    "Precision",
    "Profile",
    "Pruned",
    "RequestError",
    "Rules",
    "Training",
    "WidthError",
    "WorkerError",
    "energy_objective",
    "estimate",
    "estimate_many",
    "load",
    "load_pruned",
    "parse",
    "profile",
    "prunable",
    "prune",
    "search",
    "space_of",
]

_HOMES = {
    "AmpereError": "ampere_energy.errors",
    "Axis": "ampere_energy.model.structures",
    "CoverageError": "ampere_energy.errors",
    "DeviceError": "ampere_energy.errors",
    "Estimate": "ampere_energy.predict.estimate",
    "FileError": "ampere_energy.errors",
    "MeterError": "ampere_energy.errors",
    "Mode": "ampere_energy.model.training",
    "ModelError": "ampere_energy.errors",
    "Optimizer": "ampere_energy.model.training",
    "Precision": "ampere_energy.model.training",
    "Profile": "ampere_energy.fit.profile",
    "Pruned": "ampere_energy.decide.pruned",
    "RequestError": "ampere_energy.errors",
    "Rules": "ampere_energy.fit.rules",
    "Training": "ampere_energy.model.training",
    "WidthError": "ampere_energy.errors",
    "WorkerError": "ampere_energy.errors",
    "energy_objective": "ampere_energy.decide.objective",
    "estimate": "ampere_energy.predict.estimate",
    "estimate_many": "ampere_energy.predict.many",
    "load": "ampere_energy.collection",
    "load_pruned": "ampere_energy.decide.pruned",
    "parse": "ampere_energy.model.parse",
    "profile": "ampere_energy.fit.campaign",
    "prunable": "ampere_energy.decide.channels",
    "prune": "ampere_energy.decide.prune",
    "search": "ampere_energy.decide.search",
    "space_of": "ampere_energy.decide.space",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
