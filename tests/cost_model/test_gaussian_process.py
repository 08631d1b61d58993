from __future__ import annotations

import numpy as np
import pytest

from ampere_energy.cost_model.gaussian_process import PRIORS, GaussianProcess, Hyper, LogNormal, _Problem, fit
from ampere_energy.cost_model.physical_mean import Array
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


def data(seed: int) -> list[Array]:
    return [tensor.numpy() for tensor in gpytorch_oracle.data(seed)]


def test_the_gradient_of_the_objective_is_exact() -> None:
    x, y, known = data(7)
    for priors in (None, PRIORS):
        problem = _Problem(x, y - y.mean(), known, priors)
        theta = np.linspace(-1, 1, x.shape[1] + 2)
        _, gradient = problem(theta)
        for i in range(len(theta)):
            step = theta * 0
            step[i] = 1e-6
            slope = (problem(theta + step)[0] - problem(theta - step)[0]) / 2e-6
            assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_units_do_not_matter() -> None:
    x, y, known = data(4)
    in_joules, in_millijoules = fit(x, y, known), fit(x, 1e3 * y, 1e6 * known)
    at = np.random.default_rng(0).random((5, x.shape[1]))
    assert 1e3 * in_joules.mean(at) == pytest.approx(in_millijoules.mean(at), rel=1e-6)
    assert 1e6 * in_joules.variance(at) == pytest.approx(in_millijoules.variance(at), rel=1e-4)


def test_few_and_constant_observations_fit() -> None:
    one = fit(np.zeros((1, 1)), np.array([5.0]))
    assert one.mean(np.zeros((1, 1))) == pytest.approx(5.0)
    assert one.variance(np.ones((1, 1)))[0] > 0
    flat = fit(np.linspace(0, 1, 4)[:, None], np.full(4, 2.0))
    assert flat.mean(np.array([[0.4]])) == pytest.approx(2.0)


def test_known_noise_is_not_followed() -> None:
    x = np.linspace(0, 1, 9)[:, None]
    y, noise = 2 * x[:, 0], np.zeros(9)
    y[4] += 3.0
    noise[4] = 100.0
    assert fit(x, y, noise).mean(x)[4] == pytest.approx(1.0, abs=0.1)


def test_a_degenerate_covariance_is_an_error_not_a_warning() -> None:
    x, y = np.zeros((3, 1)), np.array([0.0, 1.0, 2.0])
    process = GaussianProcess(x, y, np.zeros(3), Hyper(0.0, (1.0,), 1.0, 1e-30))
    with pytest.raises(AmpereError, match="positive definite"):
        process.mean(x)
    with pytest.raises(ValueError, match="positive"):
        Hyper(0.0, (1.0,), 0.0, 1.0)


def test_log_normal_slope() -> None:
    prior = LogNormal(2.0, 0.7)
    value, slope = prior.log_density(0.3)
    higher, _ = prior.log_density(0.3 + 1e-6)
    assert slope == pytest.approx((higher - value) / 1e-6, rel=1e-4)
