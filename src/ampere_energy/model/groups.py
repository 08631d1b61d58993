"""Channels that can only be removed together, and models narrowed by them: torch-pruning's dependency graph.

A layer's outputs are the next one's inputs, and what is added or concatenated goes together: removing a channel
means removing its share of every layer of its *group*. The graph is traced once, on two samples; what each layer has of
a group is kept by the layer's name, so that copies of a model are narrowed without tracing them again.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ampere_energy.errors import ModelError, RequestError, WidthError
from ampere_energy.model.objective import Inputs, called, mapped, tensors_in
from ampere_energy.model.undisturbed import in_training, unchanged

_SAMPLES = 2
_PATIENCE_S = 60.0
Shapes = list[torch.Size]
_GIVERS = (nn.modules.conv._ConvNd, nn.Linear)
_INSTEAD = "profile narrower networks of it instead, by a factory with --widths"
Kept = Sequence[Sequence[int]]
"""For each group, which of its channels stay."""


@dataclass(frozen=True, eq=False)
class Share:
    """What one layer has of a group.

    Attributes:
        layer: the layer's name, or a parameter's that stands by itself.
        remove: torch-pruning's function that takes indices out of such a layer.
        dim: along which dimension, where the function does not know.
        gives: whether they are channels that the layer gives, not only reads.
        indices: for each channel of the group, the layer's own.
    """

    layer: str
    remove: Callable[[Any, list[int]], Any]
    dim: int
    gives: bool
    indices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class Group:
    """Channels that are removed together.

    Attributes:
        name: the first layer that gives them.
        size: how many there are.
        parts: in how many equal parts they fall (heads, groups of a convolution), which stay equal.
        shares: what each layer has of them.
        traced: torch-pruning's own, of all channels, for its measures of importance.
        fold: how many of the traced channels make one.
    """

    name: str
    size: int
    parts: int
    shares: tuple[Share, ...]
    traced: Any
    fold: int

    def best(self, importance: Sequence[float], width: int) -> list[int]:
        """The `width` most important channels, as many from each part, in their order."""
        run = self.size // self.parts
        kept: list[int] = []
        for start in range(0, self.size, run):
            part = sorted(range(start, start + run), key=lambda channel: -importance[channel])
            kept += sorted(part[: width // self.parts])
        return kept


def torch_pruning() -> Any:
    """The library, imported when first needed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch_pruning as library
    except ImportError as error:
        raise RequestError("torch-pruning is not installed", "pip install 'ampere-energy[prune]'") from error
    except Exception as error:  # whatever it meets in what it imports itself
        reason = f"torch-pruning cannot be imported ({error})"
        raise RequestError(reason, "is there a folder with the name of a package beside the model?") from error
    return library


def groups(model: nn.Module, inputs: Inputs) -> tuple[Group, ...]:
    """The groups of a model, in the order its layers are named; those that reach its result are left out.

    The model is run on two samples and stays as it was; the groups speak of this very module and of its copies.

    Raises:
        ModelError: the model cannot be traced.
    """
    library = torch_pruning()
    graph = _traced(library, model, inputs)
    names = {module: name for name, module in model.named_modules()}
    order = {name: place for place, name in enumerate(names.values())}
    _watch(graph, time.monotonic() + _PATIENCE_S)
    try:
        found = [_group(library, graph, traced, names) for traced in graph.get_all_groups()]
    except TimeoutError as error:
        raise ModelError(
            f"torch-pruning comes to no end in following the channels of {type(model).__name__}", _INSTEAD
        ) from error
    except Exception as error:
        unknown = " and ".join(recurrent(model))
        why = f"it has {unknown} layers" if unknown else f"{type(error).__name__}: {error}"
        raise ModelError(
            f"torch-pruning cannot follow the channels of {type(model).__name__} ({why})", _INSTEAD
        ) from error
    return tuple(sorted((group for group in found if group is not None), key=lambda group: order[group.name]))


def recurrent(model: nn.Module) -> list[str]:
    """The recurrent layers of a model, by type, whose channels torch-pruning does not follow."""
    return list(dict.fromkeys(type(m).__name__ for m in model.modules() if isinstance(m, (nn.RNNBase, nn.RNNCellBase))))


def narrowed(model: nn.Module, groups: Sequence[Group], kept: Kept) -> nn.Module:
    """A copy of the model with only the channels that are kept of each group."""
    removed: dict[tuple[str, Any], tuple[Share, set[int]]] = {}
    for group, stay in zip(groups, kept, strict=True):
        gone = set(range(group.size)) - set(stay)
        for share in group.shares if gone else ():
            _, indices = removed.setdefault((share.layer, share.remove), (share, set()))
            indices.update(index for channel in gone for index in share.indices[channel])
    narrow = copy.deepcopy(model)
    frozen = [name for name, parameter in model.named_parameters() if not parameter.requires_grad]
    for share, indices in removed.values():
        _remove(narrow, share, sorted(indices))
    parameters = dict(narrow.named_parameters())
    for name in frozen:
        parameters[name].requires_grad_(False)
    return narrow


def some(group: Group, width: int) -> list[int]:
    """As many channels of a group, always the same ones; for models whose weights do not matter."""
    if not group.parts <= width <= group.size or width % group.parts:
        raise WidthError(
            f"{group.name} with {width} channels", f"give multiples of {group.parts} up to its {group.size}"
        )
    return group.best([0.0] * group.size, width)


def result_shapes(model: nn.Module, inputs: Inputs) -> Shapes | None:
    """The shapes that a model gives for two samples; None where it does not run."""
    try:
        with unchanged(model), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [tensor.shape for tensor in tensors_in(called(model, few(inputs)))]
    except Exception:  # noqa: BLE001 - a model may raise anything where it counts on its widths
        return None


def few(inputs: Inputs, samples: int = _SAMPLES) -> Inputs:
    """The first samples of inputs that all have as many, else all of them."""
    batches = {tensor.shape[0] for tensor in tensors_in(inputs) if tensor.dim()}
    return mapped(inputs, lambda tensor: tensor[:samples] if tensor.dim() else tensor) if len(batches) == 1 else inputs


def _traced(library: Any, model: nn.Module, inputs: Inputs) -> Any:
    error: Exception | None = None
    for given in (few(inputs), inputs):
        graph = library.DependencyGraph()
        try:
            with unchanged(model), in_training(model), torch.enable_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                example = dict(given) if isinstance(given, Mapping) else tuple(given)
                return graph.build_dependency(model, example, verbose=False)
        except Exception as failed:  # noqa: BLE001 - the model's own code, and all of torch-pruning
            error = failed
    raise ModelError(
        f"torch-pruning cannot trace {type(model).__name__} ({type(error).__name__}: {error})", _INSTEAD
    ) from error


class _Watched(list[Any]):
    """Dependencies that are not followed forever: torch-pruning goes round in circles in some graphs."""

    until_s = 0.0

    def __iter__(self) -> Iterator[Any]:
        if time.monotonic() > self.until_s:
            raise TimeoutError
        return super().__iter__()


def _watch(graph: Any, until_s: float) -> None:
    for node in graph.module2node.values():
        node.dependencies = _Watched(node.dependencies)
        node.dependencies.until_s = until_s


def _group(library: Any, graph: Any, traced: Any, names: dict[nn.Module, str]) -> Group | None:
    """A traced group by names; None where it reaches the model's result or cannot be told apart."""
    root = traced[0].dep
    one = graph.get_pruning_group(root.target.module, root.handler, [0])
    together = sorted(one[0].idxs)
    total = len(traced[0].idxs)
    fold = len(together)
    apart = total // fold
    if total % fold or together != [apart * place for place in range(fold)]:
        return None
    shares, parts, read = [], 1, False
    for item in traced:
        node = item.dep.target
        if isinstance(node.module, nn.Parameter):
            layer = graph._param_to_name[node.module]
        elif node.module in names:
            layer = names[node.module]
        elif node.type == library.ops.OPTYPE.OUTPUT:
            return None
        else:
            continue  # an operation without weights
        if isinstance(node.module, (nn.RNNBase, nn.RNNCellBase)):
            return None
        indices: list[list[int]] = [[] for _ in range(apart)]
        for index, origin in zip(item.idxs, item.root_idxs, strict=True):
            indices[origin % apart].append(index)
        gives = graph.is_out_channel_pruning_fn(item.dep.handler)
        shares.append(Share(layer, item.dep.handler, node.pruning_dim, gives, tuple(map(tuple, indices))))
        read = read or not gives
        parts = math.lcm(parts, _parts(node.module))
    if not read or apart % parts:
        return None
    giving = {share.layer for share in shares if share.gives}
    name = next(names[m] for m in graph.model.modules() if names[m] in giving and isinstance(m, _GIVERS))
    return Group(name, apart, parts, tuple(shares), traced, fold)


def _parts(layer: Any) -> int:
    """In how many equal parts a layer's channels fall."""
    if isinstance(layer, nn.GroupNorm):
        return int(layer.num_groups)
    if isinstance(layer, nn.MultiheadAttention):
        return int(layer.num_heads)
    if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) and layer.groups != layer.out_channels:
        return int(layer.groups)
    return 1


def _remove(model: nn.Module, share: Share, indices: list[int]) -> None:
    share.remove.__self__.pruning_dim = share.dim  # type: ignore[attr-defined]
    owner, _, name = share.layer.rpartition(".")
    layer = getattr(model.get_submodule(owner), name)
    pruned = share.remove(layer, indices)
    if isinstance(layer, nn.Parameter):
        setattr(model.get_submodule(owner), name, pruned)
