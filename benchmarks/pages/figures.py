"""The paper's figures from our recorded data, into `docs/figures`.

Each function makes one figure from a folder of `data`; one whose data is not recorded yet is left out. What the paper
gives in numbers stands beside ours in docs/results/families.md.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from ampere_energy.campaign.adaptive import REACH_90
from ampere_energy.cost_model.gaussian_process import fit
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.evaluation.evaluate import Trials, rescore, score
from ampere_energy.evaluation.experiment import Part
from ampere_energy.evaluation.recorded import Recorded, load
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import Measurement, Window, durations, energies
from ampere_energy.model.kinds import Kind
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Phase, Variant
from ampere_energy.reporting.plot import Axis, Cell, Mark, Series, bars, cdf, heat, lines, scatter
from benchmarks.hardware import trainings
from benchmarks.hardware.families import DEPTHS, PLANS, grown
from benchmarks.pages import trainings as shown
from benchmarks.results import DATA, ROOT

FIGURES = ROOT / "docs" / "figures"
_METHODS = ("ampere", "paper", "flops", "flops_affine", "flops_bytes", "neuralpower", "time_power", "run20")
_ENERGY, _GRID = Axis("energy a step", "J", zero=True), 24
_WORTH_IT = 4
"""How many experiments a process of its own is worth: it takes seconds to start."""


@cache
def _recorded(folder: Path, name: str) -> Recorded:
    """An experiment, but for what no figure shows: refined networks take as long to score as all others."""
    found = load(folder / name)
    return replace(found, parts={part: log for part, log in found.parts.items() if part is not Part.REFINED})


@cache
def _scored(folder: Path) -> dict[str, dict[Mode, Trials]]:
    """All recorded experiments scored, many of them by as many processes as there are cores."""
    names = [name for name in _EVERY if _kept(folder, name)]
    workers = min(os.cpu_count() or 1, len(names) // _WORTH_IT)
    if workers < 2:
        return {name: _trials(folder, name) for name in names}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return dict(zip(names, pool.map(_trials, [folder] * len(names), names), strict=True))


def _trials(folder: Path, name: str) -> dict[Mode, Trials]:
    return {trials.training.mode: trials for trials in rescore(_recorded(folder, name))}


def _log(folder: Path, name: str) -> list[Measurement]:
    return [
        r
        for r in MeasurementLog(folder / f"{name}.jsonl").read()
        if isinstance(r, Measurement) and r.infeasible is None
    ]


def _alone(record: Measurement) -> Sequence[Window]:
    """What the device took by itself, where that was measured."""
    return record.busy or record.windows


def _joules(record: Measurement) -> float:
    return statistics.median(energies(_alone(record)))


def depth(folder: Path) -> str:
    """Figure 2: energy grows by as much with every equal layer; phases by themselves sum to more."""
    records = _log(folder, "depth")
    whole = {len(r.workload.blocks) - 2: r for r in records if _phase(r) is Phase.STEP}  # type: ignore[union-attr]
    parts: dict[Kind, float] = {}
    for record in records:
        if _phase(record) is not Phase.STEP and isinstance(record.workload, Variant):
            kind = record.workload.blocks[0].kind
            assert isinstance(kind, Kind)
            parts[kind] = parts.get(kind, 0.0) + _joules(record)
    summed = [Mark(d, sum(parts[b.kind] for b in grown(d).blocks)) for d in range(2, DEPTHS + 1)]  # type: ignore[index]
    measured = [Mark(d, _joules(record)) for d, record in sorted(whole.items())]
    series = [Series("measured", measured), Series("forward, backward and update apart, summed", summed, tint=1)]
    return lines("A network that grows by equal layers", series, Axis("equal layers"), _ENERGY)


def _phase(record: Measurement) -> Phase:
    return record.workload.phase if isinstance(record.workload, Variant) else Phase.STEP


def gp_steps(folder: Path) -> str:
    """Figure 4: a Gaussian process of a linear layer after 4 and 5 points, each where it knew least."""
    measured = {r.workload.blocks[0].point[0]: r for r in _log(folder, "linear")}  # type: ignore[union-attr]
    widths = sorted(measured)
    low, span = widths[0], widths[-1] - widths[0]

    def unit(values: Sequence[float]) -> Array:
        return (np.array(values, dtype=float)[:, None] - low) / span

    taken, series = [widths[0], widths[-1]], []
    while len(taken) <= 5:
        joules = np.array([_joules(measured[w]) for w in taken])
        spread = np.array([measured[w].energy_std_j for w in taken])
        process = fit(unit(taken), joules, spread**2)
        if len(taken) >= 4:
            grid = np.linspace(widths[0], widths[-1], 60).tolist()
            mean, deviation = process.mean(unit(grid)), np.sqrt(process.variance(unit(grid)))
            known = zip(grid, mean.tolist(), (REACH_90 * deviation).tolist(), strict=True)
            marks = [Mark(w, m, (m - reach, m + reach)) for w, m, reach in known]
            series.append(Series(f"after {len(taken)} points", marks, tint=len(taken) - 4))
        free = [w for w in widths if w not in taken]
        taken.append(free[int(process.variance(unit(free)).argmax())])
    seen = Series("measured", [Mark(w, _joules(measured[w])) for w in widths], tint=2, joined=False)
    return lines("A linear layer, learnt point by point", [*series, seen], Axis("input channels"), _ENERGY)


def linear(folder: Path) -> str:
    """Figure 5: a linear layer's energy does not follow its FLOPs."""
    records = _log(folder, "linear")
    marks = sorted((r.workload.blocks[0].point[0], _joules(r)) for r in records)  # type: ignore[union-attr]
    widest, most = marks[-1]
    flops = [Mark(width, most * width / widest) for width, _ in marks]
    series = [Series("measured", [Mark(w, j) for w, j in marks]), Series("in proportion to FLOPs", flops, tint=1)]
    return lines("A linear layer over its input channels", series, Axis("input channels"), _ENERGY)


def time_energy(folder: Path) -> str:
    """Figure 6: time and energy of whole networks of cnn5."""
    found = [own[0] for own in _recorded(folder, "cnn5-any").by_network(Part.MEMBERS, Mode.EAGER)]
    eager = [Mark(m.time_s, m.energy_j) for m in found]
    series = [Series("eager", eager, joined=False)]
    if all(m.busy for m in found):
        graphs = [Mark(statistics.median(durations(m.busy)), _joules(m)) for m in found]
        series.append(Series("graph", graphs, tint=1, joined=False))
    return lines("Networks of cnn5", series, Axis("time a step", "s", zero=True), _ENERGY)


def against(folder: Path, name: str = "cnn5-any", mode: Mode = Mode.GRAPH) -> str:
    """Figure 7: predicted against measured, by FLOPs and by AMPERE."""
    trials = _in(folder, name, mode)
    series = [
        Series(
            method,
            [
                Mark(m.measured_j, m.predictions[method].energy_j, m.predictions[method].interval_j)
                for m in trials.tried(method)
            ],
            tint=tint,
        )
        for tint, method in enumerate(("ampere", "flops"))
    ]
    title = f"Unseen networks of {trials.family}, {trials.training.mode}, batch {trials.training.batch}"
    return scatter(title, series, Axis("measured", "J"), Axis("predicted", "J"))


def errors(folder: Path) -> str:
    """Figure 8: every method's error by family and setting."""
    return _errors(folder, _EVERY, "Mean absolute error")


def _errors(folder: Path, names: Sequence[str], title: str) -> str:
    wanted = [name for name in names if _kept(folder, name)]
    sets = [(f"{name} {mode}", trials) for name in wanted for mode, trials in _scored(folder)[name].items()]
    shown = [m for m in _METHODS if any(m in trials.methods for _, trials in sets)]
    series = []
    for tint, method in enumerate(shown):
        scores = [(x, 100 * score(t, method).mape) for x, (_, t) in enumerate(sets) if method in t.methods]
        series.append(Series(method, [Mark(x, y, label=f"{y:.1f} %") for x, y in scores], tint=tint))
    return bars(title, [name for name, _ in sets], series, Axis("mean absolute error", "%", zero=True))


def transformer(folder: Path) -> str:
    """Figure 9: the Transformer."""
    return _errors(folder, _TRANSFORMERS, "Transformer: mean absolute error")


def resnet(folder: Path, mode: Mode = Mode.GRAPH) -> str:
    """Figure 10: how large the errors of ResNets are, at arbitrary widths where those are recorded."""
    trials = _in(folder, next(name for name in _RESNETS if _kept(folder, name)), mode)
    methods = [m for m in ("ampere", "flops", "flops_affine") if m in trials.methods]
    series = [
        Series(method, [Mark(100 * abs(m.error(method)), 0.0) for m in trials.networks], tint=tint)
        for tint, method in enumerate(methods)
    ]
    widths = "aligned" if trials.aligned else "arbitrary"
    return cdf(f"ResNets, {widths} widths, {trials.training.mode}", series, Axis("absolute error", "%", zero=True))


def surface(folder: Path, mode: Mode = Mode.GRAPH) -> str:
    """Figure 11: a convolution's energy over its widths, as estimated, and where it was measured."""
    campaign, _ = _recorded(folder, "cnn5-any").campaign(_mode(folder, "cnn5-any", mode))
    learnt = campaign.fit()
    assert learnt is not None
    place = next(i for i, kind in enumerate(campaign.scope.kinds) if len(campaign.scope.domains[kind]) == 2)
    first, second = campaign.scope.domains[campaign.scope.kinds[place]]
    across, up = (np.unique(np.linspace(r.low, r.high, _GRID).round()) for r in (first, second))
    points = np.array([(a, b) for a in across for b in up])
    found = learnt.predict([place], [points])
    cells = [Cell(float(a), float(b), float(j)) for (a, b), j in zip(points, found.block_energy_j[:, 0], strict=True)]
    own = [o for o in learnt.observations if [k for k, _ in o.blocks] == [place] and o.energy_j is not None]
    spots = [Cell(*map(float, o.blocks[0][1]), o.energy_j or 0.0) for o in own]
    axes = Axis("input channels"), Axis("output channels"), Axis("energy", "J")
    return heat(f"Energy of {campaign.scope.kinds[place].label.partition(' · ')[0]}", cells, spots, *axes)


def differences(folder: Path, mode: Mode = Mode.GRAPH) -> str:
    """Figure 12: blocks measured by themselves that the fit did not see, against what it says of them."""
    recorded = _recorded(folder, "cnn5-any")
    there = _mode(folder, "cnn5-any", mode)
    campaign, records = recorded.campaign(there)
    metered = [r for r in records if isinstance(r, Measurement) and _single(r) and r.infeasible is None]
    held = metered[3::4]
    kept = [r for r in recorded.parts[Part.CAMPAIGN] if not any(r is other for other in held)]
    without, _ = replace(recorded, parts=recorded.parts | {Part.CAMPAIGN: kept}).campaign(there)
    learnt = without.fit()
    assert learnt is not None
    marks = []
    for record in held:
        assert isinstance(record.workload, Variant)
        ((place, point),) = campaign.scope.variant(record.workload)
        found = learnt.predict([place], [np.array([point], dtype=float)])
        share = float(found.energy_j[0]) / _joules(record) - 1
        marks.append(Mark(_joules(record), 100 * share, label=str(record.workload)))
    axes = Axis("measured energy of a block", "J", log=True), Axis("estimate less measured", "%", zero=True)
    return lines("Blocks that were held back", [Series("difference", marks, joined=False)], *axes)


def training(folder: Path) -> dict[str, str]:
    """Figure 13: loss and accuracy of models that were pruned to half their energy, over the joules of training."""
    trained = trainings.read(folder.with_name(f"{folder.name}-pruned") / trainings.RECORDED.name)
    return {f"13-{name}": text for name, text in shown.figures(trained).items()} if trained else {}


def _single(record: Measurement) -> bool:
    return isinstance(record.workload, Variant) and len(record.workload.blocks) == 1


def _mode(folder: Path, name: str, wanted: Mode) -> Mode:
    """The mode, or the only one there is."""
    modes = _recorded(folder, name).modes
    return wanted if wanted in modes else modes[0]


def _in(folder: Path, name: str, mode: Mode) -> Trials:
    return _scored(folder)[name][_mode(folder, name, mode)]


@dataclass(frozen=True)
class Figure:
    """How a figure is made, and what must be recorded for it: all of these sweeps or experiments, or any one."""

    make: Callable[[Path], str]
    needs: tuple[str, ...]
    any_of: bool = False

    def possible(self, folder: Path) -> bool:
        there = [_kept(folder, name) for name in self.needs]
        return any(there) if self.any_of else all(there)


def _kept(folder: Path, name: str) -> bool:
    return MeasurementLog(folder / f"{name}.jsonl").exists() or (folder / name / "experiment.json").exists()


_EVERY = tuple(dict.fromkeys(planned.name for plan in PLANS.values() for planned in plan))
_TRANSFORMERS = ("transformer-aligned", "transformer-any")
_RESNETS = ("resnet-any", "resnet-aligned")
MADE = {
    "2-depth": Figure(depth, ("depth",)),
    "4-gp-steps": Figure(gp_steps, ("linear",)),
    "5-linear": Figure(linear, ("linear",)),
    "6-time-energy": Figure(time_energy, ("cnn5-any",)),
    "7-against": Figure(against, ("cnn5-any",)),
    "8-errors": Figure(errors, _EVERY, any_of=True),
    "9-transformer": Figure(transformer, _TRANSFORMERS, any_of=True),
    "10-resnet": Figure(resnet, _RESNETS, any_of=True),
    "11-surface": Figure(surface, ("cnn5-any",)),
    "12-differences": Figure(differences, ("cnn5-any",)),
}


def figures(data: Path) -> dict[str, str]:
    """Every figure that the data of a device gives, by file name."""
    made = {name: figure.make(data) for name, figure in MADE.items() if figure.possible(data)}
    return {f"{data.name}-{name}.svg": text for name, text in (made | training(data)).items()}


def write() -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    for plan in PLANS:
        for name, text in figures(DATA / plan).items():
            (FIGURES / name).write_text(text + "\n")
            print(f"docs/figures/{name}")
