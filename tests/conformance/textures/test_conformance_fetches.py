"""tex and tld4 on both backends, against numpy."""

import random
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution.texture_kernels import THREADS, WORDS, kernel_of, run
from support.oracles import random_textures
from support.oracles.textures import Shape, Texture, gather, sample

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


def test_fetches_of_a_line_read_the_first_row_of_a_plane() -> None:
    draw = random.Random(3)
    module = kernel_of("tex.1d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0}];")
    textures = [random_textures.texture(draw, Shape.PLANE) for _ in range(24)]
    given, parts = inputs(draw, textures)
    found = run(module, textures, given)
    for one, (at, layer), words in zip(textures, parts, found, strict=True):
        rows = [level[:, :1] for level in one.levels]
        same(words, sample(replace(one, shape=Shape.LINE, levels=rows), at, layer), one)


@pytest.mark.parametrize("geometry", ["1d", "2d", "3d", "a1d", "a2d"])
def test_fetches_at_integers(geometry: str) -> None:
    draw = random.Random(geometry)
    vector = VECTORS[geometry].replace("%f", "%j")
    module = kernel_of(
        "mov.b32 %j0, %f0; mov.b32 %j1, %f1; mov.b32 %j2, %f2;"
        f"tex.{geometry}.v4.s32.s32 {{%r0, %r1, %r2, %r3}}, [%h, {vector}];"
    )
    textures = [
        random_textures.texture(draw, SHAPES[geometry], normalized=False, linear=False)
        for _ in range(24)
    ]
    if geometry == "1d":
        textures += [
            random_textures.texture(draw, Shape.BUFFER, normalized=False, linear=False)
            for _ in range(8)
        ]
    given, parts = inputs(draw, textures)
    for n, (one, (at, _)) in enumerate(zip(textures, parts, strict=True)):
        extremes = (0, -1, 1, 2**31 - 1, -(2**31), one.levels[0].shape[2])
        for row in at:
            row[:] = [draw.choice((*extremes, draw.randrange(-3, 16))) for _ in range(3)]
        numbers = np.clip(at.astype(np.float64), -(2**31), 2**31 - 1).astype(np.int32)
        given[n, :, :3] = numbers.view(np.uint32)
        at[:] = numbers.astype(np.float32)
    found = run(module, textures, given)
    for one, (at, layer), words in zip(textures, parts, found, strict=True):
        wanted = sample(one, at, layer)
        if one.shape is Shape.BUFFER:
            wanted[(at[:, 0] < 0) | (at[:, 0] >= one.levels[0].shape[2])] = 0
        same(words, wanted, one)


@pytest.mark.parametrize("geometry", ["2d", "a2d", "cube", "acube"])
@pytest.mark.parametrize("channel", "ra")
def test_gathers(geometry: str, channel: str) -> None:
    draw = random.Random(geometry)
    module = kernel_of(
        f"tld4.{channel}.{geometry}.v4.u32.f32 {{%r0, %r1, %r2, %r3}}, [%h, {VECTORS[geometry]}];"
    )
    textures = [random_textures.texture(draw, SHAPES[geometry]) for _ in range(16)]
    given, parts = inputs(draw, textures)
    found = run(module, textures, given)
    for one, (at, layer), words in zip(textures, parts, found, strict=True):
        same(words, gather(one, at, layer, "rgba".index(channel)), one)


@pytest.mark.parametrize("geometry", SHAPES)
def test_fetches_from_a_level(geometry: str) -> None:
    draw = random.Random(geometry)
    module = kernel_of(
        f"tex.level.{geometry}.v4.f32.f32 {{%r0, %r1, %r2, %r3}}, [%h, {VECTORS[geometry]}], %lod;"
    )
    textures = [
        random_textures.texture(
            draw,
            SHAPES[geometry],
            levels=draw.randrange(1, 5),
            normalized=True,
            clamps=draw.choice(((0.0, 0.0, 16.0), (0.75, 0.0, 16.0), (-1.5, 1.25, 2.5))),
        )
        for _ in range(16)
    ]
    given, parts = inputs(draw, textures)
    choices = (0.0, 1.0, 0.5, 2.5, -3.0, 9.0, float("nan"), float("inf"), float("-inf"))
    levels = np.array(
        [[draw.choice((*choices, draw.uniform(0, 4))) for _ in range(THREADS)] for _ in textures],
        np.float32,
    )
    given[:, :, 4] = levels.view(np.uint32)
    found = run(module, textures, given)
    for one, (at, layer), words, lods in zip(textures, parts, found, levels, strict=True):
        same(words, sample(one, at, layer, lods), one)


def test_integers_from_a_level() -> None:
    draw = random.Random(8)
    module = kernel_of(
        "mov.b32 %j0, %f0; mov.b32 %j1, %f1; mov.b32 %t, %lod;"
        "tex.level.2d.v4.f32.s32 {%r0, %r1, %r2, %r3}, [%h, {%j0, %j1}], %t;"
    )
    textures = [
        random_textures.texture(
            draw, Shape.PLANE, levels=3, normalized=False, linear=False, linear_levels=False
        )
        for _ in range(8)
    ]
    given, parts = inputs(draw, textures)
    levels = np.array([[draw.randrange(-1, 4) for _ in range(THREADS)] for _ in textures])
    given[:, :, 4] = levels.astype(np.int32).view(np.uint32)
    for n, (at, _) in enumerate(parts):
        at[:] = [[draw.randrange(-3, 16) for _ in range(3)] for _ in range(THREADS)]
        given[n, :, :3] = at.astype(np.int32).view(np.uint32)
    found = run(module, textures, given)
    for one, (at, layer), words, lods in zip(textures, parts, found, levels, strict=True):
        same(words, sample(one, at, layer, lods.astype(np.float32)), one)


_GRADIENTS = {
    "1d": ("{%lod}", "{%zero}"),
    "2d": ("{%zero, %lod}", "{%lod, %zero}"),
    "3d": ("{%lod, %zero, %zero, %zero}", "{%zero, %zero, %zero, %zero}"),
    "a1d": ("{%zero}", "{%lod}"),
    "a2d": ("{%zero, %zero}", "{%lod, %zero}"),
}


@pytest.mark.parametrize("geometry", _GRADIENTS)
def test_gradients_choose_the_level(geometry: str) -> None:
    draw = random.Random(geometry)
    dx, dy = _GRADIENTS[geometry]
    module = kernel_of(
        f"mov.b32 %zero, 0; tex.grad.{geometry}.v4.f32.f32 {{%r0, %r1, %r2, %r3}},"
        f" [%h, {VECTORS[geometry]}], {dx}, {dy};"
    )
    textures = [
        random_textures.texture(
            draw, SHAPES[geometry], levels=4, normalized=True, sizes=(8, 8, 8), srgb=False
        )
        for _ in range(12)
    ]
    given, parts = inputs(draw, textures)
    exponents = np.array(
        [[draw.randrange(-2, 6) for _ in range(THREADS)] for _ in textures], np.float32
    )
    given[:, :, 4] = (np.exp2(exponents) / 8).astype(np.float32).view(np.uint32)
    found = run(module, textures, given)
    for one, (at, layer), words, lods in zip(textures, parts, found, exponents, strict=True):
        same(words, sample(one, at, layer, lods), one)


def test_gradients_of_a_cube_map() -> None:
    draw = random.Random(5)
    module = kernel_of(
        "mov.b32 %zero, 0; tex.grad.cube.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h,"
        f" {VECTORS['cube']}], {{%zero, %lod, %zero, %zero}}, {{%zero, %zero, %zero, %zero}};"
    )
    made = random_textures.texture(draw, Shape.CUBE, levels=4, sizes=(8, 8, 1), srgb=False)
    given, parts = inputs(draw, [made])
    at, layer = parts[0]
    at[:] = [[4.0, draw.uniform(-4, 4), draw.uniform(-4, 4)] for _ in range(THREADS)]
    given[0, :, :3] = at.view(np.uint32)
    given[0, :, 4] = np.float32(2.0).view(np.uint32)  # 2 of 4, on a face of 8 texels from -4 to 4
    found = run(module, [made], given)
    same(found[0], sample(made, at, layer, np.full(THREADS, 1, np.float32)), made)


def test_results_of_sixteen_bits_are_rounded() -> None:
    draw = random.Random(6)
    textures = [
        random_textures.texture(draw, Shape.PLANE, integers=False, format_=n) for n in (0, 4, 6, 7)
    ]
    given, parts = inputs(draw, textures)
    halves = kernel_of(
        "tex.2d.v4.f16.f32 {%q0, %q1, %q2, %q3}, [%h, {%f0, %f1}];"
        + " ".join(f"cvt.u32.u16 %r{n}, %q{n};" for n in range(4))
    )
    pairs = kernel_of("tex.2d.v2.f16x2.f32 {%r0, %r1}, [%h, {%f0, %f1}]; mov.b32 %r2, 0;")
    found, packed = run(halves, textures, given), run(pairs, textures, given)
    for one, (at, layer), words, two in zip(textures, parts, found, packed, strict=True):
        values = sample(one, at, layer).view(np.float32)
        with np.errstate(over="ignore"):
            wanted = values.astype(np.float16)
        close = np.frombuffer(words.astype("u2").tobytes(), np.float16).reshape(-1, 4)
        assert np.array_equal(close, wanted, equal_nan=True)
        assert np.array_equal(two[:, 0] & 0xFFFF, words[:, 0])
        assert np.array_equal(two[:, 0] >> 16, words[:, 1])
        assert np.array_equal(two[:, 1] >> 16, words[:, 3])


def test_fetches_at_several_places_share_their_code() -> None:
    draw = random.Random(7)
    once = "tex.2d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%h, {%f0, %f1}];"
    again = (
        "mov.u32 %t, %tid.x; setp.gt.u32 %p, %t, 7; mov.b32 %r3, 7;"
        "@%p tex.2d.v4.f32.f32 {_, _, _, %r3}, [%h, {%f0, %f1}];"
        "@!%p tex.2d.v4.f32.f32 {%r3, _, _, _}, [%h, {%f1, %f0}];"
    )
    textures = [random_textures.texture(draw, Shape.PLANE, srgb=False) for _ in range(8)]
    given, parts = inputs(draw, textures)
    module = kernel_of(once + again)
    assert len(module.functions[0].code) < 3 * len(kernel_of(once).functions[0].code)
    found = run(module, textures, given)
    for one, (at, layer), words in zip(textures, parts, found, strict=True):
        wanted = sample(one, at, layer)
        wanted[:8, 3] = sample(one, at[:, [1, 0, 2]], layer)[:8, 0]
        same(words, wanted, one)
