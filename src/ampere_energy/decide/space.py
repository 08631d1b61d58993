"""What a search may choose from: widths and layers of a model, and ways to train it, each with a profile of its own.

Members are `ModelRef`s, so whatever builds, parses or measures a model takes them as they are. Batches differ between
profiles, and a step of a large one costs more: joules and seconds are those of training on `samples` samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ampere_energy.errors import CoverageError, RequestError
from ampere_energy.fit.nets import NetFit
from ampere_energy.fit.profile import Profile
from ampere_energy.model.blocks import AnyKind, ModelSpec, Point
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.training import Training
from ampere_energy.model.variants import WidthRange, block_points, resized
from ampere_energy.model.zoo.families import FAMILIES
from ampere_energy.predict.many import Candidates, estimate_many

if TYPE_CHECKING:
    from optuna import Trial

    from ampere_energy.fit.physics import Array

TRAINING = "training"
"""Which of several settings a trial chose."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One way to train the members.

    Attributes:
        ref: the largest member.
        profile: tells what members trained so cost.
        specs: the widest member's blocks, for each number of layers.
    """

    ref: ModelRef
    profile: Profile
    specs: Mapping[tuple[int, ...], ModelSpec]


@dataclass(frozen=True, eq=False)
class Space:
    """Members of a family, trained in one of several settings.

    Attributes:
        source: a family, or a factory whose arguments are widths.
        ranges: what each width may be.
        counts: how many of the widths, the first ones, count layers.
        settings: by how they train.
        samples: what joules and seconds are for: training on so many samples.
    """

    source: str
    ranges: tuple[WidthRange, ...]
    counts: int
    settings: Mapping[Training, Setting]
    samples: int

    @property
    def names(self) -> tuple[str, ...]:
        """What a trial calls the widths."""
        return tuple(f"{'layers' if i < self.counts else 'width'}{i + 1}" for i in range(len(self.ranges)))

    @property
    def size(self) -> int:
        """How many members there are, in all settings."""
        return math.prod(map(len, self.ranges)) * len(self.settings)

    @property
    def profile(self) -> Profile:
        """The first setting's; all are of one device."""
        return next(iter(self.settings.values())).profile

    def ref(self, widths: Sequence[int], training: Training | None = None) -> ModelRef:
        """A member; trained in the first setting where none is given."""
        setting = self.settings[training] if training else next(iter(self.settings.values()))
        return replace(setting.ref, widths=tuple(widths))

    def members(self) -> Iterator[ModelRef]:
        """All there are."""
        choices = [_values(allowed) for allowed in self.ranges]
        for training in self.settings:
            for widths in itertools.product(*choices):
                yield self.ref(widths, training)

    def ends(self) -> list[ModelRef]:
        """The smallest and the largest, in every setting."""
        ends = ([r.low for r in self.ranges], [r.high for r in self.ranges])
        return [self.ref(widths, training) for training in self.settings for widths in ends]

    def params(self, ref: ModelRef) -> dict[str, int | str]:
        """What an Optuna trial of a member is made of."""
        widths: dict[str, int | str] = dict(zip(self.names, ref.widths, strict=True))
        return widths | ({TRAINING: str(ref.training)} if len(self.settings) > 1 else {})

    def suggest(self, trial: Trial) -> ModelRef:
        """The member that an Optuna trial suggests."""
        widths = [
            trial.suggest_int(name, allowed.low, allowed.high, step=allowed.step)
            for name, allowed in zip(self.names, self.ranges, strict=True)
        ]
        labels = {str(training): training for training in self.settings}
        chosen = trial.suggest_categorical(TRAINING, tuple(labels)) if len(labels) > 1 else None
        return self.ref(widths, labels[chosen] if chosen else None)

    def spec(self, ref: ModelRef) -> ModelSpec:
        """The blocks of the widest model with a member's layers, trained as it is."""
        return self.settings[ref.training].specs[ref.widths[: self.counts]]

    def points(self, ref: ModelRef) -> list[tuple[AnyKind, Point]]:
        """A member's blocks."""
        spec = self.spec(ref)
        return list(zip((block.kind for block in spec.blocks), block_points(spec, ref.widths), strict=True))

    def steps(self, training: Training) -> float:
        """Training steps that the samples take."""
        return self.samples / (training.batch * training.accumulate)

    def estimate(self, refs: Sequence[ModelRef], level: float = 0.9) -> Candidates:
        """What members cost, one vectorised estimate for all that are trained alike and have as many layers."""
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
        """What members of one structure cost, (N, widths), which need not be whole numbers."""
        setting = self.settings[training]
        own = estimate_many(setting.specs[layers], setting.profile, widths, level=level, gradient=gradient)
        steps = self.steps(training)
        slopes = None if own.gradient_j is None else own.gradient_j * steps
        return Candidates(own.energy_j * steps, own.low_j * steps, own.high_j * steps, own.time_s * steps, slopes)


def space_of(
    source: str,
    profiles: Sequence[Profile],
    *,
    ranges: Sequence[WidthRange] = (),
    step: int = 1,
    example: ModelRef | None = None,
    samples: int | None = None,
) -> Space:
    """What profiles of one device cover of a model's widths.

    Args:
        source: a family, or a factory whose arguments are widths.
        profiles: one for each way to train: their batches, precisions or modes differ.
        ranges: what each width may be; by default all of a family that every profile covers.
        step: only multiples of this, where no ranges are given.
        example: the model with its input, where a family's usual one is not meant; the batch is each profile's.
        samples: what joules and seconds are for; by default one step, of the largest batch.

    Raises:
        CoverageError: a profile lacks some of the model's blocks, or some of the widths.
    """
    if not profiles:
        raise RequestError("a search without a profile", "give at least one")
    known = FAMILIES.get(source)
    if not (ranges or known):
        raise RequestError(f"{source} has no widths of its own", "give their ranges, as --widths 8:64:8,16:128:8")
    if known and ranges:
        for widths in ([r.low for r in ranges], [r.high for r in ranges]):
            known.check(widths)
    one = profiles[0]
    for profile in profiles[1:]:
        if profile.device != one.device:
            raise RequestError(f"profiles of {one.device} and of {profile.device}", "search with those of one device")
    counts = known.counts if known else 0
    allowed = tuple(ranges) or (known.aligned(step).ranges if known else ())
    settings: dict[Training, Setting] = {}
    for profile in profiles:
        if profile.training in settings:
            raise RequestError(f"two profiles at {profile.training}", "give one for each way to train")
        ref = _largest(source, allowed, profile.training, example)
        specs = {
            layers: parse_ref(replace(ref, widths=(*layers, *ref.widths[counts:])))
            for layers in itertools.product(*map(_values, allowed[:counts]))
        }
        settings[profile.training] = Setting(ref, profile, specs)
    if not ranges:
        allowed = _covered(allowed, settings)
        settings = {training: _up_to(allowed, counts, setting) for training, setting in settings.items()}
    most = max(training.batch * training.accumulate for training in settings)
    if samples is not None and samples < 1:
        raise RequestError(f"costs of {samples} samples", "give at least 1")
    space = Space(source, allowed, counts, settings, samples or most)
    _check(space)
    return space


def _values(allowed: WidthRange) -> list[int]:
    return [allowed[place] for place in range(len(allowed))]


def _largest(source: str, ranges: Sequence[WidthRange], training: Training, example: ModelRef | None) -> ModelRef:
    """The widest member, at a profile's batch."""
    known, batch = FAMILIES.get(source), training.batch
    input = example.input if example is not None else known.input if known else ()
    inputs = example.inputs if example is not None else ()
    return model_ref(
        source,
        widths=tuple(r.high for r in ranges),
        input=(batch, *input[1:]) if input else (),
        inputs=tuple(replace(one, shape=(batch, *one.shape[1:])) for one in inputs),
        training=training,
    )


def _covered(ranges: Sequence[WidthRange], settings: Mapping[Training, Setting]) -> tuple[WidthRange, ...]:
    """The widths that every profile covers."""
    found = list(ranges)
    for setting in settings.values():
        for spec in setting.specs.values():
            if setting.profile.nets is not None:
                _narrow(found, spec, setting.profile.nets)
    return tuple(found)


def _up_to(ranges: Sequence[WidthRange], counts: int, setting: Setting) -> Setting:
    """The setting with a smaller largest member."""
    widths = tuple(r.high for r in ranges)
    specs = {
        layers: resized(spec, (*layers, *widths[counts:])) if spec.widths else spec
        for layers, spec in setting.specs.items()
    }
    return Setting(replace(setting.ref, widths=widths), setting.profile, specs)


def _narrow(ranges: list[WidthRange], spec: ModelSpec, nets: NetFit) -> None:
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
            ends = np.array([[r.low for r in space.ranges], [r.high for r in space.ranges]], dtype=float)
            ends[:, : space.counts] = layers
            space.at(training, layers, ends)
