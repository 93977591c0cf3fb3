"""Local memory: every lane has its own, and those of a group lie interleaved.

Word n of all lanes of the group stands in one row, strip by strip. So an access whose lanes agree
on the address is one of neighbouring words, and others gather. Nobody else sees this memory; the
code fills it with zeros when a group begins.

An address is cut to what a window holds. Where it may lie outside of the lane's own bytes, or may
be misaligned, that is tested, and such an access goes to an image of the window where nothing is
mapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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

WORD_BYTES: Final = 4
_WORDS_MASK: Final = MAX_LOCAL_BYTES_PER_THREAD - WORD_BYTES
_UNROLLED_STORES: Final = 16


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an access of a strip begins: the row of its first word, or (``lanes``) each lane's
    place. ``shift``: the bits before it in that word, an ``i32`` or its name."""

    pointer: str
    lanes: bool
    shift: str = "0"


class LocalMemory:
    """Writes the accesses of one function version; ``local_bytes`` are the function's own."""

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
        self._strip_bytes = geometry.width * WORD_BYTES

    def clear(self) -> None:
        """Write zeros to the group's memory, the stack's included."""
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
                where = self._launch.moved(base, str(place))
                text.do(f"store {row} zeroinitializer, ptr {where}, align 4")
            return
        end = self._group_bytes() if self._has_stack else str(size)
        origin, again, onward = text.block_label, text.label("clear"), text.label("cleared")
        text.jump(again)
        text.begin(again)
        phi, counter = text.reserve(), text.name()
        offset = text.let(f"and i32 {counter}, {LOCAL_REACH_BYTES - step}")
        where = self._launch.moved(base, text.let(f"zext i32 {offset} to i64"))
        text.do(f"store {row} zeroinitializer, ptr {where}, align 4")
        following = text.let(f"add i32 {counter}, {step}")
        more = text.let(f"icmp ult i32 {following}, {end}")
        text.fill(phi, counter, "i32", [("0", origin), (following, again)])
        text.branch(more, again, onward)
        text.begin(onward)

    def _group_bytes(self) -> str:
        """Return the bytes of the group's memory, which a launch may give more of."""
        text = self._text
        limit = text.let(f"trunc i64 {self._launch.context(CONTEXT_LOCAL_BYTES)} to i32")
        words = text.let(f"lshr i32 {text.let(f'add i32 {limit}, {WORD_BYTES - 1}')}, 2")
        return text.let(f"mul i32 {words}, {self._row_bytes}")

    def inside(self, access: Access) -> list[str]:
        """Return, for each strip, which lanes' generic addresses are of local memory."""
        text = self._text
        wide = text.type_of("i64", vector=True)
        found = []
        for strip in range(self._values.strips):
            distance = self._distance(access, Form.VECTOR, strip)
            found.append(text.let(f"icmp ult {wide} {distance}, splat (i64 {1 << 32})"))
        return found

    def load(self, access: Access, mask: Mask, *, window: bool) -> list[list[str]]:
        """Return, for each strip, the vectors of all elements; in a ``window`` of generic ones."""
        flat = None if mask.full else self._masks.flat(mask)
        return [
            self._load_strip(access, flat[strip] if flat else None, strip, window)
            for strip in range(self._values.strips)
        ]

    def store(
        self, access: Access, mask: Mask, rows: Sequence[Sequence[str]], *, window: bool
    ) -> None:
        """Store the vectors of all elements, given for each strip as integers."""
        flat = None if mask.full else self._masks.flat(mask)
        for strip in range(self._values.strips):
            lanes = flat[strip] if flat else None
            place = self._place(access, lanes, strip, window)
            for index, value in enumerate(rows[strip]):
                for word, part, bits in self._parts(access, index, value):
                    if place.lanes:
                        self._scatter(place, word, part, bits, lanes)
                    else:
                        self._store_row(place, word, part, bits, lanes)

    def _load_strip(self, access: Access, lanes: str | None, strip: int, window: bool) -> list[str]:
        place = self._place(access, lanes, strip, window)
        return [self._element(access, place, lanes, index) for index in range(access.count)]

    def _element(self, access: Access, place: _Place, lanes: str | None, index: int) -> str:
        size = access.element_bytes
        parts = [
            (self._gather if place.lanes else self._load_row)(
                place, index * size + more, min(size, WORD_BYTES) * 8, lanes
            )
            for more in range(0, size, WORD_BYTES)
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
        """Return what of an element goes into which byte of the access: vectors, and their bits."""
        text, size = self._text, access.element_bytes
        if size <= WORD_BYTES:
            return [(index * size, value, size * 8)]
        wide, narrow = text.type_of("i64", vector=True), text.type_of("i32", vector=True)
        low = text.let(f"trunc {wide} {value} to {narrow}")
        upper = text.let(f"lshr {wide} {value}, splat (i64 32)")
        high = text.let(f"trunc {wide} {upper} to {narrow}")
        return [(index * size, low, 32), (index * size + WORD_BYTES, high, 32)]

    # Rows: the lanes of a strip agree on the address.

    def _row(self, place: _Place, byte: int) -> tuple[str, str]:
        """Return the pointer of the row that has ``byte`` of an access, and the bits before it."""
        pointer = place.pointer
        if byte // WORD_BYTES:
            pointer = self._launch.moved(pointer, str(byte // WORD_BYTES * self._row_bytes))
        shift, more = place.shift, byte % WORD_BYTES * 8
        if more:
            known = not shift.startswith("%")
            shift = str(int(shift) + more) if known else self._text.let(f"add i32 {shift}, {more}")
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
            others = text.let(f"xor {row} {whole}, {text.const(0xFFFF_FFFF, 'i32', True)}")
            before = text.let(f"load {row}, ptr {pointer}, align 4")
            kept = text.let(f"and {row} {before}, {others}")
            value = text.let(f"or {row} {kept}, {wide}")
        if lanes is None:
            text.do(f"store {row} {value}, ptr {pointer}, align 4")
            return
        masked_stores.store(text, "i32", text.width, value, pointer, lanes)

    # Lanes: each has an address of its own.

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

    def _place(self, access: Access, lanes: str | None, strip: int, window: bool) -> _Place:
        shape = access.shape
        known = isinstance(shape, Affine) and not shape.stride and shape.constant is not None
        if isinstance(shape, Affine) and shape.constant is not None and known and not window:
            offset = (shape.constant + shape.offsets[strip] + access.displacement) & 0xFFFF_FFFF
            if offset % access.size == 0 and offset + access.size <= self._bytes:
                step = offset // WORD_BYTES * self._row_bytes + strip * self._strip_bytes
                pointer = self._launch.moved(self._base(), str(step))
                return _Place(pointer, lanes=False, shift=str(offset % WORD_BYTES * 8))
        together = not isinstance(shape, Vector) and not shape.stride
        form = Form.SCALAR if together else Form.VECTOR
        if window:
            distance, vector = self._distance(access, form, strip), not together
            narrow, wide = (self._text.type_of(t, vector) for t in ("i32", "i64"))
            # Cut to what no memory has: an address outside of the window is outside of the memory.
            most = self._text.const(0xFFFF_FFFF, "i64", vector)
            least = self._text.intrinsic("umin", "i64", vector, distance, most)
            address = self._text.let(f"trunc {wide} {least} to {narrow}")
        else:
            address = self._address(access, form, strip)
        tests = self._tests(access, address, vector=not together)
        return self._tested(access, address, tests, lanes, strip, vector=not together)

    def _address(self, access: Access, form: Form, strip: int) -> str:
        text, vector = self._text, form is Form.VECTOR
        address = self._values.read(access.address, "i32", form, strip)
        if access.displacement:
            step = text.const(access.displacement, "i32", vector)
            address = text.let(f"add {text.type_of('i32', vector)} {address}, {step}")
        return address

    def _tested(
        self,
        access: Access,
        address: str,
        tests: Sequence[tuple[str, int]],
        lanes: str | None,
        strip: int,
        *,
        vector: bool,
    ) -> _Place:
        """Return the place of an address that is known when the code runs."""
        text = self._text
        narrow, wide = (text.type_of(t, vector) for t in ("i32", "i64"))
        words = text.let(f"and {narrow} {address}, {text.const(_WORDS_MASK, 'i32', vector)}")
        rows = text.let(f"zext {narrow} {words} to {wide}")
        span = text.const(self._row_bytes // WORD_BYTES, "i64", vector)
        rows = text.let(f"mul {wide} {rows}, {span}")
        pointer = self._launch.moved(self._base(), str(strip * self._strip_bytes))
        pointer = text.let(f"getelementptr i8, ptr {pointer}, {wide} {rows}")
        low, shift = "", "0"
        if access.size < WORD_BYTES:
            low = text.let(f"and {narrow} {address}, {text.const(WORD_BYTES - 1, 'i32', vector)}")
            if not vector:
                shift = text.let(f"shl i32 {low}, 3")
        if vector:
            own = text.lanes("i64", (lane * WORD_BYTES for lane in range(text.width)))
            pointer = self._moved(pointer, own, vector)
            if low:
                bytes_ = text.let(f"zext {narrow} {low} to {wide}")
                pointer = self._moved(pointer, bytes_, vector)
        for test, distance in tests:
            if not vector and lanes is not None:  # without a lane the address may be anything
                test = text.let(f"and i1 {test}, {self._masks.any(Mask((lanes,)))}")
            far, near = (text.const(n, "i64", vector) for n in (distance, 0))
            pointer = self._moved(pointer, text.select(test, far, near, "i64", vector), vector)
        return _Place(pointer, vector, shift)

    def _tests(self, access: Access, address: str, *, vector: bool) -> list[tuple[str, int]]:
        """Return what is wrong with an address, and how far the access moves then."""
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

    def _distance(self, access: Access, form: Form, strip: int) -> str:
        """Return how far a generic address lies from the window of local memory."""
        text, vector = self._text, form is Form.VECTOR
        wide = text.type_of("i64", vector)
        address = self._values.read(access.address, "i64", form, strip)
        if access.displacement:
            step = text.const(access.displacement, "i64", vector)
            address = text.let(f"add {wide} {address}, {step}")
        start = self._launch.local_window()
        return text.let(f"sub {wide} {address}, {text.splat('i64', start) if vector else start}")

    def _room(self, size: int) -> str:
        """Return how many addresses accesses of ``size`` bytes may have."""
        text = self._text
        limit = self._launch.context(CONTEXT_LOCAL_BYTES)
        with text.in_prologue():
            limit = text.let(f"trunc i64 {limit} to i32")
            return text.intrinsic("usub.sat", "i32", False, limit, str(size - 1))

    def _moved(self, pointer: str, distance: str, vector: bool) -> str:
        if not vector:
            return self._launch.moved(pointer, distance)
        places, steps = (self._text.type_of(t, vector) for t in ("ptr", "i64"))
        return self._text.let(f"getelementptr i8, {places} {pointer}, {steps} {distance}")


assert MAX_LOCAL_BYTES_PER_THREAD * 256 <= LOCAL_REACH_BYTES
