r"""Exact Gaussian-process regression with a Matérn-5/2 kernel, in double precision.

Notation, for n observations in d dimensions:

    X, y        inputs (n, d) and targets (n,)
    m           constant mean, the sample mean of y
    ℓ           lengthscales (d,), one a dimension (ARD)
    s²          outputscale, the variance of the function
    v           known noise variances (n,), from each observation's own spread
    σ²          learnt noise variance, common to all observations

    r²(x, x′) = Σₖ (xₖ − x′ₖ)² / ℓₖ²
    k(x, x′)  = s² (1 + √5 r + 5/3 r²) exp(−√5 r)                            (the paper's eq. 3 at ν = 5/2)
    K         = k(X, X) + diag(v + σ²) = L Lᵀ,      α = K⁻¹ (y − m)
    log p(y)  = −½ (y − m)ᵀ α − Σ log Lᵢᵢ − n/2 log 2π

    posterior at X*:   mean m + k(X*, X) α,   covariance k(X*, X*) − k(X*, X) K⁻¹ k(X, X*)

`fit` maximises log p(y) plus the log priors over (log ℓ, log s², log σ²) from several starts, with the exact
gradient ½ tr((ααᵀ − K⁻¹) ∂K/∂θ). Inputs are expected in the unit box; targets are standardised inside.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from ampere_energy.errors import AmpereError

if TYPE_CHECKING:
    from torch import Tensor

Array = np.ndarray
_ROOT5 = math.sqrt(5.0)


@dataclass(frozen=True)
class Hyper:
    """Hyperparameters in the units of the targets."""

    mean: float
    lengthscales: tuple[float, ...]
    outputscale: float
    noise: float

    def __post_init__(self) -> None:
        if not self.lengthscales or min(*self.lengthscales, self.outputscale, self.noise) <= 0:
            raise ValueError("lengthscales, outputscale and noise are positive")


@dataclass(frozen=True)
class LogNormal:
    """A log-normal prior: the median, and the standard deviation of the logarithm."""

    median: float
    sigma: float

    def log_density(self, log_value: float) -> tuple[float, float]:
        """Log density at exp(log_value), up to a constant, and its slope in log_value."""
        z = (log_value - math.log(self.median)) / self.sigma
        return -0.5 * z * z - log_value, -z / self.sigma - 1.0


@dataclass(frozen=True)
class Priors:
    """Priors for standardised targets over the unit box; they keep fits of 4 to 10 points sane."""

    lengthscale: LogNormal = LogNormal(1.0, 1.0)
    outputscale: LogNormal = LogNormal(1.0, 1.0)
    noise: LogNormal = LogNormal(1e-3, 2.0)


PRIORS = Priors()
_BOUNDS = {"lengthscale": (1e-2, 1e4), "outputscale": (1e-3, 1e6), "noise": (1e-8, 1e1)}
_SMALLEST = 1e-15
"""Joules and seconds that no step takes."""
_STEPS, _HALVINGS, _STRIDE, _ENOUGH, _FLAT = 300, 30, 2.0, 1e-11, 1e-5
_STARTS = ((0.3, 1.0, 1e-2), (1.0, 1.0, 1e-4), (3.0, 3.0, 1e-3))


def matern52(a: Tensor, b: Tensor, lengthscales: Tensor) -> Tensor:
    """Correlation between rows of `a` (n, d) and `b` (m, d): shape (n, m)."""
    r = _ROOT5 * _distance(a, b, lengthscales)
    return (1 + r + r * r / 3) * (-r).exp()


def _distance(a: Tensor, b: Tensor, lengthscales: Tensor) -> Tensor:
    squared = (((a[:, None, :] - b[None, :, :]) / lengthscales) ** 2).sum(-1)
    # A square root has no slope at 0; the kernel does, and it is 0, which the clamp gives to autograd.
    return squared.clamp_min(1e-30).sqrt()


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A posterior: observations and the hyperparameters they are seen through."""

    x: Tensor
    y: Tensor
    known_noise: Tensor
    hyper: Hyper

    @cached_property
    def _lengthscales(self) -> Tensor:
        return self.x.new_tensor(self.hyper.lengthscales)

    @cached_property
    def _cholesky(self) -> Tensor:
        k = self.hyper.outputscale * matern52(self.x, self.x, self._lengthscales)
        return _cholesky(k + (self.known_noise + self.hyper.noise).diag())

    @cached_property
    def _alpha(self) -> Tensor:
        return (self.y - self.hyper.mean)[:, None].cholesky_solve(self._cholesky)[:, 0]

    def log_likelihood(self) -> float:
        """log p(y), the marginal likelihood."""
        fit = -0.5 * ((self.y - self.hyper.mean) @ self._alpha)
        size = self._cholesky.diagonal().log().sum() + 0.5 * len(self.y) * math.log(2 * math.pi)
        return float(fit - size)

    def mean(self, x: Tensor) -> Tensor:
        """Posterior mean at rows of `x` (m, d): shape (m,)."""
        return self.hyper.mean + self._cross(x) @ self._alpha

    def covariance(self, x: Tensor) -> Tensor:
        """Joint posterior covariance of the function, without observation noise: shape (m, m)."""
        half = self._explained(x)
        return self.hyper.outputscale * matern52(x, x, self._lengthscales) - half.T @ half

    def variance(self, x: Tensor) -> Tensor:
        """The covariance's diagonal, without the rest: shape (m,)."""
        half = self._explained(x)
        return (self.hyper.outputscale - (half * half).sum(0)).clamp_min(0.0)

    def _explained(self, x: Tensor) -> Tensor:
        """L⁻¹ k(X, x): its squares sum to the variance that the observations take away."""
        import torch

        half: Tensor = torch.linalg.solve_triangular(self._cholesky, self._cross(x).T, upper=False)
        return half

    def _cross(self, x: Tensor) -> Tensor:
        return self.hyper.outputscale * matern52(x, self.x, self._lengthscales)


def _cholesky(matrix: Tensor) -> Tensor:
    import torch

    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info):
        raise AmpereError("a covariance matrix is not positive definite", "are two points or noises degenerate?")
    return factor


def fit(
    x: Tensor,
    y: Tensor,
    known_noise: Tensor | None = None,
    priors: Priors | None = PRIORS,
    starts: Sequence[tuple[float, float, float]] = _STARTS,
    start: Hyper | None = None,
) -> GaussianProcess:
    """The process whose hyperparameters the observations and priors favour most.

    Args:
        x: inputs (n, d), best in the unit box.
        y: targets (n,).
        known_noise: noise variances (n,) known beforehand, in the units of y squared.
        priors: None maximises the marginal likelihood alone.
        starts: (lengthscale, outputscale, noise) to climb from, for standardised targets.
        start: hyperparameters of an earlier fit, to climb from once instead.
    """
    with _one_thread():
        known = y.new_zeros(len(y)) if known_noise is None else known_noise
        mean = float(y.mean())
        scale = float(y.std()) if len(y) > 1 else 0.0
        if scale <= 1e-9 * abs(mean):
            scale = 0.1 * abs(mean) or 1.0
        scale = max(scale, _SMALLEST)  # its square must not vanish
        problem = _Problem(x, (y - mean) / scale, known / scale**2, priors)
        if start is None:
            firsts = [[lengthscale] * x.shape[1] + rest for lengthscale, *rest in starts]
        else:
            firsts = [[*start.lengthscales, start.outputscale / scale**2, start.noise / scale**2]]
        best = min((problem.climb(np.log(first)) for first in firsts), key=lambda result: result[0])[1]
    *lengthscales, outputscale, noise = np.exp(best)
    hyper = Hyper(mean, tuple(map(float, lengthscales)), float(outputscale) * scale**2, float(noise) * scale**2)
    return GaussianProcess(x, y, known, hyper)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small matrices on one thread: torch's and scipy's thread pools otherwise wait for each other (10× and more)."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _Problem:
    """The negative log posterior of θ = (log ℓ, log s², log σ²) and its gradient.

    In NumPy and LAPACK as such: of the few microseconds that matrices of a few points take, torch needs several.
    """

    def __init__(self, x: Tensor, y: Tensor, known: Tensor, priors: Priors | None) -> None:
        points = x.detach().numpy()
        n, d = points.shape
        self.y, self.known = y.detach().numpy(), known.detach().numpy()
        self.squares = ((points[:, None, :] - points[None, :, :]) ** 2).transpose(2, 0, 1).reshape(d, n * n)
        names = ["lengthscale"] * d + ["outputscale", "noise"]
        self.bounds = np.log([_BOUNDS[name] for name in names])
        own = [getattr(priors, name) for name in names] if priors is not None else []
        self.medians = np.array([math.log(prior.median) for prior in own])
        self.sigmas = np.array([prior.sigma for prior in own])

    def climb(self, first: Array) -> tuple[float, Array]:
        """The best value and θ reached from a start: BFGS, projected onto the bounds.

        SciPy's own starts threads for a handful of numbers, which on a busy machine takes longer than the whole fit.
        """
        low, high = self.bounds.T
        theta = np.clip(first, low, high)
        value, gradient = self(theta)
        usual = np.eye(len(theta)) / (1 + len(self.y) / 2)  # about what n points bend a scale's likelihood by
        curve, fresh = usual.copy(), True
        for _ in range(_STEPS):
            free = ~(((theta <= low) & (gradient > 0)) | ((theta >= high) & (gradient < 0)))
            if float(np.abs(free * gradient).max()) < _FLAT:
                break
            step = free * (curve @ (free * -gradient))
            step /= max(1.0, float(np.abs(step).max()) / _STRIDE)
            after, new, slope = theta, math.inf, gradient
            for halving in range(_HALVINGS):
                after = np.clip(theta + 0.5**halving * step, low, high)
                new, slope = self(after)
                if new <= value + 1e-4 * float(gradient @ (after - theta)):
                    break
            if not value - new > _ENOUGH * max(1.0, abs(value)):
                if new < value:
                    theta, value, gradient = after, new, slope
                if fresh:
                    break
                curve, fresh = usual.copy(), True
                continue
            moved, change = after - theta, slope - gradient
            theta, value, gradient = after, new, slope
            bend = float(moved @ change)
            if bend > 1e-12:
                if fresh:
                    curve, fresh = np.eye(len(theta)) * bend / float(change @ change), False
                turned = curve @ change
                curve += (1 + float(change @ turned) / bend) / bend * moved[:, None] * moved
                curve -= (turned[:, None] * moved + moved[:, None] * turned) / bend
        return value, theta

    def __call__(self, theta: Array) -> tuple[float, Array]:
        n, d = len(self.y), len(self.squares)
        outputscale, noise = math.exp(theta[d]), math.exp(theta[d + 1])
        scaled = self.squares * np.exp(-2 * theta[:d])[:, None]
        r = _ROOT5 * np.sqrt(scaled.sum(0))
        decay = outputscale * np.exp(-r)
        k = (1 + r * (1 + r / 3)) * decay
        total = k.reshape(n, n).copy()
        total.flat[:: n + 1] += self.known + noise
        factor, info = dpotrf(total, lower=1, clean=1)
        if info:
            return math.inf, np.zeros(d + 2)  # no valid process here: as unlikely as can be
        half = dtrtri(factor, lower=1)[0]  # other solvers start threads, however small the matrix
        alpha = half.T @ (half @ self.y)
        inner = alpha[:, None] * alpha - half.T @ half
        flat = inner.ravel()
        value = -0.5 * (self.y @ alpha) - np.log(factor.diagonal()).sum() - 0.5 * n * math.log(2 * math.pi)
        slope_k = (5 / 3) * (1 + r) * decay  # ∂k/∂log ℓₖ = slope_k · (Δₖ/ℓₖ)²
        gradient = np.empty(d + 2)
        gradient[:d] = 0.5 * (scaled @ (flat * slope_k))
        gradient[d] = 0.5 * (flat @ k)
        gradient[d + 1] = 0.5 * noise * inner.diagonal().sum()
        if len(self.medians):
            z = (theta - self.medians) / self.sigmas
            value -= 0.5 * (z @ z) + theta.sum()
            gradient -= z / self.sigmas + 1.0
        return -float(value), -gradient
