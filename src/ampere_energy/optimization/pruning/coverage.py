"""What a profile must cover so that a model can be pruned: plain data, of which a user's model is asked apart."""

from __future__ import annotations

from dataclasses import dataclass

from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.reading import Listed, apart, listed
from ampere_energy.model.source import ModelRef
from ampere_energy.model.widths import WidthRange


@dataclass(frozen=True)
class Covering:
    """A model by its groups of channels.

    Attributes:
        ref: builds it by the widths of these groups.
        blocks: what it is made of, as it is sent.
        ranges: the values to cover of each width.
    """

    ref: ModelRef
    blocks: Listed
    ranges: tuple[WidthRange, ...]

    @property
    def spec(self) -> ModelSpec:
        """Its blocks."""
        return self.blocks.spec


def covering(ref: ModelRef, step: int = 1) -> Covering:
    """The model by its groups of channels, with the widths to cover, multiples of a step where these lead there.

    Raises:
        RequestError: the model has no channels that could be removed.
    """
    if ref.source in FAMILIES:
        return _covering(ref, step)
    return apart(Covering, "ampere_energy.optimization.pruning.coverage:_covering", ref, step)


def _covering(ref: ModelRef, step: int) -> Covering:
    from ampere_energy.optimization.pruning.channels import prunable

    space = prunable(ref)
    return Covering(space.ref_of(space.spec.widths) or ref, listed(space.spec), tuple(space.ranges(step)))
