from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from ampere_energy.model.layers import Layer, Signal, forward_flops_of, layer, parameters_of, signal_after


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(1, 20),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 4),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 3),
    ceil_mode=st.booleans(),
)
def test_sliding_windows_leave_what_torch_leaves(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> None:
    assume(size + 2 * padding >= dilation * (kernel - 1) + 1)
    options = {"kernel": (kernel,), "stride": (stride,), "padding": (padding,), "dilation": (dilation,)}
    convolution = nn.Conv1d(2, 3, kernel, stride, padding, dilation)
    signal = signal_after(layer("conv1d", bias=True, **options), Signal((size,)))
    assert signal.shape(3) == tuple(convolution(torch.zeros(1, 2, size)).shape[1:])
    assume(padding <= kernel // 2)
    pool = nn.MaxPool1d(kernel, stride, padding, dilation, ceil_mode=ceil_mode)
    signal = signal_after(layer("max_pool1d", ceil_mode=ceil_mode, **options), Signal((size,)))
    assert signal.shape(2) == tuple(pool(torch.zeros(1, 2, size)).shape[1:])


def test_flatten_moves_positions_into_features() -> None:
    assert signal_after(layer("flatten"), Signal((5, 4))) == Signal((), 20)
    assert Signal((), 20).shape(3) == (60,)


def test_parameters_and_flops_of_a_convolution() -> None:
    step = layer("conv2d", kernel=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1), bias=True)
    assert parameters_of(step, 4, 8) == sum(p.numel() for p in nn.Conv2d(4, 8, 3).parameters())
    assert forward_flops_of(step, 4, 8, Signal((7, 5))) == 2 * 4 * 8 * 9 * 35


def test_a_layer_outside_the_book_is_refused() -> None:
    with pytest.raises(ValueError, match="recipe book"):
        Layer("attention")


def test_a_linear_layer_reads_vectors_only() -> None:
    with pytest.raises(ValueError, match="vectors"):
        signal_after(layer("linear", bias=True), Signal((3, 3)))
