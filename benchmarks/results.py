"""What is recorded as pages of docs/results: `python -m benchmarks.results`, a minute or two."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from pathlib import Path

from scipy.stats import binom

from benchmarks import host_time, own_loop
from benchmarks.own_loop import Scored

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
OWN_LOOP = ROOT / "data" / "own-loop" / "cpu.jsonl"
LEVEL = 0.9


def own_loops() -> str:
    """Estimates beside plain training loops: models as profiled, then networks that no campaign ran."""
    found = own_loop.read(OWN_LOOP)
    profiled, unseen = ([s for s in found if s.table == table] for table in ("profiled", "unseen"))
    return f"""# Estimates beside a user's own loop

What does the estimate say, and what does a training loop take that knows nothing of AMPERE? The loops are
`benchmarks/plain_loop.py`, the models `benchmarks/models`; neither imports anything of ours. Energy is modelled: processor
seconds × {own_loop.WATTS:g} W. Loops run in windows of {own_loop.WINDOW_S:g} s among the campaign's measurements and after them, each network in
two to four processes, on a shared two-core machine with one thread. Regenerate this page from
[the recorded windows](../../data/own-loop) by `make results`; record them anew by `python -m benchmarks.own_loop`.

**How much a loop agrees with itself.** One process of a network differs from the others of the same network by
{_percent(_between(found))} (standard deviation of one window); that is the floor under every figure here.

{_summary("Models as they were profiled", profiled)}
{_summary("Networks that no campaign ran", unseen)}

## Models as they were profiled

`ampere profile MODEL --budget {own_loop.PROFILED_S:g}s`. "Later windows" are those after the campaign alone; "blocks alone" is
the same estimate without the measurements of the model itself.

{_table(profiled, _of_profiled)}

## Networks that no campaign ran

One campaign a factory over several of its arguments (`--vary`, {own_loop.UNSEEN_S:g} s); then networks at values of these that it
did not run.

{_table(unseen, _of_unseen)}
"""


def _summary(title: str, found: list[Scored]) -> str:
    if not found:
        return f"**{title}.** None recorded."
    errors = [s.error for s in found]
    windows = [s.low_j <= j <= s.high_j for s in found for j in (*s.during_j, *s.loops_j)]
    low, high = binom.interval(0.95, len(windows), LEVEL)
    return (
        f"**{title}** ({len(found)}): median error {_percent(statistics.median(map(abs, errors)))}, worst "
        f"{_percent(max(map(abs, errors)))}, mean signed error {100 * statistics.fmean(errors):+.1f} %; {sum(windows)} of "
        f"{len(windows)} windows ({_percent(sum(windows) / len(windows))}) inside the 90 % intervals, where 95 % of exact "
        f"ones would have {_percent(low / len(windows))} to {_percent(high / len(windows))}.\n"
    )


def _between(found: Iterable[Scored]) -> float:
    shares = [statistics.stdev(windows) / statistics.fmean(windows) for s in found if len(windows := s.loops_j) > 1]
    return statistics.median(shares)


def _table(found: list[Scored], row: Callable[[Scored], list[str]]) -> str:
    if not found:
        return ""
    heads = ["model", "estimate", "own loop", "error", "inside"]
    heads += ["later windows", "blocks alone"] if found[0].table == "profiled" else ["arguments"]
    lines = [heads, ["---"] * len(heads), *(row(scored) for scored in found)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _both(scored: Scored) -> list[str]:
    half = (scored.high_j / scored.low_j) ** 0.5 - 1
    estimate = f"{1e3 * scored.energy_j:.0f} mJ ± {100 * half:.0f} %"
    inside = "yes" if scored.inside else "**no**"
    return [scored.model, estimate, f"{1e3 * scored.loop_j:.0f} mJ", f"{100 * scored.error:+.1f} %", inside]


def _of_profiled(scored: Scored) -> list[str]:
    later, without = (
        scored.energy_j / statistics.fmean(scored.loops_j) - 1,
        (scored.without_j or 0.0) / scored.loop_j - 1,
    )
    return [*_both(scored), f"{100 * later:+.1f} %", f"{100 * without:+.1f} %"]


def _of_unseen(scored: Scored) -> list[str]:
    return [*_both(scored), ", ".join(f"{name}={value}" for name, value in scored.arguments.items())]


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
