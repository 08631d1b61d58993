"""Random small models in random types, parametrisations and settings: the estimate agrees with the model measured.

A factory is drawn; it is profiled, estimated and measured by the command line on a processor. The measured energy lies
in the estimate's 99 % interval, widened by what the measurement itself scatters by; or somebody says why not: the
profile or the estimate is refused, or the estimate tells a doubt.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attacks import cases, process
from benchmarks.attacks.cases import Case, Found

LEVEL = "0.99"
CLOSE = 0.10
"""A measurement agrees as well where it is this near: two of one model on a busy machine differ by as much."""
_FILE = """
import torch
from torch import nn
{top}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential({layers})
    def forward(self, x):
        {before}
        return self.layers(x)
def f():
    {settings}
    return Net(){cast}, torch.randn({shape}){input_cast}
"""
_CUSTOM = """
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(c, x): return x * 1.0
    @staticmethod
    def backward(c, g):
        w = torch.ones(160, 160)
        for _ in range(4): w = w @ w / 160
        return g
"""
CASTS = ("", "", "", ".double()", ".bfloat16()", ".half()")
SETTINGS = ("pass", "pass", "pass", "torch.set_default_dtype(torch.float64)", "torch.autograd.set_detect_anomaly(True)",
            "torch.backends.mkldnn.set_flags(False)", "torch.use_deterministic_algorithms(True)",
            "torch.set_float32_matmul_precision('medium')", "torch.set_flush_denormal(True)")  # fmt: skip
WRAPS = ("{}", "{}", "{}", "{}", "nn.utils.parametrizations.weight_norm({})",
         "nn.utils.parametrizations.spectral_norm({})", "nn.utils.parametrizations.orthogonal({})")  # fmt: skip
BEFORE = ("pass", "pass", "pass", "pass", "y = x.detach().float().numpy(); [(y.T @ y) for _ in range(20)]",
          "x = Slow.apply(x)", "self.layers(x).sum().backward()")  # fmt: skip


def factory(draw: random.Random) -> str:
    """A factory's file."""
    cast = draw.choice(CASTS)
    wrap = draw.choice(WRAPS)
    batch, between = draw.choice((8, 32, 64)), draw.choice(("nn.ReLU()", "nn.GELU()", "nn.Tanh()"))
    if draw.random() < 0.6:
        widths = [draw.choice((16, 32, 64, 128, 200)) for _ in range(draw.choice((2, 3, 4)))]
        made = [wrap.format(f"nn.Linear({a}, {b})") for a, b in itertools.pairwise(widths)]
        layers, shape = f", {between}, ".join([*made, f"nn.Linear({widths[-1]}, 10)"]), f"{batch}, {widths[0]}"
    else:
        channels = [3, *(draw.choice((8, 16, 24)) for _ in range(draw.choice((1, 2))))]
        made = [wrap.format(f"nn.Conv2d({a}, {b}, 3, padding=1)") for a, b in itertools.pairwise(channels)]
        norm = draw.choice(("", f"nn.BatchNorm2d({channels[1]}), "))
        head = f"nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear({4 * channels[-1]}, 10)"
        layers, shape = f"{made[0]}, {norm}{between}, {', '.join([*made[1:], head])}", f"{batch}, 3, 16, 16"
    return _FILE.format(
        top=_CUSTOM,
        layers=layers,
        before=draw.choice(BEFORE),
        settings=draw.choice(SETTINGS),
        cast=cast,
        shape=shape,
        input_cast=cast,
    )


def agrees(number: int, seed: int, folder: Path, budget: str = "10s") -> Found:
    """One model profiled, estimated and measured."""
    folder.mkdir(parents=True)
    text = factory(random.Random(f"{seed} {number}"))
    (folder / "drawn.py").write_text(text)
    of = partial(process.command, cwd=folder, limit_s=300.0)
    on = ("--device", "cpu", "--threads", "1")
    told = [of("profile", "drawn.py:f", *on, "--budget", budget, "--out", "p.json", "--json")]
    if told[-1].code == 0:
        told.append(of("estimate", "drawn.py:f", "--profile", "p.json", "--level", LEVEL, "--json"))
    if told[-1].code == 0:
        told.append(of("measure", "drawn.py:f", *on, "--json"))
    causes = [cause for done in told for cause in process.judged(done) if cause != "over 1.5 GB"]
    shutil.rmtree(folder)
    special = [line.strip() for line in text.splitlines() if any(line.strip() == s for s in (*SETTINGS, *BEFORE))]
    cast = text.partition("return Net()")[2].partition(",")[0]
    about = (
        f"{cast} {[s for s in special if s != 'pass']} {text.partition('Sequential(')[2].partition(chr(10))[0][:120]}"
    )
    if len(told) < 3 or told[-1].code != 0:
        return Found(tuple(dict.fromkeys(causes)), f"refused: {told[-1].last[:150]} | {about}"[:500], {"n refused": 1})
    estimate, measured = json.loads(told[1].out), json.loads(told[2].out)
    low, high = estimate["interval_j"]
    is_j, scatter_j = measured["energy_j"], 3 * (measured["energy_std_j"])
    off = is_j / estimate["energy_j"]
    inside = low - scatter_j <= is_j <= high + scatter_j or abs(off - 1) < CLOSE
    says = [*estimate["doubts"], *estimate["unattributed"]]
    if not inside and not says:
        causes.append("disagrees and says nothing")
    figures = {"n inside": int(inside), "n says why": int(not inside and bool(says)), "off": max(off, 1 / off)}
    return Found(tuple(causes), f"measured {off:.2f} of the estimate, says {says} | {about}"[:500], figures)


def run(models: int, folder: Path, seed: int = 0, keep: Path | None = None) -> dict[str, Any]:
    """So many models."""
    process.ready()
    every: list[Case] = [(str(n), partial(agrees, n, seed, folder / str(n))) for n in range(models)]
    return cases.run("properties", every, keep)
