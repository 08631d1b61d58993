from __future__ import annotations

import pytest
from studies.additive import spec_of

from ampere_energy.errors import WidthError
from ampere_energy.model.blocks import Block, Role
from ampere_energy.model.variants import Lesson, Variant, WidthRange, lessons
from ampere_energy.model.zoo.families import family
from ampere_energy.plain import decode, encode


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
