"""Where recordings and results lie, and what each result carries: the commit and the date it was made at."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"
RESULTS = ROOT / "benchmarks" / "results.json"


def result_of(study: str) -> Any:
    """What a study found, as committed."""
    return json.loads(RESULTS.read_text())[study]["result"]


def made_at() -> dict[str, str]:
    """The commit a result is of, marked where the tree had changes, and the date."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, "date": datetime.now(UTC).date().isoformat()}
