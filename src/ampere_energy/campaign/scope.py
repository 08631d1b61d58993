"""What a campaign is about: a family's kinds and networks, as they are trained and as the fit sees them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ampere_energy.campaign.points import anywhere, rounded
from ampere_energy.cost_model.observations import Net, Subject, subject
from ampere_energy.measurement.workloads import Manner, Trained, Whole, Workload, manner, run_as
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.kinds import AnyKind, Point, in_mode
from ampere_energy.model.source import ModelRef, fingerprint
from ampere_energy.model.structures import Structure
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Phase, Variant, alone, block_domains, block_points, whole_network
from ampere_energy.model.widths import Domain, WidthRange

Widths = tuple[int, Point]
"""A model of a campaign: which of its structures, and the widths."""
Key = tuple[Net, Manner]
"""What tells requests apart: a network as the fit sees it, and how it is measured."""


@dataclass(frozen=True)
class Scope:
    """A family of models, and how its networks are measured.

    Attributes:
        spec: the parsed model, at its largest widths.
        ranges: the values to cover of each of the model's widths.
        meters_graphs: blocks of eager steps are metered as CUDA graphs, which shows what the device takes alone.
        ref: how to build whole networks of a model that is no chain of recipes.
        more: further structures of the same factory.
    """

    spec: ModelSpec
    ranges: Sequence[WidthRange]
    meters_graphs: bool
    ref: ModelRef | None = None
    more: tuple[Structure, ...] = ()

    @cached_property
    def structures(self) -> tuple[Structure, ...]:
        """All structures, the first one first."""
        return (Structure(self.spec, tuple(self.ranges), self.ref), *self.more)

    @property
    def varied(self) -> bool:
        """Whether there are several models to tell apart."""
        return bool(self.spec.widths) or bool(self.more)

    @cached_property
    def domains(self) -> dict[AnyKind, Domain]:
        """The widths to cover of each kind."""
        found: dict[AnyKind, Domain] = {}
        for structure in self.structures:
            for kind, domain in block_domains(structure.spec, structure.ranges).items():
                seen = found.get(kind, domain)
                found[kind] = tuple(a.hull(b) for a, b in zip(seen, domain, strict=True))
        return found

    @cached_property
    def kinds(self) -> list[AnyKind]:
        """The kinds, in the order of the fit's subjects."""
        return list(self.domains)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """The kinds, as the fit knows them."""
        return tuple(subject(kind, domain) for kind, domain in self.domains.items())

    @cached_property
    def axes(self) -> tuple[tuple[WidthRange, ...], ...]:
        """The values of each width of each structure; its own where no block follows it."""
        return tuple(_axes(structure) for structure in self.structures)

    @property
    def largest(self) -> list[Widths]:
        """Each structure at its largest widths."""
        return [(which, tuple(r.high for r in axes)) for which, axes in enumerate(self.axes)]

    def random_widths(self, rng: random.Random) -> Widths:
        """A network of the family by chance."""
        which = rng.randrange(len(self.structures)) if self.more else 0
        return which, anywhere(self.axes[which], rng)

    def even(self, own: Widths) -> Widths:
        """The network at round widths below."""
        which, widths = own
        return which, rounded(widths, self.axes[which])

    def net_at(self, widths: Sequence[int], which: int = 0) -> Net:
        """A network of the family as the fit sees it."""
        spec = self.structures[which].spec
        points = block_points(spec, widths)
        return tuple((self._places[b.kind], point) for b, point in zip(spec.blocks, points, strict=True))

    @cached_property
    def _places(self) -> dict[AnyKind, int]:
        return {kind: place for place, kind in enumerate(self.kinds)}

    def whole(self, widths: tuple[int, ...], which: int = 0) -> Workload | None:
        """A network of the family to be trained whole; None where nothing can build it."""
        structure = self.structures[which]
        if structure.ref is not None and (structure.ref.names or not structure.spec.chain):
            return replace(structure.ref, widths=widths) if structure.spec.widths else structure.ref
        return whole_network(structure.spec, widths) if structure.spec.chain else None

    @cached_property
    def itself(self) -> Workload | None:
        """The model as it is, where nothing of it is varied and something can train it whole."""
        if self.varied:
            return None
        if self.ref is not None:
            return self.ref
        return alone(self.spec.recorded, ()) if self.spec.recorded is not None else None

    def flops(self, own: Widths) -> int:
        """How much work a network is."""
        which, widths = own
        return sum(self.kinds[kind].flops(point) for kind, point in self.net_at(widths, which))

    def own(self, kind: AnyKind) -> list[Point]:
        """The points at which the model itself has blocks of a kind."""
        blocks = (block for structure in self.structures for block in structure.spec.blocks)
        return list(dict.fromkeys(block.point for block in blocks if block.kind == kind))

    def block(self, kind: AnyKind, point: Point) -> Workload:
        """A block by itself, as it is measured."""
        return self.as_graph(alone(kind, point))

    def as_graph(self, workload: Workload) -> Workload:
        """The network whose captured steps show what the device takes alone."""
        return run_as(workload, Mode.GRAPH) if self.meters_graphs else workload

    def key(self, workload: Trained, metered: bool) -> Key | None:
        """What a request and its record have in common; None where it is of none of the family's kinds."""
        net = self.net(workload)
        return None if net is None else (net, manner(workload, metered))

    def content(self, workload: Trained) -> Trained:
        """A network as a log keeps it: a model of the family by its blocks, which its name may change."""
        net = self.net(workload) if isinstance(workload, ModelRef) else None
        if net is None:
            return workload
        training = replace(self.spec.training, mode=workload.training.mode)
        blocks = tuple((self.kinds[kind].id, point) for kind, point in net)
        return Whole(blocks, training, self._step, str(workload))

    @cached_property
    def _step(self) -> str:
        return fingerprint(self.ref.step) if self.ref is not None else ""

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Places of the kinds by their ids in any mode: what ran eagerly tells of captured steps as well."""
        return {in_mode(kind, mode).id: place for place, kind in enumerate(self.kinds) for mode in Mode}

    def _known(self, whole: Whole) -> Net | None:
        """A whole model that was measured; None where it is not of the family's kinds, or was trained otherwise."""
        if (whole.training, whole.step) != (self.spec.training, self._step):
            return None
        net = tuple((self._ids.get(kind, -1), point) for kind, point in whole.blocks)
        fits = (place >= 0 and len(point) == len(self.kinds[place].axes) for place, point in net)
        return net if all(fits) else None

    def net(self, workload: Trained) -> Net | None:
        """A network that was measured, as the fit sees it; None where it is of none of the family's kinds."""
        captured = self.meters_graphs and workload.training.mode is Mode.GRAPH
        asked = run_as(workload, self.spec.training.mode) if captured else workload
        if isinstance(asked, Whole):
            return self._known(asked)
        if self.itself is not None and _alike(asked, self.itself):
            return self.net_at(())
        if isinstance(asked, Variant):
            known = asked.phase is Phase.STEP and all(b.kind in self.domains for b in asked.blocks)
            return self.variant(asked) if known else None
        for which, structure in enumerate(self.structures):
            if structure.ref is not None and _alike(replace(asked, widths=structure.ref.widths), structure.ref):
                if not structure.spec.widths and asked.widths == structure.ref.widths:
                    return self.net_at((), which)
                pairs = zip(asked.widths, structure.ref.widths, self.axes[which], strict=bool(structure.spec.widths))
                if structure.spec.widths and all(
                    width == own or len(axis) > 1 for width, own, axis in pairs
                ):  # else of another structure
                    return self.net_at(asked.widths, which)
        return None

    def variant(self, variant: Variant) -> Net:
        """A variant of known kinds as the fit sees it."""
        mode = self.spec.training.mode
        return tuple((self._places[in_mode(block.kind, mode)], block.point) for block in variant.blocks)


def _axes(structure: Structure) -> tuple[WidthRange, ...]:
    varied = {variable for followed in structure.spec.follows for variable, _ in followed}
    each = enumerate(zip(structure.ranges, structure.spec.widths, strict=True))
    return tuple(r if variable in varied else WidthRange(own, own) for variable, (r, own) in each)


def _alike(one: Trained, other: Trained) -> bool:
    """Whether two workloads are the same; a factory that tells its own input has no batch before it is called."""
    if isinstance(one, ModelRef) and isinstance(other, ModelRef):
        batch = other.training.batch if not (one.input or one.inputs) else one.training.batch
        return replace(one, training=replace(one.training, batch=batch)) == other
    return one == other
