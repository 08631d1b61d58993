"""`make bench`: ratios within one run; absolute times on a shared machine say little."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable

import gpytorch
import torch
from botorch.fit import fit_gpytorch_mll

from ampere_energy.fit.gp import fit
from studies import oracle


def median_s(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def refit(n: int) -> tuple[float, float]:
    """Seconds to fit n points: ours from three starts, GPyTorch's from one."""
    draw = torch.Generator().manual_seed(n)
    x = torch.rand(n, 2, generator=draw, dtype=torch.float64)
    y = 1 + 3 * x.prod(1) + 0.02 * torch.randn(n, generator=draw, dtype=torch.float64)

    def theirs() -> None:
        model = oracle.Oracle(x, y, torch.zeros(n, dtype=torch.float64), float(y.mean()))
        fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model))

    return median_s(lambda: fit(x, y), 7), median_s(theirs, 5)


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(f"{'points':>7} {'ours':>9} {'GPyTorch':>9} {'ratio':>6}")
    for n in (4, 8, 16, 32):
        ours, theirs = refit(n)
        print(f"{n:>7} {1e3 * ours:>6.1f} ms {1e3 * theirs:>6.1f} ms {theirs / ours:>6.1f}")


if __name__ == "__main__":
    main()
