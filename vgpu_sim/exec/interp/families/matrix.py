"""Matrix products and loads: fragments are gathered into matrices, which are multiplied.

Floats are added in binary64, rounded to odd, and rounded once to binary32.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.errors import BadAddress
from vgpu_sim.exec.interp.accesses import check_alignment, fault
from vgpu_sim.exec.interp.collective_operands import (
    LANES,
    U32,
    CollectiveOperands,
    Results,
    rows_of,
)
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import WARP_LANES, Bits, Mask
from vgpu_sim.exec.interp.numbers.formats import (
    FORMATS,
    Doubles,
    flush,
    narrow,
    sum_to_odd,
    widen,
    widen_scales,
)
from vgpu_sim.exec.interp.operands import read_bits
from vgpu_sim.isa import DataType, Instruction, Op

_EDGE: Final = 8
_ROW_BYTES: Final = 16
_G, _T = LANES // 4, LANES % 4
_VIEWS: Final = {
    DataType.F16: np.uint16,
    DataType.BF16: np.uint16,
    DataType.TF32: np.uint32,
    DataType.E4M3: np.uint8,
    DataType.E5M2: np.uint8,
    DataType.E2M1: np.uint8,
    DataType.U8: np.uint8,
    DataType.S8: np.int8,
}
_TINY: Final = 2.0**-126 - 2.0**-151
"""The smallest exact magnitude that rounds, at 24 bits of an unbounded exponent, to a normal
binary32 number.
"""


def gather(lanes: Lanes, instruction: Instruction) -> CollectiveOperands:
    """Read the operands of a matrix instruction, in rows of 32 lanes."""
    numbers = tuple(rows_of(read_bits(lanes, s, 32), lanes) for s in instruction.srcs)
    return CollectiveOperands(numbers, np.zeros(numbers[0].shape, dtype=np.bool_))


def compute_results(
    lanes: Lanes, instruction: Instruction, operands: CollectiveOperands, together: U32
) -> Results:
    """Return the results of a matrix instruction, one for each destination."""
    return _RESULTS[instruction.op](lanes, instruction, operands, together != 0)


def _multiply(
    lanes: Lanes, instruction: Instruction, operands: CollectiveOperands, present: Mask
) -> Results:
    shape, factor = instruction.matrix, instruction.source_type
    assert shape is not None
    assert factor is not None
    registers = [np.where(present, number, np.uint32(0)) for number in operands.numbers]
    count = shape.rows // 4
    totals = registers[-count:]
    each = 8 if factor is DataType.E2M1 else 32 // max(8, factor.bits)
    columns = (len(registers) - count) // (shape.rows // _EDGE + 1)
    left, right = registers[: -count - columns], registers[-count - columns : -count]
    a = np.zeros((len(present), shape.rows, shape.depth), _VIEWS[factor])
    for i, register in enumerate(left):
        block, upper = divmod(i, shape.rows // _EDGE)
        for n, elements in enumerate(_elements(register, factor, each)):
            a[:, _G + _EDGE * upper, _T * each + n + 4 * each * block] = elements
    b = np.zeros((len(present), shape.depth, _EDGE), _VIEWS[factor])
    for block, register in enumerate(right):
        for n, elements in enumerate(_elements(register, factor, each)):
            b[:, _T * each + n + 4 * each * block, _G] = elements
    c = np.zeros((len(present), shape.rows, _EDGE), np.uint32)
    for i, register in enumerate(totals):
        c[:, _G + _EDGE * (i // 2), 2 * _T + i % 2] = register
    if instruction.type is DataType.F32:
        d = add_products(a, b, c, factor)
    else:
        signed = (instruction.type is DataType.S32, factor is DataType.S8)
        x, y = (
            part.view(np.int8 if sign else np.uint8).astype(np.int64)
            for part, sign in zip((a, b), signed, strict=True)
        )
        d = ((x @ y + c) & 0xFFFF_FFFF).astype(np.uint32)
    return tuple(d[:, _G + _EDGE * (i // 2), 2 * _T + i % 2] for i in range(count))


def _elements(register: Bits, factor: DataType, each: int) -> Sequence[Bits]:
    """Return the elements of packed registers, the lowest first."""
    if factor is DataType.E2M1:
        return [register >> np.uint32(4 * n) & np.uint32(15) for n in range(each)]
    parts = np.ascontiguousarray(register.astype("<u4")).view(_VIEWS[factor])
    return [parts[:, n::each] for n in range(each)]


def add_exact_products(x: Doubles, y: Doubles, c: Bits) -> Bits:
    """Return C plus products in the order of depth; each must be exact in binary64."""
    for k in range(x.shape[-1]):
        with np.errstate(all="ignore"):
            exact = sum_to_odd(x[:, :, k, None] * y[:, None, k, :], widen(c, DataType.F32))
        c = narrow(exact, DataType.F32)
    return c


def add_products(a: Bits, b: Bits, c: Bits, factor: DataType) -> Bits:
    """Return C plus the product of A and B, for factors of a type of MMA."""
    depth = a.shape[-1]
    order = np.arange(depth)
    if factor is DataType.BF16:
        order, (a, b) = order ^ 1, (flush(part, FORMATS[factor]) for part in (a, b))
    x, y = _numbers(a, factor), _numbers(b, factor)
    for k in order:
        if factor is DataType.BF16:
            c = flush(c, FORMATS[DataType.F32])
        with np.errstate(all="ignore"):
            exact = sum_to_odd(x[:, :, k, None] * y[:, None, k, :], widen(c, DataType.F32))
        c = narrow(exact, DataType.F32)
        if factor is DataType.BF16:
            c = np.where(np.abs(exact) < _TINY, c & np.uint32(1 << 31), c)
    return c


def _numbers(patterns: Bits, factor: DataType) -> Doubles:
    if factor is DataType.TF32:
        return widen(patterns & np.uint32(0xFFFF_E000), DataType.F32)
    return widen(patterns, factor)


def _scale(
    lanes: Lanes, instruction: Instruction, operands: CollectiveOperands, present: Mask
) -> Results:
    type_, blocks = instruction.source_type, instruction.vector
    assert type_ is not None
    registers = [np.where(present, number, np.uint32(0)) for number in operands.numbers]
    *sums, left, right = registers[:-4]
    totals = [widen(addend.astype(np.uint32), DataType.F32) for addend in registers[-4:]]
    for j in range(blocks):
        a, b = (_scale_numbers(word, type_, j) for word in (left, right))
        for i in range(4):
            row = a[:, 4 * _G + i // 2]
            column = b[:, 4 * (2 * _T + i % 2)]
            totals[i] = add_scaled_sums(totals[i], sums[4 * j + i], row, column)
    return tuple(narrow(total, DataType.F32) for total in totals)


def add_scaled_sums(totals: Doubles, sums: Bits, a: Doubles, b: Doubles) -> Doubles:
    """Return totals plus the sums of a block's products (patterns of binary32) times both scales,
    rounded once to binary64: the order of sums with block scales.
    """
    with np.errstate(all="ignore"):
        scaled_totals: Doubles = totals + widen(sums.astype(np.uint32), DataType.F32) * (a * b)
    return scaled_totals  # the products are exact


def _scale_numbers(word: Bits, type_: DataType, place: int) -> Doubles:
    """Return the scales at a byte of each lane's word."""
    return widen_scales(word >> np.uint32(8 * place) & np.uint32(0xFF), type_)


def _load(
    lanes: Lanes, instruction: Instruction, operands: CollectiveOperands, present: Mask
) -> Results:
    count = instruction.vector
    reading = present & (_EDGE * count > LANES)
    mask: Mask = np.zeros(lanes.lanes, np.bool_)
    begin = operands.first * WARP_LANES
    mask[begin : begin + reading.size] = reading.reshape(-1)
    addresses = operands.numbers[0][reading].astype(np.uint64)
    check_alignment(lanes, instruction, mask, addresses, _ROW_BYTES)
    words: NDArray[np.uint32] = np.zeros((*present.shape, 4), np.uint32)
    for place in range(4):
        at = addresses + np.uint64(4 * place)
        try:
            loaded = lanes.spaces.load(instruction.space, at, mask, 4)
        except BadAddress as error:
            raise fault(lanes, instruction, mask, at, error.address) from error
        words[..., place][reading] = loaded.astype(np.uint32)
    rows = words.reshape(-1, WARP_LANES // _EDGE, _EDGE, 4)[:, :count]
    if not instruction.transposed:
        return tuple(rows[:, i][:, _G, _T] for i in range(count))
    halves = np.ascontiguousarray(rows).astype("<u4").view(np.uint16)
    pairs = [[halves[:, i][:, 2 * _T + odd, _G] for odd in range(2)] for i in range(count)]
    return tuple(low | high.astype(np.uint32) << np.uint32(16) for low, high in pairs)


_RESULTS: Final[dict[Op, Callable[[Lanes, Instruction, CollectiveOperands, Mask], Results]]] = {
    Op.MMA: _multiply,
    Op.MMA_SCALE: _scale,
    Op.LDMATRIX: _load,
}
GATHERS: Final[Sequence[Op]] = tuple(_RESULTS)
"""The opcodes at which lanes wait for each other (``gathering``)."""
