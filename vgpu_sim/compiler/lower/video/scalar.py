"""Lowers scalar video instructions to sequences that compute with parts of words as 64-bit numbers.

Source: PTX ISA, "Scalar Video Instructions". The pseudocode's intermediate results have 33 and
34 bits (vmad: 128); here they are exact, except where code that ptxas generates differs: a second
operation of vadd and vsub gets the low 32 bits as a signed number, and an unsigned second operation
compares negative numbers as the greatest. Operand c of vset has the type of operand a. Bits that
vshl and vshr shift out of 32 bits are lost before a second operation, unless it saturates. Without
a second operation and a selector on d, operand c has no effect.
"""

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.lower.video import parts
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import Compare, DataType, Literal, MulMode, Op, Operand, Register

D = DataType
_SECOND = {"add": Op.ADD, "min": Op.MIN, "max": Op.MAX}
_CLAMPED = {
    (8, False): D.U8,
    (8, True): D.S8,
    (16, False): D.U16,
    (16, True): D.S16,
    (32, False): D.U32,
    (32, True): D.S32,
}
_LARGE = Literal(1 << 62)
_CUT = frozenset({"vadd", "vsub"})


def arithmetic(context: Context, form: Form, match: Match) -> None:
    """Lower vadd, vsub, vabsdiff, vmin, vmax and vset."""
    _, a, b, *_ = context.operands
    sequence = Sequence(context.builder)
    x, y = (
        _number(context, sequence, operand, DATA_TYPES[match[slot]])
        for operand, slot in ((a, "atype"), (b, "btype"))
    )
    match form.opcode:
        case "vadd" | "vsub":
            result = sequence.emit(Op.ADD if form.opcode == "vadd" else Op.SUB, D.S64, x, y)
        case "vabsdiff":
            result = sequence.emit(Op.ABS, D.S64, sequence.emit(Op.SUB, D.S64, x, y))
        case "vmin" | "vmax":
            result = sequence.emit(Op.MIN if form.opcode == "vmin" else Op.MAX, D.S64, x, y)
        case _:
            result = sequence.compare_as_number(Compare[match["order"].upper()], D.S64, x, y)
    _finish(context, match, sequence, result, D.S64, form, exact=True)


def shift(context: Context, form: Form, match: Match) -> None:
    """Lower vshl and vshr."""
    _, a, b, *_ = context.operands
    sequence, type_ = Sequence(context.builder), DATA_TYPES[match["atype"]]
    wide = D.S64 if type_.is_signed else D.U64
    value = sequence.convert(_part(context, sequence, a, type_), type_, wide)
    count = _part(context, sequence, b, D.U32)
    if match["over"] == "wrap":
        count = sequence.emit(Op.AND, D.B32, count, Literal(31))
    else:
        count = sequence.emit(Op.MIN, D.U32, count, Literal(32))
    op = Op.SHL if form.opcode == "vshl" else Op.SHR
    result = sequence.emit(op, wide, value, count)
    _finish(context, match, sequence, result, wide, form, exact=False)


def _part(context: Context, sequence: Sequence, operand: tree.Operand, type_: DataType) -> Operand:
    value, first, bits = parts.scalar_source(context, operand)
    return sequence.extract_bits(value, type_, first, bits)


def _number(
    context: Context, sequence: Sequence, operand: tree.Operand, type_: DataType
) -> Register:
    return sequence.convert(_part(context, sequence, operand, type_), type_, D.S64)


def _finish(
    context: Context,
    match: Match,
    sequence: Sequence,
    result: Register,
    wide: DataType,
    form: Form,
    *,
    exact: bool,
) -> None:
    """Saturate, then do the second operation or merge. ``result`` has the type ``wide``."""
    first, _, _, *third = context.operands
    to, at, bits = parts.scalar_destination(context, first)
    second = match.get("op2")
    used = (bits < 32) + (second is not None)
    if used > len(third) or used > 1:
        raise Unsupported(
            "this combination of operand c, a second operation (.add, .min or .max)"
            " and a byte or half-word selector on d"
        )
    if third and not used:
        values.source(context, third[0], D.B32)  # checked, and not read
    own = DATA_TYPES[match.get("dtype") or match["atype"]]
    saturate = "sat" in match
    if second and exact and not saturate:
        if form.opcode in _CUT:
            result = sequence.convert(sequence.convert(result, wide, D.U32), D.S32, D.S64)
        addend = sequence.convert(values.source(context, third[0], D.B32), own, D.S64)
        kind = D.S64 if own.is_signed else D.U64
        result = sequence.emit(_SECOND[second], kind, result, addend)
    if saturate:
        result = sequence.convert(result, wide, _CLAMPED[bits, own.is_signed], clamp=True)
    else:
        result = sequence.convert(result, wide, D.U32)
    if second and (saturate or not exact):
        source = values.source(context, third[0], D.B32)
        result = sequence.emit(_SECOND[second], own, result, source)
    if bits < 32:
        base = values.source(context, third[0], D.B32)
        sequence.emit_to(to, Op.BFI, D.B32, result, base, Literal(at), Literal(bits))
    else:
        sequence.emit_to(to, Op.MOV, D.B32, result)


def multiply_add(context: Context, form: Form, match: Match) -> None:
    """Lower vmad: a product plus an operand, with optional negation, scaling and saturation."""
    first, a, b, c = context.operands
    to, _, bits = parts.scalar_destination(context, first)
    if bits < 32:
        raise Invalid("vmad must write all of d, not a part")
    (a, minus_a), (b, minus_b), (c, minus_c) = map(_sign, (a, b, c))
    minus = minus_a != minus_b
    if "po" in match and (minus_a or minus_b or minus_c):
        raise Invalid("vmad.po cannot have a negated operand")
    if minus and minus_c:
        raise Invalid("vmad cannot negate both the product and c")
    kinds = DATA_TYPES[match["atype"]], DATA_TYPES[match["btype"]]
    unsigned = not any(kind.is_signed for kind in kinds)
    is_signed = not unsigned or minus or minus_c
    wide, narrow = (D.S64, D.S32) if is_signed else (D.U64, D.U32)
    sequence = Sequence(context.builder)
    if unsigned:
        factors = [_part(context, sequence, v, D.U32) for v in (a, b)]
        result = context.builder.scratch_register(64)
        sequence.emit_to(result, Op.MUL, D.U32, *factors, mode=MulMode.WIDE)
        if is_signed and "sat" in match:  # has 65 bits with its sign; is clamped anyway
            result = sequence.emit(Op.MIN, D.U64, result, _LARGE)
    else:
        numbers = [_number(context, sequence, v, k) for v, k in zip((a, b), kinds, strict=True)]
        result = sequence.emit(Op.MUL, D.S64, *numbers, mode=MulMode.LO)
    addend = sequence.convert(values.source(context, c, D.B32), narrow, wide)
    if minus:
        result = sequence.emit(Op.SUB, wide, addend, result)
    else:
        result = sequence.emit(Op.SUB if minus_c else Op.ADD, wide, result, addend)
    if "po" in match:
        result = sequence.emit(Op.ADD, wide, result, Literal(1))
    if "scale" in match:
        result = sequence.emit(Op.SHR, wide, result, Literal(int(match["scale"][3:])))
    clamp = "sat" in match
    sequence.emit_to(
        to, Op.MOV, D.B32, sequence.convert(result, wide, narrow if clamp else D.U32, clamp=clamp)
    )


def _sign(operand: tree.Operand) -> tuple[tree.Operand, bool]:
    return (operand.operand, True) if isinstance(operand, tree.Negated) else (operand, False)
