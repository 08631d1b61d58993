"""What is believed of a device's answers: an attempt that failed is made again, and what cannot run is seen twice.

*The workload cannot run here* (it takes too much memory, an operation is missing) is knowledge, and is kept. *The
attempt failed* (the process that trained it died, was killed or gave no answer) tells nothing of the workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ampere_energy.errors import WorkerError
from ampere_energy.measurement.devices import Device
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import Measurement, Timing
from ampere_energy.measurement.workloads import Workload

TRIES = 3
_SEEN = 2
"""How often a workload is seen not to run before that is believed."""
R = TypeVar("R", Measurement, Timing)


def measured(device: Device, workload: Workload, procedure: Procedure) -> Measurement:
    """What a device measures of a workload; `failed` where each of some attempts failed."""
    return _believed(lambda: device.measure(workload, procedure))


def timed(device: Device, workload: Workload) -> Timing:
    """What a device times of a workload; `failed` where each of some attempts failed."""
    return _believed(lambda: device.time(workload))


def _believed(ask: Callable[[], R]) -> R:
    spent_s, seen = 0.0, 0
    for left in reversed(range(TRIES)):
        try:
            record = ask()
        except WorkerError:
            if not left:
                raise
            continue
        spent_s += record.cost_s
        record = replace(record, cost_s=spent_s)
        if record.infeasible is None:
            return record
        seen += not record.failed
        if seen == _SEEN:
            return record
    return replace(record, failed=True)
