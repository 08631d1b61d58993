"""Which profile of a bundle answers for a model: the first made with its settings that covers all its blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ampere_energy.bundled.about import About, Widths, entries, load_bundled
from ampere_energy.errors import CoverageError
from ampere_energy.fit.nets import NetFit
from ampere_energy.fit.physics import TILE_STEP
from ampere_energy.fit.profile import Profile
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode
from ampere_energy.model.zoo.families import FAMILIES
from ampere_energy.predict.batches import bridged

_MOST_NAMED = 6


@dataclass(frozen=True)
class Choice:
    """A profile of a bundle, and the model with the input and settings that were filled in from it.

    Attributes:
        there: the model at the profile's batch, where that is another one.
    """

    name: str
    about: About
    profile: Profile
    ref: ModelRef
    spec: ModelSpec
    there: ModelSpec | None = None


def choose(
    bundle: str,
    ref: ModelRef,
    read: Callable[[ModelRef], ModelSpec],
    *,
    input_given: bool,
    mode_given: bool,
    approximate: bool = False,
) -> Choice:
    """The profile of a bundle that covers a model.

    Profiles of the model's own family come first, then eager ones, then those that read the same, then those of
    aligned widths, which know these better than one of any widths does, then those of the largest batch, which loads
    the device.

    Args:
        bundle: its name.
        ref: the model; its settings are those asked for.
        read: makes the blocks of a model.
        input_given: otherwise a family takes the input of its own profiles, or of others that read the same; a
            factory tells its input itself.
        mode_given: otherwise any mode will do.
        approximate: where none covers the model, take one that does at the nearest other batch, or else the one that
            lacks the fewest of its blocks, if that is not most of them.

    Raises:
        CoverageError: nothing in the bundle covers the model; says what it has.
    """
    found = entries(bundle)
    specs: dict[ModelRef, ModelSpec] = {}
    second: tuple[int, Choice] | None = None
    others: list[tuple[str, ModelRef]] = []
    for name, asked in _candidates(found, ref, input_given, mode_given):
        if asked not in specs:
            specs[asked] = read(asked)
        spec, about = specs[asked], found[name]
        if spec.training != about.training:
            if bridged(spec.training, about.training) and (asked.input or asked.inputs):
                others.append((name, asked))
            continue
        profile = load_bundled(bundle, name)
        lacking = sum(profile.nets is None or not _covered(block, profile.nets) for block in spec.blocks)
        choice = Choice(name, about, profile, asked, spec)
        if not lacking:
            return choice
        if profile.references and (second is None or lacking < second[0]):
            second = lacking, choice
    few = second is not None and 2 * second[0] <= len(second[1].spec.blocks)
    if approximate and not few:
        for name, asked in sorted(others, key=lambda other: _far(found[other[0]], specs[other[1]])):
            there, profile = read(asked.at_batch(found[name].training.batch)), load_bundled(bundle, name)
            if profile.nets is not None and all(_covered(block, profile.nets) for block in there.blocks):
                return Choice(name, found[name], profile, asked, specs[asked], there)
    if second is not None and approximate:
        return second[1]
    closest = f": {second[1].name} lacks {second[0]} of its {len(second[1].spec.blocks)} blocks" if second else ""
    raise CoverageError(
        f"nothing in {bundle} covers {ref} with these settings{closest}",
        f"it has {_listed(found, ref.source)}: ask for one of these, or make your own profile with ampere profile",
        near=second is not None or any(found[name].family == ref.source for name, _ in others),
    )


def _candidates(
    found: Mapping[str, About], ref: ModelRef, input_given: bool, mode_given: bool
) -> Iterator[tuple[str, ModelRef]]:
    """Names of the profiles that may serve, best first, each with the model as it would be asked about."""
    modes = list(Mode)
    from_family = ref.source in FAMILIES and not input_given
    related = _of_family(found, ref.source)
    if from_family and not related:  # others that read the same
        shape = FAMILIES[ref.source].input[1:]
        related = {name: about for name, about in found.items() if about.input[1:] == shape}
    order = sorted(
        found,
        key=lambda n: (
            found[n].family != ref.source,
            modes.index(found[n].mode),
            found[n].input[1:] != ref.input[1:],
            found[n].widths is not Widths.ALIGNED,
            -found[n].input[0],
            n,
        ),
    )
    for name in order:
        about = found[name]
        training = ref.training if mode_given else replace(ref.training, mode=about.mode)
        if replace(training, batch=1) != replace(about.training, batch=1):
            continue
        if not from_family:
            yield name, replace(ref, training=training)
        elif name in related:
            yield name, model_ref(ref.source, widths=ref.widths, input=about.input, training=training)


def _far(about: About, spec: ModelSpec) -> tuple[int, float]:
    """How far a profile's batch is from a model's, in its mode: what fills the device tells more of what does less."""
    steps = math.log(spec.training.batch / about.training.batch)
    return list(Mode).index(about.mode), max(-steps, 2 * steps)


def _covered(block: Block, nets: NetFit) -> bool:
    """Whether the very width was among those profiled: a profile of multiples of 8 does not know the others."""
    place = nets.find(block.kind.id)
    return place is not None and all(w in r for r, w in zip(nets.subjects[place].domain, block.point, strict=True))


def _of_family(found: Mapping[str, About], family: str) -> dict[str, About]:
    return {name: about for name, about in found.items() if about.family == family}


def _listed(found: Mapping[str, About], family: str) -> str:
    """What a bundle has of a family, or else the families and inputs that it has."""
    own = _of_family(found, family)
    if not own:
        return " / ".join(dict.fromkeys(about.place for _, about in sorted(found.items())))
    texts = [str(about) for _, about in sorted(own.items())]
    more = len(texts) - _MOST_NAMED
    aligned = f" (aligned: multiples of {TILE_STEP})" if any(a.widths is Widths.ALIGNED for a in own.values()) else ""
    return " / ".join(texts[:_MOST_NAMED]) + (f" and {more} more (see ampere profiles)" if more > 0 else "") + aligned
