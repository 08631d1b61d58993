"""Estimates against plain training loops that know nothing of our code, on models that are not part of it.

    python -m benchmarks.hardware.own_loop profiled FILE [MODEL …]    models as they were profiled
    python -m benchmarks.hardware.own_loop unseen FILE [MODEL …]      other widths, depths and kernels of the factories
    python -m benchmarks.hardware.own_loop card FILE [MODEL …]        models as they were profiled, on an NVIDIA card

Each model is trained by `plain_loop`, in a process of its own, in short windows between the campaign's measurements and
after them, so that a machine whose speed wanders does so for both. Each network is a line of FILE, in `data/own-loop`;
a model that is in FILE already is not run again.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.fitting import learn
from ampere_energy.errors import AmpereError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices import Device, open_device
from ampere_energy.measurement.devices.local import LocalDevice
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, Timing
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.structures import Axis, structures
from ampere_energy.model.training import Optimizer, Precision, Training
from ampere_energy.profiles.profile import Profile
from benchmarks.models import CARD, MODELS, Model
from benchmarks.results import ROOT

WATTS = 10.0
PROFILED_S, UNSEEN_S = 50.0, 90.0
"""Seconds of a campaign for one model, and for a factory's structures, the windows of the loops among them."""
_EVERY_S, WINDOW_S = 3.0, 0.5
CARD_S, CARD_WINDOW_S = 20.0, 1.5
_CARD_EVERY_S = 6.0
PROCESSES, PROCESSES_OF_MANY, _CARD_PROCESSES = 20, 7, 2
"""Loops of one network: how fast a process computes depends on where its memory happens to lie."""
AFTER, AFTER_OF_MANY, _CARD_AFTER = 20, 8, 3
"""Windows of one network after its campaign."""


@dataclass(frozen=True)
class Scored:
    """One network: what was estimated, and what a plain loop took, both a step.

    Attributes:
        table: `profiled`, `unseen` or `card`.
        arguments: of the factory; empty for its defaults.
        without_j: the same estimate without the whole-model observation; None where there is none.
        loops_j: of each window of the plain loop.
        during_j: of the windows among the campaign's measurements.
        profile_s: seconds of measuring.
        time_s: estimated, of a step.
        loops_s: seconds a step of all windows.
        device: what it ran on.
        commit, date: of the code, and when it ran.
    """

    table: str
    model: str
    arguments: dict[str, int]
    optimizer: str
    precision: str
    energy_j: float
    low_j: float
    high_j: float
    without_j: float | None
    loops_j: list[float]
    during_j: list[float]
    profile_s: float
    budget_s: float
    blocks: int
    kinds: int
    time_s: float = 0.0
    loops_s: tuple[float, ...] = ()
    device: str = ""
    commit: str = ""
    date: str = ""

    @property
    def scored_j(self) -> list[float]:
        """The windows that the estimate is held against: on a processor those after its campaign alone.

        Among its measurements a process that will be measured next is starting, beside which a loop takes some percent
        more.
        """
        return self.during_j + self.loops_j if self.table == "card" else self.loops_j

    @property
    def error_meanwhile(self) -> float | None:
        """The error beside the windows among the campaign's measurements, when the machine was as it was then."""
        return self.energy_j / statistics.fmean(self.during_j) - 1 if self.during_j else None

    @property
    def loop_j(self) -> float:
        return statistics.fmean(self.scored_j)

    @property
    def error(self) -> float:
        return self.energy_j / self.loop_j - 1

    @property
    def inside(self) -> bool:
        return self.low_j <= self.loop_j <= self.high_j


class Loop:
    """A plain training loop in a process of its own."""

    def __init__(self, model: Model, arguments: Mapping[str, int], device: str) -> None:
        given = ",".join(f"{name}={value}" for name, value in arguments.items())
        command = [sys.executable, "-m", "benchmarks.hardware.plain_loop", model.factory, "--device", device]
        command += ["--optimizer", model.optimizer, "--precision", model.precision]
        command += ["--arguments", given] if given else []
        self._model = model
        self._process = subprocess.Popen(
            [*command, *(["--threads", "1"] if device == "cpu" else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        )  # fmt: skip

    def ready(self) -> None:
        """Waits until the first steps were trained."""
        assert self._answer().get("ready"), f"{self._model.factory} does not train"

    def run(self, seconds: float) -> tuple[float, float]:
        """Joules and seconds a step over some seconds.

        As a card's counter has them, or as the modelled meter counts them: processor seconds × watts.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"run {seconds}\n")
        self._process.stdin.flush()
        told = self._answer()
        steps = int(told["steps"])
        energy_j = float(told["energy_j"]) if "energy_j" in told else WATTS * float(told["cpu_s"])
        return energy_j / steps, float(told["wall_s"]) / steps

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {}


class Interleaved:
    """A device between whose measurements plain loops run for a moment, in turn."""

    def __init__(self, device: Device, loops: list[list[Loop]], window_s: float, every_s: float) -> None:
        self._device, self._loops, self._window_s, self._every_s = device, loops, window_s, every_s
        self.seen: list[list[tuple[float, float]]] = [[] for _ in loops]
        self._next_s, self._turn = time.monotonic(), 0

    @property
    def info(self) -> DeviceInfo:
        return self._device.info

    @property
    def meter(self) -> MeterInfo:
        return self._device.meter

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        self._interleave()
        return self._device.measure(workload, procedure)

    def time(self, workload: Workload) -> Timing:
        self._interleave()
        return self._device.time(workload)

    def close(self) -> None:
        self._device.close()

    def _interleave(self) -> None:
        if time.monotonic() < self._next_s:
            return
        if isinstance(self._device, LocalDevice):
            self._device.ready()
        self.turn()
        self._next_s = time.monotonic() + self._every_s

    def turn(self) -> None:
        """One window of the loop whose turn it is: each network in turn, each in another process than before."""
        network, process = self._turn % len(self._loops), self._turn // len(self._loops)
        own = self._loops[network]
        self.seen[network].append(own[process % len(own)].run(self._window_s))
        self._turn += 1


def reference(model: Model, arguments: Mapping[str, int]) -> ModelRef:
    training = Training(1, Optimizer(model.optimizer), precision=Precision(model.precision))
    return model_ref(
        model.factory, widths=tuple(arguments.values()), names=tuple(arguments), training=training
    )  # fmt: skip


def profiled(name: str) -> Iterator[Scored]:
    """A model as it is: its own profile, then windows of a plain loop."""
    model = MODELS[name]
    ref = reference(model, {})
    spec = replace(parse_ref(ref), widths=(), follows=())
    with running(model, [{}]) as device:
        learnt = profile(spec, device=device, ranges=[], rules=Rules(budget_s=PROFILED_S), ref=ref)
        spec = replace(parse_ref(ref), widths=(), follows=())  # a later call of the factory, with other data
        yield from scores("profiled", model, name, learnt, [({}, spec)], device, PROFILED_S)


def on_card(name: str) -> Iterator[Scored]:
    """A model as it is on an NVIDIA card, in eager steps."""
    model, arguments = CARD[name]
    ref = reference(model, arguments)
    spec = replace(parse_ref(ref), widths=(), follows=())
    with running(model, [arguments], "cuda") as device:
        learnt = profile(spec, device=device, ranges=[], rules=Rules(budget_s=CARD_S), ref=ref)
        yield from scores("card", model, name, learnt, [(arguments, spec)], device, CARD_S, _CARD_AFTER)


def unseen(name: str) -> Iterator[Scored]:
    """Networks of a factory that its campaign never ran; one that it happened to draw is left out."""
    model = MODELS[name]
    found = structures(reference(model, {}), [axis(text) for text in model.vary], parse_ref)
    asked = [(arguments, parse_ref(reference(model, arguments))) for arguments in model.others]
    first, *more = found
    with running(model, [arguments for arguments, _ in asked]) as device:
        learnt = profile(
            first.spec,
            device=device,
            ranges=first.ranges,
            rules=Rules(budget_s=UNSEEN_S),
            ref=first.ref,
            more=more,
        )
        for scored, (_, spec) in zip(
            scores("unseen", model, name, learnt, asked, device, UNSEEN_S, AFTER_OF_MANY), asked, strict=True
        ):
            if not ran(learnt, spec):
                yield scored


def ran(learnt: Profile, spec: ModelSpec) -> bool:
    """Whether a campaign ran this very network."""
    nets = learnt.nets
    assert nets is not None
    own = sorted((b.kind.id, b.point) for b in spec.blocks)
    wholes = (o.blocks for o in nets.observations if len(o.blocks) > 1 and not o.apart)
    return any(sorted((nets.subjects[kind].id, point) for kind, point in blocks) == own for blocks in wholes)


def scores(
    table: str,
    model: Model,
    name: str,
    learnt: Profile,
    asked: list[Any],
    device: Interleaved,
    budget_s: float,
    after: int = AFTER,
) -> Iterator[Scored]:
    during = [len(own) for own in device.seen]
    for _ in range(after * len(asked)):
        device.turn()
    for place, (arguments, spec) in enumerate(asked):
        found = estimate(spec, learnt)
        without = estimate(spec, blind(learnt)).energy_j if table != "unseen" else None
        energies_j, times_s = zip(*device.seen[place], strict=True)
        told = dict(device.info.details)
        yield Scored(
            table, name, dict(arguments), model.optimizer, model.precision, found.energy_j, *found.interval_j, without,
            list(energies_j[during[place] :]), list(energies_j[: during[place]]), learnt.profile_s, budget_s,
            len(spec.blocks), len(spec.kinds), found.time_s, times_s,
            ", ".join(told[key] for key in ("gpu", "processor", "cores", "torch") if key in told),
            commit(), datetime.now(UTC).date().isoformat(),
        )  # fmt: skip


def blind(learnt: Profile) -> Profile:
    """The profile as if the model itself had not been run: from its blocks alone, and side by side."""
    nets = learnt.nets
    assert nets is not None
    parts = [o for o in nets.observations if len(o.blocks) == 1 or o.apart]
    return replace(learnt, nets=learn(nets.subjects, parts, idle_w=nets.idle_w, cached=learnt.device.processor))


@contextlib.contextmanager
def running(model: Model, settings: Sequence[Mapping[str, int]], name: str = "cpu") -> Iterator[Interleaved]:
    """This machine's processor or card, with plain loops for each set of arguments."""
    with contextlib.ExitStack() as stack:
        on_cpu = name == "cpu"
        each = (PROCESSES if len(settings) == 1 else PROCESSES_OF_MANY) if on_cpu else _CARD_PROCESSES
        loops = [
            [stack.enter_context(contextlib.closing(Loop(model, own, name))) for _ in range(each)] for own in settings
        ]
        opened = open_device("cpu", meter=f"cputime:{WATTS:g}", threads=1) if on_cpu else open_device(name)
        device = stack.enter_context(contextlib.closing(opened))
        for loop in (loop for own in loops for loop in own):
            loop.ready()  # what starts beside a campaign would slow it down
        yield Interleaved(device, loops, *((WINDOW_S, _EVERY_S) if on_cpu else (CARD_WINDOW_S, _CARD_EVERY_S)))


@cache
def commit() -> str:
    """The code that ran; a folder that is no checkout does not tell."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def axis(text: str) -> Axis:
    """`depth=2:6`, `width=16:64:8` or `kernel=3,5,7`."""
    name, _, values = text.partition("=")
    if ":" not in values:
        return Axis(name, tuple(map(int, values.split(","))))
    low, high, step = (*map(int, values.split(":")), 1)[:3]
    return Axis(name, tuple(range(low, high + 1, step)))


def read(path: Path) -> list[Scored]:
    return [Scored(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def record(job: str, path: Path, names: list[str]) -> None:
    """Runs models that are not in a file yet, each in turn; one that fails is told and does not stop the others."""
    done = {(found.table, found.model) for found in read(path)}
    jobs = {"profiled": profiled, "unseen": unseen, "card": on_card}
    for name in names or list(CARD if job == "card" else MODELS):
        if (job, name) in done:
            continue
        start = time.monotonic()
        try:
            found = list(jobs[job](name))
        except (AmpereError, AssertionError) as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        with path.open("a") as file:
            for scored in found:
                file.write(json.dumps(asdict(scored)) + "\n")
                print(line(scored), flush=True)
        print(f"  {name}: {time.monotonic() - start:.0f} s", flush=True)


def line(scored: Scored) -> str:
    given = ",".join(f"{k}={v}" for k, v in scored.arguments.items())
    half = (scored.high_j / scored.low_j) ** 0.5 - 1
    scatter = max(scored.loops_j) / min(scored.loops_j) - 1
    time_s = statistics.fmean(scored.loops_s)
    without = f" without {100 * (scored.without_j / scored.loop_j - 1):+.1f} %" if scored.without_j else ""
    return (
        f"{scored.table} {scored.model} {given}: {100 * scored.error:+.1f} % ± {100 * half:.1f}{without}, "
        f"{'inside' if scored.inside else 'OUTSIDE'}; "
        f"time {1e3 * time_s:.2f} ms {100 * (scored.time_s / time_s - 1):+.1f} %; "
        f"loop scatters {100 * scatter:.0f} %, "
        f"{scored.blocks} blocks, {scored.kinds} kinds, {scored.profile_s:.0f} s"
    )


def main(arguments: list[str]) -> None:
    job, *rest = arguments
    record(job, Path(rest[0]), rest[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
