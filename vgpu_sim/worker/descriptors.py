"""Descriptors of the kernels that kernels launch, which the worker fills when it loads a module.

Their layout is in ``compiler/device_runtime.ptx``. Kernels can overwrite a descriptor; the runtime
therefore checks each launch as it checks a client's.
"""

import math
import struct
from collections.abc import Iterable
from dataclasses import field
from typing import Final

from vgpu_sim.compiler.lower.symbols.descriptors import KERNEL_PREFIX, LAUNCHES
from vgpu_sim.hal.compute.limits import MAX_SHARED_BYTES_OPTIN
from vgpu_sim.isa import Function, Symbol
from vgpu_sim.records import dataclass

_DESCRIPTOR: Final = struct.Struct("<QIIIIQ")


@dataclass(slots=True)
class Places:
    """Where a module's segment has the address of the launch buffer, and the descriptors."""

    launches: int = 0
    kernels: dict[str, int] = field(default_factory=dict)


def find(variables: Iterable[tuple[str, int, int]]) -> Places:
    """Return the places in a module with these variables (name, offset, size in bytes)."""
    places = Places()
    for name, offset, size in variables:
        if name == LAUNCHES and size == struct.calcsize("Q"):
            places.launches = offset
        elif name.startswith(KERNEL_PREFIX) and size == _DESCRIPTOR.size:
            places.kernels[name.removeprefix(KERNEL_PREFIX)] = offset
    return places


def launches(function: Function) -> bool:
    """True if a kernel may launch kernels: it names the variable with the buffer's address."""
    return any(
        isinstance(source, Symbol) and source.name == LAUNCHES
        for instruction in function.code
        for source in instruction.srcs
    )


def most_threads(maximum_block: tuple[int, int, int] | None, limit: int) -> int:
    """Return the most threads of a kernel's block."""
    return min(math.prod(maximum_block), limit) if maximum_block else limit


def describe(kernel: int, parameter_bytes: int, threads: int, shared_bytes: int) -> bytes:
    """Return the content of a loaded kernel's descriptor."""
    shared = max(0, MAX_SHARED_BYTES_OPTIN - shared_bytes)
    return _DESCRIPTOR.pack(kernel, parameter_bytes, threads, shared, 0, 0)
