"""TMMA: the product of one thread in the shared and tensor memory of its block."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.families.matrix import add_exact_products, add_products
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask
from vgpu_sim.exec.interp.numbers.formats import Doubles, narrow, widen, widen_scales
from vgpu_sim.exec.interp.operands import read_bits, write_bits
from vgpu_sim.hal.compute.tensor_memory import (
    TENSOR_COLUMNS,
    TENSOR_FIRST_BYTE,
    TENSOR_LANES,
)
from vgpu_sim.isa import DataType, Instruction, Op

_ROW_BYTES: Final = 32
_CHUNK_BYTES: Final = 16
_EDGE: Final = 8
_F16, _TF32, _F8F6F4, _I8, _MXF8F6F4 = range(5)
_SIZES: Final = {_F16: 2, _TF32: 4}
_FORMATS: Final = {
    0: DataType.E4M3,
    1: DataType.E5M2,
    3: DataType.E2M3,
    4: DataType.E3M2,
    5: DataType.E2M1,
}
_Bytes = NDArray[np.uint8]
_SWIZZLES: Final = {0: 0, 6: 1, 4: 2}  # others: 3


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of TMMA, of which ``instruction`` is the instruction descriptor."""

    kind: int
    d: int
    a: int
    b: int
    instruction: int
    flags: int
    scales: tuple[int, int]
    shift: int
    shared_bytes: int
    mask: tuple[int, ...]

    def field(self, first: int, bits: int) -> int:
        return self.instruction >> first & ((1 << bits) - 1)

    @property
    def scaled(self) -> bool:
        return self.kind >= _MXF8F6F4

    @property
    def rows(self) -> int:
        rows = self.field(27, 2) << 7 if self.scaled else self.field(24, 5) << 4
        return 64 if rows == 64 else TENSOR_LANES

    @property
    def columns(self) -> int:
        return min(self.field(17, 6) << 3, 256)

    @property
    def size(self) -> int:
        return _SIZES.get(self.kind, 1)


def _decode(words: list[int]) -> _Words:
    a, b = words[2] | words[3] << 32, words[4] | words[5] << 32
    return _Words(
        words[0], words[1], a, b, words[6], words[7], (words[8], words[9]), words[10],
        words[11], tuple(words[12:]),
    )  # fmt: skip


class _OutsideError(Exception):
    """A row of a matrix is outside the block's shared memory."""


def _places(descriptor: int, rows: int, words: _Words, *, across: bool) -> NDArray[np.int64]:
    """Return the addresses of the 16 bytes of each row, or of each element of depth: an array of
    two dimensions.
    """
    mode = descriptor >> 61
    shift = _SWIZZLES.get(mode, 3)
    start, leading, stride = ((descriptor >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    line, pattern = 16 << shift, (descriptor >> 49 & 7) << 7
    if across:
        beside, along = (stride, leading) if shift == 0 else (leading, stride)
        near = beside if shift == 0 else _CHUNK_BYTES
        k = np.arange(_ROW_BYTES // words.size)[:, None]
        chunk = np.arange(-(-rows // (_CHUNK_BYTES // words.size)))
        place = start + k % _EDGE * line + k // _EDGE * along
        place = place + (chunk & ((1 << shift) - 1)) * near + (chunk >> shift) * beside
    else:
        row, half = np.arange(rows)[:, None], np.arange(2)
        place = start + row % _EDGE * line + row // _EDGE * stride
        place = place + half * (leading if shift == 0 else _CHUNK_BYTES)
    distance = (place - pattern) & 0xFFFF_FFFF
    place = place ^ (distance >> 2 & 0x60 if mode == 1 else distance >> 3 & (line - 16))
    if (place > min(words.shared_bytes, TENSOR_FIRST_BYTE) - _CHUNK_BYTES).any():
        raise _OutsideError
    return np.asarray(place, np.int64)


def _gather(memory: _Bytes, descriptor: int, rows: int, words: _Words, *, across: bool) -> _Bytes:
    """Return rows of 32 bytes, in the order of depth."""
    place = _places(descriptor, rows, words, across=across)
    found: _Bytes = memory[place[..., None] + np.arange(_CHUNK_BYTES)]
    if not across:
        return found.reshape(rows, _ROW_BYTES)
    depth = len(found)
    elements = found.reshape(depth, -1, words.size)[:, :rows]
    return np.ascontiguousarray(elements.transpose(1, 0, 2)).reshape(rows, _ROW_BYTES)


def _lanes(address: int, words: _Words) -> NDArray[np.int64]:
    """Return the lanes of the rows of a matrix in tensor memory."""
    row = np.arange(words.rows)
    inside = row // 16 * 32 + row % 16 if words.rows == TENSOR_LANES // 2 else row
    return ((address >> 16) + inside) % TENSOR_LANES


def _codes(rows: _Bytes, format_: DataType, *, in_tensor: bool) -> _Bytes:
    """Return the codes of 8-bit containers: see ``container`` in ``tensor.c``."""
    if format_ in (DataType.E4M3, DataType.E5M2):
        return rows
    four = format_ is DataType.E2M1
    if in_tensor:
        bytes_: _Bytes = (rows >> 2 & 15 if four else rows & 63).astype(np.uint8)
        return bytes_
    width = 4 if four else 6
    parts = rows.reshape(len(rows), 2, _CHUNK_BYTES).astype(np.uint32)
    bit = np.arange(16) * width
    word = parts[..., bit // 8] | parts[..., bit // 8 + 1] << np.uint32(8)
    codes = word >> (bit % 8).astype(np.uint32) & np.uint32((1 << width) - 1)
    return codes.astype(np.uint8).reshape(len(rows), _ROW_BYTES)


def _values(
    rows: _Bytes, words: _Words, format_bits: int, *, in_tensor: bool, negated: bool
) -> Doubles:
    """Return the elements of a factor as numbers."""
    if words.kind == _F16:
        found = widen(rows.view("<u2"), DataType.F16)
    elif words.kind == _TF32:
        found = widen(rows.view("<u4") & np.uint32(0xFFFF_E000), DataType.F32)
    elif words.kind in (_F8F6F4, _MXF8F6F4):
        format_ = _FORMATS.get(format_bits, DataType.E4M3)
        found = widen(_codes(rows, format_, in_tensor=in_tensor), format_)
    else:
        halves = np.stack([rows & 15, rows >> 4], axis=-1).reshape(len(rows), -1)
        found = widen(halves, DataType.E2M1)
    return -found if negated else found


def _scales(
    memory: NDArray[np.uint32], words: _Words, which: int, rows: int, depth: int
) -> Doubles:
    """Return the scales of a factor's elements."""
    address = words.scales[which]
    row = np.arange(rows)
    lane = ((address >> 16) + row % 32) % TENSOR_LANES
    column = ((address & 0xFFFF) + row // 32) % TENSOR_COLUMNS
    place = words.field((29, 4)[which], 2) + np.arange(depth) // (64 >> (words.flags >> 2 & 3))
    codes = memory[lane, column][:, None] >> (place % 4 * 8).astype(np.uint32) & np.uint32(0xFF)
    return widen_scales(codes, DataType.UE8M0 if words.field(23, 1) else DataType.E4M3)


def _scaled(values: Doubles, memory: NDArray[np.uint32], words: _Words, which: int) -> Doubles:
    scales = _scales(memory, words, which, *values.shape)
    return (values.astype(np.float32) * scales.astype(np.float32)).astype(np.float64)


def _addends(before: Bits, words: _Words, *, halves: bool) -> Bits:
    if not words.flags & 1:
        return np.zeros_like(before)
    if halves:
        before = narrow(widen(before.astype(np.uint16), DataType.F16), DataType.F32)
    if words.shift:
        numbers = before.view(np.float32) * np.float32(2.0**-words.shift)
        before = numbers.view(np.uint32)
    return before


def _multiply(memory: _Bytes, words: _Words) -> None:
    tensor = memory[TENSOR_FIRST_BYTE:][: TENSOR_LANES * TENSOR_COLUMNS * 4].view("<u4")
    tensor = tensor.reshape(TENSOR_LANES, TENSOR_COLUMNS)
    rows, columns, in_tensor = words.rows, words.columns, bool(words.flags & 2)
    right = _gather(memory, words.b, columns, words, across=bool(words.field(16, 1)))
    if in_tensor:
        first, lanes = words.a & 0xFFFF, _lanes(words.a & 0xFFFF_FFFF, words)
        left = np.ascontiguousarray(tensor[lanes, first : first + 8]).view(np.uint8)
    else:
        left = _gather(memory, words.a, rows, words, across=bool(words.field(15, 1)))
    halves = words.kind in (_F16, _F8F6F4) and words.field(4, 2) == 0
    lanes, first = _lanes(words.d, words), words.d & 0xFFFF
    before = tensor[lanes, first : first + columns]
    c = _addends(before, words, halves=halves)
    negated = bool(words.field(13, 1)), bool(words.field(14, 1))
    if words.kind == _I8:
        m, n = (
            part.view(np.int8 if words.field(at, 3) else np.uint8).astype(np.int64)
            for part, at in ((left, 7), (right, 10))
        )
        d = ((m @ n.T + c) & 0xFFFF_FFFF).astype(np.uint32)
    elif words.kind == _F16 and words.field(7, 3) == 1:
        pair = [
            part.view("<u2") ^ np.uint16(0x8000 * sign)
            for part, sign in zip((left, right), negated, strict=True)
        ]
        d = add_products(pair[0][None], pair[1].T[None], c[None], DataType.BF16)[0]
    else:
        bits = 7 if not words.scaled or words.kind == _MXF8F6F4 else 3
        x = _values(left, words, words.field(7, 3), in_tensor=in_tensor, negated=negated[0])
        y = _values(right, words, words.field(10, 3) & bits, in_tensor=False, negated=negated[1])
        if words.scaled:
            x, y = _scaled(x, tensor, words, 0), _scaled(y, tensor, words, 1)
        d = add_exact_products(x[None], y.T[None], c[None])[0]
    if halves:
        d = narrow(widen(d, DataType.F32), DataType.F16).astype(np.uint32)
    masks = np.array(words.mask, np.uint32)[lanes // 32] >> (lanes % 32).astype(np.uint32)
    written = masks & np.uint32(1) == 0
    tensor[lanes[written], first : first + columns] = d[written]


def _execute(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    numbers = [
        np.broadcast_to(read_bits(warp, source, 32), warp.lanes) for source in instruction.srcs
    ]
    results = np.zeros(warp.lanes, np.uint32)
    for lane in np.flatnonzero(mask):
        words = _decode([int(number[lane]) for number in numbers])
        with np.errstate(all="ignore"):
            results[lane] = _result(warp.spaces.block_bytes(int(lane)), words)
    write_bits(warp, instruction.dsts[0], results, DataType.B32, mask)


def _result(memory: _Bytes, words: _Words) -> int:
    if (words.d & 0xFFFF) + words.columns > TENSOR_COLUMNS:
        return 1
    if words.flags & 2 and (words.a & 0xFFFF) + 8 > TENSOR_COLUMNS:
        return 1
    try:
        _multiply(memory, words)
    except _OutsideError:
        return 1
    return 0


SEMANTICS = {Op.TMMA: _execute}
