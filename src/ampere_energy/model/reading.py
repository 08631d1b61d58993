"""Reading a model by name: our own families here, users' code in a child process that it cannot reach out of.

A factory may end its process, take its memory, hang, print, or change its folder and torch's global settings. A module
that was passed in Python stays where it is: `model.parse.parse` reads it in the caller's process.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from ampere_energy.child_process import Child, as_error
from ampere_energy.errors import ModelError, RequestError, WorkerError
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.kinds import AnyKind, Fragment
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Training
from ampere_energy.serialization import decode, encode

PATIENCE = "AMPERE_READ_S"
"""The variable of the environment that has the seconds that reading a model may take."""
_PATIENCE_S = 120.0
T = TypeVar("T")


@dataclass(frozen=True)
class Listed:
    """A `ModelSpec` as it is sent: each kind once, however many blocks are of it."""

    name: str
    kinds: tuple[AnyKind, ...]
    blocks: tuple[tuple[str, int, tuple[int, ...]], ...]
    training: Training
    unattributed: tuple[str, ...]
    widths: tuple[int, ...]
    follows: tuple[tuple[tuple[int, int], ...], ...]
    recorded: Fragment | None

    @property
    def spec(self) -> ModelSpec:
        """The model."""
        blocks = tuple(Block(name, self.kinds[kind], point) for name, kind, point in self.blocks)
        return ModelSpec(
            self.name, blocks, self.training, self.unattributed, self.widths, self.follows, self.recorded
        )  # fmt: skip


@dataclass(frozen=True)
class _Words:
    words: str


def listed(spec: ModelSpec) -> Listed:
    """The model as it is sent."""
    places = {kind: place for place, kind in enumerate(spec.kinds)}
    blocks = tuple((block.name, places[block.kind], block.point) for block in spec.blocks)
    return Listed(
        spec.name, spec.kinds, blocks, spec.training, spec.unattributed, spec.widths, spec.follows, spec.recorded
    )


def read(ref: ModelRef) -> ModelSpec:
    """The blocks of the model a reference names.

    Raises:
        ModelError: it cannot be found, built or run, or ends the process that reads it, or takes too long.
    """
    if ref.source in FAMILIES:
        from ampere_energy.model.parse import parse_ref

        return parse_ref(ref)
    return apart(Listed, "ampere_energy.model.reading:_read", ref).spec


def factories(source: str) -> str:
    """Which factories a file has, in words."""
    return apart(_Words, "ampere_energy.model.reading:_factories", ModelRef(source, (), (), Training(1))).words


def apart(returns: type[T], function: str, ref: ModelRef, *more: Any) -> T:
    """What one of our functions gives for a user's model, called in the child process.

    Args:
        returns: a dataclass, what the function gives.
        function: `package.module:name`.
        ref: its first argument.
        more: its other arguments, as JSON has them.
    """
    child, patience_s = _reader(), _patience_s()
    try:
        answer = child.ask({"function": function, "ref": encode(ref), "more": more}, patience_s)
    except WorkerError as error:
        longer = f"does it wait for something? {PATIENCE}={4 * patience_s:g} in the environment gives it longer"
        what_to_do = longer if "within" in error.what else "call the factory and its model by itself to see why"
        raise ModelError(f"{ref} cannot be read: {error.what}", what_to_do) from error
    except KeyboardInterrupt:
        child.stop()
        raise
    print(child.words(), end="", file=sys.stderr)
    if (failed := as_error(answer)) is not None:
        raise failed
    if "unexpected" in answer:
        bug = RuntimeError(f"{answer['unexpected']} (in reading {ref})")
        bug.add_note(str(answer["trace"]))
        raise bug
    return decode(returns, answer["found"], f"what was read of {ref}")


def start(source: str) -> None:
    """Starts the child process, which takes some seconds, where a model is a user's."""
    if ":" in source:
        _reader().start()


def stop() -> None:
    """Ends the child process, if there is one: what trains now wants its memory."""
    _reader().stop()


def _reader() -> Child:
    """One a process: importing torch takes seconds. It dies with this process."""
    return _reader_of(os.getpid())


@cache
def _reader_of(process: int) -> Child:
    """What a process was forked from has a reader of its own, which is not to be asked or ended here."""
    return Child("ampere_energy.model.reader", name="the process that reads it")


def _read(ref: ModelRef) -> Listed:
    """The child's side of `read`."""
    from ampere_energy.model.parse import parse_ref

    return listed(parse_ref(ref))


def _factories(ref: ModelRef) -> _Words:
    """The child's side of `factories`."""
    from ampere_energy.model.load import factories_of

    return _Words(factories_of(ref.source))


def _patience_s() -> float:
    text = os.environ.get(PATIENCE, str(_PATIENCE_S))
    try:
        given = float(text)
    except ValueError:
        given = math.nan
    if not 0 < given < math.inf:
        raise RequestError(f"{PATIENCE}={text}", "give the seconds that reading a model may take, such as 600")
    return given
