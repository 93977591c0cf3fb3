"""Where a worker maps what it maps: at addresses that no other worker's tell.

Workers are forked from one zygote and inherit its mappings. What they map themselves (pages shared
with their clients, native code, thread stacks, libraries loaded late, the interpreter's memory) the
kernel places into the highest hole that is large enough, so it would lie at the same addresses in
each of them. So the zygote stops up its holes before a fork, and the first thing that a worker does
is to take a gap of a random size below everything, which it never gives back: all that comes later
lies below that.

What was inherited stays where the zygote has it: the Python interpreter, libc, LLVM, the heap with
its large blocks (``hal.compute.spawn.ZYGOTE_ENVIRONMENT``). Where such a block is given back a hole
is left above the gap; native code does not go there (``pass_by_holes``).
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
_FLAGS: Final = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
_MOST_ROUNDS: Final = 16
_LINKED: Final = 1 << 18  # what an object is longer by when it is linked, parts of 64 KiB, at most
_gap = 0  # where it begins

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def take_gap() -> None:
    """Take the gap, which is larger than any hole. It costs address space only.

    Raises:
        OSError: when the kernel refuses.
    """
    global _gap
    _gap = _take(_LARGEST_HOLE + (secrets.randbelow(_MOST_PAGES) + 1) * mmap.PAGESIZE)


def pass_by_holes(size: int) -> None:
    """Take the holes above the gap that the code of an object of so many bytes could go into.

    Raises:
        OSError: when the kernel refuses.
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


def stop_up_holes() -> None:
    """Take what lies between mappings; again, since looking for it maps memory, too."""
    for _ in range(_MOST_ROUNDS):
        holes = list(_holes())
        if not holes:
            return
        for begin, end in holes:
            flags = _FLAGS | _MAP_FIXED_NOREPLACE  # something may lie there by now
            _libc.mmap(begin, end - begin, _PROT_NONE, flags, -1, 0)


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
