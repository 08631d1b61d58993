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
    from ampere_energy.campaign.rules import Rules
    from ampere_energy.campaign.run import profile
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
    from ampere_energy.estimation.answer import estimate
    from ampere_energy.estimation.many import estimate_many
    from ampere_energy.estimation.result import Estimate
    from ampere_energy.model.parse import parse
    from ampere_energy.model.structures import Axis
    from ampere_energy.model.training import Mode, Optimizer, Precision, Training
    from ampere_energy.optimization.pruning.channels import prunable
    from ampere_energy.optimization.pruning.prune import prune
    from ampere_energy.optimization.pruning.pruned import Pruned, load_pruned
    from ampere_energy.optimization.search.objective import energy_objective
    from ampere_energy.optimization.search.search import search
    from ampere_energy.optimization.search.space import space_of
    from ampere_energy.profiles.collection import load
    from ampere_energy.profiles.profile import Profile

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
    "Estimate": "ampere_energy.estimation.result",
    "FileError": "ampere_energy.errors",
    "MeterError": "ampere_energy.errors",
    "Mode": "ampere_energy.model.training",
    "ModelError": "ampere_energy.errors",
    "Optimizer": "ampere_energy.model.training",
    "Precision": "ampere_energy.model.training",
    "Profile": "ampere_energy.profiles.profile",
    "Pruned": "ampere_energy.optimization.pruning.pruned",
    "RequestError": "ampere_energy.errors",
    "Rules": "ampere_energy.campaign.rules",
    "Training": "ampere_energy.model.training",
    "WidthError": "ampere_energy.errors",
    "WorkerError": "ampere_energy.errors",
    "energy_objective": "ampere_energy.optimization.search.objective",
    "estimate": "ampere_energy.estimation.answer",
    "estimate_many": "ampere_energy.estimation.many",
    "load": "ampere_energy.profiles.collection",
    "load_pruned": "ampere_energy.optimization.pruning.pruned",
    "parse": "ampere_energy.model.parse",
    "profile": "ampere_energy.campaign.run",
    "prunable": "ampere_energy.optimization.pruning.channels",
    "prune": "ampere_energy.optimization.pruning.prune",
    "search": "ampere_energy.optimization.search.search",
    "space_of": "ampere_energy.optimization.search.space",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
