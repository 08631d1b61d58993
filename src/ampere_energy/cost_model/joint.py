r"""The joint posterior over whole networks: every measured network is a sum of blocks, and all of them teach together.

Notation, for block b of a network n:

    mᵗ(b), mᵉ(b)      physical means of its device time and busy energy (`physical_mean`)
    g(b), p(b)        logarithmic residuals of time and of power, Gaussian processes (`kernels`)
    ρ                 how power goes with the residual of time, a number for each work: kernels that take longer than
                      the mean says wait more, and take less power, or the other way round
    Tₙ = (base + Σ mᵗ·exp g)·exp(cₙ)            Eₙ = (base + Σ mᵉ·exp(g + ρg + p))·exp(cₙ + c′ₙ)

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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ampere_energy.cost_model.host_overhead import Host
from ampere_energy.cost_model.kernels import POWER, TIME, Component, Hyper, with_switches
from ampere_energy.cost_model.known_kinds import REACH, Band, KnownKind
from ampere_energy.cost_model.linearisation import COUPLING_OWN, COUPLING_TIME, Unshared, scatter_of
from ampere_energy.cost_model.observations import Net, Observation, Subject, works_of
from ampere_energy.cost_model.physical_mean import Array, Mean, terms
from ampere_energy.cost_model.posterior import CHUNK, Posterior, Prediction, distinct
from ampere_energy.cost_model.slow_regions import Slow, slow_blocks
from ampere_energy.cost_model.threads import one_thread
from ampere_energy.serialization import later

_MOST_NUMBERS = 2**24


@dataclass(frozen=True)
class JointFit:
    """What a campaign learnt: observations, and the hyperparameters they are seen through.

    Attributes:
        time, energy: physical means.
        time_hyper, power_hyper: residuals, one a work, in the order works first appear among the subjects …
        follows: … and their ρ.
        noise: relative standard deviation of repeats of time, and of energy, beyond what each measurement states …
        carried: … and how much of a measurement's noise of time its energy has too: all where a slow moment costs as
            much more energy (a shared CPU), little where a card's power falls with its clock.
        host: None where host and device are one, or the step is launched whole.
        idle_w: what the device takes while it waits for the host.
        own: standard deviations of those parts of the context of time, and of power, which are each network's own …
        together: … and of that part of the context of time which all networks have in common.
        steadier: how much less measurements scatter that are longer, as a share of `noise`.
    """

    subjects: tuple[Subject, ...]
    observations: tuple[Observation, ...]
    time: Mean
    energy: Mean
    time_hyper: tuple[Hyper, ...]
    power_hyper: tuple[Hyper, ...]
    follows: tuple[float, ...]
    noise: tuple[float, float]
    host: Host | None = None
    idle_w: float | None = None
    own: tuple[float, float] = COUPLING_OWN
    carried: float = 0.0
    together: float = later(COUPLING_TIME)
    steadier: float = later(1.0)

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
        for jump in self.host.jumps if self.host is not None else ():
            if any(s.work == jump.work and len(s.domain) <= jump.axis for s in self.subjects):
                raise ValueError(f"{jump.work} has no width {jump.axis} for the host's time to jump at")
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
        if len(self.follows) != len(self.works) or not all(abs(follow) < 1 for follow in self.follows):
            raise ValueError("power does not follow time within reason")
        if (
            not all(0 < value < 10 for value in (*self.noise, *self.own, self.together, self.steadier))
            or not 0 <= self.carried < 1e3
            or (self.idle_w is not None and not 0 <= self.idle_w < 1e6)
        ):
            raise ValueError("the noise, the context or the idle power is out of reason")

    @cached_property
    def works(self) -> tuple[tuple[int, ...], ...]:
        """The subjects of each work, by their places."""
        return works_of(self.subjects)

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """Each subject's work, and its place within it."""
        return {subject: (w, i) for w, members in enumerate(self.works) for i, subject in enumerate(members)}

    @cached_property
    def power(self) -> tuple[tuple[tuple[Component, ...], Hyper], ...]:
        """The components of each work's power, and their hyperparameters."""
        pairs = zip(self.time_hyper, self.power_hyper, strict=True)
        return tuple(with_switches(TIME, times, POWER, powers) for times, powers in pairs)

    @cached_property
    def slow(self) -> Slow:
        """Which blocks the device computes many times as slowly as most."""
        return slow_blocks(self.subjects, self.observations, self.time)

    @property
    def scatter(self) -> Array:
        """Covariance of the noise of one measurement's time and energy, as shares: (2, 2)."""
        return scatter_of(self.noise, self.carried)

    @property
    def repeats_var(self) -> float:
        """Variance of the logarithm of energy between trainings of one network, as measured at greatest length."""
        return float(self.steadier**2 * self.scatter[1, 1])

    @property
    def beside(self) -> Unshared:
        """What observations have beside their blocks' residuals."""
        return Unshared(self.own, self.together, self.scatter, self.steadier)

    def find(self, kind_id: str) -> int | None:
        """The place of a subject, if it is known."""
        return next((i for i, s in enumerate(self.subjects) if s.id == kind_id), None)

    def known_kinds(self) -> tuple[KnownKind, ...]:
        """What is known, kind by kind."""
        return tuple(map(self._known, range(len(self.subjects))))

    def _known(self, index: int) -> KnownKind:
        def at(points: Array) -> Band:
            found = self.predict([index], [points])
            reach = np.exp(REACH * np.sqrt(found.energy_var))
            return Band(found.energy_j, found.energy_j / reach, found.energy_j * reach)

        subject = self.subjects[index]
        own = [o for o in self.observations if [kind for kind, _ in o.blocks] == [index]]
        metered = tuple((o.blocks[0][1], o.energy_j) for o in own if o.energy_j is not None)
        count = len(subject.domain)
        axes = tuple(f"width {axis + 1}" for axis in range(count)) if count > 1 else ("width",) * count
        timed = len(own) - len(metered)
        return KnownKind(subject.id, subject.label or subject.id, axes, subject.domain, metered, timed, at)

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
    def posterior(self) -> Posterior:
        """The posterior at the mode; made once, when it is first asked."""
        with one_thread():
            return Posterior(self)

    def predict(self, kinds: Sequence[int], points: Sequence[Array]) -> Prediction:
        """Networks of one structure.

        Args:
            kinds: the blocks' subjects, by their places.
            points: for each block, the widths (N, axes) in all N networks.
        """
        posterior, count = self.posterior, len(points[0])
        most = max(CHUNK, _MOST_NUMBERS // (len(posterior.alpha) * len(kinds)))
        parts = [posterior.predict(kinds, [p[start : start + most] for p in points]) for start in range(0, count, most)]
        return Prediction(*(np.concatenate([getattr(part, name) for part in parts]) for name in _PREDICTED))

    def log_covariance(self, nets: Sequence[Net]) -> Array:
        """Joint covariance of the logarithms of n networks' times, then energies: (2n, 2n)."""
        posterior = self.posterior
        with one_thread():
            return posterior.log_covariance(nets)

    def left_out(self) -> tuple[Array, Array]:
        """Each distinct network predicted from all others: errors of logarithms, and their stated deviations.

        Of the energy where it was metered, else of the time.
        """
        return self.posterior.left_out()

    def block_std(self, kinds: Sequence[int], points: Sequence[Array]) -> Array:
        """Standard deviations of the logarithms of blocks' energies, one network: shape (B,)."""
        points = [point[:1] for point in points]
        first, places = distinct(kinds, points)
        alone = [self.posterior.predict([kinds[b]], [points[b]]) for b in first]
        return np.array([float(part.energy_var[0]) ** 0.5 for part in alone])[places]

    def gradient(self, kinds: Sequence[int], points: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Derivatives of blocks' expected energies and times with respect to their own widths: B arrays (N, axes)."""
        return self.posterior.gradient(kinds, points)

    def sample(self, kinds: Sequence[int], points: Sequence[Array], draws: int, seed: int) -> tuple[Array, Array]:
        """Times and energies of one network (draws,) from the posterior of its blocks, without linearising the sum."""
        return self.posterior.sample(kinds, points, draws, seed)


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
