"""The studies in small, and what is asked of their committed results."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from benchmarks.hardware.cudnn_kernels import DRAWN, SLOW_MS, by_fill, by_hidden, recorded
from benchmarks.pages import fit, render
from benchmarks.pages.families import bars, of_plan
from benchmarks.results import DATA, RESULTS, result_of
from benchmarks.studies import additive_device, killed_campaigns, lab_networks, search
from benchmarks.studies.acquisition_rules import CHANCE


@pytest.mark.parametrize("name", render.PAGES)
def test_the_pages_show_what_is_recorded(name: str) -> None:
    page = render.FOLDER / f"{name}.md"
    assert page.read_text() == render.rendered(page), "run make results"


def test_every_page_of_results_is_rendered() -> None:
    assert {path.stem for path in render.FOLDER.glob("*.md")} == render.PAGES.keys()


def test_what_is_asked_on_a_card_is_reached() -> None:
    every = of_plan("h200", result_of("evaluation"))
    sets = {name: found for name, found in every.items() if "bf16" not in name}
    assert (len(sets), len(every)) == (32, 38)
    inside, missed = [], []
    for name, found in sets.items():
        scores, asked = found["scores"], bars(found)
        own = scores["ampere"]
        inside.append(own["coverage"])
        missed += [name] if own["mape"] > asked.error else []
        assert found["wall_s"] <= asked.wall_s, name
        assert own["mape"] <= 0.5 * scores["flops"]["mape"], name
        if asked.rank is not None:  # else what refining saw of the host was true at that moment, and the page says so
            assert scores["refined"]["mape"] <= asked.refined, name
            assert own["spearman"] >= asked.rank, name
            rivals = ("flops", "flops_affine", "flops_bytes", "neuralpower")
            assert own["mape"] < min(scores[method]["mape"] for method in rivals), name
    assert missed == ["cnn5_10-aligned eager"], "which docs/results/README.md says"
    assert 0.85 <= statistics.fmean(inside) <= 0.95


def test_the_committed_study_holds() -> None:
    results = {name: entry["result"] for name, entry in json.loads(RESULTS.read_text()).items()}
    for name in ("lenet5", "cnn5"):
        for errors in results["additive"][f"{name}, noise 0, close rules"].values():
            assert errors["worst error"] < 0.01
        for rules in ("default", "close"):
            for errors in results["additive"][f"{name}, noise 0.03, {rules} rules"].values():
                assert errors["mean error"] < 0.03
    assert all(v < 1e-6 for k, v in results["oracle"].items() if k.startswith("largest"))
    assert results["oracle"]["least gain in log likelihood when fitted"] > -1e-6
    assert results["kills"]["kills"] >= 50
    assert results["kills"]["lost"] == results["kills"]["twice"] == 0
    assert results["counters"]["wraps"]["traces"] >= 10_000
    assert results["counters"]["wraps"]["worst relative error"] < 1e-9
    assert results["counters"]["wraps"]["falls"] == 0
    assert results["counters"]["resets"]["missed"] == results["counters"]["resets"]["invented"] == 0
    assert results["counters"]["faults"]["raised"] == results["counters"]["faults"]["faults"] >= 1_000
    assert results["counters"]["faults"]["most invented J"] < 1e-6
    assert results["phases"]["windows"] >= 1_000
    assert results["phases"]["inside the stated interval"] >= 0.95
    assert results["phases"]["short windows refused"] == 1.0


def test_the_recorded_networks_are_met() -> None:
    """The bars of the estimation engine, on the committed scores and on one set scored anew."""
    result = result_of("lab")
    for (name, mode), bar in fit.BARS.items():
        assert result[name][mode]["mape"] <= bar, (name, mode)
    four = [result[name][mode] for name in ("g_big", "g_small") for mode in ("graph", "eager")]
    assert sum(found["mape"] for found in four) / 4 <= fit.MEAN_BAR
    assert all(found["mape"] <= found["paper"] for found in four)
    assert 0.85 <= result["pooled coverage"] <= 0.95
    aligned = next(found for found in lab_networks.sets() if found.name == "aligned")
    again = lab_networks.graph(aligned, lab_networks.learnt(aligned))
    for mode, found in again.items():
        assert found["mape"] == pytest.approx(result["aligned"][mode]["mape"], rel=0.02)


def test_intervals_and_hostile_files_hold_on_the_simulator() -> None:
    results = {name: entry["result"] for name, entry in json.loads(RESULTS.read_text()).items()}
    assert results["calibration"]["worlds"] >= 200
    assert 0.85 <= results["calibration"]["coverage"] <= 0.95
    assert results["hostile"]["cases"] >= 10_000
    assert results["hostile"]["other errors"] == 0
    for found in results["rules"].values():
        assert found["mean share"]["variance"] <= 0.75
        assert found["mean share"]["random"] <= 0.5
        assert found["mean share"][CHANCE] <= 0.58, "asked is a half; the docs say where it is missed"
        assert all(entry["guided / other"]["random"] < 1 for entry in found["errors"])


def test_every_model_is_estimated_as_it_is() -> None:
    result = result_of("zoo")
    assert result["models"] >= 54
    assert result["mean error"] < 0.02
    assert result["worst error"] < 0.06
    assert result["covered"] >= 0.85
    assert all(entry["complete"] for entry in result["each"].values())


def test_the_recorded_card_keeps_the_meters_promises() -> None:
    record = json.loads((DATA / "h200-meter" / "meter.json").read_text())
    assert record["repeats graph"]["energy_j"]["relative std"] < 0.01
    assert record["repeats eager"]["energy_j"]["relative std"] < 0.03
    for mode in ("eager", "graph"):
        assert record[f"slowdown {mode}"]["median slowdown"] < 0.01
    assert abs(record["agreement"]["difference"]) < 0.05
    assert record["agreement"]["seconds"] >= 10
    assert record["identical"]["with meter equals without"]


def test_cudnn_chooses_by_how_full_the_last_tile_of_a_sum_is() -> None:
    """The recorded lines of widths that decisions 020 and 022 rest on, without an exception."""
    assert by_fill("conv") == {("direct", True): 27, ("tensor cores", False): 34}
    assert by_fill("conv1d") == {("direct", True): 41, ("tensor cores", False): 116}


def test_an_lstm_steps_with_strips_of_its_hidden_width() -> None:
    """Within a strip of 32 neighbours are within a tenth; from strip to strip, a quarter and more apart."""
    times = by_hidden()
    for bound in (96, 128, 160, 192):
        below, above = [times[bound - i] for i in range(4)], times[bound + 1]
        assert max(below) < 1.1 * min(below)
        assert abs(above / times[bound] - 1) > 0.25


@pytest.mark.parametrize("size", ["1", "2", "3", "whole"])
@pytest.mark.parametrize("name", ["lenet5", "cnn5"])
def test_an_additive_device_is_recovered_within_one_percent(
    name: str, size: str, without_noise: dict[str, dict[str, dict[str, float]]]
) -> None:
    assert without_noise[name][size]["max"] < 0.01


@pytest.mark.parametrize("size", ["1", "2", "3", "whole"])
@pytest.mark.parametrize("name", ["lenet5", "cnn5"])
def test_with_noise_the_mean_error_stays_under_three_percent(
    name: str, size: str, with_noise: dict[str, dict[str, dict[str, float]]]
) -> None:
    assert with_noise[name][size]["mean"] < 0.03


@pytest.fixture(scope="module")
def without_noise() -> dict[str, dict[str, dict[str, float]]]:
    return {
        name: additive_device.recover(name, 0.0, 0, 50, additive_device.RULES["close"]) for name in ("lenet5", "cnn5")
    }


@pytest.fixture(scope="module")
def with_noise() -> dict[str, dict[str, dict[str, float]]]:
    return {
        name: additive_device.recover(name, 0.03, 1, 50, additive_device.RULES["default"])
        for name in ("lenet5", "cnn5")
    }


def test_killed_campaigns_lose_and_repeat_nothing(tmp_path: Path) -> None:
    found = killed_campaigns.run(kills=6, folder=tmp_path, seed=1)
    assert found["kills"] == 6
    assert (found["lost"], found["twice"]) == (0, 0)


def test_a_search_costs_little_and_finds_the_front() -> None:
    """The committed study, and a coarser space searched anew."""
    result = result_of("search")
    assert result["members"] == 131_072
    assert result["trials"] >= 2_000
    assert result["times cheaper"] >= 100
    assert result["measuring one_s"] == pytest.approx(search.measuring_s())
    assert min(result["hypervolume"]) >= 0.95
    assert min(found["score / best"] for found in result["gradients"]) >= 0.95
    space = search.recorded_space(step=16)
    whole = search.Whole(space)
    found, seconds = search.searched(600, 0, step=16)
    assert space.size == 8_192
    assert found.trials == 600
    assert whole.share(whole.front) == pytest.approx(1)
    assert 0.95 < whole.share(search.losses_of(found)) < 1
    assert whole.share(search.losses_of(found)) > whole.share(search.losses_of(search.at_random(space, 600, 0)))
    assert seconds < 600 * search.measuring_s() / 20  # on a machine that may be busy


def test_a_convolution_is_slow_where_it_finds_memory_and_stays_fast_where_it_found_none() -> None:
    free, taken, after = (
        seen["ms"] for seen in recorded("memory") if (seen["a"], seen["b"], seen["batch"]) == (120, 18, 16384)
    )
    assert free > 25 * taken
    assert after == pytest.approx(taken, rel=0.1)


def test_a_convolution_is_slow_in_two_boxes_of_widths() -> None:
    """Decision 033: a large one, and one of half a percent of all widths."""
    rows = recorded("slow")
    slow = [(row["a"], row["b"]) for row in rows if row["ms"] > SLOW_MS]
    assert max(row["ms"] for row in rows if row["ms"] <= SLOW_MS) < 16
    small = {(a, b) for a, b in slow if a < 60}
    assert {a for a, _ in small} == {28, 29, 30, 31}
    assert max(b for _, b in small) == 42
    assert all(a >= 67 and 17 <= b <= 66 for a, b in slow if (a, b) not in small)
    anywhere = [row["ms"] > SLOW_MS for row in rows[:DRAWN]]
    assert sum(anywhere) / DRAWN == pytest.approx(0.113, abs=0.001)
