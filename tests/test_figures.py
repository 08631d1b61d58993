from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ampere_energy.evaluation.evaluate import rescore, score
from ampere_energy.evaluation.experiment import Part, random_experiment, record
from ampere_energy.evaluation.recorded import load
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import POINT
from ampere_energy.model.training import Training
from benchmarks.hardware import families
from benchmarks.pages import figures
from benchmarks.results import DATA
from benchmarks.studies.families import run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a plan records, in small, on the simulated device."""
    folder = tmp_path_factory.mktemp("recorded") / "cpu"
    with contextlib.closing(SimulatedDevice(0.01)) as device:
        for name, parts in (("cnn5", (Part.MEMBERS, Part.OPERATORS)), ("transformer", (Part.MEMBERS,))):
            asked = random_experiment(name, (), Training(10), models=4, seed=1, step=1, budget_s=60.0)
            record(replace(asked, target=0.5), folder / f"{name}-any", device, parts=parts)
        for name, variants in (("depth", families.depth_sweep()), ("linear", families.linear_sweep())):
            log = MeasurementLog(folder / f"{name}.jsonl")
            for variant in variants:
                log.append(device.measure(variant, POINT))
    return folder


def numbers(svg: str) -> list[float]:
    """What a plot's marks carry."""
    return [float(value) for value in re.findall(r'data-[xy]="([^"]+)"', svg)]


def test_every_figure_whose_data_is_recorded_is_drawn(data: Path) -> None:
    made = figures.figures(data)
    assert {name.split("-", 1)[1] for name in made} == {
        "2-depth.svg", "4-gp-steps.svg", "5-linear.svg", "6-time-energy.svg", "7-against.svg", "8-errors.svg",
        "9-transformer.svg", "11-surface.svg", "12-differences.svg",
    }  # fmt: skip
    assert all(text.startswith("<svg") for text in made.values())
    (trials,) = rescore(load(data / "cnn5-any"))
    for member in trials.networks:
        predicted = member.predictions["ampere"].energy_j
        assert f'data-x="{member.measured_j:.6g}" data-y="{predicted:.6g}"' in made["cpu-7-against.svg"]
    assert f'data-y="{100 * score(trials, "flops").mape:.6g}"' in made["cpu-8-errors.svg"]


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plan", families.PLANS)
def test_the_committed_figures_are_what_the_data_gives(plan: str) -> None:
    found = figures.figures(DATA / plan)
    kept = {path.name: path.read_text() for path in figures.FIGURES.glob(f"{plan}-*.svg")}
    assert kept.keys() == found.keys()
    for name, text in found.items():  # on another machine the last digits of a fit differ
        assert numbers(kept[name]) == pytest.approx(numbers(text), rel=0.02, abs=1e-3), name


def test_packed_experiments_are_found_and_scored(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "DATA", tmp_path)
    families.pack(data)
    assert not list(tmp_path.rglob("*.jsonl"))
    assert not list(tmp_path.rglob("profile.json"))
    found = run()
    (trials,) = rescore(load(data / "cnn5-any"))
    assert found["cpu/cnn5-any eager"]["scores"]["ampere"]["mape"] == score(trials, "ampere").mape
    assert found.keys() == {"cpu/cnn5-any eager", "cpu/transformer-any eager"}
