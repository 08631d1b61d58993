"""Where a model comes from: a family, or a user's factory in a file or package, as plain data.

A `ModelRef` travels to a worker process as JSON and is turned into a module there.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampere_energy.errors import ModelError, RequestError
from ampere_energy.model.training import Training
from ampere_energy.model.zoo.families import FAMILIES, family

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelRef:
    """A model by name.

    Attributes:
        source: a family, `path/to/file.py:factory` or `package.module:factory`.
        widths: a member's widths; for a factory, its positional arguments (often none).
        input: shape of the example input, batch first.
        training: how it is trained.
    """

    source: str
    widths: tuple[int, ...]
    input: tuple[int, ...]
    training: Training

    def __str__(self) -> str:
        return f"{self.source}[{','.join(map(str, self.widths))}]" if self.widths else self.source


def model_ref(
    source: str, *, widths: tuple[int, ...] = (), input: tuple[int, ...] = (), training: Training | None = None
) -> ModelRef:
    """A checked reference; a family's input and widths default to its own and its largest."""
    if ":" not in source:
        known = family(source)
        widths = known.check(widths) if widths else known.largest
        input = input or known.input
    elif not input:
        raise RequestError(f"{source} needs the shape of its input", "give --input batch,… such as --input 32,3,64,64")
    if len(input) < 2 or min(input) < 1:
        raise RequestError(f"--input {','.join(map(str, input))}", "give positive sizes, batch first: 32,3,64,64")
    training = replace(training, batch=input[0]) if training else Training(batch=input[0])
    return ModelRef(source, widths, input, training)


def instantiate(ref: ModelRef) -> nn.Module:
    """The module a reference names, freshly built."""
    from torch import nn

    known = FAMILIES.get(ref.source)
    factory = _find(known.builder if known else ref.source)
    if isinstance(factory, nn.Module):
        raise ModelError(f"{ref.source} is a module already", "name a function that returns it")
    arguments = (ref.widths, ref.input[1:]) if known else ref.widths
    try:
        module = factory(*arguments)
    except ModelError:
        raise
    except (Exception, SystemExit) as error:  # the user's own factory may raise anything
        remedy = "are --widths its arguments?" if isinstance(error, TypeError) else "call the factory by itself"
        raise ModelError(f"{ref.source} raised {type(error).__name__}: {error}", remedy) from error
    if not isinstance(module, nn.Module):
        raise ModelError(f"{ref.source} returned {type(module).__name__}", "return a torch.nn.Module")
    return module


def _find(source: str) -> Callable[..., Any]:
    place, _, name = source.rpartition(":")
    if not place or not name:
        raise ModelError(f"{source!r} names no factory", "give path/to/file.py:factory or package.module:factory")
    module = _from_file(place) if place.endswith(".py") else _from_package(place)
    factory = getattr(module, name, None)
    if not callable(factory):
        defined = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
        remedy = f"it defines {', '.join(defined)}" if defined else "define a function that returns the model"
        raise ModelError(f"{place} has no factory {name!r}", remedy)
    return factory  # type: ignore[no-any-return]


def _from_file(place: str) -> Any:
    path = Path(place)
    if not path.is_file():
        raise ModelError(f"there is no file {place}", "check the path before the colon")
    name = f"_ampere_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{place} is not a Python file", "give path/to/file.py:factory")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # so that the file's own neighbours import, as when it is run
    return _import(lambda: (spec.loader.exec_module(module), module)[1], place)  # type: ignore[union-attr]


def _from_package(place: str) -> Any:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, os.fspath(Path.cwd()))  # as `python -m` does
    return _import(lambda: importlib.import_module(place), place)


def _import(load: Callable[[], Any], place: str) -> Any:
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise ModelError(
            f"{place} cannot be imported ({type(error).__name__}: {error})", "import it by itself"
        ) from error
