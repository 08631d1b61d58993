"""What a campaign is about: a family's kinds and members, as they are trained and as the fit sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ampere_energy.fit.observed import Net, Subject, subject
from ampere_energy.measure.measurement import Workload, run_as
from ampere_energy.model.blocks import AnyKind, ModelSpec, Point, in_mode
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import (
    Domain,
    Phase,
    Variant,
    WidthRange,
    alone,
    block_domains,
    block_points,
    member,
)


@dataclass(frozen=True)
class Scope:
    """A family of models, and how its members are measured.

    Attributes:
        spec: the parsed model, at its largest widths.
        ranges: the values to cover of each of the model's widths.
        captures: blocks of eager steps are metered as captured graphs, which shows what the device takes alone.
        ref: how to build whole members of a model that is no chain of recipes.
    """

    spec: ModelSpec
    ranges: Sequence[WidthRange]
    captures: bool
    ref: ModelRef | None = None

    @cached_property
    def domains(self) -> dict[AnyKind, Domain]:
        """The widths to cover of each kind."""
        return block_domains(self.spec, self.ranges)

    @cached_property
    def kinds(self) -> list[AnyKind]:
        """The kinds, in the order of the fit's subjects."""
        return list(self.domains)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """The kinds, as the fit knows them."""
        return tuple(subject(kind, domain) for kind, domain in self.domains.items())

    @cached_property
    def axes(self) -> tuple[WidthRange, ...]:
        """The values of each of the model's widths; its own where no block follows it."""
        each = enumerate(zip(self.ranges, self.spec.widths, strict=True))
        return tuple(r if variable in self._varied else WidthRange(own, own) for variable, (r, own) in each)

    @cached_property
    def _varied(self) -> set[int]:
        return {variable for followed in self.spec.follows for variable, _ in followed}

    def member(self, widths: Sequence[int]) -> Net:
        """A member of the family as the fit sees it."""
        points = block_points(self.spec, widths)
        return tuple((self.kinds.index(b.kind), point) for b, point in zip(self.spec.blocks, points, strict=True))

    def whole(self, widths: tuple[int, ...]) -> Workload | None:
        """A member of the family to be trained whole; None where nothing can build it."""
        if self.spec.chain:
            return member(self.spec, widths)
        return replace(self.ref, widths=widths) if self.ref is not None else None

    @cached_property
    def itself(self) -> Workload | None:
        """The model as it is, where its widths are not varied and something can train it whole."""
        if self.spec.widths:
            return None
        if self.ref is not None:
            return self.ref
        return alone(self.spec.recorded, ()) if self.spec.recorded is not None else None

    def flops(self, widths: Sequence[int]) -> int:
        """How much work a member is."""
        return sum(self.kinds[kind].flops(point) for kind, point in self.member(widths))

    def own(self, kind: AnyKind) -> list[Point]:
        """The points at which the model itself has blocks of a kind."""
        return list(dict.fromkeys(block.point for block in self.spec.blocks if block.kind == kind))

    def block(self, kind: AnyKind, point: Point) -> Workload:
        """A block by itself, as it is measured."""
        return self.captured(alone(kind, point))

    def captured(self, workload: Workload) -> Workload:
        """The network whose captured steps show what the device takes alone."""
        return run_as(workload, Mode.GRAPH) if self.captures else workload

    def net(self, workload: Workload) -> Net | None:
        """A network that was measured, as the fit sees it; None where it is of none of the family's kinds."""
        captured = self.captures and workload.training.mode is Mode.GRAPH
        asked = run_as(workload, self.spec.training.mode) if captured else workload
        if self.itself is not None and _alike(asked, self.itself):
            return self.member(())
        if isinstance(asked, Variant):
            known = asked.phase is Phase.STEP and all(b.kind in self.domains for b in asked.blocks)
            return self.variant(asked) if known else None
        if self.ref is None or not _alike(replace(asked, widths=self.ref.widths), self.ref):
            return None
        pairs = enumerate(zip(asked.widths, self.ref.widths, strict=True))
        other = {variable for variable, (width, own) in pairs if width != own}
        return self.member(asked.widths) if other <= self._varied else None  # else of another number of layers

    def variant(self, variant: Variant) -> Net:
        """A variant of known kinds as the fit sees it."""
        mode = self.spec.training.mode
        return tuple((self.kinds.index(in_mode(block.kind, mode)), block.point) for block in variant.blocks)


def _alike(one: Workload, other: Workload) -> bool:
    """Whether two workloads are the same; a factory that tells its own input has no batch before it is called."""
    if isinstance(one, ModelRef) and isinstance(other, ModelRef):
        batch = other.training.batch if not (one.input or one.inputs) else one.training.batch
        return replace(one, training=replace(one.training, batch=batch)) == other
    return one == other
