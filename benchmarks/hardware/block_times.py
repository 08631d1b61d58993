"""Times the blocks of all models in `architectures` on this machine's processor, one thread.

    python -m benchmarks.hardware.block_times FILE

What is recorded is `data/cpu-blocks`; `python -m benchmarks approximate` predicts each model's blocks from another's.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from ampere_energy.cost_model.traits import traits_of
from ampere_energy.measurement.devices import open_device
from ampere_energy.model.variants import alone
from ampere_energy.serialization import encode
from benchmarks.architectures import MODELS, as_it_is
from benchmarks.results import DATA

TIMED = DATA / "cpu-blocks" / "timed.json"
ROUNDS = 3


def record(path: Path) -> None:
    """Times every block of every model by itself, several times over."""
    torch.set_num_threads(1)
    device = open_device("cpu", threads=1)
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    models = {name: as_it_is(name) for name in MODELS}
    try:
        for _ in range(ROUNDS):
            for name, spec in models.items():
                for number, block in enumerate(spec.blocks):
                    time_s = device.time(alone(block.kind, block.point)).device_s
                    if time_s is None:
                        continue
                    about = {
                        "model": name,
                        "training": str(spec.training),
                        "block": block.name,
                        "kind": block.kind.id,
                        "point": list(block.point),
                        "traits": encode(traits_of(block.kind, block.point)),
                        "times_s": [],
                    }
                    rows.setdefault((name, number), about)["times_s"].append(time_s)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        about_all = {"device": encode(device.info), "recorded_at": now, "rows": list(rows.values())}
    finally:
        device.close()
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in about_all.pop("rows"))
    head = json.dumps(about_all)[:-1]
    path.write_text(f'{head}, "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    record(Path(sys.argv[1]))
