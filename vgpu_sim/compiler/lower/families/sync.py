"""Lowers bar and barrier, at which the threads of a block or cluster wait for each other."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import launch_control
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.compute.limits import MAX_THREADS_PER_BLOCK, WARP_THREADS
from vgpu_sim.isa import (
    Compare,
    DataType,
    Literal,
    Op,
    Operand,
    Order,
    Predicate,
    Reduction,
    Register,
    Scope,
)
from vgpu_sim.isa.families.sync import BARRIERS, WARPGROUP_BARRIER


def barrier(context: Context, form: Form, match: Match) -> None:
    """Lower a barrier; if the instruction has no count, all threads of the block take part."""
    number, count = _place(context, context.operands)
    if form.op is Op.BAR_SYNC and isinstance(number, Register) and count == Literal(0):
        number = _exclude_warpgroup(context, number)
    aligned = form.opcode == "bar" or "aligned" in match
    context.builder.emit(form.op, srcs=(number, count), uniform=aligned)


def _exclude_warpgroup(context: Context, number: Register) -> Register:
    """Return ``number``, or one that names no barrier if it is that of the warpgroup's barrier.

    That barrier belongs to the ISA; in PTX, barrier 16 does not exist.
    """
    builder = context.builder
    to, warpgroup = builder.scratch_register(32), builder.new_predicate()
    builder.emit(
        Op.SETP,
        type=DataType.U32,
        dsts=(warpgroup, None),
        srcs=(number, Literal(WARPGROUP_BARRIER)),
        compare=Compare.EQ,
    )
    srcs = (Literal(WARPGROUP_BARRIER + 1), number, warpgroup)
    builder.emit(Op.SELP, type=DataType.B32, dsts=(to,), srcs=srcs)
    return to


def _place(context: Context, operands: tuple[tree.Operand, ...]) -> tuple[Operand, Operand]:
    """Return the barrier and the number of threads that it counts, 0 for the whole block."""
    number, *counts = operands
    if isinstance(number, tree.Integer) and not 0 <= number.value < BARRIERS:
        raise Invalid(
            f"barrier {number.value} does not exist; barriers are numbered 0 to {BARRIERS - 1}"
        )
    for count in counts:
        if isinstance(count, tree.Integer):
            _check_count(count.value)
    named = values.source(context, number, DataType.U32)
    return named, values.source(context, counts[0], DataType.U32) if counts else Literal(0)


def reduction(context: Context, form: Form, match: Match) -> None:
    """Lower bar.red and barrier.red: a barrier with a reduction of the threads' values."""
    first, number, *counts, brought = context.operands
    srcs = _place(context, (number, *counts))
    truth = values.predicate_source(context, brought)
    count = "popc" in match
    to: Register | Predicate
    if count:
        to = values.destination(context, first, DataType.U32)
    else:
        to = values.predicate_destination(context, first) or context.builder.unused_predicate()
    context.builder.emit(
        form.op,
        type=DataType.U32 if count else DataType.PRED,
        dsts=(to,),
        srcs=(*srcs, truth),
        reduction=Reduction.POPC if count else Reduction[match["truth"].upper()],
        uniform=form.opcode == "bar" or "aligned" in match,
    )


def cluster_arrive(context: Context, form: Form, match: Match) -> None:
    """Lower barrier.cluster.arrive; without ``.relaxed`` it orders the earlier accesses."""
    if "relaxed" not in match:
        context.builder.emit(Op.FENCE, order=Order.ACQ_REL, scope=Scope.CLUSTER)
    context.builder.emit(form.op, uniform="aligned" in match)


def cluster_wait(context: Context, form: Form, match: Match) -> None:
    """Lower barrier.cluster.wait, which orders the later accesses."""
    context.builder.emit(form.op, uniform="aligned" in match)
    context.builder.emit(Op.FENCE, order=Order.ACQ_REL, scope=Scope.CLUSTER)


def _check_count(count: int) -> None:
    if count % WARP_THREADS or not 0 < count <= MAX_THREADS_PER_BLOCK:
        raise Invalid(
            f"a barrier's thread count must be a multiple of {WARP_THREADS}, at most"
            f" {MAX_THREADS_PER_BLOCK} and not 0; found {count}"
        )


FORMS: Final = (
    *launch_control.FORMS,
    Form("barrier.cluster.arrive{.release}{.aligned}", "", Op.CLUSTER_ARRIVE, cluster_arrive,
         isa="after FENCE"),
    Form("barrier.cluster.arrive.relaxed{.aligned}", "", Op.CLUSTER_ARRIVE, cluster_arrive),
    Form("barrier.cluster.wait{.acquire}{.aligned}", "", Op.CLUSTER_WAIT, cluster_wait,
         isa="before FENCE"),
    Form("bar{.cta}.sync", "a", Op.BAR_SYNC, barrier),
    Form("bar{.cta}.sync", "a, b", Op.BAR_SYNC, barrier),
    Form("bar{.cta}.arrive", "a, b", Op.BAR_ARRIVE, barrier),
    Form("barrier{.cta}.sync{.aligned}", "a", Op.BAR_SYNC, barrier),
    Form("barrier{.cta}.sync{.aligned}", "a, b", Op.BAR_SYNC, barrier),
    Form("barrier{.cta}.arrive{.aligned}", "a, b", Op.BAR_ARRIVE, barrier),
    Form("bar{.cta}.red.popc.u32", "d, a, {!}p", Op.BAR_RED, reduction),
    Form("bar{.cta}.red.popc.u32", "d, a, b, {!}p", Op.BAR_RED, reduction),
    Form("bar{.cta}.red.truth.pred", "q, a, {!}p", Op.BAR_RED, reduction),
    Form("bar{.cta}.red.truth.pred", "q, a, b, {!}p", Op.BAR_RED, reduction),
    Form("barrier{.cta}.red.popc{.aligned}.u32", "d, a, {!}p", Op.BAR_RED, reduction),
    Form("barrier{.cta}.red.popc{.aligned}.u32", "d, a, b, {!}p", Op.BAR_RED, reduction),
    Form("barrier{.cta}.red.truth{.aligned}.pred", "q, a, {!}p", Op.BAR_RED, reduction),
    Form("barrier{.cta}.red.truth{.aligned}.pred", "q, a, b, {!}p", Op.BAR_RED, reduction),
)  # fmt: skip
