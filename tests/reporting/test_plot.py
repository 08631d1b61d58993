from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest

from ampere_energy.reporting.axes import Axis, fit_scale
from ampere_energy.reporting.plot import Cell, Mark, Series, bars, cdf, heat, lines, scatter

JOULES = Axis("measured", "J")
Tree = ElementTree.Element


def drawn(svg: str) -> Tree:
    return ElementTree.fromstring(svg)


def marks(svg: str) -> list[tuple[str | None, float, float]]:
    found = [e for e in drawn(svg).iter() if "mark" in (e.get("class") or "").split()]
    assert all(any(child.tag.endswith("title") and child.text for child in e) for e in found)
    return [(e.get("data-series"), float(e.get("data-x") or "nan"), float(e.get("data-y") or "nan")) for e in found]


def texts(svg: str) -> list[str]:
    return ["".join(e.itertext()) for e in drawn(svg).iter() if e.tag.endswith("text")]


def test_a_scatter_carries_its_numbers_whiskers_and_diagonal() -> None:
    ours = Series("ours", [Mark(1.0, 1.1, (0.9, 1.3), "6,16"), Mark(2.0, 1.9, (1.6, 2.2))])
    flops = Series("flops", [Mark(1.0, 2.5)], 1)
    svg = scatter("Predicted", [ours, flops], JOULES, Axis("predicted", "J"))
    assert sorted(marks(svg)) == [("flops", 1, 2.5), ("ours", 1, 1.1), ("ours", 2, 1.9)]  # type: ignore[comparison-overlap]
    told = [e.text for e in drawn(svg).iter() if e.tag.endswith("title")]
    assert "6,16: ours 1.10 J (900 mJ – 1.30 J), measured 1.00 J" in told
    assert len(re.findall('class="stroke"', svg)) == 2
    assert len(re.findall('class="guide"', svg)) == 1
    assert {"ours", "flops", "measured (J)", "predicted (J)", "Predicted"} <= set(texts(svg))
    assert {e.get("data-series") for e in drawn(svg).iter() if "key" in (e.get("class") or "")} == {"ours", "flops"}


def test_a_mark_stands_where_the_axes_say() -> None:
    svg = scatter("p", [Series("s", [Mark(0.0, 0.0), Mark(10.0, 10.0), Mark(5.0, 5.0)])], JOULES, JOULES)
    places = {float(c.get("cx") or 0) for c in drawn(svg).iter() if c.tag.endswith("circle")}
    left, middle, right = sorted(places)
    assert middle == pytest.approx((left + right) / 2, abs=0.1)


def test_lines_have_a_band_and_marks_of_their_own() -> None:
    known = Series("predicted", [Mark(x, x * x, (x * x * 0.9, x * x * 1.1)) for x in (4.0, 1.0, 2.0)])
    svg = lines("Curve", [known, Series("metered", [Mark(2.0, 4.2)], 1, joined=False)], Axis("width"), JOULES)
    assert marks(svg) == [
        ("predicted", 1, 1),
        ("predicted", 2, 4),
        ("predicted", 4, 16),
        ("metered", 2, 4.2),
    ]
    (band,) = [e for e in drawn(svg).iter() if "band" in (e.get("class") or "").split()]
    assert (band.get("d") or "").count("L") == 5
    decades = lines("Curve", [known], Axis("width", log=True), Axis("energy", "J", log=True))
    assert {"1 J", "10 J", "energy (J)"} <= set(texts(decades))


def test_bars_reach_from_zero_either_way_and_say_their_labels() -> None:
    svg = bars("Errors", ["a<b", "c"], [Series("ours", [Mark(0, -5.0, label="−5 %"), Mark(1, 10.0)])], Axis("e", "%"))
    assert marks(svg) == [("ours", 0, -5), ("ours", 1, 10)]
    below, above = (e for e in drawn(svg).iter() if e.get("class") == "fill" and e.get("height") == "14")
    assert float(above.get("width") or 0) == pytest.approx(2 * float(below.get("width") or 0), abs=0.11)
    assert float(below.get("x") or 0) + float(below.get("width") or 0) == pytest.approx(float(above.get("x") or 0))
    assert {"−5 %", "e (%)"} <= set(texts(svg))


def test_a_cdf_counts() -> None:
    svg = cdf("Errors", [Series("ours", [Mark(v, 0) for v in (3.0, 1.0, 2.0, 2.0)])], Axis("error", "%", zero=True))
    assert marks(svg) == [("ours", 1, 25), ("ours", 2, 50), ("ours", 2, 75), ("ours", 3, 100)]


def test_a_heat_map_is_darkest_where_it_is_largest() -> None:
    cells = [Cell(x, y, x * y) for y in (1.0, 2.0) for x in (1.0, 3.0, 5.0)]
    svg = heat("E", cells, [Cell(5.0, 2.0, 10.5, "metered")], Axis("in"), Axis("out"), Axis("energy", "J"))
    shades = {
        float(e.get("data-value") or 0): float(e.get("fill-opacity") or 0)
        for e in drawn(svg).iter()
        if e.get("data-value") and e.get("fill-opacity")
    }
    assert sorted(shades) == sorted(shades, key=lambda value: shades[value])
    assert 0 < min(shades.values()) < max(shades.values()) <= 1
    assert len(marks(svg)) == 7
    assert "in 5, out 2: 10.5 J metered" in svg


@pytest.mark.parametrize(
    ("values", "log", "ticks"),
    [
        ([0.3, 9.7], False, [0, 2, 4, 6, 8, 10]),
        ([-0.07, 0.11], False, [-0.1, -0.05, 0, 0.05, 0.1, 0.15]),
        ([4.0], False, [2, 3, 4, 5, 6]),
        ([0.0, 0.0], False, [-1, -0.5, 0, 0.5, 1]),
        ([1e9, 1e9], False, [4e8, 6e8, 8e8, 1e9, 1.2e9, 1.4e9, 1.6e9]),
        ([0.03, 0.4], True, [0.02, 0.05, 0.1, 0.2, 0.5]),
        ([7.0], True, [2, 5, 10, 20]),
        ([1e-12, 1e12], True, [1e-12, 1e-8, 1e-4, 1, 1e4, 1e8, 1e12]),
    ],
)
def test_ticks_are_round_and_cover_the_data(values: list[float], log: bool, ticks: list[float]) -> None:
    scale = fit_scale(Axis("energy", "J", log), values, 0, 100)
    assert list(scale.ticks) == pytest.approx(ticks)
    assert all(-1e-6 <= scale.at(value) <= 100 + 1e-6 for value in values)


@pytest.mark.parametrize("low", [-3e60, 0.0, 1e-9, 0.1234, 5.0, 999.0])
@pytest.mark.parametrize("span", [0.0, 1e-12, 0.3, 7.0, 2e5, 4e80])
@pytest.mark.parametrize("tight", [False, True])
def test_axes_cover_any_data_with_few_ticks(low: float, span: float, tight: bool) -> None:
    values = [low, low + span / 3, low + span]
    scale = fit_scale(Axis("energy", "J", tight=tight), values, 0, 100)
    assert 2 <= len(scale.ticks) <= 12
    assert all(-1e-6 <= scale.at(v) <= 100 + 1e-6 for v in (*values, *scale.ticks))


def test_a_linear_axis_has_one_prefix() -> None:
    scale = fit_scale(Axis("energy", "J"), [0.0, 0.012], 0, 1)
    assert (scale.title, scale.labels) == ("energy (mJ)", ["0", "5", "10", "15"])


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e200])
def test_what_cannot_be_drawn_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="not finite or out of reason"):
        lines("p", [Series("s", [Mark(1.0, value)])], Axis("width"), JOULES)


def test_nothing_to_plot_is_an_error_that_names_the_plot() -> None:
    for nothing in ([], [Series("s", [])]):
        for draw in (scatter, lines):
            with pytest.raises(ValueError, match="The plot: nothing to plot"):
                draw("The plot", nothing, JOULES, JOULES)
        with pytest.raises(ValueError, match="The plot: nothing to plot"):
            bars("The plot", [], nothing, JOULES)
        with pytest.raises(ValueError, match="The plot: nothing to plot"):
            cdf("The plot", nothing, JOULES)
    with pytest.raises(ValueError, match="The plot: nothing to plot"):
        heat("The plot", [], [], JOULES, JOULES, JOULES)
    with pytest.raises(ValueError, match="no place on an axis of decades"):
        lines("p", [Series("s", [Mark(0.0, 1.0)])], Axis("width", log=True), JOULES)


def test_one_point_is_drawn_by_all() -> None:
    one = [Series("s", [Mark(0, 3.0)])]
    for svg in (
        scatter("p", one, JOULES, JOULES),
        lines("p", one, Axis("width", tight=True), JOULES),
        bars("p", ["only"], one, JOULES),
        cdf("p", one, JOULES),
        heat("p", [Cell(2, 2, 5.0)], [], Axis("in", tight=True), Axis("out", tight=True), JOULES),
    ):
        assert len(marks(svg)) == 1
        assert "nan" not in svg


def test_names_are_text_never_markup_and_the_same_data_gives_the_same_plot() -> None:
    def again() -> str:
        return scatter("<p>", [Series('"><script>', [Mark(1 / 3, 2 / 3, label="a&b")])], JOULES, JOULES)

    assert again() == again()
    assert "<script" not in again()
    assert 'data-x="0.333333"' in again()
    assert marks(again())[0][0] == '"><script>'


def test_a_plot_alone_brings_its_colours_for_light_and_dark() -> None:
    svg = cdf("p", [Series("s", [Mark(1, 0)])], JOULES)
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "prefers-color-scheme:dark" in svg
    used = set(re.findall(r"var\((--\w+)\)", svg))
    assert used <= set(re.findall(r"(--\w+):", svg))
