"""The page of evaluations: predicted against measured, errors by method and by network, set after set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ampere_energy.reporting import plot
from ampere_energy.reporting.axes import Axis
from ampere_energy.reporting.evaluated_sets import SCORES, EvaluatedNetwork, EvaluatedSet, sets_of
from ampere_energy.reporting.page import Value, card, document, facts, table
from ampere_energy.reporting.plot import Mark, Series
from ampere_energy.units import interval, percent, si

_WIDE_RANGE = 20.0
_MOST_DRAWN = 40
_LOUD = {"modelled": "MODELLED energy, not measured", "simulated": "SIMULATED energy (no device was used)"}


def evaluation_report(records: Sequence[Any]) -> str:
    """The page of what `ampere evaluate --json` prints."""
    return evaluation_page(sets_of(records, "the evaluation"))


def evaluation_page(sets: Sequence[EvaluatedSet]) -> str:
    """The page of some evaluated sets."""
    methods = list(dict.fromkeys(m for one in sets for m in (*one.scores, *_guessed(one.networks))))
    tints = {method: place % plot.TINTS for place, method in enumerate(methods)}
    title = sets[0].name if len(sets) == 1 else f"{len(sets)} evaluated sets"
    body = f"<h1>{escape(title)}</h1>"
    body += f'<p class="dim">Unseen networks, predicted and then run: joules of one training step. {_kinds(sets)}</p>'
    body += _overview(sets, tints)
    if len(methods) > 1:
        body += f'<nav hidden aria-label="methods">{"".join(_button(m, tints[m]) for m in methods)}</nav>'
    if len(sets) > 1:
        links = "".join(f'<a href="#set-{place}">{escape(one.name)}</a>' for place, one in enumerate(sets))
        body += f'<nav aria-label="sets">{links}<a href="#all" hidden>all sets</a></nav>'
    for place, one in enumerate(sets):
        body += f'<section id="set-{place}">{_section(one, tints, len(sets) > 1)}</section>'
    return document(f"AMPERE: {title}", body, together=True)


def _kinds(sets: Sequence[EvaluatedSet]) -> str:
    """How the energies that count as true were obtained, in words nobody can overlook."""
    found = dict.fromkeys(_LOUD.get(one.provenance, f"{one.provenance} energy") for one in sets)
    return f'<span class="badge">{escape(", ".join(found))}</span>'


def _button(method: str, tint: int) -> str:
    return f'<button data-series="{escape(method)}" style="--tint:var(--t{tint})">{escape(method)}</button>'


def _overview(sets: Sequence[EvaluatedSet], tints: Mapping[str, int]) -> str:
    """Mean absolute errors by method, all sets side by side."""
    series = []
    for method, tint in tints.items():
        known = [(place, one.scores[method]["mape"]) for place, one in enumerate(sets) if method in one.scores]
        marks = [Mark(place, 100 * mape, label=percent(mape)) for place, mape in known]
        series += [Series(method, marks, tint)] if marks else []
    names = [one.name for one in sets]
    return card(plot.bars("Mean absolute error by method", names, series, Axis("mean absolute error", "%")))


def _section(one: EvaluatedSet, tints: Mapping[str, int], titled: bool) -> str:
    body = f"<h2>{escape(one.name)}</h2>" if titled else ""
    body += facts(one.facts)
    body += _scores(one)
    if one.floor is not None:
        body += f'<p class="dim">The measurements\' own error is {percent(one.floor)}; no smaller one can be told.</p>'
    methods = [method for method in tints if method in _guessed(one.networks)]
    if not methods:
        return body
    body += f'<div class="cards">{_scatter(one, methods, tints)}{_shares(one, methods, tints)}</div>'
    return body + _errors(one, methods, tints) + _networks(one, methods)


def _guessed(networks: Sequence[EvaluatedNetwork]) -> list[str]:
    return list(dict.fromkeys(method for one in networks for method in one.guesses))


def _with(one: EvaluatedSet, method: str) -> list[tuple[int, EvaluatedNetwork]]:
    return [(place, member) for place, member in enumerate(one.networks) if method in member.guesses]


def _scores(one: EvaluatedSet) -> str:
    """The scores by method, with how many networks each is over."""
    inside = f"inside the {interval(one.level)}"
    heads = ("method", "networks", "mean absolute error", "bias", "nine of ten within", "rank correlation", inside)
    rows = []
    for method, own in one.scores.items():
        tried = len(_with(one, method))
        row = [Value(method), Value(str(tried) if tried else "")]
        for name in SCORES:
            row.append(Value(_shown(name, own[name]), own[name]) if name in own else Value(""))
        rows.append(row)
    return table(heads, rows, list(one.scores))


def _shown(name: str, value: float) -> str:
    return f"{value:.3f}" if name == "spearman" else percent(value, signed=name == "bias")


def _scatter(one: EvaluatedSet, methods: Sequence[str], tints: Mapping[str, int]) -> str:
    series = []
    for method in methods:
        own = [(m.name, m.measured_j, m.guesses[method]) for _, m in _with(one, method)]
        marks = [Mark(x, guess.energy_j, guess.interval_j, name) for name, x, guess in own]
        series.append(Series(method, marks, tints[method]))
    seen = [v for s in series for m in s.marks for v in (m.x, m.y, *(m.interval or ()))]
    log = min(seen) > 0 and max(seen) > _WIDE_RANGE * min(seen)
    found = Axis(f"{one.provenance} energy", "J", log)
    return card(plot.scatter(f"Predicted against {one.provenance}", series, found, Axis("predicted energy", "J", log)))


def _shares(one: EvaluatedSet, methods: Sequence[str], tints: Mapping[str, int]) -> str:
    series = [
        Series(method, [Mark(100 * abs(m.error(method)), 0, label=m.name) for _, m in _with(one, method)], tint)
        for method, tint in tints.items()
        if method in methods
    ]
    return card(plot.cdf("How many networks err by how much", series, Axis("absolute error", "%", zero=True)))


def _errors(one: EvaluatedSet, methods: Sequence[str], tints: Mapping[str, int]) -> str:
    """Signed errors by network, of the first of them where there are very many."""
    series = []
    for method in methods:
        own = [(place, m) for place, m in _with(one, method) if place < _MOST_DRAWN]
        marks = [Mark(place, 100 * m.error(method)) for place, m in own]
        series += [Series(method, marks, tints[method])] if marks else []
    if not series:
        return ""
    names = [member.name for member in one.networks[:_MOST_DRAWN]]
    more = f", the first {_MOST_DRAWN} of {len(one.networks)}" if len(one.networks) > _MOST_DRAWN else ""
    return card(plot.bars(f"Errors by network{more}", names, series, Axis("error, positive where too high", "%")))


def _networks(one: EvaluatedSet, methods: Sequence[str]) -> str:
    rows, series = [], []
    for method in methods:
        for _, member in _with(one, method):
            guess, error = member.guesses[method], member.error(method)
            low, high = guess.interval_j or (0.0, 0.0)
            inside = "" if guess.interval_j is None else "yes" if low <= member.measured_j <= high else "no"
            between = "" if guess.interval_j is None else f"{si(low, 'J')} – {si(high, 'J')}"
            rows.append(
                [
                    Value(member.name),
                    Value(method),
                    Value(si(guess.energy_j, "J"), guess.energy_j),
                    Value(between, low if between else ""),
                    Value(si(member.measured_j, "J"), member.measured_j),
                    Value(percent(error, signed=True), error),
                    Value(inside),
                ]
            )
            series.append(method)
    return table(
        ("member", "method", "predicted", interval(one.level), one.provenance, "error", "inside"), rows, series
    )
