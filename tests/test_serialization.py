from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ampere_energy.errors import FileError
from ampere_energy.serialization import decode, digest, encode, parse_json


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Leaf:
    size: int
    ratio: float = 1.0


@dataclass(frozen=True)
class Tree:
    name: str
    colour: Colour
    leaves: tuple[Leaf, ...]
    pair: tuple[int, str]
    option: bool | int | float | str | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a tree has a name")


TREE = Tree("oak", Colour.RED, (Leaf(1), Leaf(2, 0.5)), (3, "x"), (1, 2))


def test_round_trip() -> None:
    assert decode(Tree, encode(TREE), "tree") == TREE


@given(
    st.one_of(st.booleans(), st.integers(-(2**52), 2**52), st.text(), st.lists(st.integers(0, 9)).map(tuple), st.none())
)
def test_union_keeps_type_and_value(option: object) -> None:
    tree = Tree("oak", Colour.RED, (), (3, "x"), option)  # type: ignore[arg-type]
    again = decode(Tree, encode(tree), "tree").option
    assert again == option
    assert type(again) is type(option)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": 3}, "tree.name should be str"),
        ({"name": ""}, "tree is not valid: a tree has a name"),
        ({"colour": "blue"}, "tree.colour should be one of red"),
        ({"leaves": [{"size": True}]}, r"tree.leaves\[0\].size should be int"),
        ({"leaves": [{"size": 1, "ratio": float("nan")}]}, r"ratio should be float"),
        ({"leaves": [{"size": 1, "ratio": 10**400}]}, r"ratio should be float"),
        ({"leaves": [{"size": 2**60}]}, r"size should be int"),
        ({"leaves": {}}, "tree.leaves should be a list"),
        ({"pair": [1]}, "tree.pair has 1 items, not 2"),
        ({"extra": 1}, "unknown field 'extra'"),
        ({"option": {"a": 1}}, "tree.option should be"),
    ],
)
def test_anything_else_is_refused_with_its_place(change: dict[str, object], place: str) -> None:
    with pytest.raises(FileError, match=place):
        decode(Tree, {**encode(TREE), **change}, "tree")


def test_missing_field_is_named() -> None:
    data = encode(TREE)
    del data["pair"]
    with pytest.raises(FileError, match="tree has no 'pair'"):
        decode(Tree, data, "tree")


def test_broken_json_is_a_file_error() -> None:
    for text in ("", "{", "[" * 100_000, b"\xff\xfe"):
        with pytest.raises(FileError, match="thing is not JSON"):
            parse_json(text, "thing")


def test_digest_changes_with_every_part() -> None:
    seen = {digest(value) for value in (TREE, replace(TREE, name="elm"), Leaf(1), Leaf(2), Leaf(1, 2.0))}
    assert len(seen) == 5
    assert digest(Leaf(1)) == digest(Leaf(1))
