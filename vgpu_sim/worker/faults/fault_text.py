"""The descriptions of kernel faults that both backends use."""

from typing import Final

from vgpu_sim.isa import Instruction, Space, TrapCause, disasm
from vgpu_sim.isa.families.move import CLUSTER_RANK_SHIFT, FIRST_RANK_FIELD


def describe_access(
    fault_name: str,
    instruction: Instruction,
    address: int | None,
    private_bytes: int | None = None,
    cluster_blocks: int = 1,
) -> str:
    """Describe an invalid access, for example ``illegal address: ST.GLOBAL.B32 [r4], r3 at 0x0``.

    ``fault_name`` is the kind of fault. ``address`` is None if it is unknown, because it was so far
    out of range that native code could not preserve it. For an access to shared or local memory,
    ``private_bytes`` is the size of that memory, which begins at address 0; ``cluster_blocks`` is
    the number of blocks whose shared memory has addresses with a rank. The client describes an
    address of global memory, because it knows the program's allocations.
    """
    text = " ".join(disasm.render_instruction(instruction).split())
    if address is None:
        return f"{fault_name}: {text}, outside of the device's memory"
    place = ""
    if private_bytes is not None:
        place = _place(address, private_bytes, instruction.space)
        has_rank = cluster_blocks > 1 and address >> CLUSTER_RANK_SHIFT >= FIRST_RANK_FIELD
        if instruction.space is Space.SHARED and has_rank:
            place = _place_in_cluster(address, private_bytes, cluster_blocks)
    return f"{fault_name}: {text} at {address:#x}{place}"


def describe_local_access(fault_name: str, instruction: Instruction) -> str:
    """Describe an invalid access to local memory whose address is unknown."""
    text = " ".join(disasm.render_instruction(instruction).split())
    where = "" if fault_name.startswith("mis") else ", outside of the thread's local memory"
    return f"{fault_name}: {text}{where}"


_CAUSES: Final = {
    TrapCause.STACK: "calls need more than a thread's stack (cuCtxSetLimit, CU_LIMIT_STACK_SIZE)",
    TrapCause.FUNCTION: "a call through a pointer that does not hold a callable function",
    TrapCause.TARGET: "the index of an indirect branch is not below the number of its targets",
    TrapCause.ASSERTION: "an assertion of the program does not hold",
    TrapCause.TENSOR_MEMORY: "an access to tensor memory that is not allocated, or whose lanes the"
    " warp cannot reach",
    TrapCause.TENSOR_OPERAND: "an operand or a descriptor of tcgen05 is illegal, or names bytes"
    " outside the block's shared memory",
    TrapCause.TENSOR_COPY: "a tensor copy with an illegal tensor map, shared memory that is not"
    " aligned to 128 bytes, a row whose offset in bytes is not a multiple of 16, or a store"
    " or reduction with a negative coordinate",
    TrapCause.TENSOR_SATURATION: "tcgen05.mma .kind::i8 with bit 3 of its instruction descriptor"
    " (saturation) is not supported",
}


def describe_trap(instruction: Instruction) -> str:
    """Return the description of a trap."""
    if instruction.cause in _CAUSES:
        return _CAUSES[instruction.cause]
    return f"the kernel executed a trap: {' '.join(disasm.render_instruction(instruction).split())}"


def describe_barrier_error(instruction: Instruction, error_name: str) -> str:
    """Return the description of an error at a barrier."""
    return f"{error_name}: {' '.join(disasm.render_instruction(instruction).split())}"


def _place(address: int, size: int, space: Space) -> str:
    """Describe by how far an address is past the end of shared or local memory."""
    if address < size:
        return ""
    distance = address - size + 1
    owner = "block" if space is Space.SHARED else "thread"
    plural = "" if distance == 1 else "s"
    whose = f"the {owner}'s {size} bytes of {space.name.lower()} memory"
    return f", {distance} byte{plural} past the end of {whose}"


def _place_in_cluster(address: int, size: int, blocks: int) -> str:
    """Describe an address of shared memory that names a rank of a cluster."""
    rank = (address >> CLUSTER_RANK_SHIFT) - FIRST_RANK_FIELD
    offset = address & ((1 << CLUSTER_RANK_SHIFT) - 1)
    if rank >= blocks:
        return f", offset {offset:#x} in rank {rank}; the cluster has {blocks} blocks"
    return f", offset {offset:#x} in the {size} bytes of shared memory of rank {rank}"
