"""Matrix products as LLVM text: on vectors of 16 lanes, two per warp register, or for a single lane
that has read the other lanes' fragments.

Each lane holds two columns of each of its rows of D. Per step it needs the elements of A that
one of its four lanes holds, and the elements of B that the lanes of two rows of eight hold: each
of these is a fixed permutation of lanes. Both factors are prepared in memory, once for all
products that use them: A in a form from which one shuffle within four lanes makes an operand, B
in one from which a broadcast load does.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Final

from vgpu_sim.exec.jit.arithmetic.matrix_factors import (
    LANES,
    Lanes,
    Parts,
    split_bytes,
    split_halves,
    split_nibbles,
    truncate,
)
from vgpu_sim.exec.jit.target import dot_products
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.isa import DataType, Instruction
from vgpu_sim.isa.rules import matrix_registers
from vgpu_sim.records import dataclass

QUAD: Final = 4
_EDGE: Final = 8
_BYTES: Final = 4
VECTOR_BYTES: Final = 4 * LANES
_SIGNS: Final = -0x7F7F_7F80  # 80808080
_SCALE: Final = 2.0**64
_LEAST: Final = 2.0**-62  # the smallest normal number, scaled


Halves = Sequence[str]
"""A register of a whole warp, as two vectors of 16 lanes."""


@dataclass(frozen=True, slots=True)
class Steps:
    """How a register of A and a register of B are multiplied, and the product is added to a total.

    ``left`` splits a register of A into parts, and ``right`` splits a register of B. ``parts`` has
    the numbers of these parts, first that of A. ``part_type`` is the LLVM type of a part. ``begin``
    converts an addend to a total. ``add`` takes a total and the parts of both registers, and
    returns the new total.
    """

    part_type: str
    parts: tuple[int, int]
    left: Callable[[str], Parts]
    right: Callable[[str], Parts]
    begin: Callable[[str], str]
    add: Callable[[str, Parts, Parts], str]


def step_arithmetic(lanes: Lanes, instruction: Instruction) -> Steps:
    """Return the arithmetic by which the steps of an MMA instruction multiply and accumulate."""
    match instruction.source_type:
        case DataType.BF16 if lanes.count == LANES and dot_products.native_pairs():
            return _pairs(lanes)
        case DataType.BF16:
            return _emulated_pairs(lanes)
        case DataType.F16:
            return _floats(lanes, 2, lambda register: split_halves(lanes, register))
        case DataType.TF32:
            return _floats(lanes, 1, lambda register: truncate(lanes, register))
        case DataType.E4M3 | DataType.E5M2 as type_:
            return _floats(lanes, 4, lambda register: split_bytes(lanes, register, type_))
        case DataType.E2M1:
            return _floats(lanes, 8, lambda register: split_nibbles(lanes, register))
        case _:
            return _bytes(lanes, instruction)


def prepare_left(lanes: Lanes, instruction: Instruction, a: Sequence[Halves], to: str) -> int:
    """Split the registers of A into parts, and store the parts at ``to``.

    Return the size of the stored parts in bytes.
    """
    how = step_arithmetic(lanes, instruction)
    parts = [part for register in a for half in register for part in how.left(half)]
    return _store(lanes, how, parts, to)


def prepare_right(lanes: Lanes, instruction: Instruction, b: Sequence[Halves], to: str) -> int:
    """Split the registers of B into parts, and store the parts at ``to`` in another order.

    In the stored order, every four consecutive elements are those that the four lanes of a quad
    need at the same step. Return the size of the stored parts in bytes.
    """
    how = step_arithmetic(lanes, instruction)
    columns = [
        QUAD * (2 * lane + odd) + place
        for place in range(QUAD)
        for odd in range(2)
        for lane in range(QUAD)
    ]
    parts = []
    for low, high in b:
        for pair in zip(how.right(low), how.right(high), strict=True):
            for first in range(0, 2 * LANES, LANES):
                parts.append(_permute(lanes, how, pair, columns[first : first + LANES]))
    return _store(lanes, how, parts, to)


def multiply(
    lanes: Lanes,
    instruction: Instruction,
    left: str,
    columns: Sequence[tuple[str, Sequence[Halves]]],
) -> list[list[list[str]]]:
    """Multiply A by each B and add the matching C; return a warp's totals for each pair (B, C).

    ``left`` is the address of the prepared factor A. Each pair in ``columns`` has the address of a
    prepared factor B, and the registers of C. C and the totals are float or i32.
    """
    how, text = step_arithmetic(lanes, instruction), lanes.text
    rows, depth, _ = matrix_registers(instruction)
    rows //= depth
    lefts, rights = how.parts
    vector, quad_type = lanes.type_of(how.part_type), f"<{QUAD} x {how.part_type}>"
    totals = [[[how.begin(half) for half in register] for register in c] for _, c in columns]

    def of_left(register: int, half: int, place: int) -> Parts:
        first = (2 * register + half) * lefts
        stored_parts = (_load(text, vector, left, VECTOR_BYTES * (first + n)) for n in range(lefts))
        quad = [QUAD * (lane // QUAD) + place for lane in range(LANES)]
        return tuple(_permute(lanes, how, (part, "poison"), quad) for part in stored_parts)

    def of_right(right: str, register: int, place: int, odd: int) -> Parts:
        parts = []
        for n in range(rights):
            at = 2 * VECTOR_BYTES * (register * rights + n) + 4 * QUAD * (2 * place + odd)
            row = _load(text, quad_type, right, at)
            order = ", ".join(f"i32 {lane % QUAD}" for lane in range(LANES))
            parts.append(
                text.let(
                    f"shufflevector {quad_type} {row}, {quad_type} poison,"
                    f" <{LANES} x i32> <{order}>"
                )
            )
        return tuple(parts)

    for block, place in product(range(depth), range(QUAD)):
        own = [
            [of_left(block * rows + row, half, place) for half in range(2)] for row in range(rows)
        ]
        for ((right, _), total), odd in product(zip(columns, totals, strict=True), range(2)):
            column_parts = of_right(right, block, place, odd)
            for row, halves in enumerate(own):
                to = total[2 * row + odd]
                for half, part in enumerate(halves):
                    to[half] = how.add(to[half], part, column_parts)
    return totals


def _store(lanes: Lanes, how: Steps, parts: Sequence[str], to: str) -> int:
    text = lanes.text
    for n, part in enumerate(parts):
        place = text.let(f"getelementptr i8, ptr {to}, i64 {VECTOR_BYTES * n}")
        text.do(f"store {lanes.type_of(how.part_type)} {part}, ptr {place}, align {VECTOR_BYTES}")
    return VECTOR_BYTES * len(parts)


def _load(text: Text, type_: str, base: str, offset: int) -> str:
    place = text.let(f"getelementptr i8, ptr {base}, i64 {offset}")
    return text.let(f"load {type_}, ptr {place}, align {VECTOR_BYTES if type_[1] == '1' else 16}")


def multiply_in_lane(
    lanes: Lanes,
    instruction: Instruction,
    read: Callable[[str, str], str],
    a: Sequence[str],
    b: Sequence[str],
    c: Sequence[str],
    lane: str,
) -> list[str]:
    """Multiply A by B and add C in one lane; return the lane's totals.

    ``read`` takes a register and the number of a lane. It returns the value of the register in that
    lane.
    """
    how, text = step_arithmetic(lanes, instruction), lanes.text
    rows, columns, _ = matrix_registers(instruction)
    rows //= columns
    totals = [how.begin(value) for value in c]
    quad = text.let(f"and i32 {lane}, -4")
    first = text.let(f"shl i32 {text.let(f'and i32 {lane}, 3')}, 3")
    for block in range(columns):
        for place in range(QUAD):
            at = text.let(f"or i32 {quad}, {place}")
            own = [how.left(read(a[block * rows + row], at)) for row in range(rows)]
            for odd in range(2):
                at = text.let(f"or i32 {first}, {QUAD * odd + place}")
                column_parts = how.right(read(b[block], at))
                for row, part in enumerate(own):
                    to = 2 * row + odd
                    totals[to] = how.add(totals[to], part, column_parts)
    return totals


def _permute(lanes: Lanes, how: Steps, pair: Sequence[str], places: Sequence[int]) -> str:
    type_ = lanes.type_of(how.part_type)
    order = ", ".join(f"i32 {place}" for place in places)
    return lanes.text.let(
        f"shufflevector {type_} {pair[0]}, {type_} {pair[1]}, <{LANES} x i32> <{order}>"
    )


def _same(value: str) -> str:
    return value


def _floats(lanes: Lanes, count: int, parts: Callable[[str], Parts]) -> Steps:
    def add(total: str, row: Parts, column: Parts) -> str:
        for x, y in zip(row, column, strict=True):
            total = lanes.call("fma", "float", x, y, total)
        return total

    return Steps("float", (count, count), parts, parts, _same, add)


def _pairs(lanes: Lanes) -> Steps:
    def add(total: str, row: Parts, column: Parts) -> str:
        pairs = "<32 x bfloat>"
        x, y = (
            lanes.text.let(f"bitcast <16 x i32> {parts[0]} to {pairs}") for parts in (row, column)
        )
        type_ = lanes.type_of("float")
        return lanes.text.call(type_, dot_products.DOT, (type_, total), (pairs, x), (pairs, y))

    return Steps("i32", (1, 1), lambda value: (value,), lambda value: (value,), _same, add)


def _emulated_pairs(lanes: Lanes) -> Steps:
    """Emulate VDPBF16PS by fused multiply-adds.

    To decide whether a result is tiny after rounding to 24 bits of an unbounded exponent, the
    same sum is computed scaled and compared. Where scaling overflows, the sum is far from tiny,
    or zero.
    """

    def flush_subnormals(bits: str) -> str:
        exponent = lanes.emit("and", "i32", bits, lanes.const("i32", str(0x7F80_0000)))
        flags = lanes.text.let(f"icmp eq {lanes.type_of('i32')} {exponent}, {zero}")
        sign = lanes.emit("and", "i32", bits, lanes.const("i32", str(-(1 << 31))))
        type_ = lanes.type_of("i32")
        return lanes.text.let(
            f"select {lanes.type_of('i1')} {flags}, {type_} {sign}, {type_} {bits}"
        )

    def numbers(register: str) -> tuple[str, str]:
        upper = lanes.emit("and", "i32", register, lanes.const("i32", "-65536"))
        low = lanes.emit("shl", "i32", register, lanes.const("i32", "16"))
        second, first = (
            lanes.bitcast(flush_subnormals(bits), "i32", "float") for bits in (upper, low)
        )
        return second, first

    def split_and_scale(register: str) -> Parts:
        second, first = numbers(register)
        return second, first, multiply_by_scale(second), multiply_by_scale(first)

    def multiply_by_scale(number: str) -> str:
        return lanes.emit("fmul", "float", number, lanes.const("float", f"0x{scale:016X}"))

    def begin(total: str) -> str:
        return lanes.bitcast(flush_subnormals(lanes.bitcast(total, "float", "i32")), "i32", "float")

    def add(total: str, row: Parts, column: Parts) -> str:
        type_ = lanes.type_of("float")
        for n in range(2):
            sum_ = lanes.call("fma", "float", row[n], column[n], total)
            large = lanes.call("fma", "float", row[2 + n], column[n], multiply_by_scale(total))
            size = lanes.call("fabs", "float", large)
            threshold = lanes.const("float", f"0x{limit:016X}")
            tiny = lanes.text.let(f"fcmp olt {type_} {size}, {threshold}")
            nothing = lanes.call("copysign", "float", lanes.const("float", "0.0"), sum_)
            total = lanes.text.let(
                f"select {lanes.type_of('i1')} {tiny}, {type_} {nothing}, {type_} {sum_}"
            )
        return total

    zero = "zeroinitializer" if lanes.count > 1 else "0"
    scale, limit = 0x43F0_0000_0000_0000, 0x3C10_0000_0000_0000
    return Steps("float", (4, 2), split_and_scale, numbers, begin, add)


def _bytes(lanes: Lanes, instruction: Instruction) -> Steps:
    signs = instruction.type is DataType.S32, instruction.source_type is DataType.S8
    if lanes.count == LANES and dot_products.native_bytes():
        return _native_bytes(lanes, *signs)

    def parts(register: str, signed: bool) -> Parts:
        byte_values = []
        for place in range(_BYTES):
            raised = lanes.emit("shl", "i32", register, lanes.const("i32", str(24 - 8 * place)))
            shift = "ashr" if signed else "lshr"
            byte_values.append(lanes.emit(shift, "i32", raised, lanes.const("i32", "24")))
        return tuple(byte_values)

    def add(total: str, row: Parts, column: Parts) -> str:
        for x, y in zip(row, column, strict=True):
            total = lanes.emit("add", "i32", total, lanes.emit("mul", "i32", x, y))
        return total

    left, right = (lambda value, s=sign: parts(value, s) for sign in signs)
    return Steps("i32", (_BYTES, _BYTES), left, right, _same, add)


def _native_bytes(lanes: Lanes, left: bool, right: bool) -> Steps:
    """Return sums by VPDPBUSD, which multiplies unsigned by signed bytes.

    For two signed factors, 128 is added to A's bytes, and 128 times B's sum is subtracted. For
    two unsigned ones, 128 is subtracted from B's bytes, and 128 times A's sum is added.
    """

    def dot(total: str, unsigned: str, signed: str) -> str:
        bytes_, type_ = "<64 x i8>", lanes.type_of("i32")
        x, y = (
            value
            if not value.startswith("%")
            else lanes.text.let(f"bitcast {type_} {value} to {bytes_}")
            for value in (unsigned, signed)
        )
        name = "llvm.x86.avx512.vpdpbusd.512"
        return lanes.text.call(type_, name, (type_, total), (bytes_, x), (bytes_, y))

    def flip_signs(value: str) -> str:
        return lanes.emit("xor", "i32", value, lanes.const("i32", str(_SIGNS)))

    def plain(value: str) -> Parts:
        return (value,)

    def add(total: str, row: Parts, column: Parts) -> str:
        if right and not left:
            return dot(total, row[0], column[0])
        if left and not right:
            return dot(total, column[0], row[0])
        total = dot(total, row[0], column[0])
        return lanes.emit("add", "i32", total, column[1] if left else row[1])

    def biased_right(value: str) -> Parts:
        # -128 * b: twice 64 * b, subtracted
        half = dot("zeroinitializer", "splat (i8 64)", value)
        twice = lanes.emit("shl", "i32", half, lanes.const("i32", "1"))
        return value, lanes.emit("sub", "i32", "zeroinitializer", twice)

    def biased_left(value: str) -> Parts:
        half = dot("zeroinitializer", value, "splat (i8 64)")
        return value, lanes.emit("shl", "i32", half, lanes.const("i32", "1"))

    if left and right:
        return Steps("i32", (1, 2), lambda value: (flip_signs(value),), biased_right, _same, add)
    if left != right:
        return Steps("i32", (1, 1), plain, plain, _same, add)
    return Steps("i32", (2, 1), biased_left, lambda value: (flip_signs(value),), _same, add)
