"""Native code in a child process that may fault or never end, in memory at addresses that repeat."""

import ctypes
import mmap
import os
import resource
import struct
from collections.abc import Iterable
from dataclasses import dataclass

import native_launch

from vgpu_sim.exec import jit

_NEAR = 1 << 44
_MAP_NORESERVE = 0x4000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]


class RepeatedAperture(native_launch.Aperture):
    """An aperture at the same place every time, if that is free: kernels may look at pointers."""

    def __init__(self) -> None:
        super().__init__()
        super().close()
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._start = _libc.mmap(_NEAR, self._bytes, 0, flags, -1, 0)
        assert self._start not in (None, ctypes.c_void_p(-1).value), ctypes.get_errno()
        self.base = self._start + native_launch.BEFORE_BYTES
        self._next = self.base + native_launch.ZONE_BYTES


@dataclass(frozen=True)
class Ending:
    """How a launch ended: by itself with a status, by a fault at an address, or killed.

    ``signal`` is 0, a fault with its ``address``, or what killed the child.
    """

    status: int
    signal: int
    address: int = 0


def run(
    loaded: jit.Loaded,
    launch: bytes,
    parameters: bytes,
    ranges: Iterable[tuple[int, int]],
    shared_bytes: int = 0,
    cpu_seconds: int = 10,
) -> Ending:
    """Run native code in a child with so much CPU time; say how it ended."""
    native_launch.prepare()
    report = mmap.mmap(-1, mmap.PAGESIZE)
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
        ended = native_launch.run(loaded, launch, parameters, ranges, shared_bytes)
        report[:16] = struct.pack("<IIQ", ended.status, ended.signal, ended.address)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status, number, address = struct.unpack_from("<IIQ", report)
    return Ending(status, number or -code, address)
