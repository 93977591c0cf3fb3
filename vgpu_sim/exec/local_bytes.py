"""The size of a thread's local memory."""

from vgpu_sim.hal.compute.limits import MAX_LOCAL_BYTES_PER_THREAD, STACK_BYTES_PER_THREAD
from vgpu_sim.isa import Function, has_stack


def local_bytes(function: Function, stack_bytes: int = STACK_BYTES_PER_THREAD) -> int:
    """Return the size in bytes of a thread's local memory: the function's own part, then a stack.

    There is a stack only if the function reads the size of its local memory when it runs: its
    calls then keep their frames on the stack. If both parts together would exceed a thread's
    limit, the stack is smaller.
    """
    if not has_stack(function):
        return function.local_bytes
    return min(function.local_bytes + stack_bytes, MAX_LOCAL_BYTES_PER_THREAD)
