"""Broken and hostile profiles: whatever stands in the file, it is refused with a typed error or gives finite numbers.

Two valid profiles of a simulated device, one by each method, are broken at random: values replaced by wrong types,
huge, tiny and odd numbers, parts cut, repeated, swapped and moved, bytes of the text changed. Every file that still
loads is used for estimates.
"""

from __future__ import annotations

import copy
import json
import math
import random
import resource
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from ampere_energy.campaign.run import METHODS, profile
from ampere_energy.errors import AmpereError, FileError
from ampere_energy.estimation.estimate import estimate
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.profiles.profile import Profile, load
from benchmarks.specs import spec_of

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 63, 2**26, 2**31, 2**53 - 1, 2**53, 2**63, -(2**63), 10**400, 10**4000,
    0.0, -0.0, 0.5, 1e-9, 1e9, 1e15, -1e15, 1e-60, 1e40, 1e-308, 5e-324, 1e308, -1e308, 1.7976931348623157e308,
    math.nan, math.inf, -math.inf,
    "", "a", "../../../etc/passwd", "NaN", "1", "\0", "\x1b[2J", "[/bold]", "\ud800", "ß" * 10, "x" * 5000,
    [], {}, [[]], [0], [None], [1, 1], [[1, 1], [1, 1]], {"a": 1}, {"": {}}, [1e308] * 3, [1] * 300,
)  # fmt: skip

_NO_STEP = "refused without a next step"


def bases() -> dict[str, Any]:
    """A valid profile by each method, as JSON values."""
    found = {}
    with TemporaryDirectory() as folder:
        for method in METHODS:
            path = Path(folder) / f"{method}.json"
            profile(spec_of("lenet5"), device=SimulatedDevice(0.02), method=method).save(path)
            found[method] = json.loads(path.read_text())
    return found


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a tree with each of its keys."""
    rest = [value]
    while rest:
        at = rest.pop()
        for key in at if isinstance(at, dict) else range(len(at)):
            yield at, key
            if isinstance(at[key], (dict, list)):
                rest.append(at[key])


def _pick(draw: random.Random, record: Any) -> tuple[Any, Any] | None:
    """A place, the rare ones near the root as likely as the many numbers at the leaves."""
    at, key = record, None
    while isinstance(at, (dict, list)) and at:
        inside, key = at, draw.choice(list(at)) if isinstance(at, dict) else draw.randrange(len(at))
        at = inside[key]
        if draw.random() < 0.15:
            return inside, key
    return (inside, key) if key is not None else None


def _change(draw: random.Random, record: Any) -> None:
    """One change at one place."""
    place = _pick(draw, record)
    if place is None:
        return
    at, key = place
    value = at[key]
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
    sort = draw.choice(("odd", "cut", "repeat", "swap", "scale", "scale", "grow", "rename"))
    if sort == "cut":
        del at[key]
    elif sort == "repeat" and isinstance(at, list):
        at.insert(key, json.loads(json.dumps(value)))
    elif sort == "swap":
        other, there = _pick(draw, record) or place
        if isinstance(value, (dict, list)) or isinstance(other[there], (dict, list)):
            at[key] = json.loads(json.dumps(other[there]))  # a copy: a tree may not hold itself
        else:
            at[key], other[there] = other[there], value
    elif sort == "scale" and numeric:
        if isinstance(value, int) and draw.random() < 0.7:
            at[key] = value + draw.choice((-1, 1, 7, 64, -value))
        else:
            at[key] = value * draw.choice((-1.0, 0.0, 1e-300, 1e-20, 1e-6, 0.5, 2.0, 1e6, 1e20, 1e300))
    elif sort == "grow" and isinstance(value, list) and value:
        at[key] = (value * (1 + draw.choice((10, 100, 1000)) // len(value)))[:3000]
    elif sort == "rename" and isinstance(at, dict):
        at[draw.choice(("", key.upper(), "__class__", "x" * 200))] = at.pop(key)
    else:
        at[key] = copy.deepcopy(draw.choice(ODD))


def _spoil(draw: random.Random, text: bytes) -> bytes:
    """One change of the bytes."""
    start = draw.randrange(len(text) or 1)
    sort = draw.choice(("cut", "flip", "insert", "twice", "field", "drop"))
    if sort == "cut":
        return text[:start]
    if sort == "flip":
        return text[:start] + bytes([draw.randrange(256)]) + text[start + 1 :]
    if sort == "insert":
        odd = (b"[" * 50_000, b'{"a":' * 50_000, b"1" * 5000, b"NaN", b"\xff\xfe", b"\0", b"-Infinity", b"1e999", b'"')
        return text[:start] + draw.choice(odd) + text[start:]
    if sort == "twice":
        return text + text
    if sort == "field":
        at = text.find(b"{", start)
        return text[: at + 1] + b'"model": 1, "model": 2, ' + text[at + 1 :]
    return text[:start] + text[start + draw.randrange(1, 50) :]


def case(draw: random.Random, texts: list[str]) -> bytes:
    """A broken profile."""
    text = draw.choice(texts)
    if draw.random() < 0.85:
        record = json.loads(text)
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            _change(draw, record)
        text = json.dumps(record)
    data = text.encode("utf-8", "surrogatepass")
    return _spoil(draw, data) if draw.random() < 0.2 else data


def use(path: Path, specs: list[ModelSpec], unknown: ModelSpec | None = None) -> str:
    """What becomes of a file: `refused`, `loaded`, or `loaded, then refused` where estimating is.

    `unknown` has kinds that no profile of the others has: it is approximated.
    """
    try:
        loaded = load(path)
    except FileError as error:
        return "refused" if error.remedy else _NO_STEP
    try:
        for spec in specs:
            _finite(loaded, spec)
        if unknown is not None and loaded.references:
            _finite(loaded, unknown, approximate=True)
    except AmpereError:
        return "loaded, then refused"
    return "loaded"


def _finite(loaded: Profile, spec: ModelSpec, approximate: bool = False) -> None:
    found = estimate(spec, loaded, iterations=1000, level=0.99, approximate=approximate)
    numbers = [found.energy_j, found.std_j, *found.interval_j, found.time_s, found.busy, found.other_j]
    numbers += [v for block in found.blocks for v in (block.energy_j, block.std_j, block.time_s)]
    if not all(map(math.isfinite, numbers)):
        raise FloatingPointError(f"an estimate is not finite: {numbers}")


def memory_mb() -> float:
    """The most memory this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(cases: int, seed: int = 0) -> dict[str, Any]:
    """How many broken profiles load and how many are refused, with what it took at most."""
    torch.set_num_threads(1)
    draw = random.Random(seed)
    specs, unknown = [spec_of("lenet5"), spec_of("lenet5", (3, 9, 50, 40))], spec_of("cnn5")
    texts = [json.dumps(record) for record in bases().values()]
    counts: Counter[str] = Counter()
    slowest, kept, before = 0.0, [], memory_mb()
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "profile.json"
        for number in range(cases):
            path.write_bytes(case(draw, texts))
            start = time.perf_counter()
            try:
                became = use(path, specs, unknown)
            except Exception as error:  # noqa: BLE001 - that none comes is what is studied
                became = "other errors"
                kept.append(f"case {number}: {type(error).__name__}: {str(error)[:200]}")
            counts[became] += 1
            slowest = max(slowest, time.perf_counter() - start)
    return {
        "cases": cases,
        **{name: counts[name] for name in ("loaded", "loaded, then refused", "refused", _NO_STEP, "other errors")},
        "first other errors": kept[:5],
        "slowest s": round(slowest, 2),
        "memory mb before": round(before),
        "largest memory mb": round(memory_mb()),
    }
