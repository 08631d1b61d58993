from __future__ import annotations

import random
import statistics
from dataclasses import replace

import pytest

from ampere_energy.measurement.meters.cputime import CpuTimeMeter
from ampere_energy.measurement.procedures import point_of
from ampere_energy.measurement.records import Measurement, Window, median_error
from benchmarks.specs import spec_of


def test_median_error_is_the_spread_of_a_median() -> None:
    draw = random.Random(0)
    for count in (3, 5, 9):
        medians = [statistics.median(draw.gauss(0, 1) for _ in range(count)) for _ in range(4000)]
        assert statistics.stdev(medians) == pytest.approx(median_error(count), rel=0.05)


def test_values_are_medians_per_step() -> None:
    windows = (Window(10.0, 1.0, 10), Window(30.0, 2.0, 10), Window(90.0, 3.0, 10))
    from ampere_energy.measurement.devices.simulated import SimulatedDevice
    from ampere_energy.model.variants import Variant

    device = SimulatedDevice()
    measurement = Measurement(Variant(spec_of("lenet5").blocks), device.info, device.meter, windows, 1.0, "now")
    assert (measurement.energy_j, measurement.time_s) == (3.0, 0.2)
    with pytest.raises(ValueError, match="windows, or else a reason"):
        Measurement(measurement.workload, device.info, device.meter, (), 1.0, "now")


def test_no_window_without_time_or_steps() -> None:
    for energy, duration, steps in ((1.0, 0.0, 1), (1.0, 1.0, 0), (-1.0, 1.0, 1)):
        with pytest.raises(ValueError, match="are no window"):
            Window(energy, duration, steps)


def test_modelled_energy_is_cpu_seconds_times_watts(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    meter, ten = CpuTimeMeter(1.0), CpuTimeMeter(10.0)
    before, cpu = meter.read(), time.process_time()
    while time.process_time() - cpu < 0.2:
        pass
    after = meter.read()
    assert after.total_j - before.total_j == pytest.approx(0.2, rel=0.05)
    with monkeypatch.context() as still:
        still.setattr(time, "process_time", lambda: 0.25)
        assert (meter.read().total_j, ten.read().total_j) == (0.25, 2.5)
    time.sleep(0.2)
    assert meter.read().total_j - after.total_j < 0.05  # sleeping costs nothing in this model


def test_where_a_meter_ticks_one_window_is_a_point() -> None:
    meter = CpuTimeMeter().info
    assert (point_of(meter).windows, point_of(replace(meter, tick_s=0.1)).windows) == (2, 1)
