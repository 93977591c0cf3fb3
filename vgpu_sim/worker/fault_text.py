"""The words in which both backends say what a kernel did wrong."""

from collections.abc import Sequence

from vgpu_sim.isa import Instruction, disasm


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


def trap(instruction: Instruction) -> str:
    """Return what a trap is called."""
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
