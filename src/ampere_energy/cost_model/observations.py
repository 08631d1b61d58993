"""What a fit is made of: kinds as it sees them, and networks of their blocks that were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ampere_energy.measurement.records import LEAST, MOST, Record, Timing, Window, durations, energies
from ampere_energy.model.kinds import AnyKind, Fragment, Point
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Variant
from ampere_energy.model.widths import Domain
from ampere_energy.serialization import later

Net = tuple[tuple[int, Point], ...]
"""A network: its blocks' subjects, by their places, with widths."""


@dataclass(frozen=True)
class Subject:
    """A kind as the fit sees it.

    Attributes:
        id: the kind's own name.
        work: kinds of one work share residuals, since the device picks the same kernels for them.
        structure: kinds of one structure take the host equally long to issue, whatever their sizes.
        domain: the widths profiled.
        label: a description for people.
        squares: whether its work grows with the square of a width.
        rearranged: whether the compiler may lay its data out otherwise in company than alone.
        taps: how many products of a sum go with one width: those of a convolution's kernel.
    """

    id: str
    work: str
    structure: str
    domain: Domain
    label: str = ""
    squares: bool = later(False)
    rearranged: bool = later(False)
    taps: int = later(1)


@dataclass(frozen=True)
class Observation:
    """One network measured, per training step.

    Attributes:
        blocks: subjects, by their places, with widths.
        time_s: how long the device is busy.
        energy_j: what it takes meanwhile; None for a timing.
        time_error, energy_error: relative standard errors.
        host_s: how long the host takes to issue the step; None where host and device are one.
        wall_s: how long a step really takes, host and device together; None where it was not run so.
        apart: its blocks did not feed each other, so that it tells nothing of what they cost in company.
        long: measured for longer than others are, so that it scatters less.
    """

    blocks: Net
    time_s: float
    energy_j: float | None
    time_error: float
    energy_error: float = 0.0
    host_s: float | None = None
    wall_s: float | None = None
    apart: bool = later(False)
    long: bool = later(False)

    def __post_init__(self) -> None:
        positive = [v for v in (self.time_s, self.energy_j, self.host_s, self.wall_s) if v is not None]
        if not self.blocks or min(positive) < LEAST or max(positive) > MOST:
            raise ValueError("an observation has blocks, and values within reason")
        if not 0 <= min(self.time_error, self.energy_error) <= max(self.time_error, self.energy_error) < 10:
            raise ValueError("relative errors lie between 0 and 10")


def works_of(subjects: Sequence[Subject]) -> tuple[tuple[int, ...], ...]:
    """The subjects of each work, by their places, in the order of appearance."""
    works: dict[tuple[str, int, int], list[int]] = {}
    for index, subject in enumerate(subjects):
        works.setdefault((subject.work, len(subject.domain), subject.taps), []).append(index)
    return tuple(tuple(members) for members in works.values())


def subject(kind: AnyKind, domain: Domain) -> Subject:
    """A kind as the fit sees it."""
    squares = isinstance(kind, Fragment)  # several layers of one width multiply it with itself
    main = kind.main if isinstance(kind, Fragment) else kind.main.op
    rearranged = kind.training.mode is Mode.COMPILE and main == "conv2d"
    label = f"{kind.role} {kind.label}"
    return Subject(kind.id, kind.work, kind.structure, domain, label, squares, rearranged, kind.taps)


def observation(
    net: Net, record: Record, energy_error: float, waits: bool, *, long: bool = False
) -> Observation | None:
    """A record as the fit sees it; None where nothing ran. Captured steps do not wait for the host."""
    if record.infeasible is not None:
        return None
    apart = isinstance(record.workload, Variant) and record.workload.apart
    if isinstance(record, Timing):
        assert record.device_s is not None
        host_s, wall_s = (record.host_s, record.wall_s) if waits else (None, None)
        return Observation(net, record.device_s, None, 0.0, host_s=host_s, wall_s=wall_s, apart=apart)
    windows = record.busy or record.windows
    time_s, energy_j = _median(durations, windows), _median(energies, windows)
    error = record.time_std_s / record.time_s
    if not (waits and record.busy):
        return Observation(net, time_s, energy_j, error, energy_error, apart=apart, long=long)
    return Observation(net, time_s, energy_j, error, energy_error, record.host_s, record.time_s, apart, long)


def _median(values: Callable[[Sequence[Window]], Sequence[float]], windows: Sequence[Window]) -> float:
    return float(np.median(values(windows)))
