"""The evidence: what AMPERE's estimates are worth, and how that was found out.

    hardware/        what measures on a card or a processor, into `data/`
    studies/         what scores recordings and simulated devices, into `results.json`
    attacks/         what kills, starves and misleads the command line
    pages/           what writes docs/results and docs/figures
    models/          models of a user who knows nothing of AMPERE, for plain training loops to train
    architectures/   one model of each architecture, which must be read right

`python -m benchmarks [STUDY …]` runs studies, `python -m benchmarks.pages` writes the pages,
`python -m benchmarks.speed` compares speeds, `python -m benchmarks.bundles` makes the bundled profiles from `data/`.
"""
