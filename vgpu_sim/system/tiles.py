"""Permission to use the tile registers of x86 processors (AMX).

Linux allocates their 8 KiB of state for processes that have requested it before the first use;
otherwise a tile instruction raises SIGILL (Documentation/arch/x86/xstate.rst). The permission
covers all threads, present and future, and processes that are forked later.
"""

import ctypes
import functools
import platform
from typing import Final

from vgpu_sim.system import calls

_SYS_ARCH_PRCTL: Final = 158
_ARCH_GET_XCOMP_PERM: Final = 0x1022
_ARCH_REQ_XCOMP_PERM: Final = 0x1023
_TILE_DATA: Final = 18  # the number of the state component


@functools.cache
def request() -> bool:
    """Request the permission for this process; return whether the process has it.

    The system call must be permitted when this is called for the first time, so a process calls
    it before it enters its sandbox. Processes that are forked later have the result, too.
    """
    if platform.machine() != "x86_64":
        return False
    granted = ctypes.c_uint64()
    try:
        calls.syscall(_SYS_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA)
        calls.syscall(_SYS_ARCH_PRCTL, _ARCH_GET_XCOMP_PERM, ctypes.byref(granted))
    except OSError:  # an older kernel, a filter of system calls, or no such processor
        return False
    return bool(granted.value >> _TILE_DATA & 1)
