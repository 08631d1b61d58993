"""What this machine has, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from ampere_energy.measurement.meters import MeterState
from ampere_energy.measurement.records import DeviceInfo
from ampere_energy.units import si


def devices_table(devices: Sequence[DeviceInfo], meters: Sequence[MeterState]) -> RenderableType:
    """`ampere devices`."""
    computing = Table(box=None, padding=(0, 1), title="train on", title_justify="left")
    for column in ("--device", "what"):
        computing.add_column(column)
    for device in devices:
        computing.add_row(device.name, ", ".join(f"{key} {value}" for key, value in device.details))
    computing.add_row("simulated", "no device: exactly additive, for dry runs and tests")
    metering = Table(box=None, padding=(0, 1), title="\nread energy with", title_justify="left")
    for column in ("--meter", "readable", "energy is", "domains", "tick", ""):
        metering.add_column(column, justify="right" if column == "tick" else "left", no_wrap=column == "tick")
    for state in meters:
        info = state.info
        metering.add_row(
            state.name,
            "yes" if state.problem is None else "no",
            info.provenance.value if info else "",
            ", ".join(info.domains) if info else "",
            si(info.tick_s, "s") if info and info.tick_s else "",
            state.problem
            if state.problem
            else (", ".join(f"{key} {value}" for key, value in info.details) if info else ""),
        )
    return Group(computing, metering)


def devices_json(devices: Sequence[DeviceInfo], meters: Sequence[MeterState]) -> dict[str, Any]:
    """`ampere devices --json`."""
    return {
        "devices": [{"name": d.name, **dict(d.details)} for d in devices],
        "meters": [
            {
                "name": state.name,
                "readable": state.problem is None,
                "problem": state.problem,
                "provenance": state.info.provenance.value if state.info else None,
                "domains": list(state.info.domains) if state.info else [],
                "tick_s": state.info.tick_s if state.info else None,
            }
            for state in meters
        ],
    }
