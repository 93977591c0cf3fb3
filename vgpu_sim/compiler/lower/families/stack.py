"""Lowers alloca, stacksave and stackrestore (PTX ISA, "Stack Manipulation Instructions")."""

from typing import Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.symbols.findings import Invalid
from vgpu_sim.compiler.lower.symbols.types import UNSIGNED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Op, Register

_DEFAULT_ALIGNMENT_BYTES = 8
_MAX_ALIGNMENT_BYTES = 1 << 23


def alloca(context: Context, form: Form, match: Match) -> None:
    """Lower alloca, which reserves memory until the function returns, or the stack is restored."""
    type_ = one_word.type_of(form, match)
    first, amount, *alignments = context.operands
    align = _DEFAULT_ALIGNMENT_BYTES
    if alignments:
        if not isinstance(alignments[0], tree.Integer):
            raise Invalid("the alignment must be a constant")
        align = alignments[0].value
    if align & (align - 1) or not 0 < align <= _MAX_ALIGNMENT_BYTES:
        raise Invalid(f"the alignment must be a power of two, at most {_MAX_ALIGNMENT_BYTES}")
    builder = context.builder
    with context.branch_around():
        source = values.source(context, amount, type_)
        size = builder.new_register(64)
        _convert(context, size, source, DataType.U64, UNSIGNED[type_.bits])
        address = context.program.stack.allocate(size, align)
        to = values.destination(context, first, type_)
        _convert(context, to, address, UNSIGNED[type_.bits], DataType.U64)


def _convert(
    context: Context, to: Register, source: object, type_: DataType, source_type: DataType
) -> None:
    fields = {"dsts": (to,), "srcs": (source,)}
    if type_ is source_type:
        context.builder.emit(Op.MOV, type=type_, **fields)
    else:
        context.builder.emit(Op.CVT, type=type_, source_type=source_type, **fields)


def save(context: Context, form: Form, match: Match) -> None:
    """Lower stacksave, which returns the address where the free part of the stack begins."""
    type_ = one_word.type_of(form, match)
    to = values.destination(context, context.operands[0], type_)
    pointer = context.program.stack.pointer
    _convert(context, to, pointer, UNSIGNED[type_.bits], DataType.U32)


def restore(context: Context, form: Form, match: Match) -> None:
    """Lower stackrestore, which restores the stack to an address from stacksave."""
    type_ = one_word.type_of(form, match)
    source = values.source(context, context.operands[0], type_)
    _convert(context, context.program.stack.pointer, source, DataType.U32, UNSIGNED[type_.bits])


_TYPES = ("u32", "u64")

FORMS: Final = (
    Form("alloca.type", "d, a", Op.LOCAL_BYTES, alloca, _TYPES, "and TRAP, SETP, ADD, AND, CVT"),
    Form("alloca.type", "d, a, b", Op.LOCAL_BYTES, alloca, _TYPES, "and TRAP, SETP, ADD, AND, CVT"),
    Form("stacksave.type", "d", Op.CVT, save, _TYPES),
    Form("stackrestore.type", "a", Op.CVT, restore, _TYPES),
)
