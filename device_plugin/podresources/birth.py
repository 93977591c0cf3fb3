"""The birth time of a directory, which Python's own ``os.stat`` does not return.

A pod's log directory changes whenever one of its containers starts or ends, so neither ctime nor
mtime shows which of two pods of one name is the younger.
"""

import ctypes
import os
import struct
from pathlib import Path

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX_BYTES = 256
_MASK_OFFSET = 0  # struct statx: stx_mask
_BTIME_OFFSET = 80  # struct statx: stx_btime {s64 tv_sec, u32 tv_nsec}
_libc = ctypes.CDLL(None, use_errno=True)


def birth_time_ns(path: Path) -> int:
    """Return the birth time of ``path``, in nanoseconds since the epoch (statx(2), ``stx_btime``).

    If the file system does not store a birth time, return the time of the inode's last change.

    Raises:
        OSError: there is no such file.
    """
    buffer = ctypes.create_string_buffer(_STATX_BYTES)
    status = _libc.statx(
        ctypes.c_int(_AT_FDCWD),
        os.fsencode(path),
        ctypes.c_int(_AT_SYMLINK_NOFOLLOW),
        ctypes.c_uint(_STATX_BTIME),
        buffer,
    )
    if status != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    (mask,) = struct.unpack_from("=I", buffer, _MASK_OFFSET)
    if not mask & _STATX_BTIME:
        return path.lstat().st_ctime_ns
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, _BTIME_OFFSET)
    return int(seconds * 1_000_000_000 + nanoseconds)
