"""What a profile learns after its campaign: whole models, and what its log holds that it has not learnt yet."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ampere_energy.cost_model.fitting import learn
from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.observations import Net, Observation, observation
from ampere_energy.errors import CoverageError
from ampere_energy.measurement.log import MeasurementLog
from ampere_energy.measurement.records import Measurement, Record, attempt_failed, joined, same_setting
from ampere_energy.measurement.workloads import Whole
from ampere_energy.model.blocks import Block
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.kinds import in_mode
from ampere_energy.model.source import ModelRef
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Phase, Variant
from ampere_energy.profiles.profile import Profile

STEPS = 10
"""In how many steps hyperparameters are learnt anew from where they were."""


def believed(records: Iterable[Record]) -> Iterator[Record]:
    """What a log tells: not attempts that failed, nor what code did that older versions knew by its name alone.

    Such code may have changed since, and is never run because a log names it.
    """
    named = 0
    for record in records:
        if isinstance(record.workload, ModelRef) and record.workload.source not in FAMILIES:
            named += 1
        elif not attempt_failed(record):
            yield record
    if named:
        what = "1 whole model that an older version measured is" if named == 1 else f"{named} whole models are"
        warnings.warn(f"{what} known by name alone and left out: the code may have changed since", stacklevel=3)


def add(profile: Profile, blocks: Sequence[Block], record: Measurement) -> Profile:
    """The profile with one more measurement, of a whole model made of known kinds."""
    same_setting(record, profile.device, profile.meter)
    found = seen(profile, net_of(profile.joint, blocks), record, long=True)
    assert found is not None
    return taught(doubting(profile, record), [found], record.cost_s)


def caught_up(profile: Profile, log: str | Path) -> Profile:
    """The profile with all that its log holds: also what was measured, and not learnt since something came between."""
    more, spent_s = [], 0.0
    for net, record in unlearnt(profile, MeasurementLog(Path(log))):
        if (found := seen(profile, net, record)) is not None:
            more.append(found)
            spent_s += record.cost_s
            profile = doubting(profile, record)
    return taught(profile, more, spent_s) if more else profile


def unlearnt(profile: Profile, log: MeasurementLog | None) -> list[tuple[Net, Record]]:
    """What a log holds that a profile has not learnt, of its own kinds, device and meter."""
    nets = profile.joint
    learnt = Counter(map(_figures, nets.observations))
    left: list[tuple[Net, Record]] = []
    for record in believed(log.read() if log else ()):
        if (net := _known(profile, nets, record)) is None:
            continue
        found = seen(profile, net, record)
        if found is not None and learnt[_figures(found)]:
            learnt[_figures(found)] -= 1
        else:
            left.append((net, record))
    return left


def _figures(seen: Observation) -> tuple[object, ...]:
    """What tells one observation from another: what was measured, and not what its errors are taken to be."""
    return seen.blocks, seen.time_s, seen.energy_j, seen.host_s, seen.wall_s


def _known(profile: Profile, nets: JointFit, record: Record) -> Net | None:
    """The network of a record as a profile sees it; None where it is of another device, or of kinds it lacks."""
    what, mode = record.workload, profile.training.mode
    of_meter = record.meter if isinstance(record, Measurement) else profile.meter
    if (record.device, of_meter) != (profile.device, profile.meter) or isinstance(what, ModelRef):
        return None
    if replace(what.training, mode=mode) != profile.training or what.training.mode not in (mode, Mode.GRAPH):
        return None
    if isinstance(what, Whole):
        blocks = what.blocks
    elif what.phase is Phase.STEP:
        blocks = tuple((in_mode(block.kind, mode).id, block.point) for block in what.blocks)
    else:
        return None
    net = tuple((-1 if (place := nets.find(kind)) is None else place, point) for kind, point in blocks)
    fits = (place >= 0 and len(point) == len(nets.subjects[place].domain) for place, point in net)
    return net if all(fits) else None


def seen(profile: Profile, net: Net, record: Record, long: bool | None = None) -> Observation | None:
    """A record as one of a profile's observations; None where nothing ran.

    Args:
        profile: what it is added to.
        net: its network, as the fit sees it.
        record: what was measured after the profile's campaign.
        long: whether it was measured for longer; by default, whole models are.
    """
    error = record.energy_std_j / record.energy_j if isinstance(record, Measurement) and record.windows else 0.0
    long = not isinstance(record.workload, Variant) if long is None else long
    return observation(net, record, error, profile.training.mode.waits, long=long)


def doubting(profile: Profile, record: Record) -> Profile:
    """The profile with what is doubted of one more measurement."""
    more = record.doubts if isinstance(record, Measurement) else ()
    return replace(profile, doubts=joined(profile.doubts, more))


def net_of(nets: JointFit, blocks: Sequence[Block]) -> Net:
    """A model's blocks as the fit sees them."""
    places = [(nets.find(block.kind.id), block) for block in blocks]
    missing = [block.name for place, block in places if place is None]
    if missing:
        raise CoverageError(f"the profile lacks {', '.join(missing)}", "profile this model")
    return tuple((place, block.point) for place, block in places if place is not None)


def taught(profile: Profile, more: Sequence[Observation], cost_s: float, iterations: int = STEPS) -> Profile:
    """The profile with more observations, which took some seconds; hyperparameters are learnt anew in some steps."""
    nets = profile.joint
    again = learn(
        nets.subjects,
        [*nets.observations, *more],
        idle_w=nets.idle_w,
        cached=profile.device.processor,
        before=nets,
        iterations=iterations,
    )
    return replace(
        profile,
        nets=again,
        measurements=profile.measurements + len(more),
        profile_s=profile.profile_s + cost_s,
    )
