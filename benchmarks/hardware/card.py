"""The card at hand, as a recording's first line has it."""

from __future__ import annotations

from datetime import UTC, datetime

import torch


def identity() -> dict[str, str]:
    """Its name and number, the version of torch, and the moment."""
    card = torch.cuda.get_device_properties(0)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"gpu": card.name, "uuid": str(card.uuid), "torch": torch.__version__, "recorded_at": now}
