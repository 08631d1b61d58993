"""`ampere prune`: what a device rewards, what was removed, and what that saves."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ampere_energy.estimation.coverage import listed
from ampere_energy.estimation.result import Estimate
from ampere_energy.optimization.pruning.pruned import Guide, Pruned
from ampere_energy.optimization.pruning.reward import PAYS, Reward, Setting
from ampere_energy.reporting.tables import bare_table, source
from ampere_energy.serialization import encode
from ampere_energy.units import interval, percent, si

_CLOSE = 0.9


def reward_words(reward: Reward) -> list[str]:
    """What to know before pruning, line by line."""
    here = reward.here
    told = [f"halving every width saves {percent(here.saves)} here, at {here.training}"]
    if here.host_bound:
        told.append(
            f"the step is host-bound: the device works {percent(here.busy)} of its time, and no width changes the rest"
        )
    elif reward.little:
        told.append("most of the step does not follow the widths that can go: a larger batch may help")
    for other in reward.others:
        how = "without waiting for the host, as with --mode graph," if other.inferred else f"at {other.training}"
        there, own = si(other.sample_j, "J"), si(here.sample_j, "J")
        costs = f"a sample takes {there}, not {own}" if there != own else f"a sample takes {own} as well"
        told.append(f"{how} it saves {percent(other.saves)}, and {costs}")
    if reward.idle_widths:
        told.append(f"halving one of these alone saves less than {percent(PAYS)}: {listed(reward.idle_widths, 4)}")
    return told


def prune_table(pruned: Pruned) -> RenderableType:
    """`ampere prune`."""
    before, after, aim = pruned.before, pruned.after, pruned.aim
    if not pruned.changed:
        return Text(f"{before.model} is within a budget of {aim.budget} as it is: nothing was removed")
    how = f"to {aim.budget} by {aim.guide}, {aim.importance} importance"
    title = Text(f"{before.model} on {before.device.name}: {how}")
    widths = bare_table()
    for name in ("width", "before", "after", "groups"):
        widths.add_column(name, justify="left" if name == "width" else "right", no_wrap=name != "width")
    for row in pruned.widths:
        style = "dim" if row.before == row.after else ""
        widths.add_row(row.name, str(row.before), str(row.after), str(row.groups), style=style)
    totals = bare_table()
    for name in ("a step", "before", "after", "share"):
        totals.add_column(name, justify="left" if name == "a step" else "right", no_wrap=name != "a step")
    work = pruned.work_before, pruned.work_after
    low, high = after.interval_j
    totals.add_row(
        "predicted energy",
        si(before.energy_j, "J"),
        si(after.energy_j, "J"),
        percent(after.energy_j / before.energy_j),
    )
    totals.add_row(
        interval(after.level),
        _interval(before),
        _interval(after),
        f"{100 * low / before.energy_j:.1f} – {percent(high / before.energy_j)}",
    )
    if pruned.measured is not None:
        first, last = pruned.measured
        how = str(first.meter.provenance)
        totals.add_row(
            f"run, {how} energy",
            si(first.energy_j, "J"),
            si(last.energy_j, "J"),
            percent(last.energy_j / first.energy_j),
        )
    totals.add_row(
        "predicted time", si(before.time_s, "s"), si(after.time_s, "s"), percent(after.time_s / before.time_s)
    )
    totals.add_row(
        "training FLOPs", si(work[0].flops, "FLOP"), si(work[1].flops, "FLOP"), percent(work[1].flops / work[0].flops)
    )
    totals.add_row(
        "parameters",
        f"{work[0].parameters:,}",
        f"{work[1].parameters:,}",
        percent(work[1].parameters / work[0].parameters),
    )
    notes = [Text(note, style="dim") for note in (*pruned.notes, *_misses(pruned))]
    sources = [f"predicted from {source(before.meter)}", *(f"doubt: {doubt}" for doubt in before.doubts)]
    if pruned.measured is not None:
        sources.append(f"run: {source(pruned.measured[1].meter)}, on {pruned.measured[1].device.name}")
    return Group(title, Text(), widths, Text(), totals, *notes, *(Text(line, style="dim") for line in sources))


def _misses(pruned: Pruned) -> list[str]:
    """What a nominal budget of FLOPs leaves unsaid, and whether a run kept to the budget."""
    reached = pruned.after.energy_j / pruned.before.energy_j
    budget, told = pruned.aim.budget, []
    if pruned.aim.guide is Guide.FLOPS and budget.share is not None and reached > budget.share:
        told.append(f"{budget} of the FLOPs are {percent(reached)} of the energy here: --guide ampere keeps to joules")
    if pruned.measured is not None:
        before, after = (m.energy_j for m in pruned.measured)
        share = after / budget.of(before)
        verdict = "inside" if share <= 1 else "outside"
        closer = "; --refine comes closer" if not _CLOSE <= share <= 1 and pruned.aim.guide is not Guide.FLOPS else ""
        told.append(f"as run, it is {verdict} the budget, at {percent(share)} of it{closer}")
    return told


def _interval(estimate: Estimate) -> str:
    low, high = estimate.interval_j
    return f"{si(low, 'J')} – {si(high, 'J')}"


def prune_json(pruned: Pruned, reward: Reward, folder: str) -> dict[str, Any]:
    """`ampere prune --json`; energies and times are of one step."""
    record: dict[str, Any] = {
        "model": pruned.before.model,
        "device": encode(pruned.before.device),
        "basis": pruned.before.basis.value,
        "doubts": list(pruned.before.doubts),
        "provenance": "predicted",
        "guide": pruned.aim.guide.value,
        "importance": pruned.aim.importance.value,
        "budget": {"share": pruned.aim.budget.share, "energy_j": pruned.aim.budget.joules},
        "aim": "mean" if pruned.aim.mean else "upper",
        "step": pruned.aim.step,
        "changed": pruned.changed,
        "widths": [encode(row) for row in pruned.widths],
        "groups": dict(pruned.group_widths),
        "before": _side(pruned.before, pruned.work_before.parameters, pruned.work_before.flops),
        "after": _side(pruned.after, pruned.work_after.parameters, pruned.work_after.flops),
        "measured": None,
        "reward": {
            "here": _setting(reward.here),
            "others": [_setting(other) for other in reward.others],
            "widths": [{"name": name, "saves": saves} for name, saves in reward.widths],
            "words": reward_words(reward),
        },
        "notes": [*pruned.notes, *_misses(pruned)],
        "out": folder or None,
    }
    if pruned.measured is not None:
        before, after = pruned.measured
        record["measured"] = {
            "before_j": before.energy_j,
            "before_std_j": before.energy_std_j,
            "after_j": after.energy_j,
            "after_std_j": after.energy_std_j,
            "share": after.energy_j / before.energy_j,
            "before_s": before.time_s,
            "after_s": after.time_s,
            "meter": str(after.meter),
            "provenance": after.meter.provenance.value,
        }
    return record


def _side(estimate: Estimate, parameters: int, flops: int) -> dict[str, Any]:
    return {
        "energy_j": estimate.energy_j,
        "interval_j": list(estimate.interval_j),
        "level": estimate.level,
        "time_s": estimate.time_s,
        "busy": estimate.busy,
        "parameters": parameters,
        "training_flops": flops,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return {
        "training": encode(setting.training),
        "energy_j": setting.energy_j,
        "halved_j": setting.halved_j,
        "saves": setting.saves,
        "sample_j": setting.sample_j,
        "time_s": setting.time_s,
        "busy": setting.busy,
        "inferred": setting.inferred,
    }
