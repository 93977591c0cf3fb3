"""Stores: a scalar store, a vector store or a scatter, by the address's shape.

As for loads, ``pointers`` computes the addresses.
"""

from typing import Final

from vgpu_sim.exec.jit.analysis.comparison_outcomes import ReachingLanes
from vgpu_sim.exec.jit.ir.ssa import Value
from vgpu_sim.exec.jit.memory import lane_rows, masked_stores, rows
from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.memory.pointers import Pointers
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.text.lane_loop import LaneOf, emit_lane_loop
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form, Values

# A scatter costs tens of cycles, however many of its lanes are active.
_FEW: Final = 2


class Stores:
    """Emits the stores of one function version."""

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        pointers: Pointers,
        reaching_lanes: ReachingLanes,
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._pointers = pointers
        self._reaching_lanes = reaching_lanes
        # Rows that lanes have loaded, by their columns.
        self.rows: dict[tuple[str, ...], list[str]] = {}

    def store(self, access: Access, mask: Mask) -> None:
        """Emit a store to memory other than local memory."""
        is_uniform = not isinstance(access.shape, Vector) and not access.shape.stride
        if is_uniform and mask.full:
            self._store_scalars(access)
        elif rows.is_contiguous(access):
            self._store_rows(access, mask)
        else:
            self.scatter(access, mask)

    def elements(self, access: Access) -> list[list[str]]:
        """Return the values that an access stores: for each vector of lanes, the values of all
        elements.
        """
        places, vectors = range(access.count), range(self._values.vectors)
        return [[self._stored_value(access, n, Form.VECTOR, c) for n in places] for c in vectors]

    def _stored_value(self, access: Access, place: int, form: Form, part: int) -> str:
        source = access.node.sources[1 + place]
        return self._values.read(source, access.scalar, form, part, clean=True)

    def _store_scalars(self, access: Access) -> None:
        """Store to an address that is uniform over a vector of lanes; the last lane's value
        remains.
        """
        text = self._text
        for part in range(self._values.vectors):
            pointer = self._pointers.of_vector(access, part)
            for place in range(access.count):
                source = access.node.sources[1 + place]
                bits = source.bits if isinstance(source, Value) else 64
                shape = self._values.shape(source, bits)
                if isinstance(shape, Vector) or shape.stride:
                    value = self._stored_value(access, place, Form.VECTOR, part)
                    type_ = text.type_of(access.scalar, vector=True)
                    value = text.let(f"extractelement {type_} {value}, i64 {text.width - 1}")
                else:
                    value = self._stored_value(access, place, Form.SCALAR, part)
                where = self._pointers.offset_pointer(pointer, place * access.element_bytes)
                text.do(f"store {access.scalar} {value}, ptr {where}, align 1")

    def _store_rows(self, access: Access, mask: Mask) -> None:
        text = self._text
        type_, _ = rows.row_type(text, access)
        flat = None if mask.full else self._masks.flat(mask)
        for part in range(self._values.vectors):
            row = self._interleave(access, part)
            pointer = self._pointers.of_vector(access, part)
            if flat is None:
                with text.marking_accesses(part, access.memory):
                    text.do(f"store {type_} {row}, ptr {pointer}, align 1")
                continue
            spread = rows.spread(text, access, flat[part])
            first = rows.prefix_length(text, access, spread)
            if first is not None:
                rows.store_first(text, access, row, pointer, first)
                continue
            count = text.width * access.count
            with text.marking_accesses(part, access.memory):
                masked_stores.store(text, access.scalar, count, row, pointer, spread)

    def _interleave(self, access: Access, part: int) -> str:
        """Return the elements of all lanes in memory order."""
        columns = [self._stored_value(access, p, Form.VECTOR, part) for p in range(access.count)]
        return rows.interleave(self._text, columns, access.scalar)

    def scatter(self, access: Access, mask: Mask) -> None:
        """Emit the stores of lanes at different addresses, as one scatter instruction per vector.

        There are three exceptions. Lanes that each store a row of four words store their rows one
        by one (``lane_rows``). If only few lanes of a vector can be active, each of them has its
        own store.
        """
        text = self._text
        flat = self._masks.flat(mask)
        node, block = access.node, self._values.block
        coming = self._reaching_lanes.to(block)
        if node.guard is not None:
            coming &= self._reaching_lanes.lanes_satisfying(node.guard)
        for part in range(self._values.vectors):
            lanes = [c for c in range(text.width) if coming >> part * text.width + c & 1]
            if mask.full and lane_rows.can_access_as_row(text, access.count, access.element_bytes):
                self._store_rows_apart(access, part)
            elif len(lanes) <= _FEW < text.width:
                self._store_few(access, part, lanes, flat[part])
            elif access.volatile and not mask.full:
                self._store_each(access, part, flat[part])
            else:
                self._scatter_vector(access, part, flat[part])

    def _store_rows_apart(self, access: Access, part: int) -> None:
        columns = [self._stored_value(access, n, Form.VECTOR, part) for n in range(access.count)]
        pointers = self._pointers.of_lanes(access, part, 0)
        known = self.rows.get(tuple(columns))
        lane_rows.store(self._text, pointers, columns, access.scalar, known)

    def _store_few(self, access: Access, part: int, lanes: list[int], flags: str) -> None:
        text, kind = self._text, access.address_type
        elements = [self._stored_value(access, n, Form.VECTOR, part) for n in range(access.count)]
        addresses = self._values.read(access.address, kind, Form.VECTOR, part)

        def lane_of(vector: str, scalar: str, lane: int) -> str:
            return text.let(f"extractelement {text.type_of(scalar, True)} {vector}, i64 {lane}")

        for lane in lanes:
            store_label, onward = text.label("stores"), text.label("stored")
            text.branch(lane_of(flags, "i1", lane), store_label, onward)
            text.begin(store_label, follows=True)
            with text.known.open_scope():
                pointer = self._pointers.of_lane(access, lane_of(addresses, kind, lane))
                for place, vector in enumerate(elements):
                    value = lane_of(vector, access.scalar, lane)
                    where = self._pointers.offset_pointer(pointer, place * access.element_bytes)
                    text.do(f"store {access.scalar} {value}, ptr {where}, align 1")
                text.jump(onward)
            text.begin(onward, follows=True)

    def _store_each(self, access: Access, part: int, flags: str) -> None:
        """Store lane by lane: fast if one lane is active, as in a bulk copy."""
        kind = access.address_type
        elements = [self._stored_value(access, n, Form.VECTOR, part) for n in range(access.count)]
        addresses = self._values.read(access.address, kind, Form.VECTOR, part)

        def store(lane_of: LaneOf) -> list[str]:
            pointer = self._pointers.of_lane(access, lane_of(addresses, kind))
            for place, vector in enumerate(elements):
                where = self._pointers.offset_pointer(pointer, place * access.element_bytes)
                value = lane_of(vector, access.scalar)
                self._text.do(f"store {access.scalar} {value}, ptr {where}, align 1")
            return []

        emit_lane_loop(self._text, flags, [], store)

    def _scatter_vector(self, access: Access, part: int, lanes: str) -> None:
        text = self._text
        type_ = text.type_of(access.scalar, vector=True)
        flags, places = text.type_of("i1", vector=True), text.type_of("ptr", vector=True)
        name = f"llvm.masked.scatter.{text.mangle(access.scalar, text.width)}.v{text.width}p0"
        for place in range(access.count):
            value = self._stored_value(access, place, Form.VECTOR, part)
            pointers = self._pointers.of_lanes(access, part, place * access.element_bytes)
            with text.marking_accesses(part, access.memory):
                text.call("void", name, (type_, value), (places, pointers), (flags, lanes))
