from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ampere_energy.errors import DeviceError, MeterError, ModelError, RequestError
from ampere_energy.measurement.devices import open_device, reopen
from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import Provenance
from ampere_energy.measurement.retries import measured
from ampere_energy.measurement.workloads import run_as
from ampere_energy.model.kinds import Fragment
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Variant, alone, lessons
from ampere_energy.testing import check_device
from benchmarks.specs import spec_of

QUICK = Procedure(windows=3, ticks=5, window_s=0.03, warm_up_s=0.1)
MODELS = """
import os, time
from torch import nn
def kills_itself(): os.kill(os.getpid(), 9)
def hangs(): time.sleep(1000)
def prints():
    print("chatter on standard output", flush=True)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
class Explodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
    def forward(self, x):
        raise RuntimeError("out of memory, say")
class Leaves(Explodes):
    def forward(self, x):
        raise SystemExit(0)
def raises(): raise ValueError("no")
class Holds(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 2))
        self.file, self.function = open(__file__), lambda x: x * 2
    def forward(self, x):
        return super().forward(self.function(x))
"""


@pytest.fixture(scope="module")
def device() -> Iterator[LocalDevice]:
    opened = LocalDevice("cpu", "cputime:7", threads=1)
    yield opened
    opened.close()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return path


def test_a_variant_is_really_trained(device: LocalDevice) -> None:
    lesson = lessons(spec_of("cnn5"))[-1]
    small = device.measure(lesson.variant((8, 8)), QUICK)
    large = device.measure(lesson.variant((256, 256)), QUICK)
    assert small.infeasible is None
    assert len(small.windows) == 3
    assert large.time_s > 3 * small.time_s  # about a thousand times the work
    assert large.energy_j > 3 * small.energy_j
    assert small.meter.provenance is Provenance.MODELLED
    # One thread is busy for the whole window: seven watts, less only where the machine took the core away.
    assert 0 < large.energy_j / large.time_s <= 7.0 * 1.02


def test_a_model_is_really_trained(device: LocalDevice, models: Path) -> None:
    measurement = device.measure(model_ref(f"{models}:prints", input=(5, 3)), QUICK)
    assert measurement.infeasible is None
    assert measurement.energy_j > 0


def test_a_model_that_cannot_be_pickled_is_trained(device: LocalDevice, models: Path) -> None:
    """It holds a function without a name and an open file; the worker builds it itself."""
    assert device.measure(model_ref(f"{models}:Holds", input=(5, 3)), QUICK).infeasible is None


def test_recorded_pieces_are_really_trained(device: LocalDevice) -> None:
    """Fragments travel to the worker as JSON: by themselves, and side by side."""
    spec = parse_ref(model_ref("transformer", widths=(1, 64), input=(2, 8)))
    pieces = [block for block in spec.blocks if isinstance(block.kind, Fragment)]
    assert len(pieces) >= 2
    for block in pieces:
        assert device.measure(alone(block.kind, block.point), QUICK).infeasible is None
    together = device.measure(Variant(tuple(pieces), apart=True), QUICK)
    assert together.infeasible is None
    assert together.time_s > 0


@pytest.mark.parametrize(
    ("factory", "reason", "attempt"),
    [
        ("kills_itself", "worker died by signal 9", True),
        ("hangs", "no answer within 3 s", True),
        ("Explodes", "out of memory, say", False),
        ("Leaves", "SystemExit: 0", False),
    ],
)
def test_what_cannot_run_is_infeasible_and_the_next_one_runs(
    device: LocalDevice, models: Path, factory: str, reason: str, attempt: bool
) -> None:
    """A worker that died or hung failed; what torch says of a model is the model's."""
    procedure = replace(QUICK, deadline_s=3) if factory == "hangs" else QUICK
    failed = device.measure(model_ref(f"{models}:{factory}", input=(5, 3)), procedure)
    assert failed.windows == ()
    assert reason in str(failed.infeasible)
    assert failed.failed is attempt
    assert device.measure(model_ref(f"{models}:prints", input=(5, 3)), QUICK).infeasible is None


def test_a_factory_that_raises_is_the_users_error(device: LocalDevice, models: Path) -> None:
    with pytest.raises(ModelError, match="raised ValueError: no"):
        device.measure(model_ref(f"{models}:raises", input=(5, 3)), QUICK)


def test_a_worker_killed_from_outside_is_an_attempt_that_failed(device: LocalDevice, models: Path) -> None:
    device.measure(model_ref(f"{models}:prints", input=(5, 3)), QUICK)
    first = device._worker

    def kill() -> None:
        """The worker that took over for the second model, once it has been asked."""
        while device._worker is first or not device._worker._hello:
            time.sleep(0.05)
        time.sleep(0.5)
        assert device._worker._process is not None
        os.kill(device._worker._process.pid, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    start = time.monotonic()
    failed = device.measure(model_ref(f"{models}:hangs", input=(5, 3)), QUICK)
    assert "signal 9" in str(failed.infeasible)
    assert failed.failed
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_worker_was_killed_or_stopped_over_is_measured_by_the_next(
    device: LocalDevice, how: signal.Signals
) -> None:
    lesson = lessons(spec_of("cnn5"))[-1]
    device.time(lesson.variant((8, 8)))  # its worker is ready
    victim = device._worker._process
    assert victim is not None
    threading.Timer(0.3, os.kill, (victim.pid, how)).start()
    found = measured(device, lesson.variant((8, 8)), replace(QUICK, windows=20, deadline_s=5))
    assert device._worker._process is not victim
    assert (found.infeasible, found.failed, len(found.windows)) == (None, False, 20)


def test_the_simulated_device_is_exactly_additive() -> None:
    device, spec = SimulatedDevice(), spec_of("lenet5")
    whole = device.measure(Variant(spec.blocks), QUICK)
    assert whole.energy_j == pytest.approx(sum(device.true_energy_j([b]) for b in spec.blocks), rel=1e-12)
    assert whole.time_s == pytest.approx(sum(device.true_time_s([b]) for b in spec.blocks), rel=1e-12)
    assert device.measure(model_ref("lenet5"), QUICK).energy_j == pytest.approx(whole.energy_j, rel=1e-12)
    assert whole.meter.provenance is Provenance.SIMULATED


def test_the_simulated_noise_is_what_it_says() -> None:
    device, spec = SimulatedDevice(0.03), spec_of("lenet5")
    true = device.true_energy_j(spec.blocks)
    repeats = [device.measure(Variant(spec.blocks), QUICK) for _ in range(600)]
    errors = [m.energy_j / true - 1 for m in repeats]
    assert (sum(e * e for e in errors) / 600) ** 0.5 == pytest.approx(0.03, rel=0.1)
    assert abs(sum(errors) / 600) < 0.005
    stated = (sum(m.energy_std_j**2 for m in repeats) / 600) ** 0.5 / true
    assert stated == pytest.approx(0.03, rel=0.1)  # what the windows say about themselves is true


def test_devices_by_name() -> None:
    assert open_device("simulated:0.05").info == SimulatedDevice(0.05).info
    assert reopen(SimulatedDevice(0.05).info, SimulatedDevice(0.05).meter).info == SimulatedDevice(0.05).info
    for name in ("tpu", "simulated:much", "simulated:0.7"):
        with pytest.raises(RequestError):
            open_device(name)
    with pytest.raises(MeterError, match="--watts-per-core -1"):
        open_device("cpu", meter="cputime:-1").info  # noqa: B018 - the worker starts when it is first asked
    with pytest.raises(MeterError, match="no meter is called 'psychic'"):
        open_device("cpu", meter="psychic").info  # noqa: B018
    with pytest.raises(RequestError, match="--threads 0"):
        open_device("cpu", threads=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_machine_without_cuda_says_so() -> None:
    with pytest.raises(DeviceError, match=r"cuda cannot be used .*ampere devices"):
        open_device("cuda", meter="cputime").info  # noqa: B018


def test_a_timing_costs_no_meter(device: LocalDevice) -> None:
    lesson = lessons(spec_of("cnn5"))[-1]
    small, large = (device.time(lesson.variant(point)) for point in ((8, 8), (256, 256)))
    assert large.device_s > 2 * small.device_s
    assert (small.host_s, small.captured) == (None, False)


def test_devices_keep_the_contract(device: LocalDevice) -> None:
    variant = lessons(spec_of("lenet5"))[0].variant((5,))
    check_device(device, variant)
    check_device(SimulatedDevice(0.01), variant)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_measurement_has_all_resources() -> None:
    device = LocalDevice("cuda")
    ref = model_ref("cnn5", input=(128, 3, 64, 64))
    measurement = device.measure(ref, QUICK)
    assert measurement.meter.provenance is Provenance.MEASURED
    assert measurement.busy
    assert measurement.host_s
    assert measurement.idle_w
    eager, graph = device.time(ref), device.time(run_as(ref, Mode.GRAPH))
    assert eager.captured
    assert graph.captured
    assert eager.device_s == pytest.approx(graph.device_s, rel=0.1)
    assert eager.host_s
    assert eager.wall_s
    assert eager.wall_s > 0.9 * max(eager.device_s, eager.host_s)
    assert (graph.host_s, graph.wall_s) == (None, None)
    long = model_ref("cnn5", input=(4096, 3, 64, 64))
    assert not device.time(run_as(long, Mode.GRAPH)).captured, "it takes many times what issuing it does"
    device.close()
