"""What to measure next: the measurement that lowers the variance of the asked-for estimates most, per second it costs.

An *offer* is a network that could be timed (milliseconds) or metered (seconds). What it would teach about an estimate
q follows from the joint posterior alone: its row has covariance c with q and variance v, noise included, and takes
c²/v off q's variance. Offers are taken greedily, the posterior updated after each as if it had been measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.threads import one_thread


@dataclass(frozen=True)
class Offer:
    """A network that could be measured: timed, or metered as well; and what that is expected to cost."""

    net: Net
    metered: bool
    cost_s: float


def best(fit: JointFit, questions: Sequence[Net], offers: Sequence[Offer], count: int) -> list[Offer]:
    """The most telling offers, in order.

    Args:
        fit: what is known.
        questions: networks whose energy is asked for.
        offers: what could be measured.
        count: how many to take.
    """
    costs = np.array([offer.cost_s for offer in offers])

    def gains(covariance: Array, place: dict[Net, int]) -> Array:
        targets = [len(place) + place[net] for net in questions]
        found: Array = _gains(covariance, targets, [_observed(offer, place) for offer in offers], fit.scatter) / costs
        return found

    return _greedy(fit, questions, offers, count, gains)


def widest(fit: JointFit, offers: Sequence[Offer], count: int) -> list[Offer]:
    """The offers whose own energies are least certain, in joules, in order."""
    squares = np.array([_energy_j(fit, offer.net) ** 2 for offer in offers])

    def gains(covariance: Array, place: dict[Net, int]) -> Array:
        at = [len(place) + place[offer.net] for offer in offers]
        found: Array = np.diagonal(covariance)[at] * squares
        return found

    return _greedy(fit, (), offers, count, gains)


def _greedy(
    fit: JointFit,
    questions: Sequence[Net],
    offers: Sequence[Offer],
    count: int,
    gains: Callable[[Array, dict[Net, int]], Array],
) -> list[Offer]:
    """Takes the offer of the largest gain, then the next as if that had been measured, and so on."""
    if not offers:
        return []
    nets = list(dict.fromkeys((*questions, *(offer.net for offer in offers))))
    place = {net: i for i, net in enumerate(nets)}
    chosen: list[int] = []
    with one_thread():
        covariance = fit.log_covariance(nets)
        while len(chosen) < min(count, len(offers)):
            gain = gains(covariance, place)
            gain[chosen] = -np.inf
            chosen.append(int(np.argmax(gain)))
            covariance = _after_observing(covariance, _observed(offers[chosen[-1]], place), fit.scatter)
    return [offers[i] for i in chosen]


def _energy_j(fit: JointFit, net: Net) -> float:
    found = fit.predict([kind for kind, _ in net], [np.array([point], dtype=float) for _, point in net])
    return float(found.energy_j[0])


def _observed(offer: Offer, place: dict[Net, int]) -> list[int]:
    """The rows an offer would observe: time, and energy where it is metered."""
    at = place[offer.net]
    return [at, len(place) + at] if offer.metered else [at]


def _gains(covariance: Array, targets: Sequence[int], places: Sequence[Sequence[int]], scatter: Array) -> Array:
    """How much the rows of each offer, time and energy or time alone, take off the mean variance of what is asked."""
    times, energies = [own[0] for own in places], [own[-1] for own in places]
    by_time, by_energy = covariance[targets][:, times], covariance[targets][:, energies]
    time = covariance[times, times] + scatter[0, 0]
    energy, both = covariance[energies, energies] + scatter[1, 1], covariance[times, energies] + scatter[0, 1]
    alone = (by_time**2).sum(0) / time
    pair = (energy * by_time**2 - 2 * both * by_time * by_energy + time * by_energy**2).sum(0)
    metered = [len(own) == 2 for own in places]
    found: Array = np.divide(pair, time * energy - both**2, out=alone, where=metered) / len(targets)
    return found


def _after_observing(covariance: Array, places: Sequence[int], scatter: Array) -> Array:
    """The covariance after the rows have been observed."""
    cross = covariance[:, places]
    inner = covariance[np.ix_(places, places)] + scatter[: len(places), : len(places)]
    told: Array = covariance - cross @ np.linalg.solve(inner, cross.T)
    return told
