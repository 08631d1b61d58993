"""What blocks of unknown kinds may cost, learnt across the kinds that are known.

For a block with traits x (1, calls, FLOPs, bytes, parameters), θ the logarithms of their prices:

    log cost = log Σ exp(θ)·x + u(operation) + v(kind) + s(size) + s′(kind, size) + w(block) + c

The terms are of two groups: *launching* (a constant, calls) and *work* (FLOPs, bytes, parameters). Within a group,
prices stand in usual proportions on all devices: reading a byte costs some FLOPs, updating a parameter some bytes. What
the references cannot tell apart stays near those proportions, and uncertain. Large blocks are usually done more
efficiently: their work counts a little less. The rest are errors: of an operation, of a kind, of sizes (all kinds'
and a kind's own, alike for sizes within a factor of about seven), of a block, and c, common to all the unknown blocks
of a model: a wrong model is wrong for all of them.

Prices are fitted to the references and linearised there, so predicted logarithms are jointly Gaussian: wide where a
block is ruled by a term that rules no reference or is far from all of them in size, narrower for a known operation.
All of it is scaled by how well each known kind is predicted from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import least_squares

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.threads import one_thread
from ampere_energy.cost_model.traits import Traits

USUAL = np.array([45.0, 1.0, 1.0, 12.0, 144.0])
"""Usual prices in a group: a block's constant in calls; a byte and a parameter in FLOPs."""
LAUNCHING = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
WORK = 1 - LAUNCHING
GAIN = 0.1
"""Work counts as its size to the power of one less this."""
PRICE, GROUP = np.array([0.7, 0.7, 1.0, 1.0, 1.0]), 1.5
"""Prior standard deviations of a price in its group, and of a group's."""
OPERATION, KIND, SIZE, BLOCK, MODEL = 0.6, 0.3, 0.3, 0.15, 0.25
"""Standard deviations of the errors."""
FAR = 2.0
"""Logarithmic distance at which errors of sizes have little in common."""
_SHARE = 3.0
_CHEAPEST = (0.1, 0.3)
_LEAST_SCALE, _PRIOR_KINDS = 0.8, 5.0
_NOTHING = 1e-300


@dataclass(frozen=True, eq=False)
class Guess:
    """What some blocks may cost: medians (B,), and the covariance of their logarithms (B, B)."""

    median: Array
    covariance: Array


@dataclass(frozen=True, eq=False)
class Blocks:
    """Kinds (n,), operations (n,), terms (n, 5) and logarithmic sizes (n,) of some blocks."""

    kinds: Array
    operations: Array
    terms: Array
    sizes: Array

    @classmethod
    def of(cls, kinds: Sequence[str], traits: Sequence[Traits]) -> Blocks:
        """Blocks by the names of their kinds and their traits."""
        terms = np.array([(1.0, t.calls, t.flops, t.bytes, t.parameters) for t in traits])
        sizes = np.log(np.maximum(terms @ (USUAL * WORK), 1.0))
        terms *= np.exp(np.outer(-GAIN * sizes, WORK))
        return cls(np.array(kinds, dtype=object), np.array([t.op for t in traits], dtype=object), terms, sizes)


class UnseenKinds:
    """The model, fitted to references.

    Args:
        kinds: each reference's kind.
        traits: each reference's traits.
        values: what each costs, positive: (n,).
    """

    def __init__(self, kinds: Sequence[str], traits: Sequence[Traits], values: Array) -> None:
        self.known, self.values = Blocks.of(kinds, traits), np.log(values)
        with one_thread():
            self._fit()

    def predict(self, kinds: Sequence[str], traits: Sequence[Traits]) -> Guess:
        """Blocks of one model; a kind may be among the references'."""
        asked = Blocks.of(kinds, traits)
        means, shares = _prices(self.theta, asked.terms)
        toward = solve_triangular(self.factor, _errors(self.known, asked), lower=True)
        beyond = shares.T - self.half_shares.T @ toward
        logs = means + toward.T @ self.half_left
        covariance = _errors(asked, asked) - toward.T @ toward + beyond.T @ self.uncertain @ beyond
        return Guess(np.exp(logs), self.scale**2 * (covariance + BLOCK**2 * np.eye(len(logs))) + MODEL**2)

    def _fit(self) -> None:
        centre, root = self._prior()
        own = _errors(self.known, self.known) + BLOCK**2 * np.eye(len(self.values))
        self.factor = factor = cholesky(own, lower=True)

        def misses(theta: Array) -> Array:
            left = self.values - _prices(theta, self.known.terms)[0]
            return np.concatenate((solve_triangular(factor, left, lower=True), root @ (theta - centre)))

        def slopes(theta: Array) -> Array:
            shares = _prices(theta, self.known.terms)[1]
            return np.vstack((-solve_triangular(factor, shares, lower=True), root))

        self.theta = np.asarray(least_squares(misses, centre, jac=slopes, method="lm").x)
        means, shares = _prices(self.theta, self.known.terms)
        left = self.values - means
        self.half_shares, self.half_left = (solve_triangular(factor, part, lower=True) for part in (shares, left))
        self.uncertain = np.linalg.inv(self.half_shares.T @ self.half_shares + root.T @ root)
        prior = own + shares @ np.linalg.inv(root.T @ root) @ shares.T
        self.scale = _scale(self.known.kinds, prior, left + shares @ (self.theta - centre))

    def _prior(self) -> tuple[Array, Array]:
        """Where the logarithms of prices are expected, and R with RᵀR the inverse of their covariance.

        No group costs more than the blocks do: each is expected to be some part of what the cheapest kinds cost.
        """
        centre, covariance = np.log(USUAL), np.diag(PRICE**2)
        for group, cheap in zip((LAUNCHING, WORK), _CHEAPEST, strict=True):
            rates = self.values - np.log(np.maximum(self.known.terms @ (USUAL * group), _NOTHING))
            lowest = [rates[self.known.kinds == kind].min() for kind in dict.fromkeys(self.known.kinds)]
            centre = centre + group * (np.quantile(lowest, cheap) - np.log(_SHARE))
            covariance = covariance + GROUP**2 * np.outer(group, group)
        return centre, cholesky(np.linalg.inv(covariance))


def _prices(theta: Array, terms: Array) -> tuple[Array, Array]:
    """Logarithms of blocks' costs without errors (n,), and their derivatives, the shares of the terms (n, 5)."""
    parts = terms * np.exp(theta)
    totals = np.maximum(parts.sum(1), _NOTHING)
    return np.log(totals), parts / totals[:, None]


def _errors(a: Blocks, b: Blocks) -> Array:
    """The covariance of the errors of operations, kinds and sizes."""
    same_operation = np.equal(a.operations[:, None], b.operations[None, :])
    same_kind = np.equal(a.kinds[:, None], b.kinds[None, :])
    alike = np.exp(-0.5 * ((a.sizes[:, None] - b.sizes[None, :]) / FAR) ** 2)
    return np.asarray(OPERATION**2 * same_operation + KIND**2 * same_kind + SIZE**2 * alike * (1 + same_kind))


def _scale(kinds: Array, covariance: Array, left: Array) -> float:
    """How much larger errors of left-out kinds are than stated; near 1 where few kinds can tell."""
    inverse = np.linalg.inv(covariance)
    pull, squares = inverse @ left, []
    for kind in dict.fromkeys(kinds):
        own = np.flatnonzero(kinds == kind)
        alone = np.linalg.inv(inverse[np.ix_(own, own)])
        squares.append(float((alone @ pull[own]).mean() ** 2 / alone.mean()))
    return max(_LEAST_SCALE, float(np.sqrt((_PRIOR_KINDS + sum(squares)) / (_PRIOR_KINDS + len(squares)))))
