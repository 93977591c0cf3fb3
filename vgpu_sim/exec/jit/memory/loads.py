"""Loads of lanes with different addresses: rows, pieces of rows, gathers, or lane by lane.

If the shape is unknown, the code tests the lanes' pointers at run time: indices that wrap around
or are clamped at an edge are nearly always contiguous, and one row costs a tenth of a gather.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from vgpu_sim.exec.jit.analysis.assumptions import Family
from vgpu_sim.exec.jit.analysis.comparison_outcomes import ReachingLanes
from vgpu_sim.exec.jit.memory import lane_rows, neighbours, row_pieces, rows, wraps
from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.memory.pointers import Pointers
from vgpu_sim.exec.jit.numbers.known_values import KnownValues
from vgpu_sim.exec.jit.text.lane_loop import LaneOf, emit_lane_loop
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values import assumption_tests
from vgpu_sim.exec.jit.values.environment import Form, Values

Columns = list[list[str]]
"""For each vector of lanes, the values of all elements of an access."""
Flags = Sequence[str] | None
"""For each vector of lanes, the mask of the lanes that load; None if all lanes do."""
LanesRead = dict[tuple[str, ...], list[str]]
"""The rows that lanes have loaded, keyed by the columns that were derived from them."""


class Loads:
    """Emits loads of one function version: those in which lanes have different addresses."""

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        pointers: Pointers,
        known: KnownValues,
        reaching_lanes: ReachingLanes,
        read: LanesRead,
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._pointers = pointers
        self._known = known
        self._reaching_lanes = reaching_lanes
        self._rows = read

    def load_lanes(self, access: Access, mask: Mask) -> Columns:
        """Emit a load by the first strategy that applies to it.

        Return, for each vector of lanes, the values of all elements.
        """
        flat = None if mask.full else self._masks.flat(mask)
        attempts = (strategy(self, access, flat) for strategy in STRATEGIES)
        return next(columns for columns in attempts if columns is not None)

    def _one_by_one(self, access: Access, flat: Flags) -> Columns | None:
        """Load lane by lane where each lane must load exactly once (volatile loads)."""
        if not access.volatile or (rows.is_contiguous(access) and flat is None):
            return None
        vectors = range(self._values.vectors)
        return [self._load_each(access, flat[c] if flat else None, c) for c in vectors]

    def _as_rows(self, access: Access, flat: Flags) -> Columns | None:
        """Load the contiguous elements of lanes as one vector."""
        if not rows.is_contiguous(access):
            return None
        return self._by_vector(access, flat, self._load_row)

    def _as_pieces(self, access: Access, flat: Flags) -> Columns | None:
        """Load pieces of rows at known places, and combine them."""
        known = self._pieces(access)
        if known is None:
            return None

        def load(access: Access, lanes: str | None, part: int) -> list[str]:
            return [self._load_pieces(access, known[part], lanes)]

        return self._by_vector(access, flat, load)

    def _as_rows_unless_wrapped(self, access: Access, flat: Flags) -> Columns | None:
        """Load rows whose index may wrap around, and load per lane where it does."""
        firsts = wraps.first_lane_addresses(self._values, access)
        return None if firsts is None else self._unless_wrapped(access, firsts, flat, [access])

    def _as_rows_if_neighbours(self, access: Access, flat: Flags) -> Columns | None:
        """Test at run time whether the lanes' pointers are contiguous.

        Load a row if they are, else each lane's elements separately.
        """
        if not neighbours.may_be_contiguous(access.shape, self._text.width):
            return None
        return self._by_vector(access, flat, self._row_or_gather)

    def _apart(self, access: Access, flat: Flags) -> Columns | None:
        """Load each lane's elements separately."""
        return self._by_vector(access, flat, self._gather)

    def _by_vector(
        self,
        access: Access,
        flat: Flags,
        load: Callable[[Access, str | None, int], list[str]],
    ) -> Columns:
        columns = []
        for part in range(self._values.vectors):
            with self._text.marking_accesses(part, access.memory):
                columns.append(load(access, flat[part] if flat else None, part))
        return columns

    def load_family(
        self, access: Access, alone: Sequence[Access], family: Family
    ) -> list[list[str]] | None:
        """Emit the loads of ``family`` as one load, ``access``. If an index wraps around at run
        time, the emitted code instead executes the family's original loads (``alone``) one by
        one.

        Return, for each vector of lanes, the values of all elements. If a single load is
        impossible here or would not be faster, emit nothing and return None.
        """
        text, values, vectors = self._text, self._values, range(self._values.vectors)
        firsts = wraps.first_lane_addresses(values, access)
        if firsts is None and not lane_rows.can_access_as_row(
            text, access.count, access.element_bytes
        ):
            return None
        if not wraps.is_readable(values, family.index):
            return None
        kind, span = family.kind, family.most
        tests = [
            assumption_tests.wraps_around(values, family.index, kind, span, part)
            for part in vectors
        ]
        if firsts is not None:
            beyond = assumption_tests.any_of(text, [firsts.wrapped, *tests])
            return self._unless_wrapped(access, replace(firsts, wrapped=beyond), None, alone)

        def in_rows() -> list[str]:
            pointers = [self._pointers.of_lanes(access, part, 0) for part in vectors]
            return [n for p in pointers for n in lane_rows.load(text, p, access.scalar)[1]]

        return self._either(access, assumption_tests.any_of(text, tests), in_rows, None, alone)

    def _unless_wrapped(
        self,
        access: Access,
        firsts: wraps.Firsts,
        flat: Sequence[str] | None,
        alone: Sequence[Access],
    ) -> list[list[str]]:
        """Load rows if no lane's index wraps around, else per lane."""
        vectors = range(self._values.vectors)

        def in_rows() -> list[str]:
            names = []
            for part in vectors:
                spread = rows.spread(self._text, access, flat[part]) if flat else None
                pointer = self._pointers.at(access, firsts.addresses[part])
                names += self._row_at(access, pointer, spread)
            return names

        return self._either(access, firsts.wrapped, in_rows, flat, alone)

    def _either(
        self,
        access: Access,
        wrapped: str,
        in_rows: Callable[[], list[str]],
        flat: Sequence[str] | None,
        alone: Sequence[Access],
    ) -> list[list[str]]:
        vectors, count = range(self._values.vectors), access.count

        def apart() -> list[str]:
            return [
                name
                for part in vectors
                for load_access in alone
                for name in self._gather(load_access, flat[part] if flat else None, part)
            ]

        whole = self._values.invert(wrapped, vector=False)
        elements = neighbours.emit_either(self._text, whole, in_rows, apart, access.scalar)
        return [elements[part * count : (part + 1) * count] for part in vectors]

    def _pieces(self, access: Access) -> list[list[row_pieces.Piece]] | None:
        coming = self._reaching_lanes.to(self._values.block)
        if access.node.guard is not None:
            coming &= self._reaching_lanes.lanes_satisfying(access.node.guard)
        return row_pieces.pieces_of(self._values, self._pointers, self._known, access, coming)

    def _load_pieces(
        self, access: Access, pieces: list[row_pieces.Piece], lanes: str | None
    ) -> str:
        return row_pieces.load(self._text, self._masks, access, pieces, lanes)

    def load_parts(self, access: Access, flags: list[list[str]]) -> list[list[str]]:
        """Load the elements that masks select. ``flags`` has a list for each vector of lanes. The
        list has one mask per element: the lanes that load this element.

        Return a list for each vector of lanes, with one LLVM vector per element. Lanes outside
        the element's mask are zero.
        """
        columns = []
        for part, masks in enumerate(flags):
            if not rows.is_contiguous(access):
                columns.append(
                    [self._gather_one(access, mask, part, n) for n, mask in enumerate(masks)]
                )
                continue
            spread = rows.interleave(self._text, masks, "i1")
            columns.append(self._row(access, part, spread))
        return columns

    def _load_row(self, access: Access, lanes: str | None, part: int) -> list[str]:
        return self._row(access, part, rows.spread(self._text, access, lanes) if lanes else None)

    def _row(self, access: Access, part: int, spread: str | None) -> list[str]:
        """Load a vector's elements as one row, those set in ``spread``; return them per element."""
        return self._row_at(access, self._pointers.of_vector(access, part), spread)

    def _row_at(self, access: Access, pointer: str, spread: str | None) -> list[str]:
        text = self._text
        type_, suffix = rows.row_type(text, access)
        first = None if spread is None else rows.prefix_length(text, access, spread)
        if first is not None:
            row = rows.load_first(text, access, pointer, first)
        elif spread is None:
            row = text.let(f"{access.load_keyword} {type_}, ptr {pointer}, align 1")
        else:
            flags = f"<{text.width * access.count} x i1>"
            row = text.call(
                type_,
                f"llvm.masked.load.{suffix}",
                ("ptr", pointer),
                (flags, spread),
                (type_, "zeroinitializer"),
            )
        if access.count == 1:
            return [row]
        return rows.deinterleave(text, row, access.scalar, access.count)

    def _row_or_gather(self, access: Access, lanes: str | None, part: int) -> list[str]:
        def row(first: str) -> list[str]:
            flat = rows.spread(self._text, access, lanes) if lanes else None
            return self._row_at(access, first, flat)

        pointers = self._pointers.of_lanes(access, part, 0)
        return neighbours.load(
            self._text, access, pointers, lanes, row, lambda: self._gather(access, lanes, part)
        )

    def _gather(self, access: Access, lanes: str | None, part: int) -> list[str]:
        if lanes is None and lane_rows.can_access_as_row(
            self._text, access.count, access.element_bytes
        ):
            pointers = self._pointers.of_lanes(access, part, 0)
            rows, columns = lane_rows.load(self._text, pointers, access.scalar)
            self._rows[tuple(columns)] = rows
            return columns
        flags = lanes or self._text.const(1, "i1", True)
        return [self._gather_one(access, flags, part, place) for place in range(access.count)]

    def _gather_one(self, access: Access, lanes: str, part: int, place: int) -> str:
        text = self._text
        type_ = text.type_of(access.scalar, vector=True)
        flags, places = text.type_of("i1", vector=True), text.type_of("ptr", vector=True)
        name = f"llvm.masked.gather.{text.mangle(access.scalar, text.width)}.v{text.width}p0"
        pointers = self._pointers.of_lanes(access, part, place * access.element_bytes)
        return text.call(
            type_, name, (places, pointers), (flags, lanes), (type_, "zeroinitializer")
        )

    def _load_each(self, access: Access, lanes: str | None, part: int) -> list[str]:
        """Load lane by lane where every load must be executed: LLVM would drop an unused gather."""
        text, scalar, count = self._text, access.scalar, access.count
        kind = access.address_type
        addresses = self._values.read(access.address, kind, Form.VECTOR, part)

        def load(lane_of: LaneOf) -> list[str]:
            pointer = self._pointers.of_lane(access, lane_of(addresses, kind))
            places = [
                self._pointers.offset_pointer(pointer, n * access.element_bytes)
                for n in range(count)
            ]
            return [
                text.let(f"{access.load_keyword} {scalar}, ptr {place}, align 1")
                for place in places
            ]

        return emit_lane_loop(text, lanes, [scalar] * count, load)


STRATEGIES: Final[tuple[Callable[[Loads, Access, Flags], Columns | None], ...]] = (
    Loads._one_by_one,
    Loads._as_rows,
    Loads._as_pieces,
    Loads._as_rows_unless_wrapped,
    Loads._as_rows_if_neighbours,
    Loads._apart,
)
"""The strategies for loads, the cheapest first; each returns None if it does not apply."""
