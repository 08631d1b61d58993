"""What reaches the terminal, and by which code a command ends where nobody foresaw the error."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text

from ampere_energy.errors import ModelError, printable
from ampere_energy.reporting.tables import bare_table
from ampere_energy.reporting.terminal import LiteralConsole, whole
from command import ampere

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\x7f"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\x7f"
MARKUP = "[red]a[/red][link=file:///x]b[/link][/nope]:smile:"


def shown(renderable: Any) -> str:
    """What a terminal is sent."""
    console = LiteralConsole(
        file=io.StringIO(), emoji=False, markup=False, force_terminal=True, color_system=None, width=200
    )
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_printable_text_stays_as_it_is() -> None:
    for text in ("lenet5", "± 3 % µJ █▏ ≈ 漢字 é\ttab\nline", MARKUP):
        assert printable(text) == text
    assert printable(EVIL) == SHOWN
    assert printable("\udcc3\r\x00") == r"\udcc3\r\x00"


@pytest.mark.parametrize("make", [str, Text, lambda text: cells(text), lambda text: cells(Text(text))])
def test_control_characters_and_markup_are_shown_wherever_text_is_printed(make: Any) -> None:
    for text, wanted in ((EVIL.replace("\x07", ""), SHOWN.replace(r"\x07", "")), (MARKUP, MARKUP)):  # rich drops bells
        found = shown(whole(make(text)))
        assert wanted in found.replace("\n", "")
        assert "\x1b" not in found
        assert "\x07" not in found


def cells(text: str | Text) -> Table:
    """A table with the text as title, heading and cell."""
    table = bare_table(str(text), title=str(text))
    table.add_row(text)
    return table


def test_what_is_being_done_is_no_markup() -> None:
    console = LiteralConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=200)
    with console.status(f"reading {MARKUP}{EVIL}") as status:
        status.update(f"scoring {MARKUP}{EVIL}")
        text = status.renderable.text  # type: ignore[attr-defined]
    assert str(text) == f"scoring {MARKUP}{EVIL}".replace("\x07", "")  # rich itself leaves bells out
    assert "\x1b]0;" not in shown(status.renderable)


def test_names_and_exceptions_reach_the_terminal_escaped(tmp_path: Path) -> None:
    folder = tmp_path / f"a{MARKUP.replace('/', '|')}\x1b[2J"
    folder.mkdir()
    (folder / "m.py").write_text("def evil(): raise ValueError('\\x1b]0;owned\\x07 [red]no')\n")
    done = ampere("parse", f"{folder}/m.py:evil", "--input", "1,2")
    assert done.returncode == 2
    assert r"\x1b[2J/m.py:evil raised ValueError: \x1b]0;owned\x07 [red]no" in done.stderr
    assert "\x1b" not in done.stderr
    assert "[red]a" in done.stderr
    done = ampere("estimate", "lenet5", "--profile", f"{folder}/no.json")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RecursionError("maximum recursion depth exceeded"), 1, "unexpected RecursionError: maximum"),
        (ValueError("no\nsuch \x1b[2J"), 1, r"unexpected ValueError: no such \x1b[2J (an error of AMPERE: run again"),
        (MemoryError(), 3, "out of memory; give a smaller batch or model"),
        (OSError(36, "File name too long", "x" * 300), 2, "xxx cannot be used (File name too long); see to its folder"),
        (PermissionError(13, "Permission denied", "/root"), 2, "/root cannot be used (Permission denied)"),
        (OSError(28, "No space left on device"), 2, "output cannot be read or written (No space left on device)"),
        (BrokenPipeError(32, "Broken pipe"), 141, ""),
        (ModelError("a model", "mend it"), 2, "a model; mend it"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_whatever_is_raised_is_one_line_and_a_documented_code(
    error: Exception, code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def app(**_: Any) -> None:
        raise error

    monkeypatch.setattr("ampere_energy.cli.app.app", app)
    done = ampere("models")
    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("\n") == (1 if words else 0)
    assert "Traceback" not in done.stderr
    assert f"{code} " in Path(__file__).parents[2].joinpath("docs", "quickstart.md").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("parse", f"{'x' * 300}.py:net"),
        ("parse", "x" * 300),
        ("estimate", "lenet5", "--profile", "x" * 300),
        ("report", f"{'x' * 300}.json"),
        ("merge-no-such-command" * 20,),
    ],
    ids=lambda words: words[0][:20],
)
def test_names_that_no_file_may_have(words: tuple[str, ...]) -> None:
    done = ampere(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert ";" in done.stderr, "there is a next step"


def run(words: Sequence[str], more: dict[str, str] | None = None, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """The command as users run it."""
    kinds = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    environment = {**os.environ, **(more or {})}
    return subprocess.run([sys.executable, "-m", "ampere_energy", *words], env=environment, timeout=240, **kinds)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [("models",), ("models", "--json"), ("--version",), ("--help",)], ids=" ".join)
def test_a_full_disk_behind_the_output(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(words, stdout=full)
        assert done.returncode == 2
        assert done.stderr.count(b"\n") == 1
        assert b"No space left on device" in done.stderr
        assert run(("parse", "lenet6"), stderr=full).returncode == 2


@pytest.mark.parametrize("words", [("models",), ("models", "--json")], ids=" ".join)
def test_a_reader_that_left(words: tuple[str, ...]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = run(words, stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "", "PYTHONCOERCECLOCALE": "0"}
    record = {"family": "lenet5"}
    (tmp_path / "é.json").write_text(json.dumps(record))
    for words in (("estimate", "cnn5", "--profile", "nvidia-h200"), ("parse", f"{tmp_path}/é.py:net")):
        done = run(words, ascii_only)
        assert done.returncode in (0, 2)
        assert done.stdout.isascii()
        assert done.stderr.isascii()
        assert b"unexpected" not in done.stderr
        assert b"Traceback" not in done.stderr
    assert rb"there is no file" in done.stderr
