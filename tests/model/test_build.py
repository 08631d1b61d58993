from __future__ import annotations

import pytest
import torch

from ampere_energy.model.build import build
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.load import instantiate
from ampere_energy.model.source import model_ref
from ampere_energy.model.variants import lessons
from benchmarks.specs import spec_of


@pytest.mark.parametrize("name", ["lenet5", "cnn5"])
def test_every_variant_trains(name: str) -> None:
    for lesson in lessons(spec_of(name), family(name).ranges):
        for corner in (tuple(r.low for r in lesson.domain), tuple(r.high for r in lesson.domain)):
            variant = lesson.variant(corner)
            module = build(variant.blocks)
            out = module(torch.randn(variant.training.batch, *variant.blocks[0].reads))
            assert tuple(out.shape[1:]) == variant.blocks[-1].gives
            out.sum().backward()
            assert all(p.grad is not None for p in module.parameters())
            assert sum(p.numel() for p in module.parameters()) == sum(b.parameters for b in variant.blocks)


@pytest.mark.parametrize("name", ["lenet5", "cnn5"])
def test_a_whole_member_rebuilt_from_its_blocks_computes_the_same(name: str) -> None:
    ref = model_ref(name, widths=family(name).sample(1, seed=3)[0])
    original = instantiate(ref)
    rebuilt = build(spec_of(name, ref.widths).blocks)
    state = dict(zip(rebuilt.state_dict(), original.state_dict().values(), strict=True))
    rebuilt.load_state_dict(state)
    x = torch.randn(ref.input)
    assert torch.equal(original(x), rebuilt(x))
