"""Which profile answers for a model, on whose card, and what it says: one rule for the command line and for Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ampere_energy.errors import CoverageError
from ampere_energy.estimation.another_card import on_another_card
from ampere_energy.estimation.bundle_choice import Choice, choose
from ampere_energy.estimation.coverage import differing, differs, option
from ampere_energy.estimation.estimate import estimate as by_profile
from ampere_energy.estimation.nearest import Read, covered
from ampere_energy.estimation.result import Estimate
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import GivenSettings, Mode, Training
from ampere_energy.profiles.bundles.catalogue import Widths, entries, load_bundled
from ampere_energy.profiles.collection import is_bundle, load
from ampere_energy.profiles.profile import Profile


def estimate(
    spec: ModelSpec,
    profile: Profile | str,
    *,
    iterations: int = 1,
    level: float = 0.9,
    approximate: bool = False,
    there: ModelSpec | None = None,
) -> Estimate:
    """What `iterations` training steps of a model will cost.

    Args:
        spec: the parsed model.
        profile: what is known of a device; or the name of a saved profile, or of a bundle, of which the profile that
            covers the model answers. A bundle's was made on another card: its intervals are wider by what cards of
            one name differ.
        iterations: training steps.
        level: probability of the interval.
        approximate: guess what the profile does not cover (see `estimation.estimate`).
        there: the model at the profile's batch, where that is another one.

    Raises:
        CoverageError: nothing covers the model.
    """
    found = covering(profile, spec) if isinstance(profile, str) and is_bundle(profile) else profile
    learnt = load(found) if isinstance(found, str) else found
    result = by_profile(spec, learnt, iterations=iterations, level=level, approximate=approximate, there=there)
    return usable(result, another_card=learnt.bundled)


def usable(found: Estimate, *, another_card: bool) -> Estimate:
    """An estimate as it is given to somebody: of some joules at least, and of the card that it is for.

    Args:
        found: by a profile.
        another_card: whether it is for another card than the profiled one, as all by a bundle are.
    """
    if found.energy_j <= 0:
        raise CoverageError(*found.doubts[0].split("; ", 1))
    return on_another_card(found) if another_card else found


def covering(bundle: str, spec: ModelSpec) -> Profile:
    """The profile of a bundle that covers a parsed model with its very settings, one of aligned widths first."""
    found = sorted(entries(bundle).items(), key=lambda entry: entry[1].widths is not Widths.ALIGNED)
    for name, about in found:
        if about.training == spec.training:
            profile = load_bundled(bundle, name)
            if all(covered(block, profile.joint) for block in spec.blocks):
                return profile
    raise CoverageError(
        f"nothing in {bundle} covers {spec.name} at {spec.training}",
        "see ampere profiles for what it has, or make your own profile",
    )


def of_bundle(
    bundle: str, ref: ModelRef, read: Read, given: GivenSettings, *, input_given: bool, approximate: bool = False
) -> Choice:
    """The profile of a bundle that covers a model, in any settings that agree with those given.

    Args:
        bundle: its name.
        ref: the model.
        read: makes the blocks of a model.
        given: the settings that were asked for; the others are the profile's.
        input_given: otherwise a family takes the input of its own profiles.
        approximate: take the nearest where none covers the model.
    """
    there = [about.training for about in entries(bundle).values()]
    alike = dict.fromkeys(given.over(replace(one, batch=1, mode=Mode.EAGER)) for one in there if given.agrees(one))
    ways = sorted(alike, key=lambda training: training != given.usual) or [given.usual]
    error: CoverageError | None = None
    for rough in dict.fromkeys((approximate and len(ways) == 1, approximate)):
        for training in ways:
            tried = replace(ref, training=replace(training, batch=ref.training.batch))
            try:
                return choose(
                    bundle,
                    tried,
                    read,
                    input_given=input_given,
                    mode_given="mode" in given.settings,
                    approximate=rough,
                )
            except CoverageError as failed:
                error = error or failed
    assert error is not None
    raise CoverageError(error.what + _unlike(given, there), error.remedy, near=error.near) from error


def _unlike(given: GivenSettings, there: Sequence[Training]) -> str:
    """Which settings no profile of a bundle has, beside what they have."""
    found = []
    for name, wanted in given.settings.items():
        options = sorted({option(name, one) for one in there})
        if option(name, given.usual) not in options:
            spelt = option(name, given.usual) if isinstance(wanted, bool) else wanted
            found.append(f"with {' or '.join(options)}, you asked for {spelt}")
    return f": its profiles were made {'; '.join(found)}" if found else ""


def as_profiled(ref: ModelRef, learnt: Profile, input_given: bool, given: GivenSettings) -> ModelRef:
    """The model trained as a profile of one's own was made where nothing else is given; a family at its batch."""
    made = replace(learnt.training, batch=ref.training.batch, torch_settings=())  # which its own code sets
    ref = replace(ref, training=given.over(made))
    return ref if input_given or ref.source not in FAMILIES else ref.at_batch(learnt.training.batch)


def agreeing(learnt: Profile, given: GivenSettings) -> None:
    """Refuses settings that a command would take from a profile, and that were given otherwise."""
    wanted = given.over(learnt.training)
    if what := differing(wanted, learnt.training):
        options = [option(name, learnt.training) for name in given.settings if differs(name, wanted, learnt.training)]
        raise CoverageError(what, f"give {' '.join(options)}, or another --profile")
