"""Which code a study speaks for, and whether it still does."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "studies" / "results.json"
METERS = "src/ampere_energy/measure/meters"

TESTED = {
    "additive": (
        "studies/additive.py",
        "src/ampere_energy/fit/gp.py",
        "src/ampere_energy/fit/acquire.py",
        "src/ampere_energy/fit/campaign.py",
        "src/ampere_energy/measure/devices/simulated.py",
        "src/ampere_energy/measure/measurement.py",
        "src/ampere_energy/model/variants.py",
        "src/ampere_energy/model/zoo/families.py",
    ),
    "oracle": ("studies/oracle.py", "src/ampere_energy/fit/gp.py"),
    "counters": ("studies/counters.py", f"{METERS}/counters.py", f"{METERS}/rapl.py"),
    "phases": ("studies/phases.py", f"{METERS}/trace.py"),
    "kills": (
        "studies/kills.py",
        "src/ampere_energy/fit/campaign.py",
        "src/ampere_energy/measure/store.py",
        "src/ampere_energy/plain.py",
    ),
}


def fingerprint(study: str) -> str:
    """A hash of the files a study tests."""
    total = hashlib.sha256()
    for name in TESTED[study]:
        total.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return total.hexdigest()[:16]
