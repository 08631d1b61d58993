"""An `nn.Module` and example inputs to blocks: recorded, cut into pieces, each piece a recipe or a fragment."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from ampere_energy.errors import ModelError, WidthError
from ampere_energy.model.blocks import Block, ModelSpec
from ampere_energy.model.families.catalogue import FAMILIES
from ampere_energy.model.group_places import groups_of_pieces, left_as_they_are, lots_apart, touched_pieces
from ampere_energy.model.groups import Group, groups, narrowed, result_shapes, some
from ampere_energy.model.kinds import AnyKind, Fragment, Kind, Role
from ampere_energy.model.load import Loaded, load
from ampere_energy.model.objective import Inputs
from ampere_energy.model.program import Program, Source, Tape, settled
from ampere_energy.model.recipes import Recipe, recipe
from ampere_energy.model.record import record
from ampere_energy.model.source import ModelRef
from ampere_energy.model.splitting import Piece, cut, entire, extract, finer, tape_of, unused
from ampere_energy.model.templates import MOST_AXES, Moves, template
from ampere_energy.model.training import Training
from ampere_energy.model.widths import WidthRange

_STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""What is tried to change an argument of a factory by."""
Example = torch.Tensor | Sequence[int] | Inputs


def parse(model: nn.Module, example: Example, *, training: Training | None = None, name: str = "") -> ModelSpec:
    """The blocks of a model, which runs in this very process; `model.reading.read` reads one by name, in another.

    Args:
        model: the module; it is not changed, and run for real only where its control flow depends on data.
        example: an input batch, its shape, or several inputs by position or name, batch first.
        training: how it will be trained; the batch is the example's.
        name: what to call it; by default its class name.

    Raises:
        ModelError: the model does not run on the example, or has nothing to train.
    """
    inputs = as_inputs(example)
    settings = _batch(inputs, training)
    tape = record(model, inputs, settings)
    spec = _assemble(tape, cut(tape), settings, name or type(model).__name__, _unused(model, tape))
    return replace(_chained(spec), recorded=Fragment(entire(tape), settings))


def parts(whole: Fragment) -> tuple[Block, ...]:
    """The blocks of a model that was recorded as one piece, as `parse` finds them."""
    tape = tape_of(whole.program)
    return _assemble(tape, cut(tape), whole.training, "", ()).blocks


def parse_ref(ref: ModelRef) -> ModelSpec:
    """The blocks of the model a reference names, which is built and run in this very process.

    Where it has widths, it is also recorded at other widths, so that blocks of any sort can follow them. A width
    that changes what the model does, such as a number of layers, is followed by none.
    """
    if ref.pruned is not None:
        loaded = load(ref.original)
        found = groups(loaded.module, loaded.inputs)
        training = trained(ref, loaded)
        return parse_groups(loaded.module, loaded.inputs, found, ref.widths, training=training, name=str(ref))
    loaded = load(ref)
    tape = record(loaded.module, loaded.inputs, ref.training)
    about = _batch(loaded.inputs, trained(ref, loaded)), str(ref), _unused(loaded.module, tape)
    spec = _chained(_assemble(tape, cut(tape), *about))
    if spec.widths == ref.widths or not ref.widths:
        return spec
    known = FAMILIES.get(ref.source)
    ranges = known.ranges if known else [WidthRange(1, 2**26)] * len(ref.widths)
    steps = [_step(width, allowed) for width, allowed in zip(ref.widths, ranges, strict=True)]
    if ref.names:
        steps = [_width_step(ref, tape, place) for place in range(len(ref.widths))]
    single = [_sibling(ref, tape, {place: step}) if step else None for place, step in enumerate(steps)]
    varied = {place: step for place, step in enumerate(steps) if single[place] is not None}
    together = _sibling(ref, tape, {place: 2 * step for place, step in varied.items()}) if varied else None
    if together is None:  # a chain has widths of its own, which arguments with names are not
        return replace(spec, widths=(), follows=()) if ref.names else spec
    moves = Moves(tuple(ref.widths[v] for v in varied), tuple(varied.values()), tuple(varied))
    pieces = cut(tape)
    columns = [extract(sibling, pieces) for sibling in (*single, together) if sibling is not None]
    return replace(_assemble(tape, pieces, *about, columns, moves), widths=ref.widths)


def trained(ref: ModelRef, loaded: Loaded) -> Training:
    """How a model is trained, with torch's global settings that its own code sets."""
    return replace(ref.training, torch_settings=loaded.torch_settings)


def parse_groups(
    model: nn.Module,
    example: Example,
    found: Sequence[Group],
    widths: Sequence[int] = (),
    *,
    training: Training | None = None,
    name: str = "",
) -> ModelSpec:
    """The blocks of a model narrowed to some widths of its groups of channels, which the blocks follow.

    Groups that meet in no block are narrowed at once, so that few copies are recorded however many groups there are.
    A group that the model cannot do without a channel of is followed by none; nor are some of those that meet in one
    matrix, where they are more than a kind may have widths (long concatenations).

    Args:
        model: the module, as wide as it was built.
        example: inputs, as of `parse`.
        found: its groups.
        widths: how many channels each has; by default all of them.
        training: how it will be trained; the batch is the example's.
        name: what to call it; by default its class name.
    """
    inputs = as_inputs(example)
    settings = _batch(inputs, training)
    widths = tuple(widths) or tuple(group.size for group in found)
    if len(widths) != len(found):
        raise WidthError(f"{len(widths)} widths for {len(found)} groups of channels", "give one for each")
    kept = [some(group, width) for group, width in zip(found, widths, strict=True)]
    narrow = narrowed(model, found, kept)
    tape = record(narrow, inputs, settings)
    about = settings, name or type(model).__name__, _unused(narrow, tape)
    spec = _chained(_assemble(tape, cut(tape), *about))
    shapes, weights = result_shapes(narrow, inputs), sum(1 for _ in narrow.parameters())

    def sibling(moves: Mapping[int, int]) -> Tape | None:
        moved = [some(g, w + moves.get(place, 0)) for place, (g, w) in enumerate(zip(found, widths, strict=True))]
        other = narrowed(model, found, moved)
        if sum(1 for _ in other.parameters()) != weights or result_shapes(other, inputs) != shapes:
            return None
        return _alike(tape, lambda: record(other, inputs, settings))

    each = {place: step for place, group in enumerate(found) if (step := _group_step(group, widths[place]))}
    if spec.widths == widths and sibling(each) is not None:
        return spec
    pieces = cut(tape)
    crowded = [
        place
        for place, own in enumerate(groups_of_pieces(touched_pieces(tape, pieces, found), pieces))
        if len(own) > MOST_AXES
    ]
    pieces = finer(tape, pieces, crowded)
    own, touched = extract(tape, pieces), touched_pieces(tape, pieces, found)
    held = left_as_they_are(groups_of_pieces(touched, pieces))
    steps = {place: step for place, step in each.items() if place not in held}
    columns: dict[int, list[Program]] = {}
    lots = lots_apart(touched, steps)
    while lots:
        lot = lots.pop()
        other = sibling({place: steps[place] for place in lot})
        if other is not None:
            columns |= dict.fromkeys(lot, extract(other, pieces))
        elif len(lot) > 1:
            lots += [[place] for place in lot]
    varied = {place: steps[place] for place in sorted(columns)}
    last = sibling({place: 2 * step for place, step in varied.items()}) if varied else None
    if last is None:
        return replace(spec, widths=(), follows=())
    moves = Moves(tuple(widths[v] for v in varied), tuple(varied.values()), tuple(varied))
    singles = [[columns[v][i] if i in touched[v] else own[i] for i in range(len(pieces))] for v in varied]
    return replace(_assemble(tape, pieces, *about, [*singles, extract(last, pieces)], moves), widths=widths)


def _group_step(group: Group, width: int) -> int | None:
    """A small change of a group's width that can be doubled; None where there is none."""
    allowed = WidthRange(group.parts, group.size, group.parts)
    step = _step(width, allowed)
    return step if width + 2 * step in allowed else None


def _sibling(ref: ModelRef, tape: Tape, moves: Mapping[int, int]) -> Tape | None:
    """The tape of the model with some widths changed; None where it cannot be, or does other things then."""
    widths = tuple(width + moves.get(place, 0) for place, width in enumerate(ref.widths))

    def other() -> Tape:
        loaded = load(replace(ref, widths=widths))
        return record(loaded.module, loaded.inputs, ref.training)

    return _alike(tape, other)


def _width_step(ref: ModelRef, tape: Tape, place: int) -> int:
    """By how much an argument of a factory changes sizes and nothing else; 0 where it changes what the model does.

    Some arguments must be multiples of something, such as a number of heads.
    """
    pieces = cut(tape)
    own = extract(tape, pieces)
    smaller = [-size for size in _STEPS if 2 * size < ref.widths[place]]
    for step in smaller or _STEPS[:1]:
        once, twice = _sibling(ref, tape, {place: step}), _sibling(ref, tape, {place: 2 * step})
        if once is None or twice is None:
            continue
        moves = Moves((ref.widths[place],), (step,), (place,))
        changed = [extract(sibling, pieces) for sibling in (once, twice)]
        columns = list(zip(own, *changed, strict=True))
        if all(_same_but_sizes(program, others, moves) for program, *others in columns):
            return step
        return 0
    return 0


def _same_but_sizes(program: Program, others: Sequence[Program], moves: Moves) -> bool:
    """Whether a piece is the same with an argument changed, but for numbers of channels and features."""
    same = all(other == program for other in others)
    kernels = {tuple(_kernels(p)) for p in (program, *others)}
    return len(kernels) == 1 and (same or template(program, others, moves) is not None)


def _kernels(program: Program) -> Iterator[tuple[int, ...]]:
    """The sizes of convolutions' kernels."""
    for call in program.calls:
        if call.name.startswith("conv") and len(call.reads) > 1:
            yield tuple(map(settled, program.values[call.reads[1]].shape[2:]))


def _alike(tape: Tape, read: Callable[[], Tape]) -> Tape | None:
    """Another tape, where it can be had and does the same."""
    try:
        other = read()
    except ModelError:
        return None
    return other if [c.op for c in other.calls] == [c.op for c in tape.calls] else None


def _step(width: int, allowed: WidthRange) -> int:
    """A small change that leads to another network, and to one more when doubled."""
    return -allowed.step if width - 2 * allowed.step >= allowed.low else allowed.step


def _batch(inputs: Inputs, training: Training | None) -> Training:
    first = next(iter(inputs.values() if isinstance(inputs, Mapping) else inputs))
    if first.dim() and not first.shape[0]:
        raise ModelError(f"an input of shape {tuple(first.shape)} has no samples", "give at least 1, batch first")
    return replace(training or Training(1), batch=first.shape[0] if first.dim() else 1)


def _unused(model: nn.Module, tape: Tape) -> tuple[str, ...]:
    """Parameters that no block accounts for, in words."""
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    missing = unused(tape, sizes)
    if not missing:
        return ()
    named = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
    return (f"{sum(sizes[name] for name in missing):,} of {sum(sizes.values()):,} parameters ({named})",)


def _assemble(
    tape: Tape,
    pieces: Sequence[Piece],
    training: Training,
    name: str,
    unattributed: tuple[str, ...],
    columns: Sequence[Sequence[Program]] = (),
    moves: Moves | None = None,
) -> ModelSpec:
    blocks, follows = [], []
    for index, (piece, program) in enumerate(zip(pieces, extract(tape, pieces), strict=True)):
        changed = [column[index] for column in columns]
        kind, point, followed = _kind(program, index, len(pieces), training, changed, moves)
        blocks.append(Block(_place(tape, piece), kind, point))
        follows.append(followed)
    return ModelSpec(name, tuple(blocks), training, unattributed, (), tuple(follows) if moves else ())


def as_inputs(example: Example) -> Inputs:
    """Example inputs as tensors; a shape stands for one input of real numbers."""
    if isinstance(example, torch.Tensor):
        return (example,)
    if isinstance(example, Mapping):
        return example
    if example and all(isinstance(item, torch.Tensor) for item in example):
        return tuple(item for item in example if isinstance(item, torch.Tensor))
    shape = tuple(int(n) for n in example if not isinstance(n, torch.Tensor))
    if len(shape) < 2 or min(shape) < 1:
        raise ModelError(f"an input of shape {shape}", "give a batch of samples, batch first, such as 10,1,28,28")
    return (torch.zeros(shape),)


def _kind(
    program: Program, index: int, count: int, training: Training, changed: Sequence[Program], moves: Moves | None
) -> tuple[AnyKind, tuple[int, ...], tuple[tuple[int, int], ...]]:
    """A piece's kind, its point, and which widths its axes follow."""
    found = recipe(program)
    kind = _recipe_kind(found, index, count, training) if found else None
    if found is not None and kind is not None:
        point = _point(kind, found)
        if moves is None:
            return kind, point, ()
        again = [recipe(other) for other in changed]
        followed = moves.followed(point, [_point(kind, other) if other else None for other in again])
        if followed is not None:
            return kind, point, followed
    made = template(program, changed, moves) if moves else None
    if made is not None and moves is not None:
        return Fragment(made.program, training), tuple(moves.widths[v] for v in made.axes), moves.named(made.axes)
    return Fragment(program, training), (), ()


def _recipe_kind(found: Recipe, index: int, count: int, training: Training) -> Kind | None:
    role = Role.OUTPUT if index == count - 1 else Role.INPUT if index == 0 else Role.HIDDEN
    if found.ends != (role is Role.OUTPUT):
        return None
    fixed = {Role.INPUT: found.reads[1], Role.OUTPUT: found.gives[1], Role.HIDDEN: None}[role]
    try:
        return Kind(role, found.layers, found.reads[2:], fixed, found.input_grad, training, found.dtype)
    except ValueError:
        return None


def _point(kind: Kind, found: Recipe) -> tuple[int, ...]:
    width_in, width_out = found.reads[1], found.gives[1]
    return {Role.INPUT: (width_out,), Role.OUTPUT: (width_in,), Role.HIDDEN: (width_in, width_out)}[kind.role]


def _chained(spec: ModelSpec) -> ModelSpec:
    """A chain of recipes whose blocks may give any width: what a block gives, the next one reads."""
    if not spec.chain or len(spec.blocks) < 2:
        return spec
    widths = tuple(_recipe(block).width_out(block.point) for block in spec.blocks[:-1])
    follows = []
    for index, block in enumerate(spec.blocks):
        axes = {"out": (index, 1)}
        if index:
            axes["in"] = (index - 1, _recipe(spec.blocks[index - 1]).result.per_width)
        follows.append(tuple(axes[axis] for axis in block.kind.axes))
    return replace(spec, widths=widths, follows=tuple(follows))


def _recipe(block: Block) -> Kind:
    assert isinstance(block.kind, Kind)
    return block.kind


def _place(tape: Tape, piece: Piece) -> str:
    """The module a piece is: the deepest that all its weights live in."""
    owners = [
        tape.names[n].rpartition(".")[0]
        for place in piece
        for n in tape.calls[place].reads
        if n in tape.names and tape.values[n].source is Source.WEIGHT
    ]
    matrices = [tape.places[place] for place in piece if tape.places[place]]
    paths = [owner.split(".") for owner in owners or matrices[:1]]
    common = [parts[0] for parts in itertools.takewhile(lambda p: len(set(p)) == 1, zip(*paths, strict=False))]
    return ".".join(common) or (owners or matrices or [tape.calls[piece.start].name])[0] or "model"
