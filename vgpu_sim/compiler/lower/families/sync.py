"""bar and barrier: where threads of a block wait for each other."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.findings import Invalid
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.hal.limits import MAX_THREADS_PER_BLOCK, WARP_THREADS
from vgpu_sim.isa import DataType, Literal, Op
from vgpu_sim.isa.families.sync import BARRIERS


def barrier(context: Context, form: Form, match: Match) -> None:
    """Lower a barrier; without a count it is for all threads of the block."""
    number, *counts = context.operands
    if isinstance(number, tree.Integer) and not 0 <= number.value < BARRIERS:
        raise Invalid(f"there is no barrier {number.value}, only 0 to {BARRIERS - 1}")
    for count in counts:
        if isinstance(count, tree.Integer):
            _check_count(count.value)
    srcs = [values.source(context, operand, DataType.U32) for operand in context.operands]
    if not counts:
        srcs.append(Literal(0))
    aligned = form.opcode == "bar" or "aligned" in match
    context.builder.emit(form.op, srcs=tuple(srcs), uniform=aligned)


def _check_count(count: int) -> None:
    if count % WARP_THREADS or not 0 < count <= MAX_THREADS_PER_BLOCK:
        raise Invalid(f"a barrier counts whole warps of {WARP_THREADS}, not {count} threads")


FORMS: Final = (
    Form("bar{.cta}.sync", "a", Op.BAR_SYNC, barrier),
    Form("bar{.cta}.sync", "a, b", Op.BAR_SYNC, barrier),
    Form("bar{.cta}.arrive", "a, b", Op.BAR_ARRIVE, barrier),
    Form("barrier{.cta}.sync{.aligned}", "a", Op.BAR_SYNC, barrier),
    Form("barrier{.cta}.sync{.aligned}", "a, b", Op.BAR_SYNC, barrier),
    Form("barrier{.cta}.arrive{.aligned}", "a, b", Op.BAR_ARRIVE, barrier),
)
