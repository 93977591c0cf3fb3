"""Kernels in which each block accesses its own texture or surface, on both backends."""

import functools

import numpy as np
from numpy.typing import NDArray

from support.execution import both_backends, native_launch
from support.execution.interpreted_ptx import compile_verified, kernel
from support.oracles.textures import Texture
from vgpu_sim.isa import Module

THREADS = 32
DESCRIPTOR_BYTES = 1024
WORDS = 8
"""Per thread: three coordinates, the layer, and the level."""


_REGISTERS = """
    .reg .b64 %h, %i, %o; .reg .b32 %t, %l, %r<4>, %j<3>; .reg .b64 %w<2>; .reg .f32 %f<4>, %lod, %zero;
    .reg .b16 %q<4>; .reg .pred %p;
"""


@functools.cache
def kernel_of(instruction: str, *, plain: bool = False) -> Module:
    """Return a kernel in which each block accesses by its own descriptor, each thread at its own
    coordinates. With ``plain`` it stores no result.
    """
    result = "" if plain else "st.global.v4.b32 [%o], {%r0, %r1, %r2, %r3};"
    body = f"""
        ld.param.u64 %h, [textures]; ld.param.u64 %i, [input]; ld.param.u64 %o, [output];
        mov.u32 %t, %ctaid.x; mad.wide.u32 %h, %t, {DESCRIPTOR_BYTES}, %h;
        mov.u32 %l, %tid.x; mad.lo.u32 %t, %t, {THREADS}, %l;
        mad.wide.u32 %i, %t, {4 * WORDS}, %i; mad.wide.u32 %o, %t, 16, %o;
        ld.global.v4.b32 {{%f0, %f1, %f2, %l}}, [%i]; ld.global.b32 %lod, [%i+16];
        {instruction}
        {result}"""
    parameters = ".param .u64 textures, .param .u64 input, .param .u64 output"
    return compile_verified(kernel(body, parameters, registers=_REGISTERS))


def run(module: Module, textures: list[Texture], given: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the four words of each thread; both backends must agree."""
    images = [one.image() for one in textures]
    data = b"".join(images)
    descriptors = bytes(DESCRIPTOR_BYTES * len(textures))
    out = bytes(16 * THREADS * len(textures))
    bench = both_backends.Bench(bytes(256), descriptors, data, given.tobytes(), out)
    try:
        segment, place, address, *rest = bench.addresses()
        encoded = b""
        for one, image in zip(textures, images, strict=True):
            encoded += one.encode(address).ljust(DESCRIPTOR_BYTES, b"\0")
            address += len(image)
        bench.begin_with(1, encoded)
        function = module.functions[0]
        values = [place, *rest]
        parameters = native_launch.pack(function.parameters, function.parameter_bytes, values)
        grid, block = (len(textures), 1, 1), (THREADS, 1, 1)
        expected = bench.interpret(module, grid, block, parameters, segment)
        for plan in [None, *both_backends.compiler().first_tier(module, block)]:
            found = bench.execute(module, grid, block, parameters, plan, segment)
            assert found[4] == expected[4]
        return np.frombuffer(expected[4], np.uint32).reshape(len(textures), THREADS, 4)
    finally:
        bench.close()
