"""Rows of memory: the contiguous elements of a vector's lanes, one or several per lane."""

from collections.abc import Iterable

from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.text import flags
from vgpu_sim.exec.jit.text.writer import BITS, Text

_STEPPED, _WIDE_BITS = 4, 256


def is_contiguous(access: Access) -> bool:
    """Return whether the lanes of a vector access contiguous elements."""
    return (
        not isinstance(access.shape, Vector)
        and access.shape.stride == access.element_bytes * access.count
    )


def row_type(text: Text, access: Access) -> tuple[str, str]:
    """Return the LLVM type of the row that a vector of lanes accesses, and the suffix that
    intrinsic names have for this type.
    """
    lanes = text.width * access.count
    return f"<{lanes} x {access.scalar}>", f"{Text.mangle(access.scalar, lanes)}.p0"


def spread(text: Text, access: Access, lanes: str) -> str:
    """Convert a mask of lanes to a mask of the elements that these lanes access in a row."""
    count = access.count
    if count == 1:
        return lanes
    source = text.type_of("i1", vector=True)
    order = format_shuffle_mask(place // count for place in range(text.width * count))
    return text.let(f"shufflevector {source} {lanes}, {source} poison, {order}")


def interleave(text: Text, rows: list[str], scalar: str) -> str:
    """Return the elements of vectors, interleaved: the first element of each vector, then the
    second element of each, and so on.
    """
    width, count = text.width, len(rows)
    lanes = width
    while len(rows) > 1:  # concatenate, then reorder
        type_ = f"<{lanes} x {scalar}>"
        order = format_shuffle_mask(range(2 * lanes))
        rows = [
            text.let(f"shufflevector {type_} {a}, {type_} {b}, {order}")
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        ]
        lanes *= 2
    if count == 1:
        return rows[0]
    type_ = f"<{lanes} x {scalar}>"
    order = format_shuffle_mask((place % count) * width + place // count for place in range(lanes))
    return text.let(f"shufflevector {type_} {rows[0]}, {type_} poison, {order}")


def deinterleave(text: Text, row: str, scalar: str, count: int) -> list[str]:
    """Split a row in which each lane has ``count`` elements. The first vector returned has the
    first element of each lane, the second vector the second element, and so on.
    """
    width, elements = text.width, text.width * count
    whole = f"<{elements} x {scalar}>"
    if count < _STEPPED or width * BITS[scalar] < _WIDE_BITS or count & (count - 1):
        return [
            text.let(
                f"shufflevector {whole} {row}, {whole} poison,"
                f" {format_shuffle_mask(lane * count + place for lane in range(width))}"
            )
            for place in range(count)
        ]
    # The same in steps of two vectors: LLVM would otherwise combine all vectors for each result.
    parts = [
        text.let(
            f"shufflevector {whole} {row}, {whole} poison,"
            f" {format_shuffle_mask(range(first, first + width))}"
        )
        for first in range(0, elements, width)
    ]
    return _deinterleave(text, parts, scalar)


def _deinterleave(text: Text, parts: list[str], scalar: str) -> list[str]:
    """Return every ``len(parts)``-th element of concatenated vectors, for each offset."""
    if len(parts) == 1:
        return parts
    width = text.width
    type_ = f"<{width} x {scalar}>"
    halves = [
        [
            text.let(
                f"shufflevector {type_} {a}, {type_} {b},"
                f" {format_shuffle_mask(range(odd, 2 * width, 2))}"
            )
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        for odd in (0, 1)
    ]
    evens, odds = (_deinterleave(text, half, scalar) for half in halves)
    return [place for pair in zip(evens, odds, strict=True) for place in pair]


def format_shuffle_mask(order: Iterable[int]) -> str:
    """Return the third operand of a shufflevector: the numbers of the elements to take."""
    numbers = list(order)
    return f"<{len(numbers)} x i32> <{', '.join(f'i32 {n}' for n in numbers)}>"


def prefix_length(text: Text, access: Access, mask: str) -> int | None:
    """Return the number of elements that the mask of a row sets. Return None unless the mask is
    constant and sets a prefix of the row. The length of this prefix must be a power of two or 0.

    Such a prefix is accessed without a mask. After a masked or split store, a load would have to
    wait until the store has reached the cache.
    """
    count = flags.prefix_length(mask, text.width * access.count)
    return None if count is None or count & (count - 1) else count


def load_first(text: Text, access: Access, pointer: str, count: int) -> str:
    """Load the first ``count`` elements of a row; the others are zero."""
    if not count:
        return "zeroinitializer"
    lanes = text.width * access.count
    type_ = f"<{count} x {access.scalar}>"
    elements = text.let(f"{access.load_keyword} {type_}, ptr {pointer}, align 1")
    if count == lanes:
        return elements
    order = format_shuffle_mask(min(place, count) for place in range(lanes))
    return text.let(f"shufflevector {type_} {elements}, {type_} zeroinitializer, {order}")


def store_first(text: Text, access: Access, row: str, pointer: str, count: int) -> None:
    """Store the first ``count`` elements of a row."""
    lanes = text.width * access.count
    whole, type_ = f"<{lanes} x {access.scalar}>", f"<{count} x {access.scalar}>"
    if count and count < lanes:
        order = format_shuffle_mask(range(count))
        row = text.let(f"shufflevector {whole} {row}, {whole} poison, {order}")
    if count:
        text.do(f"store {type_} {row}, ptr {pointer}, align 1")
