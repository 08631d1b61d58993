"""Networks of the families in `data/cpu` at other batches: `python -m benchmarks.hardware.other_batches FOLDER`.

On the processor that `data/cpu` was recorded on; resumes. `python -m benchmarks.hardware.families pack FOLDER` packs
the logs, `python -m benchmarks batches` scores them.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from ampere_energy.evaluation.experiment import MEMBER
from ampere_energy.evaluation.recorded import load
from ampere_energy.measurement.devices import open_device
from ampere_energy.measurement.log import MeasurementLog
from benchmarks.results import DATA

FOLDER = DATA / "cpu-batches"
NETWORKS = 8
BATCHES = {
    "cnn5-any": (10, 3, 40, 128),
    "lenet5-any": (64, 8, 16, 256),
    "resnet-any": (10, 2, 40),
    "har-any": (10, 2, 40),
    "lstm-any": (10, 2, 40),
}


def record(folder: Path) -> None:
    """Measures networks at other batches; goes on where it stopped."""
    with contextlib.closing(open_device("cpu", threads=1)) as device:
        for name, batches in BATCHES.items():
            asked = load(DATA / "cpu" / name).experiment
            for batch in batches:
                log = MeasurementLog(folder / f"{name}-{batch}.jsonl")
                for widths in asked.members[len(log.read()) : NETWORKS]:
                    log.append(device.measure(asked.ref(widths).at_batch(batch), MEMBER))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
