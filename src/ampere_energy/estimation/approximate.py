"""A model of which a profile knows some blocks, or none, or all at another batch: known, scaled and guessed together.

Blocks that are known are predicted as always; where that is at another batch, their sum is scaled (`another_batch`).
Others are guessed across the known kinds, at the batch that is asked for: there a batch is a size like any other.
The known blocks together, and each guessed one, are log-normal; their sum is taken as log-normal with the mean and
variance it has. Errors of guessed blocks go together as far as one model is wrong for all of them, and are
independent of the known blocks'. Where steps wait for the host, what it takes to issue unknown structures is guessed
in the same way, by their calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from ampere_energy.cost_model.joint import JointFit
from ampere_energy.cost_model.physical_mean import Array
from ampere_energy.cost_model.posterior import Prediction
from ampere_energy.cost_model.traits import Reference, Traits, spread_out, traits_of
from ampere_energy.cost_model.whole_step import Steps, issuing, whole
from ampere_energy.errors import FileError, RequestError
from ampere_energy.estimation.another_batch import rebatched
from ampere_energy.estimation.unseen_kinds import Guess, UnseenKinds
from ampere_energy.model.blocks import Block
from ampere_energy.profiles.profile import Profile

TOGETHER = 0.8
"""Correlation of the errors of an approximated block's time and energy."""
_MOST_REFERENCES = 1024
_MOST_VARIANCE = 50.0


@dataclass(frozen=True, eq=False)
class Approximation:
    """One step.

    Attributes:
        block_std: standard deviations of the logarithms of its blocks' energies: (B,).
        doubt: that of what the device takes for all of them, the host and the next measurement apart.
    """

    step: Steps
    block_std: Array
    doubt: float


@dataclass(frozen=True, eq=False)
class Parts:
    """What a step takes of one resource: expectations (n,), and the covariance of their logarithms (n, n)."""

    expected: Array
    covariance: Array

    @property
    def variance(self) -> float:
        """Of the logarithm of the sum."""
        return covariance_of_sums(self, self, self.covariance)

    @property
    def to_median(self) -> float:
        """The sum's median over its expectation."""
        return math.exp(-0.5 * self.variance)

    @property
    def median(self) -> float:
        """Of the sum."""
        return float(self.expected.sum()) * self.to_median


def covariance_of_sums(a: Parts, b: Parts, cross: Array) -> float:
    """The covariance of the logarithms of two sums, from that of the logarithms of their parts."""
    joint = a.expected @ np.expm1(np.minimum(cross, _MOST_VARIANCE)) @ b.expected
    return float(np.log1p(joint / (a.expected.sum() * b.expected.sum())))


@dataclass(frozen=True)
class Wanted:
    """A block of a model, and what a profile knows of it.

    Attributes:
        own: as it is asked for.
        there: the same at the profile's batch, or its own where that was not read.
        place: the subject of that in the fit; None where it is to be guessed.
    """

    own: Block
    there: Block
    place: int | None


def _traits(block: Block) -> Traits:
    return traits_of(block.kind, block.point)


def predicted_step(wanted: Sequence[Wanted], profile: Profile, nets: JointFit, batch: int) -> Approximation:
    """One step of a model.

    Args:
        wanted: the model's blocks.
        profile: made by the `ampere` method.
        nets: what it learnt.
        batch: the model's.
    """
    known = [one for one in wanted if one.place is not None]
    if len(known) < len(wanted):
        return _mixed(wanted, _KnownPart.of(known, profile, nets, batch), profile, nets)
    device, block_std = _known_part(known, profile, nets, batch)
    step = whole(nets, device, *issuing(nets, *_placed(known)))
    return Approximation(step, block_std, math.sqrt(float(device.energy_var[0])))


def _placed(known: Sequence[Wanted]) -> tuple[list[int], list[Array]]:
    """The subjects and widths of known blocks."""
    kinds = [one.place for one in known if one.place is not None]
    return kinds, [np.array([one.there.point], dtype=float) for one in known]


def _known_part(known: Sequence[Wanted], profile: Profile, nets: JointFit, batch: int) -> tuple[Prediction, Array]:
    """What the device does for known blocks, and the standard deviations of the logarithms of their energies."""
    kinds, points = _placed(known)
    device, block_std = nets.predict(kinds, points), nets.block_std(kinds, points)
    if batch == profile.training.batch:
        return device, block_std
    here, there = [_traits(one.own) for one in known], [_traits(one.there) for one in known]
    apart, on_cpu = batch / profile.training.batch, profile.device.name == "cpu"
    device, doubt = rebatched(device, here, there, apart, nets.idle_w, on_cpu)
    return device, np.hypot(block_std, doubt)


def _mixed(wanted: Sequence[Wanted], known: _KnownPart, profile: Profile, nets: JointFit) -> Approximation:
    """A model with blocks that are to be guessed."""
    references = _references(profile)
    guessed = np.array([one.place is None for one in wanted])
    unknown = [one for one in wanted if one.place is None]
    seconds, joules = (_guess(references, nets, values, unknown) for values in _costs(references, nets))
    times = Parts(np.append(known.time_s, expectations(seconds)), block_diag(known.time_var, seconds.covariance))
    energies = Parts(np.append(known.energy_j, expectations(joules)), block_diag(known.energy_var, joules.covariance))
    cross = block_diag(known.joint_var, TOGETHER * (seconds.covariance + joules.covariance) / 2)
    block_s, block_j, block_std = (np.empty(len(wanted)) for _ in range(3))
    block_s[guessed], block_s[~guessed] = times.expected[1:], known.block_time_s
    block_j[guessed], block_j[~guessed] = energies.expected[1:], known.block_energy_j
    block_std[guessed], block_std[~guessed] = np.sqrt(np.diagonal(joules.covariance)), known.block_std
    device = Prediction(
        np.array([times.median]),
        np.array([energies.median]),
        np.array([times.variance]),
        np.array([energies.variance]),
        np.array([covariance_of_sums(times, energies, cross)]),
        block_s[None, :] * times.to_median,
        block_j[None, :] * energies.to_median,
        np.array([energies.expected.sum()]),
    )
    host_s, host_std_s = _host(wanted, references, nets)
    step = whole(nets, device, np.array([host_s]), np.array([host_std_s]))
    return Approximation(step, block_std, math.sqrt(energies.variance))


def _references(profile: Profile) -> list[Reference]:
    """What to compare with, some of each kind."""
    if not profile.references:
        raise RequestError(
            f"the profile of {profile.model} was made before traits of blocks were kept: nothing to compare with",
            "make it again, or anew from its log by the same ampere profile command with --resume",
        )
    by_kind: dict[int, list[Reference]] = {}
    for reference in profile.references:
        by_kind.setdefault(reference.subject, []).append(reference)
    most = max(1, _MOST_REFERENCES // len(by_kind))
    return [reference for own in by_kind.values() for reference in spread_out(own, most)]


def _costs(references: Sequence[Reference], nets: JointFit) -> tuple[Array, Array]:
    """Seconds and joules of the references, without what every step pays once."""
    seconds, joules = np.empty(len(references)), np.empty(len(references))
    for subject in {reference.subject for reference in references}:
        own = [i for i, reference in enumerate(references) if reference.subject == subject]
        found = nets.predict([subject], [np.array([references[i].point for i in own], dtype=float)])
        seconds[own], joules[own] = found.block_time_s[:, 0], found.block_energy_j[:, 0]
    return seconds, joules


def _guess(references: Sequence[Reference], nets: JointFit, values: Array, unknown: Sequence[Wanted]) -> Guess:
    names = [nets.subjects[reference.subject].id for reference in references]
    try:
        across = UnseenKinds(names, [reference.traits for reference in references], values)
        guess = across.predict([one.own.kind.id for one in unknown], [_traits(one.own) for one in unknown])
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise FileError(f"the profile's kinds cannot be compared ({error})", "profile again") from error
    return guess


def expectations(guess: Guess) -> Array:
    """What the blocks cost on average, which lies above their medians."""
    return np.asarray(guess.median * np.exp(np.minimum(np.diagonal(guess.covariance), _MOST_VARIANCE) / 2))


@dataclass(frozen=True, eq=False)
class _KnownPart:
    """The known blocks of a model with what every step pays once: expectations, and variances of logarithms."""

    time_s: float
    energy_j: float
    time_var: float
    energy_var: float
    joint_var: float
    block_time_s: Array
    block_energy_j: Array
    block_std: Array

    @classmethod
    def of(cls, known: Sequence[Wanted], profile: Profile, nets: JointFit, batch: int) -> _KnownPart:
        if not known:
            none = np.zeros(0)
            return cls(nets.time.base, nets.energy.base, 0.0, 0.0, 0.0, none, none, none)
        found, block_std = _known_part(known, profile, nets, batch)
        time_var, energy_var, joint_var = (float(v[0]) for v in (found.time_var, found.energy_var, found.joint_var))
        lift_s, lift_j = math.exp(time_var / 2), float(found.expected_j[0] / found.energy_j[0])
        return cls(
            float(found.time_s[0]) * lift_s,
            float(found.expected_j[0]),
            time_var,
            energy_var,
            joint_var,
            found.block_time_s[0] * lift_s,
            found.block_energy_j[0] * lift_j,
            block_std,
        )


def _host(wanted: Sequence[Wanted], references: Sequence[Reference], nets: JointFit) -> tuple[float, float]:
    """Seconds the host takes to issue the step, and their standard deviation; none where nothing waits for it."""
    host = nets.host
    if host is None or nets.idle_w is None:
        return 0.0, 0.0
    known, blocks = dict(host.structures), [one.there for one in wanted]
    missing = [block for block in blocks if block.kind.structure not in known]
    ready = [block for block in blocks if block.kind.structure in known]
    each = [host.takes(b.kind.structure, b.kind.work, np.array([b.point], dtype=float))[0] for b in ready]
    seconds = host.base_s + float(sum(each))
    seen = {nets.subjects[reference.subject].structure: reference.traits for reference in references}
    told = [(name, traits) for name, traits in seen.items() if known.get(name, 0.0) > 0]
    if not missing or not told:
        return seconds, host.spread * seconds
    across = UnseenKinds([n for n, _ in told], [_issued(t) for _, t in told], np.array([known[n] for n, _ in told]))
    traits = [_issued(_traits(block)) for block in missing]
    guess = across.predict([block.kind.structure for block in missing], traits)
    more = Parts(expectations(guess), guess.covariance)
    seconds += more.median
    return seconds, math.hypot(host.spread * seconds, more.median * math.sqrt(more.variance))


def _issued(traits: Traits) -> Traits:
    """What the host sees of a block."""
    return Traits("host", traits.calls, 0.0, 0.0, 0.0)
