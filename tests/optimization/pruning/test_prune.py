from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import ampere_energy
from ampere_energy.campaign.rules import Rules
from ampere_energy.errors import CoverageError, FileError, RequestError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import Block
from ampere_energy.model.load import instantiate, load
from ampere_energy.model.parse import parse, parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.variants import block_points
from ampere_energy.model.widths import WidthRange
from ampere_energy.optimization.pruning.channels import Channels, channels_of
from ampere_energy.optimization.pruning.importance import Importance
from ampere_energy.optimization.pruning.prune import prune
from ampere_energy.optimization.pruning.pruned import Budget, Guide, Pruned, load_pruned, verified
from ampere_energy.profiles.profile import Profile
from ampere_energy.serialization import encode
from benchmarks.architectures.images import UNet

pytestmark = pytest.mark.usefixtures("one_thread")
DEVICE = SimulatedDevice(0.01)
CNN = model_ref("cnn5", input=(128, 1, 28, 28))


@pytest.fixture(scope="module")
def profile() -> Profile:
    """cnn5 on the simulated device."""
    ranges = [WidthRange(8, width, 8) for width in CNN.widths]
    return ampere_energy.profile(parse_ref(CNN), device=DEVICE, ranges=ranges)


@pytest.fixture(scope="module")
def space(profile: Profile) -> Channels:
    return channels_of(CNN, None, profile)


def shares(pruned: Pruned) -> tuple[float, float, float]:
    """Energy, the interval's upper end, and FLOPs, of the original's."""
    before, after = pruned.before, pruned.after
    flops = pruned.work_after.flops / pruned.work_before.flops
    return after.energy_j / before.energy_j, after.interval_j[1] / before.energy_j, flops


def test_the_promised_joules_are_delivered(space: Channels, profile: Profile) -> None:
    pruned = verified(prune(space, None, profile, 0.5), SimulatedDevice())
    energy, upper, _ = shares(pruned)
    assert 0.45 < energy < upper <= 0.5
    assert upper > 0.49  # as close as the step allows
    assert pruned.measured is not None
    before, after = pruned.measured
    assert 0.45 < after.energy_j / before.energy_j <= 0.5
    assert all(row.after % 8 == 0 and row.after <= row.before for row in pruned.widths)
    assert [row.name for row in pruned.widths] == ["conv1", "conv2", "conv3", "conv4"]
    again = estimate(parse(pruned.model, space.inputs, training=profile.training), profile)
    assert again.energy_j == pytest.approx(pruned.after.energy_j)
    assert pruned.work_after.parameters == sum(p.numel() for p in pruned.model.parameters())


def test_aiming_at_the_mean_removes_less(space: Channels, profile: Profile) -> None:
    upper, mean = (prune(space, None, profile, 0.5, mean=aim) for aim in (False, True))
    assert shares(upper)[0] < shares(mean)[0] <= 0.5 < shares(mean)[1]
    assert shares(mean)[0] > 0.49


def test_flops_keep_their_own_budget_and_miss_the_joules(space: Channels, profile: Profile) -> None:
    energy, _, flops = shares(prune(space, None, profile, 0.5, guide=Guide.FLOPS))
    assert 0.48 < flops <= 0.5
    assert abs(energy - flops) > 0.01
    with pytest.raises(RequestError, match="FLOPs know no joules: give a share"):
        prune(space, None, profile, Budget(joules=0.1), guide=Guide.FLOPS)


def test_by_chance_the_best_by_the_objective_is_kept(space: Channels, profile: Profile) -> None:
    seen: list[int] = []

    def narrow_first(module: nn.Module) -> float:
        assert isinstance(module, nn.Sequential)
        seen.append(module[0].out_channels)
        return -float(module[0].out_channels)

    pruned = prune(space, None, profile, 0.5, guide=Guide.RANDOM, samples=6, objective=narrow_first)
    assert len(seen) == 6
    assert pruned.widths[0].after == min(seen) < max(seen)
    assert shares(pruned)[1] <= 0.5
    assert pruned.notes == ("the best of 6 random width configurations within the budget, by your objective",)
    small = model_ref("lenet5", input=(4, 1, 28, 28))
    known = ampere_energy.profile(parse_ref(small), device=DEVICE)
    blind = prune(small, None, known, 0.9, guide=Guide.RANDOM, samples=2, step=1)
    assert "on example inputs with random targets" in blind.notes[0]


def test_a_budget_out_of_reach_says_what_can_be_had(space: Channels, profile: Profile) -> None:
    narrowest = replace(space.spec, widths=(8, 8, 8, 8))
    least = ampere_energy.estimate_many(space.spec, profile, [narrowest.widths]).high_j[0]  # type: ignore[arg-type]
    told = f"the best reachable is {least:.4g} J"
    with pytest.raises(RequestError, match=f"a budget of 1 % cannot be met: {told}, 1 % of the original .*8,8,8,8"):
        prune(space, None, profile, 0.01)


def test_a_budget_already_met_changes_nothing(space: Channels, profile: Profile) -> None:
    pruned = prune(space, None, profile, Budget(joules=100.0))
    assert not pruned.changed
    assert pruned.before == pruned.after
    original = space.model.state_dict()
    assert all(torch.equal(value, original[name]) for name, value in pruned.model.state_dict().items())
    assert [row.before for row in pruned.widths] == [row.after for row in pruned.widths] == list(CNN.widths)


def test_joules_are_a_budget_too(space: Channels, profile: Profile) -> None:
    pruned = prune(space, None, profile, Budget(joules=0.3))
    assert 0.29 < pruned.after.interval_j[1] <= 0.3


@pytest.mark.parametrize("wrong", [{"share": 1.5}, {"share": 0.0}, {"joules": -1.0}, {}, {"share": 0.5, "joules": 1.0}])
def test_budgets_make_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(RequestError, match="budget"):
        Budget(**wrong)


def test_a_step_without_narrower_widths_is_refused(space: Channels, profile: Profile) -> None:
    with pytest.raises(RequestError, match=r"no width of .* has a smaller multiple of 1024 .* smaller --step"):
        prune(space, None, profile, 0.5, step=1024)
    with pytest.raises(RequestError, match="--step 0"):
        prune(space, None, profile, 0.5, step=0)


def test_recurrent_layers_are_refused_with_what_to_do(profile: Profile) -> None:
    ref = model_ref("lstm")
    with pytest.raises(RequestError, match=r"cannot be pruned: .* LSTM layers; choose smaller hidden sizes by"):
        prune(ref, None, profile, 0.5)


def test_a_profile_of_the_model_as_it_is_does_not_do(profile: Profile) -> None:
    ref = model_ref("cnn5", widths=(8, 8, 8, 8), input=(128, 3, 28, 28))
    with pytest.raises(CoverageError, match=r"does not know narrower widths of 1 of 5 blocks \(conv1\)"):
        channels_of(ref, None, profile)
    with pytest.raises(CoverageError, match="block conv1 has widths 4, the profile covers out 8–64 step 8"):
        channels_of(model_ref("cnn5", widths=(4, 8, 8, 8), input=(128, 1, 28, 28)), None, profile)
    with pytest.raises(CoverageError, match="the profile was made at batch 128, you asked for 2; ask for"):
        channels_of(model_ref("cnn5", input=(2, 1, 28, 28)), None, profile)


def test_channels_that_matter_stay(space: Channels, profile: Profile) -> None:
    model = copy.deepcopy(space.model)
    assert isinstance(model, nn.Sequential)
    with torch.no_grad():
        model.conv3.weight[::2] *= 100
    pruned = prune(model, torch.zeros(128, 1, 28, 28), profile, 0.5, importance=Importance.L1)
    width = dict(pruned.group_widths)["conv3"]
    assert width <= 256
    kept = pruned.model.get_submodule("conv3").weight.detach().abs().sum((1, 2, 3))
    assert int((kept > kept.median() / 10).sum()) >= min(width, 128)
    assert pruned.ref is None
    with pytest.raises(RequestError, match="a module given by hand cannot be built by a device"):
        verified(pruned, DEVICE)


def test_a_family_s_profile_prunes_to_its_members(tmp_path: Path) -> None:
    """Groups that follow one of the family's widths are pruned together."""
    ref = model_ref("resnet18", widths=(16, 24, 32, 40), input=(64, 3, 32, 32))
    ranges = [WidthRange(8, width, 8) for width in ref.widths]
    known = ampere_energy.profile(parse_ref(ref), device=DEVICE, ranges=ranges, rules=Rules(points=2))
    pruned = prune(ref, None, known, 0.6)
    assert [row.groups for row in pruned.widths] == [3, 3, 3, 3]
    member = load(replace(ref, widths=tuple(row.after for row in pruned.widths))).module
    assert [p.shape for p in pruned.model.parameters()] == [p.shape for p in member.parameters()]
    assert pruned.ref == replace(ref, widths=tuple(row.after for row in pruned.widths))
    assert 0.5 < shares(pruned)[1] <= 0.6
    pruned.save(tmp_path)
    loaded = load_pruned(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(loaded.parameters(), pruned.model.parameters(), strict=True))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
        self.embed = nn.Embedding(100, 64)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.encoder(self.embed(ids)).mean(1))
        return scores


def models(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    if name == "resnet50":
        return load(model_ref("resnet50", widths=(16, 24, 32, 40), input=(2, 3, 32, 32))).module, torch.randn(
            96, 3, 32, 32
        )
    if name == "unet":
        return UNet(width=16, levels=3), torch.randn(16, 3, 32, 32)
    return Encoder(), torch.randint(100, (64, 32))


@pytest.mark.parametrize("name", ["resnet50", "encoder", "unet"])
def test_pruned_models_train_save_load_and_export(name: str, tmp_path: Path) -> None:
    model, inputs = models(name)
    space = ampere_energy.prunable(model, (inputs,))
    spec = space.spec
    known = ampere_energy.profile(spec, device=DEVICE, ranges=space.ranges(8), rules=Rules(points=2))
    pruned = prune(space, None, known, 0.85)
    energy, upper, _ = shares(pruned)
    assert energy < upper <= 0.85
    assert upper > 0.8
    points = block_points(spec, [width for _, width in pruned.group_widths])
    blocks = [Block(b.name, b.kind, point) for b, point in zip(spec.blocks, points, strict=True)]
    true = [SimulatedDevice().true_energy_j(own) for own in (blocks, spec.blocks)]
    assert true[0] / true[1] == pytest.approx(energy, rel=0.1)

    few = inputs[:2]
    optimizer = torch.optim.SGD(pruned.model.parameters(), lr=0.01)
    before = [p.clone() for p in pruned.model.parameters()]
    pruned.model(few).square().mean().backward()
    optimizer.step()
    assert all(p.grad is not None for p in pruned.model.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, pruned.model.parameters(), strict=True))

    pruned.save(tmp_path)
    loaded = load_pruned(tmp_path, models(name)[0], (inputs,)).eval()
    expected = pruned.model.eval()(few)
    torch.testing.assert_close(loaded(few), expected)
    exported = torch.export.export(loaded, (few,)).module()
    torch.testing.assert_close(exported(few), expected, atol=1e-5, rtol=1e-4)


def test_attention_by_hand_stays_and_the_layers_between_go() -> None:
    """Channels that the model's code splits into heads are left, and so is the residual stream they read."""
    ref = model_ref("transformer", widths=(1, 128), input=(128, 64))
    space = ampere_energy.prunable(ref)
    known = ampere_energy.profile(space.spec, device=DEVICE, ranges=space.ranges(8), rules=Rules(points=2))
    pruned = verified(prune(space, None, known, 0.85), SimulatedDevice())
    assert [(row.name, row.before) for row in pruned.widths] == [("layers.0.up", 512)]
    assert pruned.widths[0].after < 512
    assert pruned.model.get_submodule("layers.0.qkv").weight.shape == (384, 128)
    assert pruned.measured is not None
    assert 0.75 < pruned.measured[1].energy_j / pruned.measured[0].energy_j <= 0.86
    with pytest.raises(RequestError, match=r"from 2 groups of channels nothing can be removed \(.*layers.0.qkv"):
        prune(space, None, known, 0.2)


def test_what_is_no_pruned_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no pruned model"):
        load_pruned(tmp_path)
    (tmp_path / "pruned.json").write_text('{"groups": {}, "ref": null}')
    torch.save({}, tmp_path / "weights.pt")
    with pytest.raises(RequestError, match="was pruned from a module; give the original"):
        load_pruned(tmp_path)


def test_weights_of_another_shape_are_named(tmp_path: Path) -> None:
    (tmp_path / "pruned.json").write_text(json.dumps({"groups": {}, "ref": encode(model_ref("lenet5"))}))
    torch.save(instantiate(model_ref("lenet5", widths=(3, 8, 60, 40))).state_dict(), tmp_path / "weights.pt")
    with pytest.raises(FileError, match="weights of another shape than its"):
        load_pruned(tmp_path)
    huge = replace(model_ref("lenet5"), input=(2**52,) * 20)
    (tmp_path / "pruned.json").write_text(json.dumps({"groups": {}, "ref": encode(huge)}))
    with pytest.raises(RequestError, match="give a smaller batch"):
        load_pruned(tmp_path)


def test_no_code_is_run_because_a_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\ndef f(): pass\n")
    evil = replace(model_ref("lenet5"), source=f"{tmp_path / 'evil.py'}:f")
    (tmp_path / "pruned.json").write_text(json.dumps({"groups": {}, "ref": encode(evil)}))
    torch.save({}, tmp_path / "weights.pt")
    with pytest.raises(RequestError, match=r"evil.py:f, which is not run because a file names it; give it yourself"):
        load_pruned(tmp_path)
    assert not (tmp_path / "ran").exists()
