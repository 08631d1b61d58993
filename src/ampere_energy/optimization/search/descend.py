"""Search along gradients: the best score inside a budget of joules, or the fewest joules for a score.

    continuous   from many starts at once, in logarithms of widths: along the slope of what is sought, without the part
                 of it that leaves the limit's surface, and back onto that surface (projected gradient)
    rounded      every way to round the ends of these paths to the widths' steps, estimated as they are
    exchanged    from the best few of those, one width a step up, another down, as long as that helps

The energy's slopes are the Gaussian processes' own; a score is a function of whole widths, so its slopes are
differences. Where it is costly, searching by trials asks it less often.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.errors import RequestError
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Training
from ampere_energy.optimization.search.search import FoundNetwork, Score, label_of, proxy, scored
from ampere_energy.optimization.search.space import Space

STARTS = 16
STEPS = 40
_FIRST, _LAST = 0.25, 0.01
"""How far a step goes at the beginning and at the end, as a share of the widths."""
_TOGETHER = 6
"""Up to so many widths, every way to round them is tried; of more, all down, all nearest, and one up at a time."""
_EXCHANGES = 50
_POLISHED = 5
_SCALES = (1, 4)
"""Exchanges are of so many steps of the widths."""


@dataclass(frozen=True, eq=False)
class Descent:
    """What following the gradients found.

    Attributes:
        network: the best, at widths that may be chosen.
        continuous: the widths that blocks follow, before they were rounded …
        continuous_j: … and what these would cost.
        scored: how many networks were scored.
    """

    member: FoundNetwork
    continuous: tuple[float, ...]
    continuous_j: float
    scored: int


def descend(
    space: Space,
    objective: str | Score = "params",
    *,
    budget_j: float | None = None,
    at_least: float | None = None,
    seed: int = 0,
    observe: Callable[[int, int], None] = lambda done, of: None,
) -> Descent:
    """The network with the best score within a budget, or the cheapest with a score.

    Args:
        space: what to choose from; every setting and structure is tried. Values of a width are evenly spaced.
        objective: as for `search`.
        budget_j: joules of the space's samples that must not be exceeded by the estimate …
        at_least: … or the score that must be reached.
        seed: of the starts.
        observe: told how many structures are done, and of how many.

    Raises:
        RequestError: no network found is within the limit; says how near the nearest comes.
    """
    if (budget_j is None) == (at_least is None):
        raise RequestError("a gradient search needs one limit", "give a budget of joules or a score to reach")
    if budget_j is not None and not budget_j > 0:
        raise RequestError(f"a budget of {budget_j:g} J", "give a positive energy")
    for axis in space.axes[space.counts :]:
        if not axis.even:
            raise RequestError(
                f"{axis} along gradients",
                "give evenly spaced values, such as width=16:64:8, or search without --gradient",
            )
    score = proxy(space, objective) if isinstance(objective, str) else objective
    label, known = label_of(objective), dict[ModelRef, float]()

    def score_once(ref: ModelRef) -> float:
        if ref not in known:
            known[ref] = scored(score, ref, label)
        if not math.isfinite(known[ref]):
            raise RequestError(f"{label} gave {known[ref]} for {ref}", "gradients need a number for every network")
        return known[ref]

    found: list[tuple[_Problem, tuple[int, ...], Array]] = []
    structures = [(training, layers) for training, setting in space.settings.items() for layers in setting.specs]
    for done, (training, layers) in enumerate(structures, start=1):
        problem = _Problem(space, training, layers, score_once, budget_j, at_least)
        ends = problem.descended(np.random.default_rng(seed))
        polished = [problem.exchanged(member) for member in problem.best(problem.rounded(ends), _POLISHED)]
        [widths] = problem.best(polished)
        near = ends[np.argmin(np.abs(np.log(ends / np.array(widths))).sum(1))]
        found.append((problem, widths, near))
        observe(done, len(structures))
    problem, widths, near = min(found, key=lambda f: f[0].rank([f[1]])[0])
    _refuse_excess(problem, widths, budget_j, at_least)
    ref = problem.ref(widths)
    cost = space.estimate([ref])
    return Descent(
        FoundNetwork(
            ref,
            score_once(ref),
            float(cost.energy_j[0]),
            (float(cost.low_j[0]), float(cost.high_j[0])),
            float(cost.time_s[0]),
        ),
        tuple(float(width) for width in near),
        float(problem.energies(near[None])[0]),
        len(known),
    )


class _Problem:
    """One structure: minimise a loss of the widths while an excess is not above zero.

    Args:
        space: what to choose from.
        training: in which setting.
        layers: how many of each.
        score: how good a network is.
        budget_j: the limit, where it is one of energy.
        at_least: the limit, where it is one of the score.
    """

    def __init__(
        self,
        space: Space,
        training: Training,
        layers: tuple[int, ...],
        score: Score,
        budget_j: float | None,
        at_least: float | None,
    ) -> None:
        self._space, self._training, self._layers, self._score = space, training, layers, score
        self._budget_j, self._at_least = budget_j, at_least
        self._ranges = space.ranges[space.counts :]
        self._low, self._high = (np.array([getattr(r, end) for r in self._ranges], float) for end in ("low", "high"))
        self._step = np.array([r.step for r in self._ranges], dtype=float)

    def ref(self, widths: Sequence[float]) -> ModelRef:
        return self._space.ref((*self._layers, *(int(w) for w in widths)), self._training)

    def _whole(self, widths: Array) -> Array:
        """With the layers in front."""
        return np.hstack([np.tile(np.array(self._layers, dtype=float), (len(widths), 1)), widths])

    def energies(self, widths: Array) -> Array:
        return self._space.at(self._training, self._layers, self._whole(widths)).energy_j

    def _snapped(self, widths: Array, how: Callable[[Array], Array] = np.round) -> Array:
        places = how((widths - self._low) / self._step)
        return np.asarray(np.clip(self._low + places * self._step, self._low, self._high))

    def _scores(self, widths: Array) -> Array:
        return np.array([self._score(self.ref(row)) for row in widths])

    def rank(self, points: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
        """What is least is best: how far past the limit, then the loss."""
        widths = np.array(points, dtype=float)
        energies, scores = self.energies(widths), self._scores(widths)
        if self._budget_j is not None:
            return [(max(0.0, e / self._budget_j - 1), -s) for e, s in zip(energies, scores, strict=True)]
        assert self._at_least is not None
        return [(max(0.0, self._at_least - s), float(e)) for e, s in zip(energies, scores, strict=True)]

    def _slopes(self, widths: Array) -> tuple[Array, Array, Array]:
        """Of many rows at once, by logarithms of widths: the loss's slopes, the excess, and the excess's slopes."""
        found = self._space.at(self._training, self._layers, self._whole(widths), gradient=True)
        assert found.gradient_j is not None
        energy_slopes = found.gradient_j[:, len(self._layers) :] * widths / found.energy_j[:, None]
        at = self._snapped(widths)
        scores, score_slopes = self._scores(at), np.zeros_like(widths)
        for axis in range(widths.shape[1]):
            up, down = at.copy(), at.copy()
            up[:, axis] = np.minimum(at[:, axis] + self._step[axis], self._high[axis])
            down[:, axis] = np.maximum(at[:, axis] - self._step[axis], self._low[axis])
            apart = np.log(up[:, axis] / down[:, axis])
            differs = self._scores(up) - self._scores(down)
            score_slopes[:, axis] = np.divide(differs, apart, out=np.zeros(len(at)), where=apart > 0)
        if self._budget_j is not None:
            return -score_slopes, np.log(found.energy_j / self._budget_j), energy_slopes
        assert self._at_least is not None
        return energy_slopes, self._at_least - scores, -score_slopes

    def descended(self, rng: np.random.Generator) -> Array:
        """Where paths from the corners' middle and from random starts end, (STARTS, widths)."""
        low, high = np.log(self._low), np.log(self._high)
        at = low + (high - low) * rng.uniform(size=(STARTS, len(low)))
        at[0] = (low + high) / 2
        for reach in np.geomspace(_FIRST, _LAST, STEPS):
            loss, excess, limit = self._slopes(self._widths(at))
            square = np.maximum((limit**2).sum(1), 1e-30)
            along = (loss * limit).sum(1) / square
            near = np.abs(excess) < 4 * reach * np.sqrt(square)
            outside = near & (along < 0) | (excess > 0)  # else the loss falls on this side of the limit
            tangent = -(loss - np.where(outside, along, 0.0)[:, None] * limit)
            back = np.where(outside, -excess / square, 0.0)[:, None] * limit
            at = np.clip(at + _shortened(tangent, reach) + _capped(back, 2 * reach), low, high)
        return self._widths(at)

    def _widths(self, logarithms: Array) -> Array:
        """Of logarithms within the bounds; rounding may take those on a bound a little outside."""
        return np.clip(np.exp(logarithms), self._low, self._high)

    def rounded(self, ends: Array) -> list[tuple[float, ...]]:
        """The networks around the ends of the paths, each once, and the smallest and the largest of all."""
        floors = self._snapped(ends, np.floor)
        count = ends.shape[1]
        ups: list[tuple[int, ...]] = (
            list(itertools.product((0, 1), repeat=count))
            if count <= _TOGETHER
            else [(0,) * count, *(tuple(int(i == axis) for i in range(count)) for axis in range(count))]
        )
        corners = np.stack([self._low, self._high])
        raised = (np.minimum(floors + np.array(up) * self._step, self._high) for up in ups)
        rows = np.concatenate([corners, self._snapped(ends), *raised])
        return list(dict.fromkeys(map(tuple, rows.tolist())))

    def best(self, points: Sequence[tuple[float, ...]], count: int = 1) -> list[tuple[int, ...]]:
        ranks = self.rank(points)
        order = sorted(range(len(points)), key=ranks.__getitem__)
        return [tuple(int(width) for width in points[place]) for place in order[:count]]

    def exchanged(self, widths: tuple[int, ...]) -> tuple[int, ...]:
        """The network after exchanges between two widths, or changes of one, as long as they help."""
        ones = (
            [move for move in itertools.product((-1, 0, 1), repeat=len(widths)) if 0 < sum(map(abs, move)) <= 2]
            if len(widths) <= _TOGETHER
            else [*np.eye(len(widths)), *-np.eye(len(widths))]
        )
        moves = np.concatenate([np.array(ones) * scale for scale in _SCALES])
        for _ in range(_EXCHANGES):
            near = np.clip(np.array(widths) + moves * self._step, self._low, self._high)
            [then] = self.best([tuple(map(float, widths)), *map(tuple, near.tolist())])
            if then == widths:
                break
            widths = then
        return widths


def _shortened(slopes: Array, reach: float) -> Array:
    """Steps of one length along slopes."""
    lengths = np.sqrt((slopes**2).sum(1, keepdims=True))
    return np.asarray(reach * np.divide(slopes, lengths, out=np.zeros_like(slopes), where=lengths > 1e-30))


def _capped(steps: Array, most: float) -> Array:
    lengths = np.sqrt((steps**2).sum(1, keepdims=True))
    return np.asarray(steps * np.minimum(1.0, most / np.maximum(lengths, 1e-30)))


def _refuse_excess(problem: _Problem, widths: tuple[int, ...], budget_j: float | None, at_least: float | None) -> None:
    [(excess, _)] = problem.rank([widths])
    if excess <= 0:
        return
    nearest = problem.ref(widths)
    named = f"with {nearest.arguments}" if nearest.names else f"of widths {nearest.arguments}"
    if budget_j is not None:
        least_j = budget_j * (1 + excess)
        raise RequestError(
            f"no network was found within {budget_j:g} J: the cheapest found, {named}, costs {least_j:.4g} J",
            "give a larger budget, or allow smaller widths",
        )
    assert at_least is not None
    raise RequestError(
        f"no network was found with a score of {at_least:g}: the best, {named}, has {at_least - excess:.6g}",
        "ask for less, or allow larger widths",
    )
