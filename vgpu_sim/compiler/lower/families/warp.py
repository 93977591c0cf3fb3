"""Lowers warp collectives: shfl, vote, match, redux, activemask, elect and bar.warp."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import (
    DataType,
    MatchMode,
    Op,
    Operand,
    Predicate,
    Reduction,
    Register,
    ShuffleMode,
    VoteMode,
)

# PTX ISA and target from which forms without .sync no longer exist.
_OLD_UNTIL: Final = ((6, 4), (7, 0))


def _members(context: Context, operands: tuple[tree.Operand, ...]) -> Operand:
    """Return the member mask; a form without ``.sync`` applies to the active lanes."""
    if operands:
        return values.source(context, operands[0], DataType.B32)
    version, target = context.symbols.version, context.symbols.capability
    if version >= _OLD_UNTIL[0] and target >= _OLD_UNTIL[1]:
        raise Invalid("PTX 6.4 and newer requires the .sync form on sm_70 and newer")
    mask = context.builder.scratch_register(32)
    context.builder.emit(Op.ACTIVEMASK, dsts=(mask,))
    return mask


def _number_and_flag(context: Context, operand: tree.Operand) -> tuple[Register, Predicate | None]:
    """Return the destinations of ``d|p``, ``d`` or ``_|p``."""
    if isinstance(operand, tree.Pair):
        flag = values.predicate_destination(context, operand.second)
        return values.destination(context, operand.first, DataType.B32), flag
    return values.destination(context, operand, DataType.B32), None


def shfl(context: Context, form: Form, match: Match) -> None:
    """Lower ``shfl d|p, a, b, c, membermask``."""
    first, a, *lane_operands = context.operands
    value = values.source(context, a, DataType.B32)
    b, c = (values.source(context, operand, DataType.B32) for operand in lane_operands[:2])
    members = _members(context, tuple(lane_operands[2:]))
    context.builder.emit(
        form.op,
        dsts=_number_and_flag(context, first),
        srcs=(value, b, c, members),
        shuffle=ShuffleMode[match["shuffle"].upper()],
    )


def vote(context: Context, form: Form, match: Match) -> None:
    """Lower vote. If the source is negated, emit NOT first."""
    first, a, *member_operands = context.operands
    source = values.predicate_source(context, a)
    members = _members(context, tuple(member_operands))
    if "ballot" in match:
        to: Register | Predicate = values.destination(context, first, DataType.B32)
        context.builder.emit(form.op, dsts=(to,), srcs=(source, members), vote=VoteMode.BALLOT)
        return
    to = values.predicate_destination(context, first) or context.builder.unused_predicate()
    mode = VoteMode[match["vote"].upper()]
    srcs = (source, members)
    context.builder.emit(form.op, type=DataType.PRED, dsts=(to,), srcs=srcs, vote=mode)


def match_(context: Context, form: Form, match: Match) -> None:
    """Lower ``match.any d, a, membermask`` and ``match.all d|p, a, membermask``."""
    type_ = one_word.type_of(form, match)
    first, a, mask = context.operands
    mode = MatchMode.ALL if "all" in match else MatchMode.ANY
    if mode is MatchMode.ANY and isinstance(first, tree.Pair):
        raise Invalid("match.any cannot have a second destination")
    srcs = (values.source(context, a, type_), values.source(context, mask, DataType.B32))
    dsts = _number_and_flag(context, first)
    context.builder.emit(form.op, type=type_, dsts=dsts, srcs=srcs, match=mode)


def redux(context: Context, form: Form, match: Match) -> None:
    """Lower ``redux.sync.op d, a, membermask``."""
    type_ = one_word.type_of(form, match)
    first, a, mask = context.operands
    slot = next(s for s in ("arithmetic", "extremum", "logic") if s in match)
    srcs = (values.source(context, a, type_), values.source(context, mask, DataType.B32))
    context.builder.emit(
        form.op,
        type=type_,
        dsts=(values.destination(context, first, type_),),
        srcs=srcs,
        reduction=Reduction[match[slot].upper()],
        absolute="abs" in match,
        nan="NaN" in match,
    )


def activemask(context: Context, form: Form, match: Match) -> None:
    """Lower ``activemask.b32 d``."""
    to = values.destination(context, context.operands[0], DataType.B32)
    context.builder.emit(form.op, dsts=(to,))


def elect(context: Context, form: Form, match: Match) -> None:
    """Lower ``elect.sync d|p, membermask``."""
    first, mask = context.operands
    if not isinstance(first, tree.Pair):
        raise Invalid("elect.sync needs the destination pair d|p")
    members = values.source(context, mask, DataType.B32)
    context.builder.emit(form.op, dsts=_number_and_flag(context, first), srcs=(members,))


def warp_barrier(context: Context, form: Form, match: Match) -> None:
    """Lower ``bar.warp.sync membermask``."""
    members = values.source(context, context.operands[0], DataType.B32)
    context.builder.emit(form.op, srcs=(members,))


_OLD = "after ACTIVEMASK; to PTX 6.3, or below sm_70"

FORMS: Final = (
    Form("shfl.sync.shuffle.b32", "d|p, a, b, c, membermask", Op.SHFL, shfl),
    Form("shfl.shuffle.b32", "d|p, a, b, c", Op.SHFL, shfl, isa=_OLD),
    Form("vote.sync.vote.pred", "p, {!}a, membermask", Op.VOTE, vote),
    Form("vote.sync.ballot.b32", "d, {!}a, membermask", Op.VOTE, vote),
    Form("vote.vote.pred", "p, {!}a", Op.VOTE, vote, isa=_OLD),
    Form("vote.ballot.b32", "d, {!}a", Op.VOTE, vote, isa=_OLD),
    Form("match.any.sync.type", "d, a, membermask", Op.MATCH, match_, ("b32", "b64")),
    Form("match.all.sync.type", "d|p, a, membermask", Op.MATCH, match_, ("b32", "b64")),
    Form("redux.sync.arithmetic.type", "d, a, membermask", Op.REDUX, redux, ("u32", "s32")),
    Form("redux.sync.logic.type", "d, a, membermask", Op.REDUX, redux, ("b32",)),
    Form("redux.sync.extremum{.abs}{.NaN}.f32", "d, a, membermask", Op.REDUX, redux),
    Form("activemask.b32", "d", Op.ACTIVEMASK, activemask),
    Form("elect.sync", "d|p, membermask", Op.ELECT, elect),
    Form("bar.warp.sync", "membermask", Op.BAR_WARP, warp_barrier),
)
