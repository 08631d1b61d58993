from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ampere_energy.errors import RequestError, WidthError
from ampere_energy.model.blocks import Block
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.kinds import Role
from ampere_energy.model.parse import parse_ref
from ampere_energy.model.source import model_ref
from ampere_energy.model.variants import Lesson, Variant, block_domains, block_points, lessons, whole_network
from ampere_energy.model.widths import WidthRange
from ampere_energy.serialization import decode, encode
from benchmarks.specs import spec_of


def plan(name: str) -> tuple[Lesson, ...]:
    return lessons(spec_of(name), family(name).ranges)


@pytest.mark.parametrize("name", ["lenet5", "cnn5"])
def test_companions_are_taught_before_they_are_subtracted(name: str) -> None:
    known = set()
    for lesson in plan(name):
        companions = {k for k in (lesson.feeder, lesson.reader) if k is not None}
        assert companions <= known
        assert len(companions) == {Role.OUTPUT: 0, Role.INPUT: 1, Role.HIDDEN: 2}[lesson.kind.role]
        known.add(lesson.kind)
    assert set(spec_of(name).kinds) <= known


@pytest.mark.parametrize("name", ["lenet5", "cnn5"])
def test_companions_stay_inside_their_own_domain(name: str) -> None:
    domains = {lesson.kind: lesson.domain for lesson in plan(name)}
    for lesson in plan(name):
        for corner in (tuple(r.low for r in lesson.domain), tuple(r.high for r in lesson.domain)):
            for block in lesson.variant(corner).blocks:
                for width, allowed in zip(block.point, domains[block.kind], strict=True):
                    assert width in allowed


def test_real_input_and_output_serve_where_their_signal_fits() -> None:
    first, second, *_, last = (b.kind for b in spec_of("lenet5").blocks)
    lesson = next(lesson for lesson in plan("lenet5") if lesson.kind == second)
    assert (lesson.feeder, lesson.reader) == (first, last)


def test_an_inner_kind_is_fed_by_a_stem_of_its_own_size() -> None:
    third = spec_of("cnn5").blocks[2].kind
    lesson = next(lesson for lesson in plan("cnn5") if lesson.kind == third)
    assert lesson.feeder is not None
    assert lesson.reader is not None
    assert lesson.feeder.label == "conv2d 1 @1×7×7"
    assert lesson.reader.label == "linear @7×7 → 10 · adaptive_avg_pool2d 1 · flatten · cross_entropy"


def test_variants_travel_as_plain_data() -> None:
    for lesson in plan("cnn5"):
        variant = lesson.variant(tuple(r.high for r in lesson.domain))
        assert decode(Variant, encode(variant), "variant") == variant


def test_blocks_that_do_not_meet_are_refused() -> None:
    first, second, *_ = spec_of("cnn5").blocks
    with pytest.raises(ValueError, match="gives"):
        Variant((Block("a", first.kind, (5,)), Block("b", second.kind, (6, 7))))


def test_width_ranges() -> None:
    assert WidthRange(1, 64).aligned(8) == WidthRange(8, 64, 8)
    assert WidthRange(1, 16).scaled(25) == WidthRange(25, 400, 25)
    assert WidthRange(25, 400, 25).hull(WidthRange(1, 84)) == WidthRange(1, 400)
    assert [WidthRange(8, 24, 8)[i] for i in range(3)] == [8, 16, 24]
    assert 12 not in WidthRange(8, 24, 8)
    with pytest.raises(WidthError, match="no multiple of 8"):
        WidthRange(1, 6).aligned(8)
    with pytest.raises(WidthError, match="end it at 17"):
        WidthRange(1, 20, 8)


def test_points_and_domains_follow_widths_many_times_over() -> None:
    spec = spec_of("lenet5")
    assert block_points(spec, (3, 8, 60, 40)) == [(3,), (3, 8), (8 * 25, 60), (60, 40), (40,)]
    arrays = block_points(spec, list(np.array([[3, 8, 60, 40], [1, 2, 3, 4]]).T))
    assert [x.tolist() for x in arrays[2]] == [[200, 50], [60, 3]]
    domains = block_domains(spec, [WidthRange(1, 6), WidthRange(2, 16, 2), WidthRange(1, 120), WidthRange(1, 84)])
    assert domains[spec.blocks[1].kind] == (WidthRange(1, 6), WidthRange(2, 16, 2))
    both = domains[spec.blocks[2].kind]  # two layers of one kind: as wide as both together
    assert (both[0].low, both[0].high) == (1, 400)
    with pytest.raises(WidthError, match="3 widths for a model of 4"):
        block_points(spec, (1, 2, 3))
    with pytest.raises(WidthError, match="1 width ranges for 4 widths"):
        block_domains(spec, [WidthRange(1, 6)])


def test_a_model_as_it_is_has_only_its_own_points() -> None:
    spec = replace(spec_of("lenet5"), widths=(), follows=())
    assert block_points(spec, ()) == [block.point for block in spec.blocks]
    assert block_domains(spec)[spec.blocks[1].kind] == (WidthRange(6, 6), WidthRange(16, 16))
    hidden = block_domains(spec)[spec.blocks[2].kind]
    assert hidden == (WidthRange(120, 400), WidthRange(84, 120))


def test_a_member_is_a_chain_at_other_widths() -> None:
    spec = spec_of("lenet5")
    small = whole_network(spec, (3, 8, 60, 40))
    assert [block.point for block in small.blocks] == block_points(spec, (3, 8, 60, 40))
    assert small.blocks == spec_of("lenet5", (3, 8, 60, 40)).blocks


def test_the_papers_method_has_no_lessons_for_recorded_pieces() -> None:
    spec = parse_ref(model_ref("transformer", widths=(1, 64), input=(2, 8)))
    with pytest.raises(RequestError, match=r"no small networks for embedding.*; profile with --method ampere"):
        lessons(spec)
