from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, chromium

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.errors import FileError
from ampere_energy.estimation.curves import largest_step
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.profiles.bundles.catalogue import load_bundled
from ampere_energy.reporting.evaluated_sets import is_evaluation, read_sets
from ampere_energy.reporting.profile_page import profile_page
from ampere_energy.reporting.report import evaluation_page
from benchmarks.specs import spec_of

RECORDED = Path(__file__).parents[2] / "data" / "h200-cnn5"
GRAPH = "nvidia-h200", "cnn5-128x3x64x64-graph"


def scored(mape: float, **more: float) -> dict[str, float]:
    return {"mape": mape, "bias": -mape / 2, "p90": 2 * mape, **more}


def evaluated(family: str, members: int, scale: float = 1.0) -> dict[str, Any]:
    """A set in the shape that `ampere evaluate --json` prints."""
    found = []
    for i in range(1, members + 1):
        energy = scale * i * i
        ours = {"energy_j": energy * 1.05, "interval_j": [energy * 0.9, energy * 1.2]}
        predictions = {"ampere": ours, "flops": {"energy_j": energy * 0.5}}
        found.append({"widths": [i, 2 * i], "measured_j": energy, "predictions": predictions})
    about = {"family": family, "device": "cuda", "mode": "graph", "widths": "any", "batch": 128}
    scores = {"ampere": scored(0.05, spearman=1.0, coverage=1.0), "flops": scored(0.5, spearman=1.0)}
    more: dict[str, Any] = {
        "models": members,
        "points": 40,
        "profile_s": 90.0,
        "profile_j": 9000.0,
        "floor": 0.002,
        "level": 0.9,
    }
    more["identity"] = {"name": "cuda", "details": [["gpu", "NVIDIA H200"]]}
    return {**about, **more, "scores": scores, "members": found}


def written(folder: Path, records: Any) -> Path:
    path = folder / "evaluation.json"
    path.write_text(records if isinstance(records, str) else json.dumps(records))
    return path


def marks(page: str, title: str) -> list[tuple[str, float, float]]:
    """Series, x and y of the marks of the plots with a title."""
    found = []
    for plot in re.findall(rf'<svg[^>]*aria-label="{re.escape(title)}.*?</svg>', page, re.DOTALL):
        found += re.findall(r'class="mark[^>]*data-series="([^"]*)" data-x="([^"]*)" data-y="([^"]*)"', plot)
    return [(unescape(series), float(x), float(y)) for series, x, y in found]


def test_the_page_of_sets_carries_their_numbers(tmp_path: Path) -> None:
    sets = read_sets(written(tmp_path, [evaluated("cnn5", 4), evaluated("lenet5", 3, scale=0.01)]))
    page = evaluation_page(sets)
    assert sorted(marks(page, "Mean absolute error")) == [
        ("ampere", 0, 5),
        ("ampere", 1, 5),
        ("flops", 0, 50),
        ("flops", 1, 50),
    ]
    points = marks(page, "Predicted against measured")
    assert len(points) == 2 * (4 + 3)
    assert ("ampere", 16, 16.8) in points
    assert ("flops", 0.09, 0.045) in points
    errors = marks(page, "Errors by network")
    assert {(series, round(y)) for series, _, y in errors} == {("ampere", 5), ("flops", -50)}
    assert marks(page, "How many networks err")[3] == ("ampere", 5, 100)
    assert page.count('<section id="set-') == 2
    assert "cuda (gpu NVIDIA H200)" in page
    assert "40 networks, measured in 90.0 s, 9.00 kJ" in page
    assert "inside the 90% interval" in page
    assert not re.search(r"[\" >]nan[\" <]", page)
    assert not re.search(r"https?://|src=|@import|url\(", page)  # opens offline


def test_evaluations_recorded_before_there_were_several_methods_are_read() -> None:
    (one,) = sets = read_sets(RECORDED / "evaluation.json")
    assert list(one.scores) == ["paper"]
    assert len(one.networks) == 8
    errors = [abs(member.error("paper")) for member in one.networks]
    assert np.mean(errors) == pytest.approx(one.scores["paper"]["mape"])
    assert len(marks(evaluation_page(sets), "Predicted against measured")) == 8


def test_a_set_without_members_shows_its_scores_alone(tmp_path: Path) -> None:
    record = evaluated("cnn5", 2)
    del record["members"]
    page = evaluation_page(read_sets(written(tmp_path, [record])))
    assert len(marks(page, "Mean absolute error")) == 2
    assert "Predicted against" not in page


def test_names_in_a_file_are_text(tmp_path: Path) -> None:
    record = evaluated("<script>alert(1)</script>", 2)
    record["scores"]['"><img>'] = scored(0.1)
    record["members"][0]["predictions"]['"><img>'] = {"energy_j": 1.0}
    page = evaluation_page(read_sets(written(tmp_path, [record])))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert ('"><img>', 1, 1) in marks(page, "Predicted against measured")


def spoilt(change: Callable[[dict[str, Any]], object]) -> list[dict[str, Any]]:
    record = evaluated("cnn5", 2)
    change(record)
    return [record]


@pytest.mark.parametrize(
    ("records", "what"),
    [
        ("[1, 2", "is not JSON"),
        ([], "has no list"),
        ({"schema": 2}, "has no list"),
        ([7], "has no scores"),
        (spoilt(lambda r: r["scores"]["flops"].pop("mape")), "no mape of flops"),
        (spoilt(lambda r: r.update(floor=True)), "floor has True, which is no number"),
        (spoilt(lambda r: r["members"][1].update(measured_j=0)), r"members\[1\] has a measured energy of 0 J"),
        (spoilt(lambda r: r["members"][0].update(measured_j=10**400)), "which is no number"),
        (spoilt(lambda r: r["members"][0].pop("predictions")), "has no predictions"),
        (spoilt(lambda r: r["members"][0]["predictions"]["flops"].update(energy_j=float("nan"))), "nan, which is no"),
        (spoilt(lambda r: r["members"][0]["predictions"]["ampere"].update(interval_j=[1])), "without two ends"),
        (spoilt(lambda r: r.update(members=3)), "networks that are no list"),
        (spoilt(lambda r: r.update(identity=[])), "identity should be an object"),
    ],
)
def test_a_file_that_is_no_evaluation_is_refused_with_the_place(tmp_path: Path, records: Any, what: str) -> None:
    with pytest.raises(FileError, match=what):
        read_sets(written(tmp_path, records))


def test_an_evaluation_is_told_from_a_profile(tmp_path: Path) -> None:
    assert is_evaluation(RECORDED / "evaluation.json")
    load_bundled(*GRAPH).save(tmp_path / "profile.json")
    assert not is_evaluation(tmp_path / "profile.json")
    assert not is_evaluation(tmp_path / "none.json")
    with pytest.raises(FileError, match="cannot be read"):
        read_sets(tmp_path / "none.json")


def test_the_page_of_a_recorded_profile() -> None:
    learnt = load_bundled(*GRAPH)
    assert learnt.nets is not None
    page = profile_page(learnt)
    for told in ("NVIDIA H200", "batch 128 with sgd in graph mode", "nvml", "2026-11-15", "419 networks"):
        assert told in page
    step = largest_step(learnt)
    assert step.whole
    assert step.interval_j[0] < step.energy_j < step.interval_j[1]
    parts = marks(page, "Joules of one training step")
    assert sum(y for _, _, y in parts) == pytest.approx(step.energy_j, rel=1e-3)
    curves = marks(page, "Energy with its 90% band")
    metered = {(o.blocks[0][1], o.energy_j) for o in learnt.nets.observations if len(o.blocks) == 1 and o.energy_j}
    shown = {(x, y) for series, x, y in curves if series == "metered"}
    assert (64, float(f"{next(e for point, e in metered if point == (64,)):.6g}")) in shown
    kind = learnt.cost_model.known_kinds()[0]
    at = kind.at(np.array([[32.0]]))
    assert ("predicted", 32, float(f"{at.energy_j[0]:.6g}")) in curves
    assert at.low_j[0] < at.energy_j[0] < at.high_j[0]
    assert page.count('aria-label="Energy over two widths') == 3
    assert page.count("<tr") == 1 + len(learnt.nets.subjects)
    errors, _ = learnt.nets.left_out()
    assert len(marks(page, "Predicted from all others")) == len(errors)
    assert not re.search(r"https?://|src=|@import|url\(", page)


def test_the_page_of_a_profile_by_the_papers_method() -> None:
    learnt = profile(spec_of("lenet5"), device=SimulatedDevice(0.01), rules=Rules(points=3), method="paper")
    page = profile_page(learnt)
    assert "SIMULATED" in page
    assert not largest_step(learnt).whole
    assert "One block of each kind" in page
    assert len(marks(page, "Joules of one training step")) == len(learnt.kinds)
    values = {float(f"{v:.6g}") for fit in learnt.kinds if len(fit.domain) == 1 for v in fit.energy.values}
    assert {y for series, _, y in marks(page, "Energy with its 90% band") if series == "metered"} >= values


def test_kinds_of_one_width_stand_in_the_table_and_have_no_curves() -> None:
    learnt = profile(replace(spec_of("lenet5"), widths=(), follows=()), device=SimulatedDevice(0.01))
    kinds = learnt.cost_model.known_kinds()
    varied = [kind for kind in kinds if any(len(allowed) > 1 for allowed in kind.domain)]
    assert 0 < len(varied) < len(kinds)
    page = profile_page(learnt)
    assert page.count('aria-label="Energy with its') == len(varied)
    assert page.count("<tr") == 1 + len(kinds)


@pytest.mark.skipif(chromium() is None, reason="no Chromium is installed to open the page in")
def test_the_pages_work_in_a_browser_and_ask_nobody_for_anything(tmp_path: Path) -> None:
    sets, kinds = tmp_path / "sets.html", tmp_path / "profile.html"
    records = [evaluated("cnn5", 4), evaluated("lenet5", 3, scale=0.01)]
    sets.write_text(evaluation_page(read_sets(written(tmp_path, records))))
    kinds.write_text(profile_page(load_bundled(*GRAPH)))
    seen = "[...document.querySelectorAll('{}')].filter(e => e.getClientRects().length).length"
    with Browser(chromium() or "", tmp_path / "home") as browser:
        browser.open(sets)
        points = seen.format("#set-0 svg[aria-label^=Predicted] .mark[data-series=flops]")
        assert browser.value(points) == 4
        assert browser.value(seen.format("section")) == 1
        browser.value("document.querySelector('nav button[data-series=flops]').click()")
        assert browser.value(points) == 0
        assert browser.value(seen.format("#set-0 svg[aria-label^=Predicted] .mark[data-series=ampere]")) == 4
        browser.value(
            "document.querySelector('#set-0 .key[data-series=flops]')"
            ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
        )
        assert browser.value(points) == 4
        browser.value("location.hash = '#set-1'")
        browser.value("dispatchEvent(new Event('hashchange'))")
        assert [browser.value(seen.format(f"#set-{i}")) for i in (0, 1)] == [0, 1]
        column = "[...document.querySelectorAll('#set-1 table')].pop().tBodies[0].rows"
        errors = f"[...{column}].map(row => Number(row.cells[5].dataset.value))"
        head = "[...[...document.querySelectorAll('#set-1 table')].pop().tHead.rows[0].cells][5]"
        for ascending in (True, False):
            browser.value(f"{head}.click()")
            assert browser.value(errors) == sorted(browser.value(errors), reverse=not ascending)
        assert browser.value(errors)[0] == pytest.approx(0.05)
        mark = "document.querySelector('#set-1 svg[aria-label^=Predicted] .mark[data-series=ampere]')"
        browser.value(f"{mark}.dispatchEvent(new PointerEvent('pointermove', {{bubbles: true}}))")
        assert "ampere 10.5 mJ" in browser.value("document.getElementById('tip').textContent")
        light = browser.value("getComputedStyle(document.body).backgroundColor")
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        assert browser.value("getComputedStyle(document.body).backgroundColor") != light

        browser.open(kinds)
        at = load_bundled(*GRAPH).cost_model.known_kinds()[0].at(np.array([[32.0]])).energy_j[0]
        curve = 'document.querySelector(\'svg[aria-label^="Energy with"] .mark[data-x="32"]\').dataset.y'
        assert float(browser.value(curve)) == pytest.approx(at, rel=1e-5)
        sort = "document.querySelector('th:nth-child(5)').click(), [...document.querySelectorAll('td:nth-child(5)')]"
        found = browser.value(f"{sort}.map(cell => Number(cell.dataset.value))")
        assert found == sorted(found)
        assert len(found) == 5

        browser.ask("Emulation.setScriptExecutionDisabled", value=True)
        browser.open(sets)  # without its script: everything is there, and nothing that only the script could serve
        assert browser.value(seen.format("section")) == 2
        assert browser.value(seen.format("nav button")) == 0
        assert browser.value(seen.format("svg[aria-label^=Predicted] .mark")) == 14
        assert {request.split(":")[0] for request in browser.requests()} == {"file"}
        assert browser.complaints() == []
