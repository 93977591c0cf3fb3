"""The computation of atomic updates, and their forms in memory.

Only one worker thread accesses a block's shared memory, so that an update there is a load and a
store. Global memory is updated by the CPU's atomic instructions, or else by compare and swap.
"""

from typing import Final

from vgpu_sim.exec.jit.analysis.nans import CANONICAL, INFINITY
from vgpu_sim.exec.jit.arithmetic.floats import NATIVE, flush_bits
from vgpu_sim.exec.jit.arithmetic.small_floats import SmallFloats
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.isa import DataType, Instruction, Rounding, Update
from vgpu_sim.isa.families.atomic import (
    MBARRIER_COUNT,
    MBARRIER_EXPECTED,
    MBARRIER_PENDING,
    MBARRIER_TRANSACTION_MASK,
    MBARRIER_TRANSACTIONS,
)

_PLAIN: Final = {
    Update.AND: "and",
    Update.OR: "or",
    Update.XOR: "xor",
    Update.ADD: "add",
}
_ATOMIC: Final = {
    **_PLAIN,
    Update.EXCH: "xchg",
    Update.INC: "uinc_wrap",
    Update.DEC: "udec_wrap",
}
MBARRIER: Final = (Update.ARRIVE, Update.DROP, Update.TX)
"""The updates of mbarrier objects."""
JOINABLE: Final = frozenset((*_PLAIN, Update.MIN, Update.MAX))
"""Integer updates whose operands may be combined over lanes before memory is updated."""


def _extreme(instruction: Instruction) -> str:
    """Return LLVM's name of an integer minimum or maximum, such as ``umin``."""
    sign = "s" if instruction.type.is_signed else "u"
    return sign + ("min" if instruction.update is Update.MIN else "max")


def updated_value(
    text: Text, instruction: Instruction, m: str, b: str, *, flushed: str = "", vector: bool = False
) -> str:
    """Return the value with which an atomic update replaces ``m``, given the operand ``b``.

    ``flushed`` is an i1 that is true if subnormal numbers are flushed; empty if they never are.
    """
    scalar, update = integer(instruction.type.bits), instruction.update
    type_ = text.type_of(scalar, vector)
    if instruction.type.is_float and update is Update.ADD:
        return _sum(text, instruction.type, m, b, flushed, vector)
    if instruction.type.is_float:
        return _float_extremum(text, instruction, m, b, vector)
    if update in _PLAIN:
        return text.let(f"{_PLAIN[update]} {type_} {m}, {b}")
    if update in (Update.MIN, Update.MAX):
        return text.intrinsic(_extreme(instruction), scalar, vector, m, b)
    if update is Update.EXCH:
        return b
    if update in MBARRIER:
        return _update_mbarrier(text, m, b, update)
    zero, unit = (text.const(n, scalar, vector) for n in (0, 1))
    if update is Update.INC:
        wraps = text.let(f"icmp uge {type_} {m}, {b}")
        return text.select(wraps, zero, text.let(f"add {type_} {m}, {unit}"), scalar, vector)
    assert update is Update.DEC
    flags = text.type_of("i1", vector)
    is_zero = text.let(f"icmp eq {type_} {m}, {zero}")
    above = text.let(f"icmp ugt {type_} {m}, {b}")
    wraps = text.let(f"or {flags} {is_zero}, {above}")
    return text.select(wraps, b, text.let(f"sub {type_} {m}, {unit}"), scalar, vector)


def _update_mbarrier(text: Text, m: str, b: str, update: Update | None) -> str:
    """Return an mbarrier object after arrivals or transactions, in the layout of
    ``isa.families.atomic``.
    """
    counts = MBARRIER_COUNT << MBARRIER_EXPECTED
    threads, bytes_ = (
        mask << first
        for mask, first in (
            (MBARRIER_COUNT, MBARRIER_PENDING),
            (MBARRIER_TRANSACTION_MASK, MBARRIER_TRANSACTIONS),
        )
    )
    begins = m
    if update is Update.DROP:
        begins = text.let(f"sub i64 {m}, {text.let(f'shl i64 {b}, {MBARRIER_EXPECTED}')}")
    begins = text.let(f"and i64 {begins}, {counts}")
    pending, waiting = m, m
    if update is Update.TX:
        step = text.let(f"shl i64 {b}, {MBARRIER_TRANSACTIONS}")
        waiting = text.let(f"add i64 {m}, {step}")
    else:
        pending = text.let(f"sub i64 {m}, {text.let(f'shl i64 {b}, {MBARRIER_PENDING}')}")
    pending = text.let(f"and i64 {pending}, {threads}")
    waiting = text.let(f"and i64 {waiting}, {bytes_}")
    complete = text.let(f"icmp eq i64 {text.let(f'or i64 {pending}, {waiting}')}, 0")
    again = text.let(f"lshr i64 {begins}, {MBARRIER_EXPECTED - MBARRIER_PENDING}")
    pending = text.select(complete, again, pending, "i64", False)
    parity = text.let(f"xor i64 {m}, {text.let(f'zext i1 {complete} to i64')}")
    parity = text.let(f"and i64 {parity}, 1")
    whole = text.let(f"or i64 {text.let(f'or i64 {begins}, {pending}')}, {waiting}")
    return text.let(f"or i64 {whole}, {parity}")


def plainly(
    text: Text, instruction: Instruction, pointer: str, operands: list[str], flushed: str
) -> str:
    """Update memory that no other thread accesses concurrently; return the former value."""
    scalar = integer(instruction.type.bits)
    former_value = text.let(f"load {scalar}, ptr {pointer}, align 1")
    if instruction.update is Update.CAS:
        expected, replacement = operands
        is_equal = text.let(f"icmp eq {scalar} {former_value}, {expected}")
        value = text.select(is_equal, replacement, former_value, scalar, False)
    else:
        value = updated_value(text, instruction, former_value, operands[0], flushed=flushed)
    text.do(f"store {scalar} {value}, ptr {pointer}, align 1")
    return former_value


def atomically(
    text: Text, instruction: Instruction, pointer: str, operands: list[str], flushed: str
) -> str:
    """Update memory by an atomic instruction or a compare-and-swap; return the former value."""
    scalar, align = integer(instruction.type.bits), instruction.type.bytes
    update = instruction.update
    if update is Update.CAS:
        expected, replacement = operands
        return _compare_and_swap(text, scalar, pointer, expected, replacement, align)[0]
    if instruction.type.is_float or update in MBARRIER:
        again = text.label("again")
        first_read = _volatile(text, scalar, pointer, align)
        origin = text.block_label
        text.jump(again)
        text.begin(again, follows=True)
        place, compared = text.reserve(), text.name()
        value = updated_value(text, instruction, compared, operands[0], flushed=flushed)
        swapped_out, is_swapped = _compare_and_swap(text, scalar, pointer, compared, value, align)
        end, onward = text.block_label, text.label("updated")
        text.fill(place, compared, scalar, [(first_read, origin), (swapped_out, end)])
        text.branch(is_swapped, onward, again)
        text.begin(onward, follows=True)
        return compared
    how = _ATOMIC[update] if update in _ATOMIC else _extreme(instruction).removeprefix("s")
    name = text.name()
    text.do(
        f"{name} = atomicrmw {how} ptr {pointer}, {scalar} {operands[0]} seq_cst, align {align}"
    )
    text.known.invalidate_loads()
    return name


def exchange_pair(
    text: Text, instruction: Instruction, pointer: str, operands: list[str], *, alone: bool
) -> list[str]:
    """Exchange, or compare and exchange, 128 bits; return the halves of the former value.

    ``alone`` states that no other thread accesses these bits concurrently.
    """
    *expected, replacement = (_join(text, *operands[n : n + 2]) for n in range(0, len(operands), 2))
    if alone:
        former_value = text.let(f"load i128, ptr {pointer}, align 1")
        value = replacement
        if expected:
            is_equal = text.let(f"icmp eq i128 {former_value}, {expected[0]}")
            value = text.let(f"select i1 {is_equal}, i128 {replacement}, i128 {former_value}")
        text.do(f"store i128 {value}, ptr {pointer}, align 1")
    elif expected:
        former_value, _ = _compare_and_swap(text, "i128", pointer, expected[0], replacement, 16)
    else:
        former_value = text.name()
        text.do(
            f"{former_value} = atomicrmw xchg ptr {pointer}, i128 {replacement} seq_cst, align 16"
        )
    text.known.invalidate_loads()
    upper = text.let(f"lshr i128 {former_value}, 64")
    return [text.let(f"trunc i128 {whole} to i64") for whole in (former_value, upper)]


def _join(text: Text, low: str, high: str) -> str:
    wide = [text.let(f"zext i64 {half} to i128") for half in (low, high)]
    return text.let(f"or i128 {wide[0]}, {text.let(f'shl i128 {wide[1]}, 64')}")


def reduce_lanes(
    text: Text, instruction: Instruction, rows: list[str], lanes: list[str] | None
) -> str:
    """Combine the operands of all lanes into a single operand. The instruction's update is in
    ``JOINABLE``.

    ``rows`` are the vectors of operands. ``lanes`` has a mask for each of these vectors; operands
    of lanes outside the mask are ignored. If ``lanes`` is None, all operands are used.
    """
    scalar, bits = integer(instruction.type.bits), instruction.type.bits
    if lanes is not None:
        nothing = text.const(_identity(instruction), scalar, True)
        rows = [
            text.select(flags, row, nothing, scalar, True)
            for flags, row in zip(lanes, rows, strict=True)
        ]
    joined = rows[0]
    for row in rows[1:]:
        joined = updated_value(text, instruction, joined, row, vector=True)
    assert instruction.update is not None
    operation = _PLAIN.get(instruction.update) or _extreme(instruction)
    name = f"llvm.vector.reduce.{operation}.v{text.width}i{bits}"
    return text.call(scalar, name, (text.type_of(scalar, vector=True), joined))


def prefix_sums(text: Text, scalar: str, row: str) -> str:
    """Return the inclusive prefix sums of a vector."""
    type_, distance = text.type_of(scalar, vector=True), 1
    while distance < text.width:  # zeros are shifted in
        lanes = range(text.width)
        places = [i - distance if i >= distance else text.width for i in lanes]
        order = ", ".join(f"i32 {place}" for place in places)
        indices = f"<{text.width} x i32> <{order}>"
        moved = text.let(f"shufflevector {type_} {row}, {type_} zeroinitializer, {indices}")
        row = text.let(f"add {type_} {row}, {moved}")
        distance *= 2
    return row


def _identity(instruction: Instruction) -> int:
    all_ones = (1 << instruction.type.bits) - 1
    half = all_ones >> 1
    match instruction.update:
        case Update.AND:
            return all_ones
        case Update.MIN:
            return half if instruction.type.is_signed else all_ones
        case Update.MAX:
            return half + 1 if instruction.type.is_signed else 0
        case _:
            return 0


def _volatile(text: Text, scalar: str, pointer: str, align: int) -> str:
    name = text.name()
    text.do(f"{name} = load volatile {scalar}, ptr {pointer}, align {align}")
    return name


def _compare_and_swap(
    text: Text, scalar: str, pointer: str, expected: str, replacement: str, align: int
) -> tuple[str, str]:
    """Compare and swap; return the former value, and whether it was ``expected``."""
    pair = text.name()
    text.do(
        f"{pair} = cmpxchg ptr {pointer}, {scalar} {expected}, {scalar} {replacement}"
        f" seq_cst seq_cst, align {align}"
    )
    text.known.invalidate_loads()
    pair_type = f"{{ {scalar}, i1 }}"
    former_value, is_swapped = (
        text.let(f"extractvalue {pair_type} {pair}, {place}") for place in (0, 1)
    )
    return former_value, is_swapped


def _sum(text: Text, type_: DataType, m: str, b: str, flushed: str, vector: bool) -> str:
    """Return m + b rounded to nearest, with canonical NaNs."""
    scalar = integer(type_.bits)
    whole = text.type_of(scalar, vector)
    if type_ not in NATIVE:
        # Double rounding is harmless: binary32 has more than twice the digits, plus two (Figueroa).
        small = SmallFloats(text, vector)
        a, c = (small.to_single(value, type_) for value in (m, b))
        total = text.let(f"fadd {text.type_of('float', vector)} {a}, {c}")
        return small.round_to_small(total, type_, Rounding.RN)
    float_type = text.type_of(NATIVE[type_], vector)

    def flush(bits: str) -> str:
        if not flushed:
            return bits
        zeros = flush_bits(text, bits, type_, vector)
        return zeros if flushed == "true" else text.select(flushed, zeros, bits, scalar, vector)

    numbers = [text.let(f"bitcast {whole} {flush(value)} to {float_type}") for value in (m, b)]
    total = text.let(f"fadd {float_type} {numbers[0]}, {numbers[1]}")
    is_nan = text.let(f"fcmp uno {float_type} {total}, {total}")
    bits = flush(text.let(f"bitcast {float_type} {total} to {whole}"))
    return text.select(is_nan, text.const(CANONICAL[type_], scalar, vector), bits, scalar, vector)


def _float_extremum(text: Text, instruction: Instruction, m: str, b: str, vector: bool) -> str:
    """Return the minimum or maximum of two floats, as bit patterns.

    Of a number and a NaN, that is the number; -0 is less than +0.
    """
    type_ = instruction.type
    scalar = integer(type_.bits)
    whole, sign = text.type_of(scalar, vector), 1 << (type_.bits - 1)

    def const(pattern: int) -> str:
        return text.const(pattern, scalar, vector)

    def to_ordered_key(bits: str) -> str:
        negative = text.let(f"icmp slt {whole} {bits}, {const(0)}")
        inverse = text.let(f"xor {whole} {bits}, {const(-1)}")
        upper = text.let(f"or {whole} {bits}, {const(sign)}")
        return text.select(negative, inverse, upper, scalar, vector)

    def is_nan(bits: str) -> str:
        magnitude = text.let(f"and {whole} {bits}, {const(sign - 1)}")
        return text.let(f"icmp ugt {whole} {magnitude}, {const(INFINITY[type_])}")

    relation = "ult" if instruction.update is Update.MIN else "uge"
    better = text.let(f"icmp {relation} {whole} {to_ordered_key(m)}, {to_ordered_key(b)}")
    result = text.select(better, m, b, scalar, vector)
    result = text.select(is_nan(m), b, result, scalar, vector)
    result = text.select(is_nan(b), m, result, scalar, vector)
    canonical = const(CANONICAL[type_])
    return text.select(is_nan(result), canonical, result, scalar, vector)
