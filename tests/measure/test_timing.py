from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from ampere_energy.measure import timing
from ampere_energy.measure.step import Step

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
