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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtri

from ampere_energy.cost_model.matern import matern52, matern52_with_slope
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.threads import one_thread
from ampere_energy.errors import AmpereError


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


def correlation(a: Array, b: Array, lengthscales: Sequence[float]) -> Array:
    """Between rows of `a` (n, d) and `b` (m, d): shape (n, m)."""
    return matern52((((a[:, None, :] - b[None, :, :]) / np.asarray(lengthscales)) ** 2).sum(-1))


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A posterior: observations and the hyperparameters they are seen through."""

    x: Array
    y: Array
    known_noise: Array
    hyper: Hyper

    @cached_property
    def _factor(self) -> Array:
        k = self.hyper.outputscale * correlation(self.x, self.x, self.hyper.lengthscales)
        factor, info = dpotrf(k + np.diag(self.known_noise + self.hyper.noise), lower=1, clean=1)
        if info:
            raise AmpereError("a covariance matrix is not positive definite", "are two points or noises degenerate?")
        return np.asarray(factor)

    @cached_property
    def _alpha(self) -> Array:
        half = solve_triangular(self._factor, self.y - self.hyper.mean, lower=True)
        return np.asarray(solve_triangular(self._factor, half, lower=True, trans=1))

    def log_likelihood(self) -> float:
        """log p(y), the marginal likelihood."""
        fit = -0.5 * ((self.y - self.hyper.mean) @ self._alpha)
        size = np.log(self._factor.diagonal()).sum() + 0.5 * len(self.y) * math.log(2 * math.pi)
        return float(fit - size)

    def mean(self, x: Array) -> Array:
        """Posterior mean at rows of `x` (m, d): shape (m,)."""
        return np.asarray(self.hyper.mean + self._cross(x) @ self._alpha)

    def covariance(self, x: Array) -> Array:
        """Joint posterior covariance of the function, without observation noise: shape (m, m)."""
        half = self._explained(x)
        return np.asarray(self.hyper.outputscale * correlation(x, x, self.hyper.lengthscales) - half.T @ half)

    def variance(self, x: Array) -> Array:
        """The covariance's diagonal, without the rest: shape (m,)."""
        return np.asarray(np.maximum(self.hyper.outputscale - (self._explained(x) ** 2).sum(0), 0.0))

    def _explained(self, x: Array) -> Array:
        """L⁻¹ k(X, x): its squares sum to the variance that the observations take away."""
        return np.asarray(solve_triangular(self._factor, self._cross(x).T, lower=True))

    def _cross(self, x: Array) -> Array:
        return np.asarray(self.hyper.outputscale * correlation(x, self.x, self.hyper.lengthscales))


def fit(
    x: Array,
    y: Array,
    known_noise: Array | None = None,
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
    known = np.zeros(len(y)) if known_noise is None else known_noise
    mean = float(y.mean())
    scale = float(y.std(ddof=1)) if len(y) > 1 else 0.0
    if scale <= 1e-9 * abs(mean):
        scale = 0.1 * abs(mean) or 1.0
    scale = max(scale, _SMALLEST)  # its square must not vanish
    problem = _Problem(x, (y - mean) / scale, known / scale**2, priors)
    if start is None:
        firsts = [[lengthscale] * x.shape[1] + rest for lengthscale, *rest in starts]
    else:
        firsts = [[*start.lengthscales, start.outputscale / scale**2, start.noise / scale**2]]
    with one_thread():
        best = min((problem.climb(np.log(first)) for first in firsts), key=lambda result: result[0])[1]
    *lengthscales, outputscale, noise = np.exp(best)
    hyper = Hyper(mean, tuple(map(float, lengthscales)), float(outputscale) * scale**2, float(noise) * scale**2)
    return GaussianProcess(x, y, known, hyper)


class _Problem:
    """The negative log posterior of θ = (log ℓ, log s², log σ²) and its gradient.

    In NumPy and LAPACK as such: matrices of a few points take microseconds, and what wraps these takes several more.
    """

    def __init__(self, x: Array, y: Array, known: Array, priors: Priors | None) -> None:
        n, d = x.shape
        self.y, self.known = y, known
        self.squares = ((x[:, None, :] - x[None, :, :]) ** 2).transpose(2, 0, 1).reshape(d, n * n)
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
        value_k, slope = matern52_with_slope(scaled.sum(0))
        k = outputscale * value_k
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
        gradient = np.empty(d + 2)
        gradient[:d] = 0.5 * outputscale * (scaled @ (flat * slope))  # ∂k/∂log ℓₖ = s² slope · (Δₖ/ℓₖ)²
        gradient[d] = 0.5 * (flat @ k)
        gradient[d + 1] = 0.5 * noise * inner.diagonal().sum()
        if len(self.medians):
            z = (theta - self.medians) / self.sigmas
            value -= 0.5 * (z @ z) + theta.sum()
            gradient -= z / self.sigmas + 1.0
        return -float(value), -gradient
