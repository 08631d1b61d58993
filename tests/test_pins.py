"""What must not change while code moves: figures of the bundled profiles, texts of errors and help, keys of JSON.

Each is compared with a file in `tests/pins`. Where a change is meant, `pytest tests/test_pins.py --overwrite --every`
writes them anew, and the difference is read before it is committed.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ampere_energy.cli.app import app
from ampere_energy.estimation.estimate import estimate
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.profiles.bundles.catalogue import bundles, entries, load_bundled
from command import ampere, answer

pytestmark = pytest.mark.usefixtures("one_thread")
PINS = Path(__file__).parent / "pins"
SOURCE = Path(__file__).parents[1] / "src" / "ampere_energy"
SHARES = (1.0, 0.6, 0.3)
"""Of the widths of a family's largest network."""
EXACT = 1e-9
SOME = 9
"""Every ninth bundled profile is compared in `make test`, all of them with `--every`."""
PROFILES = [(bundle, name) for bundle in bundles() for name in sorted(entries(bundle))]


def compare(name: str, found: str, overwrite: bool) -> None:
    path = PINS / name
    if overwrite:
        PINS.mkdir(exist_ok=True)
        path.write_text(found)
    assert found == path.read_text(), "if this is meant, run pytest tests/test_pins.py --overwrite --every"


def figures(bundle: str, name: str) -> list[dict[str, Any]]:
    """What a bundled profile says of three networks of its family."""
    about, profile = entries(bundle)[name], load_bundled(bundle, name)
    family, found = FAMILIES[about.family], []
    for share in SHARES:
        narrow = [max(r.low, int(share * r.high) // 8 * 8) for r in family.ranges[family.counts :]]
        widths = (*(r.high for r in family.ranges[: family.counts]), *narrow)
        ref = model_ref(about.family, widths=widths, input=about.input, training=about.training)
        told = estimate(parse_ref(ref), profile)
        found.append(
            {
                "widths": list(widths),
                "energy_j": told.energy_j,
                "interval_j": list(told.interval_j),
                "time_s": told.time_s,
                "blocks_j": [block.energy_j for block in told.blocks],
            }
        )
    return found


def one_profile(bundle: str, name: str, overwrite: bool) -> None:
    path = PINS / "estimates" / f"{name}.json"
    found = figures(bundle, name)
    if overwrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[\n" + ",\n".join(json.dumps(one) for one in found) + "\n]\n")
    for now, then in zip(found, json.loads(path.read_text()), strict=True):
        assert now == {key: pytest.approx(value, rel=EXACT) for key, value in then.items()}


@pytest.mark.parametrize(("bundle", "name"), PROFILES[::SOME])
def test_some_bundled_profiles_estimate_as_before(bundle: str, name: str, overwrite: bool) -> None:
    one_profile(bundle, name, overwrite)


@pytest.mark.thorough
@pytest.mark.parametrize(("bundle", "name"), [one for i, one in enumerate(PROFILES) if i % SOME])
def test_all_bundled_profiles_estimate_as_before(bundle: str, name: str, overwrite: bool) -> None:
    one_profile(bundle, name, overwrite)


def raised() -> Iterator[str]:
    """Each error that the package makes, as the source spells it on one line."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
                words = " ".join((ast.get_source_segment(text, node) or "").split())
                yield words.replace("( ", "(").replace(", )", ")").replace(" )", ")")


def test_errors_say_what_they_said(overwrite: bool) -> None:
    compare("errors.txt", "\n".join(sorted(set(raised()))) + "\n", overwrite)


def commands() -> list[list[str]]:
    names = [[command.name or command.callback.__name__] for command in app.registered_commands if command.callback]
    return [[], *sorted(names), ["profiles"], ["profiles", "merge"]]


def test_help_says_what_it_said(overwrite: bool) -> None:
    texts = []
    for words in commands():
        done = ampere(*words, "--help")
        assert done.returncode == 0
        texts.append(f"$ ampere {' '.join((*words, '--help'))}\n{done.stdout.rstrip()}\n")
    compare("help.txt", "\n".join(texts), overwrite)


def keys(value: Any, place: str = "") -> Iterator[str]:
    """Where a JSON value has keys: `blocks[].energy_j`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{place}.{key}"
            yield from keys(inner, f"{place}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, f"{place}[]")


def test_json_has_the_keys_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    of_profile = ["--profile", "sim.json"]
    words = {
        "models": ["models"],
        "parse": ["parse", "lenet5"],
        "profile": ["profile", "lenet5", "--device", "simulated:0.02", "--points", "4", "--out", "sim.json"],
        "profiles": ["profiles"],
        "estimate": ["estimate", "lenet5", *of_profile, "--battery", "15Wh", "--within", "20J"],
        "estimate of a bundle": ["estimate", "cnn5", "--profile", "nvidia-h200"],
        "measure": ["measure", "lenet5", "--device", "simulated:0.02"],
        "evaluate": ["evaluate", "lenet5", *of_profile, "--models", "2"],
        "search": ["search", "lenet5", *of_profile, "--trials", "8"],
        "descent": ["search", "lenet5", *of_profile, "--gradient", "--at-least", "1e4"],
        "prune": ["prune", "lenet5", *of_profile, "--budget", "95%", "--step", "1"],
    }
    found = [f"{name}{place}" for name, asked in words.items() for place in keys(answer(*asked, cwd=tmp_path))]
    compare("json_keys.txt", "\n".join(dict.fromkeys(found)) + "\n", overwrite)
