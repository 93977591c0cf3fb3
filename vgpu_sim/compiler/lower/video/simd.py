"""Lowers SIMD video instructions: to one instruction for all elements if that is exact, else to one
per element.

Source: PTX ISA, "SIMD Video Instructions".
"""

from vgpu_sim.compiler.lower import values
from vgpu_sim.compiler.lower.context import Context
from vgpu_sim.compiler.lower.forms import Form, Match
from vgpu_sim.compiler.lower.sequences import Sequence
from vgpu_sim.compiler.lower.symbols.types import DATA_TYPES
from vgpu_sim.compiler.lower.video import parts
from vgpu_sim.isa import Compare, DataType, Literal, MulMode, Op, Operand
from vgpu_sim.records import dataclass

D = DataType
_ELEMENTS = {(8, False): D.U8, (8, True): D.S8, (16, False): D.U16, (16, True): D.S16}
_SUMS = (Op.PADD, Op.PSUB)
_CHOOSE = Literal(0xCA)  # LOP3: a ? b : c


@dataclass(frozen=True, slots=True)
class _Simd:
    """One instruction: its operands, the parts that it reads and the elements that it writes."""

    op: Op
    count: int
    sources: tuple[Operand, Operand]
    chosen: tuple[tuple[int, ...], tuple[int, ...]]
    mask: tuple[int, ...]
    addend: Operand
    kinds: tuple[DataType, DataType]
    own: DataType
    saturate: bool
    accumulate: bool
    compare: Compare | None

    @property
    def bits(self) -> int:
        return 32 // self.count

    @property
    def is_one_word(self) -> bool:
        """True if the truncated elements alone determine the result."""
        alike = self.kinds[0] is self.kinds[1]
        if self.saturate:
            exceeds = self.op is Op.PABSDIFF and self.own.is_signed
            return alike and self.own is self.kinds[0] and not exceeds
        if self.op in _SUMS:
            return not self.accumulate
        return alike


def simd(context: Context, form: Form, match: Match) -> None:
    """Lower the SIMD video instructions: vadd2, vset4 and all others."""
    first, a, b, c = context.operands
    count = int(form.opcode[-1])
    usual = ("10", "32") if count == 2 else ("3210", "7654")
    to, mask = parts.packed_destination(context, first, count)
    x, x_parts = parts.packed_source(context, a, count, usual[0])
    y, y_parts = parts.packed_source(context, b, count, usual[1])
    operation = _Simd(
        form.op,
        count,
        (x, y),
        (x_parts, y_parts),
        mask,
        values.source(context, c, D.B32),
        (DATA_TYPES[match["atype"]], DATA_TYPES[match["btype"]]),
        DATA_TYPES[match.get("dtype") or "u32"],
        "sat" in match,
        "add" in match,
        Compare[match["order"].upper()] if "order" in match else None,
    )
    sequence = Sequence(context.builder)
    result = (
        _all_at_once(sequence, operation)
        if operation.is_one_word
        else _one_by_one(sequence, operation)
    )
    sequence.emit_to(to, Op.MOV, D.B32, result)


def _all_at_once(sequence: Sequence, operation: _Simd) -> Operand:
    x, y = (_gather(sequence, operation, chosen) for chosen in operation.chosen)
    element = _ELEMENTS[operation.bits, operation.kinds[0].is_signed]
    saturate = operation.saturate and operation.op in _SUMS  # the others stay in range
    result: Operand = sequence.emit(
        operation.op, D.B32, x, y, source_type=element, saturate=saturate, compare=operation.compare
    )
    if operation.accumulate:
        unsigned = operation.op in (Op.PABSDIFF, Op.PSET)
        kind = D.U32 if unsigned else operation.kinds[0]
        weights = Literal(sum(1 << 8 * place for place in operation.mask))
        op, mode = (Op.DP2A, MulMode.LO) if operation.count == 2 else (Op.DP4A, MulMode.NONE)
        return sequence.emit(
            op, kind, result, weights, operation.addend, source_type=D.U32, mode=mode
        )
    if len(operation.mask) < operation.count:
        field_mask = Literal(
            sum(((1 << operation.bits) - 1) << operation.bits * place for place in operation.mask)
        )
        result = sequence.emit(Op.LOP3, D.B32, field_mask, result, operation.addend, _CHOOSE)
    return result


def _gather(sequence: Sequence, operation: _Simd, chosen: tuple[int, ...]) -> Operand:
    """Return the elements that a selector chooses as one word."""
    for place, source in enumerate(operation.sources):
        if chosen == tuple(range(operation.count * place, operation.count * (place + 1))):
            return source
    size = operation.bits // 8
    octets = [part * size + byte for part in chosen for byte in range(size)]
    selector = sum(octet << 4 * place for place, octet in enumerate(octets))
    return sequence.emit(Op.PRMT, D.B32, *operation.sources, Literal(selector))


def _one_by_one(sequence: Sequence, operation: _Simd) -> Operand:
    result = operation.addend
    for place in operation.mask:
        x, y = (
            sequence.extract_bits(
                operation.sources[chosen[place] // operation.count],
                kind,
                chosen[place] % operation.count * operation.bits,
                operation.bits,
            )
            for chosen, kind in zip(operation.chosen, operation.kinds, strict=True)
        )
        value = _element(sequence, operation, x, y)
        if operation.saturate:
            clamped = _ELEMENTS[operation.bits, operation.own.is_signed]
            value = sequence.convert(value, D.S32, clamped, clamp=True)
        if operation.accumulate:
            result = sequence.emit(Op.ADD, D.S32, result, value)
        else:
            position, length = Literal(place * operation.bits), Literal(operation.bits)
            result = sequence.emit(Op.BFI, D.B32, value, result, position, length)
    return result


def _element(sequence: Sequence, operation: _Simd, x: Operand, y: Operand) -> Operand:
    """Return the result for numbers of at most 17 bits with their sign."""
    match operation.op:
        case Op.PADD:
            return sequence.emit(Op.ADD, D.S32, x, y)
        case Op.PSUB:
            return sequence.emit(Op.SUB, D.S32, x, y)
        case Op.PABSDIFF:
            return sequence.emit(Op.ABS, D.S32, sequence.emit(Op.SUB, D.S32, x, y))
        case Op.PMIN:
            return sequence.emit(Op.MIN, D.S32, x, y)
        case Op.PMAX:
            return sequence.emit(Op.MAX, D.S32, x, y)
        case Op.PAVG:
            total = sequence.emit(Op.ADD, D.S32, x, y)
            sign = sequence.emit(Op.SHR, D.S32, total, Literal(31))
            up = sequence.emit(Op.ADD, D.S32, total, Literal(1))
            return sequence.emit(Op.SHR, D.S32, sequence.emit(Op.ADD, D.S32, up, sign), Literal(1))
        case _:
            assert operation.compare is not None
            return sequence.compare_as_number(operation.compare, D.S32, x, y)
