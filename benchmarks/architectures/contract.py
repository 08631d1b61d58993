"""What every factory of models keeps to: a module and the real tensors it is called with, the same each time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...] | dict[str, torch.Tensor]
Built = tuple[nn.Module, Inputs]
P = ParamSpec("P")


def seeded(factory: Callable[P, Built]) -> Callable[P, Built]:
    """The factory with weights and inputs that do not change from call to call.

    Where control flow depends on data, so does the parse: it must not depend on what ran before.
    """

    @wraps(factory)
    def build(*args: P.args, **kwargs: P.kwargs) -> Built:
        with torch.random.fork_rng(devices=[]):  # the CPU's alone: naming a GPU here would start it
            torch.manual_seed(0)
            return factory(*args, **kwargs)

    return build
