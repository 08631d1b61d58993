from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

import ampere_energy
from ampere_energy.campaign.rules import Rules
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.records import Measurement
from ampere_energy.model.blocks import Block
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.widths import WidthRange
from ampere_energy.optimization.pruning.channels import Channels, channels_of
from ampere_energy.optimization.pruning.prune import prune
from ampere_energy.optimization.pruning.pruned import Budget, Pruned, verified
from ampere_energy.optimization.pruning.refine import refined
from ampere_energy.profiles.profile import Profile

pytestmark = pytest.mark.usefixtures("one_thread")
ROUGH = SimulatedDevice(0.005, rough=0.15, world=6)


@pytest.fixture(scope="module")
def rough() -> tuple[Channels, Profile]:
    """cnn5, known from few measurements on a device whose costs jump from width to width."""
    ref = model_ref("cnn5", input=(64, 1, 28, 28))
    ranges = [WidthRange(8, width, 8) for width in ref.widths]
    profile = ampere_energy.profile(parse_ref(ref), device=ROUGH, ranges=ranges, rules=Rules(points=2))
    return channels_of(ref, None, profile), profile


def test_measuring_on_the_way_comes_closer(rough: tuple[Channels, Profile]) -> None:
    space, profile = rough
    kept: list[Measurement] = []
    blind = verified(prune(space, None, profile, 0.5), ROUGH)
    choose = partial(prune, space, None, mean=True)
    pruned, taught = refined(choose, space, profile, Budget(0.5), ROUGH, keep=lambda m, _: kept.append(m))
    assert blind.measured is not None
    assert pruned.measured is not None
    blind_share, share = (p[1].energy_j / p[0].energy_j for p in (blind.measured, pruned.measured))
    assert blind_share < 0.47 <= share <= 0.5  # the interval is wide, so its upper end is far above
    assert taught.measurements == profile.measurements + len(kept) - 1  # the last was good enough
    assert kept[0].workload == pruned.original
    assert pruned.notes[0].startswith(f"chosen with {len(kept) - 1} pruned model")


def test_rounds_end_with_what_was_found(rough: tuple[Channels, Profile]) -> None:
    space, profile = rough
    pruned, _ = refined(partial(prune, space, None), space, profile, Budget(0.5), ROUGH, most=1)
    assert pruned.measured is not None
    assert pruned.measured[1].energy_j < 0.5 * pruned.measured[0].energy_j
    assert "with 1 pruned model measured" in pruned.notes[-1]


def test_what_was_measured_is_not_measured_again(rough: tuple[Channels, Profile]) -> None:
    space, profile = rough
    kept: list[Measurement] = []
    asked: list[float] = []
    narrow = prune(space, None, profile, 0.3, mean=True)

    def choose(profile: Profile, budget: Budget) -> Pruned:
        asked.append(budget.of(1.0))
        return narrow

    pruned, _ = refined(choose, space, profile, Budget(0.5), ROUGH, keep=lambda m, _: kept.append(m))
    assert [own.workload for own in kept] == [narrow.original, narrow.ref]
    assert asked[2:] == sorted(asked[2:])  # each time a little more is asked for
    assert len(asked) < 10
    assert pruned.group_widths == narrow.group_widths


def test_a_budget_already_met_is_not_measured(rough: tuple[Channels, Profile]) -> None:
    space, profile = rough
    pruned, same = refined(partial(prune, space, None), space, profile, Budget(joules=1e3), ROUGH)
    assert (pruned.changed, pruned.measured) == (False, None)
    assert same is profile


class Bent(SimulatedDevice):
    """A device on which narrow models cost less in company than any of their blocks tells."""

    def true_energy_j(self, blocks: Sequence[Block]) -> float:
        width = sum(sum(block.point[:1]) for block in blocks[1:-1])
        return super().true_energy_j(blocks) * ((width / WIDE) ** 0.5 if len(blocks) > 1 else 1.0)


WIDE = sum(model_ref("cnn5").widths[:-1])


def test_what_a_profile_does_not_believe_is_allowed_for(rough: tuple[Channels, Profile]) -> None:
    space, profile = rough
    device = Bent(0.005, rough=0.15, world=6)
    pruned, _ = refined(partial(prune, space, None, mean=True), space, profile, Budget(0.5), device)
    assert pruned.measured is not None
    share = pruned.measured[1].energy_j / pruned.measured[0].energy_j
    assert 0.45 <= share <= 0.5  # six choices, none of which the profile foresaw, and widths that jump by 15 %
