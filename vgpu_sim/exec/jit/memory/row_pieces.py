"""Vectors whose lanes are contiguous piece by piece: rows of a tile that begin at any lane.

The pieces follow from linear sums of shared values (``linear``). Each piece is one load by a
scalar address.
"""

from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.memory.pointers import Pointers
from vgpu_sim.exec.jit.numbers.known_values import BOUND_BYTES, KnownValues
from vgpu_sim.exec.jit.shapes import linear_algebra
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.shapes.linear import Base, Linear, Shared
from vgpu_sim.exec.jit.text.masks import MaskWriter
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values import linear_text
from vgpu_sim.exec.jit.values.environment import Values
from vgpu_sim.records import dataclass

# Beyond this number of loads a gather is as fast.
_MOST = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a row: lanes ``first`` to ``last`` of a vector have contiguous addresses.

    ``pointer`` is the address that lane 0 would have if it were part of the piece.
    """

    first: int
    last: int
    pointer: str


def pieces_of(
    values: Values, pointers: Pointers, known: KnownValues, access: Access, coming: int
) -> list[list[Piece]] | None:
    """Return, for each vector, the pieces of rows that its lanes access. Only the lanes in the bit
    mask ``coming`` count.

    Return None if the pieces are unknown, or if a vector has too many pieces.
    """
    if not isinstance(access.shape, Vector) or access.shape.linear is None:
        return None
    sums, width = access.shape.linear, values.text.width
    if access.where is not Where.GLOBAL or access.tested or access.count > 1:
        return None
    all_coming = [n for n in range(width * values.vectors) if coming >> n & 1]
    origin = _origin(sums, known, access, all_coming) if all_coming else None
    if not linear_text.is_readable_sum(values, sums):
        return None
    vector_runs = []
    for part in range(values.vectors):
        first = part * width
        lanes = [lane for lane in range(width) if coming >> first + lane & 1]
        runs = linear_algebra.runs(sums, first, width, lanes, access.size)
        if len(runs) > _MOST:
            return None
        vector_runs.append(runs)
    return [
        [_piece(values, pointers, access, sums, origin, part * width, run) for run in runs]
        for part, runs in enumerate(vector_runs)
    ]


def load(
    text: Text, masks: MaskWriter, access: Access, pieces: list[Piece], lanes: str | None
) -> str:
    """Load the pieces of one vector, and return the vector.

    ``lanes`` is the mask of the lanes to load; None stands for all lanes. Lanes outside the mask
    are zero.
    """
    type_, flags = text.type_of(access.scalar, True), text.type_of("i1", True)
    loaded = "zeroinitializer"
    for piece in pieces:
        inside = [int(piece.first <= lane <= piece.last) for lane in range(text.width)]
        if lanes is None and all(inside):
            return text.let(f"load {type_}, ptr {piece.pointer}, align 1")
        mine = text.lanes("i1", inside) if not all(inside) else lanes
        assert mine is not None
        if lanes is not None and mine != lanes:
            mine = masks.lanes_in_both(lanes, mine)
        name = f"llvm.masked.load.{text.mangle(access.scalar, text.width)}.p0"
        loaded = text.call(type_, name, ("ptr", piece.pointer), (flags, mine), (type_, loaded))
    return loaded


def _origin(sums: Linear, known: KnownValues, access: Access, lanes: list[int]) -> Shared | None:
    """Return the shared pointer from which all addresses of a sum stay within the clamped range.

    Return None if there is no such pointer; each address is then clamped.
    """
    for shared, factors in sums.terms:
        if not isinstance(shared, Base) or set(factors) != {1}:
            continue
        source = known.trace(shared.value)
        if source is None or source.origin != access.origin or source.bound:
            continue
        distance_sum = Linear(sums.bits, tuple(t for t in sums.terms if t[0] != shared), sums.own)
        reach = (
            linear_algebra.magnitude_bound(distance_sum, lanes)
            + abs(access.displacement)
            + 64 * access.size
        )
        return shared if reach <= BOUND_BYTES else None
    return None


def _piece(
    values: Values,
    pointers: Pointers,
    access: Access,
    sums: Linear,
    origin: Shared | None,
    first: int,
    run: tuple[int, int],
) -> Piece:
    lane = first + run[0]
    if origin is None:
        address = linear_text.of_lane(values, sums, lane)
        offset = access.displacement + sums.own[lane] - run[0] * access.size
        return Piece(*run, pointers.of_scalar(access, address, offset))
    distance = linear_text.of_lane(values, sums, lane, without=origin)
    offset = access.displacement + sums.own[lane] - run[0] * access.size
    return Piece(*run, pointers.from_origin(access, distance, offset))
