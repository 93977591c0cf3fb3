"""Stores of those elements of a vector that a mask selects.

If a constant mask selects a single element of a vector that has just been truncated, LLVM stores
the element before truncation, which is too long. Such a store is therefore emitted as a scalar
store.
"""

from vgpu_sim.exec.jit.text import flags
from vgpu_sim.exec.jit.text.writer import BITS, Text


def store(text: Text, scalar: str, count: int, vector: str, pointer: str, mask: str) -> None:
    """Store those of the ``count`` elements of ``vector`` that ``mask`` selects. The pointer need
    not be aligned.
    """
    type_ = f"<{count} x {scalar}>"
    known = flags.parse_constant(mask, count)
    if known is not None and sum(known) == 1:
        lane = known.index(True)
        element = text.let(f"extractelement {type_} {vector}, i64 {lane}")
        if lane:
            pointer = text.let(f"getelementptr i8, ptr {pointer}, i64 {lane * BITS[scalar] // 8}")
        text.do(f"store {scalar} {element}, ptr {pointer}, align 1")
        return
    name = f"llvm.masked.store.{text.mangle(scalar, count)}.p0"
    text.call("void", name, (type_, vector), ("ptr", pointer), (f"<{count} x i1>", mask))
