"""Lowers cvt: between scalar types, and from and to packed numbers, element by element."""

from collections.abc import Collection
from typing import Any, Final

from vgpu_sim.compiler.lower import one_word, values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import BINARY, FLOATS, INTEGERS, TERNARY, UNARY, Form, Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.findings import Invalid, Unsupported
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES, UNTYPED
from vgpu_sim.compiler.ptx import tree
from vgpu_sim.isa import DataType, Literal, Op, Operand, Register, Rounding

_CONVERTIBLE = ("u8", "s8", *INTEGERS, "f16", "bf16", *FLOATS)
_PACKED_RESULTS = ("f8x2", "halves", "ue8m0x2", "bf16x2")
_SCALAR_HALVES = {DataType.F16, DataType.BF16}
_F32 = DataType.F32
_TO_THE_MINUS_6 = 0x3C80_0000
_TIMES_64, _GREATEST, _LEAST = 0x4280_0000, 0x42FE_0000, 0xC300_0000
"""64, 127 and -128 as .f32."""
_QUARTER = ("u4", "s4", "u2", "s2")


def cvt(context: Context, form: Form, match: Match) -> None:
    """Lower cvt between two scalar types."""
    to_type, from_type = DATA_TYPES[match["dtype"]], DATA_TYPES[match["atype"]]
    _check_rounding(match, to_type, from_type)
    if "ftz" in match and DataType.F32 not in (to_type, from_type):
        raise Invalid(".ftz applies to .f32 only")
    first, value = context.operands
    source = values.source(context, value, from_type, wider=True)
    to = values.destination(context, first, to_type, wider=True)
    fields = one_word.float_fields(match)
    if from_type is DataType.BF16 and to_type in (DataType.F32, DataType.F64):
        fields["rounding"] = Rounding.NONE  # assemblers accept one, although nothing is rounded
    elif {from_type, to_type} == _SCALAR_HALVES and "rnd" not in match:
        fields["rounding"] = Rounding.RN  # as assemblers interpret it
    if fields["saturate"] and from_type.is_float and not to_type.is_float:
        fields["saturate"] = False  # such conversions clamp anyway (PTX ISA, "cvt")
    context.builder.emit(
        Op.CVT, type=to_type, source_type=from_type, dsts=(to,), srcs=(source,), **fields
    )


def _check_rounding(match: Match, to: DataType, source: DataType) -> None:
    """Check the rounding modifiers of cvt, which PTX requires or forbids."""
    integral, rounded = "irnd" in match, "rnd" in match
    if not source.is_float and not to.is_float:
        is_allowed = not integral and not rounded
    elif not to.is_float:
        is_allowed = integral
    elif not source.is_float or to.bits < source.bits:
        is_allowed = rounded
    elif to.bits > source.bits:
        is_allowed = not integral and (not rounded or source is DataType.BF16)
    elif to is not source:  # .f16 and .bf16
        is_allowed = not integral
    else:
        is_allowed = not rounded
    if not is_allowed:
        kinds = f".{to.name.lower()} from .{source.name.lower()}"
        modifier = match.get("rnd") or match.get("irnd")
        how = f"with rounding .{modifier}" if modifier else "without a rounding modifier"
        raise Unsupported(f"cvt {kinds} {how}")


def cvt_clamped(context: Context, form: Form, match: Match) -> None:
    """Lower cvt of .f32 to one number of another format, with .relu or .satfinite."""
    to_type = DATA_TYPES[match["dtype"]]
    first, value = context.operands
    source = values.source(context, value, DataType.F32, wider=True)
    to = values.destination(context, first, to_type, wider=True)
    fields = _fields(match)
    context.builder.emit(
        Op.CVT, type=to_type, source_type=DataType.F32, dsts=(to,), srcs=(source,), **fields
    )


def _fields(match: Match) -> dict[str, Any]:
    for slot in ("frnd2", "frnd3", "rn", "rna"):
        if slot in match:
            rounding = Rounding[match[slot].upper()]
            return {"rounding": rounding, "relu": "relu" in match, "finite": "satfinite" in match}
    return {"relu": "relu" in match, "finite": "satfinite" in match}


def _element(word: str) -> tuple[DataType, int]:
    """Return the element that the name of a packed type contains, and the bits that it occupies
    there.
    """
    type_ = DATA_TYPES[word[:-2]]
    return type_, 4 if type_ is DataType.E2M1 else type_.bits


def from_singles(context: Context, form: Form, match: Match) -> None:
    """Lower cvt of two .f32 to a packed number; the first becomes the upper half."""
    type_, bits = _element(match.get("f8x2") or match["dtype"])
    first, *operands = context.operands
    sources = [values.source(context, operand, DataType.F32) for operand in operands]
    fields = {"type": type_, "source_type": DataType.F32, **_fields(match)}
    _join_parts(context, first, bits, Op.CVT, [(source,) for source in sources], fields)


def by_chance(context: Context, form: Form, match: Match) -> None:
    """Lower cvt.rs of two .f32 to a packed pair of halves, rounded stochastically.

    The upper 16 random bits are used for the first number, the lower 16 bits for the second.
    """
    type_, bits = _element(match["dtype"])
    first, a, b, random = context.operands
    sources = [values.source(context, operand, DataType.F32) for operand in (a, b)]
    chance = values.source(context, random, DataType.B32)
    upper = context.builder.scratch_register(32)
    srcs = (chance, Literal(16))
    context.builder.emit(Op.SHR, type=DataType.U32, dsts=(upper,), srcs=srcs)
    pairs = [(sources[0], upper), (sources[1], chance)]
    fields = {"type": type_, "source_type": DataType.F32, **_fields(match)}
    _join_parts(context, first, bits, Op.CVT_RS, pairs, fields)


def four_by_chance(context: Context, form: Form, match: Match) -> None:
    """Lower cvt.rs of four .f32; the first number becomes the uppermost element.

    The numbers are rounded by random bits. The first two numbers share 16 of these bits, and the
    last two share 16 others.
    """
    type_, bits = _element(match["f8x4"])
    first, vector, random = context.operands
    if not isinstance(vector, tree.Vector) or len(vector.elements) != 4:
        raise Invalid("the source of cvt.rs to four numbers must be a vector of four registers")
    sources = [values.source(context, operand, DataType.F32) for operand in vector.elements]
    chance = values.source(context, random, DataType.B32)
    upper, lower = _shared_chances(context, chance, bits)
    pairs = list(zip(sources, (upper, upper, lower, lower), strict=True))
    fields = {"type": type_, "source_type": DataType.F32, **_fields(match)}
    _join_parts(context, first, bits, Op.CVT_RS, pairs, fields)


def _shared_chances(context: Context, chance: Operand, bits: int) -> tuple[Operand, Operand]:
    """Return the random bits of the first and of the last two numbers, in the low 16 bits.

    They are the halves of the operand; for .e2m1x4 the upper bytes of both halves, and the lower
    ones.
    """
    builder = context.builder

    def emit(op: Op, *srcs: Operand) -> Register:
        to = builder.scratch_register(32)
        type_ = DataType.U32 if op is Op.SHR else DataType.B32
        builder.emit(op, type=type_, dsts=(to,), srcs=srcs)
        return to

    upper = emit(Op.SHR, chance, Literal(16))
    if bits == 8:
        return upper, chance
    pairs: list[Operand] = []
    for high, low in (
        (emit(Op.AND, upper, Literal(0xFF00)), emit(Op.SHR, chance, Literal(8))),
        (emit(Op.SHL, upper, Literal(8)), chance),
    ):
        pairs.append(emit(Op.OR, high, emit(Op.AND, low, Literal(0xFF))))
    return pairs[0], pairs[1]


def from_packed(context: Context, form: Form, match: Match) -> None:
    """Lower cvt between packed numbers; two numbers are converted at a time."""
    to_type, bits = _element(next(match[slot] for slot in _PACKED_RESULTS if slot in match))
    from_type, from_bits = _element(match["atype"])
    first, operand = context.operands
    storage_type = UNTYPED[2 * from_bits]
    low = values.source(context, operand, storage_type, wider=storage_type is DataType.B8)
    high = context.builder.scratch_register(max(storage_type.bits, 16))
    word = DATA_TYPES[f"u{max(storage_type.bits, 16)}"]
    context.builder.emit(Op.SHR, type=word, dsts=(high,), srcs=(low, Literal(from_bits)))
    fields = {"type": to_type, "source_type": from_type, **_fields(match)}
    if from_type not in (DataType.F16, DataType.BF16):
        fields.pop("rounding", None)  # exact
    _join_parts(context, first, bits, Op.CVT, [(high,), (low,)], fields)


def cvt_scaled(context: Context, form: Form, match: Match) -> None:
    """Lower cvt of two small numbers to .bf16x2, where each may be multiplied by a power of two.

    The number and the power of two are converted to .f32 exactly. Their product is exact in
    .f32, too, unless it is an infinity. So rounding occurs only once, in the conversion to
    .bf16.
    """
    first, operand, *powers = context.operands
    word, sequence = match["atype"], Sequence(context.builder)
    bits = 4 if word == "e2m1x2" else 8
    storage_type = UNTYPED[2 * bits]
    pair = values.source(context, operand, storage_type, wider=storage_type is DataType.B8)
    numbers = []
    for number in _upper_and_lower(sequence, pair, bits):
        if word == "s2f6x2":  # two's complement, with six fraction bits
            whole = sequence.emit(
                Op.CVT, _F32, number, source_type=DataType.S8, rounding=Rounding.RN
            )
            numbers.append(sequence.emit(Op.FMUL, _F32, whole, Literal(_TO_THE_MINUS_6)))
        else:
            numbers.append(_single(sequence, number, DATA_TYPES[word[:-2]]))
    if powers:
        scales = values.source(context, powers[0], DataType.B16)
        for place, scale in enumerate(_upper_and_lower(sequence, scales, 8)):
            factor = _single(sequence, scale, DataType.UE8M0)
            numbers[place] = sequence.emit(Op.FMUL, _F32, numbers[place], factor)
    fields = {"type": DataType.BF16, "source_type": _F32, **_fields(match)}
    _join_parts(context, first, 16, Op.CVT, [(number,) for number in numbers], fields)


def to_fixed_point(context: Context, form: Form, match: Match) -> None:
    """Lower cvt of two numbers to .s2f6x2: two's complement with six fraction bits, clamped.

    The number times 64 is exact in .f32, or an infinity. A NaN becomes the greatest number.
    """
    sequence = Sequence(context.builder)
    first, *operands = context.operands
    numbers: list[Operand]
    if len(operands) == 1:
        pair = values.source(context, operands[0], DataType.B32)
        upper = sequence.emit(Op.AND, DataType.B32, pair, Literal(0xFFFF_0000))
        numbers = [upper, sequence.emit(Op.SHL, DataType.B32, pair, Literal(16))]
    else:
        numbers = [values.source(context, operand, _F32) for operand in operands]
    lower_bound = 0 if "relu" in match else _LEAST
    parts = []
    for number in numbers:
        whole = sequence.emit(Op.FMUL, _F32, number, Literal(_TIMES_64))
        whole = sequence.emit(Op.FMIN, _F32, whole, Literal(_GREATEST))
        whole = sequence.emit(Op.FMAX, _F32, whole, Literal(lower_bound))
        kind, rounding = DataType.S32, Rounding.RNI
        whole = sequence.emit(Op.CVT, kind, whole, source_type=_F32, rounding=rounding)
        parts.append(sequence.emit(Op.AND, DataType.B32, whole, Literal(0xFF)))
    shifted = sequence.emit(Op.SHL, DataType.B32, parts[0], Literal(8))
    joined = sequence.emit(Op.OR, DataType.B32, shifted, parts[1])
    to = values.destination(context, first, DataType.B16)
    narrow, wide = DataType.U16, DataType.U32
    context.builder.emit(Op.CVT, type=narrow, source_type=wide, dsts=(to,), srcs=(joined,))


def _upper_and_lower(sequence: Sequence, pair: Operand, bits: int) -> tuple[Operand, Operand]:
    return sequence.emit(Op.SHR, DataType.U16, pair, Literal(bits)), pair


def _single(sequence: Sequence, number: Operand, type_: DataType) -> Register:
    """Return a number of a small format as .f32; .bf16 can represent all of them."""
    exact = sequence.emit(Op.CVT, DataType.BF16, number, source_type=type_)
    return sequence.emit(Op.CVT, _F32, exact, source_type=DataType.BF16)


def _join_parts(
    context: Context,
    first: tree.Operand,
    bits: int,
    op: Op,
    sources: Collection[tuple[Operand, ...]],
    fields: dict[str, Any],
) -> None:
    """Convert numbers and concatenate them, the first at the top, ``bits`` for each."""
    builder, total = context.builder, bits * len(sources)
    to = values.destination(context, first, UNTYPED[total], wider=total == 8)
    whole = max(total, 16)
    joined: Register | None = None
    for place, srcs in enumerate(sources):
        part = builder.scratch_register(whole)
        builder.emit(op, dsts=(part,), srcs=srcs, **fields)
        if joined is None:
            joined = part
            continue
        shifted, type_ = builder.scratch_register(whole), UNTYPED[whole]
        builder.emit(Op.SHL, type=type_, dsts=(shifted,), srcs=(joined, Literal(bits)))
        last = place == len(sources) - 1
        joined = to if last else builder.scratch_register(whole)
        builder.emit(Op.OR, type=type_, dsts=(joined,), srcs=(shifted, part))


def pack(context: Context, form: Form, match: Match) -> None:
    """Lower cvt.pack: clamp two .s32, concatenate them, and put the low bits of a third operand
    above them.
    """
    first, *operands = context.operands
    word = match["dtype"]
    bits, is_signed = int(word[1:]), word[0] == "s"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    builder, type_ = context.builder, DataType.S32
    parts: list[Register] = []
    for operand in operands[:2]:
        value: Operand = values.source(context, operand, type_)
        for op, bound in ((Op.MAX, low), (Op.MIN, high)):
            to, limit = builder.scratch_register(32), Literal(bound & 0xFFFF_FFFF)
            builder.emit(op, type=type_, dsts=(to,), srcs=(value, limit))
            value = to
        part = builder.scratch_register(32)
        cut = Literal((1 << bits) - 1)
        builder.emit(Op.AND, type=DataType.B32, dsts=(part,), srcs=(value, cut))
        parts.append(part)
    shifted = builder.scratch_register(32)
    builder.emit(Op.SHL, type=DataType.B32, dsts=(shifted,), srcs=(parts[0], Literal(bits)))
    if len(operands) == 2:
        to = values.destination(context, first, DataType.B32)
        builder.emit(Op.OR, type=DataType.B32, dsts=(to,), srcs=(shifted, parts[1]))
        return
    builder.emit(Op.OR, type=DataType.B32, dsts=(shifted,), srcs=(shifted, parts[1]))
    above, third = builder.scratch_register(32), values.source(context, operands[2], DataType.B32)
    builder.emit(Op.SHL, type=DataType.B32, dsts=(above,), srcs=(third, Literal(2 * bits)))
    to = values.destination(context, first, DataType.B32)
    builder.emit(Op.OR, type=DataType.B32, dsts=(to,), srcs=(shifted, above))


_HALVES = ("f16x2", "bf16x2")
_F8X2 = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2")
_PACKED = "MAX, MIN and AND of each, SHL, OR"
_PAIR = "CVT of each, SHL, OR"
_UNPACKED = "after SHR; CVT of each, SHL, OR"
_SCALED = "after SHR; CVT to .f32, FMUL and CVT of each, SHL, OR"
_FIXED = "FMUL, FMIN, FMAX and CVT of each; AND, SHL, OR"
_CHANCE = "after SHR of the random bits; CVT_RS of each, SHL, OR"

FORMS: Final = (
    Form("cvt{.rnd}{.ftz}{.sat}.dtype.atype", UNARY, Op.CVT, cvt, _CONVERTIBLE),
    Form("cvt.irnd{.ftz}{.sat}.dtype.atype", UNARY, Op.CVT, cvt, _CONVERTIBLE),
    Form(
        "cvt.frnd2{.relu}{.satfinite}.dtype.f32",
        UNARY,
        Op.CVT,
        cvt_clamped,
        ("f16", "bf16", "tf32"),
    ),
    Form("cvt.rna{.satfinite}.dtype.f32", UNARY, Op.CVT, cvt_clamped, ("tf32",)),
    Form("cvt.frnd2{.relu}{.satfinite}.dtype.f32", BINARY, Op.CVT, from_singles, _HALVES, _PAIR),
    Form(
        "cvt.rs{.relu}{.satfinite}.dtype.f32",
        "d, a, b, rbits",
        Op.CVT_RS,
        by_chance,
        _HALVES,
        _CHANCE,
    ),
    Form("cvt.rn.satfinite{.relu}.f8x2.f32", BINARY, Op.CVT, from_singles, (), _PAIR),
    Form("cvt.rn.satfinite{.relu}.f8x2.atype", UNARY, Op.CVT, from_packed, _HALVES, _UNPACKED),
    Form("cvt.rn{.relu}{.satfinite}.halves.atype", UNARY, Op.CVT, from_packed, _F8X2, _UNPACKED),
    Form(
        "cvt.rs.satfinite{.relu}.f8x4.f32",
        "d, {a,b,e,f}, rbits",
        Op.CVT_RS,
        four_by_chance,
        (),
        _CHANCE,
    ),
    *(
        Form(f"cvt.rn.satfinite{{.relu}}.s2f6x2.{given}", names, Op.CVT, to_fixed_point, (), _FIXED)
        for given, names in (("f32", BINARY), ("bf16x2", UNARY))
    ),
    Form("cvt.frnd3{.satfinite}.dtype.f32", BINARY, Op.CVT, from_singles, ("ue8m0x2",), _PAIR),
    Form("cvt.frnd3{.satfinite}.ue8m0x2.atype", UNARY, Op.CVT, from_packed, ("bf16x2",), _UNPACKED),
    Form("cvt.rn.bf16x2.atype", UNARY, Op.CVT, from_packed, ("ue8m0x2",), _UNPACKED),
    Form("cvt.rn{.relu}{.satfinite}.bf16x2.atype", UNARY, Op.CVT, cvt_scaled, ("s2f6x2",), _SCALED),
    Form(
        "cvt.rn{.relu}{.satfinite}.scaled::n2::ue8m0.bf16x2.atype",
        "d, a, scales",
        Op.CVT,
        cvt_scaled,
        (*_F8X2, "s2f6x2"),
        _SCALED,
    ),
    Form("cvt.pack.sat.dtype.s32", BINARY, Op.CVT, pack, ("u16", "s16"), _PACKED),
    Form("cvt.pack.sat.dtype.s32.b32", TERNARY, Op.CVT, pack, ("u8", "s8", *_QUARTER), _PACKED),
)
