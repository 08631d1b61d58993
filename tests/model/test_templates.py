from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from ampere_energy.errors import WidthError
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.kinds import Fragment, Kind
from ampere_energy.model.load import instantiate, load
from ampere_energy.model.parse import parse, parse_ref
from ampere_energy.model.program import Affine, Call, Given, Program, Source, Value
from ampere_energy.model.source import ModelRef, model_ref
from ampere_energy.model.templates import Moves, template
from ampere_energy.model.variants import block_domains, block_points

pytestmark = pytest.mark.usefixtures("one_thread")
MEMBERS = {
    "lstm": ((32, 48, 40), [(7, 5, 3), (1, 1, 1), (200, 200, 200)], (2, 9)),
    "transformer": ((2, 64), [(2, 96), (2, 512)], (2, 16)),
    "resnet18": ((6, 8, 10, 12), [(5, 1, 9, 64)], (2, 3, 32, 32)),
    "har": ((6, 5, 4, 3), [(64, 1, 7, 9)], (2, 9, 64)),
}


def ref_of(name: str, widths: tuple[int, ...]) -> ModelRef:
    return model_ref(name, widths=widths, input=MEMBERS[name][2])


@cache
def spec_of(name: str, widths: tuple[int, ...] = ()) -> ModelSpec:
    return parse_ref(ref_of(name, widths or MEMBERS[name][0]))


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_a_family_have_the_same_kinds(name: str) -> None:
    own, others, _ = MEMBERS[name]
    spec = spec_of(name)
    assert spec.widths == own
    assert not any(isinstance(kind, Fragment) and kind.opaque for kind in spec.kinds)
    for widths in others:
        other = spec_of(name, widths)
        assert [b.kind.id for b in other.blocks] == [b.kind.id for b in spec.blocks]
        assert other.kinds == spec.kinds
        assert other.follows == spec.follows
        assert block_points(spec, widths) == [block.point for block in other.blocks]


@pytest.mark.parametrize("name", MEMBERS)
def test_a_template_at_a_point_is_what_is_recorded_there(name: str) -> None:
    """All numbers, of shapes and arguments alike, and so parameters and FLOPs."""
    own, others, _ = MEMBERS[name]
    spec = spec_of(name)
    for widths in (own, *others):
        loaded = load(ref_of(name, widths))
        recorded = parse(loaded.module, loaded.inputs, training=spec.training)
        points = block_points(spec, widths)
        moved = [Block(b.name, b.kind, point) for b, point in zip(spec.blocks, points, strict=True)]
        assert [b.parameters for b in moved] == [b.parameters for b in recorded.blocks]
        assert [b.training_flops for b in moved] == [b.training_flops for b in recorded.blocks]
        for mine, theirs in zip(moved, recorded.blocks, strict=True):
            if isinstance(mine.kind, Fragment) and isinstance(theirs.kind, Fragment):
                assert _without_scales(mine.kind.program.at(mine.point)) == _without_scales(theirs.kind.program)


def _without_scales(program: Program) -> object:
    """A program but for real numbers among its arguments, which may follow a width and cost the same."""

    def plain(argument: object) -> object:
        if isinstance(argument, dict):
            return {key: plain(item) for key, item in argument.items()}
        if isinstance(argument, (list, tuple)):
            return [plain(item) for item in argument]
        return "real" if isinstance(argument, float) else argument

    calls = [(call.op, plain(call.parsed), call.gives, call.grad, call.once) for call in program.calls]
    return program.values, calls, program.outputs


def test_a_number_of_layers_is_followed_by_none() -> None:
    spec = spec_of("transformer")
    assert {variable for followed in spec.follows for variable, _ in followed} == {1}
    deeper = spec_of("transformer", (3, 64))
    assert set(deeper.kinds) == set(spec.kinds)
    assert len(deeper.blocks) > len(spec.blocks)


def test_the_heads_of_attention_divide_its_width() -> None:
    spec = spec_of("transformer")
    attention = next(b for b in spec.blocks if "scaled_dot_product_attention" in b.kind.label)
    assert isinstance(attention.kind, Fragment)
    text = json.dumps([call.parsed for call in attention.kind.program.calls])
    assert '{"size": [8, 0, 0, 1]}' in text  # the width of a head: width / 8
    with pytest.raises(WidthError, match="give widths that 8 divides"):
        attention.kind.program.at((60,))


FACTORIES = """
import torch
from torch import nn

class Residual(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
    def forward(self, x):
        return x + self.down(self.up(x).relu())

def net(width, inner):
    return nn.Sequential(nn.Linear(6, width), Residual(width, inner), nn.Linear(width, 3))

def squared(width): return net(width, width * width)
def product(a, b): return net(a, a * b)
def four_times(width): return net(width, 4 * width + 2)
def deep(depth, width):
    return nn.Sequential(nn.Linear(6, width), *(Residual(width, 5) for _ in range(depth)), nn.Linear(width, 3))
def picky(width, heads):
    if heads != 2: raise ValueError("two heads only")
    return net(width, 7)
def half_fixed(width): return nn.Sequential(nn.Linear(6, 5), nn.Linear(5, width), nn.Linear(width, 3))
def chain(width): return nn.Sequential(nn.Linear(6, 2 * width), nn.ReLU(), nn.Linear(2 * width, 3))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("templates") / "factories.py"
    path.write_text(FACTORIES)
    return path


def parsed(file: Path, name: str, *widths: int) -> ModelSpec:
    return parse_ref(model_ref(f"{file}:{name}", widths=widths, input=(4, 6)))


def opaque(spec: ModelSpec) -> list[bool]:
    return [isinstance(block.kind, Fragment) and block.kind.opaque for block in spec.blocks]


def test_blocks_follow_the_arguments_of_a_users_factory(file: Path) -> None:
    spec = parsed(file, "net", 8, 5)
    assert (spec.widths, opaque(spec)) == ((8, 5), [False, False, False])
    assert spec.follows == (((0, 1),), ((0, 1), (1, 1)), ((0, 1),))
    assert [block.point for block in spec.blocks] == [(8,), (8, 5), (8,)]
    assert parsed(file, "net", 3, 17).kinds == spec.kinds


def test_multiples_of_a_width_with_an_offset(file: Path) -> None:
    spec = parsed(file, "four_times", 8)
    inner = spec.blocks[1]
    assert isinstance(inner.kind, Fragment)
    assert inner.point == (8,)
    sizes = {size for value in inner.kind.program.values for size in value.shape if isinstance(size, Affine)}
    assert sizes == {Affine(1, 0, ((0, 1),)), Affine(1, 2, ((0, 4),))}
    assert inner.kind.parameters((3,)) == 14 * 3 + 14 + 3 * 14 + 3


@pytest.mark.parametrize(("name", "widths"), [("squared", (8,)), ("squared", (1,)), ("product", (4, 5))])
def test_what_no_multiple_of_widths_explains_stands_as_it_is(file: Path, name: str, widths: tuple[int, ...]) -> None:
    """A single step looks like a multiple; two steps of all widths tell."""
    assert opaque(parsed(file, name, *widths)) == [False, True, False]


def test_an_argument_that_changes_what_the_model_does_is_followed_by_none(file: Path) -> None:
    spec = parsed(file, "deep", 2, 8)
    assert spec.widths == (2, 8)
    assert {variable for followed in spec.follows for variable, _ in followed} == {1}
    assert set(parsed(file, "deep", 3, 11).kinds) == set(spec.kinds)


def test_an_argument_that_cannot_be_changed_is_followed_by_none(file: Path) -> None:
    spec = parsed(file, "picky", 8, 2)
    assert {variable for followed in spec.follows for variable, _ in followed} == {0}
    assert parsed(file, "picky", 5, 2).kinds == spec.kinds


def test_a_chain_follows_its_factorys_arguments(file: Path) -> None:
    """What its blocks give is twice the argument; the widths of the family are the arguments."""
    spec = parsed(file, "chain", 8)
    assert all(isinstance(kind, Kind) for kind in spec.kinds)
    assert spec.chain
    assert (spec.widths, spec.follows) == ((8,), (((0, 2),), ((0, 2),)))
    assert [block.point for block in parsed(file, "chain", 5).blocks] == block_points(spec, (5,)) == [(10,), (10,)]


def test_a_layer_that_follows_no_argument_stands_as_it_is(file: Path) -> None:
    spec = parsed(file, "half_fixed", 8)
    assert opaque(spec) == [True, False, False]
    assert spec.follows[0] == ()
    assert parsed(file, "half_fixed", 3).blocks[0] == spec.blocks[0]


def test_domains_follow_the_ranges_of_the_widths() -> None:
    spec, known = spec_of("resnet18"), family("resnet18")
    for kind, domain in block_domains(spec, known.ranges).items():
        blocks = [block for block in spec.blocks if block.kind == kind]
        for block in blocks:
            assert all(width in allowed for width, allowed in zip(block.point, domain, strict=True))


def value(*shape: int | Affine, source: Source = Source.INPUT) -> Value:
    return Value(source, "float32", shape)


def programme(width: int, inner: int, scale: float = 1.0) -> Program:
    arguments = json.dumps(
        [[{"value": 0}, {"value": 1}], {"scale": scale, "heads": 2, "inner": inner}], separators=(",", ":")
    )
    call = Call("torch.f", arguments, (Given((), 2),))
    return Program((value(4, width), value(inner, 3), value(4, inner, source=Source.MADE)), (call,), (2,))


MOVES = Moves(widths=(16, 8), steps=(-2, 1), places=(0, 3))


def test_numbers_are_offsets_plus_parts_of_widths() -> None:
    """width = w0 / 2 − 1 + 3 w3 …, from a move of each and of both."""

    def at(a: int, b: int) -> Program:
        return programme(a // 2 - 1 + 3 * b, 2 * b)

    made = template(at(16, 8), [at(14, 8), at(16, 9), at(12, 10)], MOVES)
    assert made is not None
    assert made.axes == (0, 1)
    assert MOVES.named(made.axes) == ((0, 1), (3, 1))
    assert made.program.values[0].shape == (4, Affine(2, -2, ((0, 1), (1, 6))))
    assert made.program.at((16, 8)) == at(16, 8).at(())
    assert made.program.at((40, 3)).values[0].shape == (4, 28)
    assert made.program.at((40, 3)).calls[0].parsed[1] == {"scale": 1.0, "heads": 2, "inner": 6}


def test_pieces_that_differ_otherwise_have_no_template() -> None:
    own = programme(16, 8)
    for others in (
        [own, own, own],  # nothing follows a width
        [programme(14, 8), programme(16, 9), programme(14, 9)],  # two steps are not twice one step
        [programme(14, 8), programme(16, 9), Program(own.values[:2], (), (0,))],
    ):
        assert template(own, others, MOVES) is None


def test_a_scale_that_follows_a_width_is_left_out() -> None:
    others = [programme(14, 8, 0.5), programme(16, 9, 0.25), programme(12, 10, 0.75)]
    made = template(programme(16, 8, 2.0), others, MOVES)
    assert made is not None
    assert made.program.calls[0].parsed[1]["scale"] == 1.0


def test_recipes_that_follow_widths() -> None:
    moves = Moves(widths=(16, 8), steps=(-2, 1), places=(0, 3))
    assert moves.followed((16, 24), [(14, 24), (16, 27)]) == ((0, 1), (3, 3))
    assert moves.followed((16, 24), [(14, 24), (16, 24)]) is None  # one follows nothing
    assert moves.followed((16, 24), [(14, 22), (16, 27)]) is None  # one follows both
    assert moves.followed((17, 24), [(15, 24), (17, 27)]) is None  # one has an offset


@pytest.mark.parametrize("name", MEMBERS)
def test_blocks_hold_all_parameters_of_a_member(name: str) -> None:
    parameters = sum(p.numel() for p in instantiate(ref_of(name, MEMBERS[name][0])).parameters())
    assert sum(block.parameters for block in spec_of(name).blocks) == parameters
