"""Randomizes the addresses of a worker's mappings, which must not reveal those of other workers.

Workers are forked from one zygote and inherit its mappings. A worker's own mappings (pages
shared with its client, native code, thread stacks, libraries loaded late, the interpreter's
memory) would be at the same addresses in each of them, because the kernel places them into the
highest hole that is large enough. So the zygote fills its holes before a fork, and a worker
first reserves a gap of a random size below all mappings, which it never releases: all later
mappings are below the gap.

Inherited mappings stay where the zygote has them: the Python interpreter, libc, LLVM, the heap
with its large blocks (``hal.compute.spawn.ZYGOTE_ENVIRONMENT``). If a worker unmaps one of them,
a hole remains above the gap; native code is not placed there (``fill_holes_above_gap``).
"""

import ctypes
import mmap
import os
import secrets
from collections.abc import Iterator
from typing import Final

# 1 TiB, out of 128 TiB; an aperture and its inaccessible copy take another 18 TiB.
_MOST_PAGES: Final = 1 << 28
_LOWEST: Final = 0x7000_0000_0000  # the kernel places mappings far above this, below the stack
_LARGEST_HOLE: Final = 1 << 36
_MAP_NORESERVE: Final = 0x4000
_MAP_FIXED_NOREPLACE: Final = 0x10_0000
_PROT_NONE: Final = 0
_FLAGS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
_MOST_ROUNDS: Final = 16
_LINKED: Final = 1 << 18  # the most bytes that linking adds to an object, in parts of 64 KiB
_gap = 0  # its lowest address

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def reserve_gap() -> None:
    """Reserve an address range of random size, the gap. The gap is larger than any hole between
    mappings, so later mappings are below it. It costs address space only.

    Raises:
        OSError: the kernel refuses.
    """
    global _gap
    _gap = _take(_LARGEST_HOLE + (secrets.randbelow(_MOST_PAGES) + 1) * mmap.PAGESIZE)


def fill_holes_above_gap(size: int) -> None:
    """Fill those free address ranges above the gap (see ``reserve_gap``) that are large enough for
    the code of an object of ``size`` bytes.

    Raises:
        OSError: the kernel refuses.
    """
    needed = -(-(size + _LINKED) // mmap.PAGESIZE) * mmap.PAGESIZE
    while _gap and needed:
        place = _take(needed)
        if place < _gap:
            _libc.munmap(place, needed)
            needed = needed // 2 // mmap.PAGESIZE * mmap.PAGESIZE


def _take(size: int) -> int:
    place = _libc.mmap(None, size, _PROT_NONE, _FLAGS, -1, 0)
    if place == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(place)


def fill_holes() -> None:
    """Fill the holes between mappings with inaccessible memory. The search for holes creates
    mappings itself, so it is repeated.
    """
    for _ in range(_MOST_ROUNDS):
        holes = list(_holes())
        if not holes:
            return
        for begin, end in holes:
            # Another mapping may have been created there by now.
            flags = _FLAGS | _MAP_FIXED_NOREPLACE
            _libc.mmap(begin, end - begin, _PROT_NONE, flags, -1, 0)


def _holes() -> Iterator[tuple[int, int]]:
    """Yield the holes between mappings, in the range in which the kernel places new mappings."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        lines = file.read().splitlines()
    last = None
    for line in lines:
        span, _, description = line.partition(" ")
        begin, end = (int(part, 16) for part in span.split("-"))
        if description.endswith("[stack]"):
            return
        if last is not None and last >= _LOWEST and 0 < begin - last < _LARGEST_HOLE:
            yield last, begin
        last = end
