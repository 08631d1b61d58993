"""The joint posterior of a fit, and what it says of networks (notation: `joint`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, solve_triangular

from ampere_energy.cost_model.kernels import TIME, Pair, Sites, between, covariance, joined, slope, tags_of
from ampere_energy.cost_model.linearisation import COUPLING_POWER, LogObservations, Mode
from ampere_energy.cost_model.observations import Net, Observation
from ampere_energy.cost_model.physical_mean import Array

if TYPE_CHECKING:
    from ampere_energy.cost_model.joint import JointFit

CHUNK = 4096
Variances = tuple[Array, Array, Array]
"""Of networks' times and energies, and the covariance of both: (N,) each."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """N networks of one structure, B blocks each.

    Totals (N,), blocks' own parts (N, B), and variances and covariance of the totals' logarithms (N,). Totals are
    medians; `expected_j` is the mean of the energy, which lies a little higher.
    """

    time_s: Array
    energy_j: Array
    time_var: Array
    energy_var: Array
    joint_var: Array
    block_time_s: Array
    block_energy_j: Array
    expected_j: Array


@dataclass(frozen=True, eq=False)
class BlockSites:
    """One block of N networks: its D distinct sites, each network's site, and what follows from the site alone.

    Attributes:
        time_s, energy_j: (D,).
        rows_time, rows_energy: L⁻¹ times the covariances of the rows with the block's logarithms: (D, rows).
    """

    work: int
    sites: Sites
    back: npt.NDArray[np.intp]
    time_s: Array
    energy_j: Array
    rows_time: Array
    rows_energy: Array


def distinct(kinds: Sequence[int], points: Sequence[Array]) -> tuple[list[int], npt.NDArray[np.intp]]:
    """Blocks that differ in kind, or in widths in any of the networks.

    Returns:
        The place of the first block of each sort, and for each block the sort it is of: (B,).
    """
    seen: dict[tuple[int, bytes], int] = {}
    keys = [(kind, np.asarray(at, dtype=float).tobytes()) for kind, at in zip(kinds, points, strict=True)]
    places = np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.intp)
    return np.unique(places, return_index=True)[1].tolist(), places


class Posterior:
    """The posterior: the rows' factor at the mode, and what predicting needs of it."""

    def __init__(self, fit: JointFit) -> None:
        self.fit = fit
        self.observed = observed = LogObservations(fit.subjects, fit.observations, fit.time, fit.energy, fit.slow)
        mode = Mode(observed, fit.time_hyper, fit.power, fit.beside, fit.follows)
        timed, metered, factor, alpha = mode.timed, mode.metered, mode.factor, mode.alpha
        self.coupling_var = fit.together**2 + fit.own[0] ** 2, COUPLING_POWER**2 + fit.own[1] ** 2
        self.factor, self.alpha = factor, alpha
        self.timed, self.metered = timed, metered
        self.toward_g, self.toward_p = timed.T @ alpha, metered.T @ alpha
        w = observed.coupled * alpha
        self.inverse_factor = solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
        self.half_timed, self.half_metered = self.inverse_factor @ timed, self.inverse_factor @ metered
        self.half_coupling = self.inverse_factor @ (observed.coupled * fit.together**2)
        self.half_power = self.inverse_factor @ (observed.coupled * observed.is_energy * COUPLING_POWER**2)
        self.context_time, self.context_power = (
            fit.together**2 * w.sum(),
            COUPLING_POWER**2 * w[observed.is_energy].sum(),
        )

    def log_covariance(self, nets: Sequence[Net]) -> Array:
        """See `JointFit.log_covariance`."""
        fit, data = self.fit, self.observed
        observations = [Observation(net, 1.0, 1.0, 0.0) for net in nets]
        asked = LogObservations(fit.subjects, observations, fit.time, fit.energy, fit.slow)
        g, p = np.zeros(len(asked.atoms)), np.zeros(len(asked.atoms))
        residuals = ([(TIME, hyper) for hyper in fit.time_hyper], fit.power)
        cross = [
            [
                covariance(*of_work, Pair(mine, theirs))
                for of_work, mine, theirs in zip(of_works, asked.sites, data.sites, strict=True)
            ]
            for of_works in residuals
        ]
        for w, (mine, theirs) in enumerate(zip(asked.spans, data.spans, strict=True)):
            g[mine] = cross[0][w] @ self.toward_g[theirs]
            p[mine] = cross[1][w] @ self.toward_p[theirs]
        shares, _ = asked.linearised(g, p, fit.follows)
        timed, metered = asked.time_sensitivity(shares, fit.follows), shares * asked.is_energy[:, None]
        within, toward = (asked.coupling(rows, fit.own, fit.together) for rows in (asked, data))
        for part, (own, their) in enumerate(((timed, self.timed), (metered, self.metered))):
            for w, (mine, theirs) in enumerate(zip(asked.spans, data.spans, strict=True)):
                prior = covariance(*residuals[part][w], Pair(asked.sites[w], asked.sites[w]))
                within += own[:, mine] @ prior @ own[:, mine].T
                toward += own[:, mine] @ cross[part][w] @ their[:, theirs].T
        known = solve_triangular(self.factor, toward.T, lower=True, check_finite=False)
        return np.asarray(within - known.T @ known)

    def left_out(self) -> tuple[Array, Array]:
        """See `JointFit.left_out`."""
        inverse = cho_solve((self.factor, True), np.eye(len(self.alpha)))
        errors, deviations = [], []
        for identity in range(self.observed.identity.max() + 1):
            own = np.flatnonzero(self.observed.identity == identity)
            left = np.linalg.inv(inverse[np.ix_(own, own)])
            errors.append((left @ self.alpha[own])[-1])
            deviations.append(np.sqrt(left[-1, -1]))
        return np.array(errors), np.array(deviations)

    def _blocks(self, kinds: Sequence[int], points: Sequence[Array]) -> Iterator[tuple[int, slice, Sites, Pair]]:
        for kind, at in zip(kinds, points, strict=True):
            work, place = self.fit.place[kind]
            widths = np.asarray(at, dtype=float)
            slow = self.fit.slow.at(kind, widths)
            sites = Sites(np.full(len(at), place), widths, self.fit.subjects[kind].taps, slow)
            yield work, self.observed.spans[work], sites, Pair(sites, self.observed.sites[work])

    def predict(self, kinds: Sequence[int], points: Sequence[Array]) -> Prediction:
        """See `JointFit.predict`; what depends on single blocks once for each distinct point, the rest in chunks.

        Blocks that are alike in all networks are one here, which counts as often as they are: deep models repeat a few.
        """
        fit, count, coupling = self.fit, len(points[0]), (len(kinds) - 1) / len(kinds)
        first, places = distinct(kinds, points)
        blocks, times = [self._block(kinds[b], points[b]) for b in first], np.bincount(places)
        block_time = np.stack([block.time_s[block.back] for block in blocks], 1)
        block_energy = np.stack([block.energy_j[block.back] for block in blocks], 1)
        time, energy = fit.time.base + block_time @ times, fit.energy.base + block_energy @ times
        in_time, in_energy = block_time * times / time[:, None], block_energy * times / energy[:, None]
        of_all = self._prior if count > 1 else self._prior_of_one
        time_var, energy_var, joint_var = (
            base + share
            for base, share in zip(self._coupled(coupling), of_all(blocks, in_time, in_energy), strict=True)
        )
        own, own_power = np.zeros(count), np.zeros(count)
        for start in range(0, count, CHUNK):
            part = slice(start, start + CHUNK)
            same = self._measured(kinds, [at[part] for at in points])
            known_t, known_e = self._known(blocks, coupling, part, in_time[part], in_energy[part], same)
            time_var[part] -= np.einsum("ij,ij->i", known_t, known_t)
            energy_var[part] -= np.einsum("ij,ij->i", known_e, known_e)
            joint_var[part] -= np.einsum("ij,ij->i", known_t, known_e)
            own[part] = (same * fit.own[0] ** 2 * self.observed.coupled) @ self.alpha
            own_power[part] = (same * fit.own[1] ** 2 * self.observed.coupled * self.observed.is_energy) @ self.alpha
        # Blocks are at their expectations, and so is their sum; its median lies lower by half its own variance.
        in_both, in_power = (coupling**2 * variance for variance in self.coupling_var)
        middle_t = np.exp(-0.5 * np.maximum(time_var - in_both, 0.0))
        middle_e = np.exp(-0.5 * np.maximum(energy_var - in_both - in_power, 0.0))
        lift = np.exp(coupling * (self.context_time + own))
        lift_energy = lift * np.exp(coupling * (self.context_power + own_power))
        return Prediction(
            time * lift * middle_t,
            energy * lift_energy * middle_e,
            np.maximum(time_var, 0.0),
            np.maximum(energy_var, 0.0),
            joint_var,
            (block_time * (lift * middle_t)[:, None])[:, places],
            (block_energy * (lift_energy * middle_e)[:, None])[:, places],
            energy * lift_energy,
        )

    def _block(self, kind: int, at: Array) -> BlockSites:
        """A block at its distinct points, seen through the rows: L⁻¹ ω k for time and for power."""
        fit, observed = self.fit, self.observed
        work, place = fit.place[kind]
        points = np.asarray(at, dtype=float)
        _, first, back = np.unique(tags_of(points), return_index=True, return_inverse=True)
        slow = fit.slow.at(kind, points[first])
        sites = Sites(np.full(len(first), place), points[first], fit.subjects[kind].taps, slow)
        span, count = observed.spans[work], len(sites)
        to_time, to_power = self.half_timed[:, span].T, self.half_metered[:, span].T
        g, p = np.empty(count), np.empty(count)
        rows_time, rows_power = np.empty((count, len(observed.net))), np.empty((count, len(observed.net)))
        for start in range(0, count, CHUNK):
            part = slice(start, start + CHUNK)
            pair = Pair(sites.at(part), observed.sites[work])
            kt = covariance(TIME, fit.time_hyper[work], pair)
            kp = covariance(*fit.power[work], pair)
            g[part], p[part] = kt @ self.toward_g[span], kp @ self.toward_p[span]
            np.matmul(kt, to_time, out=rows_time[part])
            np.matmul(kp, to_power, out=rows_power[part])
        more = 1 + sites.power_sensitivity(fit.follows[work])
        rows_power += more[:, None] * rows_time
        time_var = between(TIME, fit.time_hyper[work], sites, sites)
        energy_var = more**2 * time_var + between(*fit.power[work], sites, sites)
        time_var = time_var - np.einsum("ij,ij->i", rows_time, rows_time)
        energy_var = energy_var - np.einsum("ij,ij->i", rows_power, rows_power)
        return BlockSites(
            work,
            sites,
            back.reshape(-1),
            fit.time.at(kind, sites.points) * np.exp(g + 0.5 * np.maximum(time_var, 0.0)),
            fit.energy_mean(kind, sites.points) * np.exp(more * g + p + 0.5 * np.maximum(energy_var, 0.0)),
            rows_time,
            rows_power,
        )

    def _known(
        self, blocks: Sequence[BlockSites], coupling: float, part: slice, in_time: Array, in_energy: Array, same: Array
    ) -> tuple[Array, Array]:
        """What the rows know of networks' times and energies: their squares sum to the variance they take away."""
        shared = coupling * self.half_coupling
        known_t = np.broadcast_to(shared, (len(in_time), len(shared))).copy()
        known_e = np.broadcast_to(shared + coupling * self.half_power, known_t.shape).copy()
        if same.any():
            coupled = coupling * same * self.observed.coupled
            own = self.fit.own[0] ** 2 * coupled @ self.inverse_factor.T
            known_t += own
            known_e += own + self.fit.own[1] ** 2 * (coupled * self.observed.is_energy) @ self.inverse_factor.T
        for b, block in enumerate(blocks):
            back = block.back[part]
            for known, share, seen in (
                (known_t, in_time, block.rows_time),
                (known_e, in_energy, block.rows_energy),
            ):
                taken = seen[back]
                taken *= share[:, b, None]
                known += taken
        return known_t, known_e

    def _coupled(self, coupling: float) -> tuple[float, float, float]:
        """What coupling adds to the variances of time and energy, and to their covariance."""
        in_both, in_power = (coupling**2 * variance for variance in self.coupling_var)
        return in_both, in_both + in_power, in_both

    def _prior(self, blocks: Sequence[BlockSites], in_time: Array, in_energy: Array) -> Variances:
        """What blocks have of the variances of time and energy and of their covariance, before any observation."""
        time_var, energy_var, joint_var = np.zeros((3, len(in_time)))
        for i, a in enumerate(blocks):
            for j, b in enumerate(blocks[: i + 1]):
                if a.work != b.work:
                    continue
                follow, power = self.fit.follows[a.work], self.fit.power[a.work]
                more, other_more = ((1 + block.sites.power_sensitivity(follow))[block.back] for block in (a, b))
                if i == j:
                    kt = between(TIME, self.fit.time_hyper[a.work], a.sites, a.sites)[a.back]
                    kp = between(*power, a.sites, a.sites)[a.back]
                    twice = 1.0
                else:
                    one, other = a.sites.at(a.back), b.sites.at(b.back)
                    kt = between(TIME, self.fit.time_hyper[a.work], one, other)
                    kp = between(*power, one, other)
                    twice = 2.0
                time_var += twice * in_time[:, i] * in_time[:, j] * kt
                energy_var += twice * in_energy[:, i] * in_energy[:, j] * (more * other_more * kt + kp)
                cross = in_time[:, i] * in_energy[:, j] * other_more
                joint_var += (cross if i == j else cross + in_time[:, j] * in_energy[:, i] * more) * kt
        return time_var, energy_var, joint_var

    def _prior_of_one(self, blocks: Sequence[BlockSites], in_time: Array, in_energy: Array) -> Variances:
        """The same of a single network: pairs of blocks as matrices, a work at a time."""
        time_var, energy_var, joint_var = np.zeros((3, 1))
        for work in dict.fromkeys(block.work for block in blocks):
            own = [i for i, block in enumerate(blocks) if block.work == work]
            sites = joined([blocks[i].sites for i in own])
            pair, more = Pair(sites, sites), 1 + sites.power_sensitivity(self.fit.follows[work])
            kt = covariance(TIME, self.fit.time_hyper[work], pair)
            t, e = in_time[0, own], in_energy[0, own]
            time_var += t @ kt @ t
            energy_var += (e * more) @ kt @ (e * more) + e @ covariance(*self.fit.power[work], pair) @ e
            joint_var += t @ kt @ (e * more)
        return time_var, energy_var, joint_var

    def _measured(self, kinds: Sequence[int], points: Sequence[Array]) -> Array:
        """Which rows are of the very same network: (N, rows), or (1, rows) of zeros where none of the structure is."""
        found = np.zeros((1, len(self.observed.net)))
        for row, net in enumerate(self.observed.net):
            blocks = self.observed.observations[net].blocks
            if len(blocks) > 1 and [kind for kind, _ in blocks] == list(kinds):
                if len(found) == 1 != len(points[0]):
                    found = np.zeros((len(points[0]), len(self.observed.net)))
                agree = [(at == np.array(point)).all(1) for at, (_, point) in zip(points, blocks, strict=True)]
                found[:, row] = np.logical_and.reduce(agree)
        return found

    def gradient(self, kinds: Sequence[int], points: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """See `JointFit.gradient`."""
        fit, coupling = self.fit, (len(kinds) - 1) / len(kinds)
        lift = np.exp(coupling * self.context_time)
        lift_energy = lift * np.exp(coupling * self.context_power)
        energies, times = [], []
        for kind, (work, span, own, pair) in zip(kinds, self._blocks(kinds, points), strict=True):
            dg = slope(TIME, fit.time_hyper[work], pair, self.toward_g[span])
            dp = slope(*fit.power[work], pair, self.toward_p[span])
            spot = self._block(kind, own.points)
            by_time = spot.rows_time[spot.back] @ self.inverse_factor
            by_energy = spot.rows_energy[spot.back] @ self.inverse_factor
            dvt = -2 * slope(TIME, fit.time_hyper[work], pair, by_time @ self.timed[:, span])
            more = 1 + own.power_sensitivity(fit.follows[work])[:, None]
            dve = -2 * more * slope(TIME, fit.time_hyper[work], pair, by_energy @ self.timed[:, span])
            dve = dve - 2 * slope(*fit.power[work], pair, by_energy @ self.metered[:, span])
            t, e = lift * spot.time_s[spot.back], lift_energy * spot.energy_j[spot.back]
            of_time = fit.time.slope(kind, own.points) / fit.time.at(kind, own.points)[:, None]
            of_energy = fit.energy_slope(kind, own.points) / fit.energy_mean(kind, own.points)[:, None]
            times.append(t[:, None] * (of_time + dg + 0.5 * dvt))
            energies.append(e[:, None] * (of_energy + more * dg + dp + 0.5 * dve))
        return energies, times

    def sample(self, kinds: Sequence[int], points: Sequence[Array], draws: int, seed: int) -> tuple[Array, Array]:
        """See `JointFit.sample`."""
        fit, observed = self.fit, self.observed
        coupling = (len(kinds) - 1) / len(kinds)
        count = len(kinds)
        blocks = list(self._blocks(kinds, points))
        prior = np.zeros((2 * count + 2, 2 * count + 2))  # g of each block, p of each, context of time and power
        cross = np.zeros((2 * count + 2, len(observed.net)))
        for i, (work, span, a, pair) in enumerate(blocks):
            cross[i] = covariance(TIME, fit.time_hyper[work], pair)[0] @ self.timed.T[span]
            cross[count + i] = covariance(*fit.power[work], pair)[0] @ self.metered.T[span]
            for j, (other, _, b, _) in enumerate(blocks):
                if work == other:
                    prior[i, j] = between(TIME, fit.time_hyper[work], a, b)[0]
                    prior[count + i, count + j] = between(*fit.power[work], a, b)[0]
        prior[-2, -2], prior[-1, -1] = self.coupling_var
        same = self._measured(kinds, points)[0]
        cross[-2] = observed.coupled * (fit.together**2 + same * fit.own[0] ** 2)
        cross[-1] = observed.coupled * observed.is_energy * (COUPLING_POWER**2 + same * fit.own[1] ** 2)
        known = solve_triangular(self.factor, cross.T, lower=True)
        half = np.linalg.cholesky(prior - known.T @ known + 1e-12 * np.eye(len(prior)))
        z = cross @ self.alpha + np.random.default_rng(seed).standard_normal((draws, len(prior))) @ half.T
        g, p = z[:, :count], z[:, count : 2 * count]
        mt = np.array([fit.time.at(k, at[:1])[0] for k, at in zip(kinds, points, strict=True)])
        me = np.array([fit.energy_mean(k, at[:1])[0] for k, at in zip(kinds, points, strict=True)])
        more = np.array([1 + own.power_sensitivity(fit.follows[work])[0] for work, _, own, _ in blocks])
        times = (fit.time.base + (mt * np.exp(g)).sum(1)) * np.exp(coupling * z[:, -2])
        energies = (fit.energy.base + (me * np.exp(more * g + p)).sum(1)) * np.exp(coupling * (z[:, -2] + z[:, -1]))
        return times, energies
