"""What a search found: tables, JSON, and the front as a plot."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ampere_energy.model.training import Training
from ampere_energy.optimization.search.descend import Descent
from ampere_energy.optimization.search.search import Found, FoundNetwork
from ampere_energy.optimization.search.space import Space
from ampere_energy.reporting.as_json import named
from ampere_energy.reporting.axes import Axis
from ampere_energy.reporting.plot import Mark, Series, lines
from ampere_energy.reporting.tables import bare_table, facts, source
from ampere_energy.serialization import encode
from ampere_energy.units import duration, si

_ROWS = 20
_DRAWN = 500


def found_table(found: Found) -> RenderableType:
    """`ampere search`."""
    space, count = found.space, len(found.front)
    title = f"{space.source} on {space.profile.device.name}: nothing tried is better, cheaper and quicker than these"
    table = bare_table(_called(space), *(["trained"] if len(space.settings) > 1 else []), title=title)
    for name in (found.objective, "energy", "90% interval", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    places = [round(i * (count - 1) / max(1, min(_ROWS, count) - 1)) for i in range(min(_ROWS, count))]
    for network in (found.front[place] for place in places):
        table.add_row(*_cells(space, network))
    shown = f"{len(places)} of {count} networks shown; --json has all. " if count > _ROWS else ""
    tried = f"{found.trials:,} trials of {found.distinct:,} different networks, of {space.size:,} that there are"
    spent = ", ".join(f"{name} {duration(s)}" for name, s in found.spent_s.items() if s)
    return Group(table, Text(f"{shown}{tried}; {spent}", style="dim"), Text(_caption(space), style="dim"))


def descent_table(descent: Descent, space: Space, objective: str) -> RenderableType:
    """`ampere search --gradient`."""
    network = descent.member
    low, high = network.interval_j
    rows = [
        (_called(space), network.ref.arguments),
        ("trained", str(network.ref.training)),
        (objective, _score(network.score)),
        ("energy", si(network.energy_j, "J")),
        ("90% interval", f"{si(low, 'J')} – {si(high, 'J')}"),
        ("time", duration(network.time_s)),
        *_before_rounding(descent, space),
        ("scored", f"{descent.scored:,} of {space.size:,} networks"),
    ]
    return Group(facts(rows), Text(_caption(space), style="dim"))


def found_json(found: Found) -> dict[str, Any]:
    """`ampere search --json`."""
    return {
        **_space_json(found.space, found.objective),
        "trials": found.trials,
        "distinct": found.distinct,
        "spent_s": found.spent_s,
        "front": [_network_json(network) for network in found.front],
    }


def descent_json(descent: Descent, space: Space, objective: str) -> dict[str, Any]:
    """`ampere search --gradient --json`."""
    return {
        **_space_json(space, objective),
        "scored": descent.scored,
        "member": _network_json(descent.member),
        "continuous": {
            "widths": list(descent.continuous),
            **({"arguments": _continuous(descent, space)} if space.named else {}),
            "energy_j": descent.continuous_j,
        },
    }


def found_plot(found: Found) -> str:
    """Joules over the score: what was tried, and the front with its intervals."""
    tried = {tuple(t.values) for t in found.study.get_trials(deepcopy=False) if t.values}
    some = sorted(tried)[:: 1 + len(tried) // _DRAWN]
    front = [Mark(m.score, m.energy_j, m.interval_j, f"{m.ref.arguments} in {duration(m.time_s)}") for m in found.front]
    series = [
        Series("front", front, 1, joined=False),
        Series("tried", [Mark(score, joules) for score, joules, _ in some], 0, joined=False),
    ]
    per = f"predicted energy of {found.space.samples:,} samples"
    return lines(
        f"{found.space.source}: {found.objective} against energy", series, Axis(found.objective), Axis(per, "J")
    )


def _called(space: Space) -> str:
    return "arguments" if space.named else "widths"


def _continuous(descent: Descent, space: Space) -> dict[str, float]:
    """The widths before they were rounded, by their names."""
    return dict(zip(space.names[space.counts :], descent.continuous, strict=True))


def _before_rounding(descent: Descent, space: Space) -> list[tuple[str, str]]:
    """A row of a table; none where all arguments make structures."""
    found = _continuous(descent, space).items()
    shown = ", ".join(f"{name}={width:.1f}" if space.named else f"{width:.1f}" for name, width in found)
    return [("before rounding", f"{shown}: {si(descent.continuous_j, 'J')}")] if shown else []


def _cells(space: Space, network: FoundNetwork) -> list[str]:
    low, high = network.interval_j
    trained = [_differing(space, network.ref.training)] if len(space.settings) > 1 else []
    return [
        network.ref.arguments,
        *trained,
        _score(network.score),
        si(network.energy_j, "J"),
        f"{si(low, 'J')} – {si(high, 'J')}",
        duration(network.time_s),
    ]


def _differing(space: Space, training: Training) -> str:
    """What tells a setting from the others."""
    values = {f.name: {getattr(other, f.name) for other in space.settings} for f in fields(Training)}
    parts = {name: getattr(training, name) for name, seen in values.items() if len(seen) > 1}
    return ", ".join(str(v) if isinstance(v, StrEnum) else f"{n.replace('_', ' ')} {v}" for n, v in parts.items())


def _score(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.4g}"


def _caption(space: Space) -> str:
    told = f"energy and time of training on {space.samples:,} samples, predicted from {source(space.profile.meter)}"
    return "".join([told, *(f"\ndoubt: {doubt}" for doubt in space.profile.doubts)])


def _space_json(space: Space, objective: str) -> dict[str, Any]:
    return {
        "model": space.source,
        "device": encode(space.profile.device),
        "provenance": "predicted",
        "basis": space.profile.meter.provenance.value,
        "doubts": list(space.profile.doubts),
        "samples": space.samples,
        "objective": objective,
        "space": {
            "widths": {axis.name: encode(axis.range if axis.even else axis.values) for axis in space.axes},
            "trainings": [encode(training) for training in space.settings],
            "members": space.size,
        },
    }


def _network_json(network: FoundNetwork) -> dict[str, Any]:
    return {
        "widths": list(network.ref.widths),
        **named(network.ref.names, network.ref.widths),
        "training": encode(network.ref.training),
        "score": network.score,
        "energy_j": network.energy_j,
        "interval_j": list(network.interval_j),
        "time_s": network.time_s,
    }
