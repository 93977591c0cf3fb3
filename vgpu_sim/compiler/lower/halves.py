"""Registers of 32 bits that hold two 16-bit numbers, the first one in the low bits."""

from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register


def split(context: Context, packed: Operand) -> tuple[Register, Register]:
    """Return the two halves of a 32-bit operand, in scratch registers of 16 bits."""
    builder = context.builder
    low, high, upper = (
        builder.scratch_register(16),
        builder.scratch_register(16),
        builder.scratch_register(32),
    )
    builder.emit(Op.SHR, type=DataType.U32, dsts=(upper,), srcs=(packed, Literal(16)))
    for half, word in ((low, packed), (high, upper)):
        builder.emit(
            Op.CVT, type=DataType.U16, source_type=DataType.U32, dsts=(half,), srcs=(word,)
        )
    return low, high


def join(context: Context, low: Register, high: Register, packed: Register) -> None:
    """Write two registers of 16 bits to the halves of ``packed``."""
    builder = context.builder
    lower, upper = builder.scratch_register(32), builder.scratch_register(32)
    for word, half in ((lower, low), (upper, high)):
        builder.emit(
            Op.CVT, type=DataType.U32, source_type=DataType.U16, dsts=(word,), srcs=(half,)
        )
    builder.emit(Op.SHL, type=DataType.B32, dsts=(upper,), srcs=(upper, Literal(16)))
    builder.emit(Op.OR, type=DataType.B32, dsts=(packed,), srcs=(lower, upper))
