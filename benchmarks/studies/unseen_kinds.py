"""How good approximated estimates are: models from profiles of other models, and recorded blocks from other kinds.

The simulated device is no kinder than a real one: each kind has prices of its own, up to three times another's.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from ampere_energy.campaign.adaptive import Guided
from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.fitting import learn
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Subject
from ampere_energy.cost_model.traits import Traits, collect
from ampere_energy.estimation.approximate import Parts, expectations
from ampere_energy.estimation.estimate import estimate
from ampere_energy.estimation.result import Estimate
from ampere_energy.estimation.unseen_kinds import UnseenKinds
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.measurement.records import DeviceInfo, Measurement, MeterInfo, Provenance, energies
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.kinds import AnyKind
from ampere_energy.model.load import instantiate
from ampere_energy.model.parse import parse
from ampere_energy.model.source import model_ref
from ampere_energy.model.training import Mode, Training
from ampere_energy.model.widths import WidthRange
from ampere_energy.profiles.profile import Profile
from ampere_energy.serialization import decode
from benchmarks.architectures import MODELS, as_it_is
from benchmarks.hardware import whole_models
from benchmarks.hardware.block_times import TIMED
from benchmarks.specs import spec_of
from benchmarks.studies import lab_networks

RULES = Rules(points=2, precision=0.08)
NOISE = 0.01
REACH = NormalDist().inv_cdf(0.95)
FAMILIES = ("lenet5", "cnn5")
BEYOND = 2
Row = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A cost that was predicted: the logarithm of predicted over true, and its stated deviation."""

    error: float
    spread: float

    @property
    def covered(self) -> bool:
        return abs(self.error) < REACH * self.spread


def trial(found: Estimate, true_j: float) -> Trial:
    return Trial(math.log(found.energy_j / true_j), math.log(found.interval_j[1] / found.energy_j) / REACH)


def summary(trials: Sequence[Trial]) -> dict[str, float]:
    """Error as a share, coverage of the 90 % interval, and by which factor it usually reaches up and down."""
    return {
        "trials": len(trials),
        "median error": statistics.median(abs(math.expm1(t.error)) for t in trials),
        "bias": math.expm1(statistics.fmean(t.error for t in trials)),
        "coverage": statistics.fmean(t.covered for t in trials),
        "reach": math.exp(REACH * statistics.median(t.spread for t in trials)),
    }


def specs(names: Sequence[str] = tuple(MODELS)) -> dict[str, ModelSpec]:
    """Models as they are."""
    return {name: as_it_is(name) for name in names}


def pairs(models: dict[str, ModelSpec]) -> Iterator[tuple[str, str]]:
    """Two models trained alike, of which the second has kinds that the first has not."""
    for one, known in models.items():
        for other, asked in models.items():
            if known.training == asked.training and not set(asked.kinds) <= set(known.kinds):
                yield one, other


def simulated(models: dict[str, ModelSpec], worlds: int) -> dict[str, Any]:
    """Each model from the profile of each other one that is trained alike, in worlds of other prices."""
    found: list[tuple[int, Trial]] = []
    for world in range(1, worlds + 1):
        device = SimulatedDevice(NOISE, seed=world, world=world)
        profiles = {name: profile(spec, device=device, rules=RULES) for name, spec in models.items()}
        for one, other in pairs(models):
            about = estimate(models[other], profiles[one], approximate=True)
            kinds = len(models[one].kinds)
            found.append((kinds, trial(about, device.true_energy_j(models[other].blocks))))
    sizes = {"1 to 4": (1, 4), "5 to 8": (5, 8), "9 and more": (9, 10**6)}
    by_kinds = {
        label: summary([t for kinds, t in found if low <= kinds <= high]) for label, (low, high) in sizes.items()
    }
    return summary([t for _, t in found]) | {"by kinds": by_kinds}


def beyond(worlds: int, networks: int) -> dict[str, float]:
    """Known kinds at widths outside the profile: families profiled up to half their widths."""
    found = []
    for world in range(1, worlds + 1):
        for name in FAMILIES:
            chosen = family(name)
            device = SimulatedDevice(NOISE, seed=world, world=world)
            ranges = [WidthRange(r.low, max(r.low, r.high // BEYOND)) for r in chosen.ranges]
            known = profile(spec_of(name), device=device, ranges=ranges, rules=RULES)
            for widths in chosen.sample(networks, world):
                spec = spec_of(name, widths)
                about = estimate(spec, known, approximate=True)
                if about.approximate:
                    found.append(trial(about, device.true_energy_j(spec.blocks)))
    return summary(found)


def recorded_kinds() -> dict[str, AnyKind]:
    """The kinds of the recorded networks, by their names there."""
    ref = model_ref("cnn5", input=(128, 3, 64, 64), training=Training(128, mode=Mode.GRAPH))
    spec = parse(instantiate(ref), ref.input, training=ref.training)
    return dict(zip(("in@64", "hp@32", "h@16", "hp@16", "out@8"), (b.kind for b in spec.blocks), strict=True))


def recorded_profile(rows: lab_networks.LabSet, kinds: dict[str, AnyKind]) -> Profile:
    """A profile from recorded blocks."""

    def named(subject: Subject) -> Subject:
        kind = kinds[subject.id]
        return replace(subject, id=kind.id, structure=kind.structure)

    seen = [lab_networks.observe(rows, row, eager=False) for row in rows.train]
    nets = learn([named(subject) for subject in lab_networks.subjects(rows)], seen)
    return made_profile(rows.name, [kinds[name] for name in rows.kinds], nets)


def made_profile(name: str, kinds: Sequence[AnyKind], nets: JointFit) -> Profile:
    """A profile as a campaign makes it."""
    return Profile(
        model=name,
        method="ampere",
        device=DeviceInfo("cuda"),
        meter=MeterInfo("nvml", Provenance.MEASURED, ("gpu",)),
        training=kinds[0].training,
        complete=True,
        measurements=len(nets.observations),
        profile_s=0.0,
        created="",
        nets=nets,
        references=collect(kinds, nets),
    )


def predicted(rows: Sequence[Row], known: Profile, kinds: dict[str, AnyKind]) -> list[Trial]:
    """Recorded rows that the profile does not cover."""
    found = []
    for row in rows:
        blocks = tuple(Block(b[0], kinds[b[0]], lab_networks.widths_of(b)) for b in row["chain"])
        about = estimate(ModelSpec("", blocks, known.training), known, approximate=True)
        if about.approximate:
            found.append(trial(about, row["Jg"]))
    return found


def recorded() -> dict[str, Any]:
    """Real blocks and whole models with kinds left out of the profile, one at a time, or with widths beyond it."""
    kinds = recorded_kinds()
    found: dict[str, dict[str, list[Trial]]] = {}
    for rows in (rows for rows in lab_networks.sets() if not rows.has_variants):
        metered = [row for row in rows.train if "Jg" in row]
        half = _halves(rows)
        choices = {kind: [row for row in rows.train if row["chain"][0][0] != kind] for kind in kinds}
        choices["beyond"] = [
            row
            for row in rows.train
            if all(w <= h for b in row["chain"] for w, h in zip(lab_networks.widths_of(b), half[b[0]], strict=True))
        ]
        for label, kept in choices.items():
            known = recorded_profile(lab_networks.LabSet(rows.name, tuple(kept), rows.test), kinds)
            group = found.setdefault(label, {"blocks": [], "models": []})
            group["blocks"] += predicted(metered, known, kinds)
            group["models"] += predicted(rows.test, known, kinds)
    beyond = {sort: summary(trials) for sort, trials in found.pop("beyond").items()}
    result: dict[str, Any] = {
        sort: summary([t for group in found.values() for t in group[sort]]) for sort in ("blocks", "models")
    }
    by_kind = {kind: {sort: summary(trials) for sort, trials in group.items()} for kind, group in found.items()}
    return result | {"by kind": by_kind, "beyond": beyond}


def _halves(rows: lab_networks.LabSet) -> dict[str, tuple[float, ...]]:
    """Half the largest widths of each kind."""
    seen: dict[str, list[tuple[int, ...]]] = {}
    for row in rows.train:
        for block in row["chain"]:
            seen.setdefault(block[0], []).append(lab_networks.widths_of(block))
    return {kind: tuple(max(axis) / 2 for axis in zip(*points, strict=True)) for kind, points in seen.items()}


def whole(mode: Mode) -> dict[str, float]:
    """Real models at full size on a GPU: each from the profile of each other one.

    Their batches differ, which the command would refuse to bridge; blocks of another batch are blocks of other sizes.
    """
    models: dict[str, tuple[ModelSpec, Profile, float]] = {}
    for path in sorted(whole_models.FOLDER.glob("*.jsonl.gz")):
        recorded_spec, (*records, last) = whole_models.recorded(path)
        assert isinstance(last, Measurement)
        windows = last.busy if mode is Mode.GRAPH else last.windows
        if recorded_spec.training.mode is not Mode.EAGER or not windows:
            continue
        spec = whole_models.with_mode(recorded_spec, mode)
        campaign = Guided(spec, [], whole_models.RULES, meters_graphs=mode is Mode.EAGER)
        for record in records:
            campaign.tell(record)
        nets = campaign.fit()
        if nets is not None:
            known = made_profile(path.name, campaign.scope.kinds, nets)
            models[path.name] = spec, known, statistics.median(energies(windows))
    found = []
    for one, (spec, known, _) in models.items():
        for other, (asked, _, measured_j) in models.items():
            if other != one and replace(asked.training, batch=spec.training.batch) == spec.training:
                about = estimate(asked, replace(known, training=asked.training), approximate=True)
                found.append(trial(about, measured_j))
    return summary(found)


def timed() -> dict[str, float]:
    """Real blocks of many models on a CPU: a model's time, as the sum of its blocks, from another model's blocks."""
    models: dict[str, list[tuple[str, Traits, float]]] = {}
    training: dict[str, str] = {}
    for row in json.loads(TIMED.read_text())["rows"]:
        traits, time_s = decode(Traits, row["traits"], "traits"), statistics.median(row["times_s"])
        models.setdefault(row["model"], []).append((row["kind"], traits, time_s))
        training[row["model"]] = row["training"]
    found = []
    for one, known in models.items():
        for other, asked in models.items():
            unknown = [row for row in asked if row[0] not in {kind for kind, _, _ in known}]
            if unknown and training[one] == training[other]:
                found.append(_sum(known, unknown))
    return summary(found)


def _sum(known: Sequence[tuple[str, Traits, float]], asked: Sequence[tuple[str, Traits, float]]) -> Trial:
    """The sum of some blocks from what others cost: kinds, traits and costs."""
    across = UnseenKinds(
        [kind for kind, _, _ in known], [traits for _, traits, _ in known], np.array([c for *_, c in known])
    )
    guess = across.predict([kind for kind, _, _ in asked], [traits for _, traits, _ in asked])
    total = Parts(expectations(guess), guess.covariance)
    return Trial(math.log(total.median / sum(cost for *_, cost in asked)), math.sqrt(total.variance))


def run(worlds: int, networks: int) -> dict[str, Any]:
    """Simulated models, widths beyond a profile, and recorded blocks of a GPU and a CPU."""
    torch.set_num_threads(1)
    return {
        "simulated": simulated(specs(), worlds),
        "beyond": beyond(worlds, networks),
        "recorded": recorded(),
        "whole": {mode.value: whole(mode) for mode in (Mode.GRAPH, Mode.EAGER)},
        "timed": timed(),
    }
