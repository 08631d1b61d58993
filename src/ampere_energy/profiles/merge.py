"""Several profiles of one device as one, which answers for every model that any of them knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce

from ampere_energy.cost_model.fitting import learn
from ampere_energy.cost_model.observations import Observation, Subject
from ampere_energy.cost_model.traits import Reference
from ampere_energy.errors import RequestError
from ampere_energy.measurement.records import joined
from ampere_energy.profiles.profile import Profile


def merged(profiles: Sequence[Profile]) -> Profile:
    """One profile of all that several know, fitted to all of their measurements at once.

    Raises:
        RequestError: they are not of one device, meter and way of training, or not of the default method.
    """
    first, *others = profiles
    fits = [profile.joint for profile in profiles]
    for other in others:
        for what in ("device", "meter", "training"):
            own, there = getattr(first, what), getattr(other, what)
            if own != there:
                raise RequestError(
                    f"the profile of {first.model} has the {what} {own}, that of {other.model} {there}",
                    "merge profiles of one device, meter and way of training",
                )
    subjects: dict[str, Subject] = {}
    for subject in (subject for fit in fits for subject in fit.subjects):
        known = subjects.setdefault(subject.id, subject)
        domain = tuple(a.hull(b) for a, b in zip(known.domain, subject.domain, strict=True))
        subjects[subject.id] = replace(known, domain=domain)
    places = {name: place for place, name in enumerate(subjects)}
    observations: list[Observation] = []
    references: dict[tuple[int, tuple[int, ...]], Reference] = {}
    for profile, fit in zip(profiles, fits, strict=True):
        moved = [places[subject.id] for subject in fit.subjects]
        for seen in fit.observations:
            observations.append(replace(seen, blocks=tuple((moved[kind], point) for kind, point in seen.blocks)))
        for one in profile.references:
            references.setdefault((moved[one.subject], one.point), replace(one, subject=moved[one.subject]))
    watts = [fit.idle_w for fit in fits if fit.idle_w is not None]
    return replace(
        first,
        model=" + ".join(dict.fromkeys(profile.model for profile in profiles)),
        complete=all(profile.complete for profile in profiles),
        measurements=sum(profile.measurements for profile in profiles),
        profile_s=sum(profile.profile_s for profile in profiles),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        nets=learn(
            tuple(subjects.values()),
            observations,
            idle_w=sum(watts) / len(watts) if watts else None,
            cached=first.device.processor,
        ),
        references=tuple(references.values()),
        doubts=reduce(joined, (other.doubts for other in others), first.doubts),
    )
