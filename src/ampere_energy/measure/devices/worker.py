"""The process that measures: reads a request a line, trains, answers a line.

Run as `python -m ampere_energy.measure.devices.worker WATTS_PER_CORE [THREADS]`. Answers go to the original
standard output; whatever the model itself prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import torch

from ampere_energy.errors import AmpereError, ModelError
from ampere_energy.measure.measurement import Procedure, Workload
from ampere_energy.measure.meters.cputime import CpuTimeMeter
from ampere_energy.measure.step import measure_windows, training_step
from ampere_energy.plain import decode, encode


def main(watts_per_core: float, threads: int | None) -> None:
    """Answers requests until standard input closes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    if threads is not None:
        torch.set_num_threads(threads)
    meter = CpuTimeMeter(watts_per_core)
    print(json.dumps({"threads": torch.get_num_threads(), "torch": torch.__version__}), file=answers)
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), meter)), file=answers)


def _answer(request: dict[str, Any], meter: CpuTimeMeter) -> dict[str, Any]:
    try:
        workload: Any = decode(Workload, request["workload"], "workload")  # type: ignore[arg-type]
        procedure = decode(Procedure, request["procedure"], "procedure")
        return {"windows": encode(measure_windows(training_step(workload), meter, procedure))}
    except ModelError as error:
        return {"model_error": str(error)}
    except AmpereError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever stops a training step makes the workload infeasible
        return {"infeasible": f"{type(error).__name__}: {error}".splitlines()[0]}


def _leave_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
