"""Tables for the terminal."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.estimation.bundle_choice import Choice
from ampere_energy.estimation.result import JOULES_PER_WH, BlockEstimate, Estimate, Origin
from ampere_energy.evaluation.evaluate import Trials, score
from ampere_energy.measurement.records import Measurement, MeterInfo, Provenance, durations, energies
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.kinds import Fragment
from ampere_energy.model.source import spelt
from ampere_energy.profiles.profile import Profile
from ampere_energy.units import Quantity, bar, duration, interval, percent, si

_LEAST_SHOWN = 0.0005
_CANCEL = 1.2
"""How much more than the whole's the blocks' deviations must be together to be explained."""


def spec_table(spec: ModelSpec) -> RenderableType:
    """`ampere parse`."""
    title = f"{spec.name}: blocks {len(spec.blocks)}, kinds {len(spec.kinds)}, batch {spec.training.batch}"
    table = bare_table("block", "role", "layers", "widths", "kind", title=title, footer=True)
    for name, total in (
        ("parameters", f"{sum(b.parameters for b in spec.blocks):,}"),
        ("training", si(sum(b.training_flops for b in spec.blocks), "FLOP")),
    ):
        table.add_column(name, justify="right", footer=total, no_wrap=True)
    for block in spec.blocks:
        widths = _widths(block)
        flops = si(block.training_flops, "FLOP")
        table.add_row(
            block.name, block.kind.role, block.kind.label, widths, block.kind.id, f"{block.parameters:,}", flops
        )
    return Group(table, *_opaque(spec), _unattributed(spec.unattributed))


def _widths(block: Block) -> str:
    kind = block.kind
    if isinstance(kind, Fragment):
        return ", ".join(map(str, block.point)) or "opaque"
    return f"{kind.width_in(block.point)} → {kind.width_out(block.point)}"


def _opaque(spec: ModelSpec) -> list[Text]:
    """What opaque blocks cost: they are known only as they are."""
    opaque = [b for b in spec.blocks if isinstance(b.kind, Fragment) and b.kind.opaque]
    if not opaque:
        return []
    part = sum(b.training_flops for b in opaque) / max(1, sum(b.training_flops for b in spec.blocks))
    kinds = len({b.kind for b in opaque})
    return [
        Text(
            f"{len(opaque)} opaque blocks of {kinds} kinds, {percent(part)} of the FLOPs: measured as they are, so "
            "a profile covers them at these sizes only",
            style="dim",
        )
    ]


def profile_table(profile: Profile) -> RenderableType:
    """What a campaign learnt."""
    state = "" if profile.complete else ", PARTIAL"
    title = f"{profile.model} on {profile.device.name}, method {profile.method}{state}"
    spent = f"{profile.measurements} networks trained in {duration(profile.profile_s)} · {source(profile.meter)}"
    table, about = _kinds(profile, title) if profile.nets is None else _subjects(profile.nets, title)
    doubts = [Text(f"doubt: {doubt}", style="yellow") for doubt in profile.doubts]
    return Group(table, Text(about, style="dim"), Text(spent, style="dim"), *doubts)


def _kinds(profile: Profile, title: str) -> tuple[Table, str]:
    """What the paper's method learnt, and what to know about it."""
    table = bare_table("role", "layers", title=title)
    for name in ("widths", "points", "energy"):
        table.add_column(name, justify="right", no_wrap=True)
    for fit in profile.kinds:
        table.add_row(
            fit.kind.role,
            fit.kind.label,
            " × ".join(map(str, fit.domain)),
            str(len(fit.points)),
            _range(fit.energy.values, "J"),
        )
    return table, "kinds that are not the model's own feed and read the others, and are subtracted"


def _subjects(nets: JointFit, title: str) -> tuple[Table, str]:
    """What was learnt jointly, and how well."""
    table = bare_table("layers", title=title)
    for name in ("widths", "metered", "timed", "energy"):
        table.add_column(name, justify="right", no_wrap=True)
    for kind in nets.known_kinds():
        values, widths = [energy_j for _, energy_j in kind.metered], " × ".join(map(str, kind.domain))
        table.add_row(kind.label, widths, str(len(values)), str(kind.timed), _range(values, "J") if values else "")
    whole = sum(len(o.blocks) > 1 for o in nets.observations)
    about = f"blocks alone, each a whole step, and {whole} whole networks; predicted from all others, the median error"
    return table, f"{about} is {percent(median_error(nets))}"


def median_error(nets: JointFit) -> float:
    """How far measured networks are off when predicted from all others, in the median, as a share."""
    return float(np.median(np.abs(nets.left_out()[0])))


def estimate_table(
    estimate: Estimate,
    battery_wh: Quantity | None = None,
    within_j: Quantity | None = None,
    bundled: Choice | None = None,
) -> RenderableType:
    """`ampere estimate`; an estimate from a bundle is for another device than the profiled one."""
    low, high = estimate.interval_j
    where = "" if bundled is None else f", on another {bundled.entry.device} than the profiled one"
    table = bare_table(
        "block", "kind", title=f"{estimate.model}: {_steps(estimate.iterations)} on {estimate.device.name}"
    )
    for name in ("energy", "± std", "time"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("of energy")
    for block in estimate.blocks:
        share = estimate.share(block.energy_j)
        table.add_row(
            f"≈ {block.name}" if block.approximate else block.name,
            block.kind,
            si(block.energy_j, "J"),
            si(block.std_j, "J"),
            si(block.time_s, "s"),
            percent(share),
            _bar(share),
        )
    if estimate.other_j > _LEAST_SHOWN * estimate.energy_j:
        part = estimate.other_j / estimate.energy_j
        table.add_row("step", "base, waiting", si(estimate.other_j, "J"), "", "", percent(part), _bar(part))
    rows = [
        ("a step", str(estimate.training)),
        ("energy", f"{si(estimate.energy_j, 'J')}  ({si(estimate.energy_wh, 'Wh')})"),
        (interval(estimate.level), f"{si(low, 'J')} – {si(high, 'J')}{where}"),
        ("time", duration(estimate.time_s)),
        ("average power", si(estimate.power_w, "W")),
    ]
    if battery_wh is not None:
        used = estimate.battery_share(battery_wh.value)
        fits = estimate.probability_within(battery_wh.value * JOULES_PER_WH)
        rows.append((f"of a {battery_wh.text} battery", f"{100 * used:.3g} %, P(fits) {_likely(fits)}"))
    if within_j is not None:
        rows.append((f"P(within {within_j.text})", _likely(estimate.probability_within(within_j.value))))
    if estimate.busy < 0.95:
        rows.append(("device busy", f"{percent(estimate.busy)} of the time; the rest waits for the host"))
    rows.append(("provenance", f"predicted from {source(estimate.meter)}"))
    if estimate.approximate:
        rows.append(("≈ approximate", _origins(estimate)))
    if math.hypot(*(block.std_j for block in estimate.blocks)) > _CANCEL * estimate.std_j:
        rows.append(("blocks' ± std", "more than the whole's: it, or others like it, were measured as a whole"))
    rows += [("slow", _slow(block)) for block in estimate.blocks if block.slower is not None]
    rows += [("doubt", doubt) for doubt in estimate.doubts]
    return Group(table, facts(rows), _unattributed(estimate.unattributed))


def _bar(share: float) -> Text:
    return Text(bar(share), no_wrap=True, overflow="crop")  # what a narrow window may cut: the number stands beside it


def _origins(estimate: Estimate) -> str:
    """What was known, scaled and guessed, each with its share of the joules."""
    batch = estimate.from_batch
    words = {
        Origin.KNOWN: "known",
        Origin.SCALED: f"scaled from batch {batch}",
        Origin.GUESSED: "guessed from kinds that are profiled" + (f" at batch {batch}" if batch is not None else ""),
    }
    found = [(share, words[origin]) for origin, share in estimate.origins.items()]
    found += [(estimate.share(estimate.other_j), "base and waiting")]
    (share, what), *others = [(percent(share), what) for share, what in found if share >= _LEAST_SHOWN]
    return ", ".join([f"{share} of the joules {what}", *(f"{share} {what}" for share, what in others)])


def _slow(block: BlockEstimate) -> str:
    times = f"{block.name} takes {block.slower:.0f} times what its size would let expect"
    return f"{times}: the device computes some widths of its kind so; narrower or much wider ones may cost a fraction"


def measurement_table(measurement: Measurement, model: str, iterations: int) -> RenderableType:
    """`ampere measure`."""
    energy, error = measurement.energy_j * iterations, measurement.energy_std_j * iterations
    rows = [
        ("model", model),
        ("device", str(measurement.device)),
        ("energy", f"{si(energy, 'J')} ± {si(error, 'J')} for {_steps(iterations)}"),
        ("time", duration(measurement.time_s * iterations)),
        ("average power", si(measurement.energy_j / measurement.time_s, "W")),
        ("windows", f"{len(measurement.windows)} of {measurement.windows[0].iterations} steps"),
    ]
    if measurement.above_idle_j is not None and measurement.idle_w:
        above = si(measurement.above_idle_j * iterations, "J")
        rows.append(("above idle", f"{above} (the idle device takes {si(measurement.idle_w, 'W')})"))
    if measurement.busy:
        busy_j = statistics.median(energies(measurement.busy)) * iterations
        busy_s = statistics.median(durations(measurement.busy)) * iterations
        rows.append(("device alone", f"{si(busy_j, 'J')} in {duration(busy_s)} as a CUDA graph"))
    if measurement.host_s is not None:
        rows.append(("host", f"{si(measurement.host_s, 's')} to issue a step"))
    rows.append(("energy is", source(measurement.meter)))
    rows += [("doubt", doubt) for doubt in measurement.doubts]
    return facts(rows)


def evaluation_table(sets: Sequence[Trials]) -> RenderableType:
    """`ampere evaluate`: predicted and measured side by side, and how every method did."""
    return Group(*(part for trials in sets for part in (_networks(trials), _scores(trials), _caption(trials))))


def _networks(trials: Trials) -> Table:
    widths = "aligned widths" if trials.aligned else "any widths"
    about = f"{trials.training.mode}, batch {trials.training.batch}, {widths}"
    about += f" ({trials.recorded})" if trials.recorded else ""
    called = "arguments" if trials.names else "widths"
    table = bare_table(called, title=f"unseen networks of {trials.family} on {trials.device.name}, {about}")
    found = trials.meter.provenance.value
    for name in ("predicted", interval(trials.level), found, "error", "inside"):
        table.add_column(name, justify="right", no_wrap=True)
    method = trials.methods[0]
    for member in trials.networks:
        prediction = member.predictions[method]
        low, high = prediction.interval_j or (prediction.energy_j,) * 2
        table.add_row(
            spelt(member.widths, trials.names).replace(",", ", "),  # a narrow window folds between words
            si(prediction.energy_j, "J"),
            f"{si(low, 'J')} – {si(high, 'J')}",
            f"{si(member.measured_j, 'J')} ± {si(member.measured_std_j, 'J')}",
            percent(member.error(method), signed=True),
            "yes" if member.covered(method) else "no",
        )
    return table


def _scores(trials: Trials) -> Table:
    table = bare_table("method")
    for name in ("mean error", "bias", "9 of 10 within", "rank", "inside", "networks"):
        table.add_column(name, justify="right", no_wrap=True)
    for method in trials.methods:
        found = score(trials, method)
        table.add_row(
            method,
            percent(found.mape),
            percent(found.bias, signed=True),
            percent(found.p90),
            "–" if found.spearman is None else f"{found.spearman:.3f}",
            "–" if found.coverage is None else percent(found.coverage),
            str(len(trials.tried(method))),
        )
    return table


def _caption(trials: Trials) -> Text:
    rank = "" if trials.repeat_rank is None else f" (two rounds rank alike: {trials.repeat_rank:.3f})"
    taken = "" if trials.profile_j is None else f" and about {si(trials.profile_j, 'J')}"
    return Text(
        f"error of the measurements themselves {percent(trials.floor)}{rank}; {trials.points} networks measured for "
        f"the profile in {duration(trials.profile_s)}{taken}; energy is {source(trials.meter)}, per training step\n",
        style="dim",
    )


def source(meter: MeterInfo) -> str:
    """How an energy was obtained, in words nobody can overlook."""
    if meter.provenance is Provenance.MODELLED:
        return f"MODELLED energy, not measured ({meter})"
    if meter.provenance is Provenance.SIMULATED:
        return "SIMULATED energy (no device was used)"
    return f"{meter.provenance} energy ({meter}; {', '.join(meter.domains)})"


def _likely(probability: float) -> str:
    if probability > 0.999:
        return "over 99.9 %"
    return "under 0.1 %" if probability < 0.001 else percent(probability)


def _steps(iterations: int) -> str:
    return f"{iterations:,} training step{'s' if iterations > 1 else ''}"


def _range(values: Sequence[float], unit: str) -> str:
    return f"{si(min(values), unit)} – {si(max(values), unit)}"


def facts(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and what they are, two columns."""
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(style="dim", justify="right")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def _unattributed(operations: Sequence[str]) -> Text:
    if not operations:
        return Text("every operation is attributed to a block", style="dim")
    return Text(f"not attributed to any block, and not counted: {'; '.join(operations)}", style="yellow")


def bare_table(*columns: str, title: str | None = None, footer: bool = False) -> Table:
    """A table without lines, and its first columns."""
    heading = Text(title) if title is not None else None  # a name is no markup
    table = Table(title=heading, title_justify="left", title_style="bold", show_footer=footer, box=None, padding=(0, 1))
    for column in columns:
        table.add_column(column)
    return table
