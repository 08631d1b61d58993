"""`kill -9` at random moments of a campaign: nothing acknowledged is lost, nothing is measured twice."""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from collections import Counter
from pathlib import Path

import torch

from ampere_energy.campaign.rules import Status
from ampere_energy.campaign.run import profile
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.profiles.profile import Profile
from benchmarks.specs import spec_of


def campaign(log: Path, acknowledged: int | None = None) -> Profile:
    """One campaign on the simulated device; writes a byte to a pipe for every measurement acknowledged."""

    def observe(status: Status) -> None:
        if acknowledged is not None:
            os.write(acknowledged, b"." * (status.measurements - observe.told))  # type: ignore[attr-defined]
            observe.told = status.measurements  # type: ignore[attr-defined]

    observe.told = 0  # type: ignore[attr-defined]
    return profile(spec_of("lenet5"), device=SimulatedDevice(0.02), log=log, observe=observe, method="paper")


def killed(log: Path, after_s: float) -> tuple[int, bool]:
    """Starts or resumes a campaign in a child and kills it; what it acknowledged, and whether it had finished."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        warnings.simplefilter("ignore")  # a torn last line from the kill before is expected here
        torch.set_num_threads(1)
        campaign(log, writer)
        os._exit(0)
    os.close(writer)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    told = b""
    while chunk := os.read(reader, 65536):
        told += chunk
    os.close(reader)
    return len(told), os.WIFEXITED(status)


def run(kills: int, folder: Path, seed: int = 0) -> dict[str, int]:
    """Kills campaigns until `kills` of them died in mid-run; each goes on where the last one was killed."""
    draw = random.Random(seed)
    spec_of("lenet5")  # imports are paid for here, not in every child
    counts = Counter(kills=0, campaigns=0, lost=0, twice=0, torn=0, measurements=0)
    log = folder / "0.jsonl"
    while counts["kills"] < kills:
        told, finished = killed(log, draw.uniform(0.05, 0.6))
        counts["torn"] += log.exists() and not log.read_bytes().endswith(b"\n") and log.stat().st_size > 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = MeasurementLog(log).read()
        counts["lost"] += max(0, told - len(kept))
        counts["twice"] += len(kept) - len({m.workload for m in kept})
        counts["kills"] += not finished
        if finished or counts["kills"] == kills:
            counts["measurements"] += _finish(log)
            counts["campaigns"] += 1
            log = folder / f"{counts['campaigns']}.jsonl"
    return dict(counts)


def _finish(log: Path) -> int:
    """Resumes to the end; the result must equal that of a campaign nobody killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resumed = campaign(log)
    undisturbed = campaign(log.with_suffix(".undisturbed"))
    if not resumed.complete or resumed.kinds != undisturbed.kinds:
        raise AssertionError(f"{log} did not resume to the undisturbed result")
    return resumed.measurements
