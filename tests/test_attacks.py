"""The attacks in small; `make study` runs them in full and keeps what they found in `benchmarks/results.json`."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks.attacks import cases, commands, factories, faults, files, hostile_models, kills, process, properties
from benchmarks.attacks.cases import Found

pytestmark = pytest.mark.usefixtures("one_thread")


def test_killed_commands_go_on_to_the_undisturbed_result(tmp_path: Path) -> None:
    found = kills.run(6, tmp_path, small=True)
    assert found["fails"] == {}
    assert found["n kills"] >= 1  # a command may end before the moment it was to be killed at


def test_a_full_disk_another_campaign_and_clocks_change_no_result(tmp_path: Path) -> None:
    found = faults.run(tmp_path, small=True)
    assert found["fails"] == {}
    assert found["cases"] == 7


def test_hostile_factories_are_answered(tmp_path: Path) -> None:
    found = factories.run(tmp_path, few=True)
    assert found["fails"] == {}
    assert found["cases"] == len(factories.FEW)
    assert found["factories"] >= 100


def test_damaged_files_are_refused_or_usable_and_nothing_in_them_is_run(tmp_path: Path) -> None:
    found = files.run(200, tmp_path)
    assert found["fails"] == {}
    assert found["cases"] > 200


def test_command_lines_end_as_documented(tmp_path: Path) -> None:
    found = commands.run(40, tmp_path)
    assert found["fails"] == {}
    assert found["cases"] == 40


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_random_model_costs_what_is_estimated_or_something_says_why(tmp_path: Path) -> None:
    assert properties.run(1, tmp_path)["fails"] == {}


def test_a_study_goes_on_where_its_chunk_ended(tmp_path: Path) -> None:
    ran: list[str] = []

    def case(name: str) -> cases.Case:
        return name, lambda: ran.append(name) or Found(("odd",) if name == "b" else ())  # type: ignore[func-returns-value]

    every = [case(name) for name in "abc"]
    assert cases.run("s", every[:2], tmp_path)["hold"] == 1
    (file,) = tmp_path.iterdir()
    with file.open("a") as lines:
        lines.write('{"case": "c", "cau')  # killed in mid-line
    found = cases.run("s", every, tmp_path)
    assert ran == ["a", "b", "c"]
    assert found["fails"] == {"odd": {"cases": 1, "such as": ["b"]}}
    assert cases.run("s", [case("d")], tmp_path, chunk_s=-1)["left for the next chunk"] == 1


def test_what_a_command_does_wrong_is_seen(tmp_path: Path) -> None:
    """The harness itself: exit codes, orphans, hanging and a changed folder."""
    process.ready()
    tree = process.tree(tmp_path)

    def leaves() -> None:
        (tmp_path / "left").write_text("here")
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        os._exit(7)

    done = process.command("models", cwd=tmp_path, before=leaves)
    wrong = {"exit code 7", "refuses in silence", "an orphan", "leaves the folder changed"}
    assert set(process.judged(done, tree, tmp_path)) == wrong
    done = process.command("models", cwd=tmp_path, limit_s=0.2, before=lambda: time.sleep(60))
    assert process.judged(done) == ["hangs"]
    done = process.command("models", "--json", cwd=tmp_path)
    assert process.judged(done) == []
    done = process.command("parse", "nowhere", cwd=tmp_path)
    assert (done.code, process.judged(done)) == (2, [])


def test_the_list_of_hostile_factories_is_sound() -> None:
    assert len(hostile_models.MODELS) == len(set(hostile_models.MODELS)) >= 100
    assert {*hostile_models.PROFILED, *hostile_models.TRAINED, *hostile_models.HARMLESS, *factories.FEW} <= set(
        hostile_models.MODELS
    )
    for name in set(hostile_models.MODELS) - {"a syntax error", "a null byte", "bytes that are no text"}:
        compile(hostile_models.source(name), name, "exec")
