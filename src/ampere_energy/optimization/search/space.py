"""What a search may choose from: widths and layers of a model, or a factory's arguments, and ways to train it.

    space_of("cnn5", [profile], step=8)                                              a family
    space_of("net.py:net", [profile], ranges=[WidthRange(8, 64, 8)])                 a factory of widths
    space_of("my.py:blocks", [profile], axes=[Axis("width", (16, 24)), Axis("depth", (2, 3))])       of named arguments

Networks are `ModelRef`s, so whatever builds, parses or measures a model takes them as they are. Batches differ between
profiles, and a step of a large one costs more: joules and seconds are those of training on `samples` samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.estimation.many import Candidates, estimate_many
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES, random_choices
from ampere_energy.model.kinds import AnyKind, Point
from ampere_energy.model.reading import read
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.structures import Axis, varied
from ampere_energy.model.training import Training
from ampere_energy.model.variants import block_points, resized
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile

if TYPE_CHECKING:
    from optuna import Trial

    from ampere_energy.cost_model.physical_mean import Array

TRAINING = "training"
"""Which of several settings a trial chose."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One way to train the networks.

    Attributes:
        ref: the largest network.
        profile: tells what networks trained so cost.
        specs: the widest network's blocks, for each number of layers or other values that make a structure.
    """

    ref: ModelRef
    profile: Profile
    specs: Mapping[tuple[int, ...], ModelSpec]


@dataclass(frozen=True, eq=False)
class Space:
    """Networks of a family, or models of a factory, trained in one of several settings.

    Attributes:
        source: a family, or a factory of whole-number arguments.
        axes: what each width, or argument, may be.
        counts: how many of them, the first ones, count layers or make structures otherwise; blocks follow the rest.
        settings: by how they train.
        samples: what joules and seconds are for: training on so many samples.
    """

    source: str
    axes: tuple[Axis, ...]
    counts: int
    settings: Mapping[Training, Setting]
    samples: int

    @property
    def names(self) -> tuple[str, ...]:
        """What a trial calls the widths; a factory's own names for its arguments."""
        return tuple(axis.name for axis in self.axes)

    @property
    def named(self) -> bool:
        """Whether the names are a factory's own."""
        return bool(next(iter(self.settings.values())).ref.names)

    @property
    def ranges(self) -> tuple[WidthRange, ...]:
        """The smallest even ranges that have what each width may be."""
        return tuple(axis.range for axis in self.axes)

    @property
    def size(self) -> int:
        """How many networks there are, in all settings."""
        return math.prod(len(axis.values) for axis in self.axes) * len(self.settings)

    @property
    def profile(self) -> Profile:
        """The first setting's; all are of one device."""
        return next(iter(self.settings.values())).profile

    def ref(self, widths: Sequence[int], training: Training | None = None) -> ModelRef:
        """A network; trained in the first setting where none is given."""
        setting = self.settings[training] if training else next(iter(self.settings.values()))
        return replace(setting.ref, widths=tuple(widths))

    def networks(self) -> Iterator[ModelRef]:
        """All there are."""
        for training in self.settings:
            for widths in itertools.product(*(axis.values for axis in self.axes)):
                yield self.ref(widths, training)

    def sample(self, count: int, seed: int) -> list[ModelRef]:
        """Random networks in the first setting, all different, the same for the same seed."""
        choices = [axis.values for axis in self.axes]
        return [self.ref(widths) for widths in random_choices(self.source, choices, count, seed)]

    def ends(self) -> list[ModelRef]:
        """The smallest and the largest, in every setting."""
        ends = ([axis.values[0] for axis in self.axes], [axis.values[-1] for axis in self.axes])
        return [self.ref(widths, training) for training in self.settings for widths in ends]

    def params(self, ref: ModelRef) -> dict[str, int | str]:
        """What an Optuna trial of a network is made of."""
        widths: dict[str, int | str] = dict(zip(self.names, ref.widths, strict=True))
        return widths | ({TRAINING: str(ref.training)} if len(self.settings) > 1 else {})

    def suggest(self, trial: Trial) -> ModelRef:
        """The network that an Optuna trial suggests."""
        widths = [_suggested(trial, axis) for axis in self.axes]
        labels = {str(training): training for training in self.settings}
        chosen = trial.suggest_categorical(TRAINING, tuple(labels)) if len(labels) > 1 else None
        return self.ref(widths, labels[chosen] if chosen else None)

    def spec(self, ref: ModelRef) -> ModelSpec:
        """A network's blocks: those of the widest model of its structure, at its own widths."""
        spec = self._widest(ref)
        return replace(resized(spec, ref.widths) if spec.widths else spec, name=str(ref))

    def points(self, ref: ModelRef) -> list[tuple[AnyKind, Point]]:
        """A network's blocks as kinds and points, which is quicker."""
        spec = self._widest(ref)
        points = block_points(spec, ref.widths if spec.widths else ())
        return list(zip((block.kind for block in spec.blocks), points, strict=True))

    def _widest(self, ref: ModelRef) -> ModelSpec:
        return self.settings[ref.training].specs[ref.widths[: self.counts]]

    def steps(self, training: Training) -> float:
        """Training steps that the samples take."""
        return self.samples / (training.batch * training.accumulate)

    def estimate(self, refs: Sequence[ModelRef], level: float = 0.9) -> Candidates:
        """What networks cost, one vectorised estimate for all that are trained alike and have as many layers."""
        found = np.empty((4, len(refs)))
        groups: dict[tuple[Training, tuple[int, ...]], list[int]] = {}
        for place, ref in enumerate(refs):
            groups.setdefault((ref.training, ref.widths[: self.counts]), []).append(place)
        for (training, layers), places in groups.items():
            widths = np.array([refs[place].widths for place in places], dtype=float)
            own = self.at(training, layers, widths, level=level)
            found[:, places] = own.energy_j, own.low_j, own.high_j, own.time_s
        return Candidates(*found)

    def at(
        self, training: Training, layers: tuple[int, ...], widths: Array, *, level: float = 0.9, gradient: bool = False
    ) -> Candidates:
        """What networks of one structure cost, (N, widths), which need not be whole numbers."""
        setting = self.settings[training]
        spec = setting.specs[layers]
        own_widths = widths if spec.widths else widths[:, :0]
        own = estimate_many(spec, setting.profile, own_widths, level=level, gradient=gradient)
        steps = self.steps(training)
        slopes = None if own.gradient_j is None else own.gradient_j * steps
        return Candidates(own.energy_j * steps, own.low_j * steps, own.high_j * steps, own.time_s * steps, slopes)


def space_of(
    source: str,
    profiles: Sequence[Profile],
    *,
    ranges: Sequence[WidthRange] = (),
    axes: Sequence[Axis] = (),
    step: int = 1,
    example: ModelRef | None = None,
    samples: int | None = None,
) -> Space:
    """What profiles of one device cover of a model's widths, or of a factory's arguments.

    Args:
        source: a family, or a factory of whole-number arguments.
        profiles: one for each way to train: their batches, precisions or modes differ.
        ranges: what each width may be; by default all of a family that every profile covers.
        axes: of a factory, its arguments by their names and what each may be, instead of `ranges`; those that blocks
            do not follow as widths make structures, and come first in the space.
        step: only multiples of this, where no ranges are given.
        example: the model with its input, where a family's usual one is not meant; the batch is each profile's.
        samples: what joules and seconds are for; by default one step, of the largest batch.

    Raises:
        CoverageError: a profile lacks some of the model's blocks, or some of the widths.
    """
    _check_request(source, profiles, ranges, axes)
    if samples is not None and samples < 1:
        raise RequestError(f"costs of {samples} samples", "give at least 1")
    ordered, counts, settings = (
        _of_arguments(source, profiles, axes, example) if axes else _of_widths(source, profiles, ranges, step, example)
    )
    most = max(training.batch * training.accumulate for training in settings)
    space = Space(source, ordered, counts, settings, samples or most)
    _check(space)
    return space


def _check_request(
    source: str, profiles: Sequence[Profile], ranges: Sequence[WidthRange], axes: Sequence[Axis]
) -> None:
    """Refuses what no space can be made of."""
    known = FAMILIES.get(source)
    if not profiles:
        raise RequestError("a search without a profile", "give at least one")
    if not (ranges or axes or known):
        raise RequestError(
            f"{source} has no widths of its own",
            "give their ranges, as --widths 8:64:8,16:128:8, or its arguments by name, as --vary width=16:64:8",
        )
    if axes and (ranges or known):
        raise RequestError(f"axes beside {'ranges' if ranges else source}", "give axes of a factory, without ranges")
    if known and ranges:
        for widths in ([r.low for r in ranges], [r.high for r in ranges]):
            known.check(widths)
    one, *others = profiles
    for profile in others:
        if profile.device != one.device:
            raise RequestError(f"profiles of {one.device} and of {profile.device}", "search with those of one device")
    for place, profile in enumerate(profiles):
        if any(profile.training == other.training for other in profiles[:place]):
            raise RequestError(f"two profiles at {profile.training}", "give one for each way to train")


def _of_arguments(
    source: str, profiles: Sequence[Profile], axes: Sequence[Axis], example: ModelRef | None
) -> tuple[tuple[Axis, ...], int, dict[Training, Setting]]:
    """A factory's arguments, how many of them make structures, and what it builds in each setting."""
    settings: dict[Training, Setting] = {}
    found = set()
    for profile in profiles:
        ref = _network(source, (), profile.training, example)
        built = varied(ref, axes, read)
        names, largest = tuple(axis.name for axis in built.axes), tuple(axis.values[-1] for axis in built.axes)
        settings[ref.training] = Setting(replace(ref, names=names, widths=largest), profile, built.specs)
        found.add((built.axes, built.counts))
    if len(found) > 1:
        raise RequestError(f"arguments of {source} that are widths at one profile only", "search with one --profile")
    [(ordered, counts)] = found
    return ordered, counts, settings


def _of_widths(
    source: str, profiles: Sequence[Profile], ranges: Sequence[WidthRange], step: int, example: ModelRef | None
) -> tuple[tuple[Axis, ...], int, dict[Training, Setting]]:
    """Widths and numbers of layers, how many of them the latter are, and the widest networks in each setting."""
    known = FAMILIES.get(source)
    counts = known.counts if known else 0
    allowed = tuple(ranges) or (known.aligned(step).ranges if known else ())
    settings: dict[Training, Setting] = {}
    for profile in profiles:
        ref = _network(source, tuple(r.high for r in allowed), profile.training, example)
        specs = {
            layers: read(replace(ref, widths=(*layers, *ref.widths[counts:])))
            for layers in itertools.product(*map(_values, allowed[:counts]))
        }
        settings[ref.training] = Setting(ref, profile, specs)
    if not ranges:
        allowed = _covered(allowed, settings)
        settings = {training: _up_to(allowed, counts, setting) for training, setting in settings.items()}
    axes = (
        Axis(f"{'layers' if place < counts else 'width'}{place + 1}", tuple(_values(own)))
        for place, own in enumerate(allowed)
    )
    return tuple(axes), counts, settings


def _values(allowed: WidthRange) -> list[int]:
    return [allowed[place] for place in range(len(allowed))]


def _suggested(trial: Trial, axis: Axis) -> int:
    """What a trial chooses; of values that are not evenly spaced, one of exactly these."""
    if axis.even:
        return trial.suggest_int(axis.name, axis.range.low, axis.range.high, step=axis.range.step)
    return int(trial.suggest_categorical(axis.name, axis.values))


def _network(source: str, widths: tuple[int, ...], training: Training, example: ModelRef | None) -> ModelRef:
    """A network at a profile's batch."""
    known = FAMILIES.get(source)
    input = example.input if example is not None else known.input if known else ()
    inputs = example.inputs if example is not None else ()
    ref = model_ref(source, widths=widths, input=input, inputs=inputs, training=training)
    return ref.at_batch(training.batch) if input or inputs else ref


def _covered(ranges: Sequence[WidthRange], settings: Mapping[Training, Setting]) -> tuple[WidthRange, ...]:
    """The widths that every profile covers."""
    found = list(ranges)
    for setting in settings.values():
        for spec in setting.specs.values():
            _narrow(found, spec, setting.profile.joint)
    return tuple(found)


def _up_to(ranges: Sequence[WidthRange], counts: int, setting: Setting) -> Setting:
    """The setting with a smaller largest network."""
    widths = tuple(r.high for r in ranges)
    specs = {
        layers: resized(spec, (*layers, *widths[counts:])) if spec.widths else spec
        for layers, spec in setting.specs.items()
    }
    return Setting(replace(setting.ref, widths=widths), setting.profile, specs)


def _narrow(ranges: list[WidthRange], spec: ModelSpec, nets: JointFit) -> None:
    for block, followed in zip(spec.blocks, spec.follows, strict=True):
        place = nets.find(block.kind.id)
        if place is None:
            continue
        for (variable, factor), domain in zip(followed, nets.subjects[place].domain, strict=True):
            own = ranges[variable]
            step = math.lcm(own.step, domain.step // math.gcd(domain.step, factor))
            low, high = max(own.low, -(-domain.low // factor)), min(own.high, domain.high // factor)
            if high < low:
                raise CoverageError(f"{block.name} is profiled at widths {domain} only", "profile this model")
            ranges[variable] = WidthRange(low, high) if step == 1 else WidthRange(low, high).aligned(step)


def _check(space: Space) -> None:
    """Refuses what a profile does not cover before anything is searched."""
    for training, setting in space.settings.items():
        for layers in setting.specs:
            ends = np.array([[axis.values[0], axis.values[-1]] for axis in space.axes], dtype=float).T
            ends[:, : space.counts] = layers
            space.at(training, layers, ends)
