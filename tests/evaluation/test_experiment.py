from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ampere_energy.campaign.rules import Status
from ampere_energy.errors import DeviceError, FileError, RequestError
from ampere_energy.evaluation.evaluate import rescore, score
from ampere_energy.evaluation.experiment import MEMBER, Experiment, Part, random_experiment, record
from ampere_energy.evaluation.recorded import as_graph, fitted, load
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, Provenance, Timing, Window
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import Block
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.variants import Phase, Variant
from ampere_energy.reporting.as_json import evaluation_json
from benchmarks.results import DATA

MODELS = 5
QUICK = (Part.CAMPAIGN, Part.MEMBERS)


def asked(family: str = "lenet5", **other: object) -> Experiment:
    found = random_experiment(family, (), Training(10), models=MODELS, seed=3, step=1, budget_s=60.0)
    return replace(found, target=0.04, **other)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole experiment, recorded on the simulated device."""
    place = tmp_path_factory.mktemp("experiment")
    record(asked(), place, SimulatedDevice(0.01))
    return place


def test_every_method_predicts_the_same_members(folder: Path) -> None:
    (trials,) = rescore(load(folder))
    assert [member.widths for member in trials.networks] == list(asked().members)
    assert evaluation_json([trials])[0]["recorded"] == trials.recorded == folder.name
    assert set(trials.methods) == {
        "ampere", "paper", "flops", "flops_affine", "flops_bytes", "time_power", "neuralpower", "run20", "refined",
    }  # fmt: skip
    errors = {method: score(trials, method).mape for method in trials.methods}
    assert errors["ampere"] < 0.03
    assert errors["ampere"] < errors["flops_affine"]
    assert errors["flops_affine"] <= errors["flops"]
    assert errors["run20"] < 0.03, "it ran the models themselves"
    # The simulated device takes 0.4 + 0.7 + 0.1 of a step for its parts by themselves.
    assert score(trials, "neuralpower").bias == pytest.approx(0.2, abs=0.05)
    assert all(len(member.repeats_j) == 2 for member in trials.networks)
    assert trials.repeat_rank is not None
    assert 0 < trials.floor < 0.02
    assert trials.wall_s is not None


def test_a_score_follows_from_its_members(folder: Path) -> None:
    (trials,) = rescore(load(folder))
    found = score(trials, "ampere")
    own = [m.predictions["ampere"].energy_j / (sum(m.repeats_j) / 2) - 1 for m in trials.networks]
    assert found.bias == pytest.approx(sum(own) / MODELS)
    assert found.mape == pytest.approx(sum(map(abs, own)) / MODELS)
    assert found.p90 == pytest.approx(max(map(abs, own)))
    assert score(trials, "flops").coverage is None
    higher = replace(trials.networks[0], repeats_j=(1.0, 1.0), predictions=trials.networks[0].predictions)
    assert higher.covered("ampere") is False


class Refusing(SimulatedDevice):
    """A simulated device that has measured enough."""

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        raise AssertionError(f"{workload} was measured before")

    def time(self, workload: Workload) -> Timing:
        raise AssertionError(f"{workload} was timed before")


def test_what_is_recorded_is_not_measured_again(folder: Path) -> None:
    record(asked(), folder, Refusing(0.01))
    with pytest.raises(RequestError, match=r"has budget_s of .*, not .*; ask as it does, or record to another folder"):
        record(asked(budget_s=61.0), folder, Refusing(0.01))


def test_a_campaign_that_was_saved_is_not_prolonged(folder: Path, tmp_path: Path) -> None:
    """Its time was told when it ended: what it learnt later would not be in it."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    lines = (folder / "campaign.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "campaign.jsonl").write_bytes(b"".join(lines[:-5]))
    record(asked(), tmp_path, Refusing(0.01))
    assert (tmp_path / "campaign.jsonl").read_bytes() == b"".join(lines[:-5])


def test_an_interrupted_experiment_goes_on(tmp_path: Path) -> None:
    class Dying(SimulatedDevice):
        left = 3

        def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
            if procedure == MEMBER:
                self.left -= 1
                if self.left < 0:
                    raise KeyboardInterrupt
            return super().measure(workload, procedure)

    told: list[Status | str] = []
    with pytest.raises(KeyboardInterrupt):
        record(asked(), tmp_path, Dying(0.01), parts=QUICK, observe=lambda part, status: told.append(status))
    assert told[-1] == f"3 of {2 * MODELS}"
    record(asked(), tmp_path, SimulatedDevice(0.01), parts=QUICK)
    members = MeasurementLog(tmp_path / "members.jsonl").read()
    assert [r.workload.widths for r in members] == list(asked().members) * 2  # type: ignore[union-attr]
    (trials,) = rescore(load(tmp_path))
    assert "neuralpower" not in trials.methods
    assert score(trials, "ampere").mape < 0.03


def test_interrupted_refining_goes_on(folder: Path, tmp_path: Path) -> None:
    whole = MeasurementLog(folder / "refined.jsonl").read()
    assert len(whole) > 3
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    lines = (folder / "refined.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "refined.jsonl").write_bytes(b"".join(lines[:-2]))
    fresh: list[str] = []

    class Counting(SimulatedDevice):
        def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
            fresh.append(str(workload))
            return super().measure(workload, procedure)

        def time(self, workload: Workload) -> Timing:
            fresh.append(str(workload))
            return super().time(workload)

    record(asked(), tmp_path, Counting(0.01), parts=(Part.REFINED,))
    again = MeasurementLog(tmp_path / "refined.jsonl").read()
    kept = len(whole) - 2
    assert again[:kept] == whole[:kept]
    assert fresh == [str(r.workload) for r in again[kept:]]
    assert fresh[0] == str(whole[kept].workload)


class Dearer(SimulatedDevice):
    """Other cards: each takes a tenth more than the one before."""

    def _energy_j(self, block: Block) -> float:
        return (1 + 0.1 * self.seed) * super()._energy_j(block)


def test_other_methods_measurements_may_be_of_another_card(folder: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for place in (here, there):
        place.mkdir()
        for name in ("experiment.json", "campaign.json", "campaign.jsonl", "members.jsonl", "profile.json"):
            shutil.copy(folder / name, place / name)
    other = Dearer(0.01, seed=1)
    with pytest.raises(
        RequestError, match=r"this is simulated .*; record to another folder; .* operators,paper can go"
    ):
        record(asked(), there, other, parts=(Part.SHORT, Part.OPERATORS))
    assert not (there / "anchors.jsonl").exists()
    others = (Part.OPERATORS, Part.PAPER)
    record(asked(), here, SimulatedDevice(0.01), parts=others)
    assert not (here / "anchors.jsonl").exists()
    record(asked(), there, other, parts=others)
    again = load(there)
    assert again.card_scale(Part.OPERATORS) == again.card_scale(Part.PAPER) == pytest.approx(1 / 1.1, rel=0.02)
    assert again.card_scale(Part.MEMBERS) == 1.0
    own, elsewhere = rescore(load(here))[0], rescore(again)[0]
    for method in ("neuralpower", "paper"):
        assert score(elsewhere, method).bias == pytest.approx(score(own, method).bias, abs=0.03)
    interval = elsewhere.networks[0].predictions["paper"].interval_j
    assert interval is not None
    assert interval[0] < elsewhere.networks[0].predictions["paper"].energy_j < interval[1]
    record(asked(), there, Refusing(0.01, seed=1), parts=others)  # all is there
    (there / "paper.jsonl").unlink()
    record(asked(), there, Dearer(0.01, seed=2), parts=(Part.PAPER,))
    third = load(there)
    assert third.card_scale(Part.OPERATORS) == again.card_scale(Part.OPERATORS)
    assert third.card_scale(Part.PAPER) == pytest.approx(1 / 1.2, rel=0.02)
    assert score(rescore(third)[0], "paper").bias == pytest.approx(score(own, "paper").bias, abs=0.03)
    (there / "anchors.jsonl").unlink()
    with pytest.raises(FileError, match="parts of another card, and no blocks that were metered on both"):
        rescore(load(there))


def test_what_is_no_other_card_of_the_make_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for name in ("operators.jsonl", "paper.jsonl"):
        (tmp_path / name).unlink()

    class Renamed(SimulatedDevice):
        info = DeviceInfo("cuda", (("gpu", "another"),))  # type: ignore[assignment]

    class Modelled(SimulatedDevice):
        meter = MeterInfo("cputime", Provenance.MODELLED, ("cpu",))  # type: ignore[assignment]

    class Broken(SimulatedDevice):
        def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
            return replace(super().measure(workload, procedure), windows=(), infeasible="out of memory")

    for device in (Renamed(0.01), Modelled(0.01, seed=1), Modelled(0.01)):
        with pytest.raises(RequestError, match=r"this is .*; record to another folder$"):
            record(asked(), tmp_path, device, parts=(Part.OPERATORS,))
    with pytest.raises(DeviceError, match="none of its blocks runs here"):
        record(asked(), tmp_path, Broken(0.01, seed=1), parts=(Part.OPERATORS,))
    assert not (tmp_path / "operators.jsonl").exists()
    (tmp_path / "campaign.jsonl").write_text("")
    (tmp_path / "anchors.jsonl").unlink()
    record(asked(), tmp_path, SimulatedDevice(0.01), parts=(Part.OPERATORS,))  # the saved profile is of this device


def test_packed_logs_score_alike(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        if path.suffix == ".jsonl":
            (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        else:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    assert rescore(replace(load(tmp_path), name=folder.name)) == rescore(load(folder))


def test_no_or_half_an_experiment(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no experiment"):
        load(tmp_path)
    record(asked(), tmp_path, SimulatedDevice(0.01), parts=(Part.CAMPAIGN,))
    with pytest.raises(FileError, match="not finished"):
        load(tmp_path)
    (tmp_path / "members.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(FileError, match="cannot be unpacked"):
        load(tmp_path)
    (tmp_path / "experiment.json").write_text(json.dumps({"family": "lenet5"}))
    with pytest.raises(FileError):
        load(tmp_path)


def captured(measured: Measurement) -> Measurement:
    """As a CUDA device would report it: the captured step takes half of the eager one."""
    if measured.workload.training.mode is not Mode.EAGER:
        return measured
    busy = tuple(Window(w.energy_j / 2, w.time_s / 2, w.iterations) for w in measured.windows)
    return replace(measured, busy=busy, host_s=2 * measured.time_s, idle_w=10.0)


class Capturing(SimulatedDevice):
    """A simulated device that reports captured steps too."""

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        return captured(super().measure(workload, procedure))

    def time(self, workload: Workload) -> Timing:
        found = super().time(workload)
        assert found.device_s is not None
        return replace(found, device_s=found.device_s / 2, host_s=2 * found.device_s)


def test_eager_records_tell_of_captured_steps() -> None:
    experiment = asked()
    ref = experiment.ref(experiment.members[0])
    eager = SimulatedDevice().measure(ref, Procedure(2, 0, 0.0, 0.0))
    assert as_graph(eager) is None, "it was not captured"
    found = as_graph(captured(eager))
    assert isinstance(found, Measurement)
    assert found.workload.training.mode is Mode.GRAPH
    assert found.energy_j == eager.energy_j / 2
    assert found.host_s is None
    spec, _ = experiment.scope(Mode.EAGER)
    variant = Variant(spec.blocks[:1], phase=Phase.FORWARD)
    again = as_graph(captured(SimulatedDevice().measure(variant, Procedure(2, 0, 0.0, 0.0))))
    assert again is not None
    assert isinstance(again.workload, Variant)
    assert again.workload.phase is Phase.FORWARD
    assert again.workload.training.mode is Mode.GRAPH
    assert as_graph(again) is again


def test_one_experiment_serves_both_modes(tmp_path: Path) -> None:
    record(asked(), tmp_path, Capturing(0.01), parts=(*QUICK, Part.SHORT, Part.OPERATORS))
    eager, graph = rescore(load(tmp_path))
    assert (eager.training.mode, graph.training.mode) == (Mode.EAGER, Mode.GRAPH)
    for a, b in zip(eager.networks, graph.networks, strict=True):
        assert b.measured_j == pytest.approx(a.measured_j / 2)
    assert score(graph, "ampere").mape < 0.04
    assert score(graph, "run20").mape < 0.04
    assert "neuralpower" in graph.methods


def test_captured_steps_take_the_eager_fit_only_where_both_saw_the_same() -> None:
    recorded = load(DATA / "h200" / "transformer-any")
    (eager, seen), (graph, same) = recorded.campaign(Mode.EAGER), recorded.campaign(Mode.GRAPH)
    first = fitted(eager, len(seen))
    assert first is not None
    assert first.host is not None
    taken, own = fitted(graph, len(same), twin=first), fitted(graph, len(same))
    assert taken is not None
    assert own is not None
    assert (taken.subjects, taken.observations, taken.host) == (own.subjects, own.observations, None)
    assert taken.noise == pytest.approx(own.noise)
    assert taken.time_hyper[0].scales[0] == pytest.approx(own.time_hyper[0].scales[0])
    other = replace(first, observations=first.observations[:-1])
    assert fitted(graph, len(same), twin=other) == own, "its own fit"


@pytest.mark.parametrize("family", ["lenet5", "transformer"])
def test_members_are_what_each_of_them_parsed_would_be(family: str) -> None:
    experiment = asked(family)
    for spec, widths in zip(experiment.specs(Mode.EAGER), experiment.members, strict=True):
        own = parse_ref(experiment.ref(widths))
        assert (spec.blocks, spec.widths, spec.training) == (own.blocks, own.widths, own.training)
