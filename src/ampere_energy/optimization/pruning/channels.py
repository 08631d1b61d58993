"""The widths a model can be pruned to: those of its groups of channels, as far as a profile knows them.

A profile made with `--prunable` knows every group by itself. A family's own profile knows its networks: then all groups
that follow one of the family's widths (in `resnet18`, a stage's residual stream and what its blocks hold inside) are
pruned together, and the pruned model has the shape of a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from ampere_energy.errors import CoverageError, ModelError, RequestError
from ampere_energy.estimation.coverage import listed, same_training
from ampere_energy.estimation.estimate import covered_jointly
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.groups import Group, Kept, groups, recurrent
from ampere_energy.model.load import Loaded, load
from ampere_energy.model.objective import Inputs
from ampere_energy.model.parse import Example, as_inputs, parse_groups, parse_ref, trained
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Training
from ampere_energy.model.variants import block_points
from ampere_energy.model.widths import WidthRange, within
from ampere_energy.profiles.profile import Profile

_NARROWEST = 8
"""What a profile for pruning covers at least: one in this many channels."""


@dataclass(frozen=True, eq=False)
class Channels:
    """A model's widths that can be made smaller.

    Attributes:
        model: the module, as wide as it was built.
        inputs: example inputs.
        spec: its blocks, which follow `spec.widths`.
        groups: its groups of channels.
        follows: for each group, which of these widths it follows, how many times over; None where it stays as it is.
        ref: where the model comes from, so that a device can build it; None of a module given by hand.
        network: whether the widths are those the model is built with, so that pruned models are networks of its family.
    """

    model: nn.Module
    inputs: Inputs
    spec: ModelSpec
    groups: tuple[Group, ...]
    follows: tuple[tuple[int, int] | None, ...]
    ref: ModelRef | None = None
    member: bool = False

    def ref_of(self, widths: Sequence[int]) -> ModelRef | None:
        """A model of these widths for a device that builds it anew."""
        if self.ref is None or self.member:
            return self.ref and replace(self.ref, widths=tuple(int(width) for width in widths))
        return replace(self.ref, widths=tuple(self.group_widths(widths)), pruned=self.ref.original.widths)

    @property
    def names(self) -> list[str]:
        """For each width, the layer it is best known by: of the first group that follows it."""
        found = dict[int, str]()
        for group, followed in zip(self.groups, self.follows, strict=True):
            if followed is not None:
                found.setdefault(followed[0], group.name)
        return [found.get(width, f"width {width + 1}") for width in range(len(self.spec.widths))]

    def group_widths(self, widths: Sequence[int]) -> list[int]:
        """How many channels each group has where the model has these widths."""
        return [
            group.size if followed is None else followed[1] * int(widths[followed[0]])
            for group, followed in zip(self.groups, self.follows, strict=True)
        ]

    def widths_of(self, group_widths: Sequence[tuple[str, int]]) -> list[int]:
        """The widths of a model whose groups have as many channels."""
        widths = list(self.spec.widths)
        for (_, channels), followed in zip(group_widths, self.follows, strict=True):
            if followed is not None:
                widths[followed[0]] = channels // followed[1]
        return widths

    def kept(self, widths: Sequence[int], scores: Sequence[Sequence[float]]) -> Kept:
        """The most important channels of each group, as many as the widths leave."""
        asked = zip(self.groups, self.group_widths(widths), scores, strict=True)
        return [group.best(score, width) for group, width, score in asked]

    def ranges(self, step: int = 1) -> list[WidthRange]:
        """What a profile must cover to prune it: widths from an eighth of its own, in steps where these lead there."""
        found = []
        for group, followed in zip(self.groups, self.follows, strict=True):
            unit = math.lcm(step, group.parts)
            unit = group.parts if group.size % unit else unit
            low = -(-group.size // (_NARROWEST * unit)) * unit
            found.append(WidthRange(low if followed is not None else group.size, group.size, unit))
        return found

    def ladders(self, profile: Profile, step: int) -> list[list[int]]:
        """For each width, the values it may take, widest first: its own, then profiled multiples of the step."""
        units: dict[int, int] = {}
        for group, followed in zip(self.groups, self.follows, strict=True):
            if followed is not None:
                width, factor = followed
                units[width] = math.lcm(units.get(width, step), group.parts // math.gcd(group.parts, factor))
        ladders = []
        for width, own in enumerate(self.spec.widths):
            unit = units.get(width, own)
            ladders.append([own, *range((own - 1) // unit * unit, 0, -unit)])
        domains = {subject.id: subject.domain for subject in profile.joint.subjects}
        for block, axes in zip(self.spec.blocks, self.spec.follows, strict=True):
            for (width, factor), known in zip(axes, domains[block.kind.id], strict=True):
                own, *below = ladders[width]
                ladders[width] = [own, *(value for value in below if factor * value in known)]
        return ladders


def prunable(model: nn.Module | ModelRef, example: Example | None = None, training: Training | None = None) -> Channels:
    """The widths of a model's groups of channels, each by itself; profile them with its `spec` and `ranges`.

    Args:
        model: a module, with an example of its inputs; or a reference, which brings its own and how it is trained.
        example: an input batch, its shape, or several inputs.
        training: of a module, how it will be trained.

    Raises:
        RequestError: the model has no channels that could be removed.
    """
    ref = model if isinstance(model, ModelRef) else None
    loaded = load(ref) if ref is not None else _given(model, example)
    name = str(ref) if ref is not None else type(loaded.module).__name__
    found = _groups(loaded, name)
    settings = trained(ref, loaded) if ref is not None else training
    spec = parse_groups(loaded.module, loaded.inputs, found, training=settings, name=name)
    free = {width for followed in spec.follows for width, _ in followed}
    follows = tuple((place, 1) if place in free else None for place in range(len(found)))
    return Channels(loaded.module, loaded.inputs, spec, found, follows, ref)


def channels_of(
    model: nn.Module | ModelRef, example: Example | None, profile: Profile, training: Training | None = None
) -> Channels:
    """The widths of a model that a profile knows.

    Args:
        model: a module, with an example of its inputs; or a reference, which brings its own.
        example: an input batch, its shape, or several inputs.
        profile: made by the `ampere` method.
        training: of a module, how it will be trained; by default as the profile was made.

    Raises:
        RequestError: the model has no channels that could be removed.
        CoverageError: the profile knows the model only as it is, or not at all.
    """
    nets = profile.joint
    space = prunable(model, example, training or profile.training)
    spec, ref = space.spec, space.ref
    same_training(spec, profile)
    if _known(spec, profile):
        return space
    if ref is not None and ref.widths:
        of_family = _space_of_widths(ref, space)
        if of_family is not None and _known(of_family.spec, profile):
            return of_family
    missing = [b for b in spec.blocks if nets.find(b.kind.id) is None]
    if not missing:
        covered_jointly(spec, profile, nets)  # says at which widths it lies beyond what was profiled
    raise CoverageError(
        f"the profile of {profile.model} does not know narrower widths of {len(missing)} of {len(spec.blocks)} blocks "
        f"({listed([block.name for block in missing], 3)})",
        "profile this model with --prunable",
    )


def _groups(loaded: Loaded, name: str) -> tuple[Group, ...]:
    """The groups of a model, at least one; where it has none, says what can be done instead."""
    found = groups(loaded.module, loaded.inputs)
    if found:
        return found
    layers = recurrent(loaded.module)
    if layers:
        raise RequestError(
            f"{name} cannot be pruned: torch-pruning cannot remove channels of its {' and '.join(layers)} layers",
            "choose smaller hidden sizes by ampere search --widths or ampere estimate --widths instead (of your own "
            "model, as arguments of its factory)",
        )
    raise RequestError(
        f"{name} has no channels that can be removed without changing its result",
        "give smaller --widths to its factory, or use ampere search",
    )


def _given(model: nn.Module | ModelRef, example: Example | None) -> Loaded:
    if not isinstance(model, nn.Module) or example is None:
        raise RequestError("a module without example inputs", "give a batch, or its shape, batch first")
    return Loaded(model, as_inputs(example))


def _known(spec: ModelSpec, profile: Profile) -> bool:
    """Whether a profile knows all kinds of a model, at its own widths."""
    if not spec.widths:
        return False
    for block, point in zip(spec.blocks, block_points(spec, spec.widths), strict=True):
        place = profile.joint.find(block.kind.id)
        if place is None or not within(profile.joint.subjects[place].domain, point):
            return False
    return True


def _space_of_widths(ref: ModelRef, space: Channels) -> Channels | None:
    """The space of a family's or factory's own widths; None where a group that follows them cannot go by itself."""
    spec, found = parse_ref(ref), space.groups
    varied = {width for followed in spec.follows for width, _ in followed}
    follows: list[tuple[int, int] | None] = [None] * len(found)
    for width in varied:
        half = ref.widths[width] // 2
        if not half:
            return None
        other = _group_sizes(ref, width, half)
        if other is None or len(other) != len(found):
            return None
        for place, (group, size) in enumerate(zip(found, other, strict=True)):
            if size == group.size:
                continue
            if space.follows[place] is None:
                return None  # its channels have an order, such as heads, that only the model's code knows
            factor = group.size // ref.widths[width]
            if follows[place] is not None or (factor * ref.widths[width], factor * half) != (group.size, size):
                return None
            follows[place] = (width, factor)
    return replace(space, spec=spec, follows=tuple(follows), member=True)


def _group_sizes(ref: ModelRef, width: int, value: int) -> list[int] | None:
    widths = tuple(value if place == width else own for place, own in enumerate(ref.widths))
    try:
        other = load(replace(ref, widths=widths))
        return [group.size for group in groups(other.module, other.inputs)]
    except ModelError:
        return None
