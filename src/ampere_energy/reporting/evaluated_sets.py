"""Evaluated sets: unseen networks of a family with what was measured and what several methods predicted of them.

They come from what `ampere evaluate --json` prints, read strictly where numbers are drawn and leniently elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ampere_energy import files
from ampere_energy.errors import FileError
from ampere_energy.evaluation.evaluate import Prediction, Score
from ampere_energy.measurement.records import DeviceInfo
from ampere_energy.model.source import spelt
from ampere_energy.serialization import decode, parse_json
from ampere_energy.units import duration, si

_LARGEST_BYTES = 2**26
SCORES = tuple(field.name for field in fields(Score))
_NEXT = "give a file that ampere evaluate --json printed"
_TOLD = (
    ("family", "{}"),
    ("recorded", "{}"),
    ("mode", "{}"),
    ("device", "{}"),
    ("batch", "batch {}"),
    ("widths", "{} widths"),
)


@dataclass(frozen=True)
class EvaluatedNetwork:
    """One network, and what each method that tried predicted of it."""

    name: str
    measured_j: float
    guesses: Mapping[str, Prediction]

    def error(self, method: str) -> float:
        """A method's relative error, positive where it was too high."""
        return self.guesses[method].energy_j / self.measured_j - 1


@dataclass(frozen=True)
class EvaluatedSet:
    """Networks of one family on one device.

    Attributes:
        facts: what is known of it, for people.
        provenance: how the energies that count as true were obtained.
        level: probability of the intervals.
        floor: standard error of the measurements themselves, relative.
        scores: for each method, those of `SCORES` that are known.
    """

    name: str
    facts: tuple[tuple[str, str], ...]
    provenance: str
    level: float
    floor: float | None
    scores: Mapping[str, Mapping[str, float]]
    networks: tuple[EvaluatedNetwork, ...]


def is_evaluation(path: Path) -> bool:
    """Whether a file holds a list, as evaluations do and profiles do not."""
    try:
        with files.opened(path, "evaluation", _NEXT) as file:
            return file.read(256).lstrip().startswith(b"[")
    except FileError:
        return False  # whoever reads it next says why it cannot be read


def read_sets(path: Path) -> tuple[EvaluatedSet, ...]:
    """The sets of a file; anything but a list of them is a `FileError`."""
    return sets_of(parse_json(files.read(path, "evaluation", _NEXT, _LARGEST_BYTES), str(path), _NEXT), str(path))


def sets_of(records: Any, where: str) -> tuple[EvaluatedSet, ...]:
    """The sets of what `ampere evaluate --json` prints; `where` names the place in errors."""
    _check(isinstance(records, list) and records, where, "no list of evaluated sets")
    return tuple(_set(record, f"{where}[{index}]") for index, record in enumerate(records))


def _set(record: Any, where: str) -> EvaluatedSet:
    _check(isinstance(record, dict) and isinstance(record.get("scores"), dict) and record["scores"], where, "no scores")
    told = [(key, form, str(record[key])) for key, form in _TOLD if record.get(key) is not None]
    scores = {}
    for method, given in record["scores"].items():
        _check(isinstance(given, dict) and given.get("mape") is not None, where, f"no mape of {method}")
        known = {name: given[name] for name in SCORES if given.get(name) is not None}
        scores[method] = {name: _number(value, f"{where}.scores.{method}.{name}") for name, value in known.items()}
    members = record.get("members")
    if members is None:  # as evaluations of one method were printed at first
        members = [_of_trial(trial, next(iter(scores))) for trial in record.get("trials", ())]
    _check(isinstance(members, list), where, "networks that are no list")
    floor = record.get("floor")
    return EvaluatedSet(
        " · ".join(form.format(text) for _, form, text in told) or "unnamed",
        (*((key, text) for key, _, text in told if key != "device"), *_facts(record, where)),
        str(record.get("provenance", "measured")),
        _number(record.get("level", 0.9), f"{where}.level"),
        None if floor is None else _number(floor, f"{where}.floor"),
        scores,
        tuple(_network(member, f"{where}.members[{i}]") for i, member in enumerate(members)),
    )


def _facts(record: dict[str, Any], where: str) -> list[tuple[str, str]]:
    """Which device it was, and what profiling it took."""
    identity = record.get("identity")
    about = decode(DeviceInfo, identity, f"{where}.identity", _NEXT) if identity is not None else record.get("device")
    facts = [("device", str(about))] if about is not None else []
    spent = [f"{record['points']} networks"] if record.get("points") is not None else []
    if record.get("profile_s") is not None:
        spent.append(f"measured in {duration(_number(record['profile_s'], f'{where}.profile_s'))}")
    if record.get("profile_j") is not None:
        spent.append(si(_number(record["profile_j"], f"{where}.profile_j"), "J"))
    return [*facts, ("profile", ", ".join(spent))] if spent else facts


def _of_trial(trial: Any, method: str) -> Any:
    if not isinstance(trial, dict):
        return trial
    guess = {"energy_j": trial.get("predicted_j"), "interval_j": trial.get("interval_j")}
    return {**trial, "predictions": {method: guess}}


def _network(record: Any, where: str) -> EvaluatedNetwork:
    _check(isinstance(record, dict) and isinstance(record.get("predictions"), dict), where, "no predictions")
    widths, arguments = record.get("widths", ()), record.get("arguments")
    name = ",".join(map(str, widths)) if isinstance(widths, list) else str(widths)
    name = spelt(tuple(arguments.values()), tuple(arguments)) if isinstance(arguments, dict) else name
    measured_j = _number(record.get("measured_j"), f"{where}.measured_j")
    _check(measured_j > 0, where, f"a measured energy of {measured_j:g} J")
    guesses = {method: _guess(guess, f"{where}.{method}") for method, guess in record["predictions"].items()}
    return EvaluatedNetwork(name, measured_j, guesses)


def _guess(record: Any, where: str) -> Prediction:
    _check(isinstance(record, dict), where, "no prediction")
    interval = record.get("interval_j")
    ends = None
    if interval is not None:
        _check(isinstance(interval, list) and len(interval) == 2, where, "an interval without two ends")
        low, high = (_number(end, f"{where}.interval_j") for end in interval)
        ends = (low, high)
    return Prediction(_number(record.get("energy_j"), f"{where}.energy_j"), ends)


def _number(value: Any, where: str) -> float:
    """A number that can be drawn."""
    usable = isinstance(value, int | float) and not isinstance(value, bool)
    _check(usable and abs(value) <= 1e30, where, f"{str(value)[:40]}, which is no number")
    return float(value)


def _check(holds: Any, where: str, what: str) -> None:
    if not holds:
        raise FileError(f"{where} has {what}", _NEXT)
