"""Lowers packed integers and video instructions.

Arithmetic of packed types is one instruction. ``video.scalar`` and ``video.simd`` lower scalar
and SIMD video instructions.
"""

from collections.abc import Iterator
from typing import Final

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import BINARY, UNARY, Form, Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.video.scalar import arithmetic, multiply_add, shift
from vgpu_sim.compiler.lower.video.simd import simd
from vgpu_sim.isa import DataType, Literal, Op, Operand

_ELEMENTS = {
    "u16x2": DataType.U16,
    "s16x2": DataType.S16,
    "u8x4": DataType.U8,
    "s8x4": DataType.S8,
}
_PACKED = tuple(_ELEMENTS)
_SIGNED = ("s16x2", "s8x4")
_VIDEO = ("u32", "s32")
_SIMD = {
    "vadd": Op.PADD,
    "vsub": Op.PSUB,
    "vavrg": Op.PAVG,
    "vabsdiff": Op.PABSDIFF,
    "vmin": Op.PMIN,
    "vmax": Op.PMAX,
}
_SCALAR = {
    "vadd": Op.ADD,
    "vsub": Op.SUB,
    "vabsdiff": Op.ABS,
    "vmin": Op.MIN,
    "vmax": Op.MAX,
}
_EXACT = "of the parts as 64-bit numbers, by BFE and CVT; then CVT and, for a part of d, BFI"
_MERGE = "PRMT chooses, LOP3 merges; of different signs: as for one element at a time"
_SUM = "PRMT chooses, DP2A or DP4A sums up; of different signs: as for one element at a time"


def simd_arithmetic(context: Context, form: Form, match: Match) -> None:
    """Lower arithmetic of a packed type; relu makes negative elements 0."""
    element = _ELEMENTS[match["type"]]
    first, *source_operands = context.operands
    srcs: list[Operand] = [
        values.source(context, operand, DataType.B32) for operand in source_operands
    ]
    to = values.destination(context, first, DataType.B32)
    sequence, op = Sequence(context.builder), form.op
    if "relu" in match:
        srcs = [sequence.emit(op, DataType.B32, *srcs, source_type=element), Literal(0)]
        op = Op.PMAX
    saturate = "sat" in match
    sequence.emit_to(to, op, DataType.B32, *srcs, source_type=element, saturate=saturate)


def _scalar_forms() -> Iterator[Form]:
    three, merged = "d, a.x, b.x", "d.x, a.x, b.x, c"
    for name, op in _SCALAR.items():
        pattern = f"{name}.dtype.atype.btype{{.sat}}"
        yield Form(pattern, three, op, arithmetic, _VIDEO, _EXACT)
        yield Form(f"{pattern}{{.op2}}", merged, op, arithmetic, _VIDEO, _EXACT)
    for name, op in (("vshl", Op.SHL), ("vshr", Op.SHR)):
        pattern = f"{name}.dtype.atype.u32{{.sat}}.over"
        yield Form(pattern, three, op, shift, _VIDEO, _EXACT)
        yield Form(f"{pattern}{{.op2}}", merged, op, shift, _VIDEO, _EXACT)
    pattern = "vmad.dtype.atype.btype{.po}{.sat}{.scale}"
    yield Form(pattern, "d, {-}a.x, {-}b.x, {-}c", Op.MUL, multiply_add, _VIDEO, _EXACT)
    pattern = "vset.atype.btype.order"
    yield Form(pattern, three, Op.SETP, arithmetic, _VIDEO, _EXACT)
    yield Form(f"{pattern}{{.op2}}", merged, Op.SETP, arithmetic, _VIDEO, _EXACT)


def _simd_forms() -> Iterator[Form]:
    operands = "d.m, a.x, b.x, c"
    for count in (2, 4):
        for name, op in _SIMD.items():
            pattern = f"{name}{count}.dtype.atype.btype"
            yield Form(f"{pattern}{{.sat}}", operands, op, simd, _VIDEO, _MERGE)
            yield Form(f"{pattern}.add", operands, op, simd, _VIDEO, _SUM)
        pattern = f"vset{count}.atype.btype.order"
        yield Form(pattern, operands, Op.PSET, simd, _VIDEO, _MERGE)
        yield Form(f"{pattern}.add", operands, Op.PSET, simd, _VIDEO, _SUM)


FORMS: Final = (
    Form("add{.sat}.type", BINARY, Op.PADD, simd_arithmetic, _PACKED),
    Form("sub{.sat}.type", BINARY, Op.PSUB, simd_arithmetic, _PACKED),
    Form("min.type", BINARY, Op.PMIN, simd_arithmetic, _PACKED),
    Form("max.type", BINARY, Op.PMAX, simd_arithmetic, _PACKED),
    Form("min.relu.type", BINARY, Op.PMIN, simd_arithmetic, _SIGNED, "then PMAX with 0"),
    Form("max.relu.type", BINARY, Op.PMAX, simd_arithmetic, _SIGNED, "then PMAX with 0"),
    Form("neg.type", UNARY, Op.PNEG, simd_arithmetic, _SIGNED),
    *_scalar_forms(),
    *_simd_forms(),
)
