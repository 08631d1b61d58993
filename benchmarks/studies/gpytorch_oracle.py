"""Our Gaussian process against GPyTorch: equal at fixed hyperparameters, at least as likely when fitted."""

from __future__ import annotations

import math

import gpytorch
import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll

from ampere_energy.cost_model.gaussian_process import GaussianProcess, Hyper, fit
from ampere_energy.cost_model.physical_mean import Array


class Oracle(gpytorch.models.ExactGP):
    """The same model in GPyTorch: Matérn 5/2 ARD with a scale and a constant mean that is given, not learnt."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, known: torch.Tensor, mean: float) -> None:
        least = gpytorch.constraints.GreaterThan(1e-8 * float(y.var()))  # the bound of our own fit
        if bool((known > 0).any()):
            likelihood = gpytorch.likelihoods.FixedNoiseGaussianLikelihood(known, learn_additional_noise=True)
            likelihood.second_noise_covar.register_constraint("raw_noise", least)
        else:
            likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=least)
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.mean_module.constant.data.fill_(mean)
        self.mean_module.constant.requires_grad_(False)
        base = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=x.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(base)
        self.double()

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def transform_inputs(self, X: torch.Tensor) -> torch.Tensor:  # noqa: N803 - BoTorch's fit calls it so
        return X

    def set(self, hyper: Hyper) -> None:
        self.covar_module.base_kernel.lengthscale = torch.tensor([hyper.lengthscales], dtype=torch.float64)
        self.covar_module.outputscale = hyper.outputscale
        noise = getattr(self.likelihood, "second_noise_covar", None)
        if noise is not None:
            noise.noise = hyper.noise
        else:
            self.likelihood.noise = hyper.noise

    def log_likelihood(self) -> float:
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)
        self.train()
        with exactly():
            value = mll(self(*self.train_inputs), self.train_targets)
            return float(value.detach()) * len(self.train_targets)


def exactly() -> gpytorch.settings.fast_computations:
    return gpytorch.settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False)


def data(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A seeded data set: 5 to 40 points in 1 or 2 dimensions, a smooth function, noise, some of it known."""
    draw = torch.Generator().manual_seed(seed)
    n, d = 5 + 5 * (seed % 8), 1 + seed % 2
    x = torch.rand(n, d, generator=draw, dtype=torch.float64)
    f = 3 * x.prod(1) + torch.sin(4 * x[:, 0]) + x.sum(1)
    known = torch.full((n,), 1e-3 if seed % 3 == 0 else 0.0, dtype=torch.float64)
    y = 2 + f + (0.02 + 0.1 * (seed % 4)) * torch.randn(n, generator=draw, dtype=torch.float64)
    return x, y, known


def far(ours: Array, theirs: torch.Tensor) -> float:
    return float(np.abs(ours - theirs.numpy()).max())


def at_fixed(seed: int) -> dict[str, float]:
    """Largest differences at drawn hyperparameters."""
    x, y, known = data(seed)
    draw = torch.Generator().manual_seed(1000 + seed)
    values = torch.rand(x.shape[1] + 2, generator=draw, dtype=torch.float64)
    hyper = Hyper(
        float(y.mean()), tuple((0.1 + values[:-2]).tolist()), float(0.5 + values[-2]), float(1e-3 + values[-1])
    )
    ours = GaussianProcess(x.numpy(), y.numpy(), known.numpy(), hyper)
    theirs = Oracle(x, y, known, hyper.mean)
    theirs.set(hyper)
    at = torch.rand(17, x.shape[1], generator=draw, dtype=torch.float64)
    likelihood = abs(ours.log_likelihood() - theirs.log_likelihood())
    theirs.eval()
    with torch.no_grad(), exactly(), gpytorch.settings.skip_posterior_variances(False):
        posterior = theirs(at)
        covariance = posterior.covariance_matrix
        return {
            "mean": far(ours.mean(at.numpy()), posterior.mean),
            "covariance": far(ours.covariance(at.numpy()), covariance),
            "variance": far(ours.variance(at.numpy()), covariance.diagonal()),
            "log likelihood": likelihood,
        }


def when_fitted(seed: int) -> float:
    """How much more likely our fit is than GPyTorch's best of three starts, in nats."""
    x, y, known = data(seed)
    ours = fit(x.numpy(), y.numpy(), known.numpy(), priors=None)
    best = -math.inf
    for lengthscale in (0.3, 1.0, 3.0):
        theirs = Oracle(x, y, known, float(y.mean()))
        spread = float(y.var())
        theirs.set(Hyper(float(y.mean()), (lengthscale,) * x.shape[1], spread, 1e-2 * spread))
        fit_gpytorch_mll(gpytorch.mlls.ExactMarginalLogLikelihood(theirs.likelihood, theirs))
        best = max(best, theirs.log_likelihood())
    return ours.log_likelihood() - best


def run(seeds: int) -> dict[str, float]:
    """The worst over the seeds."""
    fixed = [at_fixed(seed) for seed in range(seeds)]
    worst = {f"largest difference in {name}": max(f[name] for f in fixed) for name in fixed[0]}
    return {**worst, "least gain in log likelihood when fitted": min(when_fitted(seed) for seed in range(seeds))}
