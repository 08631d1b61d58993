"""Which kernels cuDNN takes from one width to the next: on a machine with an NVIDIA card,

    python -m benchmarks.hardware.cudnn_kernels conv|conv1d|lstm|memory|slow RESULT.jsonl

The second block of `cnn5`, the last two convolutions of `har` and an LSTM layer, each by itself at the batch that is
recorded of its family, over lines of widths: one training step's time, and each kernel that takes more than 20 µs of
it. `memory` is the last convolution of `har` while the card's memory is free, and while most of it is taken; `slow` the
same at widths drawn by chance, and closely around one of the boxes where it is slow (what is recorded of it has no
kernels). `decisions/020-phases.md`, `022-strips.md`, `023-memory-chooses-kernels.md` and `033-looks.md` say what they
show.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ampere_energy.cost_model.kernels import FILLED, TILE
from benchmarks.hardware import card
from benchmarks.results import DATA

SHORTEST_US = 20
RECORDED = DATA / "h200-kernels"
TAPS = {"conv": 9, "conv1d": 5}
TAKEN_GIB = 90
DRAWN = 450
SLOW_MS = 18
"""What the convolution takes at least where its gradient is computed by FFT; at most 16 elsewhere."""
DIRECT = "dgrad2d_alg1"
"""What the kernel that takes no tensor cores for the gradient of what a convolution reads is called."""

Case = tuple[nn.Module, tuple[int, ...], dict[str, int]]
"""A block, what it reads, and the numbers that tell it from others."""


def conv() -> Iterator[Case]:
    """A 3×3 convolution with batch norm, ReLU and pooling, from channels read to channels given."""
    lines = [(40, given) for given in range(64, 129)]
    lines += [(read, 98) for read in range(8, 65)]
    lines += [(read, given) for read in range(33, 49, 3) for given in range(100, 116, 3)]
    for a, b in lines:
        layers = (nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2))
        yield nn.Sequential(*layers), (512, a, 32, 32), {"a": a, "b": b}


def conv1d() -> Iterator[Case]:
    """A convolution of 5 over a sequence with ReLU and pooling, of so many steps."""
    lines = [(64, given, 32) for given in range(8, 257, 4)]
    lines += [(61, given, 32) for given in range(9, 257, 6)]
    lines += [(read, 128, 32) for read in range(3, 129, 3)]
    lines += [(read, 133, 32) for read in range(3, 129, 5)]
    lines += [(32, given, 64) for given in range(2, 129, 3)]
    lines += [(29, given, 64) for given in range(2, 129, 5)]
    lines += [(9, given, 128) for given in range(1, 65, 2)]
    lines += [(read, 64, 64) for read in range(2, 65, 2)]
    for a, b, steps in lines:
        yield _over_steps(a, b), (16384, a, steps), {"a": a, "b": b, "steps": steps}


def memory() -> Iterator[Case]:
    """The same over 32 steps, with so many GiB of the card's memory taken by something else."""
    lines = [(128, 21, 16384, 0), (128, 24, 16384, 0), (127, 21, 16384, 0), (120, 18, 16384, 0)]
    lines += [(128, 21, 16384, TAKEN_GIB), (120, 18, 16384, TAKEN_GIB), (120, 18, 16384, 0)]
    lines += [(120, 18, batch, 0) for batch in (1024, 4096, 8192)]
    lines += [
        (read, given, 16384, 0) for read, given in ((120, 16), (64, 21), (65, 21), (29, 21), (120, 59), (120, 65))
    ]
    for a, b, batch, gib in lines:
        torch.cuda.empty_cache()
        taken = torch.empty(gib * 2**30, dtype=torch.uint8, device="cuda")
        yield _over_steps(a, b), (batch, a, 32), {"a": a, "b": b, "batch": batch, "held_gib": gib}
        del taken


def slow() -> Iterator[Case]:
    """The same over 32 steps, anywhere and around a small box."""
    draw = random.Random(7)
    anywhere = [(draw.randint(1, 128), draw.randint(1, 256)) for _ in range(DRAWN)]
    for a, b in (*anywhere, *((a, b) for a in range(17, 40) for b in range(9, 73, 3))):
        torch.cuda.empty_cache()
        yield _over_steps(a, b), (16384, a, 32), {"a": a, "b": b, "steps": 32}


def _over_steps(read: int, given: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(read, given, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2))


class Series(nn.Module):
    """An LSTM layer that gives what it holds at each step."""

    def __init__(self, read: int, hidden: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(read, hidden, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (batch, steps, hidden)."""
        given: torch.Tensor = self.layer(x)[0]
        return given


def lstm() -> Iterator[Case]:
    """An LSTM over 64 steps, from numbers read to its hidden width."""
    lines = [(128, hidden) for hidden in range(1, 201)]
    lines += [(read, 128) for read in range(1, 201, 3)]
    lines += [(read, 101) for read in range(1, 201, 5)]
    lines += [(61, hidden) for hidden in range(3, 201, 4)]
    for a, b in lines:
        yield Series(a, b), (1024, 64, a), {"a": a, "b": b}


SCANS: dict[str, Callable[[], Iterator[Case]]] = {
    "conv": conv,
    "conv1d": conv1d,
    "lstm": lstm,
    "memory": memory,
    "slow": slow,
}


def one_step(block: nn.Module, shape: tuple[int, ...], numbers: dict[str, int]) -> dict[str, Any]:
    """One step's milliseconds and kernels, after two steps to settle."""
    device = torch.device("cuda")
    block = block.to(device)
    x = torch.randn(shape, device=device, requires_grad=True)
    toward = torch.randn_like(block(x)) * 1e-3

    def step() -> None:
        block.zero_grad(set_to_none=True)
        x.grad = None
        block(x).backward(toward)

    step()
    step()
    torch.cuda.reset_peak_memory_stats()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()  # type: ignore[no-untyped-call]
    step()
    step()
    end.record()  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        step()
        torch.cuda.synchronize()
    totals = [(k.key[:90], k.self_device_time_total) for k in seen.key_averages()]
    kernels = [(name, round(us / 1e3, 4)) for name, us in totals if us > SHORTEST_US]
    peak = {"ms": begin.elapsed_time(end) / 2, "peak_gib": torch.cuda.max_memory_allocated() / 2**30}  # type: ignore[no-untyped-call]
    return numbers | peak | {"kernels": kernels}


def recorded(scan: str) -> list[dict[str, Any]]:
    """What was seen on a card, the heading left out."""
    with gzip.open(RECORDED / f"{scan}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file][1:]


def by_fill(scan: str) -> dict[tuple[str, bool], int]:
    """How often the gradient took each kernel where its sum's last tile was up to `FILLED` full, or fuller.

    Of images at 40 channels read and 69 given or more, of sequences of 32 steps at over 32 read.
    """
    found: Counter[tuple[str, bool]] = Counter()
    for seen in recorded(scan):
        asked = seen["a"] == 40 and seen["b"] >= 69 if scan == "conv" else seen["steps"] == 32 and seen["a"] > 32
        if asked:
            direct = any(DIRECT in name for name, _ in seen["kernels"])
            found["direct" if direct else "tensor cores", TAPS[scan] * seen["b"] % TILE >= FILLED] += 1
    return dict(found)


def by_hidden(read: int = 128) -> dict[int, float]:
    """Milliseconds of the kernels of an LSTM's step, by its hidden width."""
    return {s["b"]: sum(ms for _, ms in s["kernels"]) for s in recorded("lstm") if s["a"] == read}


if __name__ == "__main__":
    scan, result = sys.argv[1:]
    with Path(result).open("w") as file:
        about = {**card.identity(), "cudnn": torch.backends.cudnn.version()}
        for row in ({"device": about, "shortest_us": SHORTEST_US}, *(one_step(*case) for case in SCANS[scan]())):
            file.write(json.dumps(row) + "\n")
