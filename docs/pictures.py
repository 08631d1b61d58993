"""`make pictures`: the README's picture, from a real profile of this machine (run `make demo` first)."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from ampere_energy.fit.profile import load
from ampere_energy.model.parse import parse
from ampere_energy.model.source import instantiate, model_ref
from ampere_energy.predict.estimate import estimate
from ampere_energy.show.tables import estimate_table

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Draws it."""
    profile = load(ROOT / "build" / "demo" / "lenet5.json")
    ref = model_ref("lenet5")
    spec = parse(instantiate(ref), ref.input, training=ref.training, name="lenet5")
    console = Console(record=True, width=86)
    console.print("[bold]$ ampere estimate lenet5 --profile lenet5.json --iterations 1000 --battery 15Wh")
    console.print(estimate_table(estimate(spec, profile, iterations=1000), 15.0))
    picture = console.export_svg(title="ampere")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # no request to anywhere
    (ROOT / "docs" / "estimate.svg").write_text(picture)


if __name__ == "__main__":
    main()
