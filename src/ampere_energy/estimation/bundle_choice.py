"""Which profile of a bundle answers for a model: one that covers all its blocks, else the nearest, if that will do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ampere_energy.cost_model.physical_mean import TILE_STEP
from ampere_energy.errors import CoverageError
from ampere_energy.estimation.another_batch import bridged
from ampere_energy.estimation.nearest import Candidate, Read, covered, nearest, read_there
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Mode, set_to
from ampere_energy.profiles.bundles.catalogue import BundleEntry, Widths, entries, load_bundled
from ampere_energy.profiles.profile import Profile

_MOST_NAMED = 6


@dataclass(frozen=True)
class Choice:
    """A profile of a bundle, and the model with the input and settings that were filled in from it.

    Attributes:
        there: the model at the profile's batch, where that is another one.
    """

    name: str
    entry: BundleEntry
    profile: Profile
    ref: ModelRef
    spec: ModelSpec
    there: ModelSpec | None = None


def choose(
    bundle: str,
    ref: ModelRef,
    read: Read,
    *,
    input_given: bool,
    mode_given: bool,
    approximate: bool = False,
) -> Choice:
    """The profile of a bundle that answers for a model.

    One that covers all its blocks at its very batch comes first; of several, those of the model's own family, then
    eager ones, then those that read the same, then those of aligned widths, which know these better than one of any
    widths does, then those of the largest batch, which loads the device. Where none does, the nearest answers.

    Args:
        bundle: its name.
        ref: the model; its settings are those asked for.
        read: makes the blocks of a model.
        input_given: otherwise a family takes the input of its own profiles, or of others that read the same; a
            factory tells its input itself.
        mode_given: otherwise any mode will do, eager first.
        approximate: take the nearest (`estimation.nearest`) where none covers the model.

    Raises:
        CoverageError: nothing in the bundle covers the model; says what it has.
    """
    found = entries(bundle)
    specs: dict[ModelRef, ModelSpec] = {}

    def once(one: ModelRef) -> ModelSpec:
        if one not in specs:
            specs[one] = read(one)
        return specs[one]

    likely = list(_candidates(found, ref, input_given, mode_given))
    fewest: tuple[int, Choice] | None = None
    for name, one in likely:
        spec, entry = once(one), found[name]
        if spec.training != entry.training:
            continue
        profile = load_bundled(bundle, name)
        lacking = sum(not covered(block, profile.joint) for block in spec.blocks)
        choice = Choice(name, entry, profile, one, spec)
        if not lacking:
            return choice
        if fewest is None or lacking < fewest[0]:
            fewest = lacking, choice
    if sets := next((spec.training.torch_settings for spec in specs.values() if spec.training.torch_settings), ()):
        raise CoverageError(
            f"nothing in {bundle} covers {ref}, whose code sets torch's {set_to(sets)}",
            "its profiles were made with torch's own settings: leave these out, or make your own profile with "
            "ampere profile",
        )
    questions = _questions(ref, [one for _, one in likely], mode_given)
    if approximate:
        for one in questions:
            if (near := _nearest(bundle, found, one, once)) is not None:
                return near
    closest = f": {fewest[1].name} lacks {fewest[0]} of its {len(fewest[1].spec.blocks)} blocks" if fewest else ""
    raise CoverageError(
        f"nothing in {bundle} covers {ref} with these settings{closest}",
        f"it has {_listed(found, ref.source)}: ask for one of these, or make your own profile with ampere profile",
        near=any(_serves(entry, once(one)) for one in questions for entry in found.values()),
    )


def _questions(ref: ModelRef, likely: list[ModelRef], mode_given: bool) -> list[ModelRef]:
    """The model as the nearest profile is asked about it: one input, the likeliest, in each mode that will do."""
    first = likely[0] if likely else ref
    modes = [ref.training.mode] if mode_given else list(Mode)
    return [replace(first, training=replace(first.training, mode=mode)) for mode in modes]


def _nearest(bundle: str, found: Mapping[str, BundleEntry], ref: ModelRef, read: Read) -> Choice | None:
    """The nearest of a bundle's profiles that were made with a model's settings but its batch, if there are any."""
    spec, sample = read(ref), _sample(ref)

    def candidates() -> Iterator[Candidate]:
        for name, entry in sorted(found.items(), key=lambda named: _preferred(named[1], ref, spec)):
            if not _serves(entry, spec):
                continue
            # Blocks of a model that reads other samples are of other kinds: it is read at no other batch for them.
            there = read_there(ref, spec, entry.training, read) if sample == entry.input[1:] else None
            blind = there is None and entry.training != spec.training
            yield Candidate(name, partial(load_bundled, bundle, name), there, blind)

    best = nearest(spec, candidates())
    return None if best is None else Choice(best.name, found[best.name], best.load(), ref, spec, best.there)


def _serves(entry: BundleEntry, spec: ModelSpec) -> bool:
    """Whether a profile can be asked about a model, its batch bridged."""
    return spec.training == entry.training or bridged(spec.training, entry.training)


def _sample(ref: ModelRef) -> tuple[int, ...] | None:
    """The shape of one sample, where there is one input and a reference tells it."""
    shapes = [ref.input] if ref.input else [spec.shape for spec in ref.inputs]
    return shapes[0][1:] if len(shapes) == 1 else None


def _candidates(
    found: Mapping[str, BundleEntry], ref: ModelRef, input_given: bool, mode_given: bool
) -> Iterator[tuple[str, ModelRef]]:
    """Names of the profiles that may serve, best first, each with the model as it would be asked about."""
    from_family = ref.source in FAMILIES and not input_given
    related = _of_family(found, ref.source)
    if from_family and not related:  # others that read the same
        shape = FAMILIES[ref.source].input[1:]
        related = {name: entry for name, entry in found.items() if entry.input[1:] == shape}
    for name, entry in _ordered(found, ref):
        training = ref.training if mode_given else replace(ref.training, mode=entry.mode)
        if replace(training, batch=1) != replace(entry.training, batch=1):
            continue
        if not from_family:
            yield name, replace(ref, training=training)
        elif name in related:
            yield name, model_ref(ref.source, widths=ref.widths, input=entry.input, training=training)


def _ordered(found: Mapping[str, BundleEntry], ref: ModelRef) -> list[tuple[str, BundleEntry]]:
    """Profiles, those first that are preferred where several cover a model."""
    modes = list(Mode)

    def preferred(named: tuple[str, BundleEntry]) -> tuple[bool, int, bool, bool, int, str]:
        name, entry = named
        own, aligned = entry.family == ref.source, entry.widths is Widths.ALIGNED
        return not own, modes.index(entry.mode), entry.input[1:] != ref.input[1:], not aligned, -entry.input[0], name

    return sorted(found.items(), key=preferred)


def _preferred(entry: BundleEntry, ref: ModelRef, spec: ModelSpec) -> tuple[bool, bool, bool, float]:
    """What is preferred of profiles that know a model alike.

    The batch that is nearest: what fills the device tells more of what does less. Where all is guessed, the largest,
    so that a model's batches are guessed from one and the same.
    """
    own, reads, batch = entry.family == ref.source, _sample(ref) == entry.input[1:], entry.training.batch
    steps = math.log(spec.training.batch / batch)
    return not own, not reads, entry.widths is not Widths.ALIGNED, max(-steps, 2 * steps) if reads else -batch


def _of_family(found: Mapping[str, BundleEntry], family: str) -> dict[str, BundleEntry]:
    return {name: entry for name, entry in found.items() if entry.family == family}


def _listed(found: Mapping[str, BundleEntry], family: str) -> str:
    """What a bundle has of a family, or else the families and inputs that it has."""
    own = _of_family(found, family)
    if not own:
        return " / ".join(dict.fromkeys(entry.place for _, entry in sorted(found.items())))
    texts = [str(entry) for _, entry in sorted(own.items())]
    more = len(texts) - _MOST_NAMED
    aligned = f" (aligned: multiples of {TILE_STEP})" if any(a.widths is Widths.ALIGNED for a in own.values()) else ""
    return " / ".join(texts[:_MOST_NAMED]) + (f" and {more} more (see ampere profiles)" if more > 0 else "") + aligned
