"""The `ampere` command as tests run it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from ampere_energy.cli.main import main


def ampere(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command in this process, where torch is imported once."""
    out, told = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(told):
        patch.chdir(cwd or Path.cwd())
        patch.setattr(sys, "argv", ["ampere", *arguments])
        patch.setattr(sys, "path", ["", *sys.path])
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as end:
            main()
    return subprocess.CompletedProcess(arguments, int(end.value.code or 0), out.getvalue(), told.getvalue())


def process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command as users run it."""
    command = [sys.executable, "-m", "ampere_energy", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240)


def answer(*arguments: str, cwd: Path | None = None) -> Any:
    done = ampere(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
