from __future__ import annotations

import time
from pathlib import Path

import pytest

from ampere_energy.errors import MeterError
from ampere_energy.measurement.meters import command, open_meter, survey
from ampere_energy.measurement.meters.command import CommandMeter
from ampere_energy.measurement.records import Provenance


def printing(file: Path, text: str) -> CommandMeter:
    """A meter that prints a file."""
    file.write_text(text)
    return CommandMeter(("cat", str(file)))


@pytest.mark.parametrize(
    ("first", "then", "joules"),
    [
        ("5 J", "12.5 J", 7.5), ("3.2 kJ", "3.3 kJ", 100.0), ("0.001 Wh", "0.002 Wh", 3.6),
        ("2 kWh", "2.001 kWh", 3600.0),
        ("1500 mJ", "2J\n", 0.5), ("1e3 J", "1.001e3 J", 1.0), ("1 MJ", "1.000001 MJ", 1.0), ("10 mWh", "20 mWh", 36.0),
    ],
)  # fmt: skip
def test_joules_are_a_counter(tmp_path: Path, first: str, then: str, joules: float) -> None:
    meter = printing(tmp_path / "out", first)
    assert meter.read().energy_j == (0.0,)
    (tmp_path / "out").write_text(then)
    assert meter.read().total_j == pytest.approx(joules, rel=1e-9)
    assert meter.info.details == (("program", f"cat {tmp_path / 'out'}"), ("energy", "counted by the program"))


@pytest.mark.parametrize(("text", "watts"), [("12.5 W", 12.5), ("1234 mW", 1.234), ("0.5 kW", 500.0)])
def test_watts_are_integrated(tmp_path: Path, text: str, watts: float) -> None:
    meter = printing(tmp_path / "out", text)
    first, last = meter.read(), meter.read()
    assert last.at_s - first.at_s > 0.05
    assert last.total_j == pytest.approx(watts * (last.at_s - first.at_s))
    assert (meter.info.domains, meter.info.provenance) == (("external",), Provenance.MEASURED)
    assert meter.info.details[1] == ("energy", "integrated power")


def test_a_counter_that_falls_was_reset(tmp_path: Path) -> None:
    meter = printing(tmp_path / "out", "100 J")
    meter.read()
    (tmp_path / "out").write_text("99 J")
    with pytest.raises(MeterError, match="was reset from 100 J to 99 J"):
        meter.read()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "printed nothing"), ("12.5", r"printed '12\.5', not a number and one of mW W kW mJ J"),
        ("12,5 W", "printed '12,5 W'"), ("nan W", "printed 'nan W'"), ("5 BTU", "printed '5 BTU'"),
        ("power: 5 W", "printed 'power: 5 W'"), ("5 W\n6 W", "printed '5 W 6 W'"), ("-3 W", r"reads -3\.0 W"),
    ],
)  # fmt: skip
def test_anything_else_printed_is_named(tmp_path: Path, text: str, message: str) -> None:
    meter = printing(tmp_path / "out", "5 W")
    (tmp_path / "out").write_text(text)
    with pytest.raises(MeterError, match=message):
        meter.read()


def test_joules_do_not_become_watts(tmp_path: Path) -> None:
    meter = printing(tmp_path / "out", "5 J")
    (tmp_path / "out").write_text("5 W")
    with pytest.raises(MeterError, match="joules once and watts once"):
        meter.read()


def test_programs_that_fail(tmp_path: Path) -> None:
    for request, message in (
        ("command:sh -c 'echo no sensor >&2; exit 3'", "failed with exit code 3, saying 'no sensor'"),
        ("command:/no/such/program", "cannot be run .*No such file"),
        (f"command:{tmp_path}", "cannot be run .*Permission denied"),
        ("command:sh -c 'echo", "is not quoted well"),
    ):
        with pytest.raises(MeterError, match=message):
            open_meter(request)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_TIMEOUT_S", 0.3)
    start_s = time.monotonic()
    with pytest.raises(MeterError, match=r"took longer than 0\.3 s"):
        open_meter(f"command:sh -c '(sleep 1; touch {tmp_path}/alive) & wait; echo 5 W'")
    time.sleep(max(0.0, start_s + 1.5 - time.monotonic()))
    assert not (tmp_path / "alive").exists()


def test_without_a_program_it_says_how_to_give_one() -> None:
    for request in ("command", "command: "):
        with pytest.raises(MeterError, match=r"no program was given.*command:PROGRAM ARGUMENTS"):
            open_meter(request)
    (state,) = survey(["command"])
    assert state.info is None
    assert "command:PROGRAM ARGUMENTS" in (state.problem or "")
