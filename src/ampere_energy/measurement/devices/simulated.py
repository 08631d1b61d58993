"""A simulated device: exactly additive over blocks, with known noise. For tests and dry runs.

Each kind gets costs of its own, drawn from its name: a constant, energy for work (dearer at small widths,
where a real device is badly filled) and energy for parameters. A rough device lets blocks cost more or less by tiles of
64, by divisibility and by single widths, as real ones do that pick other kernels for other widths. Nothing is trained,
and every figure says `simulated`.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime

from ampere_energy.errors import RequestError
from ampere_energy.measurement.procedures import Procedure
from ampere_energy.measurement.records import (
    DeviceInfo,
    Measurement,
    MeterInfo,
    Provenance,
    Timing,
    Window,
    median_error,
)
from ampere_energy.measurement.workloads import Workload
from ampere_energy.model.blocks import Block
from ampere_energy.model.kinds import AnyKind, Fragment
from ampere_energy.model.reading import read
from ampere_energy.model.source import ModelRef, fingerprint
from ampere_energy.model.variants import Phase, Variant

_SHARES = {Phase.STEP: 1.0, Phase.FORWARD: 0.4, Phase.BACKWARD: 0.7, Phase.UPDATE: 0.1}
"""What parts of a step take when they run by themselves: more together than the step, as on real devices."""
ROUGH_SCATTER = 0.75
"""How much works differ in roughness, as a standard deviation of logarithms: what the recorded H200 blocks show."""


class SimulatedDevice:
    """Computes what an additive device would report.

    Args:
        noise: relative standard deviation of a measurement's value, of energy and of time alike; the
            windows it is the median of scatter accordingly more.
        seed: another seed is another stream of noise; the costs themselves do not change.
        rough: standard deviation of the logarithm of a block's roughness; the root mean square over works, which
            differ in it. Kinds of one work are rough alike: a real device picks the same kernels for them.
        world: another world has other costs.
    """

    def __init__(self, noise: float = 0.0, seed: int = 0, rough: float = 0.0, world: int = 0) -> None:
        if not 0 <= noise < 0.5:
            raise RequestError(f"a noise of {noise}", "give a relative noise of 0 to 0.5, such as simulated:0.03")
        self.noise = noise
        self.seed = seed
        self.rough = rough
        self.world = world
        self._asked: dict[Workload, int] = {}
        self._read: dict[tuple[ModelRef, str], tuple[Block, ...]] = {}

    @classmethod
    def named(cls, name: str) -> SimulatedDevice:
        """The device of a command-line name: `simulated`, `simulated:0.03`."""
        noise = name.partition(":")[2] or "0"
        try:
            return cls(noise=float(noise))
        except ValueError:
            raise RequestError(f"a noise of {noise!r}", "give a number, such as simulated:0.03") from None

    @property
    def info(self) -> DeviceInfo:
        """Its identity."""
        about = [("noise", f"{self.noise:g}"), ("seed", str(self.seed))]
        about += [(name, f"{value:g}") for name, value in (("rough", self.rough), ("world", self.world)) if value]
        return DeviceInfo("simulated", tuple(about))

    @property
    def meter(self) -> MeterInfo:
        """Its energy is computed, not read."""
        return MeterInfo("simulated", Provenance.SIMULATED, ("simulated",))

    def measure(self, workload: Workload, procedure: Procedure) -> Measurement:
        """The true cost of the workload with fresh noise, the same again for the same order of asking."""
        blocks, share = self._blocks(workload), _share(workload)
        repeat = self._asked[workload] = self._asked.get(workload, -1) + 1
        noise = random.Random(f"{self.seed}:{workload}:{repeat}")
        energy_j, time_s = share * self.true_energy_j(blocks), share * self.true_time_s(blocks)
        spread = self.noise / median_error(procedure.windows)
        windows = tuple(
            Window(energy_j * max(0.1, noise.gauss(1, spread)), time_s * max(0.1, noise.gauss(1, spread)), 1)
            for _ in range(procedure.windows)
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Measurement(workload, self.info, self.meter, windows, 0.0, now)

    def time(self, workload: Workload) -> Timing:
        """The true time of the workload with fresh noise."""
        repeat = self._asked[workload] = self._asked.get(workload, -1) + 1
        noise = random.Random(f"{self.seed}:{workload}:{repeat}:time")
        time_s = _share(workload) * self.true_time_s(self._blocks(workload)) * max(0.1, noise.gauss(1, self.noise))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Timing(workload, self.info, time_s, None, True, 0.0, now)

    def true_energy_j(self, blocks: Sequence[Block]) -> float:
        """Joules a step, without noise."""
        return sum(self._energy_j(block) for block in blocks)

    def true_time_s(self, blocks: Sequence[Block]) -> float:
        """Seconds a step, without noise."""
        return sum(self._energy_j(block) / self._character(block.kind)[3] for block in blocks)

    def close(self) -> None:
        """Nothing to let go of."""

    def _blocks(self, workload: Workload) -> tuple[Block, ...]:
        """What is trained, as blocks; whole models as those that parsing finds in them, once."""
        if not isinstance(workload, ModelRef):
            return tuple(part for block in workload.blocks for part in _parts(block))
        known = workload, fingerprint(workload.source)
        if known not in self._read:
            self._read[known] = read(workload).blocks
        return self._read[known]

    def _character(self, kind: AnyKind) -> tuple[float, float, float, float]:
        """A kind's constant (J), energy per FLOP and per parameter (J), and power (W)."""
        name = f"{self.world}:{kind.id}" if self.world else kind.id
        draw = random.Random(zlib.crc32(name.encode()))
        return (
            draw.uniform(1e-3, 3e-3),
            draw.uniform(1e-11, 3e-11),
            draw.uniform(1e-8, 3e-8),
            draw.uniform(20, 40),
        )

    def _energy_j(self, block: Block) -> float:
        constant, per_flop, per_parameter, _ = self._character(block.kind)
        fill = fill_of(block)
        work = per_flop * block.training_flops * (1 + 8 / (8 + fill))
        return (constant + work + per_parameter * block.parameters) * self._roughness(block)

    def cells(self, block: Block) -> list[tuple[str, float]]:
        """What a block's roughness is drawn by, each with the standard deviation it adds to the logarithm."""
        tile = tuple(-(-width // 64) for width in block.point)
        divisible = tuple(2 if w % 8 == 0 else 1 if w % 4 == 0 else 0 for w in block.point)
        parts = ((0.7, ("tile", tile)), (0.5, ("class", tile, divisible)), (0.5, ("point", block.point)))
        place = f"{self.world}:{block.kind.work}"
        degree = math.exp(ROUGH_SCATTER * random.Random(f"{place}:degree").gauss(0, 1) - ROUGH_SCATTER**2)
        return [(f"{place}:{at}", self.rough * degree * share) for share, at in parts]

    def _roughness(self, block: Block) -> float:
        if not self.rough:
            return 1.0
        return math.exp(sum(deviation * random.Random(cell).gauss(0, 1) for cell, deviation in self.cells(block)))


def fill_of(block: Block) -> float:
    """How wide a block is: what decides how well it fills a device."""
    kind = block.kind
    if isinstance(kind, Fragment):
        return math.prod(block.point) ** (1 / len(block.point)) if block.point else 64.0
    return math.sqrt(kind.width_in(block.point) * kind.width_out(block.point))


def _share(workload: Workload) -> float:
    return _SHARES[workload.phase] if isinstance(workload, Variant) else 1.0


def _parts(block: Block) -> tuple[Block, ...]:
    if isinstance(block.kind, Fragment) and block.kind.opaque and block.kind.program.whole:
        from ampere_energy.model.parse import parts

        return parts(block.kind)
    return (block,)
