"""Texts, sounds and series: recurrent networks, encoders and decoders, dilated convolutions."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from benchmarks.architectures.attention import Attention, Mlp, PreNorm
from benchmarks.architectures.contract import Built, seeded

WORDS = 500


class GruClassifier(nn.Module):
    """Embedding, stacked GRU, linear on the last step."""

    def __init__(self, words: int = WORDS, width: int = 32, hidden: int = 48, classes: int = 5) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.gru = nn.GRU(width, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, classes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        _, last = self.gru(self.embed(ids))
        return self.head(last[-1])


class Tagger(nn.Module):
    """A bidirectional LSTM that tags each word."""

    def __init__(self, words: int = WORDS, width: int = 32, hidden: int = 40, tags: int = 9) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(2 * hidden, tags)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(ids))[0])


class Seq2Seq(nn.Module):
    """An LSTM reads, another writes from where the first stopped, looking back by attention (Luong et al. 2015)."""

    def __init__(self, words: int = WORDS, width: int = 32, hidden: int = 48) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, hidden, batch_first=True)
        self.decoder = nn.LSTM(width, hidden, batch_first=True)
        self.join, self.head = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, words)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        read, state = self.encoder(self.source(source))
        written, _ = self.decoder(self.target(target), state)
        weights = torch.softmax(torch.bmm(written, read.transpose(1, 2)), -1)
        return self.head(torch.tanh(self.join(torch.cat([written, torch.bmm(weights, read)], -1))))


class LanguageModel(nn.Module):
    """Embedding, LSTM layers, a word a step; output and embedding may be one matrix."""

    def __init__(self, words: int, width: int, hidden: int, layers: int, tied: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=layers, batch_first=True)
        self.head = nn.Linear(hidden, words, bias=not tied)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embed(ids))[0])


class Pointer(nn.Module):
    """Vinyals et al. 2015: at each step a cell points at one position of what was read."""

    def __init__(self, features: int = 2, hidden: int = 32, steps: int = 4) -> None:
        super().__init__()
        self.steps = steps
        self.encoder = nn.LSTM(features, hidden, batch_first=True)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.keys, self.query = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.score = nn.Parameter(torch.randn(hidden) / math.sqrt(hidden))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        read, (h, c) = self.encoder(points)
        h, c, keys, looked = h[0], c[0], self.keys(read), read.mean(1)
        pointed = []
        for _ in range(self.steps):
            h, c = self.cell(looked, (h, c))
            scores = torch.tanh(keys + self.query(h)[:, None]) @ self.score
            looked = torch.einsum("bn,bnd->bd", scores.softmax(-1), read)
            pointed.append(scores)
        return torch.stack(pointed, 1)


class WhisperEncoder(nn.Module):
    """Radford et al. 2023: two 1-D convolutions over a spectrogram, fixed sines for positions, an encoder."""

    positions: torch.Tensor

    def __init__(self, bands: int = 80, frames: int = 100, width: int = 64, depth: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(bands, width, 3, padding=1), nn.Conv1d(width, width, 3, 2, 1)
        rates = torch.exp(-math.log(10_000) * torch.arange(width // 2) / (width // 2 - 1))
        angles = torch.arange(frames // 2)[:, None] * rates
        self.register_buffer("positions", torch.cat([angles.sin(), angles.cos()], 1))
        self.layers = nn.ModuleList(PreNorm(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(spectrogram))))
        x = x.permute(0, 2, 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class MaskedEncoder(nn.Module):
    """Torch's own encoder, told which words are padding."""

    def __init__(self, words: int = WORDS, width: int = 32, classes: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, ids: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        y = self.encoder(self.embed(ids), src_key_padding_mask=padding)
        kept = (~padding)[..., None].to(y.dtype)
        return self.head((y * kept).sum(1) / kept.sum(1))


class Decoder(nn.Module):
    """A causal decoder layer that also looks at an image's features: captioning."""

    def __init__(self, words: int = WORDS, width: int = 48, features: int = 32, steps: int = 12) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(steps, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.cross = Attention(width, 4), Attention(width, 4, context=features)
        self.mlp, self.head = Mlp(width, 4 * width), nn.Linear(width, words)

    def forward(self, ids: torch.Tensor, picture: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1], device=ids.device))
        x = x + self.own(self.norms[0](x), causal=True)
        x = x + self.cross(self.norms[1](x), picture)
        return self.head(x + self.mlp(self.norms[2](x)))


class Speech(nn.Module):
    """In the manner of Amodei et al. 2016: 2-D convolutions over a spectrogram, bidirectional GRU, a letter a frame."""

    def __init__(self, bands: int = 40, width: int = 8, hidden: int = 32, letters: int = 29) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, width, (11, 5), (2, 1), (5, 2), bias=False), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = nn.Conv2d(width, width, (11, 5), (2, 2), (5, 2), bias=False), nn.BatchNorm2d(width)
        self.gru = nn.GRU(width * bands // 4, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, letters)

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        x = functional.hardtanh(self.norm1(self.conv1(spectrogram[:, None])), 0, 20)
        x = functional.hardtanh(self.norm2(self.conv2(x)), 0, 20)
        x, _ = self.gru(x.flatten(1, 2).transpose(1, 2))
        return functional.log_softmax(self.head(x), -1)


class Gated(nn.Module):
    """A causal, dilated, gated convolution: what it adds to the stream, and what it tells the output."""

    def __init__(self, width: int, dilation: int, groups: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(width, 2 * width, 2, dilation=dilation, groups=groups)
        self.stay, self.skip = nn.Conv1d(width, width, 1), nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        signal, gate = self.conv(functional.pad(x, (self.dilation, 0))).chunk(2, 1)
        y = torch.tanh(signal) * torch.sigmoid(gate)
        return x + self.stay(y), self.skip(y)


class WaveNet(nn.Module):
    """Oord et al. 2016, with grouped convolutions: dilations double layer by layer.

    As usual, nobody reads what the last layer adds to the stream: those weights run forward and get no gradient.
    """

    def __init__(self, levels: int = 256, width: int = 32, layers: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(levels, width)
        self.layers = nn.ModuleList(Gated(width, 2**layer, groups=4) for layer in range(layers))
        self.out1, self.out2 = nn.Conv1d(width, width, 1), nn.Conv1d(width, levels, 1)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        x = self.embed(sound).transpose(1, 2)
        told = []
        for layer in self.layers:
            x, skip = layer(x)
            told.append(skip)
        return self.out2(functional.relu(self.out1(functional.relu(sum(told)))))


@seeded
def gru() -> Built:
    return GruClassifier(), (torch.randint(WORDS, (4, 20)),)


@seeded
def bilstm() -> Built:
    return Tagger(), (torch.randint(1, WORDS, (4, 20)),)


@seeded
def seq2seq() -> Built:
    return Seq2Seq(), {"source": torch.randint(WORDS, (4, 18)), "target": torch.randint(WORDS, (4, 14))}


@seeded
def tied_language_model() -> Built:
    return LanguageModel(WORDS, 48, 48, layers=1, tied=True), (torch.randint(WORDS, (4, 16)),)


@seeded
def pointer() -> Built:
    return Pointer(), (torch.rand(4, 10, 2),)


@seeded
def whisper_encoder() -> Built:
    return WhisperEncoder(), (torch.randn(2, 80, 100),)


@seeded
def masked_encoder() -> Built:
    lengths = torch.tensor([12, 9, 4])
    padding = torch.arange(12) >= lengths[:, None]
    return MaskedEncoder(), {"ids": torch.randint(WORDS, (3, 12)), "padding": padding}


@seeded
def caption_decoder() -> Built:
    return Decoder(), (torch.randint(WORDS, (2, 12)), torch.randn(2, 49, 32))


@seeded
def speech() -> Built:
    return Speech(), (torch.randn(2, 40, 60),)


@seeded
def wavenet() -> Built:
    return WaveNet(), (torch.randint(256, (2, 128)),)
