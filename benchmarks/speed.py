"""`make bench`: how quick things are, as ratios within one run: absolute times on a shared machine say little.

refit       a Gaussian process after one new point: ours against BoTorch's, both from where they stood
many        100,000 networks of cnn5 with intervals, against counting FLOPs of one after the other
growth      how costs grow: learning and predicting against observations and blocks (`docs/bench.svg`)
"""

from __future__ import annotations

import json
import math
import random
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import gpytorch
import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.fitting import learn
from ampere_energy.cost_model.gaussian_process import fit
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Observation
from ampere_energy.estimation.many import estimate_many
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.load import instantiate
from ampere_energy.model.source import model_ref
from ampere_energy.model.variants import alone
from benchmarks.specs import spec_of
from benchmarks.studies import gpytorch_oracle

PLOT = Path(__file__).parents[1] / "docs" / "bench.svg"
POINTS = (8, 16, 32)
NETWORKS, COUNTED = 100_000, 30
OBSERVATIONS, BLOCKS = (50, 100, 200, 500, 1000, 2000), (5, 20, 80)
REFIT_RATIO, MANY_RATIO, MANY_MB = 10, 200, 1024
LogObservations = Sequence[Sequence[str]]


def median_s(run: Callable[[], object], repeats: int) -> float:
    """Seconds a run takes, once warm."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def refit(n: int) -> dict[str, float]:
    """Seconds to fit n points when n − 1 were fitted before."""
    draw = torch.Generator().manual_seed(n)
    x = torch.rand(n, 2, generator=draw, dtype=torch.float64)
    y = 1 + 3 * x.prod(1) + 0.02 * torch.randn(n, generator=draw, dtype=torch.float64)
    points, values = x.numpy(), y.numpy()
    before = fit(points[:-1], values[:-1]).hyper

    def single(count: int) -> torch.nn.Module:
        return SingleTaskGP(x[:count], y[:count, None])

    def same(count: int) -> torch.nn.Module:
        known = torch.zeros(count, dtype=torch.float64)
        return gpytorch_oracle.Oracle(x[:count], y[:count], known, float(y[:count].mean()))

    def climb(model: torch.nn.Module) -> torch.nn.Module:
        fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    def again(make: Callable[[int], torch.nn.Module], state: dict[str, torch.Tensor]) -> None:
        model = make(n)
        model.load_state_dict(state, strict=False)
        climb(model)

    theirs = []
    for make in (single, same):
        state = {
            name: value
            for name, value in climb(make(n - 1)).state_dict().items()
            if "outcome" not in name and "input" not in name
        }
        theirs.append(median_s(lambda make=make, state=state: again(make, state), 5))  # type: ignore[misc]
    return {
        "ours": median_s(lambda: fit(points, values, start=before), 15),
        "ours, cold": median_s(lambda: fit(points, values), 7),
        "SingleTaskGP": theirs[0],
        "same model": theirs[1],
    }


def many() -> dict[str, float]:
    """Seconds and memory of 100,000 networks in one call; run in a process of its own."""
    chosen = family("cnn5")
    spec, draw = spec_of("cnn5"), np.random.default_rng(0)
    learnt = profile(
        spec, device=SimulatedDevice(0.01, 0, rough=0.1, world=1), ranges=chosen.ranges, rules=Rules(points=4)
    )
    widths = np.stack([draw.integers(r.low, r.high + 1, NETWORKS) for r in chosen.ranges], axis=1)
    estimate_many(spec, learnt, widths[:100])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        found = estimate_many(spec, learnt, widths)
        seconds.append(time.perf_counter() - start)
    assert bool((found.low_j < found.energy_j).all() and np.isfinite(found.high_j).all())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": min(seconds), "peak mb": peak, "before mb": before}


def apart(name: str) -> dict[str, float]:
    """A part of this module in a process of its own, so that its memory is its own."""
    command = [sys.executable, "-m", "benchmarks.speed", name]
    text = subprocess.run(command, capture_output=True, text=True, check=True, cwd=PLOT.parents[1]).stdout
    return dict(json.loads(text.splitlines()[-1]))


def counting() -> dict[str, float]:
    """Seconds a model to build it and count the FLOPs of a step: with numbers, with fake ones, with none."""

    def step(widths: tuple[int, ...], device: str) -> int:
        ref = model_ref("cnn5", widths=widths)
        with torch.device(device):
            model, batch = instantiate(ref), torch.empty(ref.input)
            with FlopCounterMode(display=False) as counter:
                model(batch).sum().backward()
        return int(counter.get_total_flops())

    def fake(widths: tuple[int, ...]) -> int:
        with FakeTensorMode():
            return step(widths, "cpu")

    networks = family("cnn5").sample(COUNTED, 0)
    ways: dict[str, Callable[[tuple[int, ...]], int]] = {
        "real tensors": lambda widths: step(widths, "cpu"),
        "fake tensors": fake,
        "meta tensors": lambda widths: step(widths, "meta"),
    }
    assert len({way(networks[0]) for way in ways.values()}) == 1, "all ways count the same"
    found = {}
    for name, way in ways.items():
        start = time.perf_counter()
        for widths in networks:
            way(widths)
        found[name] = (time.perf_counter() - start) / COUNTED
    return found


def observed(count: int, base: JointFit) -> list[Observation]:
    """Blocks alone at random widths, one in five metered."""
    draw, device = random.Random(count), SimulatedDevice(0.01, 0, rough=0.1, world=1)
    kinds = {kind.id: kind for kind in spec_of("cnn5").kinds}
    found = []
    for i in range(count):
        place = draw.randrange(len(base.subjects))
        subject = base.subjects[place]
        point = tuple(draw.randint(r.low, r.high) for r in subject.domain)
        blocks = alone(kinds[subject.id], point).blocks
        energy_j = device.true_energy_j(blocks) * draw.gauss(1, 0.01) if i % 5 == 0 else None
        time_s = device.true_time_s(blocks) * draw.gauss(1, 0.01)
        found.append(Observation(((place, point),), time_s, energy_j, 0.01, 0.01 if energy_j else 0.0))
    return found


def growth() -> tuple[dict[int, tuple[float, ...]], dict[int, float]]:
    """By observations: seconds of a step of learning, of the posterior, of one predict. By blocks: of one predict."""
    chosen = family("cnn5")
    device = SimulatedDevice(0.01, 0, rough=0.1, world=1)
    base = profile(spec_of("cnn5"), device=device, ranges=chosen.ranges, rules=Rules(points=4)).nets
    assert base is not None
    kinds = list(range(len(base.subjects)))
    at = [np.array([[float(r.high // 2) for r in base.subjects[kind].domain]]) for kind in kinds]
    by_observations: dict[int, tuple[float, ...]] = {}
    for count in OBSERVATIONS:
        seen = observed(count, base)
        start = time.perf_counter()
        fitted = learn(base.subjects, seen, before=base, iterations=2)
        learning = (time.perf_counter() - start) / 2
        start = time.perf_counter()
        fitted.predict(kinds, at)
        state = time.perf_counter() - start
        by_observations[count] = (learning, state, median_s(lambda fitted=fitted: fitted.predict(kinds, at), 5))  # type: ignore[misc]
    by_blocks = {}
    for blocks in BLOCKS:
        many_kinds = [kinds[i % len(kinds)] for i in range(blocks)]
        points = [at[kind] for kind in many_kinds]
        by_blocks[blocks] = median_s(lambda k=many_kinds, p=points: base.predict(k, p), 5)  # type: ignore[misc]
    return by_observations, by_blocks


def show(title: str, head: Sequence[str], rows: LogObservations) -> None:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    print(f"\n{title}")
    for row in (head, *rows):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
    sys.stdout.flush()


def plot(by_observations: dict[int, tuple[float, ...]]) -> str:
    """Costs against observations, both axes logarithmic, as SVG."""
    xs = list(by_observations)
    names = ("a step of learning", "the posterior, once", "one estimate")
    colours = ("#c44e52", "#4c72b0", "#55a868")
    values = [v for costs in by_observations.values() for v in costs]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(count: float) -> float:
        return 70 + 330 * math.log(count / xs[0]) / math.log(xs[-1] / xs[0])

    def y(seconds: float) -> float:
        return 230 - 200 * (math.log10(seconds) - low) / (high - low)

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 280" font-family="sans-serif" font-size="12">',
        '<rect width="560" height="280" fill="white"/>',
    ]
    for power in range(low, high + 1):
        label = (
            f"{10**power} s" if power >= 0 else f"{10 ** (power + 3)} ms" if power >= -3 else f"{10 ** (power + 6)} µs"
        )
        parts.append(f'<path d="M70 {y(10**power):.0f}H400" stroke="#ddd"/>')
        parts.append(f'<text x="64" y="{y(10**power) + 4:.0f}" text-anchor="end">{label}</text>')
    for count in xs:
        parts.append(f'<text x="{x(count):.0f}" y="248" text-anchor="middle">{count}</text>')
    parts.append('<text x="235" y="270" text-anchor="middle">observations</text>')
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        line = " ".join(f"{x(count):.0f},{y(costs[i]):.0f}" for count, costs in by_observations.items())
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        end = y(by_observations[xs[-1]][i]) + 4
        parts.append(f'<text x="408" y="{end:.0f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def ms(seconds: float) -> str:
    return f"{1e3 * seconds:.2f} ms"


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    refits = {n: refit(n) for n in POINTS}
    names = list(refits[POINTS[0]])
    ratios = {n: min(times["SingleTaskGP"], times["same model"]) / times["ours"] for n, times in refits.items()}
    show(
        f"Refit after one new point, at least {REFIT_RATIO} times faster than the faster of BoTorch's",
        ("points", *names, "ratio"),
        [(str(n), *(ms(times[name]) for name in names), f"{ratios[n]:.0f}") for n, times in refits.items()],
    )
    ours, theirs = apart("many"), counting()
    each = ours["seconds"] / NETWORKS
    rows = [("estimate_many, with intervals", f"{1e6 * each:.1f} µs", "1")]
    rows += [(f"FlopCounterMode, {name}", ms(s), f"{s / each:.0f}") for name, s in theirs.items()]
    show(f"One network of cnn5, of {NETWORKS:,}: at least {MANY_RATIO} times faster", ("way", "each", "times"), rows)
    print(f"{ours['seconds']:.1f} s in all; peak memory {ours['peak mb']:.0f} MB, {ours['before mb']:.0f} MB before")
    by_observations, by_blocks = growth()
    show(
        "Against observations (one in five metered)",
        ("observations", "a step of learning", "the posterior, once", "one estimate"),
        [(str(n), *map(ms, costs)) for n, costs in by_observations.items()],
    )
    show("Against blocks", ("blocks", "one estimate"), [(str(n), ms(s)) for n, s in by_blocks.items()])
    PLOT.write_text(plot(by_observations))
    kept = {
        "refit": min(ratios.values()) >= REFIT_RATIO,
        "many": min(theirs.values()) / each >= MANY_RATIO,
        "memory": ours["peak mb"] < MANY_MB,
    }
    print("\n" + ", ".join(f"{name} {'kept' if ok else 'MISSED'}" for name, ok in kept.items()))
    sys.exit(0 if all(kept.values()) else 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["many"]:
        print(json.dumps(many()))
    else:
        main()
