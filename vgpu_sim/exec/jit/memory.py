"""Loads and stores: one scalar access, one vector access or a gather, by the address's shape.

Every address is confined to the aperture (see ``provenance`` and ``launch``): at the pointer that
it is made from where it stays near that, else per access: a scalar before the strip's offset and
the displacement (after them where they reach far), a vector lane by lane. An access that is not
aligned to its size is moved to where nothing is mapped: by its origin where the distance from that
is a multiple of the size, which costs nothing at the access, else by a test of the address.

What shared memory's addresses are is ``shared_memory``'s part.
"""

from collections.abc import Callable, Iterable

from vgpu_sim.exec.jit import shared_memory
from vgpu_sim.exec.jit.access import Access
from vgpu_sim.exec.jit.analysis import Analysis
from vgpu_sim.exec.jit.lane_shapes import Affine, Vector, signed
from vgpu_sim.exec.jit.launch import EntryArguments
from vgpu_sim.exec.jit.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.provenance import Provenance
from vgpu_sim.exec.jit.ssa import Operation, Value
from vgpu_sim.exec.jit.text import Text, integer
from vgpu_sim.exec.jit.values import FLOATS, Form, Values
from vgpu_sim.isa import Op, Space

_CLAMP_REACH_BYTES = 1 << 31


class Memory:
    """Writes the accesses of one function version."""

    def __init__(
        self,
        text: Text,
        values: Values,
        masks: MaskWriter,
        launch: EntryArguments,
        provenance: Provenance,
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._launch = launch
        self._provenance = provenance
        self._analysis: Analysis = values.analysis

    def load(self, node: Operation, mask: Mask, *, occupied: bool) -> None:
        """Write a load; ``occupied`` says that the mask is known to have a lane."""
        instruction = node.instruction
        if instruction.space is Space.PARAM:
            self._load_parameters(node, mask)
            return
        access = self._access(node)
        self._fence(node)
        if isinstance(access.shape, Vector) or access.shape.stride:
            columns = self._load_lanes(access, mask)
            self._define(node, lambda place, _form, strip: columns[strip][place])
        else:
            self._load_scalars(access, mask, occupied)
        self._fence(node)

    def store(self, node: Operation, mask: Mask) -> None:
        """Write a store."""
        access = self._access(node)
        self._fence(node)
        same = not isinstance(access.shape, Vector) and not access.shape.stride
        if same and mask.full:
            self._store_scalars(access)
        elif self._contiguous(access):
            self._store_rows(access, mask)
        else:
            self._scatter(access, mask)
        self._fence(node)

    def _access(self, node: Operation) -> Access:
        instruction = node.instruction
        bits = instruction.type.bits
        scalar = integer(bits)  # of a store too: see ``values.storage_types``
        if instruction.op is Op.LD:
            scalar = FLOATS.get(instruction.type, scalar)
        address = node.sources[0]
        size = instruction.vector * bits // 8
        if instruction.space is Space.SHARED:
            grain = self._provenance.grain(address)
            aligned = grain % size == 0 and instruction.displacement % size == 0
            shape = self._values.shape(address, 32)
            return Access(node, scalar, address, shape, None, None, aligned)
        source = self._provenance.trace(address)
        origin = aligned_as = None
        if source is not None and source.confined(instruction.displacement, size):
            origin = source.origin
        if source is not None and size > 1 and source.aligned(instruction.displacement, size):
            aligned_as = source.origin
        shape = self._values.shape(address, 64)
        return Access(node, scalar, address, shape, origin, aligned_as)

    def _fence(self, node: Operation) -> None:
        if node.instruction.volatile:
            self._text.do('fence syncscope("singlethread") seq_cst')

    def _load_parameters(self, node: Operation, mask: Mask) -> None:
        instruction = node.instruction
        scalar = FLOATS.get(instruction.type, integer(instruction.type.bits))
        if instruction.displacement % (instruction.vector * instruction.type.bytes):
            wanted, text = self._masks.any(mask), self._text
            place = self._launch.misaligned(instruction.displacement)
            place = text.let(f"select i1 {wanted}, ptr {place}, ptr %thread")
            text.let(f"load volatile i8, ptr {place}, align 1")

        def produce(place: int, form: Form, _strip: int) -> str:
            offset = instruction.displacement + place * instruction.type.bytes
            value = self._launch.parameter(offset, scalar)
            return self._text.splat(scalar, value) if form is Form.VECTOR else value

        self._define(node, produce)

    def _define(self, node: Operation, produce: Callable[[int, Form, int], str]) -> None:
        scalar = FLOATS.get(node.instruction.type, integer(node.instruction.type.bits))
        for place, result in enumerate(node.results):
            if result is not None:
                self._define_one(node, result, scalar, place, produce)

    def _define_one(
        self,
        node: Operation,
        result: Value,
        scalar: str,
        place: int,
        produce: Callable[[int, Form, int], str],
    ) -> None:
        signed = node.instruction.type.is_signed

        def fill(form: Form, strip: int) -> str:
            value = produce(place, form, strip)
            return self._values.fill(value, scalar, result, form, signed=signed)

        self._values.define(result, fill)

    def pointer(self, access: Access, strip: int | None) -> str:
        """Return the pointer of a strip's first lane; of the group's base for strip None.

        All lanes are aligned as the first one: they are neighbours, or it is the same place.
        """
        values, text, launch = self._values, self._text, self._launch
        form = Form.BASE if isinstance(access.shape, Affine) else Form.SCALAR
        offset = access.displacement
        if isinstance(access.shape, Affine) and strip is not None:
            offset += access.shape.offsets[strip]
        if access.shared:
            return shared_memory.pointer(text, values, launch, access, form, strip or 0, offset)
        address = values.read(access.address, "i64", form, strip or 0)
        shift = None
        if access.tested:
            whole = address
            if offset % access.size:
                whole = text.let(f"add i64 {address}, {signed(offset, 64)}")
            shift = launch.shift(whole, access.size)
        if access.origin is None:
            if abs(offset) + access.size * text.width > _CLAMP_REACH_BYTES:
                address, offset = text.let(f"add i64 {address}, {signed(offset, 64)}"), 0
            pointer = launch.clamp(address, self._known_shift(access))
        else:
            distance = text.let(f"sub i64 {address}, {launch.origin(access.origin)}")
            pointer = launch.moved(self._clamped_origin(access), distance)
        if shift is not None:
            pointer = launch.moved(pointer, shift)
        return self._moved(pointer, offset)

    def pointers(self, access: Access, strip: int, extra: int) -> str:
        """Return the pointers of a strip's lanes, ``extra`` bytes further."""
        text, launch = self._text, self._launch
        if access.shared:
            return shared_memory.pointers(text, self._values, launch, access, strip, extra)
        lanes = text.type_of("i64", vector=True)
        addresses = self._values.read(access.address, "i64", Form.VECTOR, strip)
        offset = access.displacement + extra
        shift = None
        if access.tested:
            whole = addresses
            if access.displacement % access.size:
                whole = text.let(f"add {lanes} {addresses}, splat (i64 {access.displacement})")
            shift = launch.shift(whole, access.size, vector=True)
        if access.origin is None:
            if offset:
                addresses = text.let(f"add {lanes} {addresses}, splat (i64 {offset})")
            pointers = launch.clamp_lanes(addresses, self._known_shift(access))
        else:
            raw = text.splat("i64", launch.origin(access.origin))
            distance = text.let(f"sub {lanes} {addresses}, {raw}")
            if offset:
                distance = text.let(f"add {lanes} {distance}, splat (i64 {offset})")
            origin = self._clamped_origin(access)
            pointers = text.let(f"getelementptr i8, ptr {origin}, {lanes} {distance}")
        if shift is None:
            return pointers
        places = text.type_of("ptr", vector=True)
        return text.let(f"getelementptr i8, {places} {pointers}, {lanes} {shift}")

    def _known_shift(self, access: Access) -> str:
        """Return how far the access is moved, where that is known before it."""
        if access.aligned_as is None:
            return "0"
        return self._launch.origin_shift(access.aligned_as, access.size)

    def _clamped_origin(self, access: Access) -> str:
        assert access.origin is not None
        return self._launch.clamped_origin(access.origin, 1 if access.tested else access.size)

    def _moved(self, pointer: str, offset: int) -> str:
        return self._launch.moved(pointer, str(offset)) if offset else pointer

    def _load_scalars(self, access: Access, mask: Mask, occupied: bool) -> None:
        text = self._text
        uniform = isinstance(access.shape, Affine) and access.shape.uniform
        loaded: dict[int, list[str]] = {}

        def fetch(strip: int) -> list[str]:
            pointer = self.pointer(access, strip)
            if mask.vector is not None and not (uniform and occupied):
                wanted = self._masks.any(Mask((mask.vector[strip],), mask.scalar))
                if uniform:
                    wanted = self._masks.any(mask)
                # Without a lane the address may be anything: read the caller's state instead.
                pointer = text.let(f"select i1 {wanted}, ptr {pointer}, ptr %thread")
            elif mask.scalar is not None and not occupied:
                pointer = text.let(f"select i1 {mask.scalar}, ptr {pointer}, ptr %thread")
            size = access.element_bytes
            places = [self._moved(pointer, place * size) for place in range(access.count)]
            return [text.let(f"load {access.scalar}, ptr {p}, align 1") for p in places]

        for strip in range(1 if uniform else self._values.strips):
            loaded[strip] = fetch(strip)

        def produce(place: int, form: Form, strip: int) -> str:
            value = loaded[0 if uniform else strip][place]
            return text.splat(access.scalar, value) if form is Form.VECTOR else value

        self._define(access.node, produce)

    def _contiguous(self, access: Access) -> bool:
        return (
            not isinstance(access.shape, Vector)
            and access.shape.stride == access.element_bytes * access.count
        )

    def _load_lanes(self, access: Access, mask: Mask) -> list[list[str]]:
        """Return, for each strip, the vectors of all elements."""
        flat = None if mask.full else self._masks.flat(mask)
        strips = range(self._values.strips)
        if self._contiguous(access):
            return [self._load_row(access, flat[c] if flat else None, c) for c in strips]
        return [self._gather(access, flat[c] if flat else None, c) for c in strips]

    def _row_type(self, access: Access) -> tuple[str, str]:
        lanes = self._text.width * access.count
        return f"<{lanes} x {access.scalar}>", f"{Text.mangle(access.scalar, lanes)}.p0"

    def _load_row(self, access: Access, lanes: str | None, strip: int) -> list[str]:
        text = self._text
        type_, suffix = self._row_type(access)
        pointer = self.pointer(access, strip)
        if lanes is None:
            row = text.let(f"load {type_}, ptr {pointer}, align 1")
        else:
            flags, spread = self._spread(access, lanes)
            row = text.call(
                type_,
                f"llvm.masked.load.{suffix}",
                ("ptr", pointer),
                (flags, spread),
                (type_, "zeroinitializer"),
            )
        if access.count == 1:
            return [row]
        count, width = access.count, text.width
        return [
            text.let(
                f"shufflevector {type_} {row}, {type_} poison,"
                f" {_indices(lane * count + place for lane in range(width))}"
            )
            for place in range(count)
        ]

    def _spread(self, access: Access, lanes: str) -> tuple[str, str]:
        """Return a mask of lanes as one of elements."""
        text, count = self._text, access.count
        flags = f"<{text.width * count} x i1>"
        if count == 1:
            return flags, lanes
        source = text.type_of("i1", vector=True)
        indices = _indices(place // count for place in range(text.width * count))
        return flags, text.let(f"shufflevector {source} {lanes}, {source} poison, {indices}")

    def _gather(self, access: Access, lanes: str | None, strip: int) -> list[str]:
        text = self._text
        type_ = text.type_of(access.scalar, vector=True)
        flags, places = text.type_of("i1", vector=True), text.type_of("ptr", vector=True)
        name = f"llvm.masked.gather.{text.mangle(access.scalar, text.width)}.v{text.width}p0"
        return [
            text.call(
                type_,
                name,
                (places, self.pointers(access, strip, place * access.element_bytes)),
                (flags, lanes or text.const(1, "i1", True)),
                (type_, "zeroinitializer"),
            )
            for place in range(access.count)
        ]

    def _stored(self, access: Access, place: int, form: Form, strip: int) -> str:
        source = access.node.sources[1 + place]
        return self._values.read(source, access.scalar, form, strip, clean=True)

    def _store_scalars(self, access: Access) -> None:
        """All lanes of a strip store to one place: the last one wins."""
        text = self._text
        for strip in range(self._values.strips):
            pointer = self.pointer(access, strip)
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
                where = self._moved(pointer, place * access.element_bytes)
                text.do(f"store {access.scalar} {value}, ptr {where}, align 1")

    def _store_rows(self, access: Access, mask: Mask) -> None:
        text = self._text
        type_, suffix = self._row_type(access)
        flat = None if mask.full else self._masks.flat(mask)
        for strip in range(self._values.strips):
            row = self._interleaved(access, strip)
            pointer = self.pointer(access, strip)
            if flat is None:
                text.do(f"store {type_} {row}, ptr {pointer}, align 1")
                continue
            flags, spread = self._spread(access, flat[strip])
            name = f"llvm.masked.store.{suffix}"
            text.call("void", name, (type_, row), ("ptr", pointer), (flags, spread))

    def _interleaved(self, access: Access, strip: int) -> str:
        """Return the elements of all lanes in the order of memory."""
        text, width = self._text, self._text.width
        rows = [self._stored(access, p, Form.VECTOR, strip) for p in range(access.count)]
        lanes = width
        while len(rows) > 1:  # concatenate, then bring into order
            type_ = f"<{lanes} x {access.scalar}>"
            indices = _indices(range(2 * lanes))
            rows = [
                text.let(f"shufflevector {type_} {a}, {type_} {b}, {indices}")
                for a, b in zip(rows[::2], rows[1::2], strict=True)
            ]
            lanes *= 2
        if access.count == 1:
            return rows[0]
        type_ = f"<{lanes} x {access.scalar}>"
        order = _indices(
            (place % access.count) * width + place // access.count for place in range(lanes)
        )
        return text.let(f"shufflevector {type_} {rows[0]}, {type_} poison, {order}")

    def _scatter(self, access: Access, mask: Mask) -> None:
        text = self._text
        flat = self._masks.flat(mask)
        type_ = text.type_of(access.scalar, vector=True)
        flags, places = text.type_of("i1", vector=True), text.type_of("ptr", vector=True)
        name = f"llvm.masked.scatter.{text.mangle(access.scalar, text.width)}.v{text.width}p0"
        for strip in range(self._values.strips):
            for place in range(access.count):
                value = self._stored(access, place, Form.VECTOR, strip)
                pointers = self.pointers(access, strip, place * access.element_bytes)
                text.call("void", name, (type_, value), (places, pointers), (flags, flat[strip]))


def _indices(order: Iterable[int]) -> str:
    numbers = list(order)
    return f"<{len(numbers)} x i32> <{', '.join(f'i32 {n}' for n in numbers)}>"
