"""Memory that hcad shares with clients: it is made, sized and sealed here, and nowhere else."""

import fcntl
import os

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def shared(name: str, size: int) -> int:
    """Return a descriptor of zeros whose size nobody can change. Raises OSError."""
    descriptor = os.memfd_create(f"tessera-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def is_backed(descriptor: int, size: int) -> bool:
    """Tell whether all of it is there: who has touched it was charged for it."""
    return os.fstat(descriptor).st_blocks * 512 >= size
