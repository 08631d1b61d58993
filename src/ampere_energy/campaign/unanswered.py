"""Which requests of a plan no record answers yet, whoever made the records and in whichever order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ampere_energy.campaign.scope import Key


class Unanswered:
    """Requests, by their places in a plan, each of which wants a record of its own."""

    def __init__(self, requests: Iterable[tuple[int, Key]]) -> None:
        self._places: dict[Key, list[int]] = {}
        for place, key in requests:
            self._places.setdefault(key, []).append(place)

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def first(self) -> int:
        """The place of the first of them."""
        return min(places[0] for places in self._places.values())

    def answer(self, key: Key) -> int | None:
        """Strikes off the first request that a record answers: its place; None where the record answers none."""
        places = self._places.get(key)
        if places is None:
            return None
        if len(places) == 1:
            self.drop(key)
        return places.pop(0)

    def drop(self, key: Key) -> None:
        """Strikes off all requests for one network."""
        self._places.pop(key, None)


def answered(planned: Sequence[Key], searches: range, answers: Iterable[Key]) -> set[int]:
    """The places of requests that records answer.

    Args:
        planned: the requests of a batch.
        searches: places whose requests are not fixed, so that any other record answers the next of them.
        answers: the records since the batch began.
    """
    fixed, free = Unanswered(pair for pair in enumerate(planned) if pair[0] not in searches), list(searches)
    places = []
    for key in answers:
        place = fixed.answer(key)
        places.append(free.pop(0) if place is None and free else place)
    return {place for place in places if place is not None}
