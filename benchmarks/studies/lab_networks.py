"""The recorded H200 networks of `data/h200-lab`: fitted without their test rows, and scored on them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ampere_energy.cost_model import fitting, joint, kernels, linearisation, posterior
from ampere_energy.cost_model.gaussian_process import GaussianProcess, fit
from ampere_energy.cost_model.host_overhead import HOST_BOUND
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Observation, Subject
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.whole_step import steps
from ampere_energy.model.widths import WidthRange
from benchmarks.results import ROOT

DATA = ROOT / "data" / "h200-lab"
LEVEL = 0.9
REACH = 1.6449
TIME_ERROR, ENERGY_ERROR = 0.003, 0.006
CONVOLUTIONS = {"h": "conv3x3", "hp": "conv3x3"}
LINEAR = ("out", "head")
TAPS = 9
NAMED = 5
Row = dict[str, Any]


@dataclass(frozen=True)
class LabSet:
    """LogObservations to fit and rows to score; `widths` tells aligned from arbitrary."""

    name: str
    train: tuple[Row, ...]
    test: tuple[Row, ...]

    @property
    def kinds(self) -> list[str]:
        return sorted({kind for row in self.train for kind, _, _ in row["chain"]})

    @property
    def has_variants(self) -> bool:
        """Whether it holds the paper's two- and three-block networks."""
        return any(len(row["chain"]) > 1 for row in self.train)


def sets() -> list[LabSet]:
    found = []
    for name in ("aligned", "two", "g_big", "g_small"):
        rows = json.loads((DATA / f"{name}.json").read_text())
        for widths in sorted({row.get("set", "") for row in rows}):
            own = [row for row in rows if row.get("set", "") == widths]
            label = f"{name} {widths}".strip()
            train, test = ([r for r in own if (r["role"] == "test") == tested] for tested in (False, True))
            found.append(LabSet(label, tuple(train), tuple(test)))
    return found


def widths_of(block: Sequence[Any]) -> tuple[int, ...]:
    """What varies in a block: an input's given width, an output's read one, both of a hidden block."""
    kind = block[0].split("@")[0]
    return {"in": (block[2],), "stem": (block[2],), "out": (block[1],), "head": (block[1],)}.get(kind, tuple(block[1:]))


def subjects(lab: LabSet) -> list[Subject]:
    found = []
    for kind in lab.kinds:
        name, size = kind.split("@")
        seen = [widths_of(b) for row in lab.train for b in row["chain"] if b[0] == kind]
        domain = tuple(WidthRange(min(axis), max(axis)) for axis in zip(*seen, strict=True))
        taps = 1 if name in LINEAR else TAPS
        found.append(Subject(kind, f"{CONVOLUTIONS.get(name, name)}@{size}", name, domain, taps=taps))
    return found


def observe(lab: LabSet, row: Row, eager: bool) -> Observation:
    blocks = tuple((lab.kinds.index(b[0]), widths_of(b)) for b in row["chain"])
    wall = row.get("s") if eager else None
    # The variants of g_* have no host time of their own: where the device is idle, a step takes what the host takes.
    host = wall if wall is not None and wall > HOST_BOUND * row["sg"] else None
    return Observation(blocks, row["sg"], row.get("Jg"), TIME_ERROR, ENERGY_ERROR, host, wall)


def learnt(lab: LabSet, eager: bool = False) -> JointFit:
    rows = [observe(lab, row, eager) for row in lab.train]
    return fitting.learn(subjects(lab), rows, idle_w=idle_w(lab.train) if eager else None)


def idle_w(rows: Sequence[Row]) -> float:
    """Power while waiting: what eager adds in joules over what it adds in seconds, where it adds much."""
    waits = [(r["J"] - r["Jg"]) / (r["s"] - r["sg"]) for r in rows if "s" in r and r["s"] > HOST_BOUND * r["sg"]]
    return float(np.median(waits))


def points_of(lab: LabSet, rows: Sequence[Row]) -> tuple[list[int], list[Array]]:
    kinds = [lab.kinds.index(b[0]) for b in rows[0]["chain"]]
    return kinds, [np.array([widths_of(r["chain"][b]) for r in rows], dtype=float) for b in range(len(kinds))]


def score(predicted: Array, spread: Array | None, measured: Array) -> dict[str, float]:
    errors = predicted / measured - 1
    found = {"mape": float(np.mean(np.abs(errors))), "bias": float(np.mean(errors))}
    if spread is not None:
        found["coverage"] = float(np.mean(np.abs(np.log(predicted / measured)) < REACH * spread))
        found["covered"] = int(np.sum(np.abs(np.log(predicted / measured)) < REACH * spread))
    return found | {"models": len(measured)}


def graph(lab: LabSet, model: JointFit) -> dict[str, dict[str, float]]:
    """Captured graphs: as they are, and with the networks' device time given."""
    kinds, points = points_of(lab, lab.test)
    energy, time = (np.array([row[q] for row in lab.test]) for q in ("Jg", "sg"))
    found = model.predict(kinds, points)
    gain = found.joint_var / (found.time_var + TIME_ERROR**2)
    given = found.energy_j * np.exp(gain * np.log(time / found.time_s))
    left = np.sqrt(np.maximum(found.energy_var - gain * found.joint_var, 0.0))
    return {
        "graph": score(found.energy_j, np.sqrt(found.energy_var), energy),
        "graph, time given": score(given, left, energy),
    }


def eager(lab: LabSet) -> dict[str, float]:
    """Eager steps by resource additivity, host times from the set's own variants."""
    kinds, points = points_of(lab, lab.test)
    found = steps(learnt(lab, eager=True), kinds, points)
    return score(found.energy_j, found.spread, np.array([row["J"] for row in lab.test]))


def eager_named(lab: LabSet, model: JointFit) -> tuple[dict[str, float], list[str]]:
    """Eager steps where blocks alone cannot tell the host's time: it, the gap and P_idle from five named test rows."""
    named = sorted(lab.test, key=lambda row: row["sg"])[:: len(lab.test) // NAMED][:NAMED]
    rest = [row for row in lab.test if row not in named]
    kinds, points = points_of(lab, rest)
    host = float(np.median([row["h"][0] for row in named]))
    gap = max(0.0, min(row["s"] - row["sg"] for row in named))
    spread = 1.4826 * float(np.median([abs(row["h"][0] / host - 1) for row in named]))
    structures = dict.fromkeys(model.subjects[kind].structure for kind in kinds)
    told = joint.Host(host, tuple((name, 0.0) for name in structures), max(0.02, spread), gap)
    whole = replace(model, host=told, idle_w=idle_w(named))
    found = steps(whole, kinds, points)
    names = ["→".join(str(b[2]) for b in row["chain"][:-1]) for row in named]
    return score(found.energy_j, found.spread, np.array([row["J"] for row in rest])), names


def floor(lab: LabSet, key: str) -> float:
    """What repeats differ by: each window of a test row against the median of its others."""
    differences = []
    for row in lab.test:
        windows = [window[0] for window in row[key]]
        for i, value in enumerate(windows):
            differences.append(abs(value / float(np.median(windows[:i] + windows[i + 1 :])) - 1))
    return float(np.mean(differences))


def paper(lab: LabSet, quantity: str) -> dict[str, float]:
    """The paper's method on the same rows: outputs, then inputs, then hidden kinds, each minus its companions."""
    processes: dict[str, GaussianProcess] = {}
    spans = {k: np.array([widths_of(b) for r in lab.train for b in r["chain"] if b[0] == k]) for k in lab.kinds}

    def unit(block: Sequence[Any]) -> Array:
        low, high = spans[block[0]].min(0), spans[block[0]].max(0)
        return np.asarray((np.array([widths_of(block)]) - low) / np.maximum(high - low, 1))

    for size in (1, 2, 3):
        rows: dict[str, list[tuple[Array, float, float]]] = {}
        for row in (r for r in lab.train if len(r["chain"]) == size and quantity in r):
            subject = row["chain"][size == 3]
            value, variance = row[quantity], (ENERGY_ERROR * row[quantity]) ** 2
            for block in row["chain"]:
                if block is not subject:
                    value -= float(processes[block[0]].mean(unit(block))[0])
                    variance += float(processes[block[0]].variance(unit(block))[0])
            rows.setdefault(subject[0], []).append((unit(subject), value, variance))
        for kind, found in rows.items():
            x, y, noise = zip(*found, strict=True)
            processes[kind] = fit(np.concatenate(x), np.array(y), np.array(noise))
    predicted, deviations = [], []
    for row in lab.test:
        predicted.append(sum(float(processes[b[0]].mean(unit(b))[0]) for b in row["chain"]))
        deviations.append(sum(float(processes[b[0]].variance(unit(b))[0]) for b in row["chain"]) ** 0.5)
    total = np.array(predicted)
    return score(total, np.array(deviations) / total, np.array([row[quantity] for row in lab.test]))


def run() -> dict[str, Any]:
    """Every recorded set, mode and method."""
    table: dict[str, Any] = {}
    covered = models = 0
    for lab in sets():
        model = learnt(lab)
        entry: dict[str, Any] = graph(lab, model)
        reference = "paper" if lab.has_variants else "plain GP sum"
        entry["graph"][reference] = paper(lab, "Jg")["mape"]
        entry["graph"]["floor"] = floor(lab, "graph" if lab.has_variants else "w")
        if lab.name == "aligned":
            entry["eager"], entry["named rows"] = eager_named(lab, model)
            entry["eager"]["floor"] = floor(lab, "eager")
        elif lab.has_variants:
            entry["eager"] = eager(lab)
            entry["eager"]["paper"] = paper(lab, "J")["mape"]
            entry["eager"]["floor"] = floor(lab, "eager")
        for mode in ("graph", "eager"):
            if mode in entry:
                covered += entry[mode].pop("covered")
                models += entry[mode]["models"]
        entry["graph, time given"].pop("covered")
        table[lab.name] = entry
    return table | {"pooled coverage": covered / models, "pooled models": models}


CANDIDATES = {
    "all components": {},
    "no tiles": {"without": ("tile", "first", "last")},
    "no strips": {"without": ("first", "last")},
    "no classes": {"without": ("class",)},
    "no near widths": {"without": ("near",)},
    "no fills": {"without": ("fill",)},
    "shape and point only": {"without": ("tile", "first", "last", "class", "near", "fill", "common")},
}


@contextmanager
def components(without: Sequence[str] = ()) -> Iterator[None]:
    """The engine with some components of the residuals left out, for comparison only."""
    kept = {name: tuple(c for c in getattr(kernels, name) if c.name not in without) for name in ("TIME", "POWER")}
    modules = (joint, linearisation, posterior, fitting)
    before = {(module, name): getattr(module, name) for module in modules for name in kept if hasattr(module, name)}
    for module, name in before:
        setattr(module, name, kept[name])
    try:
        yield
    finally:
        for (module, name), value in before.items():
            setattr(module, name, value)


def candidates() -> dict[str, dict[str, dict[str, float]]]:
    """Candidates × recorded sets: cross-validated on the rows fitted, and the error on the test rows."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for label, choice in CANDIDATES.items():
        with components(**choice):  # type: ignore[arg-type]
            for lab in sets():
                model = learnt(lab)
                errors, deviations = model.left_out()
                density = 0.5 * (errors / deviations) ** 2 + np.log(deviations)
                found.setdefault(lab.name, {})[label] = {
                    "left out": float(np.mean(np.abs(errors))),
                    "surprise": float(np.mean(density)),
                    "test": graph(lab, model)["graph"]["mape"],
                }
    for lab in sets():
        reference = "paper's subtraction" if lab.has_variants else "plain GP a kind"
        found[lab.name][reference] = {"test": paper(lab, "Jg")["mape"]}
    return found
