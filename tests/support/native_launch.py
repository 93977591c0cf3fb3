"""Runs JIT-compiled kernels in this process: an aperture of its own, the caller's structures.

A stand-in for the native worker on the caller's side only: the generated code is the real one.
"""

import ctypes
import faulthandler
import mmap
import os
import signal
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vgpu_sim.exec import jit

APERTURE_BYTES = 1 << 43
ZONE_BYTES = 1 << 37  # never allocated, at both ends of the aperture
BEFORE_BYTES, AFTER_BYTES = 1 << 37, 1 << 38
MISALIGNED_OFFSET_BYTES = 9 << 40  # where native code moves accesses that are not aligned
_PROT_NONE = 0
_MAP_NORESERVE = 0x4000
_MAP_FIXED = 0x10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Aperture:
    """The reserved range of addresses; memory appears in it page by page."""

    def __init__(self) -> None:
        self._bytes = BEFORE_BYTES + MISALIGNED_OFFSET_BYTES + APERTURE_BYTES + AFTER_BYTES
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._start = _libc.mmap(None, self._bytes, _PROT_NONE, flags, -1, 0)
        assert self._start not in (None, ctypes.c_void_p(-1).value), ctypes.get_errno()
        self.base = self._start + BEFORE_BYTES
        self._next = self.base + ZONE_BYTES

    def allocate(self, data: bytes | np.ndarray, *, gap_pages: int = 1) -> "Buffer":
        """Memory that holds ``data``, ends where its last page ends, and is followed by a gap."""
        array = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        size = max(array.nbytes, 1)
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        # Shared, so that a forked child's stores are seen here.
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _MAP_FIXED
        assert _libc.mmap(self._next, pages, protection, flags, -1, 0) == self._next
        address = self._next + pages - size
        address -= address % 64 if size % 64 == 0 else 0
        self._next += pages + gap_pages * mmap.PAGESIZE
        view = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        view[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        return Buffer(address, view)

    def close(self) -> None:
        _libc.munmap(self._start, self._bytes)


@dataclass
class Buffer:
    address: int
    view: np.ndarray

    def as_type(self, dtype: str) -> np.ndarray:
        return self.view.view(dtype)


_ENTRY = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p
)


def context(
    aperture: Aperture,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    segment_base: int = 0,
) -> bytes:
    """A ``launch_context``."""
    return struct.pack(
        "<QQQ3I3IQQ", aperture.base, APERTURE_BYTES, segment_base, *grid, *block, 0, 0
    )


def run(
    loaded: jit.Loaded,
    launch: bytes,
    parameters: bytes,
    ranges: Iterable[tuple[int, int]],
) -> tuple[int, int]:
    """Call the entry for each range of blocks; returns the status and the last block begun."""
    ctx = ctypes.create_string_buffer(launch, len(launch))
    params = ctypes.create_string_buffer(parameters or b"\0", max(len(parameters), 1))
    state = ctypes.create_string_buffer(48)
    entry = _ENTRY(loaded.entry)
    for begin, end in ranges:
        entry(ctypes.addressof(ctx), ctypes.addressof(params), begin, end, ctypes.addressof(state))
        status = struct.unpack_from("<I", state, 8)[0]
        if status:
            break
    current, status = struct.unpack_from("<QI", state, 0)
    return status, current


def run_forked(
    loaded: jit.Loaded,
    launch: bytes,
    parameters: bytes,
    ranges: Iterable[tuple[int, int]],
) -> int:
    """``run`` in a child, which may fault: returns the status, or minus the signal."""
    child = os.fork()
    if not child:
        faulthandler.disable()
        status, _ = run(loaded, launch, parameters, ranges)
        os._exit(1 if status else 0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class _SignalAction(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_SA_SIGINFO = 4


def run_watched(
    loaded: jit.Loaded, launch: bytes, parameters: bytes, ranges: Iterable[tuple[int, int]]
) -> int | None:
    """``run`` in a child; returns the address of the memory fault that ends it, None if none does.

    Raises:
        AssertionError: when the child ends in any other way.
    """
    report = mmap.mmap(-1, 4096)
    child = os.fork()
    if not child:

        @_HANDLER
        def on_fault(_: int, info: int, __: int) -> None:
            report[:8] = ctypes.string_at(info + 16, 8)
            os._exit(9)

        handler = ctypes.cast(on_fault, ctypes.c_void_p).value
        action = _SignalAction(handler, flags=_SA_SIGINFO)
        for number in (signal.SIGSEGV, signal.SIGBUS):
            _libc.sigaction(int(number), ctypes.byref(action), None)
        run(loaded, launch, parameters, ranges)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), code
    return int(struct.unpack("<Q", report[:8])[0]) if code else None


def pack(function_parameters: Sequence[object], size: int, values: Sequence[int | bytes]) -> bytes:
    """A parameter block: each value at its parameter's offset."""
    block = bytearray(size)
    for parameter, value in zip(function_parameters, values, strict=True):
        data = value if isinstance(value, bytes) else (value & (1 << 64) - 1).to_bytes(8, "little")
        width = parameter.size  # type: ignore[attr-defined]
        block[parameter.offset : parameter.offset + width] = data[:width]  # type: ignore[attr-defined]
    return bytes(block)
