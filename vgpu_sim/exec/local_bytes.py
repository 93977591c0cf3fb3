"""The size of a thread's local memory."""

from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD, STACK_BYTES_PER_THREAD
from vgpu_sim.isa import Function, has_stack


def local_bytes(function: Function, stack_bytes: int = STACK_BYTES_PER_THREAD) -> int:
    """Return the size in bytes of a thread's local memory.

    It consists of the function's own part and, after it, a stack. A function has a stack only if
    it reads the size of its local memory at run time; its calls then keep their frames on the
    stack. If both parts together would exceed a thread's limit, the stack is smaller.
    """
    if not has_stack(function):
        return function.local_bytes
    return min(function.local_bytes + stack_bytes, MAX_LOCAL_BYTES_PER_THREAD)
