"""Recurrent and convolutional networks for text, sound and time series."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class _GRUClassifier(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.gru = nn.GRU(12, width, depth, batch_first=True)
        self.out = nn.Linear(width, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.gru(x)[0][:, -1])


def gru_classifier(width: int = 64, depth: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Classifies a window of 50 readings of 12 sensors from the last state of a GRU."""
    return _GRUClassifier(width, depth), (torch.randn(32, 50, 12),)


class _Tagger(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(2000, width)
        self.dropout = nn.Dropout(0.3)
        self.lstm = nn.LSTM(width, width, depth, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, 9)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.lstm(self.dropout(self.embed(tokens)))[0])


def bilstm_tagger(width: int = 64, depth: int = 1) -> tuple[nn.Module, dict[str, Tensor]]:
    """One label for each token, from an LSTM that reads both ways."""
    return _Tagger(width, depth), {"tokens": torch.randint(0, 2000, (24, 32))}


class _Seq2Seq(nn.Module):
    def __init__(self, width: int, depth: int, words: int = 1000) -> None:
        super().__init__()
        self.source = nn.Embedding(words, width)
        self.target = nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, width, depth, batch_first=True)
        self.cell = nn.LSTMCell(2 * width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(2 * width, words)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, (hidden, carry) = self.encoder(self.source(source))
        h, c = hidden[-1], carry[-1]
        context = memory.mean(dim=1)
        states = []
        for word in self.target(target).unbind(dim=1):
            h, c = self.cell(torch.cat([word, context], dim=-1), (h, c))
            weights = torch.bmm(memory, self.query(h).unsqueeze(-1)).softmax(dim=1)
            context = (weights * memory).sum(dim=1)
            states.append(torch.cat([h, context], dim=-1))
        return self.out(torch.stack(states, dim=1))


def seq2seq_attention(width: int = 64, depth: int = 1) -> tuple[nn.Module, dict[str, Tensor]]:
    """LSTM encoder, and a decoder that attends to it word by word."""
    return _Seq2Seq(width, depth), {
        "source": torch.randint(0, 1000, (16, 20)),
        "target": torch.randint(0, 1000, (16, 16)),
    }


class _PackedGRU(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(3000, width, padding_idx=0)
        self.gru = nn.GRU(width, width, depth, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * width, 4)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.embed(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return self.out(states.sum(dim=1) / lengths.unsqueeze(1))


def packed_gru(width: int = 48, depth: int = 1) -> tuple[nn.Module, dict[str, Tensor]]:
    """Sentences of random length, packed so that the GRU skips the padding."""
    lengths = torch.randint(8, 41, (20,))
    tokens = torch.randint(1, 3000, (20, 40)) * (torch.arange(40) < lengths.unsqueeze(1))
    return _PackedGRU(width, depth), {"tokens": tokens, "lengths": lengths}


class _LanguageModel(nn.Module):
    def __init__(self, width: int, depth: int, words: int = 2000) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, depth, batch_first=True, dropout=0.2 if depth > 1 else 0.0)
        self.out = nn.Linear(width, words)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.lstm(self.embed(tokens))[0])


def lstm_language_model(width: int = 64, depth: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Next-word LSTM whose output layer is its embedding."""
    return _LanguageModel(width, depth), (torch.randint(0, 2000, (16, 32)),)


class _TextCNN(nn.Module):
    def __init__(self, width: int, branches: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(5000, width)
        self.convs = nn.ModuleList(nn.Conv1d(width, width, size + 2) for size in range(branches))
        self.out = nn.Linear(width * branches, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).transpose(1, 2)
        return self.out(torch.cat([torch.relu(conv(x)).amax(dim=-1) for conv in self.convs], dim=1))


def text_cnn(width: int = 64, branches: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Sentence classifier: convolutions over 2, 3, 4, … words, each pooled over time."""
    return _TextCNN(width, branches), (torch.randint(0, 5000, (64, 48)),)


class _SpeechEncoder(nn.Module):
    def __init__(self, width: int, depth: int, convs: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv1d(1, width, 10, 5, bias=False), nn.GroupNorm(width, width), nn.GELU()]
        for _ in range(convs):
            layers += [nn.Conv1d(width, width, 3, 2, bias=False), nn.GELU()]
        self.features = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(width)
        self.position = nn.Conv1d(width, width, 9, padding=4, groups=4)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, "gelu", batch_first=True) for _ in range(depth)
        )
        self.out = nn.Linear(width, 32)

    def forward(self, wave: Tensor) -> Tensor:
        x = self.features(wave.unsqueeze(1))
        x = x + F.gelu(self.position(x))
        x = self.norm(x.transpose(1, 2))
        for layer in self.encoder:
            x = layer(x)
        return self.out(x)


def speech_encoder(width: int = 64, depth: int = 2, convs: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Strided 1-D convolutions on the raw wave, then Transformer layers; a frame of outputs every few milliseconds."""
    return _SpeechEncoder(width, depth, convs), (torch.randn(4, 4000),)


class _GatedConv(nn.Module):
    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.past = (kernel - 1) * dilation
        self.conv = nn.Conv1d(width, 2 * width, kernel, dilation=dilation)
        self.skip = nn.Conv1d(width, width, 1)
        self.keep = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        signal, gate = self.conv(F.pad(x, (self.past, 0))).chunk(2, dim=1)
        y = torch.tanh(signal) * torch.sigmoid(gate)
        return x + self.keep(y), self.skip(y)


class _WaveNet(nn.Module):
    def __init__(self, width: int, depth: int, kernel: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, width)
        self.layers = nn.ModuleList(_GatedConv(width, kernel, 2**i) for i in range(depth))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(width, width, 1), nn.ReLU(), nn.Conv1d(width, 256, 1))

    def forward(self, samples: Tensor) -> Tensor:
        x = self.embed(samples).transpose(1, 2)
        total = torch.zeros_like(x)
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.out(total).transpose(1, 2)


def wavenet(width: int = 32, depth: int = 5, kernel: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Gated causal convolutions with dilations 1, 2, 4, …; predicts the next of 256 sound levels."""
    return _WaveNet(width, depth, kernel), (torch.randint(0, 256, (2, 512)),)


class _TemporalBlock(nn.Module):
    def __init__(self, inputs: int, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.pad = nn.ConstantPad1d(((kernel - 1) * dilation, 0), 0.0)
        self.conv1 = weight_norm(nn.Conv1d(inputs, width, kernel, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(width, width, kernel, dilation=dilation))
        self.match = nn.Conv1d(inputs, width, 1) if inputs != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        y = F.dropout(torch.relu(self.conv1(self.pad(x))), 0.1, self.training)
        return torch.relu(torch.relu(self.conv2(self.pad(y))) + self.match(x))


class _ForecastHead(nn.Module):
    def __init__(self, width: int, horizon: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, 8 * horizon)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x[:, :, -1]).unflatten(1, (8, -1))


def temporal_conv_net(width: int = 32, depth: int = 4, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """TCN with weight normalization that forecasts 12 steps of 8 series."""
    blocks = [_TemporalBlock(8 if i == 0 else width, width, kernel, 2**i) for i in range(depth)]
    return nn.Sequential(*blocks, _ForecastHead(width, 12)), (torch.randn(16, 8, 128),)
