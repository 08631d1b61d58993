"""Observations as rows of logarithms, linear in their blocks' residuals around the mode (notation: `joint`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky

from ampere_energy.cost_model.kernels import TIME, Component, Hyper, Pair, Sites, covariance
from ampere_energy.cost_model.observations import Observation, Subject, works_of
from ampere_energy.cost_model.physical_mean import Array, Mean
from ampere_energy.cost_model.slow_regions import Slow
from ampere_energy.errors import AmpereError

COUPLING_TIME, COUPLING_POWER = 0.03, 0.01
COUPLING_OWN = (0.015, 0.015)
"""Prior standard deviations of the context: whole networks of `data/h200-lab/blocks.json` against their blocks.

Those parts of time's and of power's that are each network's own are learnt where several were measured; their values
here are then the priors' medians.
"""
_MODE_STEPS = 3
_JITTER = 1e-10


@dataclass(frozen=True, eq=False)
class Unshared:
    """What rows have beside their blocks' residuals: context and noise (see `JointFit`)."""

    own: tuple[float, float]
    together: float
    scatter: Array
    steadier: float


def scatter_of(noise: tuple[float, float], common: float) -> Array:
    """See `JointFit.scatter`."""
    time, energy, shared = noise[0] ** 2, noise[1] ** 2, common * noise[0] ** 2
    return np.array([[time, shared], [shared, common * shared + energy]])


class LogObservations:
    """Observations as rows of logarithms over the distinct blocks they are made of: times first, then energies."""

    def __init__(
        self, subjects: Sequence[Subject], observations: Sequence[Observation], time: Mean, energy: Mean, slow: Slow
    ):
        self.observations = list(observations)
        self.works = works_of(subjects)
        place = {subject: (w, i) for w, members in enumerate(self.works) for i, subject in enumerate(members)}
        atoms = list(dict.fromkeys(block for o in observations for block in o.blocks))
        atoms.sort(key=lambda block: place[block[0]][0])  # blocks of one work stand together
        index = {block: i for i, block in enumerate(atoms)}
        self.atoms = atoms
        self.spans: list[slice] = []
        self.sites: list[Sites] = []
        for w in range(len(self.works)):
            own = [i for i, (subject, _) in enumerate(atoms) if place[subject][0] == w]
            span = slice(own[0], own[-1] + 1) if own else slice(0, 0)
            first = subjects[self.works[w][0]]
            points = np.array([atoms[i][1] for i in own], dtype=float).reshape(len(own), len(first.domain))
            self.spans.append(span)
            kinds = np.array([place[atoms[i][0]][1] for i in own], dtype=int)
            slowly = np.zeros(len(own), dtype=bool)
            for member, subject in enumerate(self.works[w]):
                slowly[kinds == member] = slow.at(subject, points[kinds == member])
            self.sites.append(Sites(kinds, points, first.taps, slowly))
        metered = [i for i, o in enumerate(observations) if o.energy_j is not None]
        self.net = np.array([*range(len(observations)), *metered])
        self.is_energy = np.arange(len(self.net)) >= len(observations)
        values = [o.time_s for o in observations] + [observations[i].energy_j or 0.0 for i in metered]
        self.log_values = np.log(np.array(values))
        self.errors = np.array([o.time_error for o in observations] + [observations[i].energy_error for i in metered])
        self.base = np.where(self.is_energy, energy.base, time.base)
        means = {False: self._means(subjects, time), True: self._means(subjects, energy, time)}
        entries = [(r, index[b]) for r, n in enumerate(self.net) for b in observations[n].blocks]
        self.row = np.array([r for r, _ in entries])
        self._atom = np.array([a for _, a in entries])
        self._mean = np.where(self.is_energy[self.row], means[True][self._atom], means[False][self._atom])
        fed = np.array([1 if observations[n].apart else len(observations[n].blocks) for n in self.net])
        self.coupled = (fed - 1) / fed
        self.long = np.array([observations[n].long for n in self.net])
        identity = {net: i for i, net in enumerate(dict.fromkeys(o.blocks for o in observations))}
        self.identity = np.array([identity[observations[n].blocks] for n in self.net])

    def _means(self, subjects: Sequence[Subject], mean: Mean, lift: Mean | None = None) -> Array:
        values = np.empty(len(self.atoms))
        for subject in range(len(subjects)):
            own = [i for i, (s, _) in enumerate(self.atoms) if s == subject]
            if own:
                points = np.array([self.atoms[i][1] for i in own], dtype=float).reshape(len(own), -1)
                values[own] = mean.at(subject, points) * (1.0 if lift is None else lift.lift(subject, points))
        return values

    def time_sensitivity(self, shares: Array, rhos: Sequence[float]) -> Array:
        """How far each row's logarithm goes with its blocks' residuals of time; that of energy more or less."""
        return shares * np.where(self.is_energy[:, None], 1 + self._power_sensitivity(rhos), 1.0)

    def _power_sensitivity(self, rhos: Sequence[float]) -> Array:
        """How power goes with the residual of time, for each atom: (atoms,)."""
        return np.concatenate([sites.power_sensitivity(rho) for rho, sites in zip(rhos, self.sites, strict=True)])

    def linearised(self, g: Array, p: Array, rhos: Sequence[float]) -> tuple[Array, Array]:
        """Each row's shares ω of its blocks (rows, atoms), and what is left to explain, at residuals g and p."""
        power = g * self._power_sensitivity(rhos) + p
        residual = g[self._atom] + np.where(self.is_energy[self.row], power[self._atom], 0.0)
        parts = self._mean * np.exp(residual)
        totals = self.base + np.bincount(self.row, parts, minlength=len(self.net))
        shares = parts / totals[self.row]
        weights = np.zeros((len(self.net), len(self.atoms)))
        np.add.at(weights, (self.row, self._atom), shares)
        explained = np.bincount(self.row, shares * residual, minlength=len(self.net))
        return weights, self.log_values - np.log(totals) + explained

    def coupling(self, other: LogObservations, own: tuple[float, float], together: float) -> Array:
        """The covariance of the rows' contexts with another's.

        Args:
            other: the other observed.
            own: the deviations, in time and in power, that are each network's own …
            together: … and that in time which all networks have in common.
        """
        names = {
            net: i for i, net in enumerate(dict.fromkeys(o.blocks for o in (*self.observations, *other.observations)))
        }
        mine, others = (np.array([names[r.observations[n].blocks] for n in r.net]) for r in (self, other))
        same = np.equal(mine[:, None], others[None, :])
        time = together**2 + own[0] ** 2 * same
        power = (COUPLING_POWER**2 + own[1] ** 2 * same) * (self.is_energy[:, None] & other.is_energy[None, :])
        return np.asarray(self.coupled[:, None] * other.coupled[None, :] * (time + power))

    def covariance(self, blocks: Sequence[Array], shares: Array) -> Array:
        """Σ ω K ωᵀ over the works, for covariances of each work's own blocks."""
        total = np.zeros((len(shares), len(shares)))
        for span, block in zip(self.spans, blocks, strict=True):
            total += shares[:, span] @ block @ shares[:, span].T
        return total

    def noise(self, scatter: Array, steadier: float) -> Array:
        """The rows' noise, and what the time and the energy of one measurement have of it in common."""
        energies, share = np.flatnonzero(self.is_energy), np.where(self.long, steadier**2, 1.0)
        total = np.diag(self.errors**2 + share * np.where(self.is_energy, scatter[1, 1], scatter[0, 0]) + _JITTER)
        total[energies, self.net[energies]] = total[self.net[energies], energies] = share[energies] * scatter[0, 1]
        return total

    def unshared(self, beside: Unshared) -> Array:
        """The covariance of what rows have beside their blocks' residuals."""
        return self.coupling(self, beside.own, beside.together) + self.noise(beside.scatter, beside.steadier)


class Mode:
    """Where the rows' blocks most likely stand, and the rows linearised there.

    Attributes:
        shares, metered: each row's shares of its blocks, and those of rows of energy alone: (rows, atoms).
        timed: how far each row goes with its blocks' residuals of time: (rows, atoms).
        targets: what of each row's logarithm is left to explain.
        factor: of the covariance of the observed.
        alpha: its inverse times the targets.
    """

    def __init__(
        self,
        observed: LogObservations,
        time_hyper: Sequence[Hyper],
        power: Sequence[tuple[Sequence[Component], Hyper]],
        beside: Unshared,
        rhos: Sequence[float],
    ) -> None:
        pairs = [Pair(sites, sites) for sites in observed.sites]
        self.observed, self._rhos = observed, rhos
        self._time = [covariance(TIME, hyper, pair) for hyper, pair in zip(time_hyper, pairs, strict=True)]
        self._power = [covariance(*of_power, pair) for of_power, pair in zip(power, pairs, strict=True)]
        known = observed.unshared(beside)
        g, p = np.zeros(len(observed.atoms)), np.zeros(len(observed.atoms))
        alone = np.flatnonzero(np.bincount(observed.row) == 1)
        # Of a block alone the logarithm is linear; sums are linearised where the blocks alone say that they are.
        for kept in (alone, *[np.arange(len(observed.net))] * _MODE_STEPS):
            if len(kept):
                g, p = self._step(g, p, kept, known[np.ix_(kept, kept)])

    def _step(self, g: Array, p: Array, kept: npt.NDArray[np.intp], known: Array) -> tuple[Array, Array]:
        """One step toward the mode, of what some rows tell."""
        observed = self.observed
        every, targets = observed.linearised(g, p, self._rhos)
        shares, timed, targets = every[kept], observed.time_sensitivity(every, self._rhos)[kept], targets[kept]
        metered = shares * observed.is_energy[kept, None]
        self.factor = _factor(
            observed.covariance(self._time, timed) + observed.covariance(self._power, metered) + known
        )
        self.alpha = cho_solve((self.factor, True), targets)
        self.shares, self.timed, self.metered, self.targets = shares, timed, metered, targets
        toward_g, toward_p = timed.T @ self.alpha, metered.T @ self.alpha
        g, p = np.empty_like(g), np.empty_like(p)
        for span, kt, kp in zip(observed.spans, self._time, self._power, strict=True):
            g[span], p[span] = kt @ toward_g[span], kp @ toward_p[span]
        return g, p


def _factor(matrix: Array) -> Array:
    try:
        factor: Array = cholesky(matrix, lower=True)
    except (LinAlgError, ValueError):  # ValueError: numbers that are not finite
        raise AmpereError("a covariance matrix is not positive definite", "are two measurements degenerate?") from None
    return factor
