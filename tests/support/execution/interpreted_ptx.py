"""Compiling PTX and running it on the interpreter, with numpy arrays as device memory."""

import functools
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.kept import interpreter_results, modules
from vgpu_sim import compiler
from vgpu_sim.exec import interp
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa import Module, verify

CAPABILITY = (10, 0)
BASE = address_map.APERTURE_BASES[0] + address_map.MODULE_OFFSET
ALIGNMENT_BYTES = 512

# Packed bytes, saturated sums and products of small floats, which no target of CAPABILITY has.
_ONLY_120 = re.compile(
    r"\b(?:kind::(?:mx|f8f6f4)|(?:add|sub|neg|min|max)[a-z0-9.]*8x4|add\.sat\.(?:u32|[us]16x2))"
)

Argument = NDArray[np.generic] | np.generic


def compile_verified(source: str | bytes, capability: tuple[int, int] = CAPABILITY) -> Module:
    """Compile, and verify the result against the rules of the instruction set."""
    if ".target sm_120a" in str(source):
        capability = (12, 0)

    def compile_now() -> Module:
        module = compiler.compile_ptx(source, capability=capability)
        verify.check_module(module)
        return module

    return modules.compile_kept(source, capability, compile_now)


def kernel(body: str, parameters: str = "", *, registers: str = "", header: str = "") -> str:
    """Return a PTX file with one kernel ``k``."""
    return (
        f".version 9.4\n.target sm_{'120a' if _ONLY_120.search(body) else '100a'}\n"
        f".address_size 64\n{header}\n.visible .entry k({parameters})\n{{\n{registers}\n{body}\nret;\n}}\n"
    )


def run(
    source: str | Module,
    arguments: Sequence[Argument],
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    name: str | None = None,
) -> list[NDArray[np.generic]]:
    """Run a kernel; arrays are passed as pointers and returned as the kernel left them."""
    arrays = [one for one in arguments if isinstance(one, np.ndarray)]
    kinds = [
        (one.dtype.str, one.shape if isinstance(one, np.ndarray) else one.tobytes())
        for one in arguments
    ]
    left = interpreter_results.run(
        source,
        (_own_source(), kinds, grid, block, name),
        [(number, one.tobytes()) for number, one in enumerate(arrays)],
        lambda: _run(source, arguments, grid, block, name),
    )
    return [
        np.frombuffer(after, one.dtype).reshape(one.shape)
        for after, one in zip(left, arrays, strict=True)
    ]


@functools.cache
def _own_source() -> bytes:
    """Return this file, which places variables and arrays in memory."""
    return Path(__file__).read_bytes()


def _run(
    source: str | Module,
    arguments: Sequence[Argument],
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    name: str | None,
) -> list[bytes]:
    module = source if isinstance(source, Module) else compile_verified(source)
    function = module.functions[0] if name is None else module.function(name)
    memory = bytearray()
    for variable, contents in zip(module.variables, module.contents(BASE), strict=True):
        memory += b"\0" * (variable.offset - len(memory))
        memory += contents.ljust(variable.size, b"\0")
    addresses: list[int | None] = []
    for argument in arguments:
        if not isinstance(argument, np.ndarray):
            addresses.append(None)
            continue
        memory += b"\0" * (-len(memory) % ALIGNMENT_BYTES)
        addresses.append(BASE + len(memory))
        memory += argument.tobytes()
    block_bytes = bytearray(function.parameter_bytes)
    for parameter, argument, address in zip(function.parameters, arguments, addresses, strict=True):
        data = argument.tobytes() if address is None else struct.pack("<Q", address)
        assert len(data) == parameter.size, (parameter, argument)
        block_bytes[parameter.offset : parameter.offset + parameter.size] = data
    interp.run(
        module,
        function,
        grid,
        block,
        bytes(block_bytes),
        interp.BufferMemory(BASE, memory),
        segment_base=BASE,
    )
    return [
        bytes(memory[address - BASE : address - BASE + argument.nbytes])
        for argument, address in zip(arguments, addresses, strict=True)
        if isinstance(argument, np.ndarray) and address is not None
    ]
