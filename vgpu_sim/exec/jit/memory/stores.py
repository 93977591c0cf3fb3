"""Stores: one scalar, one vector or a scatter, by the address's shape.

Where a store goes is ``pointers``' part, as of loads.
"""

from typing import Final

from vgpu_sim.exec.jit.analysis.comparison_outcomes import Comers
from vgpu_sim.exec.jit.ir.ssa import Value
from vgpu_sim.exec.jit.memory import lane_rows, masked_stores, rows
from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.memory.pointers import Pointers
from vgpu_sim.exec.jit.shapes.lane_shapes import Vector
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form, Values

# A scatter costs tens of cycles, however many of its lanes are set.
_FEW: Final = 2


class Stores:
    """Writes the stores of one function version."""

    def __init__(
        self, text: Text, values: Values, masks: MaskWriter, pointers: Pointers, comers: Comers
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._pointers = pointers
        self._comers = comers
        self.rows: dict[tuple[str, ...], list[str]] = {}  # what lanes loaded, by its columns

    def store(self, access: Access, mask: Mask) -> None:
        """Write a store that goes to no lane's own memory."""
        same = not isinstance(access.shape, Vector) and not access.shape.stride
        if same and mask.full:
            self._store_scalars(access)
        elif rows.contiguous(access):
            self._store_rows(access, mask)
        else:
            self.scatter(access, mask)

    def elements(self, access: Access) -> list[list[str]]:
        """Return, for each strip, the vectors of what is stored, element by element."""
        places, strips = range(access.count), range(self._values.strips)
        return [[self._stored(access, n, Form.VECTOR, c) for n in places] for c in strips]

    def _stored(self, access: Access, place: int, form: Form, strip: int) -> str:
        source = access.node.sources[1 + place]
        return self._values.read(source, access.scalar, form, strip, clean=True)

    def _store_scalars(self, access: Access) -> None:
        """All lanes of a strip store to one place: the last one wins."""
        text = self._text
        for strip in range(self._values.strips):
            pointer = self._pointers.of_strip(access, strip)
            for place in range(access.count):
                source = access.node.sources[1 + place]
                bits = source.bits if isinstance(source, Value) else 64
                shape = self._values.shape(source, bits)
                if isinstance(shape, Vector) or shape.stride:
                    value = self._stored(access, place, Form.VECTOR, strip)
                    type_ = text.type_of(access.scalar, vector=True)
                    value = text.let(f"extractelement {type_} {value}, i64 {text.width - 1}")
                else:
                    value = self._stored(access, place, Form.SCALAR, strip)
                where = self._pointers.moved(pointer, place * access.element_bytes)
                text.do(f"store {access.scalar} {value}, ptr {where}, align 1")

    def _store_rows(self, access: Access, mask: Mask) -> None:
        text = self._text
        type_, _ = rows.row_type(text, access)
        flat = None if mask.full else self._masks.flat(mask)
        for strip in range(self._values.strips):
            row = self._interleaved(access, strip)
            pointer = self._pointers.of_strip(access, strip)
            if flat is None:
                with text.touching(strip, access.memory):
                    text.do(f"store {type_} {row}, ptr {pointer}, align 1")
                continue
            spread = rows.spread(text, access, flat[strip])
            first = rows.leading(text, access, spread)
            if first is not None:
                rows.store_first(text, access, row, pointer, first)
                continue
            count = text.width * access.count
            with text.touching(strip, access.memory):
                masked_stores.store(text, access.scalar, count, row, pointer, spread)

    def _interleaved(self, access: Access, strip: int) -> str:
        """Return the elements of all lanes in the order of memory."""
        columns = [self._stored(access, p, Form.VECTOR, strip) for p in range(access.count)]
        return rows.woven(self._text, columns, access.scalar)

    def scatter(self, access: Access, mask: Mask) -> None:
        """Store lane by lane: by one instruction a strip, unless few of its lanes can be here."""
        text = self._text
        flat = self._masks.flat(mask)
        node, block = access.node, self._values.block
        coming = self._comers.to(block)
        if node.guard is not None:
            coming &= self._comers.passing(node.guard)
        for strip in range(self._values.strips):
            lanes = [c for c in range(text.width) if coming >> strip * text.width + c & 1]
            if mask.full and lane_rows.suits(text, access.count, access.element_bytes):
                self._store_rows_apart(access, strip)
            elif len(lanes) <= _FEW < text.width:
                self._store_few(access, strip, lanes, flat[strip])
            else:
                self._scatter_strip(access, strip, flat[strip])

    def _store_rows_apart(self, access: Access, strip: int) -> None:
        columns = [self._stored(access, n, Form.VECTOR, strip) for n in range(access.count)]
        pointers = self._pointers.of_lanes(access, strip, 0)
        known = self.rows.get(tuple(columns))
        lane_rows.store(self._text, pointers, columns, access.scalar, known)

    def _store_few(self, access: Access, strip: int, lanes: list[int], flags: str) -> None:
        text, kind = self._text, access.address_type
        elements = [self._stored(access, n, Form.VECTOR, strip) for n in range(access.count)]
        addresses = self._values.read(access.address, kind, Form.VECTOR, strip)

        def lane_of(vector: str, scalar: str, lane: int) -> str:
            return text.let(f"extractelement {text.type_of(scalar, True)} {vector}, i64 {lane}")

        for lane in lanes:
            here, onward = text.label("stores"), text.label("stored")
            text.branch(lane_of(flags, "i1", lane), here, onward)
            text.begin(here, follows=True)
            with text.known.within():
                pointer = self._pointers.of_lane(access, lane_of(addresses, kind, lane))
                for place, vector in enumerate(elements):
                    value = lane_of(vector, access.scalar, lane)
                    where = self._pointers.moved(pointer, place * access.element_bytes)
                    text.do(f"store {access.scalar} {value}, ptr {where}, align 1")
                text.jump(onward)
            text.begin(onward, follows=True)

    def _scatter_strip(self, access: Access, strip: int, lanes: str) -> None:
        text = self._text
        type_ = text.type_of(access.scalar, vector=True)
        flags, places = text.type_of("i1", vector=True), text.type_of("ptr", vector=True)
        name = f"llvm.masked.scatter.{text.mangle(access.scalar, text.width)}.v{text.width}p0"
        for place in range(access.count):
            value = self._stored(access, place, Form.VECTOR, strip)
            pointers = self._pointers.of_lanes(access, strip, place * access.element_bytes)
            with text.touching(strip, access.memory):
                text.call("void", name, (type_, value), (places, pointers), (flags, lanes))
