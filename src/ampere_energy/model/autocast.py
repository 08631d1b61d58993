"""Autocast as CUDA does it: which operations it computes in full precision, whatever they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ampere_energy.model.training import Precision

AUTOCAST = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


_FULL_PRECISION = {
    "layer_norm", "group_norm", "softmax", "log_softmax", "softmin", "cross_entropy", "nll_loss", "mse_loss", "l1_loss",
    "smooth_l1_loss", "kl_div", "cosine_embedding_loss", "cosine_similarity", "exp", "expm1", "log", "log10", "log2",
    "log1p", "pow", "prod", "reciprocal", "rsqrt", "sum", "cumsum", "cumprod", "norm", "dist", "cdist", "softplus",
    "acos", "asin", "cosh", "sinh", "tan", "erfinv", "renorm", "logsumexp", "poisson_nll_loss", "huber_loss",
}  # fmt: skip
"""Operations that autocast on CUDA computes in fp32, whatever they are given."""


def as_on_cuda(func: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The call's result, in the type that autocast on CUDA gives it: on a CPU it leaves some operations alone."""
    if name not in _FULL_PRECISION or not torch.is_autocast_enabled("cpu"):
        return func(*args, **kwargs)
    with torch.autocast("cpu", enabled=False):
        return func(*(_full(a) for a in args), **{key: _full(a) for key, a in kwargs.items()})


def _full(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor) and argument.dtype in (torch.bfloat16, torch.float16):
        return argument.float()
    return argument
