from __future__ import annotations

import pytest
import torch

from ampere_energy.cost_model.gaussian_process import PRIORS, GaussianProcess, Hyper, LogNormal, _Problem, fit
from ampere_energy.errors import AmpereError
from benchmarks.studies import gpytorch_oracle


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_gpytorch_at_fixed_hyperparameters(seed: int) -> None:
    for name, difference in gpytorch_oracle.at_fixed(seed).items():
        assert difference < 1e-6, name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 20, 3))
def test_fits_are_at_least_as_likely_as_gpytorchs(seed: int) -> None:
    assert gpytorch_oracle.when_fitted(seed) > -1e-6


def test_the_gradient_of_the_objective_is_exact() -> None:
    x, y, known = gpytorch_oracle.data(7)
    for priors in (None, PRIORS):
        problem = _Problem(x, y - y.mean(), known, priors)
        theta = torch.linspace(-1, 1, x.shape[1] + 2, dtype=torch.float64).numpy()
        _, gradient = problem(theta)
        for i in range(len(theta)):
            step = theta * 0
            step[i] = 1e-6
            slope = (problem(theta + step)[0] - problem(theta - step)[0]) / 2e-6
            assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_posterior_is_differentiable_in_the_inputs() -> None:
    x, y, known = gpytorch_oracle.data(9)
    process = fit(x, y, known)
    at = torch.rand(4, x.shape[1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(process.mean, at)
    (slope,) = torch.autograd.grad(process.mean(x.requires_grad_()).sum(), x)  # also at the observations
    assert torch.isfinite(slope).all()


def test_units_do_not_matter() -> None:
    x, y, known = gpytorch_oracle.data(4)
    in_joules, in_millijoules = fit(x, y, known), fit(x, 1e3 * y, 1e6 * known)
    at = torch.rand(5, x.shape[1], dtype=torch.float64)
    assert torch.allclose(1e3 * in_joules.mean(at), in_millijoules.mean(at), rtol=1e-6)
    assert torch.allclose(1e6 * in_joules.variance(at), in_millijoules.variance(at), rtol=1e-4)


def test_few_and_constant_observations_fit() -> None:
    one = fit(torch.zeros(1, 1, dtype=torch.float64), torch.tensor([5.0], dtype=torch.float64))
    assert float(one.mean(torch.zeros(1, 1, dtype=torch.float64))) == pytest.approx(5.0)
    assert float(one.variance(torch.ones(1, 1, dtype=torch.float64))) > 0
    flat = fit(torch.linspace(0, 1, 4, dtype=torch.float64)[:, None], torch.full((4,), 2.0, dtype=torch.float64))
    assert float(flat.mean(torch.tensor([[0.4]], dtype=torch.float64))) == pytest.approx(2.0)


def test_known_noise_is_not_followed() -> None:
    x = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    y = x[:, 0] * 2
    y[4] += 3.0
    noise = torch.zeros(9, dtype=torch.float64)
    noise[4] = 100.0
    assert float(fit(x, y, noise).mean(x)[4]) == pytest.approx(1.0, abs=0.1)


def test_fitting_leaves_the_thread_count_alone() -> None:
    before = torch.get_num_threads()
    fit(*gpytorch_oracle.data(0))
    assert torch.get_num_threads() == before


def test_a_degenerate_covariance_is_an_error_not_a_warning() -> None:
    x = torch.zeros(3, 1, dtype=torch.float64)
    y = torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64)
    process = GaussianProcess(x, y, torch.zeros(3, dtype=torch.float64), Hyper(0.0, (1.0,), 1.0, 1e-30))
    with pytest.raises(AmpereError, match="positive definite"):
        process.mean(x)
    with pytest.raises(ValueError, match="positive"):
        Hyper(0.0, (1.0,), 0.0, 1.0)


def test_log_normal_slope() -> None:
    prior = LogNormal(2.0, 0.7)
    value, slope = prior.log_density(0.3)
    higher, _ = prior.log_density(0.3 + 1e-6)
    assert slope == pytest.approx((higher - value) / 1e-6, rel=1e-4)
