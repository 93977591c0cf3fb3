"""Addresses of a block's shared memory, which have 32 bits.

As a signed number such an address, the strip's offset and the displacement added, stays within what
is reserved around the block's memory: nothing has to be confined. (The address of a lane that runs
is small or faults, so that this is the right one.) What is not aligned moves to an image of all
that.
"""

from vgpu_sim.exec.jit.access import Access
from vgpu_sim.exec.jit.lane_shapes import signed
from vgpu_sim.exec.jit.launch import THREAD_SHARED_BASE, EntryArguments
from vgpu_sim.exec.jit.text import Text
from vgpu_sim.exec.jit.values import Form, Values

_NEAR_BYTES = 1 << 29


def pointer(
    text: Text,
    values: Values,
    launch: EntryArguments,
    access: Access,
    form: Form,
    strip: int,
    offset: int,
) -> str:
    """Return the pointer ``offset`` bytes behind an address read in a scalar form."""
    address = values.read(access.address, "i32", form, strip)
    if abs(offset) > _NEAR_BYTES:
        address, offset = text.let(f"add i32 {address}, {signed(offset, 32)}"), 0
    distance = text.let(f"sext i32 {address} to i64")
    place = launch.moved(launch.thread(THREAD_SHARED_BASE, "ptr"), distance)
    if access.tested:
        if offset % access.size:
            address = text.let(f"add i32 {address}, {signed(offset, 32)}")
        place = launch.moved(place, launch.shift(address, access.size, shared=True))
    return launch.moved(place, str(offset)) if offset else place


def pointers(
    text: Text, values: Values, launch: EntryArguments, access: Access, strip: int, extra: int
) -> str:
    """Return the pointers of a strip's lanes, ``extra`` bytes behind their addresses."""
    narrow, wide, places = (text.type_of(t, vector=True) for t in ("i32", "i64", "ptr"))
    addresses = values.read(access.address, "i32", Form.VECTOR, strip)
    if access.displacement:
        step = signed(access.displacement, 32)
        addresses = text.let(f"add {narrow} {addresses}, splat (i32 {step})")
    distance = text.let(f"sext {narrow} {addresses} to {wide}")
    if extra:
        distance = text.let(f"add {wide} {distance}, splat (i64 {extra})")
    base = launch.thread(THREAD_SHARED_BASE, "ptr")
    found = text.let(f"getelementptr i8, ptr {base}, {wide} {distance}")
    if not access.tested:
        return found
    shift = launch.shift(addresses, access.size, vector=True, shared=True)
    return text.let(f"getelementptr i8, {places} {found}, {wide} {shift}")
