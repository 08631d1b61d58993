"""What a search costs against measuring its candidates, and how much of the whole front it finds.

The space is `cnn5` at batch 128 of 3×64×64 as a CUDA graph on an NVIDIA H200, widths multiples of 8: 131,072
networks, all of which are estimated from the bundled profile, by the same estimates that the search uses. Score is the
number of parameters, which stands in for accuracy at no cost. Hypervolumes are of score, joules and seconds, each
scaled to its range over the whole space, below the worst of each; and the same of logarithms. What one measurement
costs is the median over the whole networks that the recorded campaign metered, built and warmed up as for any point.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
import torch

from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import Measurement
from ampere_energy.model.source import model_ref
from ampere_energy.model.variants import Variant
from ampere_energy.optimization.search.descend import descend
from ampere_energy.optimization.search.front import hypervolume, unbeaten
from ampere_energy.optimization.search.search import Found, proxy, search
from ampere_energy.optimization.search.space import Space, space_of
from ampere_energy.profiles.bundles.catalogue import load_bundled
from benchmarks.results import ROOT

BUNDLE, PROFILE = "nvidia-h200", "cnn5-128x3x64x64-graph"
CAMPAIGN = ROOT / "data" / "h200-cnn5" / "ampere" / "graph-campaign.jsonl"
TRIALS = 2000
BUDGETS = (0.25, 0.5, 0.75)
_AT_ONCE = 4096


def recorded_space(step: int = 8) -> Space:
    """The recorded space, or a coarser one."""
    example = model_ref("cnn5", input=(128, 3, 64, 64))
    return space_of("cnn5", [load_bundled(BUNDLE, PROFILE)], step=step, example=example)


def measuring_s() -> float:
    """Seconds that metering one whole network took, in the median."""
    records = [r for r in MeasurementLog(CAMPAIGN).read() if isinstance(r, Measurement) and r.infeasible is None]
    wholes = [r for r in records if isinstance(r.workload, Variant) and len(r.workload.blocks) > 1]
    return statistics.median(r.cost_s for r in wholes)


class Whole:
    """Every network of a space: losses (N, 3), the corners of their ranges, and how much the front dominates."""

    def __init__(self, space: Space) -> None:
        start_s = time.monotonic()
        refs, score = list(space.networks()), proxy(space, "params")
        parts = [space.estimate(refs[place : place + _AT_ONCE]) for place in range(0, len(refs), _AT_ONCE)]
        self.energies = np.concatenate([part.energy_j for part in parts])
        self.scores = np.array([score(ref) for ref in refs])
        times = np.concatenate([part.time_s for part in parts])
        self.losses = np.stack([-self.scores, self.energies, times], 1)
        self.spent_s = time.monotonic() - start_s
        self.front = self.losses[unbeaten(self.losses)]

    def share(self, losses: Array, log: bool = False) -> float:
        """How much of what the whole front dominates these losses do."""
        signs = np.array([-1.0, 1.0, 1.0])

        def scaled(rows: Array) -> Array:
            low, high = self.losses.min(0), self.losses.max(0)
            if log:
                rows, low, high = (signs * np.log(signs * part) for part in (rows, low, high))
            return np.asarray((rows - low) / (high - low))

        worst = np.ones(3)
        return hypervolume(scaled(losses), worst) / hypervolume(scaled(self.front), worst)


def losses_of(found: Found) -> Array:
    return np.array([(-m.score, m.energy_j, m.time_s) for m in found.front])


def searched(trials: int, seed: int, step: int = 8) -> tuple[Found, float]:
    """A search from loading the profile on, and its seconds."""
    start_s = time.monotonic()
    found = search(recorded_space(step), "params", trials=trials, seed=seed)
    return found, time.monotonic() - start_s


def at_random(space: Space, trials: int, seed: int) -> Found:
    return search(space, "params", trials=trials, seed=seed, sampler=optuna.samplers.RandomSampler(seed))


def gradients(space: Space, whole: Whole, budgets: Sequence[float] = BUDGETS) -> list[dict[str, Any]]:
    """Along gradients to shares of the largest network's energy, against the best of all."""
    largest_j = float(whole.energies[int(np.argmax(whole.scores))])
    found = []
    for share in budgets:
        start_s = time.monotonic()
        budget_j = share * largest_j
        ended = descend(space, "params", budget_j=budget_j)
        found.append(
            {
                "budget": share,
                "widths": list(ended.member.ref.widths),
                "energy": ended.member.energy_j / largest_j,
                "score / best": ended.member.score / float(whole.scores[whole.energies <= budget_j].max()),
                "seconds": time.monotonic() - start_s,
                "scored": ended.scored,
            }
        )
    return found


def run(seeds: int, trials: int = TRIALS) -> dict[str, Any]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        space = recorded_space()
        whole = Whole(space)
        each = [searched(trials, seed) for seed in range(seeds)]
        chance = [at_random(space, trials, seed) for seed in range(seeds)]
        along = gradients(space, whole)
    finally:
        torch.set_num_threads(threads)
    one_s, took_s = measuring_s(), statistics.median(seconds for _, seconds in each)
    parts = [found.spent_s for found, _ in each]
    return {
        "members": space.size,
        "whole front": len(whole.front),
        "whole_s": whole.spent_s,
        "trials": trials,
        "distinct": [found.distinct for found, _ in each],
        "search_s": [seconds for _, seconds in each],
        "spent_s": {name: statistics.median(part[name] for part in parts) for name in parts[0]},
        "measuring one_s": one_s,
        "measuring all_s": trials * one_s,
        "times cheaper": trials * one_s / took_s,
        "profile_s": space.profile.profile_s,
        "hypervolume": [whole.share(losses_of(found)) for found, _ in each],
        "hypervolume, logarithms": [whole.share(losses_of(found), log=True) for found, _ in each],
        "hypervolume at random": [whole.share(losses_of(found)) for found in chance],
        "hypervolume at random, logarithms": [whole.share(losses_of(found), log=True) for found in chance],
        "gradients": along,
    }
