"""TMMA: the product of one thread in the shared and tensor memory of its block, or of a pair."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vgpu_sim.exec.interp.families.matrix import (
    add_exact_products,
    add_products,
    add_scaled_sums,
)
from vgpu_sim.exec.interp.lanes import Lanes
from vgpu_sim.exec.interp.numbers.bits import Bits, Mask
from vgpu_sim.exec.interp.numbers.formats import Doubles, narrow, widen, widen_scales
from vgpu_sim.exec.interp.operands import read_bits, write_bits
from vgpu_sim.hal.compute.tensor_memory import (
    TENSOR_COLUMNS,
    TENSOR_END_BYTE,
    TENSOR_FIRST_BYTE,
    TENSOR_LANES,
)
from vgpu_sim.isa import DataType, Instruction, Op
from vgpu_sim.records import dataclass

_ROW_BYTES: Final = 32
_CHUNK_BYTES: Final = 16
_EDGE: Final = 8
_MOST_COLUMNS: Final = 256
_F16, _TF32, _F8F6F4, _I8, _MXF8F6F4, _MXF4, _MXF4NVF4 = range(7)
_SCALE_FIELDS: Final = 3  # in two bits
_SIZES: Final = {_F16: 2, _TF32: 4}
_FORMATS: Final = {
    0: DataType.E4M3,
    1: DataType.E5M2,
    3: DataType.E2M3,
    4: DataType.E3M2,
    5: DataType.E2M1,
}
_Bytes = NDArray[np.uint8]
_Words32 = NDArray[np.uint32]
_SWIZZLES: Final = {0: 0, 6: 1, 4: 2}  # others: 3


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a TMMA of one lane, of which ``instruction`` is the instruction descriptor."""

    d: int
    a: int
    b: int
    instruction: int
    flags: int
    shared_bytes: int
    rest: tuple[int, ...]

    def field(self, first: int, bits: int) -> int:
        return self.instruction >> first & ((1 << bits) - 1)

    def flag(self, bit: int) -> bool:
        return bool(self.flags >> bit & 1)

    @property
    def kind(self) -> int:
        return self.flags & 7

    @property
    def scaled(self) -> bool:
        return self.kind >= _MXF8F6F4

    @property
    def in_tensor(self) -> bool:
        return self.flag(4)

    @property
    def pair(self) -> bool:
        return self.flag(7)

    @property
    def stationary(self) -> bool:
        return self.flag(8)

    @property
    def sparse(self) -> bool:
        return self.flag(9)

    @property
    def shifted(self) -> bool:
        """Whether row n of A is row n - 1 of what is stored, except the first."""
        return self.flag(10)

    @property
    def places(self) -> int:
        """The address of the metadata of a sparse A."""
        return self.flags >> 25 << 16 | self.flags >> 16 & 511

    @property
    def blocks(self) -> int:
        return 1 + self.pair

    @property
    def rows(self) -> int:
        """The rows of each block."""
        rows = self.field(27, 2) << 7 if self.scaled else self.field(24, 5) << 4
        return rows // self.blocks

    @property
    def columns(self) -> int:
        return self.field(17, 6) << 3

    @property
    def parts(self) -> int:
        """The parts of D's columns."""
        return TENSOR_LANES // self.rows if self.pair or self.stationary else 1

    @property
    def size(self) -> int:
        return _SIZES.get(self.kind, 1)

    @property
    def scale_field(self) -> int:
        return self.flags >> 5 & 3

    @property
    def each(self) -> int:
        """The elements of depth that have one scale."""
        return 64 >> self.scale_field << self.sparse

    @property
    def adds(self) -> bool:
        return self.flag(3)

    @property
    def stored(self) -> int:
        """The elements of a row of A that are stored."""
        return 64 if self.kind in (_MXF4, _MXF4NVF4) else _ROW_BYTES // self.size

    @property
    def depth(self) -> int:
        return self.stored << self.sparse

    @property
    def rate(self) -> str:
        """The type of the elements, as it is named in a board's tensor rates."""
        if self.kind == _F16:
            return "bf16" if self.field(7, 3) == 1 else "fp16"
        return "tf32" if self.kind == _TF32 else "int8"

    def format_of(self, which: int) -> int:
        four = which == 1 and self.kind in (_MXF4, _MXF4NVF4)
        return self.field((7, 10)[which], 2 if four else 3)

    @property
    def legal(self) -> bool:
        if self.kind > _MXF4NVF4 or self.scale_field >= _SCALE_FIELDS:
            return False
        if self.kind == _MXF8F6F4 and self.scale_field == 0:  # its rows have no 64 elements
            return False
        if self.rows not in (64, 128) and not (self.stationary and self.rows == TENSOR_LANES // 4):
            return False
        split = max(self.parts, self.blocks)
        if not 0 < self.columns <= _MOST_COLUMNS or self.columns % (8 * split):
            return False
        if (self.d & 0xFFFF) + self.columns // self.parts > TENSOR_COLUMNS:
            return False
        if self.in_tensor and (self.a & 0xFFFF) + 8 > TENSOR_COLUMNS:
            return False
        two_words = self.kind not in (_F16, _TF32)
        if self.sparse and two_words and self.places & 511 == TENSOR_COLUMNS - 1:
            return False
        narrow = self.kind in (_F8F6F4, _MXF8F6F4)
        return not narrow or all(self.format_of(which) in _FORMATS for which in range(2))


def decode(words: list[int]) -> Words:
    """Return the sixteen words of a TMMA by name."""
    a, b = words[1] | words[2] << 32, words[3] | words[4] << 32
    return Words(words[0], a, b, words[5], words[6], words[7], tuple(words[8:]))


class _OutsideError(Exception):
    """A row of a matrix is outside the block's shared memory."""


def _places(
    descriptor: int, rows: int, words: Words, row_bytes: int, *, across: bool
) -> NDArray[np.int64]:
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
        k = np.arange(row_bytes // words.size)[:, None]
        chunk = np.arange(-(-rows // (_CHUNK_BYTES // words.size)))
        place = start + k % _EDGE * line + k // _EDGE * along
        place = place + (chunk & ((1 << shift) - 1)) * near + (chunk >> shift) * beside
    else:
        row, part = np.arange(rows)[:, None], np.arange(row_bytes // _CHUNK_BYTES)
        place = start + row % _EDGE * line + row // _EDGE * stride
        place = place + part * (leading if shift == 0 else _CHUNK_BYTES)
    distance = (place - pattern) & 0xFFFF_FFFF
    place = place ^ (distance >> 2 & 0x60 if mode == 1 else distance >> 3 & (line - 16))
    if (place > min(words.shared_bytes, TENSOR_FIRST_BYTE) - _CHUNK_BYTES).any():
        raise _OutsideError
    return np.asarray(place, np.int64)


def _gather(
    memory: _Bytes, descriptor: int, rows: int, words: Words, row_bytes: int, *, across: bool
) -> _Bytes:
    """Return rows of ``row_bytes``, in the order of depth."""
    place = _places(descriptor, rows, words, row_bytes, across=across)
    chunks: _Bytes = memory[place[..., None] + np.arange(_CHUNK_BYTES)]
    if not across:
        return chunks.reshape(rows, row_bytes)
    depth = len(chunks)
    elements = chunks.reshape(depth, -1, words.size)[:, :rows]
    return np.ascontiguousarray(elements.transpose(1, 0, 2)).reshape(rows, row_bytes)


def _lanes(address: int, words: Words) -> NDArray[np.int64]:
    """Return the lanes of the rows of a matrix in tensor memory, part by part."""
    place = np.arange(words.rows * words.parts)
    if words.parts == 1 and words.rows == TENSOR_LANES // 2:
        place = place // 16 * 32 + place % 16
    return ((address >> 16) + place) % TENSOR_LANES


def _codes(rows: _Bytes, format_: DataType, *, in_tensor: bool) -> _Bytes:
    """Return the codes of 8-bit containers: see ``container`` in ``tensor.c``."""
    if format_ in (DataType.E4M3, DataType.E5M2):
        return rows
    four = format_ is DataType.E2M1
    if in_tensor:
        bytes_: _Bytes = (rows >> 2 & 15 if four else rows & 63).astype(np.uint8)
        return bytes_
    width = 4 if four else 6
    parts = rows.reshape(len(rows), -1, _CHUNK_BYTES).astype(np.uint32)
    bit = np.arange(16) * width
    word = parts[..., bit // 8] | parts[..., bit // 8 + 1] << np.uint32(8)
    codes = word >> (bit % 8).astype(np.uint32) & np.uint32((1 << width) - 1)
    return codes.astype(np.uint8).reshape(len(rows), -1)


def _values(
    rows: _Bytes, words: Words, format_bits: int, *, in_tensor: bool, negated: bool
) -> Doubles:
    """Return the elements of a factor as numbers."""
    if words.kind == _F16:
        numbers = widen(rows.view("<u2"), DataType.F16)
    elif words.kind == _TF32:
        numbers = widen(rows.view("<u4") & np.uint32(0xFFFF_E000), DataType.F32)
    elif words.kind in (_F8F6F4, _MXF8F6F4):
        format_ = _FORMATS[format_bits]
        numbers = widen(_codes(rows, format_, in_tensor=in_tensor), format_)
    else:
        halves = np.stack([rows & 15, rows >> 4], axis=-1).reshape(len(rows), -1)
        numbers = widen(halves, DataType.E2M1)
    return -numbers if negated else numbers


def _scales(memory: _Words32, words: Words, which: int, rows: int) -> Doubles:
    """Return the scales of a factor's rows, one for each ``each`` elements of depth."""
    address = words.rest[which]
    row = np.arange(rows)
    lane = ((address >> 16) + row % 32) % TENSOR_LANES
    column = ((address & 0xFFFF) + row // 32) % TENSOR_COLUMNS
    place = words.field((29, 4)[which], 2) + np.arange(words.depth // words.each)
    codes = memory[lane, column][:, None] >> (place % 4 * 8).astype(np.uint32) & np.uint32(0xFF)
    return widen_scales(codes, DataType.UE8M0 if words.field(23, 1) else DataType.E4M3)


def _add_scaled(x: Doubles, y: Doubles, c: Bits, scales: tuple[Doubles, Doubles]) -> Bits:
    """Return C plus the product of X and Y, of which each block of depth has scales."""
    totals, (a, b) = widen(c, DataType.F32), scales
    each = x.shape[1] // a.shape[1]
    zeros: Bits = np.zeros((1, *c.shape), np.uint32)
    for block in range(a.shape[1]):
        part = slice(block * each, (block + 1) * each)
        sums = add_exact_products(x[None, :, part], y[:, part].T[None], zeros)[0]
        totals = add_scaled_sums(totals, sums, a[:, block, None], b[None, :, block])
    return narrow(totals, DataType.F32)


def _addends(earlier_words: Bits, words: Words, *, halves: bool) -> Bits:
    if not words.adds:
        return np.zeros_like(earlier_words)
    if halves:
        earlier_words = narrow(widen(earlier_words.astype(np.uint16), DataType.F16), DataType.F32)
    shift = words.flags >> 12 & 15
    if shift:
        numbers = earlier_words.view(np.float32) * np.float32(2.0**-shift)
        earlier_words = numbers.view(np.uint32)
    return earlier_words


@dataclass(frozen=True, slots=True)
class _Block:
    """What a block has of a product: its tensor memory, and rows of A and of B."""

    tensor: _Words32
    left: _Bytes | None  # None: in tensor memory
    right: _Bytes


def _block(memory: _Bytes, words: Words) -> _Block:
    """Read the rows of a block that are in shared memory."""
    tensor = memory[TENSOR_FIRST_BYTE:][: TENSOR_LANES * TENSOR_COLUMNS * 4].view("<u4")
    columns = words.columns // words.blocks
    row_bytes, across = _ROW_BYTES << words.sparse, bool(words.field(16, 1))
    right = _gather(memory, words.b, columns, words, row_bytes, across=across)
    left, across = None, bool(words.field(15, 1))
    if not words.in_tensor:
        left = _gather(memory, words.a, words.rows, words, _ROW_BYTES, across=across)
    return _Block(tensor.reshape(TENSOR_LANES, TENSOR_COLUMNS), left, right)


def _metadata(tensor: _Words32, words: Words, part: int) -> NDArray[np.uint64]:
    """Return the bits that place the stored elements of each row of a part."""
    place = part * words.rows + np.arange(words.rows)
    column = words.places & 511
    lanes = _lanes(words.places, words)
    if words.kind not in (_F16, _TF32):
        word_pairs = tensor[lanes[place], column : column + 2].astype(np.uint64)
        return np.asarray(word_pairs[:, 0] | word_pairs[:, 1] << np.uint64(32))
    first, shift = place // 16 * 16 + place % 8, (place % 16 // 8 * 16).astype(np.uint64)
    low, high = (
        tensor[lanes[first + 8 * n], column].astype(np.uint64) >> shift & np.uint64(0xFFFF)
        for n in range(2)
    )
    return np.asarray(low | high << np.uint64(16))


def _expand(stored: NDArray[Any], metadata: NDArray[np.uint64], words: Words) -> NDArray[Any]:
    """Return rows in which the elements of ``stored`` are in their places among zeros."""
    together = 2 if words.kind in (_MXF4, _MXF4NVF4) else 1
    units = stored.reshape(len(stored), -1, together)
    expanded = np.zeros((len(stored), 2 * units.shape[1], together), stored.dtype)
    rows, count = np.arange(len(stored))[:, None], 1 if words.kind == _TF32 else 2
    chunk = np.arange(units.shape[1] // count)
    codes = metadata[:, None] >> (4 * chunk).astype(np.uint64) & np.uint64(15)
    for n in range(count):
        index = (codes >> np.uint64(2 * n) & np.uint64(3)).astype(np.int64)
        if count == 1:
            index >>= 1
        expanded[rows, 2 * count * chunk + index] = units[:, count * chunk + n]
    return expanded.reshape(len(stored), -1)


def _zero_columns(words: Words) -> Mask:
    """Return the columns of B that the descriptor of .ws replaces by zeros."""
    mask = words.rest[1] << 32 | words.rest[0]
    column = np.arange(words.columns)
    if not words.flag(11) or not mask >> 39 & 1:
        return np.zeros(len(column), np.bool_)
    part = column // (words.columns // words.parts)
    used, zeros = (mask >> 40 & 255) + 1, (mask >> 48 & 255) + 1
    begin = np.array([mask >> 8 * n & 255 for n in range(4)])[part]
    zeros_first = np.array([mask >> 32 + n & 1 for n in range(4)])[part] == 1
    at = (begin + column % (words.columns // words.parts)) % (used + zeros)
    return np.asarray(np.where(zeros_first, at < zeros, at >= used))


def _multiply_part(
    left: _Bytes,
    right: _Bytes,
    c: Bits,
    words: Words,
    scales: tuple[Doubles, Doubles] | None,
    metadata: NDArray[np.uint64] | None,
) -> Bits:
    """Return C plus the product of rows of A and columns of B."""

    def whole(stored: NDArray[Any]) -> NDArray[Any]:
        return stored if metadata is None else _expand(stored, metadata, words)

    negated = bool(words.field(13, 1)), bool(words.field(14, 1))
    if words.kind == _I8:
        m, n = (
            part.view(np.int8 if words.field(at, 3) else np.uint8).astype(np.int64)
            for part, at in ((left, 7), (right, 10))
        )
        return ((whole(m) @ n.T + c) & 0xFFFF_FFFF).astype(np.uint32)
    if words.kind == _F16 and words.field(7, 3) == 1:
        pair = [
            part.view("<u2") ^ np.uint16(0x8000 * sign)
            for part, sign in zip((left, right), negated, strict=True)
        ]
        x_bits, y_bits = whole(pair[0]), pair[1]
        paired: Bits = add_products(x_bits[None], y_bits.T[None], c[None], DataType.BF16)[0]
        return paired
    x = _values(left, words, words.format_of(0), in_tensor=words.in_tensor, negated=negated[0])
    y = _values(right, words, words.format_of(1), in_tensor=False, negated=negated[1])
    x = whole(x)
    if scales is not None:
        return _add_scaled(x, y, c, scales)
    exact: Bits = add_exact_products(x[None], y.T[None], c[None])[0]
    return exact


def _multiply_in(block: _Block, right: _Bytes, words: Words, half: int) -> None:
    """Multiply the rows of A that a block has, and write its part of D."""
    tensor, lanes = block.tensor, _lanes(words.d, words)
    halves = words.kind in (_F16, _F8F6F4) and words.field(4, 2) == 0
    first, width = words.d & 0xFFFF, words.columns // words.parts
    c = _addends(tensor[lanes, first : first + width], words, halves=halves)
    a_lanes, a_first = _lanes(words.a & 0xFFFF_FFFF, words), words.a & 0xFFFF
    parts = []
    for part in range(words.parts):
        rows = slice(part * words.rows, (part + 1) * words.rows)
        columns = slice(part * width, (part + 1) * width)
        left = block.left
        if left is None:
            chosen = tensor[a_lanes[rows], a_first : a_first + 8]
            left = np.ascontiguousarray(chosen).view(np.uint8)
        metadata = _metadata(tensor, words, part) if words.sparse else None
        if words.shifted:
            preceding_rows = np.maximum(np.arange(words.rows) - 1, 0)
            left = left[preceding_rows]
            metadata = None if metadata is None else metadata[preceding_rows]
        scales = None
        if words.scaled:
            b_scales = _scales(tensor, words, 1, words.columns)
            scales = _scales(tensor, words, 0, words.rows), b_scales[columns]
        parts.append(_multiply_part(left, right[columns], c[rows], words, scales, metadata))
    d = np.concatenate(parts)
    if halves:
        d = narrow(widen(d, DataType.F32), DataType.F16).astype(np.uint32)
    written: Mask = np.ones(len(lanes), np.bool_)
    if not words.scaled and not words.stationary:
        mask = np.array(words.rest[4 * half : 4 * half + 4], np.uint32)
        written = mask[lanes // 32] >> (lanes % 32).astype(np.uint32) & np.uint32(1) == 0
    tensor[lanes[written], first : first + width] = d[written]


def _execute(warp: Lanes, instruction: Instruction, mask: Mask) -> None:
    numbers = [
        np.broadcast_to(read_bits(warp, source, 32), warp.lanes) for source in instruction.srcs
    ]
    results = np.zeros(warp.lanes, np.uint32)
    for lane in np.flatnonzero(mask):
        words = decode([int(number[lane]) for number in numbers])
        with np.errstate(all="ignore"):
            memories = warp.spaces.blocks_of(int(lane), pair=words.pair)
            results[lane] = _result(memories, words)
    write_bits(warp, instruction.dsts[0], results, DataType.B32, mask)


def _result(memories: Sequence[_Bytes], words: Words) -> int:
    if not memories or len(memories[0]) < TENSOR_END_BYTE or not words.legal:
        return 1
    try:
        blocks = [_block(memory, words) for memory in memories]
    except _OutsideError:
        return 1
    right = np.concatenate([block.right for block in blocks])
    right[_zero_columns(words)] = 0
    for half, block in enumerate(blocks):
        _multiply_in(block, right, words, half)
    return 0


SEMANTICS = {Op.TMMA: _execute}
