"""Create memory that hcad shares with clients.

No other module creates, sizes and seals such memory.
"""

import fcntl
import os

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def new_shared_memory(name: str, size: int) -> int:
    """Return a descriptor of zeroed memory, sealed against changes of its size. Raises OSError."""
    descriptor = os.memfd_create(f"tessera-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_backed(descriptor: int, size: int) -> bool:
    """Return whether all pages of shared memory are allocated.

    In that case, the pages have been charged to a process other than hcad.
    """
    return os.fstat(descriptor).st_blocks * 512 >= size
