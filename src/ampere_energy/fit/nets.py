r"""The joint posterior over whole networks: every measured network is a sum of blocks, and all of them teach together.

Notation, for block b of a network n:

    mᵗ(b), mᵉ(b)      physical means of its device time and busy energy (`physics`)
    g(b), p(b)        logarithmic residuals of time and of power, Gaussian processes (`kernels`)
    Tₙ = (base + Σ mᵗ·exp g)·exp(cₙ)            Eₙ = (base + Σ mᵉ·exp(g + p))·exp(cₙ + c′ₙ)

    cₙ, c′ₙ           context: blocks in company cost other than alone, in time and in power. Parts common to all
                      networks, which whole networks teach, and parts of each network's own; all grow with the share
                      (B − 1)/B of its blocks that read another's output, so a block alone has none

Energy is time × power: timing a block teaches its energy too. The logarithm of a sum is linearised at the posterior
mode, log Tₙ ≈ log T̂ₙ + Σ ωᵦ (g(b) − ĝ(b)) with ωᵦ the block's share of T̂ₙ: for a block alone this is exact. So the
logarithms of all observations are jointly Gaussian, subtracting happens inside the posterior with its error
propagated, and the logarithm of a predicted network is Gaussian with a covariance that knows that blocks of one
kind err together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from ampere_energy.errors import AmpereError
from ampere_energy.fit.kernels import (
    POWER,
    TIME,
    Component,
    Hyper,
    Pair,
    Sites,
    between,
    covariance,
    slope,
    tags_of,
    with_switches,
)
from ampere_energy.fit.physics import Array, Mean, terms
from ampere_energy.fit.threads import one_thread
from ampere_energy.model.blocks import Point
from ampere_energy.model.variants import Domain
from ampere_energy.plain import later

Net = tuple[tuple[int, Point], ...]
CONTEXT_TIME, CONTEXT_POWER = 0.03, 0.01
CONTEXT_OWN = (0.015, 0.015)
"""Prior standard deviations of the context: whole networks of `data/h200-lab/blocks.json` against their blocks.

Those parts of time's and of power's that are each network's own are learnt where several were measured; their values
here are then the priors' medians.
"""
_CHUNK = 4096
_MOST_NUMBERS = 2**24
_MODE_STEPS = 4
_JITTER = 1e-10


@dataclass(frozen=True)
class Subject:
    """A kind as the fit sees it.

    Attributes:
        id: the kind's own name.
        work: kinds of one work share residuals, since the device picks the same kernels for them.
        structure: kinds of one structure take the host equally long to issue, whatever their sizes.
        domain: the widths profiled.
        label: a description for people.
        squares: whether its work grows with the square of a width.
        rearranged: whether the compiler may lay its data out otherwise in company than alone.
        taps: how many products of a sum go with one width: those of a convolution's kernel.
    """

    id: str
    work: str
    structure: str
    domain: Domain
    label: str = ""
    squares: bool = later(False)
    rearranged: bool = later(False)
    taps: int = later(1)


@dataclass(frozen=True)
class Observation:
    """One network measured, per training step.

    Attributes:
        blocks: subjects, by their places, with widths.
        time_s: how long the device is busy.
        energy_j: what it takes meanwhile; None for a timing.
        time_error, energy_error: relative standard errors.
        host_s: how long the host takes to issue the step; None where host and device are one.
        wall_s: how long a step really takes, host and device together; None where it was not run so.
        apart: its blocks did not feed each other, so that it tells nothing of what they cost in company.
    """

    blocks: Net
    time_s: float
    energy_j: float | None
    time_error: float
    energy_error: float = 0.0
    host_s: float | None = None
    wall_s: float | None = None
    apart: bool = later(False)

    def __post_init__(self) -> None:
        positive = [v for v in (self.time_s, self.energy_j, self.host_s, self.wall_s) if v is not None]
        if not self.blocks or min(positive) < 1e-15 or max(positive) > 1e15:
            raise ValueError("an observation has blocks, and values within reason")
        if not 0 <= min(self.time_error, self.energy_error) <= max(self.time_error, self.energy_error) < 10:
            raise ValueError("relative errors lie between 0 and 10")


@dataclass(frozen=True)
class Host:
    """Seconds the host takes: a base a step and a number for each structure; and how much they scatter, relative.

    `gap_s` is what launching adds to a step that the device, not the host, is the slower part of.
    """

    base_s: float
    structures: tuple[tuple[str, float], ...]
    spread: float
    gap_s: float

    def __post_init__(self) -> None:
        values = (self.base_s, self.spread, self.gap_s, *(seconds for _, seconds in self.structures))
        if min(values) < 0 or max(values) > 1e9:
            raise ValueError("host times are not negative")


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


@dataclass(frozen=True)
class NetFit:
    """What a campaign learnt: observations, and the hyperparameters they are seen through.

    Attributes:
        time, energy: physical means.
        time_hyper, power_hyper: residuals, one a work, in the order works first appear among the subjects.
        noise: relative standard deviation of repeats of time, and of energy, beyond what each measurement states …
        carried: … and how much of a measurement's noise of time its energy has too: all where a slow moment costs as
            much more energy (a shared CPU), little where a card's power falls with its clock.
        host: None where host and device are one, or the step is launched whole.
        idle_w: what the device takes while it waits for the host.
        own: standard deviations of those parts of the context of time, and of power, which are each network's own.
    """

    subjects: tuple[Subject, ...]
    observations: tuple[Observation, ...]
    time: Mean
    energy: Mean
    time_hyper: tuple[Hyper, ...]
    power_hyper: tuple[Hyper, ...]
    noise: tuple[float, float]
    host: Host | None = None
    idle_w: float | None = None
    own: tuple[float, float] = later(CONTEXT_OWN)
    carried: float = later(0.0)

    def __post_init__(self) -> None:
        if not self.subjects or not self.observations or len({s.id for s in self.subjects}) != len(self.subjects):
            raise ValueError("a fit has subjects, each once, and observations")
        if not all(0 < s.taps < 2**26 for s in self.subjects):
            raise ValueError("a subject's taps are out of reason")
        axes = [len(s.domain) for s in self.subjects]
        for observation in self.observations:
            for index, point in observation.blocks:
                if not 0 <= index < len(axes) or len(point) != axes[index] or not all(0 < w < 2**26 for w in point):
                    raise ValueError(f"an observation of subject {index} at {point} does not fit the subjects")
        for mean in (self.time, self.energy):
            if [len(w) for w in mean.weights] != [terms(len(s.domain), s.squares) for s in self.subjects]:
                raise ValueError("the means do not fit the subjects")
        for components, hypers in ((TIME, self.time_hyper), (POWER, self.power_hyper)):
            if len(hypers) != len(self.works):
                raise ValueError(f"{len(hypers)} residuals for {len(self.works)} works")
            for members, hyper in zip(self.works, hypers, strict=True):
                shape = [(len(members), c.lengths(axes[members[0]])) for c in components]
                if [(len(s), len(n)) for s, n in zip(hyper.scales, hyper.lengths, strict=True)] != shape:
                    raise ValueError("a residual does not fit its work")
        if (
            not all(0 < value < 10 for value in (*self.noise, *self.own))
            or not 0 <= self.carried < 1e3
            or (self.idle_w is not None and not 0 <= self.idle_w < 1e6)
        ):
            raise ValueError("the noise, the context or the idle power is out of reason")

    @cached_property
    def works(self) -> tuple[tuple[int, ...], ...]:
        """The subjects of each work, by their places."""
        return works_of(self.subjects)

    @cached_property
    def _place(self) -> dict[int, tuple[int, int]]:
        """Each subject's work, and its place within it."""
        return {subject: (w, i) for w, members in enumerate(self.works) for i, subject in enumerate(members)}

    @cached_property
    def power(self) -> tuple[tuple[tuple[Component, ...], Hyper], ...]:
        """The components of each work's power, and their hyperparameters."""
        pairs = zip(self.time_hyper, self.power_hyper, strict=True)
        return tuple(with_switches(TIME, times, POWER, powers) for times, powers in pairs)

    @property
    def scatter(self) -> Array:
        """Covariance of the noise of one measurement's time and energy, as shares: (2, 2)."""
        return scatter_of(self.noise, self.carried)

    def find(self, kind_id: str) -> int | None:
        """The place of a subject, if it is known."""
        return next((i for i, s in enumerate(self.subjects) if s.id == kind_id), None)

    def energy_mean(self, kind: int, points: Array) -> Array:
        """The physical mean of energy at points (n, axes): shape (n,)."""
        mean: Array = self.energy.at(kind, points) * self.time.lift(kind, points)
        return mean

    def energy_slope(self, kind: int, points: Array) -> Array:
        """Its derivatives with respect to the widths: shape (n, axes)."""
        own = self.energy.slope(kind, points) * self.time.lift(kind, points)[:, None]
        slope: Array = own + self.energy.at(kind, points)[:, None] * self.time.lift_slope(kind, points)
        return slope

    @cached_property
    def _state(self) -> State:
        with one_thread():
            return State(self)

    def predict(self, kinds: Sequence[int], points: Sequence[Array]) -> Prediction:
        """Networks of one structure.

        Args:
            kinds: the blocks' subjects, by their places.
            points: for each block, the widths (N, axes) in all N networks.
        """
        state, count = self._state, len(points[0])
        most = max(_CHUNK, _MOST_NUMBERS // (len(state.alpha) * len(kinds)))
        parts = [state.predict(kinds, [p[start : start + most] for p in points]) for start in range(0, count, most)]
        return Prediction(*(np.concatenate([getattr(part, name) for part in parts]) for name in _PREDICTED))

    def posterior(self, nets: Sequence[Net]) -> Array:
        """Joint covariance of the logarithms of n networks' times, then energies: (2n, 2n)."""
        state = self._state
        with one_thread():
            return state.posterior(nets)

    def left_out(self) -> tuple[Array, Array]:
        """Each distinct network predicted from all others: errors of logarithms, and their stated deviations.

        Of the energy where it was metered, else of the time.
        """
        return self._state.left_out()

    def block_std(self, kinds: Sequence[int], points: Sequence[Array]) -> Array:
        """Standard deviations of the logarithms of blocks' energies, one network: shape (B,)."""
        alone = [self._state.predict([kind], [point[:1]]) for kind, point in zip(kinds, points, strict=True)]
        return np.array([float(part.energy_var[0]) ** 0.5 for part in alone])

    def gradient(self, kinds: Sequence[int], points: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Derivatives of blocks' expected energies and times with respect to their own widths: B arrays (N, axes)."""
        return self._state.gradient(kinds, points)

    def sample(self, kinds: Sequence[int], points: Sequence[Array], draws: int, seed: int) -> tuple[Array, Array]:
        """Times and energies of one network (draws,) from the posterior of its blocks, without linearising the sum."""
        return self._state.sample(kinds, points, draws, seed)


_PREDICTED = (
    "time_s",
    "energy_j",
    "time_var",
    "energy_var",
    "joint_var",
    "block_time_s",
    "block_energy_j",
    "expected_j",
)


@dataclass(frozen=True, eq=False)
class Spot:
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


def works_of(subjects: Sequence[Subject]) -> tuple[tuple[int, ...], ...]:
    """The subjects of each work, by their places, in the order of appearance."""
    works: dict[tuple[str, int, int], list[int]] = {}
    for index, subject in enumerate(subjects):
        works.setdefault((subject.work, len(subject.domain), subject.taps), []).append(index)
    return tuple(tuple(members) for members in works.values())


def seen_alone(fit: NetFit | None) -> list[tuple[Subject, int, int]]:
    """Each subject with how often it was metered and timed by itself."""
    found = []
    for index, subject in enumerate(fit.subjects if fit is not None else ()):
        own = [
            o for o in (fit.observations if fit is not None else ()) if len(o.blocks) == 1 and o.blocks[0][0] == index
        ]
        metered = sum(o.energy_j is not None for o in own)
        found.append((subject, metered, len(own) - metered))
    return found


def scatter_of(noise: tuple[float, float], carried: float) -> Array:
    """See `NetFit.scatter`."""
    time, energy, shared = noise[0] ** 2, noise[1] ** 2, carried * noise[0] ** 2
    return np.array([[time, shared], [shared, carried * shared + energy]])


class Rows:
    """Observations as rows of logarithms over the distinct blocks they are made of: times first, then energies."""

    def __init__(self, subjects: Sequence[Subject], observations: Sequence[Observation], time: Mean, energy: Mean):
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
            self.sites.append(Sites(np.array([place[atoms[i][0]][1] for i in own], dtype=int), points, first.taps))
        metered = [i for i, o in enumerate(observations) if o.energy_j is not None]
        self.net = np.array([*range(len(observations)), *metered])
        self.is_energy = np.arange(len(self.net)) >= len(observations)
        values = [o.time_s for o in observations] + [observations[i].energy_j or 0.0 for i in metered]
        self.log_values = np.log(np.array(values))
        self.errors = np.array([o.time_error for o in observations] + [observations[i].energy_error for i in metered])
        self.base = np.where(self.is_energy, energy.base, time.base)
        means = {False: self._means(subjects, time), True: self._means(subjects, energy, time)}
        entries = [(r, index[b]) for r, n in enumerate(self.net) for b in observations[n].blocks]
        self._row = np.array([r for r, _ in entries])
        self._atom = np.array([a for _, a in entries])
        self._mean = np.where(self.is_energy[self._row], means[True][self._atom], means[False][self._atom])
        together = np.array([1 if observations[n].apart else len(observations[n].blocks) for n in self.net])
        self.company = (together - 1) / together
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

    def linearised(self, g: Array, p: Array) -> tuple[Array, Array]:
        """Each row's shares ω of its blocks (rows, atoms), and what is left to explain, at residuals g and p."""
        residual = g[self._atom] + np.where(self.is_energy[self._row], p[self._atom], 0.0)
        parts = self._mean * np.exp(residual)
        totals = self.base + np.bincount(self._row, parts, minlength=len(self.net))
        shares = parts / totals[self._row]
        weights = np.zeros((len(self.net), len(self.atoms)))
        np.add.at(weights, (self._row, self._atom), shares)
        explained = np.bincount(self._row, shares * residual, minlength=len(self.net))
        return weights, self.log_values - np.log(totals) + explained

    def context(self, other: Rows, own: tuple[float, float]) -> Array:
        """The covariance of the rows' contexts with another's; `own` are the deviations that are each network's own."""
        names = {
            net: i for i, net in enumerate(dict.fromkeys(o.blocks for o in (*self.observations, *other.observations)))
        }
        mine, others = (np.array([names[r.observations[n].blocks] for n in r.net]) for r in (self, other))
        same = np.equal(mine[:, None], others[None, :])
        together = CONTEXT_TIME**2 + own[0] ** 2 * same
        power = (CONTEXT_POWER**2 + own[1] ** 2 * same) * (self.is_energy[:, None] & other.is_energy[None, :])
        return np.asarray(self.company[:, None] * other.company[None, :] * (together + power))

    def covariance(self, blocks: Sequence[Array], shares: Array) -> Array:
        """Σ ω K ωᵀ over the works, for covariances of each work's own blocks."""
        total = np.zeros((len(shares), len(shares)))
        for span, block in zip(self.spans, blocks, strict=True):
            total += shares[:, span] @ block @ shares[:, span].T
        return total

    def noise(self, scatter: Array) -> Array:
        """The rows' noise, and what the time and the energy of one measurement have of it in common."""
        energies = np.flatnonzero(self.is_energy)
        total = np.diag(self.errors**2 + np.where(self.is_energy, scatter[1, 1], scatter[0, 0]) + _JITTER)
        total[energies, self.net[energies]] = total[self.net[energies], energies] = scatter[0, 1]
        return total


class State:
    """The posterior: the rows' factor at the mode, and what predicting needs of it."""

    def __init__(self, fit: NetFit) -> None:
        self.fit = fit
        self.rows = rows = Rows(fit.subjects, fit.observations, fit.time, fit.energy)
        pairs = [Pair(sites, sites) for sites in rows.sites]
        time = [covariance(TIME, h, pair) for h, pair in zip(fit.time_hyper, pairs, strict=True)]
        power = [covariance(*of_power, pair) for of_power, pair in zip(fit.power, pairs, strict=True)]
        known = rows.context(rows, fit.own) + rows.noise(fit.scatter)
        g, p = start(rows)
        for _ in range(_MODE_STEPS):
            shares, targets = rows.linearised(g, p)
            metered = shares * rows.is_energy[:, None]
            total = rows.covariance(time, shares) + rows.covariance(power, metered) + known
            factor = _factor(total)
            alpha = cho_solve((factor, True), targets)
            toward_g, toward_p = shares.T @ alpha, metered.T @ alpha
            for span, kt, kp in zip(rows.spans, time, power, strict=True):
                g[span], p[span] = kt @ toward_g[span], kp @ toward_p[span]
        self.context_var = CONTEXT_TIME**2 + fit.own[0] ** 2, CONTEXT_POWER**2 + fit.own[1] ** 2
        self.factor, self.alpha = factor, alpha
        self.shares, self.metered = shares, metered
        self.toward_g, self.toward_p = shares.T @ alpha, metered.T @ alpha
        w = rows.company * alpha
        self.inverse_factor = solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
        self.half_shares, self.half_metered = self.inverse_factor @ shares, self.inverse_factor @ metered
        self.half_context = self.inverse_factor @ (rows.company * CONTEXT_TIME**2)
        self.half_power = self.inverse_factor @ (rows.company * rows.is_energy * CONTEXT_POWER**2)
        self.context_time, self.context_power = CONTEXT_TIME**2 * w.sum(), CONTEXT_POWER**2 * w[rows.is_energy].sum()

    def posterior(self, nets: Sequence[Net]) -> Array:
        """See `NetFit.posterior`."""
        fit, data = self.fit, self.rows
        asked = Rows(fit.subjects, [Observation(net, 1.0, 1.0, 0.0) for net in nets], fit.time, fit.energy)
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
        shares, _ = asked.linearised(g, p)
        metered = shares * asked.is_energy[:, None]
        within, toward = asked.context(asked, fit.own), asked.context(data, fit.own)
        for part, (own, their) in enumerate(((shares, self.shares), (metered, self.metered))):
            for w, (mine, theirs) in enumerate(zip(asked.spans, data.spans, strict=True)):
                prior = covariance(*residuals[part][w], Pair(asked.sites[w], asked.sites[w]))
                within += own[:, mine] @ prior @ own[:, mine].T
                toward += own[:, mine] @ cross[part][w] @ their[:, theirs].T
        known = solve_triangular(self.factor, toward.T, lower=True, check_finite=False)
        return np.asarray(within - known.T @ known)

    def left_out(self) -> tuple[Array, Array]:
        """See `NetFit.left_out`."""
        inverse = cho_solve((self.factor, True), np.eye(len(self.alpha)))
        errors, deviations = [], []
        for identity in range(self.rows.identity.max() + 1):
            own = np.flatnonzero(self.rows.identity == identity)
            left = np.linalg.inv(inverse[np.ix_(own, own)])
            errors.append((left @ self.alpha[own])[-1])
            deviations.append(np.sqrt(left[-1, -1]))
        return np.array(errors), np.array(deviations)

    def _blocks(self, kinds: Sequence[int], points: Sequence[Array]) -> Iterator[tuple[int, slice, Sites, Pair]]:
        for kind, at in zip(kinds, points, strict=True):
            work, place = self.fit._place[kind]
            sites = Sites(np.full(len(at), place), np.asarray(at, dtype=float), self.fit.subjects[kind].taps)
            yield work, self.rows.spans[work], sites, Pair(sites, self.rows.sites[work])

    def predict(self, kinds: Sequence[int], points: Sequence[Array]) -> Prediction:
        """See `NetFit.predict`; what depends on single blocks once for each distinct point, the rest in chunks."""
        fit, count = self.fit, len(points[0])
        blocks = [self._block(kind, at) for kind, at in zip(kinds, points, strict=True)]
        block_time = np.stack([block.time_s[block.back] for block in blocks], 1)
        block_energy = np.stack([block.energy_j[block.back] for block in blocks], 1)
        time, energy = fit.time.base + block_time.sum(1), fit.energy.base + block_energy.sum(1)
        in_time, in_energy = block_time / time[:, None], block_energy / energy[:, None]
        time_var, energy_var, joint_var = self._prior(blocks, in_time, in_energy)
        own, own_power = np.zeros(count), np.zeros(count)
        for start in range(0, count, _CHUNK):
            part = slice(start, start + _CHUNK)
            same = self._measured(kinds, [at[part] for at in points])
            known_t, known_e = self._known(blocks, part, in_time[part], in_energy[part], same)
            time_var[part] -= np.einsum("ij,ij->i", known_t, known_t)
            energy_var[part] -= np.einsum("ij,ij->i", known_e, known_e)
            joint_var[part] -= np.einsum("ij,ij->i", known_t, known_e)
            own[part] = (same * fit.own[0] ** 2 * self.rows.company) @ self.alpha
            own_power[part] = (same * fit.own[1] ** 2 * self.rows.company * self.rows.is_energy) @ self.alpha
        company = (len(kinds) - 1) / len(kinds)
        # Blocks are at their expectations, and so is their sum; its median lies lower by half its own variance.
        in_both, in_power = (company**2 * variance for variance in self.context_var)
        middle_t = np.exp(-0.5 * np.maximum(time_var - in_both, 0.0))
        middle_e = np.exp(-0.5 * np.maximum(energy_var - in_both - in_power, 0.0))
        lift = np.exp(company * (self.context_time + own))
        lift_energy = lift * np.exp(company * (self.context_power + own_power))
        return Prediction(
            time * lift * middle_t,
            energy * lift_energy * middle_e,
            np.maximum(time_var, 0.0),
            np.maximum(energy_var, 0.0),
            joint_var,
            block_time * (lift * middle_t)[:, None],
            block_energy * (lift_energy * middle_e)[:, None],
            energy * lift_energy,
        )

    def _block(self, kind: int, at: Array) -> Spot:
        """A block at its distinct points, seen through the rows: L⁻¹ ω k for time and for power."""
        fit, rows = self.fit, self.rows
        work, place = fit._place[kind]
        points = np.asarray(at, dtype=float)
        _, first, back = np.unique(tags_of(points), return_index=True, return_inverse=True)
        sites = Sites(np.full(len(first), place), points[first], fit.subjects[kind].taps)
        span, count = rows.spans[work], len(sites)
        to_time, to_power = self.half_shares[:, span].T, self.half_metered[:, span].T
        g, p = np.empty(count), np.empty(count)
        rows_time, rows_power = np.empty((count, len(rows.net))), np.empty((count, len(rows.net)))
        for start in range(0, count, _CHUNK):
            part = slice(start, start + _CHUNK)
            pair = Pair(sites.at(part), rows.sites[work])
            kt = covariance(TIME, fit.time_hyper[work], pair)
            kp = covariance(*fit.power[work], pair)
            g[part], p[part] = kt @ self.toward_g[span], kp @ self.toward_p[span]
            np.matmul(kt, to_time, out=rows_time[part])
            np.matmul(kp, to_power, out=rows_power[part])
        rows_power += rows_time
        time_var = between(TIME, fit.time_hyper[work], sites, sites)
        energy_var = time_var + between(*fit.power[work], sites, sites)
        time_var = time_var - np.einsum("ij,ij->i", rows_time, rows_time)
        energy_var = energy_var - np.einsum("ij,ij->i", rows_power, rows_power)
        return Spot(
            work,
            sites,
            back.reshape(-1),
            fit.time.at(kind, sites.points) * np.exp(g + 0.5 * np.maximum(time_var, 0.0)),
            fit.energy_mean(kind, sites.points) * np.exp(g + p + 0.5 * np.maximum(energy_var, 0.0)),
            rows_time,
            rows_power,
        )

    def _known(
        self, blocks: Sequence[Spot], part: slice, in_time: Array, in_energy: Array, same: Array
    ) -> tuple[Array, Array]:
        """What the rows know of networks' times and energies: their squares sum to the variance they take away."""
        company = (len(blocks) - 1) / len(blocks)
        shared = company * self.half_context
        known_t = np.broadcast_to(shared, (len(in_time), len(shared))).copy()
        known_e = np.broadcast_to(shared + company * self.half_power, known_t.shape).copy()
        if same.any():
            in_company = company * same * self.rows.company
            own = self.fit.own[0] ** 2 * in_company @ self.inverse_factor.T
            known_t += own
            known_e += own + self.fit.own[1] ** 2 * (in_company * self.rows.is_energy) @ self.inverse_factor.T
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

    def _prior(self, blocks: Sequence[Spot], in_time: Array, in_energy: Array) -> tuple[Array, Array, Array]:
        """Variances of time and energy and their covariance, before any observation."""
        fit, company, count = self.fit, (len(blocks) - 1) / len(blocks), len(in_time)
        in_both, in_power = (company**2 * variance for variance in self.context_var)
        time_var, joint_var = np.full(count, in_both), np.full(count, in_both)
        energy_var = np.full(count, in_both + in_power)
        for i, a in enumerate(blocks):
            for j, b in enumerate(blocks[: i + 1]):
                if a.work != b.work:
                    continue
                if i == j:
                    kt = between(TIME, fit.time_hyper[a.work], a.sites, a.sites)[a.back]
                    kp = between(*fit.power[a.work], a.sites, a.sites)[a.back]
                    twice = 1.0
                else:
                    one, other = a.sites.at(a.back), b.sites.at(b.back)
                    kt = between(TIME, fit.time_hyper[a.work], one, other)
                    kp = between(*fit.power[a.work], one, other)
                    twice = 2.0
                time_var += twice * in_time[:, i] * in_time[:, j] * kt
                energy_var += twice * in_energy[:, i] * in_energy[:, j] * (kt + kp)
                cross = in_time[:, i] * in_energy[:, j]
                joint_var += (cross if i == j else cross + in_time[:, j] * in_energy[:, i]) * kt
        return time_var, energy_var, joint_var

    def _measured(self, kinds: Sequence[int], points: Sequence[Array]) -> Array:
        """Which rows are of the very same network: (N, rows), or (1, rows) of zeros where none of the structure is."""
        found = np.zeros((1, len(self.rows.net)))
        for row, net in enumerate(self.rows.net):
            blocks = self.rows.observations[net].blocks
            if len(blocks) > 1 and [kind for kind, _ in blocks] == list(kinds):
                if len(found) == 1 != len(points[0]):
                    found = np.zeros((len(points[0]), len(self.rows.net)))
                agree = [(at == np.array(point)).all(1) for at, (_, point) in zip(points, blocks, strict=True)]
                found[:, row] = np.logical_and.reduce(agree)
        return found

    def gradient(self, kinds: Sequence[int], points: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """See `NetFit.gradient`."""
        fit, company = self.fit, (len(kinds) - 1) / len(kinds)
        lift = np.exp(company * self.context_time)
        lift_energy = lift * np.exp(company * self.context_power)
        energies, times = [], []
        for kind, (work, span, own, pair) in zip(kinds, self._blocks(kinds, points), strict=True):
            dg = slope(TIME, fit.time_hyper[work], pair, self.toward_g[span])
            dp = slope(*fit.power[work], pair, self.toward_p[span])
            spot = self._block(kind, own.points)
            by_time = spot.rows_time[spot.back] @ self.inverse_factor
            by_energy = spot.rows_energy[spot.back] @ self.inverse_factor
            dvt = -2 * slope(TIME, fit.time_hyper[work], pair, by_time @ self.shares[:, span])
            dve = -2 * slope(TIME, fit.time_hyper[work], pair, by_energy @ self.shares[:, span])
            dve = dve - 2 * slope(*fit.power[work], pair, by_energy @ self.metered[:, span])
            t, e = lift * spot.time_s[spot.back], lift_energy * spot.energy_j[spot.back]
            of_time = fit.time.slope(kind, own.points) / fit.time.at(kind, own.points)[:, None]
            of_energy = fit.energy_slope(kind, own.points) / fit.energy_mean(kind, own.points)[:, None]
            times.append(t[:, None] * (of_time + dg + 0.5 * dvt))
            energies.append(e[:, None] * (of_energy + dg + dp + 0.5 * dve))
        return energies, times

    def sample(self, kinds: Sequence[int], points: Sequence[Array], draws: int, seed: int) -> tuple[Array, Array]:
        """See `NetFit.sample`."""
        fit, rows = self.fit, self.rows
        company = (len(kinds) - 1) / len(kinds)
        count = len(kinds)
        blocks = list(self._blocks(kinds, points))
        prior = np.zeros((2 * count + 2, 2 * count + 2))  # g of each block, p of each, context of time and power
        cross = np.zeros((2 * count + 2, len(rows.net)))
        for i, (work, span, a, pair) in enumerate(blocks):
            cross[i] = covariance(TIME, fit.time_hyper[work], pair)[0] @ self.shares.T[span]
            cross[count + i] = covariance(*fit.power[work], pair)[0] @ self.metered.T[span]
            for j, (other, _, b, _) in enumerate(blocks):
                if work == other:
                    prior[i, j] = between(TIME, fit.time_hyper[work], a, b)[0]
                    prior[count + i, count + j] = between(*fit.power[work], a, b)[0]
        prior[-2, -2], prior[-1, -1] = self.context_var
        same = self._measured(kinds, points)[0]
        cross[-2] = rows.company * (CONTEXT_TIME**2 + same * fit.own[0] ** 2)
        cross[-1] = rows.company * rows.is_energy * (CONTEXT_POWER**2 + same * fit.own[1] ** 2)
        known = solve_triangular(self.factor, cross.T, lower=True)
        half = np.linalg.cholesky(prior - known.T @ known + 1e-12 * np.eye(len(prior)))
        z = cross @ self.alpha + np.random.default_rng(seed).standard_normal((draws, len(prior))) @ half.T
        g, p = z[:, :count], z[:, count : 2 * count]
        mt = np.array([fit.time.at(k, at[:1])[0] for k, at in zip(kinds, points, strict=True)])
        me = np.array([fit.energy_mean(k, at[:1])[0] for k, at in zip(kinds, points, strict=True)])
        times = (fit.time.base + (mt * np.exp(g)).sum(1)) * np.exp(company * z[:, -2])
        energies = (fit.energy.base + (me * np.exp(g + p)).sum(1)) * np.exp(company * (z[:, -2] + z[:, -1]))
        return times, energies


def start(rows: Rows) -> tuple[Array, Array]:
    """Residuals to linearise at first: none."""
    return np.zeros(len(rows.atoms)), np.zeros(len(rows.atoms))


def _factor(matrix: Array) -> Array:
    try:
        factor: Array = cholesky(matrix, lower=True)
    except (LinAlgError, ValueError):  # ValueError: numbers that are not finite
        raise AmpereError("a covariance matrix is not positive definite", "are two measurements degenerate?") from None
    return factor
