"""What a profile does not cover of a model, in words: what is asked beside what is there, and what differs.

A block is compared with the kind of the profile that is most like it. Descriptions of kinds are compared part by part,
since a joint profile keeps only these.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import NoReturn

from ampere_energy.cost_model.known_kinds import KnownKind
from ampere_energy.errors import CoverageError
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import AnyKind, Kind
from ampere_energy.model.layers import Layer, layer
from ampere_energy.model.training import Training, set_to
from ampere_energy.model.widths import Domain
from ampere_energy.profiles.profile import Profile

OPTIONS = tuple(field.name for field in fields(Training) if field.name != "torch_settings")
"""The settings that have an option of the command line; the others are the model's own code's."""
_MOST_NAMED = 6
_MOST_COMPARED = 2
_LIKE = 0.5


def same_training(spec: ModelSpec, profile: Profile) -> None:
    """Refuses a model that is trained otherwise than the profile was."""
    if what := differing(spec.training, profile.training):
        raise CoverageError(what, "ask for the settings of the profile, or profile this model with its own")


def recognised(spec: ModelSpec, profile: Profile) -> None:
    """Refuses a model that is trained otherwise, or has blocks of other kinds than the profile's, at any widths."""
    same_training(spec, profile)
    known = {kind.id for kind in profile.cost_model.known_kinds()}
    if unknown := [block for block in spec.blocks if block.kind.id not in known]:
        refuse(unknown, profile)


def differing(wanted: Training, made: Training) -> str:
    """How settings differ from those of a profile, one by one; empty where they do not."""
    names = [field.name for field in fields(Training) if getattr(wanted, field.name) != getattr(made, field.name)]
    if not names:
        return ""
    return f"the profile was made {'; '.join(_other(name, wanted, made) for name in names)}"


def _other(name: str, wanted: Training, made: Training) -> str:
    value = getattr(wanted, name)
    if name == "torch_settings":
        return f"with torch's {set_to(made.torch_settings)}, this model's code sets {set_to(value)}"
    if name == "batch":
        return f"at batch {made.batch}, you asked for {value}"
    return f"with {option(name, made)}, you asked for {option(name, wanted) if isinstance(value, bool) else value}"


def differs(name: str, one: Training, other: Training) -> bool:
    """Whether two ways to train differ in a setting."""
    return bool(getattr(one, name) != getattr(other, name))


def option(name: str, training: Training) -> str:
    """A setting as the command line takes it."""
    value, words = getattr(training, name), name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{words}" if value else f"--no-{words}"
    return f"--{words} {value}"


def refuse(lacking: Sequence[Block], profile: Profile) -> NoReturn:
    """Names the blocks of unknown kinds and what the profile has instead, and those at widths beyond their kind's."""
    there = profile.cost_model.known_kinds()
    domains = {known.id: known.domain for known in there}
    unknown = [block for block in lacking if block.kind.id not in domains]
    beyond = [_beyond(block, domains[block.kind.id]) for block in lacking if block.kind.id in domains]
    state = "" if profile.complete else "partial "
    what = []
    if unknown:
        named = listed([f"{block.name} ({block.kind.label})" for block in unknown])
        what.append(f"the {state}profile of {profile.model} lacks {named}")
        what += _compared(unknown, there)
    what += [listed(beyond)] if beyond else []
    raise CoverageError("; ".join(what), "profile this model")


def listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _beyond(block: Block, domain: Domain) -> str:
    reach = " and ".join(f"{axis} {r}" for axis, r in zip(block.kind.axes, domain, strict=False))
    return f"block {block.name} has widths {','.join(map(str, block.point))}, the profile covers {reach}"


def _compared(unknown: Sequence[Block], there: Sequence[KnownKind]) -> list[str]:
    """For the first blocks of different kinds, what is most like them and how it differs."""
    first: dict[str, Block] = {}
    for block in unknown:
        first.setdefault(block.kind.id, block)
    return [words for block in list(first.values())[:_MOST_COMPARED] if (words := nearest_words(block, there))]


def nearest_words(block: Block, there: Sequence[KnownKind]) -> str:
    """The kind that is most like a block's, and what differs; empty where none is like it."""
    own = f"{block.kind.role} {block.kind.label}"
    alike = [(_likeness(own, known.label), known) for known in there]
    best, nearest = max(alike, key=lambda pair: pair[0], default=(0.0, None))
    if nearest is None or best < _LIKE:
        return f"nothing in the profile is like block {block.name}" if there else ""
    return f"the nearest to block {block.name} that it has differs in {_difference(block.kind, own, nearest)}"


def _likeness(one: str, other: str) -> float:
    """From 0 to 1: how many parts of two descriptions agree; those with the same main layer come first."""
    a, b = _parts(one), _parts(other)
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio() / 2 + 0.5 * (a[1:2] == b[1:2])


def _parts(label: str) -> list[str]:
    """Words of a description: `hidden conv2d 3 @8×8 · relu` is hidden, conv2d, 3, @8×8, relu."""
    return [word for word in label.split() if word not in ("·", "+")]


def _difference(kind: AnyKind, own: str, nearest: KnownKind) -> str:
    """What is asked and what is there, where they differ."""
    if own == nearest.label:
        return _unshown(kind, nearest)
    differences = [
        f"{name} ({_or_none(asked)}, the profile has {_or_none(there)})"
        for name, asked, there in _aspects(own, nearest.label)
        if asked != there
    ]
    return ", ".join(differences) or f"its description ({own}, the profile has {nearest.label})"


def _or_none(text: str) -> str:
    return text or "none"


def _aspects(own: str, other: str) -> Iterator[tuple[str, str, str]]:
    """What descriptions of kinds tell, each with what both say: place in the model, layer, input size, classes, …"""
    form = re.compile(r"(\w+) (.*?)(?: @(\S+?))?(?: → (\d+))?(?:, (no backward))?((?: · .*)?)$")
    one, two = form.match(own), form.match(other)
    if one is None or two is None:
        return
    names = ("the role", "the layer", "the input size", "the classes", "its backward pass", "the layers after it")
    for place, name in enumerate(names, start=1):
        yield name, (one[place] or "").removeprefix(" · "), (two[place] or "").removeprefix(" · ")


def _unshown(kind: AnyKind, nearest: KnownKind) -> str:
    """What descriptions leave out: looked for by asking which change makes the kind the known one."""
    if isinstance(kind, Kind):
        for name, other in _changed(kind):
            if other.id == nearest.id:
                return name
    return "what its description does not show, such as options of its layers"


def _changed(kind: Kind) -> Iterator[tuple[str, Kind]]:
    there, here = ("the backward pass", "no backward pass")
    words = (here, there) if kind.input_grad else (there, here)
    yield f"the input's gradient ({words[1]} below it, the profile has {words[0]})", _graded(kind)
    for place, step in enumerate(kind.layers):
        for name, value in step.options:
            if isinstance(value, bool):
                flipped = _flipped(step, name, value)
                layers = (*kind.layers[:place], flipped, *kind.layers[place + 1 :])
                yield f"the {name} of {step.op} ({value}, the profile has {not value})", replace(kind, layers=layers)


def _graded(kind: Kind) -> Kind:
    return replace(kind, input_grad=not kind.input_grad)


def _flipped(step: Layer, name: str, value: bool) -> Layer:
    return layer(step.op, **{**dict(step.options), name: not value})
