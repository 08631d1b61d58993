"""The line that tells what is being done, apart from the console since what draws it takes time to import."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.status import Status
from rich.text import Text


class Doing(Status):
    """A status whose words are no markup."""

    def __init__(self, status: RenderableType, **options: Any) -> None:
        super().__init__(Text(status) if isinstance(status, str) else status, **options)

    def update(self, status: RenderableType | None = None, **options: Any) -> None:
        """Other words."""
        super().update(Text(status) if isinstance(status, str) else status, **options)
