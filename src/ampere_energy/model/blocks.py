"""Blocks, kinds and the parsed model: what the paper calls layers, as plain data.

A *kind* is everything that makes two blocks cost the same at the same widths: their layers with
hyperparameters, the spatial size they read, whether their input needs a gradient, and how they are trained.
A *block* is a kind at a *point* (its widths): one width for an input block (what it gives), one for an output
block (what it reads), two for a hidden block (what it reads, what it gives).

Two sorts of kinds: a `Kind` is a recipe of one parametric layer that can be rebuilt at any widths; a `Fragment` is a
recorded piece of a model (a residual block, an attention, an LSTM). Where it is known which of its sizes follow which
widths, it has widths too; else it is *opaque*: measured as it is.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from ampere_energy.model.kinds import AnyKind, Fragment, Kind, Point
from ampere_energy.model.training import Training


@dataclass(frozen=True)
class Block:
    """One block of a model: a kind at a point."""

    name: str
    kind: AnyKind
    point: Point

    def __post_init__(self) -> None:
        if len(self.point) != len(self.kind.axes) or min(self.point, default=1) < 1:
            raise ValueError(f"{self.name}: widths {self.point} do not fit {' and '.join(self.kind.axes)}")

    @property
    def reads(self) -> tuple[int, ...]:
        """Shape of one sample it reads; of a fragment, of the first tensor."""
        return self.kind.reads(self.point)

    @property
    def gives(self) -> tuple[int, ...]:
        """Shape of one sample it gives; of a fragment, of the first tensor."""
        return self.kind.gives(self.point)

    @property
    def parameters(self) -> int:
        """Parameters, trained and frozen."""
        return self.kind.parameters(self.point)

    @property
    def training_flops(self) -> int:
        """FLOPs of one training step: forward, and backward where a gradient is needed."""
        return self.kind.flops(self.point)


@dataclass(frozen=True)
class ModelSpec:
    """A parsed model: its blocks in the order they run.

    Attributes:
        unattributed: what no block accounts for; an estimate leaves it out and says so.
        widths: the widths that may be varied, as the model has them; none where it stands as it is.
        follows: for each block and each of its axes, which of these widths it follows, and how many times over.
        recorded: the whole model as one piece, as it was recorded; None where its code can be run anywhere instead.
    """

    name: str
    blocks: tuple[Block, ...]
    training: Training
    unattributed: tuple[str, ...] = ()
    widths: tuple[int, ...] = ()
    follows: tuple[tuple[tuple[int, int], ...], ...] = ()
    recorded: Fragment | None = field(default=None, compare=False, repr=False)

    @property
    def kinds(self) -> tuple[AnyKind, ...]:
        """The different kinds, in order of appearance."""
        return tuple(dict.fromkeys(block.kind for block in self.blocks))

    @property
    def chain(self) -> bool:
        """Whether every block is a recipe that reads what the block before it gives."""
        recipes = all(isinstance(block.kind, Kind) for block in self.blocks)
        return recipes and all(a.gives == b.reads for a, b in itertools.pairwise(self.blocks))
