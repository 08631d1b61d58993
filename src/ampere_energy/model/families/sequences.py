"""Builders of the families that read sequences: sensor windows, texts, series.

The paper names its HAR, LSTM and Transformer but keeps their architectures in an appendix that is not public; it
says that channels are sampled from 1 to the original's, and for the Transformer the number of encoder layers and
the hidden size. What the networks here follow instead is said with each of them.

`lstm` and `transformer` read token ids (a sample of shape `(steps,)`, int64 below `VOCABULARY`) or series of
numbers (a sample of shape `(steps, features)`); a linear layer then takes the place of the embedding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from ampere_energy.errors import ModelError
from ampere_energy.model.families.catalogue import VOCABULARY
from ampere_energy.model.families.convnets import CLASSES, chain

ACTIVITIES = 6
HEADS = 8


def har(widths: Sequence[int], sample: Sequence[int], classes: int = ACTIVITIES) -> nn.Module:
    """Human-activity recognition: three 1-D convolutions, each pooled, and two linear layers; ours.

    The shape is that of the UCI HAR data (Anguita et al. 2013): windows of 2.56 s at 50 Hz, that is 128 samples of
    9 signals (body and total acceleration and angular velocity, three axes each), and 6 activities.
    """
    c1, c2, c3, f1 = widths
    signals, steps = _window("har", sample, least=8)
    return chain(
        conv1=nn.Conv1d(signals, c1, 5, padding=2), relu1=nn.ReLU(), pool1=nn.MaxPool1d(2),
        conv2=nn.Conv1d(c1, c2, 5, padding=2), relu2=nn.ReLU(), pool2=nn.MaxPool1d(2),
        conv3=nn.Conv1d(c2, c3, 5, padding=2), relu3=nn.ReLU(), pool3=nn.MaxPool1d(2), flatten=nn.Flatten(),
        fc1=nn.Linear(c3 * (steps // 8), f1), relu4=nn.ReLU(),
        fc2=nn.Linear(f1, classes),
    )  # fmt: skip


def lstm(widths: Sequence[int], sample: Sequence[int], classes: int = CLASSES) -> nn.Module:
    """Embedding, LSTM layers, and a linear layer on the last step; all widths but the first are LSTMs.

    200, 200, 200 over 10,000 words is the small network of Zaremba et al. 2014 (PTB), without dropout and with a
    class a text in place of a word a step.
    """
    embedding, *hidden = widths
    return Recurrent(_reader("lstm", sample, embedding), embedding, hidden, classes)


def transformer(widths: Sequence[int], sample: Sequence[int], classes: int = CLASSES) -> nn.Module:
    """The encoder of Vaswani et al. 2017 as a classifier; the widths are the number of layers and the hidden size.

    6, 512 is the original's base model: 8 heads, 4 times the hidden size between the two linear layers, ReLU,
    normalisation after each sum; learned positions, no dropout. The number of heads stays 8 and a head's size
    follows the hidden size, which therefore is a multiple of 8: heads are structure, and one width describes a layer.
    """
    layers, hidden = widths
    if hidden % HEADS:
        raise ModelError(f"transformer cannot split {hidden} over {HEADS} heads", f"give a multiple of {HEADS}")
    return Encoder(_reader("transformer", sample, hidden), sample[0], layers, hidden, classes)


class Recurrent(nn.Module):
    """Reads step after step and scores what the last step holds."""

    def __init__(self, reader: nn.Module, features: int, hidden: Sequence[int], classes: int) -> None:
        super().__init__()
        self.embed = reader
        sizes = zip((features, *hidden), hidden, strict=False)
        self.lstms = nn.ModuleList(nn.LSTM(before, after, batch_first=True) for before, after in sizes)
        self.fc = nn.Linear((features, *hidden)[-1], classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores, of shape (batch, classes)."""
        x = self.embed(x)
        for layer in self.lstms:
            x, _ = layer(x)
        scores: torch.Tensor = self.fc(x[:, -1])
        return scores


class EncoderLayer(nn.Module):
    """Self-attention and two linear layers, each added to what it reads and normalised after."""

    def __init__(self, hidden: int, heads: int = HEADS) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of shape (batch, steps, hidden), as what it reads."""
        x = self.norm1(x + self.out(self.attend(x)))
        given: torch.Tensor = self.norm2(x + self.down(functional.relu(self.up(x))))
        return given

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """What each step gathers from all steps, head by head."""
        batch, steps, hidden = x.shape
        q, k, v = self.qkv(x).view(batch, steps, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        gathered: torch.Tensor = functional.scaled_dot_product_attention(q, k, v)
        return gathered.transpose(1, 2).reshape(batch, steps, hidden)


class Encoder(nn.Module):
    """Reads all steps at once and scores their mean."""

    def __init__(self, reader: nn.Module, steps: int, layers: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.embed = reader
        self.positions = nn.Parameter(torch.randn(steps, hidden) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(hidden) for _ in range(layers))
        self.fc = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores, of shape (batch, classes)."""
        x = self.embed(x) + self.positions
        for layer in self.layers:
            x = layer(x)
        scores: torch.Tensor = self.fc(x.mean(1))
        return scores


def _reader(family: str, sample: Sequence[int], width: int) -> nn.Module:
    """What turns one step into `width` numbers."""
    if len(sample) == 1:
        return nn.Embedding(VOCABULARY, width)
    if len(sample) == 2:
        return nn.Linear(sample[1], width)
    raise ModelError(
        f"{family} cannot read samples of shape {tuple(sample)}",
        "give --input batch,steps for token ids or batch,steps,features for numbers",
    )


def _window(family: str, sample: Sequence[int], least: int) -> tuple[int, int]:
    if len(sample) != 2 or sample[1] < least:
        raise ModelError(
            f"{family} cannot read samples of shape {tuple(sample)}",
            f"give --input batch,signals,steps with windows of at least {least} steps",
        )
    signals, steps = sample
    return signals, steps
