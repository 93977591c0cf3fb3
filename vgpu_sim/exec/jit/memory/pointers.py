"""The pointer of an access: its address, clamped, and redirected if it is misaligned.

Every global address is clamped to the aperture (see ``known_values`` and ``launch``). If it
stays near the pointer from which it is derived (its origin), that pointer is clamped once.
Otherwise each access is clamped: a scalar address before the vector's offset and the
displacement are added (after them if they are large), a vector of addresses lane by lane. A
misaligned access is redirected to unmapped memory: together with its origin if its distance from
that is a multiple of the access size, which costs nothing per access, else by a test of the
address.

For addresses in shared memory see ``shared_memory``. A generic address may be in either memory:
both pointers are computed, and the address selects one.
"""

from vgpu_sim.exec.jit.memory import shared_memory
from vgpu_sim.exec.jit.memory.access import Access, Where
from vgpu_sim.exec.jit.shapes.lane_shapes import Affine, Vector, to_signed
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.environment import Form, Values
from vgpu_sim.exec.jit.values.launch import EntryArguments

_CLAMP_REACH_BYTES = 1 << 31


class Pointers:
    """Emits code that computes the pointers for the accesses of one function version."""

    def __init__(self, text: Text, values: Values, launch: EntryArguments) -> None:
        self._text = text
        self._values = values
        self._launch = launch

    def of_vector(self, access: Access, part: int | None) -> str:
        """Return the pointer of the first lane of vector ``part``. If ``part`` is None, return the
        pointer of the group's base.

        The lanes must have contiguous addresses, or all the same address. The alignment of the
        first lane then holds for all lanes.
        """
        form = Form.BASE if isinstance(access.shape, Affine) else Form.SCALAR
        offset = access.displacement
        if isinstance(access.shape, Affine) and part is not None:
            offset += access.shape.offsets[part]
        address = self._values.read(access.address, access.address_type, form, part or 0)
        return self._scalar(access, address, offset)

    def at(self, access: Access, address: str) -> str:
        """Return the pointer of a vector's first lane. ``address`` is the lane's address as a
        scalar.
        """
        return self._scalar(access, address, access.displacement)

    def of_first(self, access: Access, part: int) -> str:
        """Return the pointer of the first lane of vector ``part``. The other lanes have known
        distances from it.
        """
        if not isinstance(access.shape, Vector):
            return self.of_vector(access, part)
        text, kind = self._text, access.address_type
        addresses = self._values.read(access.address, kind, Form.VECTOR, part)
        first = text.let(f"extractelement {text.type_of(kind, True)} {addresses}, i64 0")
        return self._scalar(access, first, access.displacement, alone=True)

    def of_lane(self, access: Access, address: str) -> str:
        """Return the pointer of a lane. ``address`` is the lane's address as a scalar."""
        return self._scalar(access, address, access.displacement, alone=True)

    def of_shared_lane(self, access: Access, address: str, wide: str) -> str:
        """Return the pointer of a lane in shared memory.

        ``address`` is the lane's address, and ``wide`` is the same address as an i64.
        """
        offset = access.displacement
        return shared_memory.pointer(self._text, self._launch, access, address, offset, wide)

    def of_scalar(self, access: Access, address: str, offset: int) -> str:
        """Return the pointer ``offset`` bytes after ``address``, which may be any address."""
        return self._scalar(access, address, offset, alone=True)

    def of_lanes(self, access: Access, part: int, extra: int) -> str:
        """Return the pointers of the lanes of vector ``part``, each advanced by ``extra`` bytes."""
        text, launch = self._text, self._launch
        addresses = self._values.read(access.address, access.address_type, Form.VECTOR, part)
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
        """Return the pointer ``distance + offset`` bytes after the clamped origin of an access.

        The sum must have a known bound.
        """
        return self.offset_pointer(
            self._launch.offset_pointer(self._clamped_origin(access), distance), offset
        )

    def offset_pointer(self, pointer: str, offset: int) -> str:
        """Return a pointer plus ``offset`` bytes."""
        return self._launch.offset_pointer(pointer, str(offset)) if offset else pointer

    def _scalar(self, access: Access, address: str, offset: int, *, alone: bool = False) -> str:
        """Return the pointer ``offset`` bytes after a scalar address.

        ``alone`` states that the access's origin does not apply to this address.
        """
        text, launch = self._text, self._launch
        if access.where is Where.SHARED:
            return shared_memory.pointer(text, launch, access, address, offset)
        if access.where is not Where.GLOBAL:
            return self._either(access, address, offset)
        shift = None
        if access.tested:
            whole = address
            if offset % access.size:
                whole = text.let(f"add i64 {address}, {to_signed(offset, 64)}")
            shift = launch.shift(whole, access.size)
        if access.origin is None or alone:
            if abs(offset) + access.size * text.width > _CLAMP_REACH_BYTES:
                address, offset = text.let(f"add i64 {address}, {to_signed(offset, 64)}"), 0
            pointer = launch.clamp(address, self._known_shift(access))
        else:
            distance = text.let(f"sub i64 {address}, {launch.origin(access.origin)}")
            pointer = launch.offset_pointer(self._clamped_origin(access), distance)
        if shift is not None:
            pointer = launch.offset_pointer(pointer, shift)
        return self.offset_pointer(pointer, offset)

    def _either(self, access: Access, address: str, offset: int) -> str:
        text, launch = self._text, self._launch
        if not shared_memory.needs_no_clamp(offset):
            address, offset = text.let(f"add i64 {address}, {to_signed(offset, 64)}"), 0
        whole = address
        if access.tested and offset % access.size:
            whole = text.let(f"add i64 {address}, {to_signed(offset, 64)}")
        pointer, inside = shared_memory.window_pointer(text, launch, address)
        if access.tested:
            pointer = launch.offset_pointer(pointer, launch.shift(whole, access.size, shared=True))
        if access.where is Where.EITHER:
            global_pointer = launch.clamp(address)
            if access.tested:
                global_pointer = launch.offset_pointer(
                    global_pointer, launch.shift(whole, access.size)
                )
            pointer = text.let(f"select i1 {inside}, ptr {pointer}, ptr {global_pointer}")
        return self.offset_pointer(pointer, offset)

    def _either_of_lanes(self, access: Access, addresses: str, extra: int) -> str:
        text, launch = self._text, self._launch
        lanes, places, flags = (text.type_of(t, vector=True) for t in ("i64", "ptr", "i1"))

        def further(pointers: str, distance: str) -> str:
            return text.let(f"getelementptr i8, {places} {pointers}, {lanes} {distance}")

        pointers, inside = shared_memory.window_pointer(text, launch, addresses, vector=True)
        if access.tested:
            shift = launch.shift(addresses, access.size, vector=True, shared=True)
            pointers = further(pointers, shift)
        if access.where is Where.EITHER:
            global_pointers = launch.clamp_lanes(addresses)
            if access.tested:
                global_pointers = further(
                    global_pointers, launch.shift(addresses, access.size, vector=True)
                )
            pointers = text.let(
                f"select {flags} {inside}, {places} {pointers}, {places} {global_pointers}"
            )
        return further(pointers, f"splat (i64 {extra})") if extra else pointers

    def _known_shift(self, access: Access) -> str:
        """Return the distance by which the access is redirected, if its origin determines it."""
        if access.aligned_as is None:
            return "0"
        return self._launch.origin_shift(access.aligned_as, access.size)

    def _clamped_origin(self, access: Access) -> str:
        assert access.origin is not None
        return self._launch.clamped_origin(access.origin, 1 if access.tested else access.size)
