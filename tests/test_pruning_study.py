"""The study of pruned models in small: recorded, interrupted, packed and scored on the simulated device."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ampere_energy.campaign.rules import Rules
from ampere_energy.errors import RequestError
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import Measurement
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.training import Mode
from ampere_energy.optimization.pruning.pruned import Guide
from benchmarks.hardware import pruning, trainings
from benchmarks.pages import pruning as pages
from benchmarks.results import result_of
from benchmarks.studies import pruning as scores

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL = """
from torch import nn

def net():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )
"""


class Interrupted(SimulatedDevice):
    """Is taken away before some measurement of a whole model."""

    def __init__(self, after: int) -> None:
        super().__init__(0.003)
        self.left = after

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        if procedure.windows > 2:
            if not self.left:
                raise ConnectionError
            self.left -= 1
        return super().measure(workload, procedure)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> pruning.Net:
    path = tmp_path_factory.mktemp("net") / "small.py"
    path.write_text(SMALL)
    rules = Rules(points=3, precision=0.1)
    return pruning.Net(f"{path}:net", (64, 1, 12, 12), tuple(Guide), keeps=True, rules=rules, samples=2)


@pytest.fixture(scope="module")
def folder(net: pruning.Net, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A net recorded with three interruptions."""
    place = tmp_path_factory.mktemp("recorded")
    for after, rounds in ((1, 0), (1, 0), (4, 1)):
        with pytest.raises(ConnectionError):
            pruning.record(net, place / "small", Interrupted(after), Mode.GRAPH)
        assert pruning.rounds(place / "small") == rounds
    pruning.record(net, place / "small", SimulatedDevice(0.003), Mode.GRAPH)
    return place


def test_a_recording_goes_on_where_it_stopped(net: pruning.Net, folder: Path) -> None:
    place = folder / "small"
    assert pruning.rounds(place) == 2
    choices = pruning.choices_of(place)
    assert [model.name for model in choices.models] == ["original", "ampere", "flops", "random"]
    assert choices.layers == ("0", "3")
    rounds = MeasurementLog(place / "measured.jsonl").read()
    assert [record.workload for record in rounds] == 2 * [model.ref for model in choices.models]
    on_the_way = MeasurementLog(place / "refined.jsonl").read()
    assert [r.workload == choices.models[0].ref for r in on_the_way] == [True, *[False] * (len(on_the_way) - 1)]
    pruning.record(net, place, Interrupted(0), Mode.GRAPH)  # nothing is left to measure
    (place / "measured.jsonl").rename(place / "aside")
    with pytest.raises(RequestError, match="the log was recorded on simulated"):
        pruning.record(net, place, SimulatedDevice(0.003, seed=1), Mode.GRAPH)
    (place / "aside").rename(place / "measured.jsonl")


def test_the_table_comes_from_packed_logs_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "unfinished").mkdir(exist_ok=True)
    (folder / "case.jsonl").write_text("{}\n")
    pruning.pack(folder, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"small", "case.jsonl"}
    assert sorted(path.name for path in (tmp_path / "small").iterdir()) == [
        "campaign.jsonl.gz", "chosen.json", "measured.jsonl.gz", "refined.jsonl.gz", "space.json.gz",
    ]  # fmt: skip
    result = json.loads(json.dumps(scores.run(tmp_path)))
    assert result == json.loads(json.dumps(scores.run(folder)))
    ampere, flops, random = result
    assert (ampere["guide"], flops["guide"], random["guide"]) == ("ampere", "flops", "random")
    assert ampere["holds"]
    assert 0.45 <= ampere["share"] <= 0.5
    assert ampere["tried"] >= 1
    assert ampere["first"] == pytest.approx(ampere["share"], rel=0.2)
    assert ampere["when_chosen"] == pytest.approx(ampere["share"], rel=0.05)
    assert 0.4 < flops["flops"] <= 0.5
    assert flops["share"] > flops["flops"]  # constant costs do not go with FLOPs
    for row in result:
        low, high = row["interval"]
        assert low < row["predicted"] < high
        assert row["predicted"] == pytest.approx(row["share"], rel=0.2)
        assert row["profile_s"] == 0
        assert len(row["measured"]) == 2
    table = pages.pruning(result).splitlines()
    assert len(table) == 9
    assert table[2].startswith("| small, 64×1×12×12, graph | ampere | ")
    assert f"| {100 * ampere['share']:.1f} ± 0." in table[2]
    assert table[6].startswith("Measured between 45 and 50 %, as asked, by AMPERE: 1 of 1. ")
    assert table[7] == "Inside the interval from the profile alone: 3 of 3 measured shares."
    assert table[8].endswith(f": small {100 * ampere['first']:.1f} %.")
    missed = pages.pruning([{**ampere, "holds": False}]).splitlines()
    assert "0 of 1; not small" in missed[4]


def test_one_whole_round_is_enough_for_the_table(net: pruning.Net, folder: Path, tmp_path: Path) -> None:
    recorded, place = folder / "small", tmp_path / "recorded" / "small"
    shutil.copytree(recorded, place)
    lines = (recorded / "measured.jsonl").read_text().splitlines(keepends=True)
    (place / "measured.jsonl").write_text("".join(lines[:3]))
    assert pruning.rounds(place) == 0
    (place / "measured.jsonl").write_text("".join(lines[:6]))
    pruning.pack(place.parent, tmp_path / "packed")
    once, twice = scores.run(tmp_path / "packed"), scores.run(folder)
    assert [row["measured"] for row in once] == [row["measured"][:1] for row in twice]
    for row, line in zip(once, pages.pruning(once).splitlines()[2:], strict=False):
        assert f" | {100 * row['share']:.1f} % | 1 | " in line
    with pytest.raises(ConnectionError):  # but there is more to measure
        pruning.record(net, place, Interrupted(0), Mode.GRAPH)


def test_kept_modules_can_be_trained(folder: Path) -> None:
    models = {model.name: model for model in pruning.choices_of(folder / "small").models}
    start = trainings.builder_of(str(folder / "small" / "original.pt"), ())()
    for name, model in models.items():
        module = trainings.builder_of(str(folder / "small" / f"{name}.pt"), ())()
        assert (module[0].out_channels, module[3].out_channels) == model.widths
        assert module(torch.zeros(2, 1, 12, 12)).shape == (2, 10)
        kept = {tuple(channel.flatten().tolist()) for channel in module[0].weight}
        assert kept <= {tuple(channel.flatten().tolist()) for channel in start[0].weight}


def test_nothing_recorded_is_said_so(tmp_path: Path) -> None:
    assert scores.run(tmp_path / "nowhere") == []
    assert pages.pruning([]) == pages.NOTHING


def test_what_is_recorded_keeps_the_promise() -> None:
    """The logs scored anew are what the page's table is made from; AMPERE keeps its budget there, and FLOPs do not."""
    committed, again = result_of("pruning"), scores.run()
    assert {row["net"] for row in again} == set(pruning.NETS)
    for row, kept in zip(again, committed, strict=True):
        assert (row["net"], row["guide"], row["tried"]) == (kept["net"], kept["guide"], kept["tried"])
        assert [*row["measured"], row["time"]] == pytest.approx([*kept["measured"], kept["time"]])
        assert [row["predicted"], *row["interval"]] == pytest.approx([kept["predicted"], *kept["interval"]], rel=0.02)
        if row["guide"] == "ampere":
            assert row["holds"], row["net"]
            assert row["when_chosen"] == pytest.approx(kept["when_chosen"], rel=0.02)
        if row["guide"] == "flops":
            assert row["flops"] <= 0.5 < 0.75 < row["share"], row["net"]


def test_recorded_trainings_keep_the_promise() -> None:
    """The case study's whole trainings: half the joules, and accuracy within a point of the original's."""
    trained = {found.model: found for found in trainings.read(trainings.RECORDED)}
    original, ampere = trained["original"], trained["ampere"]
    assert {(found.plan, found.device, found.meter.provenance) for found in trained.values()} == {
        (original.plan, original.device, "measured")
    }
    assert 0.45 <= ampere.energy_j / original.energy_j <= 0.5
    assert ampere.curve[-1].accuracy >= original.curve[-1].accuracy - 0.01
    assert trained["flops"].energy_j > 0.75 * original.energy_j
    for row in scores.scored(pruning.PRUNED / "case"):
        assert trained[row.guide].energy_j / original.energy_j == pytest.approx(row.share, rel=0.01), row.guide
    assert pages.trainings(Path("nowhere")) == pages.NOTHING


def test_the_command(
    net: pruning.Net, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(pruning.NETS, "small", replace(net, guides=(Guide.FLOPS,), keeps=False))
    words = ["record", str(tmp_path), "small", "--device", "simulated"]
    pruning.main(words)
    pruning.main([*words, "--mode", "eager"])
    out = capsys.readouterr().out
    assert out.count("original: ") == 4
    assert {path.name for path in tmp_path.iterdir()} == {"small", "small-eager"}
    assert "| small-eager, 64×1×12×12, eager | flops |" in pages.pruning(scores.run(tmp_path))
    with pytest.raises(RequestError, match="no net is called vgg"):
        pruning.main(["record", str(tmp_path), "vgg", "--device", "simulated"])
