"""The words in which both backends say what a kernel did wrong."""

from collections.abc import Sequence
from typing import Final

from vgpu_sim.isa import Instruction, TrapCause, disasm


def access(
    what: str, instruction: Instruction, address: int | None, mapped: Sequence[tuple[int, int]]
) -> str:
    """Return e.g. ``illegal address: ST.GLOBAL.B32 [r4], r3 at 0x0, outside …``.

    ``what`` is the kind of fault; ``address`` None says that nobody knows it any more, because it
    was too far outside for native code to keep. ``mapped``: addresses and sizes of what there is.
    """
    text = " ".join(disasm.render_instruction(instruction).split())
    if address is None:
        return f"{what}: {text}, outside of the device's memory"
    return f"{what}: {text} at {address:#x}{_place(address, mapped)}"


def local_access(what: str, instruction: Instruction) -> str:
    """Return what an access to local memory did wrong whose address nobody knows any more."""
    text = " ".join(disasm.render_instruction(instruction).split())
    where = "" if what.startswith("mis") else ", outside of the thread's local memory"
    return f"{what}: {text}{where}"


_CAUSES: Final = {
    TrapCause.STACK: "calls need more than a thread's stack (cuCtxSetLimit, CU_LIMIT_STACK_SIZE)",
    TrapCause.FUNCTION: "a call through a pointer that holds no function which it may call",
    TrapCause.TARGET: "the index of an indirect branch is not below the number of its targets",
    TrapCause.ASSERTION: "an assertion of the program does not hold",
}


def trap(instruction: Instruction) -> str:
    """Return what a trap is called."""
    if instruction.cause in _CAUSES:
        return _CAUSES[instruction.cause]
    return f"the kernel executed a trap: {' '.join(disasm.render_instruction(instruction).split())}"


def barrier(instruction: Instruction, what: str) -> str:
    """Return how threads went wrong at a barrier."""
    return f"{what}: {' '.join(disasm.render_instruction(instruction).split())}"


def _place(address: int, mapped: Sequence[tuple[int, int]]) -> str:
    """Say where an address lies from the nearest memory that is mapped."""
    distances = [
        (max(begin - address, address - (begin + size - 1), 0), begin) for begin, size in mapped
    ]
    if not distances:
        return ", with no memory allocated"
    distance, begin = min(distances)
    if distance == 0:
        return ""
    if distance >= 1 << 40:
        return ", outside of the device's memory"
    side = "before" if address < begin else "past"
    unit = "byte" if distance == 1 else "bytes"
    return f", {distance} {unit} {side} the nearest allocation's memory"
