"""Where studies' results lie, and what each carries: the commit and the date it was made at."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "studies" / "results.json"


def made_at() -> dict[str, str]:
    """The commit a result is of, marked where the tree had changes, and the date."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, "date": datetime.now(UTC).date().isoformat()}
