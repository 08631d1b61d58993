"""Words that once meant three things, or needed an experiment to be read, are in no name of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "ampere_energy"
RETIRED = {
    "about", "across", "asked", "captured", "carried", "company", "context", "drawn", "elsewhere", "follow",
    "following", "look", "looked", "looks", "member", "members", "plain", "round", "rounds", "row", "rows", "spot",
    "spots", "told",
}  # fmt: skip
MEANT = {
    "facts(rows)", "table(rows)",  # of a table
    "profiles(context)",  # of the command line
}  # fmt: skip


def names() -> Iterator[str]:
    """Modules, classes, functions and their parameters, as `function(parameter)`."""
    for path in SOURCE.rglob("*.py"):
        yield path.stem
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield node.name
            if isinstance(node, ast.FunctionDef):
                for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                    yield f"{node.name}({argument.arg})"


def words(name: str) -> set[str]:
    own = name.partition("(")[2].rstrip(")") or name
    return {word.lower() for word in own.strip("_").split("_")}


def test_retired_words_are_in_no_name() -> None:
    found = {name for name in names() if words(name) & RETIRED}
    assert sorted(found - MEANT) == []
    assert found >= MEANT, "what is not there any more needs no exception"
