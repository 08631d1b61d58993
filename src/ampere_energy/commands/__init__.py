"""What each command does; `ampere_energy.cli` makes one program of them. torch is imported only by what needs it."""

import time

STARTED_S = time.monotonic()
"""When the process began, nearly: before what takes time to import."""
