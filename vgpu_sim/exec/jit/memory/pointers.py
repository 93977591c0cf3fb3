"""Where an access goes: its address, confined, and moved away where it is misaligned.

Every global address is confined to the aperture (see ``known_values`` and ``launch``): at the
pointer that it is made from where it stays near that, else per access: a scalar before the strip's
offset and the displacement (after them where they reach far), a vector lane by lane. An access
that is not aligned to its size is moved to where nothing is mapped: by its origin where the
distance from that is a multiple of the size, which costs nothing at the access, else by a test of
the address.

What shared memory's addresses are is ``shared_memory``'s part. A generic address may be either: it
becomes the pointers of both, of which its value chooses one.
"""

from vgpu_sim.exec.jit.memory import shared_memory
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector, signed
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.exec.jit.values.launch import EntryArguments

_CLAMP_REACH_BYTES = 1 << 31


class Pointers:
    """Writes the pointers of the accesses of one function version."""

    def __init__(self, text: Text, values: Values, launch: EntryArguments) -> None:
        self._text = text
        self._values = values
        self._launch = launch

    def of_strip(self, access: Access, strip: int | None) -> str:
        """Return the pointer of a strip's first lane; of the group's base for strip None.

        All lanes are aligned as the first one: they are neighbours, or it is the same place.
        """
        form = Form.BASE if isinstance(access.shape, Affine) else Form.SCALAR
        offset = access.displacement
        if isinstance(access.shape, Affine) and strip is not None:
            offset += access.shape.offsets[strip]
        address = self._values.read(access.address, access.address_type, form, strip or 0)
        return self._scalar(access, address, offset)

    def at(self, access: Access, address: str) -> str:
        """Return the pointer of a strip's first lane whose address, as a scalar, is ``address``."""
        return self._scalar(access, address, access.displacement)

    def of_first(self, access: Access, strip: int) -> str:
        """Return the pointer of a strip's first lane, to which the others' distances are known."""
        if not isinstance(access.shape, Vector):
            return self.of_strip(access, strip)
        text, kind = self._text, access.address_type
        addresses = self._values.read(access.address, kind, Form.VECTOR, strip)
        first = text.let(f"extractelement {text.type_of(kind, True)} {addresses}, i64 0")
        return self._scalar(access, first, access.displacement, alone=True)

    def of_lane(self, access: Access, address: str) -> str:
        """Return the pointer of a lane whose address, as a scalar, is ``address``."""
        return self._scalar(access, address, access.displacement, alone=True)

    def of_shared_lane(self, access: Access, address: str, wide: str) -> str:
        """Return the pointer of a lane in shared memory by its ``address``, ``wide`` as an i64."""
        offset = access.displacement
        return shared_memory.pointer(self._text, self._launch, access, address, offset, wide)

    def of_scalar(self, access: Access, address: str, offset: int) -> str:
        """Return the pointer ``offset`` bytes behind an address of which nothing is known."""
        return self._scalar(access, address, offset, alone=True)

    def of_lanes(self, access: Access, strip: int, extra: int) -> str:
        """Return the pointers of a strip's lanes, ``extra`` bytes further."""
        text, launch = self._text, self._launch
        addresses = self._values.read(access.address, access.address_type, Form.VECTOR, strip)
        if access.where is Where.SHARED:
            return shared_memory.pointers(text, launch, access, addresses, extra)
        lanes, places = (text.type_of(t, vector=True) for t in ("i64", "ptr"))
        offset = access.displacement + extra
        whole = addresses
        if access.displacement and (access.tested or access.where is not Where.GLOBAL):
            whole = text.let(f"add {lanes} {addresses}, splat (i64 {access.displacement})")
        if access.where is not Where.GLOBAL:
            return self._either_of_lanes(access, whole, extra)
        shift = launch.shift(whole, access.size, vector=True) if access.tested else None
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
        return text.let(f"getelementptr i8, {places} {pointers}, {lanes} {shift}")

    def from_origin(self, access: Access, distance: str, offset: int) -> str:
        """Return the pointer ``distance`` and ``offset`` bytes behind an access's origin, which are
        bounded."""
        return self.moved(self._launch.moved(self._clamped_origin(access), distance), offset)

    def moved(self, pointer: str, offset: int) -> str:
        """Return a pointer ``offset`` bytes further."""
        return self._launch.moved(pointer, str(offset)) if offset else pointer

    def _scalar(self, access: Access, address: str, offset: int, *, alone: bool = False) -> str:
        """Return a pointer; ``alone``: nothing is known of the address but what its value says."""
        text, launch = self._text, self._launch
        if access.where is Where.SHARED:
            return shared_memory.pointer(text, launch, access, address, offset)
        if access.where is not Where.GLOBAL:
            return self._either(access, address, offset)
        shift = None
        if access.tested:
            whole = address
            if offset % access.size:
                whole = text.let(f"add i64 {address}, {signed(offset, 64)}")
            shift = launch.shift(whole, access.size)
        if access.origin is None or alone:
            if abs(offset) + access.size * text.width > _CLAMP_REACH_BYTES:
                address, offset = text.let(f"add i64 {address}, {signed(offset, 64)}"), 0
            pointer = launch.clamp(address, self._known_shift(access))
        else:
            distance = text.let(f"sub i64 {address}, {launch.origin(access.origin)}")
            pointer = launch.moved(self._clamped_origin(access), distance)
        if shift is not None:
            pointer = launch.moved(pointer, shift)
        return self.moved(pointer, offset)

    def _either(self, access: Access, address: str, offset: int) -> str:
        text, launch = self._text, self._launch
        if not shared_memory.near(offset):
            address, offset = text.let(f"add i64 {address}, {signed(offset, 64)}"), 0
        whole = address
        if access.tested and offset % access.size:
            whole = text.let(f"add i64 {address}, {signed(offset, 64)}")
        pointer, inside = shared_memory.window(text, launch, address)
        if access.tested:
            pointer = launch.moved(pointer, launch.shift(whole, access.size, shared=True))
        if access.where is Where.EITHER:
            other = launch.clamp(address)
            if access.tested:
                other = launch.moved(other, launch.shift(whole, access.size))
            pointer = text.let(f"select i1 {inside}, ptr {pointer}, ptr {other}")
        return self.moved(pointer, offset)

    def _either_of_lanes(self, access: Access, addresses: str, extra: int) -> str:
        text, launch = self._text, self._launch
        lanes, places, flags = (text.type_of(t, vector=True) for t in ("i64", "ptr", "i1"))

        def further(pointers: str, distance: str) -> str:
            return text.let(f"getelementptr i8, {places} {pointers}, {lanes} {distance}")

        pointers, inside = shared_memory.window(text, launch, addresses, vector=True)
        if access.tested:
            shift = launch.shift(addresses, access.size, vector=True, shared=True)
            pointers = further(pointers, shift)
        if access.where is Where.EITHER:
            others = launch.clamp_lanes(addresses)
            if access.tested:
                others = further(others, launch.shift(addresses, access.size, vector=True))
            pointers = text.let(f"select {flags} {inside}, {places} {pointers}, {places} {others}")
        return further(pointers, f"splat (i64 {extra})") if extra else pointers

    def _known_shift(self, access: Access) -> str:
        """Return how far the access is moved, where that is known before it."""
        if access.aligned_as is None:
            return "0"
        return self._launch.origin_shift(access.aligned_as, access.size)

    def _clamped_origin(self, access: Access) -> str:
        assert access.origin is not None
        return self._launch.clamped_origin(access.origin, 1 if access.tested else access.size)
