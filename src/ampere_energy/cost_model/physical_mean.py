"""The mean that knows physics: what a block costs is a constant, its work and the bytes it reads and writes.

For widths a (read) and b (given), with weights that are never negative:

    m(a, b) = w₀ + w₁·a·b + w₂·a + w₃·b + w₄·a·odd(a) + w₅·b·odd(b)          one width: w₀ + w₁·a + w₂·a·odd(a)

A recorded piece may have several layers of one width, or more than two widths: its mean has the squares too, and the
products of all pairs.

A width above 8 that is no multiple of 8 is *odd*: devices have slower kernels for it, or fill it up. Energy follows
time there: its mean is w₀ + w₁·a·b + w₂·a + w₃·b, lifted by what oddness adds to the time.

A network's value is the sum over its blocks plus a base that every step pays once. All weights are fitted at once
by non-negative least squares on relative errors, with large residuals weighed down: a kernel that a device picks
for one odd width must not bend the mean of all others. A term of odd sizes is held back by how much
more of a cost it could become somewhere in the widths covered than in any network seen: the roughness of the one odd
width of 9, say, must not become the price of 2,295 odd features.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from ampere_energy.model.kinds import Point
from ampere_energy.model.templates import MOST_AXES
from ampere_energy.model.widths import Domain

Array = npt.NDArray[np.float64]
TILE_STEP = 8
_USUAL = 0.03
_ROUNDS = 3
_HOLD = 0.1
_LEAST = 1e-6


@dataclass(frozen=True)
class Mean:
    """Weights of one quantity: a base a step, and each kind's own."""

    base: float
    weights: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if min((self.base, *(w for kind in self.weights for w in kind))) < 0:
            raise ValueError("the weights of a physical mean are not negative")

    def at(self, kind: int, points: Array) -> Array:
        """The mean at points (n, axes) of a kind: shape (n,)."""
        _, squares = _LAYOUTS[len(self.weights[kind])]
        values: Array = features(points, squares) @ np.asarray(self.weights[kind])
        return np.maximum(values, _LEAST * max(self.base, max(self.weights[kind], default=0.0), 1e-30))

    def lift(self, kind: int, points: Array) -> Array:
        """What odd widths cost over even ones, as a factor: shape (n,)."""
        factor: Array = self.at(kind, points) / self._even(kind).at(0, points)
        return factor

    def lift_slope(self, kind: int, points: Array) -> Array:
        """The factor's derivatives with respect to the widths: shape (n, axes)."""
        even = self._even(kind)
        base, factor = even.at(0, points)[:, None], self.lift(kind, points)[:, None]
        change: Array = (self.slope(kind, points) - factor * even.slope(0, points)) / base
        return change

    def _even(self, kind: int) -> Mean:
        """The mean of one kind, as if no width were odd."""
        weights = self.weights[kind]
        odd_terms, _ = _LAYOUTS[len(weights)]
        return Mean(self.base, ((*weights[: len(weights) - odd_terms], *((0.0,) * odd_terms)),))

    def slope(self, kind: int, points: Array) -> Array:
        """Its derivatives with respect to the widths, oddness held: shape (n, axes)."""
        axes, squares = _LAYOUTS[len(self.weights[kind])]
        products, *rest = np.split(np.asarray(self.weights[kind])[1:], _ends(axes, squares))
        found = np.zeros(points.shape)
        for weight, (a, b) in zip(products, itertools.combinations(range(axes), 2), strict=True):
            found[:, a] += weight * points[:, b]
            found[:, b] += weight * points[:, a]
        if squares:
            found += 2 * rest.pop(0) * points
        single, odd_sizes = rest
        return np.asarray(found + single + odd_sizes * odd(points))


def odd(points: Array) -> Array:
    """1 for widths above 8 that are no multiple of it, else 0: the shape of `points`."""
    return np.asarray((np.round(points) % TILE_STEP != 0) & (points > TILE_STEP), dtype=float)


def terms(axes: int, squares: bool = False) -> int:
    """How many weights a kind has."""
    if axes > MOST_AXES:
        raise ValueError(f"a kind has at most {MOST_AXES} widths, not {axes}")
    return 1 + axes * (axes - 1) // 2 + axes * (2 + squares)


def _ends(axes: int, squares: bool) -> list[int]:
    """Where, after the constant, products, squares and sizes end."""
    pairs = axes * (axes - 1) // 2
    return [pairs, pairs + axes, pairs + 2 * axes] if squares else [pairs, pairs + axes]


_LAYOUTS = {terms(axes, squares): (axes, squares) for squares in (True, False) for axes in range(MOST_AXES + 1)}
"""A kind's number of widths, and whether its mean has squares, by how many weights it has."""


def features(points: Array, squares: bool = False) -> Array:
    """Constant, products, squares, sizes and odd sizes at points (n, axes): shape (n, terms)."""
    n, axes = points.shape
    pairs = [points[:, a] * points[:, b] for a, b in itertools.combinations(range(axes), 2)]
    products = np.stack(pairs, axis=1) if pairs else np.zeros((n, 0))
    return np.hstack((np.ones((n, 1)), products, *([points**2] if squares else []), points, points * odd(points)))


def fit_mean(
    domains: Sequence[Domain],
    nets: Sequence[Sequence[tuple[int, Point]]],
    values: Array,
    weights: Array | None = None,
    lift: Mean | None = None,
    squares: Sequence[bool] = (),
    base: float | None = None,
) -> Mean:
    """The weights that make sums over networks' blocks meet their values.

    Args:
        domains: the widths each kind is to be known for.
        nets: each network's blocks as (kind, widths).
        values: each network's value, positive.
        weights: how much each network counts; by default all alike.
        lift: the mean of time, for a mean of energy that is lifted by it.
        squares: whether each kind's mean has squares; by default none's.
        base: what every network pays once, where that is known; by default it is learnt.
    """
    known = base or 0.0
    aims = 1 - known / values
    squared = list(squares) or [False] * len(domains)
    ends = np.cumsum([1, *(terms(len(domain), s) for domain, s in zip(domains, squared, strict=True))])
    columns = np.zeros((len(nets), ends[-1]))
    tells_base = base is None and len({len(net) for net in nets}) > 1  # only nets of different sizes can tell
    told: dict[tuple[int, Point], Array] = {}
    for row, net in zip(columns, nets, strict=True):
        row[0] = tells_base
        for kind, point in net:
            if (kind, point) not in told:
                at = np.array([point], dtype=float)
                own = features(at, squared[kind])[0]
                if lift is not None:
                    own = own * lift.lift(kind, at)
                    own[len(own) - len(domains[kind]) :] = 0.0
                told[kind, point] = own
            row[ends[kind] : ends[kind + 1]] += told[kind, point]
    relative = columns / values[:, None]
    scale = np.maximum(relative.max(0, initial=0.0), 1e-300)
    counts = np.ones(len(values)) if weights is None else np.sqrt(weights)
    trust, found, hold = counts, np.zeros(columns.shape[1]), np.zeros(columns.shape[1])
    for _ in range(_ROUNDS):
        rows = np.vstack((relative / scale * trust[:, None], np.diag(hold)))
        found, _ = nnls(rows, np.concatenate((trust * aims, np.zeros(len(hold)))), maxiter=100 * columns.shape[1])
        misses = relative / scale @ found - aims
        trust = counts * trusted(misses, _USUAL)
        for domain, s, (start, end) in zip(domains, squared, itertools.pairwise(ends), strict=True):
            first = end - len(domain)
            farthest = _odd_shares(domain, s, known + found[0] / scale[0], found[start:first] / scale[start:first])
            seen = relative[:, first:end].any(0)
            hold[first:end][seen] = _HOLD * np.maximum(farthest[seen] / scale[first:end][seen] - 1, 0.0)
    found = found / scale
    parts = [tuple(map(float, found[a:b])) for a, b in itertools.pairwise(ends)]
    return Mean(known + float(found[0]), tuple(parts))


def trusted(misses: Array, usual: float) -> Array:
    """Factors for rows of least squares: those that miss by more than usual count less, as in Huber's loss."""
    return np.sqrt(usual / np.maximum(np.abs(misses), usual))


def _odd_shares(domain: Domain, squares: bool, base: float, even: Array) -> Array:
    """The largest share of the mean that a unit of each odd term's weight makes at any corner: shape (axes,)."""
    if not domain:
        return np.zeros(0)
    corners = np.array(list(itertools.product(*((axis.low, axis.high) for axis in domain))), dtype=float)
    corners = corners.reshape(-1, len(domain))
    mean = np.maximum(base + features(corners, squares)[:, : len(even)] @ even, 1e-300)
    shares: Array = corners / mean[:, None]
    return np.asarray(shares.max(0))
