"""Contracts that every meter and device must keep, for the tests of whoever writes one.

from ampere_energy.testing import check_meter

def test_my_meter():
    check_meter(lambda: MyMeter())
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise

from ampere_energy.measurement.devices import Device
from ampere_energy.measurement.meters import Meter
from ampere_energy.measurement.procedures import POINT
from ampere_energy.measurement.workloads import Workload
from ampere_energy.serialization import decode, encode


def check_meter(open_meter: Callable[[], Meter], readings: int = 20, pause_s: float = 0.01) -> None:
    """Opens a meter, reads it some times and closes it; raises `AssertionError` where it breaks the contract."""
    meter = open_meter()
    try:
        info = meter.info
        assert info.name, "a meter has a name"
        assert info.domains, f"{info.name} names the domains it covers"
        assert len(set(info.domains)) == len(info.domains), f"{info.name} names each domain once"
        assert info.tick_s >= 0, f"{info.name} ticks every {info.tick_s} s"
        assert decode(type(info), encode(info), "info") == info, f"{info.name}'s info is plain data"
        taken = []
        for _ in range(readings):
            begun = time.monotonic()
            taken.append(meter.read())
            assert begun <= taken[-1].at_s <= time.monotonic(), f"{info.name} stamps readings by the monotonic clock"
            time.sleep(pause_s)
        for reading in taken:
            assert len(reading.energy_j) == len(info.domains), f"{info.name} reads one figure a domain"
            assert all(math.isfinite(joules) for joules in reading.energy_j), f"{info.name} reads finite joules"
        for before, after in pairwise(taken):
            assert before.at_s < after.at_s, f"{info.name} stamps each reading with its own moment"
            falls = [b for a, b in zip(before.energy_j, after.energy_j, strict=True) if b < a]
            assert not falls, f"{info.name} never counts backwards"
        assert meter.info == info, f"{info.name} stays the same meter"
    finally:
        meter.close()


def check_device(device: Device, workload: Workload) -> None:
    """Measures a workload twice; raises `AssertionError` where the device breaks the contract."""
    first, second = (device.measure(workload, POINT) for _ in range(2))
    for measurement in (first, second):
        assert measurement.workload == workload, "a measurement is of the workload asked for"
        assert measurement.device == device.info, "a measurement carries the device's identity"
        assert measurement.meter == device.meter, "a measurement carries the meter's identity"
        assert decode(type(measurement), encode(measurement), "measurement") == measurement, "it is plain data"
        if measurement.infeasible is None:
            assert len(measurement.windows) >= POINT.windows, "as many windows as the procedure asks for"
            assert measurement.energy_j > 0, "a step that ran took energy"
            assert measurement.time_s > 0, "a step that ran took time"
