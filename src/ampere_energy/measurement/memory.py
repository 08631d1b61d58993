"""Handing a card's memory back: a library that finds too little of it takes other kernels, and goes on taking them.

cuDNN asks for up to 93 of an H200's 139 GiB to convolve by FFT. What cuBLAS keeps for each stream may lie in such a
piece, and would hold all of it, also from the same step while it is captured, which has memory of its own
(`docs/decisions/023-memory-chooses-kernels.md`).
"""

from __future__ import annotations

import gc

import torch

_HELD = 0.25
"""Share of a card's memory that may stay with this process: handing back less costs more than most timings."""


def hand_back(device: torch.device) -> None:
    """Frees what nobody uses any more."""
    gc.collect()
    if device.type == "cuda":
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()


def hand_back_much(device: torch.device) -> None:
    """The same, where this process holds a good part of the card."""
    if device.type != "cuda":
        return
    if torch.cuda.memory_reserved(device) > _HELD * torch.cuda.get_device_properties(device).total_memory:
        hand_back(device)
