"""Addresses in a block's shared memory: 32-bit ones, and generic ones.

A 32-bit address is sign-extended. With the vector's offset and the displacement added, it stays
within the reservation around the block's memory, so that it needs no clamping. (The address of
an active lane is small, or faults, so that sign extension is correct.) The distance of a generic
address from the window is clamped to the reservation. Misaligned accesses are redirected to an
unmapped image of the reservation.
"""

from typing import Final

from vgpu_sim.exec.jit.analysis.value_shapes import Analysis
from vgpu_sim.exec.jit.ir.ssa import Operation, SsaFunction
from vgpu_sim.exec.jit.memory.access import Access
from vgpu_sim.exec.jit.shapes.lane_shapes import to_signed
from vgpu_sim.exec.jit.text.writer import Text
from vgpu_sim.exec.jit.values.launch import (
    CONTEXT_DYNAMIC_SHARED,
    THREAD_SHARED_BASE,
    EntryArguments,
)
from vgpu_sim.hal.compute.tensor_memory import TENSOR_END_BYTE
from vgpu_sim.isa import EFFECTS, Space

_MOST_BYTES: Final = 1 << 24  # more than the shared memory of any block
_NEAR_BYTES = 1 << 29
_BEFORE_BYTES: Final = 1 << 30
_WITHIN_BYTES: Final = 1 << 32
_ZEROS_BYTES: Final = 64  # the size of one store
_TURN_BYTES: Final = 4 * _ZEROS_BYTES
# At most this many bytes are cleared without a loop.
_WRITTEN_OUT_BYTES: Final = 8 * _TURN_BYTES


def needs_no_clamp(offset: int) -> bool:
    """Return whether ``offset`` bytes can be added to a clamped pointer without clamping it
    again.
    """
    return abs(offset) <= _NEAR_BYTES


def pointer(
    text: Text, launch: EntryArguments, access: Access, address: str, offset: int, wide: str = ""
) -> str:
    """Return the pointer ``offset`` bytes after a 32-bit address in shared memory.

    ``wide``, if not empty, is the same address as an i64.
    """
    if not needs_no_clamp(offset):
        address, offset, wide = text.let(f"add i32 {address}, {to_signed(offset, 32)}"), 0, ""
    distance = wide or text.let(f"sext i32 {address} to i64")
    place = launch.offset_pointer(launch.thread(THREAD_SHARED_BASE, "ptr"), distance)
    if access.tested:
        if offset % access.size:
            address = text.let(f"add i32 {address}, {to_signed(offset, 32)}")
        shift = launch.shift(address, access.size, shared=True, scalar="i32")
        place = launch.offset_pointer(place, shift)
    return launch.offset_pointer(place, str(offset)) if offset else place


def pointers(text: Text, launch: EntryArguments, access: Access, addresses: str, extra: int) -> str:
    """Return the pointers of a vector's lanes in shared memory, each advanced by ``extra``
    bytes.
    """
    narrow, wide, places = (text.type_of(t, vector=True) for t in ("i32", "i64", "ptr"))
    if access.displacement:
        step = to_signed(access.displacement, 32)
        addresses = text.let(f"add {narrow} {addresses}, splat (i32 {step})")
    distance = text.let(f"sext {narrow} {addresses} to {wide}")
    if extra:
        distance = text.let(f"add {wide} {distance}, splat (i64 {extra})")
    base = launch.thread(THREAD_SHARED_BASE, "ptr")
    lane_pointers = text.let(f"getelementptr i8, ptr {base}, {wide} {distance}")
    if not access.tested:
        return lane_pointers
    shift = launch.shift(addresses, access.size, vector=True, shared=True, scalar="i32")
    return text.let(f"getelementptr i8, {places} {lane_pointers}, {wide} {shift}")


def window_pointer(
    text: Text, launch: EntryArguments, address: str, *, vector: bool = False
) -> tuple[str, str]:
    """Return the pointer for a generic address, and whether the address is in or near shared
    memory.

    For any other address, the pointer refers to unmapped memory.
    """
    words, base = text.type_of("i64", vector), launch.thread(THREAD_SHARED_BASE, "ptr")
    start = text.let(f"sub i64 {launch.window()}, {_BEFORE_BYTES}")
    if vector:
        start = text.splat("i64", start)
    distance = text.let(f"sub {words} {address}, {start}")
    within = text.const(_WITHIN_BYTES, "i64", vector)
    inside = text.let(f"icmp ult {words} {distance}, {within}")
    distance = text.intrinsic("umin", "i64", vector, distance, within)
    distance = text.let(f"sub {words} {distance}, {text.const(_BEFORE_BYTES, 'i64', vector)}")
    return text.let(f"getelementptr i8, ptr {base}, {words} {distance}"), inside


def clear(text: Text, ssa: SsaFunction) -> None:
    """Emit code that clears shared memory for the block that begins here.

    The generated code clears the memory itself; its caller does not. One call can therefore run
    many blocks. The code may clear bytes after the block's own, but only in the block's last
    page, which no other block uses.
    """
    if not _may_reach(ssa):
        return
    launch = EntryArguments(text, lambda name: 0)
    base = launch.thread(THREAD_SHARED_BASE, "ptr")

    def zeros(place: str, count: int) -> None:
        for offset in range(0, count, _ZEROS_BYTES):
            zeros_pointer = launch.offset_pointer(place, str(offset)) if offset else place
            text.do(f"store <{_ZEROS_BYTES} x i8> zeroinitializer, ptr {zeros_pointer}, align 1")

    known = -(-ssa.function.shared_bytes // _TURN_BYTES) * _TURN_BYTES
    if ssa.function.tensor_memory:
        known = TENSOR_END_BYTE
    first = known if known <= _WRITTEN_OUT_BYTES else 0
    zeros(base, first)
    size = launch.emit_once("shared size", lambda: _size(text, launch, ssa))
    origin, turn, onward = text.block_label, text.label("clears"), text.label("cleared")
    text.branch(text.let(f"icmp ugt i32 {size}, {first}"), turn, onward)
    text.begin(turn, follows=True)
    place, counter = text.reserve(), text.name()
    confined = text.let(f"and i32 {counter}, {_MOST_BYTES - _TURN_BYTES}")
    zeros(launch.offset_pointer(base, text.let(f"zext i32 {confined} to i64")), _TURN_BYTES)
    following = text.let(f"add i32 {counter}, {_TURN_BYTES}")
    has_more_bytes = text.let(f"icmp ult i32 {following}, {size}")
    text.fill(place, counter, "i32", [(str(first), origin), (following, turn)])
    text.branch(has_more_bytes, turn, onward)
    text.begin(onward)


def _size(text: Text, launch: EntryArguments, ssa: SsaFunction) -> str:
    if ssa.function.tensor_memory:
        return str(TENSOR_END_BYTE)
    dynamic = launch.context(CONTEXT_DYNAMIC_SHARED, "i32")
    return text.let(f"add i32 {dynamic}, {ssa.function.shared_bytes}")


def _may_reach(ssa: SsaFunction) -> bool:
    """Return whether a function has shared memory, or may request some."""
    nodes = (node for block in ssa.blocks.values() for node in block.nodes)
    instructions = [node.instruction for node in nodes if isinstance(node, Operation)]
    return (
        ssa.function.shared_bytes > 0
        or ssa.function.tensor_memory
        or any(
            instruction.space in (Space.SHARED, Space.GENERIC)
            and (EFFECTS[instruction.op].reads or EFFECTS[instruction.op].writes)
            for instruction in instructions
        )
    )


def clear_again(text: Text, started: Analysis | None) -> None:
    """Emit code that clears shared memory again when a group starts over. The group consists of a
    whole block.

    ``started`` is the analysis of the version in which the group began. Emit nothing if no group
    of that version can have written shared memory before it starts over.
    """
    if started is None or not started.clears_shared:
        return
    launch = EntryArguments(text, lambda name: 0)
    base, size = launch.thread(THREAD_SHARED_BASE, "ptr"), _size(text, launch, started.ssa)
    origin, turn, onward = text.block_label, text.label("clears"), text.label("cleared")
    text.branch(text.let(f"icmp eq i32 {size}, 0"), onward, turn)
    text.begin(turn)
    place, counter = text.reserve(), text.name()
    confined = text.let(f"and i32 {counter}, {_MOST_BYTES - 1}")
    byte = launch.offset_pointer(base, text.let(f"zext i32 {confined} to i64"))
    text.do(f"store volatile i8 0, ptr {byte}, align 1")  # volatile: no call of memset
    following = text.let(f"add i32 {counter}, 1")
    has_more_bytes = text.let(f"icmp ult i32 {following}, {size}")
    text.fill(place, counter, "i32", [("0", origin), (following, turn)])
    text.branch(has_more_bytes, turn, onward)
    text.begin(onward)
