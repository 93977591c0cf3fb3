"""tex and tld4 on both backends, against numpy."""

import functools
import random

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution import both_backends, native_launch
from support.execution.interpreted_ptx import compile_verified, kernel
from support.oracles import random_textures
from support.oracles.textures import Texture, gather, sample
from vgpu_sim.compiler.lower.textures.layout import Shape
from vgpu_sim.isa import Module

THREADS = 32
DESCRIPTOR_BYTES = 1024
WORDS = 8
"""Per thread: three coordinates, the layer, and the level."""

SHAPES = {
    "1d": Shape.LINE,
    "2d": Shape.PLANE,
    "3d": Shape.SPACE,
    "a1d": Shape.LAYERED_LINE,
    "a2d": Shape.LAYERED_PLANE,
    "cube": Shape.CUBE,
    "acube": Shape.LAYERED_CUBE,
}
VECTORS = {
    "1d": "{%f0}",
    "2d": "{%f0, %f1}",
    "3d": "{%f0, %f1, %f2, %f2}",
    "a1d": "{%l, %f0}",
    "a2d": "{%l, %f0, %f1, %f1}",
    "cube": "{%f0, %f1, %f2, %f2}",
    "acube": "{%l, %f0, %f1, %f2}",
}
_REGISTERS = """
    .reg .b64 %h, %i, %o; .reg .b32 %t, %l, %r<4>; .reg .f32 %f<4>, %lod; .reg .b16 %q<4>;
"""


@functools.cache
def kernel_of(instruction: str) -> Module:
    """Return a kernel in which each block fetches with its own descriptor, each thread at its own
    coordinates.
    """
    body = f"""
        ld.param.u64 %h, [textures]; ld.param.u64 %i, [input]; ld.param.u64 %o, [output];
        mov.u32 %t, %ctaid.x; mad.wide.u32 %h, %t, {DESCRIPTOR_BYTES}, %h;
        mov.u32 %l, %tid.x; mad.lo.u32 %t, %t, {THREADS}, %l;
        mad.wide.u32 %i, %t, {4 * WORDS}, %i; mad.wide.u32 %o, %t, 16, %o;
        ld.global.v4.b32 {{%f0, %f1, %f2, %l}}, [%i]; ld.global.b32 %lod, [%i+16];
        {instruction}
        st.global.v4.b32 [%o], {{%r0, %r1, %r2, %r3}};"""
    parameters = ".param .u64 textures, .param .u64 input, .param .u64 output"
    return compile_verified(kernel(body, parameters, registers=_REGISTERS))


def run(
    module: Module, textures: list[Texture], given: NDArray[np.uint32]
) -> NDArray[np.uint32]:
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
        for plan in [None, *both_backends.first_tier(module, block)]:
            found = bench.execute(module, grid, block, parameters, plan, segment)
            assert found[4] == expected[4]
        return np.frombuffer(expected[4], np.uint32).reshape(len(textures), THREADS, 4)
    finally:
        bench.close()


def inputs(
    draw: random.Random, textures: list[Texture]
) -> tuple[NDArray[np.uint32], list[tuple[NDArray[np.float32], NDArray[np.uint32]]]]:
    """Return what the threads read, and it as coordinates and layers."""
    given = np.zeros((len(textures), THREADS, WORDS), np.uint32)
    parts = []
    for n, one in enumerate(textures):
        at = random_textures.coordinates(draw, one, THREADS)
        layer = [draw.choice((0, 1, 2, 5, 2**32 - 1, 2**31)) for _ in range(THREADS)]
        given[n, :, :3] = at.view(np.uint32)
        given[n, :, 3] = layer
        parts.append((at, np.array(layer, np.uint32)))
    return given, parts


def same(found: NDArray[np.uint32], wanted: NDArray[np.uint32], made: Texture) -> None:
    """Assert that the words are equal; those of sRGB may differ in their last bits."""
    if made.srgb and made.format == 0 and not made.is_raw:
        a, b = found.view(np.float32), wanted.view(np.float32)
        assert np.allclose(a, b, rtol=3e-6, atol=1e-7), made
        return
    bad = np.flatnonzero((found != wanted).any(axis=1))
    nans = np.isnan(found.view(np.float32)) & np.isnan(wanted.view(np.float32))
    if made.is_raw or not (nans | (found == wanted)).all():
        assert not len(bad), (made, bad, found[bad], wanted[bad])


@pytest.mark.parametrize("geometry", SHAPES)
def test_fetches(geometry: str) -> None:
    draw = random.Random(geometry)
    module = kernel_of(
        f"tex.{geometry}.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%h, {VECTORS[geometry]}];"
    )
    textures = [random_textures.texture(draw, SHAPES[geometry]) for _ in range(48)]
    given, parts = inputs(draw, textures)
    found = run(module, textures, given)
    for one, (at, layer), words in zip(textures, parts, found, strict=True):
        same(words, sample(one, at, layer), one)
