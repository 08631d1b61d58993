"""Learning a `JointFit` from observations: physical means first, then the residuals' hyperparameters by evidence.

The hyperparameters maximise the marginal likelihood of all rows together plus log-normal priors, with the exact
gradient ½ tr((K⁻¹ − ααᵀ) ∂K/∂θ), from where the last fit stood or from the priors' medians.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize
from scipy.sparse import csr_array

from ampere_energy.cost_model.host_overhead import learn_host
from ampere_energy.cost_model.hyperparameters import Hypers, Unknowns, own_coupling
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.kernels import (
    POWER,
    SWITCHED,
    TIME,
    Component,
    Hyper,
    Pair,
    Sites,
    correlation,
    with_switches,
)
from ampere_energy.cost_model.linearisation import LogObservations, Mode
from ampere_energy.cost_model.mean_fitting import means
from ampere_energy.cost_model.observations import Observation, Subject
from ampere_energy.cost_model.outliers import NOTHING, believable, discounted
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.slow_regions import slow_blocks
from ampere_energy.cost_model.threads import one_thread

_ITERATIONS = 60
_ROUNDS = 2
_SAME = 0.05
"""Shares of sums that change by less are not worth climbing again for."""
_TIMINGS = 800
"""The most timings that hyperparameters are learnt from: the work grows with their cube."""


def learn(
    subjects: Sequence[Subject],
    observations: Sequence[Observation],
    *,
    idle_w: float | None = None,
    cached: bool = False,
    before: JointFit | None = None,
    iterations: int = _ITERATIONS,
    timings: int = _TIMINGS,
) -> JointFit:
    """Fits everything to the observations.

    Args:
        subjects: the kinds.
        observations: networks measured or timed; at least one has an energy.
        idle_w: the device's power while it waits.
        cached: whether the device is a processor, whose caches serve a block alone better than in company.
        before: an earlier fit of the same subjects, to start from.
        iterations: the most steps of the climb.
        timings: the most timings that hyperparameters are learnt from.
    """
    time, energy = means(subjects, observations)
    observations = discounted(observations, time)
    if any(NOTHING in (o.time_error, o.energy_error) for o in observations):
        time, energy = means(subjects, believable(observations))
    slow = slow_blocks(subjects, observations, time)
    observed = LogObservations(subjects, _subsample(observations, timings), time, energy, slow)
    unknown = Unknowns(subjects, own_coupling(subjects, observations), cached)
    theta = unknown.pack(before) if before is not None else unknown.medians
    shares = np.zeros((len(observed.net), len(observed.atoms)))
    with one_thread():
        for _ in range(_ROUNDS if iterations else 0):
            evidence = Evidence(unknown, observed, theta)
            if np.abs(evidence.shares - shares).max() < _SAME:
                break
            theta, shares = evidence.climb(theta, iterations), evidence.shares
    found = unknown.unpack(theta)
    return JointFit(
        tuple(subjects),
        tuple(observations),
        time,
        energy,
        found.time,
        found.power,
        found.follows,
        found.noise,
        learn_host(subjects, observations),
        idle_w,
        found.own,
        found.carried,
        found.together,
        found.steadier if any(o.long for o in observations) else 1.0,
    )


def _subsample(observations: Sequence[Observation], most: int) -> list[Observation]:
    """What the hyperparameters are learnt from: all, but of very many timings of blocks some."""
    timings = [i for i, o in enumerate(observations) if o.energy_j is None and len(o.blocks) == 1]
    if len(timings) <= most:
        return list(observations)
    left_out = set(timings) - {timings[n * len(timings) // most] for n in range(most)}
    return [o for i, o in enumerate(observations) if i not in left_out]


class Evidence:
    """The negative log posterior of θ and its gradient, where sums are linear around the mode of one θ.

    `shares` are those of blocks in sums there.
    """

    def __init__(self, unknown: Unknowns, observed: LogObservations, theta: Array) -> None:
        self.unknown, self.observed = unknown, observed
        self.coupling = observed.coupling(observed, (0.0, 0.0), 0.0)
        self.of_own = [observed.coupling(observed, only, 0.0) - self.coupling for only in ((1.0, 0.0), (0.0, 1.0))]
        self.of_together = observed.coupling(observed, (0.0, 0.0), 1.0) - self.coupling
        at = unknown.unpack(theta)
        power = [with_switches(TIME, t, POWER, p) for t, p in zip(at.time, at.power, strict=True)]
        mode = Mode(observed, at.time, power, at.beside, at.follows)
        self.shares, self.targets = mode.shares, mode.targets
        self.parts = [
            [_Seen(components, of[:, span], sites) for span, sites in zip(observed.spans, observed.sites, strict=True)]
            for components, of in ((TIME, mode.shares), (POWER, mode.metered))
        ]
        self.more = [
            csr_array(own.shares * observed.is_energy[:, None] * own.pair.a.power_sensitivity(1.0)[None, :])
            for own in self.parts[0]
        ]
        self.switched = [csr_array(mode.metered[:, span]) for span in observed.spans]

    def climb(self, theta: Array, iterations: int) -> Array:
        """The best θ reached."""
        bounds = [(m - 5 * s, m + 5 * s) for m, s in zip(self.unknown.medians, self.unknown.sigmas, strict=True)]
        result = minimize(
            self, theta, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": iterations, "ftol": 1e-6}
        )
        return np.asarray(result.x)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The value at θ, and its gradient."""
        observed, unknown = self.observed, self.unknown
        at = unknown.unpack(theta)
        total = self.coupling + observed.noise(at.beside.scatter, at.steadier)
        contexts = [*zip(at.own, self.of_own, strict=True), (at.together, self.of_together)]
        for deviation, share in contexts:
            total += deviation**2 * share
        pieces: list[list[list[tuple[Array, Array]]]] = []
        timed = [own.shares + rho * more for own, more, rho in zip(self.parts[0], self.more, at.follows, strict=True)]
        weights = [timed, [own.shares for own in self.parts[1]]]
        for seen, hypers, of_part in zip(self.parts, (at.time, at.power), weights, strict=True):
            pieces.append([own.pieces(hyper) for own, hyper in zip(seen, hypers, strict=True)])
            for w, (own, values) in enumerate(zip(seen, pieces[-1], strict=True)):
                total += _between(of_part[w], reduce(np.add, [value for value, _ in values]))
                switching = [v for component, (v, _) in zip(own.components, values, strict=True) if component.switches]
                if switching:
                    total += SWITCHED**2 * _between(self.switched[w], reduce(np.add, switching))
        try:
            factor = cholesky(total, lower=True, check_finite=False)
        except LinAlgError:
            return 1e12, np.zeros_like(theta)  # no valid process here: as unlikely as can be
        alpha = cho_solve((factor, True), self.targets, check_finite=False)
        inverse = np.tril(dpotri(factor, lower=True)[0])
        inner = 0.5 * (inverse + np.tril(inverse, -1).T - alpha[:, None] * alpha[None, :])
        gradient: list[float] = []
        for seen, hypers, of_part, by_row in zip(self.parts, (at.time, at.power), pieces, weights, strict=True):
            for w, (own, hyper, values) in enumerate(zip(seen, hypers, of_part, strict=True)):
                alone = _between(by_row[w].T, inner)
                in_both = alone
                if any(component.switches for component in own.components):
                    in_both = alone + SWITCHED**2 * _between(self.switched[w].T, inner)
                for component, (value, fall), lengths in zip(own.components, values, hyper.lengths, strict=True):
                    pull = in_both if component.switches else alone
                    by_site = 2 * (pull * value).sum(1)
                    gradient += np.bincount(own.pair.a.kinds, by_site, minlength=len(unknown.works[w])).tolist()
                    weighted = pull * fall
                    gradient += [
                        float((weighted * square).sum() / length**2)
                        for square, length in zip(own.pair.squares(component), lengths, strict=False)
                    ]
        usual, long = (self._noise_slopes(inner, at, observed.long == which) for which in (False, True))
        of_time, of_energy, of_carried = (a + b for a, b in zip(usual, long, strict=True))
        of_own = [float(2 * deviation**2 * (inner * share).sum()) for deviation, share in contexts]
        gradient += [of_time, of_energy, *of_own[:2], of_carried, of_own[2], long[0] + long[1]]
        for more, by_row, values in zip(self.more, timed, pieces[0], strict=True):
            changed = (by_row.T @ inner) @ more
            gradient.append(float(2 * (changed * reduce(np.add, [value for value, _ in values])).sum()))
        z = (theta - unknown.medians) / unknown.sigmas
        value = 0.5 * self.targets @ alpha + np.log(np.diagonal(factor)).sum() + 0.5 * z @ z
        return float(value), np.array(gradient) + z / unknown.sigmas

    def _noise_slopes(self, inner: Array, at: Hypers, chosen: npt.NDArray[np.bool_]) -> tuple[float, float, float]:
        """The slopes in the logarithms of the noise of time, of energy and of what is carried, of some observed."""
        energies = np.flatnonzero(self.observed.is_energy & chosen)
        share = np.where(self.observed.long, at.steadier**2, 1.0)
        weighted = np.diagonal(inner) * share
        in_time, in_energy = weighted[~self.observed.is_energy & chosen].sum(), weighted[energies].sum()
        shared = at.carried * (inner[energies, self.observed.net[energies]] * share[energies]).sum()
        carried_on = at.carried**2 * in_energy
        of_time = 2 * at.noise[0] ** 2 * (in_time + 2 * shared + carried_on)
        return (
            float(of_time),
            float(2 * at.noise[1] ** 2 * in_energy),
            float(2 * at.noise[0] ** 2 * (shared + carried_on)),
        )


class _Seen:
    """A work's sites that rows have shares of: those of time, or the few of power."""

    def __init__(self, components: Sequence[Component], shares: Array, sites: Sites) -> None:
        self.components = components
        places = np.flatnonzero(shares.any(0))
        # Most rows are of one block: of each work's shares, nearly all are nought.
        self.shares = csr_array(shares[:, places])
        own = sites.at(places)
        self.pair = Pair(own, own)
        self.masks = [self.pair.mask(component) for component in components]

    def pieces(self, hyper: Hyper) -> list[tuple[Array, Array]]:
        """Each component's covariances, and what their slope in log ℓₐ is of (Δₐ/ℓₐ)²."""
        found = []
        for component, mask, scales, lengths in zip(
            self.components, self.masks, hyper.scales, hyper.lengths, strict=True
        ):
            s = np.asarray(scales)[self.pair.a.kinds]
            both = s[:, None] * s[None, :]
            value, fall = correlation(self.pair, component, mask, lengths)
            found.append((value * both, fall * both))
        return found


def _between(weights: csr_array, symmetric: Array) -> Array:
    """W S Wᵀ for sparse weights."""
    return np.asarray(weights @ (weights @ symmetric).T)
