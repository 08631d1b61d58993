"""The recipe book: layers as plain data, what they do to a signal, what they hold and compute.

A *signal* is the shape of one sample between two layers: `per_width · width` channels (or features) over
`spatial` positions. Only parametric layers change the width; a flatten moves the positions into `per_width`.
Nothing here needs torch, so shapes, parameters and FLOPs of a million candidates are plain arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Option = bool | int | float | str | tuple[int, ...]

CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
POOLS = {f"{name}_pool{d}d": d for name in ("max", "avg") for d in (1, 2, 3)}
ADAPTIVE_POOLS = {f"adaptive_{name}_pool{d}d": d for name in ("max", "avg") for d in (1, 2, 3)}
NORMALISATIONS = {"batch_norm", "layer_norm"}
ELEMENTWISE = {
    "relu", "relu6", "leaky_relu", "elu", "gelu", "silu", "mish", "sigmoid", "tanh", "hardswish",
    "hardsigmoid", "hardtanh", "softplus", "dropout", "softmax", "log_softmax",
}  # fmt: skip
LOSSES = {"cross_entropy", "mse"}
PARAMETRIC = {*CONVOLUTIONS, "linear"}
BOOK = PARAMETRIC | set(POOLS) | set(ADAPTIVE_POOLS) | NORMALISATIONS | ELEMENTWISE | LOSSES | {"flatten"}


@dataclass(frozen=True)
class Signal:
    """The shape of one sample: `per_width · width` channels over `spatial` positions (none: a vector)."""

    spatial: tuple[int, ...] = ()
    per_width: int = 1

    def shape(self, width: int) -> tuple[int, ...]:
        """The sample's shape at a width."""
        return (self.per_width * width, *self.spatial)


@dataclass(frozen=True)
class Layer:
    """One entry of a recipe: an operation of the book and its options; widths are not options."""

    op: str
    options: tuple[tuple[str, Option], ...] = ()

    def __post_init__(self) -> None:
        if self.op not in BOOK:
            raise ValueError(f"{self.op!r} is not in the recipe book")

    def __getitem__(self, name: str) -> Option:
        for key, value in self.options:
            if key == name:
                return value
        raise KeyError(f"{self.op} has no option {name!r}")

    def ints(self, name: str) -> tuple[int, ...]:
        """An option that is one integer a dimension."""
        value = self[name]
        if not isinstance(value, tuple):
            raise ValueError(f"{self.op} option {name!r} should be a tuple, not {value!r}")
        return value

    def __str__(self) -> str:
        options = dict(self.options)
        size = options.get("kernel", options.get("size"))
        words = [self.op] + ([_by(size)] if isinstance(size, tuple) else [])
        usual = {"stride": size if self.op in POOLS else 1, "padding": 0}
        for key, expected in usual.items():
            value = options.get(key)
            if isinstance(value, tuple) and value != expected and set(value) != {expected}:
                words.append(f"{key} {_by(value)}")
        return " ".join(words)


def _by(sizes: tuple[int, ...]) -> str:
    """Sizes for people: one number where all dimensions agree."""
    return str(sizes[0]) if len(set(sizes)) == 1 else "×".join(map(str, sizes))


def layer(op: str, **options: Option) -> Layer:
    """A layer with its options in a fixed order, so that equal layers are equal data."""
    return Layer(op, tuple(sorted(options.items())))


def signal_after(step: Layer, signal: Signal) -> Signal:
    """The signal a layer hands on."""
    if step.op in CONVOLUTIONS:
        return Signal(_slide(step, signal.spatial, CONVOLUTIONS[step.op]))
    if step.op == "linear":
        if signal.spatial:
            raise ValueError(f"linear reads vectors, not positions {signal.spatial}")
        return Signal()
    if step.op in POOLS:
        return Signal(_slide(step, signal.spatial, POOLS[step.op]), signal.per_width)
    if step.op in ADAPTIVE_POOLS:
        if len(signal.spatial) != ADAPTIVE_POOLS[step.op]:
            raise ValueError(f"{step.op} cannot read positions {signal.spatial}")
        return Signal(step.ints("size"), signal.per_width)
    if step.op == "flatten":
        return Signal((), signal.per_width * math.prod(signal.spatial))
    return signal


def _slide(step: Layer, spatial: tuple[int, ...], dimensions: int) -> tuple[int, ...]:
    """Positions a sliding window leaves, as torch counts them."""
    if len(spatial) != dimensions:
        raise ValueError(f"{step.op} cannot read positions {spatial}")
    rounding = math.ceil if dict(step.options).get("ceil_mode") else math.floor
    sizes = []
    for size, kernel, stride, padding, dilation in zip(
        spatial, *(step.ints(name) for name in ("kernel", "stride", "padding", "dilation")), strict=True
    ):
        reach = dilation * (kernel - 1) + 1
        count = rounding((size + 2 * padding - reach) / stride) + 1
        if rounding is math.ceil and (count - 1) * stride >= size + padding:
            count -= 1  # a window may not start in the right padding
        if count < 1:
            raise ValueError(f"{step} leaves nothing of {size} positions")
        sizes.append(count)
    return tuple(sizes)


def parameters_of(step: Layer, features_in: int, width_out: int) -> int:
    """Trainable numbers a layer holds, reading `features_in` and giving `width_out`."""
    if step.op in CONVOLUTIONS or step.op == "linear":
        kernel = math.prod(step.ints("kernel")) if step.op in CONVOLUTIONS else 1
        return features_in * width_out * kernel + (width_out if step["bias"] else 0)
    if step.op in NORMALISATIONS:
        return 2 * features_in if step["affine"] else 0
    return 0


def forward_flops_of(step: Layer, features_in: int, width_out: int, after: Signal) -> int:
    """Multiply-adds, counted twice, of one sample's forward pass; matrix work only, as torch counts."""
    if step.op in CONVOLUTIONS:
        return 2 * features_in * width_out * math.prod(step.ints("kernel")) * math.prod(after.spatial)
    if step.op == "linear":
        return 2 * features_in * width_out
    return 0
