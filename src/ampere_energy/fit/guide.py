"""What to measure next: the measurement that lowers the variance of the asked-for estimates most, per second it costs.

An *offer* is a network that could be timed (milliseconds) or metered (seconds). What it would teach about an estimate
q follows from the joint posterior alone: its row has covariance c with q and variance v, noise included, and takes
c²/v off q's variance. Offers are taken greedily, the posterior updated after each as if it had been measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ampere_energy.fit.nets import Net, NetFit
from ampere_energy.fit.physics import Array
from ampere_energy.fit.threads import one_thread


@dataclass(frozen=True)
class Offer:
    """A network that could be measured: timed, or metered as well; and what that is expected to cost."""

    net: Net
    metered: bool
    cost_s: float


def best(fit: NetFit, questions: Sequence[Net], offers: Sequence[Offer], count: int) -> list[Offer]:
    """The most telling offers, in order.

    Args:
        fit: what is known.
        questions: networks whose energy is asked for.
        offers: what could be measured.
        count: how many to take.
    """

    def gain(covariance: Array, place: dict[Net, int], offer: Offer) -> float:
        asked = [len(place) + place[net] for net in questions]
        return _gain(covariance, asked, _rows(offer, place), fit.scatter) / offer.cost_s

    return _greedy(fit, questions, offers, count, gain)


def widest(fit: NetFit, offers: Sequence[Offer], count: int) -> list[Offer]:
    """The offers whose own energies are least certain, in joules, in order."""
    energies = {offer.net: _energy_j(fit, offer.net) for offer in offers}

    def gain(covariance: Array, place: dict[Net, int], offer: Offer) -> float:
        at = len(place) + place[offer.net]
        return float(covariance[at, at]) * energies[offer.net] ** 2

    return _greedy(fit, (), offers, count, gain)


def _greedy(
    fit: NetFit,
    questions: Sequence[Net],
    offers: Sequence[Offer],
    count: int,
    gain: Callable[[Array, dict[Net, int], Offer], float],
) -> list[Offer]:
    """Takes the offer of the largest gain, then the next as if that had been measured, and so on."""
    nets = list(dict.fromkeys((*questions, *(offer.net for offer in offers))))
    place = {net: i for i, net in enumerate(nets)}
    chosen: list[Offer] = []
    left = list(offers)
    with one_thread():
        covariance = fit.posterior(nets)
        while left and len(chosen) < count:
            offer = left.pop(int(np.argmax([gain(covariance, place, offer) for offer in left])))
            chosen.append(offer)
            covariance = _told(covariance, _rows(offer, place), fit.scatter)
    return chosen


def _energy_j(fit: NetFit, net: Net) -> float:
    found = fit.predict([kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net])
    return float(found.energy_j[0])


def _rows(offer: Offer, place: dict[Net, int]) -> list[int]:
    """The rows an offer would observe: time, and energy where it is metered."""
    at = place[offer.net]
    return [at, len(place) + at] if offer.metered else [at]


def _gain(covariance: Array, asked: Sequence[int], rows: Sequence[int], scatter: Array) -> float:
    """How much the rows would take off the mean variance of what is asked."""
    cross = covariance[np.ix_(asked, rows)]
    inner = covariance[np.ix_(rows, rows)] + scatter[: len(rows), : len(rows)]
    return float(np.einsum("qi,ij,qj->", cross, np.linalg.inv(inner), cross) / len(asked))


def _told(covariance: Array, rows: Sequence[int], scatter: Array) -> Array:
    """The covariance after the rows have been observed."""
    cross = covariance[:, rows]
    inner = covariance[np.ix_(rows, rows)] + scatter[: len(rows), : len(rows)]
    told: Array = covariance - cross @ np.linalg.solve(inner, cross.T)
    return told
