"""Where a worker maps what it maps: at addresses that no other worker's tell.

Workers are forked from one zygote and inherit its mappings. What they map themselves (pages shared
with their clients, native code, thread stacks, libraries loaded late) the kernel places into the
highest hole that is large enough, so it would lie at the same addresses in each of them. Right
after the fork a worker stops up the holes that it inherited, and takes a gap of a random size below
them that it never gives back: all that comes later lies below that.

What was inherited stays where the zygote has it: the Python interpreter, libc, LLVM, the heap.
"""

import ctypes
import mmap
import os
import secrets
from collections.abc import Iterator
from typing import Final

_MOST_PAGES: Final = 1 << 28  # 1 TiB: out of 128 TiB, beside the 18 of an aperture and its image
_LOWEST: Final = 0x7000_0000_0000  # the kernel places downwards from the stack, far above this
_LARGEST_HOLE: Final = 1 << 36
_MAP_NORESERVE: Final = 0x4000
_MAP_FIXED_NOREPLACE: Final = 0x10_0000
_PROT_NONE: Final = 0


def move_apart() -> None:
    """Stop up the holes and take the gap. Both cost address space only.

    Raises:
        OSError: when the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    for begin, end in list(_holes()):
        # One that is not there any more is no hole: this process is mapping things itself.
        libc.mmap(begin, end - begin, _PROT_NONE, flags | _MAP_FIXED_NOREPLACE, -1, 0)
    size = (secrets.randbelow(_MOST_PAGES) + 1) * mmap.PAGESIZE
    if libc.mmap(None, size, _PROT_NONE, flags, -1, 0) == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _holes() -> Iterator[tuple[int, int]]:
    """Yield what lies between mappings where the kernel places them."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        lines = file.read().splitlines()
    last = None
    for line in lines:
        span, _, rest = line.partition(" ")
        begin, end = (int(part, 16) for part in span.split("-"))
        if rest.endswith("[stack]"):
            return
        if last is not None and last >= _LOWEST and 0 < begin - last < _LARGEST_HOLE:
            yield last, begin
        last = end
