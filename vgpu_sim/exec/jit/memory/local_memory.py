"""Local memory: private to each lane, and interleaved over the lanes of a group.

Word n of all lanes of the group forms one row, vector by vector. An access with a uniform
address therefore reads contiguous words; others gather. No other thread can access this memory;
the code clears it when a group begins.

An address is truncated to the size of a window. If it may be outside the lane's own bytes, or
misaligned, that is tested, and a faulting access is redirected to an unmapped image of the
window.
"""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.exec.jit.memory import masked_stores
from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector
from vgpu_sim.exec.jit.text.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.text.writer import Text, integer
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.exec.jit.values.launch import CONTEXT_LOCAL_BYTES, THREAD_LOCAL_BASE, EntryArguments
from vgpu_sim.hal.compute.address_map import (
    LOCAL_MISALIGNED_OFFSET_BYTES,
    LOCAL_OUTSIDE_OFFSET_BYTES,
    LOCAL_REACH_BYTES,
)
from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD
from vgpu_sim.records import dataclass

WORD_BYTES: Final = 4
_WORDS_MASK: Final = MAX_LOCAL_BYTES_PER_THREAD - WORD_BYTES
_UNROLLED_STORES: Final = 16


@dataclass(frozen=True, slots=True)
class _Place:
    """The place in local memory where an access of one vector begins.

    This is the row of its first word or, with ``lanes``, a place of its own for each lane.
    ``shift`` is the number of bits before it in that word, an ``i32`` or its name.
    """

    pointer: str
    lanes: bool
    shift: str = "0"


class LocalMemory:
    """Emits a function version's accesses to local memory.

    ``local_bytes`` is the size of the function's own part of that memory, without the stack.
    """

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        launch: EntryArguments,
        local_bytes: int,
        *,
        has_stack: bool,
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._launch = launch
        self._bytes = local_bytes
        self._has_stack = has_stack
        geometry = values.analysis.geometry
        self._row_bytes = geometry.span * WORD_BYTES
        self._vector_bytes = geometry.width * WORD_BYTES

    def clear(self) -> None:
        """Emit code that clears the group's local memory, including the stack."""
        text, lanes = self._text, self._text.width
        size = -(-self._bytes // WORD_BYTES) * self._row_bytes
        if not size and not self._has_stack:
            return
        whole = self._row_bytes if self._has_stack else size
        while lanes < 16 and whole % (2 * lanes * WORD_BYTES) == 0:
            lanes *= 2
        row, step = f"<{lanes} x i32>", lanes * WORD_BYTES
        base = self._base()
        if not self._has_stack and size <= _UNROLLED_STORES * step:
            for place in range(0, size, step):
                where = self._launch.offset_pointer(base, str(place))
                text.do(f"store {row} zeroinitializer, ptr {where}, align 4")
            return
        end = self._group_bytes() if self._has_stack else str(size)
        origin, again, onward = text.block_label, text.label("clear"), text.label("cleared")
        text.jump(again)
        text.begin(again)
        phi, counter = text.reserve(), text.name()
        offset = text.let(f"and i32 {counter}, {LOCAL_REACH_BYTES - step}")
        where = self._launch.offset_pointer(base, text.let(f"zext i32 {offset} to i64"))
        text.do(f"store {row} zeroinitializer, ptr {where}, align 4")
        following = text.let(f"add i32 {counter}, {step}")
        has_more_rows = text.let(f"icmp ult i32 {following}, {end}")
        text.fill(phi, counter, "i32", [("0", origin), (following, again)])
        text.branch(has_more_rows, again, onward)
        text.begin(onward)

    def _group_bytes(self) -> str:
        """Return the size of the group's memory in bytes, which a launch may increase."""
        text = self._text
        limit = text.let(f"trunc i64 {self._launch.context(CONTEXT_LOCAL_BYTES)} to i32")
        words = text.let(f"lshr i32 {text.let(f'add i32 {limit}, {WORD_BYTES - 1}')}, 2")
        return text.let(f"mul i32 {words}, {self._row_bytes}")

    def local_lanes(self, access: Access) -> list[str]:
        """Return, for each vector, the lanes whose generic address is in local memory."""
        text = self._text
        wide = text.type_of("i64", vector=True)
        local_flags = []
        for part in range(self._values.vectors):
            distance = self._distance(access, Form.VECTOR, part)
            local_flags.append(text.let(f"icmp ult {wide} {distance}, splat (i64 {1 << 32})"))
        return local_flags

    def load(self, access: Access, mask: Mask, *, window: bool) -> list[list[str]]:
        """Emit a load from local memory. Return, for each vector of lanes, the values of all
        elements.

        ``window`` states that the addresses are generic.
        """
        flat = None if mask.full else self._masks.flat(mask)
        return [
            self._load_vector(access, flat[part] if flat else None, part, window)
            for part in range(self._values.vectors)
        ]

    def store(
        self, access: Access, mask: Mask, rows: Sequence[Sequence[str]], *, window: bool
    ) -> None:
        """Emit a store to local memory. ``rows`` has the elements of each vector, as integers.

        ``window`` states that the addresses are generic.
        """
        flat = None if mask.full else self._masks.flat(mask)
        for part in range(self._values.vectors):
            lanes = flat[part] if flat else None
            place = self._place(access, lanes, part, window)
            for index, value in enumerate(rows[part]):
                for word, piece, bits in self._parts(access, index, value):
                    if place.lanes:
                        self._scatter(place, word, piece, bits, lanes)
                    else:
                        self._store_row(place, word, piece, bits, lanes)

    def _load_vector(self, access: Access, lanes: str | None, part: int, window: bool) -> list[str]:
        place = self._place(access, lanes, part, window)
        return [self._element(access, place, lanes, index) for index in range(access.count)]

    def _element(self, access: Access, place: _Place, lanes: str | None, index: int) -> str:
        size = access.element_bytes
        parts = [
            (self._gather if place.lanes else self._load_row)(
                place, index * size + byte_offset, min(size, WORD_BYTES) * 8, lanes
            )
            for byte_offset in range(0, size, WORD_BYTES)
        ]
        text, scalar = self._text, integer(size * 8)
        value = parts[0]
        if len(parts) == 2:
            wide, narrow = text.type_of("i64", vector=True), text.type_of("i32", vector=True)
            low, high = (text.let(f"zext {narrow} {part} to {wide}") for part in parts)
            high = text.let(f"shl {wide} {high}, splat (i64 32)")
            value = text.let(f"or {wide} {low}, {high}")
        return self._values.cast(value, scalar, access.scalar, vector=True)

    def _parts(self, access: Access, index: int, value: str) -> list[tuple[int, str, int]]:
        """Split an element into the parts stored in separate words: byte offset, value and bits."""
        text, size = self._text, access.element_bytes
        if size <= WORD_BYTES:
            return [(index * size, value, size * 8)]
        wide, narrow = text.type_of("i64", vector=True), text.type_of("i32", vector=True)
        low = text.let(f"trunc {wide} {value} to {narrow}")
        upper = text.let(f"lshr {wide} {value}, splat (i64 32)")
        high = text.let(f"trunc {wide} {upper} to {narrow}")
        return [(index * size, low, 32), (index * size + WORD_BYTES, high, 32)]

    # Rows: the lanes of a vector share the address.

    def _row(self, place: _Place, byte: int) -> tuple[str, str]:
        """Return the pointer of the row that contains ``byte``, and the bit offset within its
        word.
        """
        pointer = place.pointer
        if byte // WORD_BYTES:
            pointer = self._launch.offset_pointer(
                pointer, str(byte // WORD_BYTES * self._row_bytes)
            )
        shift, bit_offset = place.shift, byte % WORD_BYTES * 8
        if bit_offset:
            known = not shift.startswith("%")
            shift = (
                str(int(shift) + bit_offset)
                if known
                else self._text.let(f"add i32 {shift}, {bit_offset}")
            )
        return pointer, shift

    def _load_row(self, place: _Place, byte: int, bits: int, lanes: str | None) -> str:
        text = self._text
        row = text.type_of("i32", vector=True)
        pointer, shift = self._row(place, byte)
        value = text.let(f"load {row}, ptr {pointer}, align 4")
        if bits == 32:
            return value
        if shift != "0":
            value = text.let(f"lshr {row} {value}, {text.splat('i32', shift)}")
        return text.let(f"trunc {row} {value} to {text.type_of(integer(bits), vector=True)}")

    def _store_row(
        self, place: _Place, byte: int, value: str, bits: int, lanes: str | None
    ) -> None:
        text = self._text
        row = text.type_of("i32", vector=True)
        pointer, shift = self._row(place, byte)
        if bits != 32:
            narrow = text.type_of(integer(bits), vector=True)
            wide = text.let(f"zext {narrow} {value} to {row}")
            amount = text.splat("i32", shift)
            wide = text.let(f"shl {row} {wide}, {amount}")
            whole = text.let(f"shl {row} {text.const((1 << bits) - 1, 'i32', True)}, {amount}")
            outside_mask = text.let(f"xor {row} {whole}, {text.const(0xFFFF_FFFF, 'i32', True)}")
            earlier_words = text.let(f"load {row}, ptr {pointer}, align 4")
            outside_bits = text.let(f"and {row} {earlier_words}, {outside_mask}")
            value = text.let(f"or {row} {outside_bits}, {wide}")
        if lanes is None:
            text.do(f"store {row} {value}, ptr {pointer}, align 4")
            return
        masked_stores.store(text, "i32", text.width, value, pointer, lanes)

    # Lanes: each has its own address.

    def _lane_pointers(self, place: _Place, byte: int) -> str:
        step = byte // WORD_BYTES * self._row_bytes + byte % WORD_BYTES
        if not step:
            return place.pointer
        text = self._text
        places, steps = (text.type_of(t, vector=True) for t in ("ptr", "i64"))
        return text.let(f"getelementptr i8, {places} {place.pointer}, {steps} splat (i64 {step})")

    def _gather(self, place: _Place, byte: int, bits: int, lanes: str | None) -> str:
        text, scalar = self._text, integer(bits)
        type_, flags, places = (text.type_of(t, vector=True) for t in (scalar, "i1", "ptr"))
        return text.call(
            type_,
            f"llvm.masked.gather.{text.mangle(scalar, text.width)}.v{text.width}p0",
            (places, self._lane_pointers(place, byte)),
            (flags, lanes or text.const(1, "i1", True)),
            (type_, "zeroinitializer"),
        )

    def _scatter(self, place: _Place, byte: int, value: str, bits: int, lanes: str | None) -> None:
        text, scalar = self._text, integer(bits)
        type_, flags, places = (text.type_of(t, vector=True) for t in (scalar, "i1", "ptr"))
        text.call(
            "void",
            f"llvm.masked.scatter.{text.mangle(scalar, text.width)}.v{text.width}p0",
            (type_, value),
            (places, self._lane_pointers(place, byte)),
            (flags, lanes or text.const(1, "i1", True)),
        )

    # Places.

    def _base(self) -> str:
        return self._launch.thread(THREAD_LOCAL_BASE, "ptr")

    def _place(self, access: Access, lanes: str | None, part: int, window: bool) -> _Place:
        shape = access.shape
        known = isinstance(shape, Affine) and not shape.stride and shape.constant is not None
        if isinstance(shape, Affine) and shape.constant is not None and known and not window:
            offset = (shape.constant + shape.offsets[part] + access.displacement) & 0xFFFF_FFFF
            if offset % access.size == 0 and offset + access.size <= self._bytes:
                step = offset // WORD_BYTES * self._row_bytes + part * self._vector_bytes
                pointer = self._launch.offset_pointer(self._base(), str(step))
                return _Place(pointer, lanes=False, shift=str(offset % WORD_BYTES * 8))
        together = not isinstance(shape, Vector) and not shape.stride
        form = Form.SCALAR if together else Form.VECTOR
        if window:
            distance, vector = self._distance(access, form, part), not together
            narrow, wide = (self._text.type_of(t, vector) for t in ("i32", "i64"))
            # Saturate, not truncate: an address outside the window is then also outside the memory.
            maximum = self._text.const(0xFFFF_FFFF, "i64", vector)
            saturated = self._text.intrinsic("umin", "i64", vector, distance, maximum)
            address = self._text.let(f"trunc {wide} {saturated} to {narrow}")
        else:
            address = self._address(access, form, part)
        tests = self._tests(access, address, vector=not together)
        return self._test_address(access, address, tests, lanes, part, vector=not together)

    def _address(self, access: Access, form: Form, part: int) -> str:
        text, vector = self._text, form is Form.VECTOR
        address = self._values.read(access.address, "i32", form, part)
        if access.displacement:
            step = text.const(access.displacement, "i32", vector)
            address = text.let(f"add {text.type_of('i32', vector)} {address}, {step}")
        return address

    def _test_address(
        self,
        access: Access,
        address: str,
        tests: Sequence[tuple[str, int]],
        lanes: str | None,
        part: int,
        *,
        vector: bool,
    ) -> _Place:
        """Return the place of an address that is known only at run time."""
        text = self._text
        narrow, wide = (text.type_of(t, vector) for t in ("i32", "i64"))
        words = text.let(f"and {narrow} {address}, {text.const(_WORDS_MASK, 'i32', vector)}")
        rows = text.let(f"zext {narrow} {words} to {wide}")
        span = text.const(self._row_bytes // WORD_BYTES, "i64", vector)
        rows = text.let(f"mul {wide} {rows}, {span}")
        pointer = self._launch.offset_pointer(self._base(), str(part * self._vector_bytes))
        pointer = text.let(f"getelementptr i8, ptr {pointer}, {wide} {rows}")
        low, shift = "", "0"
        if access.size < WORD_BYTES:
            low = text.let(f"and {narrow} {address}, {text.const(WORD_BYTES - 1, 'i32', vector)}")
            if not vector:
                shift = text.let(f"shl i32 {low}, 3")
        if vector:
            own = text.lanes("i64", (lane * WORD_BYTES for lane in range(text.width)))
            pointer = self._offset(pointer, own, vector)
            if low:
                bytes_ = text.let(f"zext {narrow} {low} to {wide}")
                pointer = self._offset(pointer, bytes_, vector)
        for test, distance in tests:
            if not vector and lanes is not None:  # the address is arbitrary if no lane is active
                test = text.let(f"and i1 {test}, {self._masks.any(Mask((lanes,)))}")
            far, near = (text.const(n, "i64", vector) for n in (distance, 0))
            pointer = self._offset(pointer, text.select(test, far, near, "i64", vector), vector)
        return _Place(pointer, vector, shift)

    def _tests(self, access: Access, address: str, *, vector: bool) -> list[tuple[str, int]]:
        """Return the fault conditions of an address, and the distance to move the access for
        each.
        """
        text = self._text
        narrow = text.type_of("i32", vector)
        room = text.splat("i32", self._room(access.size)) if vector else self._room(access.size)
        tests = [(text.let(f"icmp uge {narrow} {address}, {room}"), LOCAL_OUTSIDE_OFFSET_BYTES)]
        if access.tested:
            mask = text.const(access.size - 1, "i32", vector)
            low = text.let(f"and {narrow} {address}, {mask}")
            odd = text.let(f"icmp ne {narrow} {low}, {text.const(0, 'i32', vector)}")
            tests.append((odd, LOCAL_MISALIGNED_OFFSET_BYTES))
        return tests

    def _distance(self, access: Access, form: Form, part: int) -> str:
        """Return the distance of a generic address from the window of local memory."""
        text, vector = self._text, form is Form.VECTOR
        wide = text.type_of("i64", vector)
        address = self._values.read(access.address, "i64", form, part)
        if access.displacement:
            step = text.const(access.displacement, "i64", vector)
            address = text.let(f"add {wide} {address}, {step}")
        start = self._launch.local_window()
        return text.let(f"sub {wide} {address}, {text.splat('i64', start) if vector else start}")

    def _room(self, size: int) -> str:
        """Return the number of valid addresses for accesses of ``size`` bytes."""
        text = self._text
        limit = self._launch.context(CONTEXT_LOCAL_BYTES)
        with text.in_prologue():
            limit = text.let(f"trunc i64 {limit} to i32")
            return text.intrinsic("usub.sat", "i32", False, limit, str(size - 1))

    def _offset(self, pointer: str, distance: str, vector: bool) -> str:
        if not vector:
            return self._launch.offset_pointer(pointer, distance)
        places, steps = (self._text.type_of(t, vector) for t in ("ptr", "i64"))
        return self._text.let(f"getelementptr i8, {places} {pointer}, {steps} {distance}")


assert MAX_LOCAL_BYTES_PER_THREAD * 256 <= LOCAL_REACH_BYTES
