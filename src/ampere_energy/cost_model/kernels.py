"""What blocks have in common: covariances of the residuals that the physical mean leaves.

A residual is the sum of components. Each joins blocks of one kind, or of one *work* (kinds whose main layer does
the same at the same size, so that the device picks the same kernels), and falls off with the distance of their
widths by a Matérn-5/2 correlation, in octaves or in plain widths:

    shape    one kind, octaves                          what the mean's formula misses
    tile     one work, same cell of 64, octaves         work comes in tiles: a width of 65 costs as 128 …
    first,   one work, same strip of 32 of the first    … or in strips: an LSTM's kernels change with its hidden width,
    last     or the last width, octaves                 whatever it reads
    near     one work, plain widths                     kernels switch over from one width to the next …
    class    one work, same divisibility, plain widths  … and do so apart for multiples of 32, of 8, of 4, and others …
    fill     one work, same fill of the last tile of    … and back and forth with how far sums fill their last tile
             both widths' sums, first width up to 36,
             66 or more, octaves
    point    the same widths only                       roughness that no neighbour tells
    slow     one kind, blocks many times as slow as     kernels of another sort altogether, at some widths …
             most (`slow_regions`), whatever their widths
    slowly   the same, octaves                          … whose cost follows the widths in another way

Sums have taps · width products, in tiles of 64. For the gradient of what a convolution reads, cuDNN takes one kernel
where the last tile of that sum is up to 37 products full, and one four times as slow where it is fuller, if over 36
channels are read, and up to 66: in 61 of 61 records of 3×3 convolutions over images, and in 157 of 157 of
convolutions of 5 over sequences (`docs/decisions/022-strips.md`). What slow blocks take tells nothing of what others
take, nor the other way round; only their powers have something in common.

Scales are learnt for each kind and lengths for each work, under log-normal priors. Where a device shows no tiles or
classes, their scales shrink, and nothing is lost but a little evidence.

Another kernel takes another power too: the components of time that tell of kernels switching are, at a fixed part of
their scales, components of power as well. A few meterings could not tell how rough power is; many timings tell it.
Power also steps with strips of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt

from ampere_energy.cost_model.gaussian_process import LogNormal
from ampere_energy.cost_model.matern import matern52, matern52_with_slope
from ampere_energy.cost_model.physical_mean import Array

TILE = 64
STRIP = 32
FILLED = 38
"""How many products of a sum's last tile make cuDNN choose another kernel …"""
READ = (36, 66)
"""… and how many channels are read where it does so otherwise."""
OCTAVES = 4.0
CLASSES = (4, 8, 32)
"""Divisors whose multiples have kernels of their own: four heads of an attention want 8 numbers each, say."""
_SPARSE = 0.3


@dataclass(frozen=True)
class Component:
    """One part of a residual.

    Attributes:
        shared: joins blocks of one work, else of one kind.
        same: what two blocks must agree in: nothing, `tile`, the strip of the `first` or `last` width, `class`,
            `fill`, `point`, or in being `slow`.
        octaves: distances are in log₂ of the widths, else in widths.
        scale: prior of the standard deviation.
        length: prior of the lengthscales; None where only the same point counts.
        switches: whether it tells of kernels that switch from one width to another.
        apart: joins slow blocks with slow ones and others with others only.
    """

    name: str
    shared: bool
    same: str
    octaves: bool
    scale: LogNormal
    length: LogNormal | None
    switches: bool = False
    apart: bool = False

    def lengths(self, axes: int) -> int:
        """How many lengthscales it has."""
        return 0 if self.length is None else axes


TIME = tuple(
    replace(component, apart=True)
    for component in (
        Component("shape", False, "", True, LogNormal(0.12, 0.7), LogNormal(0.5, 0.7)),
        Component("tile", True, "tile", True, LogNormal(0.08, 1.0), LogNormal(0.35, 0.7)),
        Component("first", True, "first", True, LogNormal(0.01, 2.0), LogNormal(0.35, 0.7), True),
        Component("last", True, "last", True, LogNormal(0.01, 2.0), LogNormal(0.35, 0.7), True),
        Component("near", True, "", False, LogNormal(0.08, 1.0), LogNormal(0.25, 0.7), True),
        Component("class", True, "class", False, LogNormal(0.08, 1.0), LogNormal(0.25, 0.7), True),
        Component("fill", True, "fill", True, LogNormal(0.01, 2.0), LogNormal(0.35, 0.7), True),
        Component("point", False, "point", True, LogNormal(0.03, 1.0), None, True),
        Component("slow", False, "slow", True, LogNormal(3.0, 0.7), None, True),
        Component("slowly", False, "slow", True, LogNormal(0.3, 0.7), LogNormal(0.7, 0.7)),
    )
)
"""Of the logarithm of time. Strips and fills are believed in where they show, and cost nothing where they do not."""
POWER = (
    Component("shape", False, "", True, LogNormal(0.08, 0.7), LogNormal(0.7, 0.7)),
    Component("common", True, "", True, LogNormal(0.05, 1.0), LogNormal(0.7, 0.7)),
    Component("tile", True, "tile", True, LogNormal(0.03, 1.0), LogNormal(0.35, 0.7)),
    Component("first", True, "first", True, LogNormal(0.01, 2.0), LogNormal(0.35, 0.7)),
    Component("last", True, "last", True, LogNormal(0.01, 2.0), LogNormal(0.35, 0.7)),
    Component("point", False, "point", True, LogNormal(0.01, 1.0), None),
)
"""Of the logarithm of power, which is smoother than time, beside what it has of time's."""
SWITCHED = 0.2
"""How much of the scale with which kernels switch in time they switch with in power."""


@dataclass(frozen=True)
class Hyper:
    """One work's hyperparameters: by component, a scale for each of its kinds and its lengths."""

    scales: tuple[tuple[float, ...], ...]
    lengths: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        values = [v for group in (*self.scales, *self.lengths) for v in group]
        if len(self.scales) != len(self.lengths) or not all(1e-9 < v < 1e9 for v in values):
            raise ValueError("scales and lengths are positive, and as many as components")


def with_switches(
    time: Sequence[Component], times: Hyper, power: Sequence[Component], powers: Hyper
) -> tuple[tuple[Component, ...], Hyper]:
    """All components of power, and their hyperparameters: its own, and time's that tell of kernels switching."""
    places = [i for i, component in enumerate(time) if component.switches]
    scales = [tuple(SWITCHED * scale for scale in times.scales[i]) for i in places]
    lengths = [times.lengths[i] for i in places]
    both = Hyper((*powers.scales, *scales), (*powers.lengths, *lengths))
    return (*power, *(time[i] for i in places)), both


@dataclass(frozen=True, eq=False)
class Sites:
    """Blocks of one work: each one's kind, by its place within the work, and its widths (n, axes).

    `taps` is how many products of a sum go with one of its widths, `slow` which blocks take many times what most do.
    """

    kinds: Array
    points: Array
    taps: int
    slow: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.kinds)

    def at(self, places: npt.NDArray[np.intp] | slice) -> Sites:
        """The sites at some places."""
        return Sites(self.kinds[places], self.points[places], self.taps, self.slow[places])

    def power_sensitivity(self, rho: float) -> Array:
        """How power goes with the residual of time: that of slow blocks is no slip of the mean's, and tells nothing."""
        return np.where(self.slow, 0.0, rho)

    @cached_property
    def octaves(self) -> Array:
        """log₂ of the widths, in units of four octaves."""
        return np.log2(self.points) / OCTAVES

    @cached_property
    def tiles(self) -> Array:
        """The widths, in units of a tile."""
        return self.points / TILE

    @cached_property
    def tags(self) -> dict[str, Array]:
        """For each sort of sameness, one number that agrees exactly for blocks that agree."""
        whole = np.round(self.points)
        classes = np.sum([whole % divisor == 0 for divisor in CLASSES], axis=0)
        strips = np.ceil(self.points / STRIP)
        filled = (self.taps * whole % TILE >= FILLED).astype(float)
        return {
            "first": tags_of(strips[:, :1]),
            "last": tags_of(strips[:, -1:]),
            "tile": tags_of(np.ceil(self.points / TILE)),
            "class": tags_of(classes),
            "fill": tags_of(np.hstack((2 * np.searchsorted(READ, self.points[:, :1]) + filled[:, :1], filled[:, -1:]))),
            "point": tags_of(self.points),
            "slow": np.where(self.slow, 0.0, np.nan),  # a number that agrees with nothing, not even itself
        }


def joined(parts: Sequence[Sites]) -> Sites:
    """Sites of one work as one set."""
    kinds, points, slow = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("kinds", "points", "slow")
    )
    return Sites(kinds, points, parts[0].taps, slow)


def tags_of(columns: Array) -> Array:
    """LogObservations of up to four widths as single numbers: a float holds two of them exactly, a complex number four.

    Widths stay far below the radix.
    """
    parts = []
    for pair in (columns[:, :2], columns[:, 2:]):
        total = np.zeros(len(columns))
        for column in pair.T:
            total = total * 2**26 + column
        parts.append(total)
    return parts[0] + 1j * parts[1] if columns.shape[1] > 2 else parts[0]


@dataclass(frozen=True, eq=False)
class Pair:
    """Everything about two sets of sites that does not depend on hyperparameters."""

    a: Sites
    b: Sites

    @cached_property
    def one_kind(self) -> Array:
        """Which pairs are of one kind."""
        return np.equal(self.a.kinds[:, None], self.b.kinds[None, :])

    @cached_property
    def _squares(self) -> dict[bool, list[Array]]:
        return {
            octaves: [
                (x[:, None] - y[None, :]) ** 2
                for x, y in zip(
                    (self.a.octaves if octaves else self.a.tiles).T,
                    (self.b.octaves if octaves else self.b.tiles).T,
                    strict=True,
                )
            ]
            for octaves in (True, False)
        }

    def mask(self, component: Component) -> Array | None:
        """Which pairs a component joins; None for all."""
        joined = None if component.shared else self.one_kind
        if component.same:
            agree = np.equal(self.a.tags[component.same][:, None], self.b.tags[component.same][None, :])
            joined = agree if joined is None else joined & agree
        if component.apart and (self.a.slow.any() or self.b.slow.any()):
            alike = np.equal(self.a.slow[:, None], self.b.slow[None, :])
            joined = alike if joined is None else joined & alike
        return joined

    def squares(self, component: Component) -> list[Array]:
        """Squared distances along each axis."""
        return self._squares[component.octaves]


def correlation(pair: Pair, component: Component, mask: Array | None, lengths: Sequence[float]) -> tuple[Array, Array]:
    """A component's correlations, and what their slope in log ℓₐ is of (Δₐ/ℓₐ)²."""
    shape = (len(pair.a), len(pair.b))
    if component.length is None or not lengths:
        value, fall = np.ones(shape), np.zeros(shape)
    else:
        squared = np.zeros(shape)
        for square, length in zip(pair.squares(component), lengths, strict=True):
            squared += square / length**2
        value, fall = matern52_with_slope(squared)
    if mask is not None:
        value *= mask
        fall *= mask
    return value, fall


def covariance(components: Sequence[Component], hyper: Hyper, pair: Pair) -> Array:
    """The residual's covariance between two sets of sites."""
    total = np.zeros((len(pair.a), len(pair.b)))
    for component, scales, lengths in zip(components, hyper.scales, hyper.lengths, strict=True):
        s = np.asarray(scales)
        a, b = s[pair.a.kinds], s[pair.b.kinds]
        mask = pair.mask(component)
        apart = list(zip(pair.squares(component), lengths, strict=True)) if component.length and lengths else []
        if mask is not None and mask.sum() < _SPARSE * mask.size:
            i, j = np.nonzero(mask)
            value = a[i] * b[j]
            if apart:
                value = value * matern52(reduce(np.add, [square[i, j] / length**2 for square, length in apart]))
            total[i, j] += value
        else:
            value = a[:, None] * b
            if apart:
                value = value * matern52(reduce(np.add, [square / length**2 for square, length in apart]))
            total += value if mask is None else value * mask
    return total


def between(components: Sequence[Component], hyper: Hyper, a: Sites, b: Sites) -> Array:
    """The covariance of each site of `a` with its counterpart in `b`: shape (n,)."""
    total = np.zeros(len(a))
    for component, scales, lengths in zip(components, hyper.scales, hyper.lengths, strict=True):
        s = np.asarray(scales)
        value = s[a.kinds] * s[b.kinds] * (1.0 if component.shared else np.equal(a.kinds, b.kinds))
        if component.same:
            value = value * np.equal(a.tags[component.same], b.tags[component.same])
        if component.apart:
            value = value * np.equal(a.slow, b.slow)
        if component.length is not None and lengths:
            x, y = (a.octaves, b.octaves) if component.octaves else (a.tiles, b.tiles)
            value = value * matern52((((x - y) / np.asarray(lengths)) ** 2).sum(1))
        total += value
    return total


def slope(components: Sequence[Component], hyper: Hyper, pair: Pair, weights: Array) -> Array:
    """Derivatives of `covariance(pair) @ weights` with respect to the widths of `pair.a`: shape (n, axes).

    Weights are (m,), or (n, m) with others for each site of `pair.a`.

    Within a tile, a strip, a class of divisibility and a fill; the steps between them have no slope.
    """
    total = np.zeros(pair.a.points.shape)
    for component, scales, lengths in zip(components, hyper.scales, hyper.lengths, strict=True):
        if component.length is None or not lengths:
            continue
        s = np.asarray(scales)
        _, fall = correlation(pair, component, pair.mask(component), lengths)
        pull = s[pair.a.kinds][:, None] * fall * (s[pair.b.kinds] * np.atleast_2d(weights))
        for axis, length in enumerate(lengths):
            x, y = (
                (pair.a.octaves[:, axis], pair.b.octaves[:, axis])
                if component.octaves
                else (pair.a.tiles[:, axis], pair.b.tiles[:, axis])
            )
            stretch = 1 / (pair.a.points[:, axis] * math.log(2) * OCTAVES) if component.octaves else 1 / TILE
            toward = (pull * (y[None, :] - x[:, None])).sum(1) / length**2
            total[:, axis] += toward * stretch
    return total
