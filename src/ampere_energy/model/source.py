"""Where a model comes from: a family, or a user's factory in a file or package, as plain data.

A `ModelRef` travels to a worker process as JSON and is turned into a module there (`load`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ampere_energy.errors import RequestError
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.training import Training
from ampere_energy.serialization import later

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool")


@dataclass(frozen=True)
class InputSpec:
    """One of several inputs.

    Attributes:
        name: the argument of the model's forward; empty for inputs by position.
        high: of integers, the end of their values, excluded; 0 where the model's own tables tell it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    high: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise RequestError(f"an input of type {self.dtype}", f"choose from {', '.join(DTYPES)}")
        if not self.shape or min(self.shape) < 1:
            raise RequestError(f"an input of shape {self.shape}", "give positive sizes, batch first: ids:int64:8,128")
        if self.high < 0:
            raise RequestError(f"an input of values below {self.high}", "give a positive end: ids:int64:8,128:30522")


@dataclass(frozen=True)
class ModelRef:
    """A model by name.

    Attributes:
        source: a family, `path/to/file.py:factory` or `package.module:factory`.
        widths: a network's widths; for a factory, its whole-number arguments (often none), by position or by name.
        input: shape of the only input, of real numbers, batch first; empty where `inputs` or the factory tell.
        training: how it is trained.
        inputs: several inputs, or one that is not of real numbers.
        step: the user's own training step as `file.py:function`, called with the model, its inputs and the optimizer;
            empty for the usual one.
        names: what a factory calls the arguments in `widths`; empty where they are given by position.
        pruned: of a pruned model, the widths it was built with; `widths` are then those of its groups of channels.
    """

    source: str
    widths: tuple[int, ...]
    input: tuple[int, ...]
    training: Training
    inputs: tuple[InputSpec, ...] = later(())
    pruned: tuple[int, ...] | None = later(None)
    step: str = later("")
    names: tuple[str, ...] = later(())

    @property
    def arguments(self) -> str:
        """What it is built with, as `--widths` takes it: `6,16,120,84` or `width=32,depth=3`."""
        return spelt(self.widths, self.names)

    @property
    def original(self) -> ModelRef:
        """The model before it was pruned."""
        return self if self.pruned is None else replace(self, widths=self.pruned, pruned=None)

    def at_batch(self, batch: int) -> ModelRef:
        """The same model, trained in batches of another size; its shapes must be given."""
        if not (self.input or self.inputs):
            raise RequestError(f"{self.source} tells its own input", "give --input to estimate it at other batches")
        return replace(
            self,
            input=(batch, *self.input[1:]) if self.input else (),
            inputs=tuple(replace(spec, shape=(batch, *spec.shape[1:])) for spec in self.inputs),
            training=replace(self.training, batch=batch),
        )

    def __str__(self) -> str:
        if self.pruned is not None:
            return f"{self.original} pruned to {','.join(map(str, self.widths))}"
        return f"{self.source}[{self.arguments}]" if self.widths else self.source


def spelt(widths: Sequence[int], names: Sequence[str] = ()) -> str:
    """Widths, or a factory's arguments by their names, as they are typed."""
    return ",".join(f"{n}={w}" for n, w in zip(names, widths, strict=True)) if names else ",".join(map(str, widths))


def model_ref(
    source: str,
    *,
    widths: tuple[int, ...] = (),
    input: tuple[int, ...] = (),
    inputs: tuple[InputSpec, ...] = (),
    training: Training | None = None,
    names: tuple[str, ...] = (),
    step: str = "",
) -> ModelRef:
    """A checked reference; a family's input and widths default to its own and its largest."""
    if input and (len(input) < 2 or min(input) < 1):
        raise RequestError(f"--input {','.join(map(str, input))}", "give positive sizes, batch first: 32,3,64,64")
    if ":" not in source:
        if source.endswith(".py"):
            from ampere_energy.model.reading import factories

            raise RequestError(f"{source} names no factory", factories(source))
        known = family(source)
        source = known.name
        widths = known.check(widths) if widths else known.largest
        input = input or (() if inputs else known.input)
        if known.tokens and len(input) == 2:
            inputs, input = (InputSpec("", "int64", input, known.tokens),), ()
    if len({bool(spec.name) for spec in inputs}) > 1:
        raise RequestError("some inputs have names", "name all of them or none")
    training = training or Training(batch=1)
    batch = input[0] if input else inputs[0].shape[0] if inputs else None
    if names and (":" not in source or len(names) != len(widths)):
        raise RequestError(f"arguments called {', '.join(names)}", "name the whole-number arguments of a factory")
    # torch's global settings are the model's own code's, and known when that has run.
    training = replace(training, batch=batch or training.batch, torch_settings=())
    return ModelRef(source, widths, input, training, inputs, step=step, names=names)


def fingerprint(function: str) -> str:
    """A user's function as logs keep it: its name, with a digest of its file, which is read and not run."""
    place, _, name = function.rpartition(":")
    if not place.endswith(".py"):
        return function
    code = Path(place).read_bytes() if Path(place).is_file() else b""
    return f"{Path(place).name}:{name} {hashlib.sha256(code).hexdigest()[:8]}"
