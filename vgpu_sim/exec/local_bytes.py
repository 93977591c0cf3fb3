"""How much local memory each thread of a launch has."""

from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD, STACK_BYTES_PER_THREAD
from vgpu_sim.isa import Function, has_stack


def local_bytes(function: Function, stack_bytes: int = STACK_BYTES_PER_THREAD) -> int:
    """Return the bytes of a thread's local memory: the function's own, then those of a stack.

    Only a function that asks for the size has a stack: one whose calls keep frames there. It is
    shorter where both would be more than a thread can have.
    """
    if not has_stack(function):
        return function.local_bytes
    return min(function.local_bytes + stack_bytes, MAX_LOCAL_BYTES_PER_THREAD)
