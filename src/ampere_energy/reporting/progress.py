"""Live displays: of a campaign, and of anything that is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ampere_energy.campaign.rules import Status
from ampere_energy.units import duration, percent


class CampaignDisplay:
    """Shows kind, points, uncertainty, elapsed and remaining; a plain line a kind where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = 0
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[detail]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("starting the device", total=None, detail="", left="")

    def __enter__(self) -> CampaignDisplay:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._progress.stop()

    def __call__(self, status: Status) -> None:
        """Takes in a new status."""
        left = f"about {duration(status.remaining_s)} left" if status.remaining_s is not None else ""
        if not self._console.is_terminal:
            if status.index != self._shown:
                self._shown = status.index
                most = f", at most {left}" if left else ""
                so_far = f"{_place(status)}: {status.doing} · {status.measurements} measurements so far{most}"
                self._console.print(so_far, highlight=False, soft_wrap=True)
            return
        spread = f", ±{percent(status.uncertainty)}" if status.uncertainty is not None else ""
        self._progress.update(
            self._task,
            description=f"{_place(status)} {status.doing}",
            total=status.of,
            completed=status.index - 1,
            detail=f"{status.points} points{spread}",
            left=left,
        )


def _place(status: Status) -> str:
    return f"{status.unit} {status.index}" + (f"/{status.of}" if status.of is not None else "")


@contextmanager
def counting(console: Console, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar over something counted, gone when it is done; nothing where there is no terminal.

    Yields:
        A function to be told how many are done, and of how many.
    """
    bar = Progress(
        TextColumn(what, markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(what, total=1)
    with bar:
        yield lambda done, of: bar.update(task, completed=done, total=of)
