"""Search with Optuna: an objective of the user's against joules and seconds, which a profile tells by arithmetic.

Optuna proposes, networks are estimated many at once, and the study is told. A study is kept in memory while searching,
where Optuna is quick; with a storage every trial is copied there as it ends, and a later search goes on from all that
the storage holds. Up to `FEW` trials are proposed one by one by a tree of Parzen estimators, which learns most from
each; more by an evolutionary sampler, whose proposals take a millisecond or two. The smallest and the largest
network come first, and a space that has no more networks than there are trials is tried whole.
"""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ampere_energy.errors import AmpereError, ModelError, RequestError
from ampere_energy.model.source import ModelRef
from ampere_energy.optimization.search.front import unbeaten
from ampere_energy.optimization.search.space import TRAINING, Space
from ampere_energy.serialization import encode

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

Score = Callable[[ModelRef], float]
"""How good a network is: more is better."""
PROXIES = ("params", "flops")
FEW = 300
POPULATION = 50
STUDY = "ampere"
_ABOUT = "ampere"
_DIRECTIONS = ("maximize", "minimize", "minimize")


@dataclass(frozen=True)
class FoundNetwork:
    """A network with its score, and its cost over the space's samples."""

    ref: ModelRef
    score: float
    energy_j: float
    interval_j: tuple[float, float]
    time_s: float


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found.

    Attributes:
        study: Optuna's, to go on with: values are score, joules and seconds.
        front: the networks that no other beats in all three, the best score first.
        trials: how many networks of the study have been scored, those of earlier searches included …
        distinct: … and how many different ones these are.
        spent_s: seconds of this search by what they were spent on: proposals, estimates, scores, storage.
    """

    study: Study
    front: tuple[FoundNetwork, ...]
    space: Space
    objective: str
    trials: int
    distinct: int
    spent_s: dict[str, float]


def search(
    space: Space,
    objective: str | Score = "params",
    *,
    name: str = "",
    trials: int = 2000,
    seed: int = 0,
    sampler: BaseSampler | None = None,
    storage: str | None = None,
    study: str = STUDY,
    observe: Callable[[int], None] = lambda done: None,
) -> Found:
    """Looks for networks that are good, cheap and quick.

    Args:
        space: what to choose from.
        objective: how good a network is, more being better: a function of a `ModelRef`, or the number of its
            parameters (`params`) or training FLOPs (`flops`), which cost nothing and stand in for accuracy. A score
            that is no finite number fails its trial; the search goes on.
        name: what the objective is called, where its own name will not do.
        trials: how many networks to try, all that are left where there are no more; the same one is scored once.
        seed: another seed searches elsewhere.
        sampler: any of Optuna's for several objectives.
        storage: where the study is kept, as Optuna says it: sqlite:///FILE.db. One that has trials is gone on with.
        study: its name there.
        observe: told after each trial how many are done.

    Raises:
        RequestError: Optuna is not installed, or the storage holds a study of something else.
    """
    if trials < 1:
        raise RequestError(f"--trials {trials}", "give at least 1")
    optuna = _optuna()
    score = proxy(space, objective) if isinstance(objective, str) else objective
    label = name or label_of(objective)
    clock = _Clock()
    with _quiet(optuna):
        stored = _stored(optuna, storage, study, space, label) if storage else None
        before = _finished(stored, space) if stored is not None else []
        sampler = sampler or _sampler(optuna, trials, seed + len(before))
        own = optuna.create_study(directions=_DIRECTIONS, sampler=sampler)
        own.set_metric_names([label, "joules", "seconds"])
        own.add_trials(before)
        scores = {_ref(space, trial): trial.values[0] for trial in before if trial.values}
        at_once = 1 if trials <= FEW else POPULATION
        if space.size <= trials:
            left = [ref for ref in space.networks() if ref not in scores]
            trials = len(left)
        else:
            left = [ref for ref in space.ends() if ref not in scores][:trials]
        for ref in left:
            own.enqueue_trial(space.params(ref))
        for done in range(0, trials, at_once):
            with clock.counts("proposals"):
                asked = [own.ask() for _ in range(min(at_once, trials - done))]
                refs = [space.suggest(trial) for trial in asked]
            with clock.counts("estimates"):
                costs = space.estimate(refs)
            for place, (trial, ref) in enumerate(zip(asked, refs, strict=True)):
                if ref not in scores:
                    with clock.counts("scores"):
                        scores[ref] = scored(score, ref, label)
                values = [scores[ref], float(costs.energy_j[place]), float(costs.time_s[place])]
                failed = not math.isfinite(scores[ref])
                with clock.counts("proposals"):
                    state = optuna.trial.TrialState.FAIL if failed else None
                    ended = own.tell(trial, None if failed else values, state=state)
                if stored is not None:
                    with clock.counts("storage"):
                        stored.add_trial(ended)
                observe(done + place + 1)
        if stored is not None:
            stored.sampler = sampler
        kept = [trial for trial in _finished(own, space) if trial.values]
        return Found(
            own if stored is None else stored,
            _front(space, kept),
            space,
            label,
            len(kept),
            len({_ref(space, trial) for trial in kept}),
            clock.spent_s,
        )


def label_of(objective: str | Score) -> str:
    """What an objective is called."""
    return objective if isinstance(objective, str) else getattr(objective, "__name__", "objective")


def proxy(space: Space, name: str) -> Score:
    """A stand-in for accuracy that costs nothing: parameters, or training FLOPs over the space's samples."""
    if name not in PROXIES:
        raise RequestError(f"--objective {name}", f"choose from {', '.join(PROXIES)}, or give path/to/file.py:function")
    known: dict[Any, int] = {}

    def counted(ref: ModelRef) -> float:
        total = 0
        for kind, point in space.points(ref):
            if (kind, point) not in known:
                known[kind, point] = kind.parameters(point) if name == "params" else kind.flops(point)
            total += known[kind, point]
        return float(total) if name == "params" else total * space.steps(ref.training)

    return counted


def scored(score: Score, ref: ModelRef, label: str) -> float:
    """A network's score; what the user's function raises is said in one line."""
    try:
        return float(score(ref))
    except AmpereError:
        raise
    except Exception as error:  # the user's own objective may raise anything
        raise ModelError(f"{label} raised {type(error).__name__} for {ref}: {error}", "call it by itself") from error


def _front(space: Space, trials: Sequence[FrozenTrial]) -> tuple[FoundNetwork, ...]:
    if not trials:
        return ()
    values = np.array([trial.values for trial in trials])
    places = unbeaten(values * [-1, 1, 1])
    refs = [_ref(space, trials[place]) for place in places]
    costs = space.estimate(refs)
    return tuple(
        FoundNetwork(
            ref,
            float(values[place, 0]),
            float(values[place, 1]),
            (float(costs.low_j[i]), float(costs.high_j[i])),
            float(values[place, 2]),
        )
        for i, (place, ref) in enumerate(zip(places, refs, strict=True))
    )


def _ref(space: Space, trial: FrozenTrial) -> ModelRef:
    chosen = {str(training): training for training in space.settings}.get(trial.params.get(TRAINING, ""))
    return space.ref([trial.params[name] for name in space.names], chosen)


def _finished(study: Study, space: Space) -> list[FrozenTrial]:
    """The trials that are over and chose a network; a user's own may have chosen something else."""
    ended = (trial for trial in study.get_trials(deepcopy=False) if trial.state.is_finished())
    return [trial for trial in ended if trial.params.keys() >= set(space.names)]


def _stored(optuna: Any, storage: str, name: str, space: Space, label: str) -> Study:
    """The study of that name in a storage, made where there is none; it must be of the same space and objective."""
    about = {
        "model": space.source,
        "inputs": [encode((s.ref.input, s.ref.inputs)) for s in space.settings.values()],
        "settings": [str(training) for training in space.settings],
        "profiles": [s.profile.created for s in space.settings.values()],
        "samples": space.samples,
        "objective": label,
    }
    if space.named:  # whose values say which structures there are
        about["arguments"] = [str(axis) for axis in space.axes]
    try:
        study: Study = optuna.create_study(
            storage=storage, study_name=name, directions=_DIRECTIONS, load_if_exists=True
        )
    except Exception as error:  # Optuna's own, its database's or the system's
        raise RequestError(f"--storage {storage}: {error}", "give one such as sqlite:///search.db") from error
    was = study.user_attrs.get(_ABOUT)
    if was is None and not study.get_trials(deepcopy=False):
        study.set_user_attr(_ABOUT, about)
        study.set_metric_names([label, "joules", "seconds"])
        return study
    if was != about:
        differs = [key for key, value in about.items() if (was or {}).get(key) != value]
        raise RequestError(
            f"the study {name!r} in {storage} was made with other {', '.join(differs)}", "give another --study"
        )
    return study


def _sampler(optuna: Any, trials: int, seed: int) -> BaseSampler:
    samplers = optuna.samplers
    found: BaseSampler = (
        samplers.TPESampler(seed=seed)
        if trials <= FEW
        else samplers.NSGAIISampler(population_size=POPULATION, seed=seed)
    )
    return found


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise RequestError("searching needs Optuna", "pip install ampere-energy[search]") from error
    return optuna


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Optuna tells of every study otherwise, and that names of objectives are new to it."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


class _Clock:
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        self.spent_s = dict.fromkeys(("proposals", "estimates", "scores", "storage"), 0.0)

    @contextlib.contextmanager
    def counts(self, what: str) -> Iterator[None]:
        start_s = time.perf_counter()
        yield
        self.spent_s[what] += time.perf_counter() - start_s
