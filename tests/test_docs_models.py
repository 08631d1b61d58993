"""What docs/your-model.md tells a user to write and to run, written and run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.results import ROOT

PAGE = (ROOT / "docs" / "your-model.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
[BERT], MY = [code for code in PYTHON if "tiny_bert" in code], [code for code in PYTHON if "tiny_bert" not in code]
COMMANDS = re.findall(r"^    (ampere .*)$", PAGE, re.MULTILINE)
INPUTS = re.findall(r"^\| `(\S+)` \|", PAGE.partition("| `--input` |")[2].partition("\n\n")[0], re.MULTILINE)
MINE = {
    "32,3,64,64": "torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.Flatten(), torch.nn.Linear(8 * 62 * 62, 4))",
    "ids:int64:8,128": "Reads()",
    ":int64:8,128:30522": (
        "torch.nn.Sequential(torch.nn.Embedding(30522, 16), torch.nn.Flatten(), torch.nn.Linear(2048, 3))"
    ),
}
READS = """
class Reads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(99, 16), torch.nn.Linear(16, 3)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))
"""


def ran(command: str, folder: Path) -> str:
    """What a command of the page prints; in a process of its own, where every factory is called anew."""
    words = shlex.split(command)[1:]
    if "profile" in words[:1] and "--device" not in words:  # the page's own device is what is at hand
        words += ["--device", "simulated:0.01"]
        words = [w for i, w in enumerate(words) if w != "--threads" and words[i - 1] != "--threads"]
    program = [sys.executable, "-c", "from ampere_energy.cli.main import main; main()", *words]
    found = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240)
    assert found.returncode == 0, f"{command}: {found.stderr[-500:]}"
    return found.stdout


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    (folder / "bert.py").write_text(BERT)
    (folder / "my.py").write_text("\n\n".join(MY))
    return folder


def test_every_code_block_is_tried() -> None:
    assert len(MY) == 3
    assert "def tiny_bert" in BERT
    assert [command.split()[1] for command in COMMANDS] == [
        "parse", "profile", "profile", "measure", "profile", "estimate", "profiles",
    ]  # fmt: skip
    assert set(INPUTS) == set(MINE)


@pytest.mark.parametrize("given", MINE)
def test_inputs_are_given_as_the_page_says(given: str, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(f"import torch\n{READS}\ndef net():\n    return {MINE[given]}\n")
    assert "my.py:net" in ran(f"ampere parse my.py:net --input {given}", tmp_path)


def test_a_model_that_draws_its_token_ids_uses_its_own_profile(mine: Path) -> None:
    """The factory draws other ids in each of these processes."""
    assert "bert" in ran("ampere parse bert.py:tiny_bert", mine)
    ran("ampere profile bert.py:tiny_bert --budget 1s --out bert.json", mine)
    assert "energy" in ran("ampere estimate bert.py:tiny_bert --profile bert.json", mine)


def test_every_command_of_the_page_runs_in_its_order(mine: Path) -> None:
    """All but `measure`, which would train for seconds: its own tests do."""
    for command in COMMANDS:
        if not command.startswith("ampere measure"):
            ran(command, mine)
    for model in ("net", "blocks --widths width=16,depth=3,kernel=5"):
        assert "energy" in ran(f"ampere estimate my.py:{model} --profile both.json", mine)
    assert "energy" in ran("ampere estimate my.py:net --profile own-step.json", mine)
