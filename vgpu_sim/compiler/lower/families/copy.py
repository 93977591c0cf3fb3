"""Lowers cp.async (PTX ISA 9.7.10.28): a copy is complete when the instruction has executed."""

from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.addresses import base_and_displacement, whole_address
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.copies import async_updates, bulk, bulk_stores, map_updates, tensor
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Predicate, Register, Space

_SIZES = {"ca": (4, 8, 16), "cg": (16,)}
_WORD_BYTES = 4


def copy(context: Context, form: Form, match: Match) -> None:
    """Lower cp.async, an asynchronous copy, to a load and a store."""
    target, source, size, *remaining_operands = context.operands
    if "L2::cache_hint" in match:
        remaining_operands.pop()
    kind = "ca" if "ca" in match else "cg"
    if not isinstance(size, tree.Integer) or size.value not in _SIZES[kind]:
        raise Invalid(
            f"the size of cp.async.{kind} must be {' or '.join(map(str, _SIZES[kind]))} bytes"
        )
    count = size.value // _WORD_BYTES
    to, displacement = base_and_displacement(context, target, Space.SHARED)
    words = tuple(context.builder.scratch_register(32) for _ in range(count))
    limit = (
        _limit(context, remaining_operands[0], size.value)
        if remaining_operands
        else Literal(size.value)
    )
    if isinstance(limit, Literal) and limit.bits >= size.value:
        _load(context, source, words)
    else:
        place = whole_address(context, source, Space.GLOBAL)
        context.builder.emit(
            Op.LD_ZFILL,
            type=DataType.B32,
            dsts=words,
            srcs=(place, limit),
            space=Space.GLOBAL,
            vector=count,
        )
    context.builder.emit(
        Op.ST,
        type=DataType.B32,
        srcs=(to, *words),
        space=Space.SHARED,
        vector=count,
        displacement=displacement,
    )


def _load(context: Context, source: tree.Operand, words: tuple[Register, ...]) -> None:
    base, displacement = base_and_displacement(context, source, Space.GLOBAL)
    context.builder.emit(
        Op.LD,
        type=DataType.B32,
        dsts=words,
        srcs=(base,),
        space=Space.GLOBAL,
        vector=len(words),
        displacement=displacement,
    )


def _limit(context: Context, operand: tree.Operand, size: int) -> Operand:
    """Return how many bytes are read: the source size, or 0 if the source is ignored."""
    ignored: Operand | None = None
    if isinstance(operand, tree.Not):
        ignored = values.predicate_source(context, operand)
    elif isinstance(operand, tree.Name):
        register = context.register(operand)
        ignored = register if isinstance(register, Predicate) else None
    if ignored is None:
        return values.source(context, operand, DataType.U32)
    limit = context.builder.scratch_register(32)
    srcs = (Literal(0), Literal(size), ignored)
    context.builder.emit(Op.SELP, type=DataType.B32, dsts=(limit,), srcs=srcs)
    return limit


def nothing(context: Context, form: Form, match: Match) -> None:
    """Emit nothing for an instruction that groups asynchronous copies or waits for them.

    Every copy is already complete when its instruction has executed.
    """
    for operand in context.operands:
        if not isinstance(operand, tree.Integer) or operand.value < 0:
            raise Invalid("the number of groups must be a constant of at least 0")


_NOTE = "LD, or LD_ZFILL with a source size or predicate; then ST"
_DONE = "nothing: each copy is complete at once"


def _copies(kind: str) -> tuple[Form, ...]:
    plain = f"cp.async.{kind}.own.global"
    hinted = f"{plain}.L2::cache_hint"
    places = "[a], [b], size"
    return (
        *(
            Form(f"{plain}{{.prefetch}}", places + suffix, Op.LD_ZFILL, copy, isa=_NOTE)
            for suffix in ("", ", c")
        ),
        *(
            Form(f"{hinted}{{.prefetch}}", places + suffix, Op.LD_ZFILL, copy, isa=_NOTE)
            for suffix in (", policy", ", c, policy")
        ),
    )


FORMS: Final = (
    *_copies("ca"),
    *_copies("cg"),
    Form("cp.async.commit_group", "", Op.LD_ZFILL, nothing, isa=_DONE),
    Form("cp.async.wait_group", "n", Op.LD_ZFILL, nothing, isa=_DONE),
    Form("cp.async.wait_all", "", Op.LD_ZFILL, nothing, isa=_DONE),
    *bulk.FORMS,
    *tensor.FORMS,
    *map_updates.FORMS,
    *async_updates.FORMS,
    *bulk_stores.FORMS,
    Form("cp.async.bulk.commit_group", "", Op.LD_ZFILL, nothing, isa=_DONE),
    Form("cp.async.bulk.wait_group{.read}", "n", Op.LD_ZFILL, nothing, isa=_DONE),
)
