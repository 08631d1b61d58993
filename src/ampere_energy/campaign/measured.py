"""What a campaign has measured so far, in order, and what a fit makes of the first of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ampere_energy.campaign.scope import Key, Scope
from ampere_energy.cost_model.observations import Net, Observation, observation
from ampere_energy.measurement.records import Measurement, Record, Timing, pooled_error
from ampere_energy.measurement.workloads import manner
from ampere_energy.model.variants import Variant


class Measured:
    """The records of a campaign.

    Attributes:
        records: each with its network as the fit sees it.
        keys: what tells which request each answers.
        timings: how many of the first n are timings, for each n.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.records: list[tuple[Net, Record]] = []
        self.keys: list[Key] = []
        self.timings = [0]

    def __len__(self) -> int:
        return len(self.records)

    def add(self, key: Key, record: Record) -> None:
        """One more."""
        self.records.append((key[0], record))
        self.keys.append(key)
        self.timings.append(self.timings[-1] + isinstance(record, Timing))

    @property
    def meterings(self) -> int:
        """How many have an energy."""
        return len(self.records) - self.timings[-1]

    @property
    def spent_s(self) -> float:
        """Seconds that all took."""
        return sum(record.cost_s for _, record in self.records)

    @property
    def on_processor(self) -> bool:
        """Whether the device is a processor."""
        return self.records[0][1].device.processor

    def of_itself(self) -> list[Record]:
        """Those of the model that the campaign is about, as it is."""
        return [record for net, record in self.records if self._is_itself(net, record)]

    def all_kinds(self, count: int) -> bool:
        """Whether every kind was metered, and seen at two points, by itself, among the first records."""
        seen: dict[int, list[bool]] = {}
        for net, record in self.records[:count]:
            if len(net) == 1 and record.infeasible is None:
                seen.setdefault(net[0][0], []).append(isinstance(record, Measurement))
        least = 2 if self.scope.varied else 1
        return len(seen) == len(self.scope.kinds) and all(any(own) and len(own) >= least for own in seen.values())

    def observations(self, count: int) -> list[Observation]:
        """The first records, as the fit sees them."""
        metered = self._metered(count)
        error = (
            pooled_error([m.energy_std_j / m.energy_j for m in metered], len(metered[0].windows)) if metered else 0.0
        )
        waits = self.scope.spec.training.mode.waits
        records = self.records[:count]
        found = (observation(net, record, error, waits, long=self._long(net, record)) for net, record in records)
        return [o for o in found if o is not None]

    def idle_w(self, count: int) -> float | None:
        """What the device takes while it waits, by the first records."""
        watts = [m.idle_w for m in self._metered(count) if m.idle_w is not None]
        return float(np.median(watts)) if watts else None

    def _metered(self, count: int) -> Sequence[Measurement]:
        return [r for _, r in self.records[:count] if isinstance(r, Measurement) and r.infeasible is None]

    def _long(self, net: Net, record: Record) -> bool:
        """Whether a record scatters by a law of its own, which estimates are then given.

        The model itself, measured for longer; on a processor any whole model, whose timings know nothing of the
        moments that make a short one of a single block too long.
        """
        if self._is_itself(net, record):
            return True
        apart = isinstance(record.workload, Variant) and record.workload.apart
        return record.device.processor and len(net) > 1 and not apart

    def _is_itself(self, net: Net, record: Record) -> bool:
        itself = self.scope.itself
        if itself is None or net != self.scope.net_at(()):
            return False
        return manner(record.workload, True) == manner(itself, True)
