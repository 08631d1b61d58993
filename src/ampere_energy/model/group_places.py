"""Which pieces of a recorded model have something of which groups of channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ampere_energy.model.groups import Group
from ampere_energy.model.program import MATRIX, Tape
from ampere_energy.model.splitting import Piece
from ampere_energy.model.templates import MOST_AXES


def touched_pieces(tape: Tape, pieces: Sequence[Piece], found: Sequence[Group]) -> list[set[int]]:
    """For each group, the pieces in which a weight or an activation has its width, or more of them."""
    reads = {n: _having(name, found, reads=True) for n, name in tape.names.items()}
    gives = {n: _having(name, found, reads=False) for n, name in tape.names.items()}
    for call in tape.calls:
        weighed = [n for n in call.reads if n in gives]
        matrix = call.name in MATRIX and weighed
        follow = set().union(*(gives[n] for n in weighed) if matrix else (reads.get(n, set()) for n in call.reads))
        reads |= {n: follow | reads.get(n, set()) for n in call.makes}
    touched: list[set[int]] = [set() for _ in found]
    for place, piece in enumerate(pieces):
        calls = [tape.calls[step] for step in piece]
        for group in set().union(*(reads.get(n, set()) for call in calls for n in (*call.reads, *call.makes))):
            touched[group].add(place)
    return touched


def _having(name: str, found: Sequence[Group], reads: bool) -> set[int]:
    """The groups that a weight has channels of, or only those it gives."""
    return {
        place
        for place, group in enumerate(found)
        if any(f"{name}.".startswith(f"{share.layer}.") and (reads or share.gives) for share in group.shares)
    }


def groups_of_pieces(touched: Sequence[set[int]], pieces: Sequence[Piece]) -> list[set[int]]:
    """For each piece, the groups it has something of."""
    return [{group for group, own in enumerate(touched) if place in own} for place in range(len(pieces))]


def left_as_they_are(touching: Sequence[set[int]]) -> set[int]:
    """Groups to be left as they are, so that no piece follows more than it may: those that crowd most pieces."""
    held: set[int] = set()
    while crowded := [own - held for own in touching if len(own - held) > MOST_AXES]:
        held.add(Counter(group for own in crowded for group in own).most_common(1)[0][0])
    return held


def lots_apart(touched: Sequence[set[int]], places: Iterable[int]) -> list[list[int]]:
    """Groups in as few lots as a greedy choice finds, no two of a lot in one piece."""
    lots: list[tuple[list[int], set[int]]] = []
    for place in places:
        lot = next((lot for lot in lots if not lot[1] & touched[place]), None)
        if lot is None:
            lots.append(lot := ([], set()))
        lot[0].append(place)
        lot[1].update(touched[place])
    return [own for own, _ in lots]
