"""The process that measures: reads a request a line, trains, answers a line.

Run as `python -m ampere_energy.measurement.devices.worker DEVICE METER [THREADS]`. Answers go to the original standard
output; whatever the model itself prints goes to standard error (`child_process`). What a model's code sets of torch
lasts until the next request.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import nn

from ampere_energy.child_process import Answer, opened
from ampere_energy.errors import AmpereError, MeterError, ModelError
from ampere_energy.measurement.memory import hand_back, hand_back_much
from ampere_energy.measurement.meter_gate import busy, passed
from ampere_energy.measurement.meters.recorder import Recorder, open_recorder
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.timing import device_s, issue_s, outlasts_issuing
from ampere_energy.measurement.training_step import Step, as_cuda_graph, training_step
from ampere_energy.measurement.windows import measure_windows
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model import torch_settings
from ampere_energy.model.training import Mode, Optimizer
from ampere_energy.serialization import decode, encode

_IDLE_S = 1.0


def main(device_name: str, meter: str, threads: int | None) -> None:
    """Answers requests until the parent closes."""
    channel = opened()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        device = torch.device(device_name)
        if device.type == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("torch sees no CUDA device; is this a CPU build, or the driver missing?")
        torch.zeros(1, device=device)  # a card's context is open from here on, as it is while training
    except RuntimeError as error:
        channel.reply({"device_error": f"{device_name} cannot be used ({error})".splitlines()[0]})
        return
    try:
        recorder = open_recorder(for_device(meter, device))
    except AmpereError as error:
        channel.reply({"meter_error": str(error)})
        return
    channel.reply({**identity(device), "meter": encode(recorder.info)})
    if device.type == "cuda":
        _load_libraries(device)  # meanwhile the model is read
    usual = torch_settings.current()

    def answer(request: Answer) -> Answer:
        torch_settings.restore(usual)
        return _answer(request, device, recorder)

    channel.serve(answer)
    recorder.close()


def _load_libraries(device: torch.device) -> None:
    """Trains next to nothing: a card's libraries and torch's optimizers take seconds to load when first used."""
    layers = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(288, 8)).to(device)
    layers(torch.randn(8, 8, 8, 8, device=device)).sum().backward()
    torch.optim.SGD(layers.parameters(), 1e-12).step()
    torch.cuda.synchronize(device)


def identity(device: torch.device) -> dict[str, Any]:
    """What tells a device from another, as far as torch knows it."""
    told: dict[str, Any] = {"threads": torch.get_num_threads(), "torch": torch.__version__}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        told |= {"gpu": properties.name, "uuid": str(properties.uuid)}
    return told


def for_device(meter: str, device: torch.device) -> str:
    """NVML numbers cards differently from CUDA; a UUID names the one that trains."""
    if device.type != "cuda":
        return meter
    uuid = f"nvml:GPU-{torch.cuda.get_device_properties(device).uuid}"
    return "+".join(uuid if name == "nvml" else name for name in meter.split("+"))


def _answer(request: dict[str, Any], device: torch.device, recorder: Recorder) -> dict[str, Any]:
    tidy = hand_back
    try:
        if request["do"] == "idle":
            return encode(passed(recorder, partial(busy, device), _IDLE_S))  # type: ignore[no-any-return]
        workload: Any = decode(Workload, request["workload"], "workload")  # type: ignore[arg-type]
        if request["do"] == "time":
            found = _time(workload, device)
        else:
            found = _measure(workload, decode(Procedure, request["procedure"], "procedure"), device, recorder)
        tidy = hand_back_much
        return found
    except ModelError as error:
        return {"model_error": str(error)}
    except MeterError as error:
        return {"meter_error": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what stops a training step makes it infeasible
        reason = f"{type(error).__name__}: {error}".splitlines()[0].partition(". GPU ")[0][:300]
        # After most CUDA errors, and after a capture that failed, nothing works in this process any more.
        return {"infeasible": reason, "broken": device.type == "cuda" and "memory" not in reason}
    finally:
        tidy(device)


def _measure(workload: Any, procedure: Procedure, device: torch.device, recorder: Recorder) -> dict[str, Any]:
    mode = workload.training.mode
    step = training_step(workload, device, mode)
    windows, doubts = measure_windows(step, recorder, procedure)
    answer: dict[str, Any] = {"windows": encode(windows), "doubts": list(doubts), "conditions": _versions()}
    if device.type == "cuda" and mode.waits:
        answer["host_s"] = issue_s(step)
        try:
            alone = as_cuda_graph(_capturable(step, workload, device))
        except RuntimeError as error:
            answer["doubts"].append(f"the step cannot be captured ({str(error).splitlines()[0]})")
            answer["broken"] = True
        else:
            busy, more = measure_windows(alone, recorder, replace(procedure, target=None))
            answer["busy"] = encode(busy)
            answer["doubts"] += [f"captured: {doubt}" for doubt in more]
    return answer


def _capturable(step: Step, workload: Any, device: torch.device) -> Step:
    """The step as a CUDA graph takes it: one that reads its loss, or counts its steps on the host, is built anew."""
    training = workload.training
    counts = training.optimizer in (Optimizer.ADAM, Optimizer.ADAMW)
    if training.mode is Mode.GRAPH or not (counts or training.sync_each_step or training.scheduler):
        return step
    return training_step(workload, device, training.mode, capturable=True)


def _time(workload: Any, device: torch.device) -> dict[str, Any]:
    mode = workload.training.mode
    step = training_step(workload, device, mode if mode.waits else Mode.EAGER, capturable=not mode.waits)
    if device.type != "cuda":
        step.run()  # the first one compiles
        return {"device_s": device_s(step), "captured": False}
    issued: dict[str, float] = {}
    if mode.waits:  # else nobody asks what issuing takes, and it takes longer to find out than all the rest
        step.run()
        issued = {"host_s": issue_s(step), "wall_s": device_s(step)}
    elif outlasts_issuing(step):
        return {"device_s": device_s(step), "captured": False}
    try:
        return {"device_s": device_s(as_cuda_graph(_capturable(step, workload, device))), "captured": True, **issued}
    except RuntimeError as error:
        print(f"the step cannot be captured ({error})", file=sys.stderr)
        # After a capture that failed, random numbers fail in this process, and with them whatever is built next.
        return {"device_s": device_s(step), "captured": False, "broken": True, **issued}


@cache
def _versions() -> list[list[str]]:
    try:
        own = version("ampere-energy")
    except PackageNotFoundError:
        own = "from source"
    return [["ampere-energy", own], ["torch", torch.__version__], ["python", sys.version.split()[0]]]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
