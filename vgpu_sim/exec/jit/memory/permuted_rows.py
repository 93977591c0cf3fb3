"""Lanes at known distances in memory: whole rows are accessed, and permuted in registers.

A place is an element's offset from the first lane of its vector. Rows are as long as a vector.
Vectors are merged in pairs, separately for each half of the accesses, so that records of eight
words take three permutations per vector rather than seven.
"""

from collections.abc import Callable, Sequence
from typing import Final

from vgpu_sim.exec.jit.memory import masked_stores
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.records import dataclass

# A gather or scatter costs as much as several rows and their permutations.
MOST_ROWS_PER_VECTOR: Final = 4


@dataclass(frozen=True, slots=True)
class Placed:
    """A vector in a register, with the place in memory of each of its elements.

    Places are counted in elements. The place of an undefined element is None.
    """

    name: str
    places: tuple[int | None, ...]


def is_worthwhile(vectors: Sequence[Sequence[int]], width: int) -> bool:
    """Return whether loading or storing whole rows costs less than accessing each element."""
    rows = {place // width for places in vectors for place in places}
    return len(rows) <= MOST_ROWS_PER_VECTOR * len(vectors)


def load(
    text: Text, vectors: Sequence[Sequence[int]], at: Callable[[int], str], scalar: str
) -> list[str]:
    """Load vectors of elements. ``vectors`` has, for each vector, the places of its elements in
    memory. ``at`` returns the pointer to a place.

    Each row is read only from its first to its last required element.
    """
    width = text.width
    needed_places = {place for places in vectors for place in places}
    rows = []
    for first in sorted({place - place % width for place in needed_places}):
        offsets = [n for n in range(width) if first + n in needed_places]
        places = tuple(range(first, first + width))
        rows.append(Placed(_row(text, at(first), scalar, offsets[0], offsets[-1]), places))
    return _apart(text, rows, vectors, scalar)


def store(text: Text, vectors: Sequence[Placed], at: Callable[[int], str], scalar: str) -> None:
    """Store vectors. If several elements have the same place in memory, only the last is stored.

    ``at`` returns the pointer to a place.
    """
    width = text.width
    last = {
        place: (number, lane)
        for number, vector in enumerate(vectors)
        for lane, place in enumerate(vector.places)
    }
    distinct_vectors = [
        Placed(
            vector.name,
            tuple(p if last[p] == (number, lane) else None for lane, p in enumerate(vector.places)),
        )
        for number, vector in enumerate(vectors)
    ]
    together = _merge(text, distinct_vectors, scalar)
    stored = {place for vector in distinct_vectors for place in vector.places if place is not None}
    for first in sorted({place - place % width for place in stored}):
        places = tuple(n if n in stored else None for n in range(first, first + width))
        row = _collect(text, together, places, scalar)
        _store_row(text, row, at(first), scalar, places)


def _row(text: Text, pointer: str, scalar: str, first: int, last: int) -> str:
    type_, width = text.type_of(scalar, vector=True), text.width
    if (first, last) == (0, width - 1):
        return text.let(f"load {type_}, ptr {pointer}, align 1")
    flags = text.lanes("i1", (int(first <= n <= last) for n in range(width)))
    name = f"llvm.masked.load.{text.mangle(scalar, width)}.p0"
    mask = (text.type_of("i1", vector=True), flags)
    return text.call(type_, name, ("ptr", pointer), mask, (type_, "zeroinitializer"))


def _store_row(
    text: Text, row: str, pointer: str, scalar: str, places: Sequence[int | None]
) -> None:
    type_ = text.type_of(scalar, vector=True)
    if None not in places:
        text.do(f"store {type_} {row}, ptr {pointer}, align 1")
        return
    flags = text.lanes("i1", (int(place is not None) for place in places))
    masked_stores.store(text, scalar, text.width, row, pointer, flags)


def _apart(
    text: Text, rows: list[Placed], vectors: Sequence[Sequence[int]], scalar: str
) -> list[str]:
    if len(vectors) == 1:
        return [_collect(text, rows, tuple(vectors[0]), scalar)]
    result_vectors: list[str] = []
    half = len(vectors) // 2
    for part in (vectors[:half], vectors[half:]):
        own = rows
        if len(part) > 1:
            own = _in_order(text, rows, {p for places in part for p in places}, scalar)
        result_vectors += _apart(text, own, part, scalar)
    return result_vectors


def _merge(text: Text, vectors: list[Placed], scalar: str) -> list[Placed]:
    """Return the elements of vectors in memory order."""
    if len(vectors) < 3:
        return vectors  # the creation of rows combines elements of two vectors anyway
    half = (len(vectors) + 1) // 2
    merged_halves = [
        _in_order(text, part, {p for v in part for p in v.places if p is not None}, scalar)
        for part in (
            _merge(text, vectors[:half], scalar),
            _merge(text, vectors[half:], scalar),
        )
    ]
    return [*merged_halves[0], *merged_halves[1]]


def _in_order(text: Text, vectors: list[Placed], places: set[int], scalar: str) -> list[Placed]:
    """Return vectors that hold the elements of ``places`` in order."""
    ordered, width = sorted(places), text.width
    ordered_vectors = []
    for first in range(0, len(ordered), width):
        part: list[int | None] = [*ordered[first : first + width]]
        whole = tuple(part + [None] * (width - len(part)))
        ordered_vectors.append(Placed(_collect(text, vectors, whole, scalar), whole))
    return ordered_vectors


def _collect(text: Text, vectors: list[Placed], places: tuple[int | None, ...], scalar: str) -> str:
    """Return a vector of the elements of ``places``."""
    where: dict[int, tuple[int, int]] = {}
    for number, vector in enumerate(vectors):
        for lane, place in enumerate(vector.places):
            if place is not None:
                where.setdefault(place, (number, lane))
    width = text.width
    sources = [None if place is None else where[place] for place in places]
    needed = sorted({source[0] for source in sources if source is not None})
    first, *other_numbers = needed
    combined_vector = vectors[first].name
    order = [s[1] if s is not None and s[0] == first else None for s in sources]
    if not other_numbers:
        if all(place in (None, lane) for lane, place in enumerate(order)):
            return combined_vector
        return _shuffle(text, combined_vector, "poison", order, scalar)
    for number in other_numbers:
        for lane, source in enumerate(sources):
            if source is not None and source[0] == number:
                order[lane] = width + source[1]
        combined_vector = _shuffle(text, combined_vector, vectors[number].name, order, scalar)
        order = [None if place is None else lane for lane, place in enumerate(order)]
    return combined_vector


def _shuffle(text: Text, a: str, b: str, order: Sequence[int | None], scalar: str) -> str:
    type_, width = text.type_of(scalar, vector=True), text.width
    indices = ", ".join("i32 poison" if n is None else f"i32 {n}" for n in order)
    return text.let(f"shufflevector {type_} {a}, {type_} {b}, <{width} x i32> <{indices}>")
