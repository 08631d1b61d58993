"""A model from its reference: the family's builder or the user's factory is called, and inputs are found for it.

Here the user's code runs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import math
import os
import random
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ampere_energy import files
from ampere_energy.errors import ModelError, RequestError, WidthError, words_of
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.source import InputSpec, ModelRef

if TYPE_CHECKING:
    import torch
    from torch import nn

    from ampere_energy.model.objective import Inputs

_MOST_MEMORY = 0.25
"""Of the machine's, that an input may take."""
_COUNTLESS = 10**18
"""Bytes: how many more they are does not matter, and may be more than a float can say."""


@dataclass(frozen=True)
class Loaded:
    """A model ready to be looked at or trained.

    Attributes:
        module: freshly built.
        inputs: for its forward.
        torch_settings: torch's global settings that its code has set.
    """

    module: nn.Module
    inputs: Inputs
    torch_settings: tuple[tuple[str, str], ...] = ()


def load(ref: ModelRef) -> Loaded:
    """The module a reference names, with inputs: the factory's own, or random ones of the shapes given."""
    import torch

    from ampere_energy.model.torch_settings import unusual

    for shape in (ref.input, *(spec.shape for spec in ref.inputs)):
        _check_size(shape)

    if ref.pruned is not None:
        return _pruned(ref)
    made = _on_as_many_threads(ref)
    module, own = made if isinstance(made, tuple) else (made, None)
    if not torch.is_grad_enabled():
        torch.set_grad_enabled(True)
        raise ModelError(f"{ref.source} switches gradients off", "leave out torch.set_grad_enabled(False)")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if ref.inputs:
            tensors = [_tensor(spec, module) for spec in ref.inputs]
            named = all(spec.name for spec in ref.inputs)
            inputs: Inputs = (
                {spec.name: tensor for spec, tensor in zip(ref.inputs, tensors, strict=True)}
                if named
                else tuple(tensors)
            )
        elif ref.input:
            inputs = (torch.randn(ref.input),)
        elif own is None:
            raise RequestError(
                f"{ref.source} needs the shape of its input",
                "give --input batch,… such as --input 32,3,64,64, or let the factory return (model, inputs)",
            )
        else:
            inputs = own if isinstance(own, (tuple, Mapping)) else (own,)
    if not all(isinstance(t, torch.Tensor) for t in (inputs.values() if isinstance(inputs, Mapping) else inputs)):
        raise ModelError(f"{ref.source} gives inputs that are not tensors", "return (model, (tensor, …)) or a dict")
    return Loaded(module, inputs, unusual(ref.training.precision))


def _check_size(shape: Sequence[int]) -> None:
    """Refuses an input that would take most of the memory, before the system ends this process for it."""
    asked, there = 4 * math.prod(shape), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    asked = min(asked, _COUNTLESS)
    if asked > _MOST_MEMORY * there:
        raise RequestError(
            f"--input {','.join(map(str, shape))} takes {asked / 1e9:.1f} GB and this machine has {there / 1e9:.1f}",
            "give a smaller batch",
        )


def _pruned(ref: ModelRef) -> Loaded:
    """The model of a reference, built and then narrowed; which channels stay does not matter to what it costs."""
    from ampere_energy.model.groups import groups, narrowed, some

    loaded = load(ref.original)
    found = groups(loaded.module, loaded.inputs)
    if len(found) != len(ref.widths):
        raise WidthError(
            f"{ref.original} has {len(found)} groups of channels, not {len(ref.widths)}", "give one for each"
        )
    kept = [some(group, width) for group, width in zip(found, ref.widths, strict=True)]
    return replace(loaded, module=narrowed(loaded.module, found, kept))


def instantiate(ref: ModelRef) -> nn.Module:
    """The module a reference names, freshly built."""
    made = _made(ref)
    return made[0] if isinstance(made, tuple) else made


def _tensor(spec: InputSpec, module: nn.Module) -> torch.Tensor:
    import torch
    from torch import nn

    from ampere_energy.model.objective import mask

    dtype = getattr(torch, spec.dtype)
    if dtype.is_floating_point:
        return torch.randn(spec.shape).to(dtype)
    if dtype is torch.bool:
        return mask(spec.shape)
    tables = [m.num_embeddings for m in module.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    return torch.randint(spec.high or min(tables, default=2), spec.shape, dtype=dtype)


def _on_as_many_threads(ref: ModelRef) -> nn.Module | tuple[nn.Module, Any]:
    """What the factory gives; how many threads torch has is the device's, whatever the model's code sets."""
    import torch

    threads = torch.get_num_threads()
    made = _made(ref)
    if (own := torch.get_num_threads()) != threads:
        torch.set_num_threads(threads)
        what = f"{ref.source} sets torch's threads to {own}"
        warnings.warn(f"{what}; on a processor, profile it with --threads {own}", stacklevel=2)
    return made


def _made(ref: ModelRef) -> nn.Module | tuple[nn.Module, Any]:
    from torch import nn

    known = FAMILIES.get(ref.source)
    sample = ref.input[1:] or (ref.inputs[0].shape[1:] if ref.inputs else ())
    arguments = (ref.widths, sample) if known else () if ref.names else ref.widths
    named = dict(zip(ref.names, ref.widths, strict=bool(ref.names)))
    try:
        with repeatable():
            factory = find(known.builder if known else ref.source)
            if isinstance(factory, nn.Module):
                raise ModelError(f"{ref.source} is a module already", "name a function that returns it")
            made = factory(*arguments, **named)
    except ModelError:
        raise
    except (Exception, SystemExit) as error:  # the user's own factory may raise anything
        remedy = needs_cuda(error) or "call the factory by itself"
        asked = f"are {', '.join(ref.names)} its arguments?" if ref.names else "are --widths its arguments?"
        remedy = asked if isinstance(error, TypeError) else remedy
        raise ModelError(f"{ref.source} raised {type(error).__name__}: {words_of(error)}", remedy) from error
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module):
        return made[0], made[1]
    if not isinstance(made, nn.Module):
        raise ModelError(f"{ref.source} returned {type(made).__name__}", "return a torch.nn.Module, or (model, inputs)")
    return made


@contextlib.contextmanager
def repeatable() -> Iterator[None]:
    """Lets a user's code draw the same random numbers each time; the caller's stay as they were, as does its folder."""
    import torch

    numpy: Any = sys.modules.get("numpy.random")
    drawn, arrays, folder = random.getstate(), numpy and numpy.get_state(), os.open(".", os.O_RDONLY)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        random.seed(0)
        if numpy:
            numpy.seed(0)
        try:
            yield
        finally:
            random.setstate(drawn)
            if numpy:
                numpy.set_state(arrays)
            with contextlib.suppress(OSError):  # where it closed whatever is open
                os.fchdir(folder)
                os.close(folder)


def needs_cuda(error: BaseException) -> str | None:
    """What to do where a model failed because it asked for a GPU that is not there."""
    import torch

    if "cuda" not in words_of(error).lower() or torch.cuda.is_available():
        return None
    return "the model asks for a GPU: let its factory build it on the CPU; AMPERE moves it where it trains"


def find(source: str, what: str = "factory") -> Callable[..., Any]:
    """The function of a name: `path/to/file.py:function` or `package.module:function`."""
    place, _, name = source.rpartition(":")
    if not place or not name:
        raise ModelError(f"{source!r} names no {what}", f"give path/to/file.py:{what} or package.module:{what}")
    module = _from_file(place) if place.endswith(".py") else _from_package(place)
    factory = getattr(module, name, None)
    if not callable(factory):
        raise ModelError(f"{place} has no {what} {name!r}", _defined(module, what=what))
    return factory  # type: ignore[no-any-return]


def factories_of(source: str) -> str:
    """Which factories a file has, in words."""
    return _defined(_from_file(source), f"{source}:NAME")


def _defined(module: Any, such: str = "", what: str = "factory") -> str:
    """Which factories, or other functions, there are to choose from, in words."""
    own: list[Any] = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    functions: list[Any] = [value for value in own if inspect.isfunction(value) and not value.__name__.startswith("_")]
    if what == "factory":
        functions = [f for f in functions if f.__name__ != "main" and _callable_alone(f) and _gives_model(f)]
        classes = [value for value in own if inspect.isclass(value) and _is_module(value) and _callable_alone(value)]
        functions += [value for value in classes if not value.__name__.startswith("_")]
    names = [function.__name__ for function in functions]
    model = "a function that returns a torch.nn.Module, or (model, inputs)"
    found = f"it defines {', '.join(names)}" if names else f"define {model if what == 'factory' else 'it'}"
    return f"give {such}; {found}" if such else found


def _callable_alone(made_by: Callable[..., Any]) -> bool:
    """Whether something can be called without arguments."""
    try:
        inspect.signature(made_by).bind()
    except (TypeError, ValueError):
        return False
    return True


def _gives_model(function: Callable[..., Any]) -> bool:
    """Whether a function may give a module, as far as its annotation tells."""
    try:
        given = typing.get_type_hints(function).get("return", Any)
    except Exception:  # noqa: BLE001 - the user's own annotations may name anything
        given = Any
    kind = typing.get_origin(given) or given
    return given is Any or not inspect.isclass(kind) or kind is tuple or _is_module(kind)


def _is_module(made: type) -> bool:
    from torch import nn

    return issubclass(made, nn.Module)


def _from_file(place: str) -> Any:
    path = Path(place)
    if not files.is_file(path):
        raise ModelError(f"there is no file {place}", "check the path")
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
            f"{place} cannot be imported ({type(error).__name__}: {words_of(error)})", "import it by itself"
        ) from error
