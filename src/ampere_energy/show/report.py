"""One self-contained HTML page: predicted against measured, and where each member's joules go.

Everything is inline (styles and SVG), so the page opens offline, in light or dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ampere_energy.fit.profile import Profile
from ampere_energy.measure.measurement import Provenance
from ampere_energy.predict.estimate import Estimate
from ampere_energy.predict.evaluate import Trial, score
from ampere_energy.show.tables import source
from ampere_energy.show.units import duration, percent, si

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #667085; --page: #fbfbf9; --card: #fff; --line: #dfe3e8;
  --bar: #2f6fb3; --point: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --dim: #98a2b3; --page: #14171c; --card: #1c2128;
  --line: #333b47; --bar: #6aa6e6; --point: #fb923c; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 2rem 1.5rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .75rem; }
p { margin: .25rem 0; } .dim { color: var(--dim); }
.badge { border: 1px solid var(--point); color: var(--point); border-radius: 3px; padding: 0 .4em; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 1rem 1.25rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .75rem .25rem 0; text-align: right; }
th { color: var(--dim); font-weight: 500; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 12px; }
svg .dim { fill: var(--dim); } .axis { stroke: var(--line); } .ideal { stroke: var(--dim); stroke-dasharray: 4 4; }
.bar { fill: var(--bar); } .point { fill: var(--point); } .reach { stroke: var(--point); }
"""


def evaluation_report(trials: Sequence[Trial], profile: Profile) -> str:
    """The page of an evaluation."""
    found = profile.meter.provenance.value
    total = score(trials)
    bars = "".join(_bars(trial.estimate, str(trial.member)) for trial in trials)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>AMPERE: {escape(profile.model)} on {escape(profile.device.name)}</title><style>{_STYLE}</style></head>
<body><main>
<h1>{escape(profile.model)} on {escape(profile.device.name)}</h1>
<p><span class="badge">{escape(found)}</span> energy is {escape(source(profile.meter))}</p>
<p class="dim">{escape(str(profile.device))}</p>
<p class="dim">method {escape(profile.method)}, {profile.measurements} networks trained in
{escape(duration(profile.profile_s))}, batch {profile.training.batch}, {escape(profile.created)}</p>
<h2>Predicted against {escape(found)}, unseen members, one training step</h2>
<section>{_scatter(trials, found)}</section>
<p>Mean absolute error {percent(total.mape)}, bias {percent(total.bias, signed=True)};
{percent(total.coverage)} inside the {trials[0].estimate.level:.0%} interval;
the measurements' own error is {percent(total.floor)}.</p>
<section>{_table(trials, found)}</section>
<h2>Where the joules go</h2>
{bars}
</main></body></html>
"""


def _table(trials: Sequence[Trial], found: str) -> str:
    rows = "".join(
        f"<tr><td>{escape(str(t.member))}</td><td>{si(t.estimate.energy_j, 'J')}</td>"
        f"<td>{si(t.estimate.interval_j[0], 'J')} – {si(t.estimate.interval_j[1], 'J')}</td>"
        f"<td>{si(t.measured_j, 'J')} ± {si(t.measured_std_j, 'J')}</td>"
        f"<td>{percent(t.error, signed=True)}</td></tr>"
        for t in trials
    )
    heads = ("member", "predicted", f"{trials[0].estimate.level:.0%} interval", found, "error")
    return f"<table><tr>{''.join(f'<th>{escape(h)}</th>' for h in heads)}</tr>{rows}</table>"


def _bars(estimate: Estimate, title: str) -> str:
    """Each block's joules with its standard deviation."""
    height, left, width = 26, 130, 560
    most = max(max(b.energy_j + b.std_j, 0.0) for b in estimate.blocks) or 1.0
    lines = []
    for row, block in enumerate(estimate.blocks):
        y = row * height
        length = max(0.0, block.energy_j) / most * width
        low, high = (max(0.0, block.energy_j + sign * block.std_j) / most * width for sign in (-1, 1))
        lines.append(
            f'<text x="{left - 8}" y="{y + 17}" text-anchor="end">{escape(block.name)}</text>'
            f'<rect class="bar" x="{left}" y="{y + 5}" width="{length:.1f}" height="{height - 10}"/>'
            f'<line class="reach" x1="{left + low:.1f}" x2="{left + high:.1f}" y1="{y + 13}" y2="{y + 13}"/>'
            f'<text class="dim" x="{left + max(length, high) + 8:.1f}" y="{y + 17}">{si(block.energy_j, "J")} '
            f"({percent(block.energy_j / estimate.energy_j)})</text>"
        )
    caption = f"{escape(title)}: {si(estimate.energy_j, 'J')}"
    if estimate.provenance is Provenance.PREDICTED:
        caption += f" predicted from {escape(estimate.basis.value)} energy"
    box = f"0 0 {left + width + 130} {len(estimate.blocks) * height}"
    return f'<section><p>{caption}</p><svg viewBox="{box}" role="img">{"".join(lines)}</svg></section><br>'


def _scatter(trials: Sequence[Trial], found: str) -> str:
    """Measured across, predicted up, intervals as whiskers, the diagonal where they agree."""
    size, left, bottom = 380, 90, 50
    seen = [v for t in trials for v in (*t.estimate.interval_j, t.estimate.energy_j, t.measured_j)]
    low, high = min(seen), max(seen)
    margin = (high - low) * 0.08 or high * 0.1
    low, high = max(0.0, low - margin), high + margin

    def place(value: float) -> float:
        return (value - low) / (high - low) * size

    marks = []
    for trial in trials:
        x = left + place(trial.measured_j)
        y0, y1, y = (size - place(v) for v in (*trial.estimate.interval_j, trial.estimate.energy_j))
        told = f"{trial.member}: {si(trial.estimate.energy_j, 'J')}, {found} {si(trial.measured_j, 'J')}"
        marks.append(
            f"<g><title>{escape(told)}</title>"
            f'<line class="reach" x1="{x:.1f}" x2="{x:.1f}" y1="{y0:.1f}" y2="{y1:.1f}"/>'
            f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/></g>'
        )
    ticks = []
    for i in range(5):
        value = low + (high - low) * i / 4
        at, label = place(value), si(value, "J")
        ticks.append(
            f'<text class="dim" x="{left + at:.1f}" y="{size + 20}" text-anchor="middle">{label}</text>'
            f'<text class="dim" x="{left - 8}" y="{size - at + 4:.1f}" text-anchor="end">{label}</text>'
        )
    return (
        f'<svg viewBox="0 -12 {left + size + 40} {size + bottom + 12}" role="img" style="max-width:34rem">'
        f'<rect class="axis" x="{left}" y="0" width="{size}" height="{size}" fill="none"/>'
        f'<line class="ideal" x1="{left}" y1="{size}" x2="{left + size}" y2="0"/>{"".join(ticks)}{"".join(marks)}'
        f'<text x="{left + size / 2}" y="{size + 42}" text-anchor="middle">{escape(found)}</text>'
        f'<text x="14" y="{size / 2}" text-anchor="middle" transform="rotate(-90 14 {size / 2})">predicted</text></svg>'
    )
