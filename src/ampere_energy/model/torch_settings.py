"""torch's global settings: what a user's file may set for its whole process, and what a step then costs.

A file that sets the default dtype, or turns anomaly mode on, changes every step after it. Those settings that differ
from torch's own are part of how a model is trained (`Training.torch_settings`): its blocks are measured with them, and
whatever else a process measures is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import backends

from ampere_energy.errors import RequestError
from ampere_energy.model.training import Precision

Settings = tuple[tuple[str, str], ...]
"""Names and values."""


@dataclass(frozen=True)
class _Setting:
    """One of them.

    Attributes:
        usual: torch's own value; of the number of threads, which depends on the machine, empty.
        read: raises `AttributeError` where this torch does not have it.
        costs: whether it changes what a step costs.
    """

    name: str
    usual: str
    read: Callable[[], Any]
    write: Callable[[str], Any]
    costs: bool = True


def _flag(name: str, usual: bool, read: Callable[[], Any], write: Callable[[bool], Any]) -> _Setting:
    return _Setting(name, str(usual), read, lambda text: write(text == "True"))


def _attribute(place: Any, name: str, usual: bool, called: str) -> _Setting:
    return _flag(called, usual, lambda: getattr(place, name), lambda value: setattr(place, name, value))


def _dtype(text: str) -> torch.dtype:
    found = getattr(torch, text, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(text)
    return found


def _matmul_precision() -> str:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # it was set by torch's newer names
        return "high" if backends.cuda.matmul.fp32_precision == "tf32" else "highest"


def _flushes() -> bool:
    """Whether numbers too small for their exponent are taken as zero: torch does not tell."""
    return not (torch.full((1,), 1e-310, dtype=torch.float64, device="cpu") * 1.0).any()


_ALL = (
    _Setting(
        "default_dtype",
        "float32",
        lambda: str(torch.get_default_dtype()).removeprefix("torch."),
        lambda text: torch.set_default_dtype(_dtype(text)),
    ),
    _Setting(
        "default_device",
        "cpu",
        lambda: torch.get_default_device(),
        lambda text: torch.set_default_device(None if text == "cpu" else text),
        costs=False,  # the model is moved to where it trains
    ),
    _Setting(
        "num_threads",
        "",
        torch.get_num_threads,
        lambda text: torch.set_num_threads(int(text)),
        costs=False,  # that is, it is the device's
    ),
    _flag("grad_enabled", True, torch.is_grad_enabled, torch._C._set_grad_enabled),
    _flag(
        "anomaly_enabled",
        False,
        torch.is_anomaly_enabled,
        lambda on: torch.autograd.set_detect_anomaly(on, torch.is_anomaly_check_nan_enabled()),
    ),
    _Setting(
        "deterministic_debug_mode",
        "0",
        torch.get_deterministic_debug_mode,
        lambda text: torch.set_deterministic_debug_mode(int(text)),
    ),
    _Setting("float32_matmul_precision", "highest", _matmul_precision, torch.set_float32_matmul_precision),
    _flag("flush_denormal", False, _flushes, torch.set_flush_denormal),
    *(
        _flag(
            f"autocast_{device}",
            False,
            lambda device=device: torch.is_autocast_enabled(device),  # type: ignore[misc]
            lambda on, device=device: torch.set_autocast_enabled(device, on),  # type: ignore[misc]
        )
        for device in ("cpu", "cuda")
    ),
    _flag("mkldnn.enabled", True, torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    _attribute(backends.cudnn, "enabled", True, "cudnn.enabled"),
    _attribute(backends.cudnn, "benchmark", False, "cudnn.benchmark"),
    _attribute(backends.cudnn, "deterministic", False, "cudnn.deterministic"),
    _attribute(backends.cudnn, "allow_tf32", True, "cudnn.allow_tf32"),
    _attribute(
        backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", True, "cuda.fp16_reduced_precision_reduction"
    ),
    _attribute(
        backends.cuda.matmul, "allow_bf16_reduced_precision_reduction", True, "cuda.bf16_reduced_precision_reduction"
    ),
    _flag("flash_sdp", True, backends.cuda.flash_sdp_enabled, backends.cuda.enable_flash_sdp),
    _flag("mem_efficient_sdp", True, backends.cuda.mem_efficient_sdp_enabled, backends.cuda.enable_mem_efficient_sdp),
    _flag("math_sdp", True, backends.cuda.math_sdp_enabled, backends.cuda.enable_math_sdp),
)
_NAMED = {setting.name: setting for setting in _ALL}


def current() -> Settings:
    """All settings as they are."""
    found = []
    for setting in _ALL:
        with contextlib.suppress(AttributeError, RuntimeError):  # this torch has none such, or will not tell
            found.append((setting.name, str(setting.read())))
    return tuple(found)


def restore(settings: Settings) -> None:
    """Settings as they were; what did not change is left alone."""
    now = dict(current())
    for name, value in settings:
        if now.get(name) != value:
            _NAMED[name].write(value)


def unusual(precision: Precision = Precision.FP32) -> Settings:
    """The settings in force that change what a step costs and differ from torch's own.

    Args:
        precision: what the model is asked to compute in, which sets some of them anyhow.
    """
    usual = {setting.name: setting.usual for setting in _ALL if setting.costs}
    if precision is Precision.TF32:
        usual["float32_matmul_precision"] = "high"
    return tuple((name, value) for name, value in current() if name in usual and value != usual[name])


def apply(settings: Settings) -> None:
    """Puts settings in force that a model's own code had set."""
    for name, value in settings:
        if name not in _NAMED:
            raise RequestError(f"a global setting {name!r} of torch", f"this AMPERE knows {', '.join(_NAMED)}")
        try:
            _NAMED[name].write(value)
        except (ValueError, RuntimeError, TypeError, AttributeError) as error:
            what = f"torch's global setting {name} cannot be {value!r} here ({error})"
            raise RequestError(what, "profile with the torch that ran it") from error
