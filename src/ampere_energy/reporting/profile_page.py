"""The page of a profile: what it was made on, how precise it is, and what each kind costs over its widths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from ampere_energy.cost_model.known_kinds import LEVEL, REACH, Band, KnownKind
from ampere_energy.estimation.curves import Step, along, largest_step
from ampere_energy.model.kinds import Point
from ampere_energy.profiles.profile import Profile
from ampere_energy.reporting import plot
from ampere_energy.reporting.axes import Axis
from ampere_energy.reporting.page import Value, card, document, facts, table
from ampere_energy.reporting.plot import Cell, Mark, Series
from ampere_energy.reporting.tables import source
from ampere_energy.units import duration, interval, percent, si

_MOST_DRAWN = 24
_LONG, _FINE = 97, 21
_WIDE_RANGE = 10.0
_HEADS = ("layers", "widths", "metered", "timed", "at its largest", interval(LEVEL), "typical reach", "kind")


def profile_page(profile: Profile) -> str:
    """The page of a profile."""
    kinds = profile.cost_model.known_kinds()
    title = f"{profile.model} on {profile.device.name}"
    at_largest = [kind.at(np.array([kind.largest], dtype=float)) for kind in kinds]
    order = sorted(range(len(kinds)), key=lambda i: -float(at_largest[i].energy_j[0]))
    drawn = [kinds[i] for i in sorted(order[:_MOST_DRAWN]) if _varied(kinds[i])]
    body = f"<h1>Profile of {escape(title)}</h1>"
    body += f'<p><span class="badge">{escape(profile.meter.provenance.value)}</span> '
    body += f"{escape(source(profile.meter))}</p>"
    body += facts(_facts(profile))
    body += f"<h2>How precise it is</h2>{_precision(profile)}<h2>Where the joules go</h2>"
    body += _parts(largest_step(profile))
    body += "<h2>Kinds</h2>" + table(_HEADS, [_cells(k, b) for k, b in zip(kinds, at_largest, strict=True)])
    if len(kinds) > _MOST_DRAWN:
        body += f'<p class="dim">Drawn are the {_MOST_DRAWN} that cost most, where they have widths.</p>'
    body += f'<div class="cards">{"".join(_curve(kind) + _surface(kind) for kind in drawn)}</div>'
    return document(f"AMPERE: profile of {title}", body)


def _facts(profile: Profile) -> list[tuple[str, str]]:
    return [
        ("device", str(profile.device)),
        ("training", str(profile.training)),
        ("method", profile.method + ("" if profile.complete else ", PARTIAL: finish it with --resume")),
        ("measured", f"{profile.measurements} networks trained in {duration(profile.profile_s)}"),
        ("made", profile.created),
        *(("doubt", doubt) for doubt in profile.doubts),
    ]


def _precision(profile: Profile) -> str:
    """Every measured network predicted from all others, where the method can tell."""
    if profile.nets is None:
        return "<p>The paper's method tells only the reach of each kind's own interval, below.</p>"
    errors, deviations = profile.nets.left_out()
    sizes = 100 * np.abs(errors)
    inside = float(np.mean(np.abs(errors) <= REACH * deviations))
    told = f"Each of {len(errors)} measured networks and blocks, predicted from all others, errs by "
    told += f"{percent(float(np.median(sizes)) / 100)} in the median; {percent(inside)} lie inside their {LEVEL:.0%} "
    told += f"intervals. Repeats of one measurement scatter by {percent(float(profile.nets.scatter[1, 1] ** 0.5))}."
    series = Series("left out", [Mark(float(size), 0) for size in sizes])
    axis = Axis("absolute error", "%", log=True) if sizes.min() > 0 else Axis("absolute error", "%", zero=True)
    return f'<p>{told}</p><div class="cards">{card(plot.cdf("Predicted from all others", [series], axis))}</div>'


def _parts(step: Step) -> str:
    names = [part.name + (f" ×{part.count}" if part.count > 1 else "") for part in step.parts]
    marks = [
        Mark(
            place,
            part.energy_j,
            (part.energy_j - part.std_j, part.energy_j + part.std_j) if part.std_j else None,
            f"{si(part.energy_j, 'J')} ({percent(part.energy_j / step.energy_j)})",
        )
        for place, part in enumerate(step.parts)
    ]
    what = "The largest network measured" if step.whole else "One block of each kind at its largest widths"
    low, high = step.interval_j
    told = f"{what}: {si(step.energy_j, 'J')} a step, {LEVEL:.0%} between {si(low, 'J')} and {si(high, 'J')}."
    figure = plot.bars("Joules of one training step", names, [Series("predicted", marks)], Axis("energy", "J"))
    return f"<p>{escape(told)}</p>{card(figure)}"


def _cells(kind: KnownKind, band: Band) -> list[Value]:
    low, energy, high = (float(values[0]) for values in (band.low_j, band.energy_j, band.high_j))
    reach = kind.reach()
    return [
        Value(kind.label),
        Value(" × ".join(str(r) if len(r) > 1 else str(r.high) for r in kind.domain) or "as it is"),
        Value(str(len(kind.metered))),
        Value(str(kind.timed)),
        Value(si(energy, "J"), energy),
        Value(f"{si(low, 'J')} – {si(high, 'J')}", low),
        Value(f"±{percent(reach)}", reach),
        Value(kind.id),
    ]


def _varied(kind: KnownKind) -> list[int]:
    """Which of its widths vary, by their places."""
    return [axis for axis, allowed in enumerate(kind.domain) if len(allowed) > 1]


def _placed(kind: KnownKind, widths: Mapping[int, int]) -> Point:
    """Its largest widths but for those given."""
    return tuple(widths.get(axis, width) for axis, width in enumerate(kind.largest))


def _metered(kind: KnownKind, axes: Sequence[int]) -> list[tuple[Point, float]]:
    """What was metered where all widths but these are at their largest."""
    return [(p, energy) for p, energy in kind.metered if p == _placed(kind, {axis: p[axis] for axis in axes})]


def _curve(kind: KnownKind) -> str:
    """The energy over the last width, all others at their largest."""
    *others, axis = _varied(kind)
    widths = along(kind.domain[axis], _LONG)
    band = kind.at(np.array([_placed(kind, {axis: width}) for width in widths], dtype=float))
    values = zip(widths, band.energy_j.tolist(), band.low_j.tolist(), band.high_j.tolist(), strict=True)
    series = [Series("predicted", [Mark(width, energy, (low, high)) for width, energy, low, high in values])]
    metered = [Mark(point[axis], energy) for point, energy in _metered(kind, [axis])]
    if metered:
        series.append(Series("metered", metered, 1, joined=False))
    held = "".join(f", {kind.axes[other]} at {kind.largest[other]}" for other in others)
    title = f"Energy with its {LEVEL:.0%} band{held}"
    x, y = Axis(kind.axes[axis], tight=True), Axis("energy of a step", "J", zero=True)
    return card(plot.lines(title, series, x, y), kind.label)


def _surface(kind: KnownKind) -> str:
    """The energy over the first two widths, all others at their largest; nothing of a kind with one."""
    axes = _varied(kind)[:2]
    if len(axes) < 2:
        return ""
    first, second = axes
    columns, rows = (along(kind.domain[axis], _FINE) for axis in axes)
    points = [_placed(kind, {first: x, second: y}) for y in rows for x in columns]
    band = kind.at(np.array(points, dtype=float))
    values = zip(points, band.energy_j.tolist(), band.low_j.tolist(), band.high_j.tolist(), strict=True)
    cells = [Cell(p[first], p[second], e, f"({si(low, 'J')} – {si(high, 'J')})") for p, e, low, high in values]
    spots = [Cell(p[first], p[second], energy, "metered") for p, energy in _metered(kind, axes)]
    low, high = float(band.energy_j.min()), float(band.energy_j.max())
    value = Axis("energy", "J", log=0 < low * _WIDE_RANGE < high, tight=True)
    x, y = (Axis(kind.axes[axis], tight=True) for axis in axes)
    title = "Energy over two widths, and where it was metered"
    return card(plot.heat(title, cells, spots, x, y, value), kind.label)
