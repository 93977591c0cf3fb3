"""Loads and stores: one scalar access, one vector access or a gather, by the address's element.

Every address is confined to the aperture (see ``roots`` and ``launch``): at its root where it has
a bounded one, else per access: an affine address on its base, before offsets and displacement,
a vector lane by lane.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vgpu_sim.exec.jit.analysis import Analysis
from vgpu_sim.exec.jit.elements import Affine, Element, Vector
from vgpu_sim.exec.jit.launch import Launch
from vgpu_sim.exec.jit.masks import Mask, MaskWriter
from vgpu_sim.exec.jit.roots import Roots
from vgpu_sim.exec.jit.ssa import Operation, Source, Value
from vgpu_sim.exec.jit.text import BITS, Text, integer
from vgpu_sim.exec.jit.values import FLOATS, Form, Values
from vgpu_sim.isa import Op, Space

_CLAMP_REACH_BYTES = 1 << 31


@dataclass(frozen=True, slots=True)
class Access:
    """An access through memory: scalar LLVM type of an element, elements, where."""

    node: Operation
    scalar: str
    address: Source
    element: Element
    root: int | None

    @property
    def element_bytes(self) -> int:
        return BITS[self.scalar] // 8

    @property
    def count(self) -> int:
        return self.node.instruction.vector

    @property
    def displacement(self) -> int:
        return self.node.instruction.displacement


class Memory:
    """Writes the accesses of one function version."""

    def __init__(
        self, text: Text, values: Values, masks: MaskWriter, launch: Launch, roots: Roots
    ) -> None:
        self._text = text
        self._values = values
        self._masks = masks
        self._launch = launch
        self._roots = roots
        self._analysis: Analysis = values.analysis

    def load(self, node: Operation, mask: Mask, *, occupied: bool) -> None:
        """Write a load; ``occupied`` says that the mask is known to have a lane."""
        instruction = node.instruction
        if instruction.space is Space.PARAM:
            self._load_parameters(node)
            return
        access = self._access(node)
        self._fence(node)
        if isinstance(access.element, Vector) or access.element.stride:
            columns = self._load_lanes(access, mask)
            self._define(node, lambda place, _form, chunk: columns[chunk][place])
        else:
            self._load_scalars(access, mask, occupied)
        self._fence(node)

    def store(self, node: Operation, mask: Mask) -> None:
        """Write a store."""
        access = self._access(node)
        self._fence(node)
        same = not isinstance(access.element, Vector) and not access.element.stride
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
        root = self._roots.trace(address, instruction.displacement, instruction.vector * bits // 8)
        element = self._values.element(address, 64)
        if root is None and not isinstance(element, Vector):
            low, high = self._analysis.algebra.extent(element)
            reach = max(abs(low), abs(high)) + abs(instruction.displacement)
            if reach + instruction.vector * bits // 8 > _CLAMP_REACH_BYTES:
                element = Vector()
        return Access(node, scalar, address, element, root)

    def _fence(self, node: Operation) -> None:
        if node.instruction.volatile:
            self._text.do('fence syncscope("singlethread") seq_cst')

    def _load_parameters(self, node: Operation) -> None:
        instruction = node.instruction
        scalar = FLOATS.get(instruction.type, integer(instruction.type.bits))

        def produce(place: int, form: Form, _chunk: int) -> str:
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

        def fill(form: Form, chunk: int) -> str:
            value = produce(place, form, chunk)
            return self._values.fill(value, scalar, result, form, signed=signed)

        self._values.define(result, fill)

    def pointer(self, access: Access, chunk: int | None) -> str:
        """The pointer of a chunk's first lane; of the group's base for chunk None."""
        values, text = self._values, self._text
        form = Form.BASE if isinstance(access.element, Affine) else Form.SCALAR
        address = values.read(access.address, "i64", form, chunk or 0)
        if access.root is None:
            pointer = self._launch.clamp(address)
        else:
            raw = self._launch.root(access.root)
            distance = text.let(f"sub i64 {address}, {raw}")
            origin = self._launch.clamped_root(access.root)
            pointer = text.let(f"getelementptr i8, ptr {origin}, i64 {distance}")
        offset = access.displacement
        if isinstance(access.element, Affine) and chunk is not None:
            offset += access.element.offsets[chunk]
        return self._moved(pointer, offset)

    def pointers(self, access: Access, chunk: int, extra: int) -> str:
        """The pointers of a chunk's lanes, ``extra`` bytes further."""
        text = self._text
        lanes = text.type_of("i64", vector=True)
        addresses = self._values.read(access.address, "i64", Form.VECTOR, chunk)
        offset = access.displacement + extra
        if access.root is None:
            if offset:
                addresses = text.let(f"add {lanes} {addresses}, splat (i64 {offset})")
            return self._launch.clamp_lanes(addresses)
        raw = text.splat("i64", self._launch.root(access.root))
        distance = text.let(f"sub {lanes} {addresses}, {raw}")
        if offset:
            distance = text.let(f"add {lanes} {distance}, splat (i64 {offset})")
        origin = self._launch.clamped_root(access.root)
        return text.let(f"getelementptr i8, ptr {origin}, {lanes} {distance}")

    def _moved(self, pointer: str, offset: int) -> str:
        if not offset:
            return pointer
        return self._text.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _load_scalars(self, access: Access, mask: Mask, occupied: bool) -> None:
        text = self._text
        uniform = isinstance(access.element, Affine) and access.element.uniform
        loaded: dict[int, list[str]] = {}

        def fetch(chunk: int) -> list[str]:
            pointer = self.pointer(access, chunk)
            if mask.vector is not None and not (uniform and occupied):
                wanted = self._masks.any(Mask((mask.vector[chunk],), mask.scalar))
                if uniform:
                    wanted = self._masks.any(mask)
                # Without a lane the address may be anything: read the caller's state instead.
                pointer = text.let(f"select i1 {wanted}, ptr {pointer}, ptr %thread")
            elif mask.scalar is not None and not occupied:
                pointer = text.let(f"select i1 {mask.scalar}, ptr {pointer}, ptr %thread")
            size = access.element_bytes
            places = [self._moved(pointer, place * size) for place in range(access.count)]
            return [text.let(f"load {access.scalar}, ptr {p}, align 1") for p in places]

        for chunk in range(1 if uniform else self._values.chunks):
            loaded[chunk] = fetch(chunk)

        def produce(place: int, form: Form, chunk: int) -> str:
            value = loaded[0 if uniform else chunk][place]
            return text.splat(access.scalar, value) if form is Form.VECTOR else value

        self._define(access.node, produce)

    def _contiguous(self, access: Access) -> bool:
        return (
            not isinstance(access.element, Vector)
            and access.element.stride == access.element_bytes * access.count
        )

    def _load_lanes(self, access: Access, mask: Mask) -> list[list[str]]:
        """Per chunk, the vectors of all elements."""
        flat = None if mask.full else self._masks.flat(mask)
        chunks = range(self._values.chunks)
        if self._contiguous(access):
            return [self._load_row(access, flat[c] if flat else None, c) for c in chunks]
        return [self._gather(access, flat[c] if flat else None, c) for c in chunks]

    def _row_type(self, access: Access) -> tuple[str, str]:
        lanes = self._text.width * access.count
        return f"<{lanes} x {access.scalar}>", f"{Text.mangle(access.scalar, lanes)}.p0"

    def _load_row(self, access: Access, lanes: str | None, chunk: int) -> list[str]:
        text = self._text
        type_, suffix = self._row_type(access)
        pointer = self.pointer(access, chunk)
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
        """A mask of lanes as one of elements."""
        text, count = self._text, access.count
        flags = f"<{text.width * count} x i1>"
        if count == 1:
            return flags, lanes
        source = text.type_of("i1", vector=True)
        indices = _indices(place // count for place in range(text.width * count))
        return flags, text.let(f"shufflevector {source} {lanes}, {source} poison, {indices}")

    def _gather(self, access: Access, lanes: str | None, chunk: int) -> list[str]:
        text = self._text
        type_ = text.type_of(access.scalar, vector=True)
        flags, places = text.type_of("i1", vector=True), text.type_of("ptr", vector=True)
        name = f"llvm.masked.gather.{text.mangle(access.scalar, text.width)}.v{text.width}p0"
        return [
            text.call(
                type_,
                name,
                (places, self.pointers(access, chunk, place * access.element_bytes)),
                (flags, lanes or text.const(1, "i1", True)),
                (type_, "zeroinitializer"),
            )
            for place in range(access.count)
        ]

    def _stored(self, access: Access, place: int, form: Form, chunk: int) -> str:
        source = access.node.sources[1 + place]
        return self._values.read(source, access.scalar, form, chunk, clean=True)

    def _store_scalars(self, access: Access) -> None:
        """All lanes of a chunk store to one place: the last one wins."""
        text = self._text
        for chunk in range(self._values.chunks):
            pointer = self.pointer(access, chunk)
            for place in range(access.count):
                source = access.node.sources[1 + place]
                bits = source.bits if isinstance(source, Value) else 64
                element = self._values.element(source, bits)
                if isinstance(element, Vector) or element.stride:
                    value = self._stored(access, place, Form.VECTOR, chunk)
                    type_ = text.type_of(access.scalar, vector=True)
                    value = text.let(f"extractelement {type_} {value}, i64 {text.width - 1}")
                else:
                    value = self._stored(access, place, Form.SCALAR, chunk)
                where = self._moved(pointer, place * access.element_bytes)
                text.do(f"store {access.scalar} {value}, ptr {where}, align 1")

    def _store_rows(self, access: Access, mask: Mask) -> None:
        text = self._text
        type_, suffix = self._row_type(access)
        flat = None if mask.full else self._masks.flat(mask)
        for chunk in range(self._values.chunks):
            row = self._interleaved(access, chunk)
            pointer = self.pointer(access, chunk)
            if flat is None:
                text.do(f"store {type_} {row}, ptr {pointer}, align 1")
                continue
            flags, spread = self._spread(access, flat[chunk])
            name = f"llvm.masked.store.{suffix}"
            text.call("void", name, (type_, row), ("ptr", pointer), (flags, spread))

    def _interleaved(self, access: Access, chunk: int) -> str:
        """The elements of all lanes in the order of memory."""
        text, width = self._text, self._text.width
        rows = [self._stored(access, p, Form.VECTOR, chunk) for p in range(access.count)]
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
        for chunk in range(self._values.chunks):
            for place in range(access.count):
                value = self._stored(access, place, Form.VECTOR, chunk)
                pointers = self.pointers(access, chunk, place * access.element_bytes)
                text.call("void", name, (type_, value), (places, pointers), (flags, flat[chunk]))


def _indices(order: Iterable[int]) -> str:
    numbers = list(order)
    return f"<{len(numbers)} x i32> <{', '.join(f'i32 {n}' for n in numbers)}>"
