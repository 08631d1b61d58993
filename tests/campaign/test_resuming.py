"""What a log tells a campaign that goes on, whoever wrote it, and what it never does."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.additions import caught_up, unlearnt
from ampere_energy.campaign.refine import refine
from ampere_energy.campaign.rules import Rules, Status
from ampere_energy.campaign.run import profile
from ampere_energy.errors import DeviceError, WorkerError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement import retries
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.procedures import POINT, Procedure
from ampere_energy.measurement.records import Measurement, Record, Timing, attempt_failed
from ampere_energy.measurement.workloads import Whole, Workload, content
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.profiles.profile import Profile
from benchmarks.specs import spec_of

DIED = "the worker died by signal 9"
RULES = Rules(points=3, precision=0.5)
SPEC = spec_of("lenet5")


class Unreliable(SimulatedDevice):
    """A device on which attempts come to nothing, as far as a function of their number and workload says so."""

    def __init__(self, dies: Callable[[int, Workload], bool]) -> None:
        super().__init__(0.01)
        self._dies, self.asked = dies, 0

    def _attempt(self, workload: Workload) -> bool:
        self.asked += 1
        return self._dies(self.asked, workload)

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        found = super().measure(workload, procedure)
        return replace(found, windows=(), infeasible=DIED, failed=True) if self._attempt(workload) else found

    def time(self, workload: Workload) -> Timing:
        found = super().time(workload)
        return replace(found, device_s=None, infeasible=DIED, failed=True) if self._attempt(workload) else found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Profile, Path]:
    log = tmp_path_factory.mktemp("undisturbed") / "log.jsonl"
    return profile(SPEC, device=SimulatedDevice(0.01), log=log, rules=RULES), log


def asked_for(log: Path) -> Counter[object]:
    """How often each request has a record."""
    return Counter((type(record), record.workload) for record in MeasurementLog(log).read())


def lines_of(log: Path) -> list[bytes]:
    return log.read_bytes().splitlines(keepends=True)


@pytest.mark.filterwarnings("ignore:1 whole model")
@pytest.mark.parametrize("source", ["{folder}/evil.py:f", "evil_package:f", "os:_exit"])
def test_nothing_that_a_log_names_is_run(
    undisturbed: tuple[Profile, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    marker = tmp_path / "ran"
    for name in ("evil.py", "evil_package.py"):
        (tmp_path / name).write_text(f"def f(*_): open({str(marker)!r}, 'w').close()\nf()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    log = tmp_path / "log.jsonl"
    log.write_bytes(undisturbed[1].read_bytes())
    seen = next(r for r in MeasurementLog(log).read() if isinstance(r, Measurement))
    evil = replace(model_ref("lenet5"), source=source.format(folder=tmp_path), step=f"{tmp_path}/evil.py:f")
    MeasurementLog(log).append(replace(seen, workload=evil))
    learnt = profile(SPEC, device=SimulatedDevice(0.01), log=log, rules=RULES, ref=model_ref("lenet5"))
    assert not marker.exists()
    assert learnt.nets == undisturbed[0].nets


DEEP = """
from torch import nn
def net():
    layers = [layer for _ in range({layers}) for layer in (nn.Linear(32, 32), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(32, 4))
"""


def test_what_was_measured_of_a_factory_is_not_taken_for_what_it_gives_now(tmp_path: Path) -> None:
    file, log, device = tmp_path / "deep.py", tmp_path / "log.jsonl", SimulatedDevice(0.01)

    def profiled(layers: int) -> tuple[float, float]:
        """What a step is estimated to take, and what it really does."""
        file.write_text(DEEP.format(layers=layers))
        ref = model_ref(f"{file}:net", input=(8, 32))
        spec = replace(parse_ref(ref), widths=(), follows=(), name="deep")
        learnt = profile(spec, device=device, ranges=[], log=log, rules=RULES, ref=ref)
        MeasurementLog(log).append(replace(device.measure(ref, POINT), workload=content(ref, spec.blocks)))
        return estimate(spec, learnt).energy_j, device.true_energy_j(spec.blocks)

    for layers in (12, 2, 12):
        predicted, true = profiled(layers)
        assert predicted == pytest.approx(true, rel=0.05), layers
    wholes = [record.workload for record in MeasurementLog(log).read() if isinstance(record.workload, Whole)]
    assert {len(whole.blocks) for whole in wholes} == {13, 3}
    assert not any(isinstance(record.workload, ModelRef) for record in MeasurementLog(log).read())


def test_a_failed_attempt_is_made_again_and_not_kept(undisturbed: tuple[Profile, Path], tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    device = Unreliable(lambda number, _: number % 7 in (3, 4))
    learnt = profile(SPEC, device=device, log=log, rules=RULES)
    assert learnt.complete
    records = MeasurementLog(log).read()
    assert [r.workload for r in records] == [r.workload for r in MeasurementLog(undisturbed[1]).read()]
    assert not any(r.infeasible for r in records)


def test_a_network_whose_attempts_all_fail_is_skipped_and_tried_again(
    undisturbed: tuple[Profile, Path], tmp_path: Path
) -> None:
    log, seen = tmp_path / "log.jsonl", list[Status]()
    order = [r.workload for r in MeasurementLog(undisturbed[1]).read()]
    device = Unreliable(lambda _, workload: workload == order[4])
    learnt = profile(SPEC, device=device, log=log, rules=RULES, observe=seen.append)
    assert not learnt.complete
    assert seen[-1].skipped == (f"{order[4]}: {DIED}",)
    assert order[4] not in {r.workload for r in MeasurementLog(log).read()}
    resumed = profile(SPEC, device=SimulatedDevice(0.01), log=log, rules=RULES)
    assert resumed.complete
    assert not asked_for(undisturbed[1]) - asked_for(log)
    assert max(asked_for(log).values()) == 1


def test_what_an_older_version_took_for_infeasible_is_asked_again(
    undisturbed: tuple[Profile, Path], tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    for record in MeasurementLog(undisturbed[1]).read():
        nothing = {"windows": ()} if isinstance(record, Measurement) else {"device_s": None}
        reason = DIED if isinstance(record, Measurement) else "no answer within 60 s"
        MeasurementLog(log).append(replace(record, infeasible=reason, **nothing))  # type: ignore[arg-type]
    learnt = profile(SPEC, device=SimulatedDevice(0.01), log=log, rules=RULES)
    assert learnt.nets == undisturbed[0].nets
    believed = [record for record in MeasurementLog(log).read() if not attempt_failed(record)]
    assert [r.workload for r in believed] == [r.workload for r in MeasurementLog(undisturbed[1]).read()]


def test_a_model_that_crashes_each_time_ends_in_an_error() -> None:
    for method in ("ampere", "paper"):
        device = Unreliable(lambda *_: True)
        with pytest.raises(DeviceError, match=r"nothing ran: .*died by signal 9; try again with --resume, or train"):
            profile(SPEC, device=device, method=method)
        assert device.asked == 4 * retries.TRIES


def test_what_cannot_run_is_seen_twice_before_it_is_believed() -> None:
    class Full(SimulatedDevice):
        """Out of memory, as far as a list says so; None is a worker that does not start."""

        def __init__(self, answers: list[str | None]) -> None:
            super().__init__()
            self.answers = answers

        def time(self, workload: Workload) -> Timing:
            found = replace(super().time(workload), cost_s=1.0)
            if (answer := self.answers.pop(0)) is None:
                raise WorkerError("no worker")
            failed = answer == DIED
            return replace(found, device_s=None, infeasible=answer, failed=failed) if answer else found

    workload = model_ref("lenet5")

    def found(*answers: str | None) -> Record:
        return retries.timed(Full(list(answers)), workload)

    full = "OutOfMemoryError"
    once = found(full, "")
    assert (once.infeasible, once.cost_s) == (None, 2.0)
    assert (found(full, full).infeasible, found(full, full).failed) == (full, False)
    assert found(full, DIED, full).failed is False
    assert found(full, DIED, DIED).failed is True
    assert found(DIED, None, full).failed is True, "seen once"
    with pytest.raises(WorkerError):
        found(None, None, None)


@pytest.mark.parametrize("first", [30, None])
def test_lines_of_three_campaigns_take_no_request_s_place(
    undisturbed: tuple[Profile, Path], tmp_path: Path, first: int | None
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"".join(line for line in lines_of(undisturbed[1])[:first] for _ in range(3)))
    before = asked_for(log)
    learnt = profile(SPEC, device=SimulatedDevice(0.01), log=log, rules=RULES)
    assert learnt.complete
    assert not asked_for(undisturbed[1]) - asked_for(log), "nothing of the opening is skipped"
    more = asked_for(log) - before
    assert not more & before, "nothing is measured again"
    assert max(more.values(), default=1) == 1


def test_lines_of_others_within_a_round_take_no_request_s_place() -> None:
    """A campaign that was killed in a round, and one of whose blocks --refine has measured since."""
    rules = Rules(points=100, precision=1e-6)
    alone, helped = (Guided(SPEC, None, rules, meters_graphs=False) for _ in range(2))
    device = SimulatedDevice(0.01)
    opening = [next_of(alone, device) for _ in range(len(alone.opening.requests) + 3)]
    for record in opening:
        helped.tell(record)
    helped.tell(device.measure(opening[0].workload, POINT))  # type: ignore[arg-type]
    assert alone.ask() == helped.ask()


def next_of(campaign: Guided, device: SimulatedDevice) -> Record:
    request = campaign.ask()
    assert request is not None
    found = device.measure(request.workload, POINT) if request.metered else device.time(request.workload)
    campaign.tell(found)
    return found


@pytest.mark.parametrize(("target", "left"), [(0.03, 7), (0.005, 2)])
def test_refining_goes_on_where_it_was_interrupted(
    undisturbed: tuple[Profile, Path], tmp_path: Path, target: float, left: int
) -> None:
    """By its blocks, and by the model itself."""
    widths, (learnt, _) = (5, 11, 77, 33), undisturbed
    spec, ref, wide = spec_of("lenet5", widths), model_ref("lenet5", widths=widths), SimulatedDevice(0.01)
    whole = refine(learnt, ref, spec, wide, target, log=tmp_path / "whole.jsonl")
    assert whole.measurements > left

    def interrupted(number: int, _: Workload) -> bool:
        if number > left:
            raise KeyboardInterrupt
        return False

    log = tmp_path / "log.jsonl"
    with pytest.raises(KeyboardInterrupt):
        refine(learnt, ref, spec, Unreliable(interrupted), target, log=log)
    assert len(MeasurementLog(log).read()) == left
    again = SimulatedDevice(0.01)
    for record in MeasurementLog(log).read():  # its noise goes on where it was
        asked = ref if isinstance(record.workload, Whole) else record.workload
        (again.measure(asked, POINT) if isinstance(record, Measurement) else again.time(asked))  # type: ignore[arg-type]
    found = refine(learnt, ref, spec, again, target, log=log)
    assert found.profile.nets == whole.profile.nets
    assert asked_for(log) == asked_for(tmp_path / "whole.jsonl")
    assert unlearnt(found.profile, MeasurementLog(log)) == []


@pytest.mark.filterwarnings("ignore:1 whole model")
def test_what_was_logged_and_not_learnt_is_learnt_by_the_next_call(
    undisturbed: tuple[Profile, Path], tmp_path: Path
) -> None:
    learnt, log = undisturbed[0], tmp_path / "log.jsonl"
    log.write_bytes(undisturbed[1].read_bytes())
    assert caught_up(learnt, log) is learnt
    ref = model_ref("lenet5", widths=(5, 11, 77, 33))
    blocks, device = spec_of("lenet5", ref.widths).blocks, SimulatedDevice(0.01)
    for _ in range(2):
        MeasurementLog(log).append(replace(device.measure(ref, POINT), workload=content(ref, blocks)))
    evil = replace(ref, source=f"{tmp_path}/evil.py:f")  # which is not there: importing it would fail
    MeasurementLog(log).append(device.measure(ref, POINT))  # an older version's line
    MeasurementLog(log).append(replace(device.measure(ref, POINT), workload=evil))
    other = replace(SimulatedDevice(0.02).measure(ref, POINT), workload=content(ref, blocks))
    MeasurementLog(log).append(other)
    taught = caught_up(learnt, log)
    assert taught.measurements == learnt.measurements + 2
    assert taught.nets is not None
    assert [len(o.blocks) for o in taught.nets.observations[-2:]] == [len(blocks)] * 2
    assert caught_up(taught, log) is taught


def test_a_packed_log_keeps_whole_models(tmp_path: Path) -> None:
    ref = model_ref("lenet5")
    whole = content(ref, SPEC.blocks)
    record = replace(SimulatedDevice().measure(ref, POINT), workload=whole)
    MeasurementLog(tmp_path / "log.jsonl").append(record)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "log.jsonl").read_bytes()))
    (read,) = MeasurementLog(tmp_path / "packed.jsonl").read()
    assert read == record
    assert str(read.workload) == str(ref)
    assert whole != content(ref, spec_of("lenet5", (5, 11, 77, 33)).blocks)
    assert whole == content(replace(ref, source="another.py:name"), SPEC.blocks), "a name tells nothing apart"
