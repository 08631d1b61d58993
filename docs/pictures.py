"""`make pictures`: the README's picture, from the recorded profile of an H200."""

from __future__ import annotations

import re
from pathlib import Path

from rich.console import Console

from ampere_energy.estimation.estimate import estimate
from ampere_energy.model.load import instantiate
from ampere_energy.model.parse import parse
from ampere_energy.model.source import model_ref
from ampere_energy.profiles.bundles.catalogue import load_bundled
from ampere_energy.reporting.tables import estimate_table
from ampere_energy.units import Quantity

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Draws it."""
    profile = load_bundled("nvidia-h200", "cnn5-128x3x64x64-graph")
    ref = model_ref("cnn5", widths=(37, 90, 171, 222), input=(128, 3, 64, 64), training=profile.training)
    spec = parse(instantiate(ref), ref.input, training=ref.training, name=str(ref))
    console = Console(record=True, width=86)
    console.print("[bold]$ ampere estimate cnn5 --widths 37,90,171,222 --input 128,3,64,64 --mode graph \\")
    console.print("[bold]      --profile h200.json --iterations 100000 --battery 60Wh --within 200kJ")
    console.print(
        estimate_table(estimate(spec, profile, iterations=100_000), Quantity(60.0, "60 Wh"), Quantity(200e3, "200 kJ"))
    )
    picture = console.export_svg(title="ampere")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)  # no request to anywhere
    (ROOT / "docs" / "estimate.svg").write_text(picture)


if __name__ == "__main__":
    main()
