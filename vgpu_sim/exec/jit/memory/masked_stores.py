"""Stores of those elements of a vector that flags tell.

LLVM stores too many bytes by a mask that is known to have one element, where the vector has just
been truncated: the element as it was before. So such a store is written as one of the element.
"""

from vgpu_sim.exec.jit.text import flags
from vgpu_sim.exec.jit.text.writer import BITS, Text


def store(text: Text, scalar: str, count: int, vector: str, pointer: str, mask: str) -> None:
    """Store elements of ``<count x scalar>``, aligned to nothing."""
    type_ = f"<{count} x {scalar}>"
    known = flags.known(mask, count)
    if known is not None and sum(known) == 1:
        lane = known.index(True)
        element = text.let(f"extractelement {type_} {vector}, i64 {lane}")
        if lane:
            pointer = text.let(f"getelementptr i8, ptr {pointer}, i64 {lane * BITS[scalar] // 8}")
        text.do(f"store {scalar} {element}, ptr {pointer}, align 1")
        return
    name = f"llvm.masked.store.{text.mangle(scalar, count)}.p0"
    text.call("void", name, (type_, vector), ("ptr", pointer), (f"<{count} x i1>", mask))
