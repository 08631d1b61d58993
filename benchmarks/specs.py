"""The blocks of a built-in family's networks, as the studies and the tests ask for them."""

from __future__ import annotations

from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.load import instantiate
from ampere_energy.model.parse import parse
from ampere_energy.model.source import model_ref


def spec_of(name: str, widths: tuple[int, ...] = ()) -> ModelSpec:
    """A network of a family, named after the family alone: campaigns draw from the name."""
    ref = model_ref(name, widths=widths)
    return parse(instantiate(ref), ref.input, training=ref.training, name=name)
