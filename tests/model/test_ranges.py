"""What a kind is does not depend on the numbers that an example happens to have."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ampere_energy.measurement.training_step import training_step
from ampere_energy.model.blocks import ModelSpec
from ampere_energy.model.kinds import Fragment
from ampere_energy.model.parse import parse
from ampere_energy.model.program import Source
from ampere_energy.model.training import Mode
from ampere_energy.model.variants import Variant, alone
from ampere_energy.serialization import decode, encode
from benchmarks.architectures import MODELS

pytestmark = pytest.mark.usefixtures("one_thread")
VOCABULARY, CLASSES = 97, 7


class Packed(nn.Module):
    """Reads only as many words as each text has."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.gru = nn.GRU(16, 24, batch_first=True)
        self.head = nn.Linear(24, CLASSES)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.head(states.mean(1))


class Chooses(nn.Module):
    """Works on the rows that a mask chooses, however many these are."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(5, 11), nn.Linear(11, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = x[x[:, 0] > 0]
        hidden = functional.relu(self.first(chosen)).view(chosen.shape[0], 11)
        return self.head(hidden).mean(0, keepdim=True)


def texts(low: int, high: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(low, high, (6, 12)), torch.randint(low % 12 + 1, 13, (6,))


def of_text(name: str, low: int, high: int) -> ModelSpec:
    torch.manual_seed(low)
    return parse(Packed(), texts(low, high), name=name)


@pytest.mark.parametrize("name", MODELS)
def test_every_call_of_a_factory_gives_the_same_kinds(name: str) -> None:
    factory = MODELS[name].__wrapped__  # type: ignore[attr-defined]  # the one that seeds nothing
    specs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        specs.append(parse(*factory()))
    first, second = specs
    assert [block.kind for block in first.blocks] == [block.kind for block in second.blocks]
    assert [block.kind.id for block in first.blocks] == [block.kind.id for block in second.blocks]


def test_numbers_of_texts_and_their_lengths_make_no_kind() -> None:
    few, many = of_text("few", 1, 9), of_text("many", 5, VOCABULARY)
    assert few.kinds == many.kinds
    assert [kind.id for kind in few.kinds] == [kind.id for kind in many.kinds]


def test_sizes_that_the_data_decides_make_no_kind() -> None:
    specs = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        specs.append(parse(Chooses(), (torch.randn(40, 5),)))
    assert specs[0].kinds == specs[1].kinds
    assert specs[0].blocks[0].kind.id == specs[1].blocks[0].kind.id


def test_a_block_whose_sizes_the_data_decides_trains_on_numbers_of_its_own() -> None:
    torch.manual_seed(0)
    for spec in (parse(Chooses(), (torch.randn(40, 5),)), of_text("texts", 1, 9)):
        for block in spec.blocks:
            training_step(alone(block.kind, block.point), torch.device("cpu"), Mode.EAGER).repeat(2)


def test_what_stands_in_a_log_is_the_same_kind_when_it_is_read() -> None:
    for block in of_text("texts", 1, 9).blocks:
        variant = alone(block.kind, block.point)
        assert decode(Variant, json.loads(json.dumps(encode(variant))), "log") == variant


def test_ranges_are_those_of_what_reads_them() -> None:
    spec = of_text("texts", 1, 9)
    values = [
        value
        for block in spec.blocks
        if isinstance(block.kind, Fragment)
        for value in block.kind.program.values
        if value.source is Source.INPUT and value.dtype == "int64" and len(value.shape) == 2
    ]
    assert [(value.low, value.high) for value in values] == [(0, VOCABULARY)]


def test_other_sizes_are_other_kinds() -> None:
    torch.manual_seed(0)
    one, other = (parse(Packed(), (torch.randint(9, (n, 12)), torch.full((n,), 12))) for n in (6, 7))
    assert not {kind.id for kind in one.kinds} & {kind.id for kind in other.kinds}
