"""What is recorded as pages of docs/results: `python -m benchmarks.results`, a minute or two."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binom

from benchmarks import host_time, own_loop
from benchmarks.own_loop import Scored

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
OWN_LOOPS = ROOT / "data" / "own-loop"
LEVEL = 0.9


def own_loops() -> str:
    """Estimates beside plain training loops: models as profiled, networks that no campaign ran, and a card's."""
    profiled, unseen, card = (table(name) for name in ("profiled", "unseen", "card"))
    return f"""# Estimates beside a user's own loop

What does the estimate say, and what does a training loop take that knows nothing of AMPERE? The loops are
`benchmarks/plain_loop.py`, the models `benchmarks/models`; neither imports anything of ours.

{_summary("Models as they were profiled", profiled)}
{_summary("Networks that no campaign ran", unseen)}
{_summary("Models as they were profiled, on an NVIDIA card", card)}

**How it was measured.** Energy is modelled on the processor: processor seconds × {own_loop.WATTS:g} W, one thread of a
shared two-core machine. A network's loop runs in {own_loop.PROCESSES} processes for models as they were profiled and in
{own_loop.PROCESSES_OF_MANY} for the others, in windows of {own_loop.WINDOW_S:g} s, among the campaign's measurements and after
them. Errors are those beside the later windows; *meanwhile* is the error beside the windows among the campaign's measurements,
when the machine was as it was for the campaign. Where the two differ, the machine changed: the rows recorded so far ran while
other programs kept the second core busy, at times more, at times less, and come from two runs; of a model in both, the later
run stands. Networks that no campaign ran were first to be held against all windows, and are held against the later ones since
the others were seen to be dearer. Recorded {_when(profiled + unseen)}; regenerate
this page from [the recorded windows](../../data/own-loop) by `make results`, record them anew by
`python -m benchmarks.own_loop`.

**How much a loop agrees with itself.** On the processor, one process differs from others of the same network by
{_percent(_between(profiled + unseen))} (standard deviation of one window, the median of all networks;
[why](../decisions/038-processes-differ.md)). That is the floor under every figure here: the mean of
{own_loop.AFTER} windows is itself that uncertain by a factor of {own_loop.AFTER**-0.5:.2f}.

## Models as they were profiled

`ampere profile MODEL --budget {own_loop.PROFILED_S:g}s`. "Blocks alone" is the same estimate without the measurements of the
model itself.

{_table(profiled, _of_profiled)}

## Networks that no campaign ran

One campaign a factory over several of its arguments (`--vary`, {own_loop.UNSEEN_S:g} s); then networks at values of these that it
did not run.

{_table(unseen, _of_unseen)}

## On an NVIDIA card

Eager steps of models as they were profiled ({own_loop.CARD_S:g} s each), on an NVIDIA H200; joules as the card counts them.
Recorded {_when(card)}.

{_table(card, _of_card)}
"""


def table(name: str) -> list[Scored]:
    """All that is recorded of one table."""
    return [s for path in sorted(OWN_LOOPS.glob("*.jsonl")) for s in own_loop.read(path) if s.table == name]


@dataclass(frozen=True)
class Summary:
    """How one table's estimates did, as shares.

    Attributes:
        inside: of the pairs of an estimate and a window that lie within the estimate's 90 % interval.
        exact: which shares 95 % of exact intervals would have.
    """

    networks: int
    median: float
    worst: float
    bias: float
    pairs: int
    inside: float
    exact: tuple[float, float]


def summary(found: list[Scored]) -> Summary:
    errors = [s.error for s in found]
    windows = [s.low_j <= j <= s.high_j for s in found for j in s.scored_j]
    low, high = (float(count) / len(windows) for count in binom.interval(0.95, len(windows), LEVEL))
    median, worst = statistics.median(map(abs, errors)), max(map(abs, errors))
    return Summary(
        len(found), median, worst, statistics.fmean(errors), len(windows), sum(windows) / len(windows), (low, high)
    )


def _summary(title: str, found: list[Scored]) -> str:
    if not found:
        return f"**{title}.** None recorded."
    told = summary(found)
    low, high = told.exact
    return (
        f"**{title}** ({told.networks}): median error {_percent(told.median)}, worst {_percent(told.worst)}, mean signed "
        f"error {100 * told.bias:+.1f} %; of {told.pairs} pairs of an estimate and a window of a loop "
        f"{_percent(told.inside)} are inside the 90 % intervals (exact ones: {_percent(low)} to {_percent(high)}).\n"
    )


def _when(found: Iterable[Scored]) -> str:
    """`2026-11-19 at 208b3a5`."""
    told = list(dict.fromkeys(f"{s.date} at {s.commit}" for s in found))
    return ", ".join(told) or "never"


def _between(found: Iterable[Scored]) -> float:
    shares = [statistics.stdev(windows) / statistics.fmean(windows) for s in found if len(windows := s.loops_j) > 1]
    return statistics.median(shares)


def _table(found: list[Scored], row: Callable[[Scored], list[str]]) -> str:
    if not found:
        return ""
    heads = ["model", "estimate", "own loop", "error", "inside"]
    heads += {"profiled": ["meanwhile", "blocks alone"], "unseen": ["meanwhile", "arguments"]}.get(
        found[0].table, ["blocks alone", "setting"]
    )
    lines = [heads, ["---"] * len(heads), *(row(scored) for scored in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _both(scored: Scored) -> list[str]:
    half = (scored.high_j / scored.low_j) ** 0.5 - 1
    estimate = f"{1e3 * scored.energy_j:.0f} mJ ± {100 * half:.0f} %"
    inside = "yes" if scored.inside else "**no**"
    return [scored.model, estimate, f"{1e3 * scored.loop_j:.0f} mJ", f"{100 * scored.error:+.1f} %", inside]


def _of_profiled(scored: Scored) -> list[str]:
    return [*_both(scored), _meanwhile(scored), _blocks_alone(scored)]


def _of_unseen(scored: Scored) -> list[str]:
    arguments = ", ".join(f"{name}={value}" for name, value in scored.arguments.items())
    return [*_both(scored), _meanwhile(scored), arguments]


def _of_card(scored: Scored) -> list[str]:
    return [*_both(scored), _blocks_alone(scored), f"{scored.optimizer}, {scored.precision}"]


def _meanwhile(scored: Scored) -> str:
    return "" if (error := scored.error_meanwhile) is None else f"{100 * error:+.1f} %"


def _blocks_alone(scored: Scored) -> str:
    return f"{100 * ((scored.without_j or 0.0) / scored.loop_j - 1):+.1f} %"


def host_times() -> str:
    """Steps that wait for their host, predicted and measured."""
    return f"""# The time of steps that wait for their host

On an H200, from what is recorded. Whole models of `data/h200-whole` are predicted from their blocks alone and side by side,
without the recording of the model itself; networks of the families in `data/h200` from their family's campaign, which did not
run them. A step waits where it takes 15 % longer than its device computes. Regenerate this page by `make results`.

{host_time.table([*host_time.models(), *host_time.families()])}"""


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    for name, page in (("own-loop.md", own_loops), ("host-time.md", host_times)):
        (PAGES / name).write_text(page().rstrip() + "\n")
        print(PAGES / name)


if __name__ == "__main__":
    main()
