"""The `ampere` command: one module a command, the options they share, and `main`, which turns errors into exit codes.

In come words from the command line; out go calls of the other rooms, and their results by way of `reporting`. torch is
imported only by a command that needs it.
"""

import time

STARTED_S = time.monotonic()
"""When the process began, nearly: before what takes time to import."""
