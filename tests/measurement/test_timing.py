from __future__ import annotations

import gzip
import json
import time

import pytest
import torch
from torch import nn

from ampere_energy.measurement import timing
from ampere_energy.measurement.training_step import Step
from benchmarks.results import DATA

CPU = torch.device("cpu")


def test_issuing_takes_the_host_at_least_as_long_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, costs = [0.0], iter([9.0] * timing._FEW + [2.0, 1.0] * timing._FEW)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def run() -> None:
        clock[0] += next(costs)

    assert timing.issue_s(Step(run, nn.Identity(), CPU)) == 1.0, "warm, and not the first after a wait"


def test_a_cpu_step_is_timed_by_what_it_computes() -> None:
    """Waiting for its turn, here asleep, is no part of it; a core that others use as well does not slow the profile."""

    def run() -> None:
        end = time.process_time() + 0.002
        while time.process_time() < end:
            pass
        time.sleep(0.01)

    assert timing.device_s(Step(run, nn.Identity(), CPU)) == pytest.approx(0.002, rel=0.25)


@pytest.mark.parametrize(("step_s", "count"), [(1e-5, 10), (2e-3, 5), (0.5, 3)])
def test_long_steps_are_timed_a_few_times(step_s: float, count: int) -> None:
    assert timing._often(step_s, 10) == count


@pytest.mark.parametrize(("issued_s", "device_s", "outlasts"), [(1e-3, 4e-3, False), (1e-3, 2e-2, True)])
def test_a_step_many_times_as_long_as_issuing_it_never_waits(
    issued_s: float, device_s: float, outlasts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, done = [0.0], [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    class Issued(Step):
        def wait(self) -> None:
            clock[0] = max(clock[0], done[0])

    def run() -> None:
        done[0] = max(done[0], clock[0]) + device_s
        clock[0] += issued_s

    assert timing.outlasts_issuing(Issued(run, nn.Identity(), CPU)) is outlasts


def test_on_a_card_such_steps_take_as_long_as_captured() -> None:
    """What was timed both ways on an H200."""
    with gzip.open(DATA / "h200-meter" / "timings.jsonl.gz", "rt") as file:
        _, *rows = [json.loads(line) for line in file]
    ratios = {long: [] for long in (True, False)}  # type: ignore[var-annotated]
    for row in rows:
        if row["captured_ms"] > 1.5 * row["host_ms"]:
            ratios[row["captured_ms"] > timing._OUTLASTS * row["host_ms"]].append(row["eager_ms"] / row["captured_ms"])
    assert len(ratios[True]) == 14
    assert max(abs(ratio - 1) for ratio in ratios[True]) < 0.005
    assert max(ratios[False]) > 1.05
