"""Which kernels cuDNN takes for a convolution from one width to the next: on a machine with an NVIDIA card,

    python -m studies.kernels_on_gpu RESULT.jsonl

A 3×3 convolution with batch norm, ReLU and pooling (the second block of `cnn5`) at batch 512 over lines of widths: one
training step's time, and each kernel that takes more than 20 µs of it. `decisions/020-phases.md` says what it shows.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ampere_energy.fit.kernels import TILE
from studies.freshness import ROOT

BATCH, PIXELS, TAPS = 512, 32, 9
SHORTEST_US = 20
RECORDED = ROOT / "data" / "h200-kernels" / "conv.jsonl.gz"


def lines() -> Iterator[tuple[int, int]]:
    """Channels read and given."""
    yield from ((40, given) for given in range(64, 129))
    yield from ((read, 98) for read in range(8, 65))
    yield from ((read, given) for read in range(33, 49, 3) for given in range(100, 116, 3))


def look(read: int, given: int) -> dict[str, Any]:
    """One step's milliseconds and kernels, after two steps to settle."""
    device = torch.device("cuda")
    layers = (nn.Conv2d(read, given, 3, padding=1), nn.BatchNorm2d(given), nn.ReLU(), nn.MaxPool2d(2))
    block = nn.Sequential(*layers).to(device)
    x = torch.randn(BATCH, read, PIXELS, PIXELS, device=device, requires_grad=True)
    toward = torch.randn_like(block(x)) * 1e-3

    def step() -> None:
        block.zero_grad(set_to_none=True)
        x.grad = None
        block(x).backward(toward)

    step()
    step()
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
    return {
        "a": read,
        "b": given,
        "ms": begin.elapsed_time(end) / 2,  # type: ignore[no-untyped-call]
        "kernels": [(name, round(us / 1e3, 4)) for name, us in totals if us > SHORTEST_US],
    }


def recorded() -> list[dict[str, Any]]:
    """What was seen on a card, the heading left out."""
    with gzip.open(RECORDED, "rt") as file:
        return [json.loads(line) for line in file][1:]


def gradient_kernel(seen: dict[str, Any]) -> tuple[str, float]:
    """The kernel that makes the gradient of what the block reads, in short, and its milliseconds."""
    name, ms = next((name, ms) for name, ms in seen["kernels"] if "dgrad" in name)
    return ("direct" if "dgrad2d_alg1" in name else "tensor cores"), ms


def by_phase(read: int = 40, fewest: int = 69) -> dict[str, Counter[int]]:
    """Of one line, how often each kernel was taken at each phase: 9 · width, modulo 64."""
    found: dict[str, Counter[int]] = {}
    for seen in recorded():
        if seen["a"] == read and seen["b"] >= fewest:
            found.setdefault(gradient_kernel(seen)[0], Counter())[TAPS * seen["b"] % TILE] += 1
    return found


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w") as file:
        properties = torch.cuda.get_device_properties(0)
        about = {"gpu": properties.name, "uuid": str(properties.uuid), "torch": torch.__version__}
        about |= {"cudnn": torch.backends.cudnn.version(), "recorded_at": datetime.now(UTC).isoformat()}
        for row in ({"device": about}, *(look(*widths) for widths in lines())):
            file.write(json.dumps(row) + "\n")
