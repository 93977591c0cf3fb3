"""A group's position in its block, as LLVM text: thread indices, and the mask of existing
threads.
"""

from vgpu_sim.exec.jit.emission.emitter import Specials
from vgpu_sim.exec.jit.shapes.geometry import Geometry, Padding
from vgpu_sim.exec.jit.text.masks import Mask
from vgpu_sim.exec.jit.text.writer import Text


def slot_indices(text: Text, geometry: Geometry, first: str) -> tuple[str, str, str]:
    """Return the thread indices in x, y and z of slot ``first`` of the block. Slots are numbered
    over all lanes of the block, padding included.
    """
    x, y, z = geometry.padded
    if geometry.padding == Padding.LINE:
        # The index on the only axis; those of others are 0, or computed per lane.
        return (
            first,
            first,
            first,
        )
    column, row, plane = first, "0", "0"
    if y > 1 or z > 1:
        column = text.let(f"urem i32 {first}, {x}")
        row = text.let(f"udiv i32 {first}, {x}")
    if z > 1:
        plane = text.let(f"udiv i32 {row}, {y}")
        row = text.let(f"urem i32 {row}, {y}")
    return column, row, plane


def present_lanes(text: Text, geometry: Geometry, specials: Specials) -> Mask:
    """Return a mask of the lanes of a group that are threads, and not padding."""
    limit, base, known = geometry.threads, specials.first, geometry.groups == 1
    width = geometry.width
    rows = tuple(tuple(range(n, n + width)) for n in range(0, geometry.span, width))
    if geometry.padding == Padding.ROWS:
        axis = geometry.axes()[0]
        assert axis is not None
        limit, base, rows = geometry.block[0], specials.thread[0], axis.rows
        known = axis.align is None
    if known:
        return Mask(tuple(text.lanes("i1", (int(n < limit) for n in row)) for row in rows))
    type_ = text.type_of("i32", vector=True)
    vectors = []
    for row in rows:
        index = text.let(f"add {type_} {text.splat('i32', base)}, {text.lanes('i32', row)}")
        vectors.append(text.let(f"icmp ult {type_} {index}, splat (i32 {limit})"))
    return Mask(tuple(vectors))


def is_whole(text: Text, geometry: Geometry, first: str) -> str:
    """Return whether every lane of the group is a thread."""
    last, limit = first, geometry.threads
    if geometry.padding == Padding.ROWS:
        last, limit = slot_indices(text, geometry, first)[0], geometry.block[0]
    group_end = text.let(f"add i32 {last}, {geometry.span}")
    return text.let(f"icmp ule i32 {group_end}, {limit}")


def thread_of(text: Text, geometry: Geometry, slot: str) -> tuple[str, str]:
    """Return whether a slot (a lane of the block) is a thread, and the thread's linear index."""
    column, thread, limit = slot, slot, geometry.threads
    if geometry.padding == Padding.ROWS:
        width, limit = geometry.padded[0], geometry.block[0]
        column = text.let(f"urem i32 {slot}, {width}")
        row = text.let(f"udiv i32 {slot}, {width}")
        begin = text.let(f"mul i32 {row}, {limit}")
        thread = text.let(f"add i32 {begin}, {column}")
    return text.let(f"icmp ult i32 {column}, {limit}"), thread
