"""The JSON side of the command line; its keys are a contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ampere_energy.campaign.refine import Refined
from ampere_energy.estimation.bundle_choice import Choice
from ampere_energy.estimation.result import JOULES_PER_WH, Estimate, Origin
from ampere_energy.evaluation.evaluate import Trials, score
from ampere_energy.measurement.records import Measurement
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.kinds import Fragment
from ampere_energy.profiles.profile import Profile
from ampere_energy.serialization import encode
from ampere_energy.units import Quantity


def spec_json(spec: ModelSpec) -> dict[str, Any]:
    """`ampere parse --json`."""
    return {
        "model": spec.name,
        "batch": spec.training.batch,
        "optimizer": spec.training.optimizer.value,
        "training": encode(spec.training),
        "parameters": sum(b.parameters for b in spec.blocks),
        "training_flops": sum(b.training_flops for b in spec.blocks),
        "blocks": [
            {
                "name": b.name,
                "role": b.kind.role.value,
                "kind": b.kind.id,
                "layers": b.kind.label,
                "widths": list(b.point),
                "opaque": isinstance(b.kind, Fragment) and b.kind.opaque,
                "reads": list(b.reads),
                "gives": list(b.gives),
                "parameters": b.parameters,
                "training_flops": b.training_flops,
            }
            for b in spec.blocks
        ],
        "unattributed": list(spec.unattributed),
    }


def profile_json(profile: Profile, path: str) -> dict[str, Any]:
    """`ampere profile --json`."""
    return {
        "profile": path,
        "model": profile.model,
        "method": profile.method,
        "complete": profile.complete,
        "device": encode(profile.device),
        "meter": str(profile.meter),
        "provenance": profile.meter.provenance.value,
        "measurements": profile.measurements,
        "profile_s": profile.profile_s,
        "doubts": list(profile.doubts),
        "kinds": [
            {"kind": f.kind.id, "role": f.kind.role.value, "layers": f.kind.label, "points": len(f.points)}
            for f in profile.kinds
        ]
        + [
            {
                "kind": k.id,
                "layers": k.label,
                "widths": list(map(str, k.domain)),
                "points": len(k.metered),
                "timings": k.timed,
            }
            for k in (profile.nets.known_kinds() if profile.nets is not None else ())
        ],
    }


def estimate_json(
    estimate: Estimate,
    battery_wh: Quantity | None = None,
    within_j: Quantity | None = None,
    refined: Refined | None = None,
    bundled: Choice | None = None,
) -> dict[str, Any]:
    """`ampere estimate --json`; an estimate from a bundle is for another device than the profiled one."""
    record = {
        "model": estimate.model,
        "training": encode(estimate.training),
        "energy_j": estimate.energy_j,
        "interval_j": list(estimate.interval_j),
        "level": estimate.level,
        "time_s": estimate.time_s,
        "power_w": estimate.power_w,
        "provenance": estimate.provenance.value,
        "basis": estimate.basis.value,
        "meter": str(estimate.meter),
        "device": encode(estimate.device),
        "iterations": estimate.iterations,
        "blocks": [
            {
                "name": b.name,
                "kind": b.kind,
                "energy_j": b.energy_j,
                "std_j": b.std_j,
                "time_s": b.time_s,
                "approximate": b.approximate,
                "origin": b.origin.value,
                "slower": b.slower,
            }
            for b in estimate.blocks
        ],
        "other_j": estimate.other_j,
        "busy": estimate.busy,
        "approximate": list(estimate.approximate),
        "from_batch": estimate.from_batch,
        "origins": {origin.value: estimate.origins.get(origin, 0.0) for origin in Origin},
        "unattributed": list(estimate.unattributed),
        "doubts": list(estimate.doubts),
        "outside": None if estimate.outside is None else estimate.outside.share,
    }
    if battery_wh is not None:
        capacity_wh = battery_wh.value
        fits = estimate.probability_within(capacity_wh * JOULES_PER_WH)
        record["battery"] = {"capacity_wh": capacity_wh, "share": estimate.battery_share(capacity_wh), "p_fits": fits}
    if within_j is not None:
        record["within"] = {"budget_j": within_j.value, "p_fits": estimate.probability_within(within_j.value)}
    if bundled is not None:
        record["bundled"] = {"profile": bundled.name, "interval_for": f"another {bundled.entry.device}"}
    if refined is not None:
        record["refined"] = {
            "measurements": refined.measurements,
            "reach": refined.reach,
            "limit": refined.limit,
        }
    return record


def measurement_json(measurement: Measurement, model: str, iterations: int) -> dict[str, Any]:
    """`ampere measure --json`; energy and time cover all iterations."""
    return {
        "model": model,
        "energy_j": measurement.energy_j * iterations,
        "energy_std_j": measurement.energy_std_j * iterations,
        "time_s": measurement.time_s * iterations,
        "iterations": iterations,
        "meter": str(measurement.meter),
        "provenance": measurement.meter.provenance.value,
        "domains": list(measurement.meter.domains),
        "device": encode(measurement.device),
        "idle_w": measurement.idle_w,
        "above_idle_j": None if measurement.above_idle_j is None else measurement.above_idle_j * iterations,
        "host_s": measurement.host_s,
        "windows": encode(measurement.windows),
        "busy": encode(measurement.busy),
        "doubts": list(measurement.doubts),
        "conditions": dict(measurement.conditions),
    }


def named(names: Sequence[str], widths: Sequence[int]) -> dict[str, Any]:
    """A factory's arguments by its own names; nothing where they have none."""
    return {"arguments": dict(zip(names, widths, strict=True))} if names else {}


def evaluation_json(sets: Sequence[Trials]) -> list[dict[str, Any]]:
    """`ampere evaluate --json`."""
    return [
        {
            "family": trials.family,
            "recorded": trials.recorded,
            "device": trials.device.name,
            "identity": encode(trials.device),
            "mode": trials.training.mode.value,
            "widths": "aligned" if trials.aligned else "any",
            "batch": trials.training.batch,
            "models": len(trials.networks),
            "points": trials.points,
            "profile_s": trials.profile_s,
            "profile_j": trials.profile_j,
            "wall_s": trials.wall_s,
            "provenance": trials.meter.provenance.value,
            "level": trials.level,
            "floor": trials.floor,
            "repeat_rank": trials.repeat_rank,
            "scores": {method: encode(score(trials, method)) for method in trials.methods},
            "members": [
                {
                    "widths": list(member.widths),
                    **named(trials.names, member.widths),
                    "measured_j": member.measured_j,
                    "measured_std_j": member.measured_std_j,
                    "predictions": {
                        method: {"energy_j": found.energy_j}
                        | ({"interval_j": list(found.interval_j)} if found.interval_j else {})
                        for method, found in member.predictions.items()
                    },
                }
                for member in trials.networks
            ],
        }
        for trials in sets
    ]
