"""Which widths to choose: as much importance as a budget allows.

A width's worth falls with the reciprocal of the importance that its channels still hold: taking from what little is
left costs more than taking from plenty, so that no layer is starved. Steps are taken where they lose least worth per
cost saved; at the end, what the budget leaves over is given back, step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ampere_energy.cost_model.physical_mean import Array

Ladders = Sequence[Sequence[int]]
Cost = Callable[[Array], Array]
"""What models cost, by their widths: (N, widths) to (N,)."""
_AT_ONCE = 0.2  # of what is still to be saved, before costs are looked at again
_TRADES = (1, 2, 4, 8, 16)
_FEW = 12
_JUMPS = (1, 2, 4)  # rungs, so that a step that does not pay by itself does not stand in the way


@dataclass(frozen=True)
class Choice:
    """Widths, and what they cost; of a budget that cannot be met, the cheapest that were seen."""

    widths: tuple[int, ...]
    cost: float
    met: bool


def cheapest(ladders: Ladders, cost: Cost) -> Choice:
    """All widths at their narrowest."""
    widths = tuple(ladder[-1] for ladder in ladders)
    return Choice(widths, float(cost(np.array([widths], dtype=float))[0]), False)


def narrowed_to(
    limit: float,
    ladders: Ladders,
    worth: Sequence[Sequence[float]],
    cost: Cost,
    observe: Callable[[float], None] = lambda cost: None,
) -> Choice:
    """The widths that keep most worth within a limit.

    Args:
        limit: what the cost must not exceed.
        ladders: for each width, the values it may take, widest first.
        worth: for each of these values, what it is worth.
        cost: what widths cost.
        observe: called with the cost after each look.
    """
    rungs = [0] * len(ladders)
    now = float(cost(_widths(ladders, [rungs]))[0])
    best = cheapest(ladders, cost)
    if now > limit and best.cost > limit:
        return best
    while now > limit:
        moves = [(v, n) for v, ladder in enumerate(ladders) for n in _JUMPS if rungs[v] + n < len(ladder)]
        costs = cost(_widths(ladders, [_moved(rungs, v, n) for v, n in moves]))
        priced = [
            ((worth[v][rungs[v]] - worth[v][rungs[v] + n]) / (now - after), v, n, now - after)
            for (v, n), after in zip(moves, costs.tolist(), strict=True)
            if after < now
        ]
        if not priced:  # a hill: go down where it is lowest
            v, n = moves[int(np.argmin(costs))]
            priced = [(0.0, v, n, 0.0)]
        saved, moved = 0.0, set[int]()
        for _, v, n, saving in sorted(priced):
            if v in moved or (moved and saved + saving > _AT_ONCE * (now - limit)):
                continue
            rungs = _moved(rungs, v, n)
            moved.add(v)
            saved += saving
        now = float(cost(_widths(ladders, [rungs]))[0])
        observe(now)
    return _given_back(limit, rungs, ladders, worth, cost)


def _given_back(
    limit: float, rungs: list[int], ladders: Ladders, worth: Sequence[Sequence[float]], cost: Cost
) -> Choice:
    """Widens what the limit allows, the worthiest first; where widths are few, also one at another's expense."""
    while True:
        moves = [{v: -n} for v in range(len(ladders)) for n in _JUMPS if rungs[v] >= n]
        if len(ladders) <= _FEW:
            lower = [(v, n) for v, ladder in enumerate(ladders) for n in _TRADES if rungs[v] + n < len(ladder)]
            moves += [{**up, v: n} for v, n in lower for up in moves if v not in up]
        asked = [[rung + move.get(v, 0) for v, rung in enumerate(rungs)] for move in moves]
        gains = [
            sum(worth[v][row[v]] - worth[v][rungs[v]] for v in move) for move, row in zip(moves, asked, strict=True)
        ]
        costs = cost(_widths(ladders, asked)).tolist() if asked else []
        fitting = [(gain, row) for gain, row, c in zip(gains, asked, costs, strict=True) if c <= limit and gain > 0]
        if not fitting:
            break
        rungs = max(fitting)[1]
    widths = _widths(ladders, [rungs])
    return Choice(tuple(int(w) for w in widths[0]), float(cost(widths)[0]), True)


def _moved(rungs: Sequence[int], width: int, by: int) -> list[int]:
    return [rung + by if place == width else rung for place, rung in enumerate(rungs)]


def _widths(ladders: Ladders, rungs: Sequence[Sequence[int]]) -> Array:
    return np.array([[ladder[r] for ladder, r in zip(ladders, row, strict=True)] for row in rungs], dtype=float)
