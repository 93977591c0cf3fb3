"""Runs JIT-compiled kernels in this process, in an aperture and with structures of its own.

It replaces only the native worker's caller side: the generated code is the product's.
"""

import ctypes
import functools
import math
import mmap
import os
import signal
import struct
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vgpu_sim.exec import jit
from vgpu_sim.hal.compute import address_map
from vgpu_sim.native import build, catalogue

APERTURE_BYTES = address_map.APERTURE_BYTES
ZONE_BYTES = address_map.MODULE_OFFSET  # never allocated, at both ends of the aperture
BEFORE_BYTES, AFTER_BYTES = address_map.GUARD_BEFORE_BYTES, address_map.GUARD_AFTER_BYTES
MISALIGNED_OFFSET_BYTES = address_map.MISALIGNED_OFFSET_BYTES
GRID_ID, MULTIPROCESSORS = 7 << 40 | 0x8ACE_9BDF, 16  # special registers of each launch
_PROT_NONE = 0
_MAP_NORESERVE = 0x4000
_MAP_FIXED = 0x10
_MAP_FIXED_NOREPLACE = 0x100000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Aperture:
    """The reserved address range, to which memory is mapped page by page.

    It begins at the first free base address of the product: the meaning of a generic address
    depends on its offset in the aperture, so no other address works. A process has room for two.
    """

    def __init__(self) -> None:
        self.reserved_bytes = BEFORE_BYTES + MISALIGNED_OFFSET_BYTES + APERTURE_BYTES + AFTER_BYTES
        self.base = next(filter(self._reserve, address_map.APERTURE_BASES), 0)
        assert self.base, (
            "no base of address_map.APERTURE_BASES is free: is an aperture not closed?"
        )
        self._start = self.base - BEFORE_BYTES
        self._next = self.base + ZONE_BYTES

    def _reserve(self, base: int) -> bool:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
        start = base - BEFORE_BYTES
        found = _libc.mmap(start, self.reserved_bytes, _PROT_NONE, flags, -1, 0)
        if found not in (start, ctypes.c_void_p(-1).value):  # Linux < 4.17: a hint
            _libc.munmap(found, self.reserved_bytes)
        return bool(found == start)

    def allocate(self, data: bytes | np.ndarray, *, gap_pages: int = 1) -> "Buffer":
        """Map memory that holds ``data``, ends at the end of its last page, and is followed by a
        gap.
        """
        array = np.frombuffer(data, dtype=np.uint8) if isinstance(data, bytes) else data
        size = max(array.nbytes, 1)
        pages = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        # Shared, so that the parent sees a forked child's stores.
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _MAP_FIXED
        assert _libc.mmap(self._next, pages, protection, flags, -1, 0) == self._next
        address = self._next + pages - size
        address -= address % 64 if size % 64 == 0 else 0
        self._next += pages + gap_pages * mmap.PAGESIZE
        view = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        view[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        return Buffer(address, view)

    def close(self) -> None:
        _libc.munmap(self._start, self.reserved_bytes)


@dataclass
class Buffer:
    address: int
    view: np.ndarray

    def as_type(self, dtype: str) -> np.ndarray:
        return self.view.view(dtype)


_WORKER = catalogue.RUNTIME
_STATE_BYTES = 88
ROOM = 4096  # blocks that may start while others wait


@functools.cache
def worker_code() -> ctypes.CDLL:
    """Return the worker's code for blocks that share memory or wait, as a library of its own."""
    names = ("barriers.c", "clusters.c", "cta.c", "local.c", "residents.c", "room.c", "rounds.c")
    names += ("factors.c", "products.c", "shared.c", "tensor.c", "warps.c")
    sources = [_WORKER / "base" / "fiber.c", *(_WORKER / "blocks" / name for name in names)]
    sources.append(Path(__file__).parents[1] / "native" / "native_cta" / "caller.c")
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "native_cta.so"
        command = [build.compiler(), "-std=c11", "-O2", "-g", "-fPIC", "-shared", "-pthread"]
        command += ["-fvisibility=hidden", f"-I{_WORKER}", f"-I{catalogue.INCLUDE}"]
        subprocess.run([*command, *map(str, sources), "-lm", "-o", str(output)], check=True)
        return ctypes.CDLL(str(output))


def context(
    aperture: Aperture,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    segment_base: int = 0,
    dynamic: int = 0,
    local_bytes: int = 0,
    cluster: tuple[int, int, int] | None = None,
) -> bytes:
    """Return a ``launch_context``; ``local_bytes`` is the size of a thread's local memory."""
    size = cluster or (1, 1, 1)
    return struct.pack(
        "<QQQ3I3IQQIIQQQ3IIQ",
        aperture.base,
        APERTURE_BYTES,
        segment_base,
        *grid,
        *block,
        0,
        GRID_ID,
        MULTIPROCESSORS,
        dynamic,
        0,
        1 << 32,  # a tick of the counter is a nanosecond
        local_bytes,
        *size,
        cluster is not None,
        address_map.CLUSTER_STEP_BYTES if math.prod(size) > 1 else 0,
    )


@functools.cache
def watched_call() -> Any:
    """Return ``watched_call.c``, compiled for this process and its children."""
    source = Path(__file__).parents[1] / "native" / "watched_call.c"
    with tempfile.TemporaryDirectory() as name:
        library = Path(name) / "watched_call.so"
        command = [build.compiler(), "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared"]
        subprocess.run([*command, "-fPIC", source, "-o", library, "-lm"], check=True)
        found = ctypes.CDLL(str(library)).watched_call
    number, pointer = ctypes.c_uint64, ctypes.c_void_p
    found.argtypes = [pointer, pointer, pointer, number, number, pointer, ctypes.POINTER(number)]
    return found


def prepare() -> None:
    """Compile what ``run`` needs in this process, for all its children: gcc needs most of a
    second.
    """
    worker_code()
    watched_call()


@dataclass(frozen=True)
class Ended:
    """The end of a launch: status, the last block started, the signal (0: none) and its address."""

    status: int
    block: int
    signal: int = 0
    address: int = 0


def run(
    loaded: jit.Loaded,
    launch: bytes,
    parameters: bytes,
    ranges: Iterable[tuple[int, int]],
    shared_bytes: int = 0,
) -> Ended:
    """Call the code for each range of blocks, up to the first that fails."""
    how = (loaded.groups, loaded.stack_bytes, loaded.counts, loaded.polls)
    code = struct.pack("<QIIIII4x", loaded.entry, *how, 0)
    code += bytes(len(code))  # no better code
    code += struct.pack("<IIII", 0, shared_bytes, ROOM, 0)
    ctx = ctypes.create_string_buffer(launch + code, len(launch) + len(code))
    params = ctypes.create_string_buffer(parameters or b"\0", max(len(parameters), 1))
    state = ctypes.create_string_buffer(_STATE_BYTES)
    worker = worker_code()
    entry = ctypes.cast(worker.call_blocks, ctypes.c_void_p)
    call, address, caught = watched_call(), ctypes.c_uint64(), 0
    for begin, end in ranges:
        caught = call(entry, ctx, params, begin, end, state, ctypes.byref(address))
        if caught or struct.unpack_from("<I", state, 8)[0]:
            break
    if caught:
        worker.abandon_blocks()
    block, status = struct.unpack_from("<QI", state, 0)
    return Ended(status, block, caught, address.value if caught else 0)


def fault_address(
    loaded: jit.Loaded, launch: bytes, parameters: bytes, ranges: Iterable[tuple[int, int]]
) -> int | None:
    """Run as ``run`` does; return the address of the memory fault that ends it, None if none does.

    Raises:
        AssertionError: when it ends by another signal.
    """
    ended = run(loaded, launch, parameters, ranges)
    assert ended.signal in (0, signal.SIGSEGV, signal.SIGBUS), ended
    return ended.address if ended.signal else None


def in_child(test: Callable[[], None]) -> None:
    """Run ``test`` in a forked child, because it might overwrite memory of this process.

    Raises:
        AssertionError: when it raises or does not end by itself; the message states how it ended.
    """
    prepare()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            test()
        except BaseException:  # noqa: BLE001 - the parent raises it
            os.write(writer, traceback.format_exc()[-60_000:].encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as report:
        said = report.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert (code, said) == (0, ""), said or code


def pack(function_parameters: Sequence[object], size: int, values: Sequence[int | bytes]) -> bytes:
    """Return a parameter block with each value at its parameter's offset."""
    block = bytearray(size)
    for parameter, value in zip(function_parameters, values, strict=True):
        data = value if isinstance(value, bytes) else (value & (1 << 64) - 1).to_bytes(8, "little")
        width = parameter.size  # type: ignore[attr-defined]
        block[parameter.offset : parameter.offset + width] = data[:width]  # type: ignore[attr-defined]
    return bytes(block)
