"""Native code in a child process that may fault or never end."""

import mmap
import os
import resource
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from support.execution import native_launch
from vgpu_sim.exec import jit


@dataclass(frozen=True)
class Ending:
    """The end of a launch: with a status, by a fault at an address, or killed.

    ``signal`` is 0, that of a fault (with its ``address``), or the one that killed the child.
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
    """Run native code in a child with a limit of CPU time; return how it ended."""
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
