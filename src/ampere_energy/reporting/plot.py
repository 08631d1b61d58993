"""Plots as SVG text: plain functions over plain data, with nothing to install.

A plot works standing alone (in a README, light or dark by the reader's preference) and inline in a page, whose colours
it then shares: they are CSS variables of the document's root. Every mark carries its numbers (`data-series`, `data-x`,
`data-y`) for tests and for the page's script, and a `<title>` for people. Numbers are rounded to fixed digits, so the
same data gives the same text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from ampere_energy.reporting.axes import Axis, Scale, fit_scale

STYLE = (
    "<style>:root{color-scheme:light dark;--ink:#1c2430;--dim:#667085;--line:#dfe3e8;--paper:#fff;--t0:#2f6fb3;"
    "--t1:#c2410c;--t2:#2e8b57;--t3:#7c4dbd;--t4:#a16207;--t5:#0e7f8c;--t6:#be3455;--t7:#4b5563;--t8:#5f8a00}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--dim:#98a2b3;--line:#333b47;--paper:#1c2128;--t0:#6aa6e6;"
    "--t1:#fb923c;--t2:#5cc98b;--t3:#b794f4;--t4:#e0b040;--t5:#4fc3d0;--t6:#f2789a;--t7:#aab3c2;--t8:#b5d334}}"
    ".plot{font:12px system-ui,sans-serif;fill:var(--ink)}.plot .paper{fill:var(--paper)}.plot .dim{fill:var(--dim)}"
    ".plot .head{font-size:13px;font-weight:600}.plot .grid{stroke:var(--line);fill:none}"
    ".plot .guide{stroke:var(--dim);stroke-dasharray:4 4}.plot .fill{fill:currentColor}"
    ".plot .stroke{stroke:currentColor;stroke-width:1.6;fill:none}.plot .band{fill:currentColor;opacity:.18}"
    ".plot .spot{fill:var(--paper);stroke:var(--ink)}.plot .hit{fill:currentColor;opacity:0}.plot .hit:hover{opacity:1}"
    ".t0{color:var(--t0)}.t1{color:var(--t1)}.t2{color:var(--t2)}.t3{color:var(--t3)}.t4{color:var(--t4)}"
    ".t5{color:var(--t5)}.t6{color:var(--t6)}.t7{color:var(--t7)}.t8{color:var(--t8)}</style>"
)
NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'
TINTS = 9
_WIDTH, _HEIGHT = 560, 340
_LEFT, _RIGHT, _BOTTOM = 64, 20, 44
_LETTER = 6.6
_LONGEST = 60


@dataclass(frozen=True)
class Mark:
    """A value with how far it may reach, and what to say of it."""

    x: float
    y: float
    interval: tuple[float, float] | None = None
    label: str = ""


@dataclass(frozen=True)
class Series:
    """Marks of one name and colour; of `lines`, joined by a line or each by itself."""

    name: str
    marks: Sequence[Mark]
    tint: int = 0
    joined: bool = True


@dataclass(frozen=True)
class Cell:
    """A value at two widths, and what to say of it."""

    x: float
    y: float
    value: float
    label: str = ""


def scatter(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Marks with whiskers over one range on both axes, and the diagonal where the two agree."""
    marks = _all(title, series)
    seen = [value for mark in marks for value in (mark.x, *_reach(mark))]
    top = _top(series)
    size = _HEIGHT + 40
    across = fit_scale(x, seen, _LEFT, _WIDTH - _RIGHT)
    up = fit_scale(y, seen, top + size, top)
    body = f'<line class="guide" x1="{_LEFT}" y1="{top + size}" x2="{_WIDTH - _RIGHT}" y2="{top}"/>'
    for one in reversed(series):  # the first on top
        body += "".join(_mark(one, m, across.at(m.x), up, _hover(one, m, x, y)) for m in one.marks)
    return _plot(title, top + size + _BOTTOM, _frame(across, up) + body + _legend(series))


def lines(title: str, series: Sequence[Series], x: Axis, y: Axis) -> str:
    """Lines with the bands their marks reach over, and marks by themselves with whiskers."""
    marks = _all(title, series)
    top = _top(series)
    across = fit_scale(x, [m.x for m in marks], _LEFT, _WIDTH - _RIGHT)
    up = fit_scale(y, [value for m in marks for value in _reach(m)], top + _HEIGHT, top)
    body = ""
    for one in series:
        if not one.joined:
            body += "".join(_mark(one, m, across.at(m.x), up, _hover(one, m, x, y)) for m in one.marks)
            continue
        ordered = sorted(one.marks, key=lambda m: m.x)
        reach = [(across.at(m.x), *map(up.at, m.interval)) for m in ordered if m.interval is not None]
        if len(reach) > 1:
            around = [(px, high) for px, _, high in reach] + [(px, low) for px, low, _ in reversed(reach)]
            body += f'<path class="band t{one.tint}" {_of(one)} d="{_path(around)}Z"/>'
        course = _path((across.at(m.x), up.at(m.y)) for m in ordered)
        body += f'<path class="stroke t{one.tint}" {_of(one)} d="{course}"/>'
        body += "".join(_hit(one, m.x, m.y, across.at(m.x), up.at(m.y), _hover(one, m, x, y)) for m in ordered)
    return _plot(title, top + _HEIGHT + _BOTTOM, _frame(across, up) + body + _legend(series))


def bars(title: str, groups: Sequence[str], series: Sequence[Series], value: Axis) -> str:
    """Bars side by side in groups: a mark's x is its group's place, its y the bar; labels stand at the bars' ends."""
    marks = _all(title, series)
    names = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in groups]
    left = round(24 + _LETTER * max(map(len, names)))
    right = round(_RIGHT + _LETTER * max(len(m.label) for m in marks))
    top, thick = _top(series), 16 if len(series) == 1 else 11
    row = thick * len(series) + 8
    bottom = top + row * len(groups)
    across = fit_scale(value, [0.0, *(v for m in marks for v in _reach(m))], left, _WIDTH + left - right)
    body, zero = "", across.at(0.0)
    for place, (name, whole) in enumerate(zip(names, groups, strict=True)):
        y = top + row * place + row / 2 + 4
        body += (
            f'<text x="{left - 8}" y="{_px(y)}" text-anchor="end">{escape(name)}<title>{escape(whole)}</title></text>'
        )
    for rank, one in enumerate(series):
        for mark in one.marks:
            y, end = top + row * mark.x + 4 + rank * thick, across.at(mark.y)
            shape = f'<rect class="fill" x="{_px(min(zero, end))}" y="{_px(y)}" width="{_px(abs(end - zero))}" '
            shape += f'height="{thick - 2}"/>'
            far = max(zero, end)
            if mark.interval is not None:
                low, high, middle = *map(across.at, mark.interval), y + thick / 2 - 1
                far = max(far, high)
                shape += f'<path class="grid" style="stroke:var(--ink)" d="{_path([(low, middle), (high, middle)])}"/>'
            if mark.label:
                shape += (
                    f'<text class="dim" x="{_px(far + 6)}" y="{_px(y + thick / 2 + 3)}">{escape(mark.label)}</text>'
                )
            name = groups[int(mark.x)]
            hover = f"{name}: {one.name} {value.text(mark.y)}" + _interval(mark, value)
            body += f'<g class="mark t{one.tint}" {_of(one, mark.x, mark.y)}><title>{escape(hover)}</title>{shape}</g>'
    body += f'<path class="grid" style="stroke:var(--dim)" d="{_path([(zero, top), (zero, bottom)])}"/>'
    return _plot(title, bottom + _BOTTOM, _x_ticks(across, top, bottom) + body + _legend(series), _WIDTH + left)


def cdf(title: str, series: Sequence[Series], x: Axis) -> str:
    """For each series, the share of its marks whose x is no larger, as steps."""
    _all(title, series)
    top, y = _top(series), Axis("share", "%")
    across = fit_scale(x, [m.x for one in series for m in one.marks], _LEFT, _WIDTH - _RIGHT)
    up = fit_scale(y, [0.0, 100.0], top + _HEIGHT, top)
    body = ""
    for one in series:
        ordered, height, hits = sorted(one.marks, key=lambda m: m.x), up.start, ""
        course = [(across.start, height)]
        for rank, mark in enumerate(ordered, 1):
            at, share = across.at(mark.x), 100 * rank / len(ordered)
            course += [(at, height), (at, height := up.at(share))]
            told = f"{one.name}: {share:.4g} % within {x.text(mark.x)}" + (f" ({mark.label})" if mark.label else "")
            hits += _hit(one, mark.x, share, at, height, told)
        course.append((across.end, height))
        body += f'<path class="stroke t{one.tint}" {_of(one)} d="{_path(course)}"/>{hits}'
    return _plot(title, top + _HEIGHT + _BOTTOM, _frame(across, up) + body + _legend(series))


def heat(title: str, cells: Sequence[Cell], marked: Sequence[Cell], x: Axis, y: Axis, value: Axis) -> str:
    """A function of two widths as shades, darker or brighter where it is larger, and marked where it was measured."""
    if not cells:
        raise ValueError(f"{title}: nothing to plot")
    top, right = 34, _WIDTH - 86
    columns, rows = sorted({c.x for c in cells}), sorted({c.y for c in cells})
    left_edges, low_edges = _edges(columns), _edges(rows)
    spread = [*left_edges, *(s.x for s in marked)], [*low_edges, *(s.y for s in marked)]
    across = fit_scale(x, spread[0], _LEFT, right)
    up = fit_scale(y, spread[1], top + _HEIGHT, top)
    shade = fit_scale(value, [c.value for c in cells], 0.05, 1.0)
    place_x, place_y = ({v: i for i, v in enumerate(values)} for values in (columns, rows))
    body = ""
    for cell in cells:
        i, j = place_x[cell.x], place_y[cell.y]
        x0, x1, y0, y1 = *map(across.at, left_edges[i : i + 2]), *map(up.at, low_edges[j : j + 2])
        told = escape(_at(cell, x, y, value))
        body += (
            f'<rect class="mark fill t0" {_of(None, cell.x, cell.y)} data-value="{cell.value:.6g}" x="{_px(x0)}" '
            f'y="{_px(y1)}" width="{_px(x1 - x0)}" height="{_px(y0 - y1)}" fill-opacity="{shade.at(cell.value):.3f}">'
            f"<title>{told}</title></rect>"
        )
    for spot in marked:
        body += (
            f'<circle class="mark spot" data-series="metered" data-x="{spot.x:.6g}" data-y="{spot.y:.6g}" '
            f'data-value="{spot.value:.6g}" cx="{_px(across.at(spot.x))}" cy="{_px(up.at(spot.y))}" r="3.5">'
            f"<title>{escape(_at(spot, x, y, value))}</title></circle>"
        )
    return _plot(title, top + _HEIGHT + _BOTTOM, _frame(across, up) + body + _shades(shade, right + 22, top))


def _shades(scale: Scale, x: float, top: float) -> str:
    """The key of a heat map."""
    steps, height, body = 20, _HEIGHT - 40, ""
    for i in range(steps):
        y, share = top + 20 + height * (1 - (i + 1) / steps), 0.05 + 0.95 * (i + 0.5) / steps
        body += f'<rect class="fill t0" x="{_px(x)}" y="{_px(y)}" width="12" height="{_px(height / steps)}" '
        body += f'fill-opacity="{share:.3f}"/>'
    for tick, label in zip(scale.ticks, scale.labels, strict=True):
        y = top + 24 + height * (1 - (scale.at(tick) - scale.start) / (scale.end - scale.start))
        body += f'<text class="dim" x="{_px(x + 16)}" y="{_px(y)}">{label}</text>'
    return (
        body + f'<text class="dim" x="{_px(x + 60)}" y="{_px(top + 6)}" text-anchor="end">{escape(scale.title)}</text>'
    )


def _all(title: str, series: Sequence[Series]) -> list[Mark]:
    marks = [mark for one in series for mark in one.marks]
    if not marks or not all(one.marks for one in series):
        raise ValueError(f"{title}: nothing to plot")
    return marks


def _reach(mark: Mark) -> list[float]:
    return [mark.y, *(mark.interval or ())]


def _edges(values: Sequence[float]) -> list[float]:
    """Where each value's cell begins and ends: halfway to its neighbours."""
    middles = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    first, last = (values[0], values[-1]) if middles else (values[0] - 0.5, values[0] + 0.5)
    return [first, *middles, last]


def _frame(x: Scale, y: Scale) -> str:
    body = _x_ticks(x, y.end, y.start)
    for tick, label in zip(y.ticks, y.labels, strict=True):
        at = y.at(tick)
        body += f'<path class="grid" d="{_path([(x.start, at), (x.end, at)])}"/>'
        body += f'<text class="dim" x="{_px(x.start - 7)}" y="{_px(at + 4)}" text-anchor="end">{label}</text>'
    middle = (y.start + y.end) / 2
    return body + (
        f'<text x="14" y="{_px(middle)}" text-anchor="middle" transform="rotate(-90 14 {_px(middle)})">'
        f"{escape(y.title)}</text>"
    )


def _x_ticks(x: Scale, top: float, bottom: float) -> str:
    body = ""
    for tick, label in zip(x.ticks, x.labels, strict=True):
        at = x.at(tick)
        body += f'<path class="grid" d="{_path([(at, top), (at, bottom)])}"/>'
        body += f'<text class="dim" x="{_px(at)}" y="{_px(bottom + 17)}" text-anchor="middle">{label}</text>'
    middle = (x.start + x.end) / 2
    return body + f'<text x="{_px(middle)}" y="{_px(bottom + 36)}" text-anchor="middle">{escape(x.title)}</text>'


def _keys(series: Sequence[Series]) -> list[tuple[Series, float, int]]:
    """Where each name of the legend stands: its x and its row."""
    found, x, row = [], float(_LEFT), 0
    for one in series:
        wide = 30 + _LETTER * len(one.name)
        if x + wide > _WIDTH and x > _LEFT:
            x, row = float(_LEFT), row + 1
        found.append((one, x, row))
        x += wide
    return found


def _top(series: Sequence[Series]) -> float:
    return 52.0 + 18 * _keys(series)[-1][2]


def _legend(series: Sequence[Series]) -> str:
    return "".join(
        f'<g class="key t{one.tint}" {_of(one)}><rect class="fill" x="{_px(x)}" y="{29 + 18 * row}" width="12" '
        f'height="12" rx="2"/><text x="{_px(x + 17)}" y="{39 + 18 * row}">{escape(one.name)}</text></g>'
        for one, x, row in _keys(series)
    )


def _plot(title: str, height: float, body: str, width: int = _WIDTH) -> str:
    return (
        f'<svg{NAMESPACE} class="plot" width="{width}" viewBox="0 0 {width} {_px(height)}" role="img" '
        f'aria-label="{escape(title)}">{STYLE}<rect class="paper" width="100%" height="100%"/>'
        f'<text class="head" x="{_LEFT}" y="18">{escape(title)}</text>{body}</svg>'
    )


def _mark(one: Series, mark: Mark, px: float, up: Scale, hover: str) -> str:
    shape = f'<circle class="fill" cx="{_px(px)}" cy="{_px(up.at(mark.y))}" r="4" fill-opacity=".85"/>'
    if mark.interval is not None:
        shape = f'<path class="stroke" d="{_path((px, up.at(end)) for end in mark.interval)}"/>{shape}'
    return f'<g class="mark t{one.tint}" {_of(one, mark.x, mark.y)}><title>{escape(hover)}</title>{shape}</g>'


def _hit(one: Series, x: float, y: float, px: float, py: float, hover: str) -> str:
    place = f'cx="{_px(px)}" cy="{_px(py)}" r="5"'
    return f'<circle class="mark hit t{one.tint}" {_of(one, x, y)} {place}><title>{escape(hover)}</title></circle>'


def _of(one: Series | None, x: float | None = None, y: float | None = None) -> str:
    named = [("series", one.name)] if one is not None else []
    placed = [(name, f"{value:.6g}") for name, value in (("x", x), ("y", y)) if value is not None]
    return " ".join(f'data-{name}="{escape(text)}"' for name, text in (*named, *placed))


def _hover(one: Series, mark: Mark, x: Axis, y: Axis) -> str:
    about = f"{mark.label}: " if mark.label else ""
    return f"{about}{one.name} {y.text(mark.y)}{_interval(mark, y)}, {x.title} {x.text(mark.x)}"


def _interval(mark: Mark, axis: Axis) -> str:
    return f" ({' – '.join(map(axis.text, mark.interval))})" if mark.interval is not None else ""


def _at(cell: Cell, x: Axis, y: Axis, value: Axis) -> str:
    place = f"{x.title} {x.text(cell.x)}, {y.title} {y.text(cell.y)}"
    return f"{place}: {value.text(cell.value)}" + (f" {cell.label}" if cell.label else "")


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_px(x)} {_px(y)}" for x, y in points)


def _px(value: float) -> str:
    text = f"{value:.1f}"
    return "0.0" if text == "-0.0" else text
