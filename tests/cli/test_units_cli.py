"""Quantities take units in every option, and are said as they were given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ampere_energy.cli.arguments import counted, joules, probability, seconds, share, step_budget, watt_hours, watts
from ampere_energy.errors import RequestError
from ampere_energy.units import Quantity
from command import ampere, answer


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("3kJ", 3e3, "3 kJ"), ("1e5", 1e5, "1e5 J"), ("1.5e3J", 1.5e3, "1.5e3 J"), ("1kWh", 3.6e6, "1 kWh"),
        ("0.5", 0.5, "0.5 J"), (".5 J", 0.5, ".5 J"), ("20 MJ", 2e7, "20 MJ"), ("5mJ", 5e-3, "5 mJ"),
        ("2Wh", 7200.0, "2 Wh"), ("1e-3J", 1e-3, "1e-3 J"), ("2wh", 7200.0, "2 Wh"),
    ],
)  # fmt: skip
def test_energies(text: str, value: float, said: str) -> None:
    found = joules(text)
    assert found is not None
    assert (found.value, found.text) == (pytest.approx(value), said)


@pytest.mark.parametrize(
    ("text", "value"),
    [("90s", 90), ("2m", 120), ("1h", 3600), ("1e2s", 100), ("60", 60), ("1.5min", 90), ("500ms", 0.5), ("2 m", 120)],
)
def test_times(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


def test_other_quantities() -> None:
    assert (share("3%", "--refine"), share("0.03", "--refine"), share("3 %", "--x")) == (0.03, 0.03, 0.03)
    assert share("1e-2", "--refine") == 0.01
    assert (probability("90%"), probability(0.9)) == (0.9, 0.9)
    assert watt_hours("1.5kWh") == Quantity(pytest.approx(1500.0), "1.5 kWh")
    assert watt_hours("54kJ") == Quantity(pytest.approx(15.0), "54 kJ")
    assert (watts("10W"), watts("7.5"), watts("1kW")) == (10.0, 7.5, 1000.0)
    assert (counted("--iterations")("1e6"), counted("--samples")("250")) == (1_000_000, 250)
    assert (joules(""), seconds(""), watt_hours(""), share("", "--x")) == (None, None, None, None)


def test_a_budget_of_a_step_is_said_as_given() -> None:
    assert str(step_budget("50%")) == "50 %"
    assert str(step_budget("1.5e3J")) == "1.5e3 J a step"
    assert (step_budget("1Wh").joules, step_budget("0.5").share) == (3600.0, 0.5)


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (joules, "5s", "--within 5s; give an energy such as 500J, 20kJ or 3Wh"),
        (joules, "1mj", "--within 1mj; give an energy"),  # milli or mega?
        (joules, "-3J", "--within -3J"),
        (joules, "0J", "--within 0J"),
        (joules, "nan", "--within nan"),
        (joules, "1e999J", "--within 1e999J"),
        (joules, "1e", "--within 1e;"),
        (seconds, "3kJ", "--budget 3kJ; give a time such as 60s, 2m or 1h"),
        (seconds, "-1s", "--budget -1s"),
        (watt_hours, "15", "--battery 15; give a capacity such as 15Wh"),
        (watts, "-3", "--watts-per-core -3; give positive watts, such as 10W"),
        (watts, "3J", "--watts-per-core 3J"),
        (step_budget, "60s", "--budget 60s; give a share below 100%, such as 50%, or joules a step, such"),
        (step_budget, "5", "--budget 5; give a share"),
        (probability, "2", "--level 2; give a probability"),
        (counted("--samples"), "1.5", "--samples 1.5; give a whole number such as 1000 or 1e6"),
        (counted("--samples"), "0", "--samples 0; give at least 1"),
        (counted("--samples"), "many", "--samples many; give a whole number"),
    ],
)
def test_what_is_no_quantity_is_refused(read: Callable[[str], Any], text: str, words: str) -> None:
    with pytest.raises(RequestError, match=re.escape(words)):
        read(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile of lenet5 on the simulated device."""
    path = tmp_path_factory.mktemp("units")
    arguments = ("profile", "lenet5", "--device", "simulated:0.01", "--budget", "1e2s", "--points", "3")
    answer(*arguments, "--out", "p.json", cwd=path)
    return path


def test_quantities_echo_as_they_were_given(folder: Path) -> None:
    asked = ("estimate", "lenet5", "--profile", "p.json", "--iterations", "1e6", "--within", "1kWh")
    table = " ".join(ampere(*asked, "--battery", "2kWh", cwd=folder).stdout.split())
    for text in ("P(within 1 kWh)", "of a 2 kWh battery", "1,000,000 training steps"):
        assert text in table
    record = answer(*asked, "--battery", "2kWh", cwd=folder)
    assert (record["within"]["budget_j"], record["battery"]["capacity_wh"]) == (3.6e6, pytest.approx(2000.0))
    assert answer(*asked[:-1], "1e5", cwd=folder)["within"]["budget_j"] == 1e5


def test_a_search_takes_its_budget_with_a_unit(folder: Path) -> None:
    whole = answer("estimate", "lenet5", "--profile", "p.json", cwd=folder)["energy_j"]
    asked = ("search", "lenet5", "--profile", "p.json", "--gradient")
    given = [
        answer(*asked, option, text, cwd=folder)["member"]["energy_j"]
        for option, text in (("--budget", f"{900 * whole:.6g}mJ"), ("--budget-j", f"{0.9 * whole:.6g}"))
    ]
    assert given[0] == given[1] <= 0.9 * whole
    done = ampere(*asked, "--budget", "60s", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--budget 60s; give an energy such as 500J" in done.stderr


def test_pruning_says_its_budget_as_given(folder: Path) -> None:
    whole = answer("estimate", "lenet5", "--profile", "p.json", cwd=folder)["energy_j"]
    text = f"{1000 * whole * 0.95:.4g}mJ"
    done = ampere("prune", "lenet5", "--profile", "p.json", "--budget", text, "--step", "1", "--mean", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"to {text.removesuffix('mJ')} mJ a step by ampere" in done.stdout


def test_help_says_what_a_budget_is() -> None:
    said = {
        "profile": "Seconds of measuring",
        "evaluate": "seconds of measuring",
        "prune": "joules",
        "search": "energy",
    }
    for command, words in said.items():
        text = " ".join(ampere(command, "--help").stdout.split())
        assert words in " ".join(part[:130] for part in text.split("--budget")), command


def test_watts_take_a_unit(tmp_path: Path) -> None:
    record = json.loads(ampere("devices", "--json").stdout)
    assert record["devices"]
    done = ampere("measure", "lenet5", "--watts-per-core", "3J", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--watts-per-core 3J; give positive watts, such as 10W" in done.stderr
