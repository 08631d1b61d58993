from __future__ import annotations

import math
import random

import numpy as np
import pytest

from ampere_energy.cost_model.traits import Traits
from ampere_energy.estimation.unseen_kinds import MODEL, UnseenKinds

PRICES = (2e-6, 1e-11, 1e-10, 2e-9)


def traits(draw: random.Random, op: str = "conv2d", larger: float = 1.0) -> Traits:
    size = larger * 10 ** draw.uniform(0, 2)
    return Traits(
        op, draw.uniform(10, 60), 1e6 * size, 1e5 * size * draw.uniform(0.2, 5), 1e3 * size * draw.uniform(0.1, 10)
    )


def cost(own: Traits) -> float:
    launch, flop, byte, parameter = PRICES
    return launch * (45 + own.calls) + flop * own.flops + byte * own.bytes + parameter * own.parameters


def learnt(count: int, scatter: float = 0.0, seed: int = 0) -> UnseenKinds:
    draw = random.Random(seed)
    known = [traits(draw, op) for op in ("conv2d", "linear") for _ in range(count // 2)]
    values = [cost(t) * math.exp(draw.gauss(0, scatter)) for t in known]
    return UnseenKinds([f"kind {i}" for i in range(len(known))], known, np.array(values))


def test_other_kinds_that_follow_the_same_prices_are_found() -> None:
    model, draw = learnt(20), random.Random(1)
    asked = [traits(draw) for _ in range(20)]
    found = model.predict([f"new {i}" for i in range(20)], asked)
    errors = np.log(found.median / [cost(t) for t in asked])
    assert np.abs(errors).mean() < 0.15
    assert np.linalg.eigvalsh(found.covariance).min() > 0


def test_the_unit_of_cost_does_not_matter() -> None:
    draw = random.Random(2)
    known, asked = [traits(draw) for _ in range(6)], [traits(draw) for _ in range(3)]
    names, values = [str(i) for i in range(6)], np.array([cost(t) for t in known])
    joules, nanojoules = (
        UnseenKinds(names, known, unit * values).predict(["a", "b", "c"], asked) for unit in (1.0, 1e9)
    )
    assert nanojoules.median == pytest.approx(1e9 * joules.median, rel=1e-4)
    assert nanojoules.covariance == pytest.approx(joules.covariance, rel=1e-3, abs=1e-5)


def spread(model: UnseenKinds, own: Traits, kind: str = "new") -> float:
    return float(model.predict([kind], [own]).covariance[0, 0] ** 0.5)


def test_what_is_less_alike_is_less_certain() -> None:
    model, draw = learnt(20, 0.2), random.Random(3)
    near, far = traits(draw), traits(draw, larger=1000.0)
    strange = Traits("lstm", near.calls, near.flops, near.bytes, near.parameters)
    idle = Traits("embedding", 5.0, 0.0, 1e3, 1e9)
    assert MODEL < spread(model, near, "kind 0") < spread(model, near)
    assert spread(model, near) < 0.8 * spread(model, strange)
    assert spread(model, near) < 0.8 * spread(model, far)
    assert spread(model, strange) < spread(model, idle)


def test_few_kinds_tell_less_than_many() -> None:
    own = traits(random.Random(4))
    assert spread(learnt(20), own) < spread(learnt(6), own) < spread(learnt(2), own)


def test_kinds_that_scatter_more_than_expected_widen_the_intervals() -> None:
    own = traits(random.Random(5))
    calm, wild = learnt(20, 0.1), learnt(20, 2.0)
    assert calm.scale < 1 < wild.scale
    assert spread(wild, own) > 1.5 * spread(calm, own)


def test_a_wrong_model_is_wrong_for_all_blocks() -> None:
    draw = random.Random(6)
    asked = [traits(draw) for _ in range(3)]
    found = learnt(20, 0.2).predict(["a", "a", "b"], asked).covariance
    deviations = np.sqrt(np.diagonal(found))
    together = found / np.outer(deviations, deviations)
    assert together[0, 2] > 0.1
    assert together[0, 1] > together[0, 2] + 0.2  # blocks of one kind err alike


def test_intervals_hold_over_worlds_with_kinds_of_their_own() -> None:
    inside = []
    for world in range(60):
        draw = random.Random(f"world {world}")
        ops = {op: math.exp(draw.gauss(0, 0.4)) for op in ("conv2d", "linear", "lstm")}
        known = [traits(draw, draw.choice(("conv2d", "linear"))) for _ in range(8)]
        asked = [traits(draw, draw.choice(tuple(ops)), larger=3.0) for _ in range(5)]
        true = [cost(t) * ops[t.op] * math.exp(draw.gauss(0, 0.4)) for t in (*known, *asked)]
        model = UnseenKinds([str(i) for i in range(8)], known, np.array(true[:8]))
        found = model.predict([f"new {i}" for i in range(5)], asked)
        reach = 1.645 * np.sqrt(np.diagonal(found.covariance))
        inside += (np.abs(np.log(found.median / true[8:])) < reach).tolist()
    assert 0.85 < np.mean(inside) < 0.99
