"""Cases of textures and surfaces: random samplers and coordinates, for every kind of fetch."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.silicon.values.bundle import Store
from benchmarks.silicon.values.lanes import HEAD
from support.oracles import random_textures
from support.oracles.textures import DTYPES, SURFACE, Shape, Texture

THREADS, WORDS = 64, 8
_SHAPES = {
    "1d": (Shape.LINE, "{%f0}"),
    "2d": (Shape.PLANE, "{%f0, %f1}"),
    "3d": (Shape.SPACE, "{%f0, %f1, %f2, %f2}"),
    "a1d": (Shape.LAYERED_LINE, "{%l, %f0}"),
    "a2d": (Shape.LAYERED_PLANE, "{%l, %f0, %f1, %f1}"),
    "cube": (Shape.CUBE, "{%f0, %f1, %f2, %f2}"),
    "acube": (Shape.LAYERED_CUBE, "{%l, %f0, %f1, %f2}"),
}
_SURFACES = {
    "1d": (Shape.LINE, "{%j0}"),
    "2d": (Shape.PLANE, "{%j0, %j1}"),
    "3d": (Shape.SPACE, "{%j0, %j1, %j2, %j2}"),
    "a1d": (Shape.LAYERED_LINE, "{%l, %j0}"),
    "a2d": (Shape.LAYERED_PLANE, "{%l, %j0, %j1, %j1}"),
}
_GRADIENTS = {
    "1d": ("{%lod}", "{%dy}"),
    "2d": ("{%lod, %dy}", "{%dy, %lod}"),
    "3d": ("{%lod, %dy, %lod, %zero}", "{%dy, %zero, %lod, %zero}"),
    "a1d": ("{%lod}", "{%dy}"),
    "a2d": ("{%lod, %dy}", "{%dy, %lod}"),
}
_RESULT = "{%r0, %r1, %r2, %r3}"


def _text(instruction: str) -> str:
    return f"""{HEAD}.visible .entry k(.param .u64 handles, .param .u64 input, .param .u64 output)
{{
    .reg .b64 %h, %i, %o; .reg .b32 %t, %l, %r<4>, %j<3>; .reg .b64 %w<2>;
    .reg .f32 %f<4>, %lod, %dy, %zero; .reg .b16 %q<4>; .reg .pred %p;
    ld.param.u64 %h, [handles]; ld.param.u64 %i, [input]; ld.param.u64 %o, [output];
    mov.u32 %t, %ctaid.x; mad.wide.u32 %h, %t, 8, %h; ld.global.u64 %h, [%h];
    mov.u32 %l, %tid.x; mad.lo.u32 %t, %t, {THREADS}, %l;
    mad.wide.u32 %i, %t, {4 * WORDS}, %i; mad.wide.u32 %o, %t, 16, %o;
    ld.global.v4.b32 {{%f0, %f1, %f2, %l}}, [%i]; ld.global.v2.b32 {{%lod, %dy}}, [%i+16];
    mov.b32 %j0, %f0; mov.b32 %j1, %f1; mov.b32 %j2, %f2; mov.b32 %zero, 0;
    mov.b32 %r0, 0; mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;
    {instruction}
    st.global.v4.b32 [%o], {{%r0, %r1, %r2, %r3}};
    ret;
}}
"""


def describe(texture: Texture, store: Store, *, mipmapped: bool = False) -> dict[str, Any]:
    """Return the specification that ``textures.create`` reads."""
    levels = []
    for level in texture.levels:
        slices, height, width, _ = level.shape
        levels.append([(slices, height, width), store.add(np.ascontiguousarray(level).tobytes())])
    return {
        "shape": int(texture.shape),
        "format": texture.format,
        "channels": texture.channels,
        "levels": levels,
        "modes": list(texture.modes),
        "linear": texture.linear,
        "linear_levels": texture.linear_levels,
        "normalized": texture.normalized,
        "integers": texture.integers,
        "srgb": texture.srgb,
        "clamps": list(texture.clamps),
        "border": list(texture.border),
        "surface": texture.kind == SURFACE,
        "mipmapped": mipmapped,
    }


def _case(
    name: str,
    instruction: str,
    textures: list[Texture],
    inputs: NDArray[np.uint32],
    store: Store,
    *,
    mipmapped: bool = False,
) -> Iterator[dict[str, Any]]:
    """Return one case per texture: a sampler that one driver rejects spoils no other."""
    for number, texture in enumerate(textures):
        yield {
            "id": f"{name}/{number}",
            "group": name.split("/")[0],
            "ptx": _text(instruction),
            "entry": "k",
            "grid": [1, 1, 1],
            "block": [THREADS, 1, 1],
            "params": bytes(24).hex(),
            "buffers": [[8, 0], [store.add(inputs[number].tobytes()), 0], [16 * THREADS, 0]],
            "relocs": [["p", 8 * n, n, 0] for n in range(3)],
            "textures": [describe(texture, store, mipmapped=mipmapped)],
            "handles": 0,
            "out": [2],
        }


def _inputs(draw: random.Random, textures: list[Texture], *, whole: bool) -> NDArray[np.uint32]:
    inputs = np.zeros((len(textures), THREADS, WORDS), np.uint32)
    for n, texture in enumerate(textures):
        if whole:
            sizes = texture.levels[0].shape[2::-1]
            rows = [[draw.randrange(-2, size + 3) for size in sizes] for _ in range(THREADS)]
            inputs[n, :, :3] = np.array(rows, np.int32).view(np.uint32)
        else:
            inputs[n, :, :3] = random_textures.coordinates(draw, texture, THREADS).view(np.uint32)
        inputs[n, :, 3] = [draw.choice((0, 1, 2, 5, 2**32 - 1, 2**31)) for _ in range(THREADS)]
    return inputs


def cases(store: Store) -> Iterator[dict[str, Any]]:
    """Return the cases of all fetches."""
    for geometry, (shape, vector) in _SHAPES.items():
        draw = random.Random(geometry)
        textures = [random_textures.texture(draw, shape, padding=0) for _ in range(28)]
        inputs = _inputs(draw, textures, whole=False)
        text = f"tex.{geometry}.v4.f32.f32 {_RESULT}, [%h, {vector}];"
        yield from _case(f"tex/{geometry}", text, textures, inputs, store)
        textures = [
            random_textures.texture(
                draw, shape, levels=4, sizes=(16, 8, 8), normalized=True, padding=0
            )
            for _ in range(8)
        ]
        inputs = _inputs(draw, textures, whole=False)
        inputs[:, :, 4] = _levels(draw, inputs.shape[:2])
        text = f"tex.level.{geometry}.v4.f32.f32 {_RESULT}, [%h, {vector}], %lod;"
        yield from _case(f"tex.level/{geometry}", text, textures, inputs, store, mipmapped=True)
        if geometry in _GRADIENTS:
            inputs[:, :, 4:6] = _gradients(draw, inputs.shape[:2])
            dx, dy = _GRADIENTS[geometry]
            text = f"tex.grad.{geometry}.v4.f32.f32 {_RESULT}, [%h, {vector}], {dx}, {dy};"
            yield from _case(f"tex.grad/{geometry}", text, textures, inputs, store, mipmapped=True)
            settings = {"normalized": False, "linear": False, "padding": 0}
            textures = [random_textures.texture(draw, shape, **settings) for _ in range(8)]
            inputs = _inputs(draw, textures, whole=True)
            whole = vector.replace("%f", "%j")
            text = f"tex.{geometry}.v4.s32.s32 {_RESULT}, [%h, {whole}];"
            yield from _case(f"tex.s32/{geometry}", text, textures, inputs, store)
        if geometry in ("2d", "a2d", "cube", "acube"):
            textures = [random_textures.texture(draw, shape, padding=0) for _ in range(8)]
            inputs = _inputs(draw, textures, whole=False)
            for channel in "ra":
                text = f"tld4.{channel}.{geometry}.v4.u32.f32 {_RESULT}, [%h, {vector}];"
                yield from _case(f"tld4/{channel}.{geometry}", text, textures, inputs, store)
    yield from _settings(store)
    yield from _surfaces(store)


def _levels(draw: random.Random, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    choices = (0.0, 1.0, 0.5, 2.5, -3.0, 9.0, float("nan"), float("inf"), float("-inf"))
    count = int(np.prod(shape))
    values = [draw.choice((*choices, *[draw.uniform(0, 4)] * 9)) for _ in range(count)]
    return np.array(values, np.float32).reshape(shape).view(np.uint32)


def _gradients(draw: random.Random, shape: tuple[int, ...]) -> NDArray[np.uint32]:
    values = [
        draw.choice((-1, 1)) * 2.0 ** draw.uniform(-7, 1) for _ in range(2 * int(np.prod(shape)))
    ]
    return np.array(values, np.float32).reshape(*shape, 2).view(np.uint32)


def _settings(store: Store) -> Iterator[dict[str, Any]]:
    """Return fetches along a line of two texels: fractions of the filter, and every address mode."""
    place = np.arange(64 * THREADS, dtype=np.float32)
    for mode in range(4):
        for normalized in (False, True):
            for linear in (False, True):
                data = np.array([0.0, 1.0, 4.0, 16.0], np.float32).reshape(1, 1, 4, 1)
                texture = Texture(Shape.LINE, 7, [data], (mode,) * 3, linear, False, normalized)
                scale = np.float32(4.0 if not normalized else 1.0)
                for part, at in enumerate(np.split((place / 1024 - 2) * scale / 2 + 1, 4)):
                    inputs = np.zeros((1, len(at), WORDS), np.uint32)
                    inputs[0, :, 0] = at.astype(np.float32).view(np.uint32)
                    text = f"tex.1d.v4.f32.f32 {_RESULT}, [%h, {{%f0}}];"
                    name = f"tex.line/mode{mode}.{int(normalized)}{int(linear)}.{part}"
                    for case in _case(name, text, [texture], inputs, store):
                        case["ptx"] = case["ptx"].replace("mad.wide.u32 %h, %t, 8, %h;", "")
                        case["grid"] = [len(at) // THREADS, 1, 1]
                        case["buffers"][2][0] = 16 * len(at)
                        yield case


def _surfaces(store: Store) -> Iterator[dict[str, Any]]:
    """Return stores that are read back, with every clamp, and formatted accesses."""
    for geometry, (shape, vector) in _SURFACES.items():
        draw = random.Random(geometry + "s")

        for clamp in ("zero", "clamp"):
            textures = [
                random_textures.texture(
                    draw, shape, format_=7, kind=SURFACE, padding=0, sizes=(8, 4, 3)
                )
                for _ in range(3)
            ]
            inputs = _inputs(draw, textures, whole=True)
            inputs[:, :, 3] &= 1
            for width, kind in ((4, "b32"), (2, "b16"), (8, "v2.b32"), (16, "v4.b32")):
                results = {"b32": "%r0", "b16": "%q0", "v2.b32": "{%r0, %r1}", "v4.b32": _RESULT}[
                    kind
                ]
                read = f"suld.b.{geometry}.{kind}.{clamp} {results}, [%h, {vector}];"
                text = f"mul.lo.s32 %j0, %j0, {width}; {read}"
                if kind == "b16":
                    text += " cvt.u32.u16 %r0, %q0;"
                yield from _case(f"suld.b/{geometry}.{kind}.{clamp}", text, textures, inputs, store)
            value = "add.u32 %r0, %t, 1; mov.b32 %r1, %t;"
            write = f"sust.b.{geometry}.b32.{clamp} [%h, {vector}], %r0;"
            again = f"suld.b.{geometry}.b32.zero %r1, [%h, {vector}];"
            text = f"mul.lo.s32 %j0, %j0, 4; setp.eq.u32 %p, %t, 7; {value} @%p {write} bar.sync 0; {again}"
            yield from _case(f"sust.b/{geometry}.{clamp}", text, textures, inputs, store)
        for format_ in range(8):
            textures = [
                random_textures.texture(draw, shape, format_=format_, kind=SURFACE, padding=0)
                for _ in range(2)
            ]
            inputs = _inputs(draw, textures, whole=True)
            inputs[:, :, 3] &= 1
            for number, texture in enumerate(textures):
                text = _stored_and_read(geometry, vector, texture)
                name = f"sust.p/{geometry}.{format_}.{number}"
                yield from _case(name, text, [texture], inputs[number : number + 1], store)


def _stored_and_read(geometry: str, vector: str, texture: Texture) -> str:
    """Return a formatted store by one thread at its place, and loads of the stored bytes."""
    item_bytes = np.dtype(DTYPES[texture.format]).itemsize
    count = texture.channels
    registers = [f"%q{n}" if item_bytes < 4 else f"%r{n}" for n in range(count)]
    into = registers[0] if count == 1 else "{" + ", ".join(registers) + "}"
    size = f"v{count}.b{8 * item_bytes}" if count > 1 else f"b{8 * item_bytes}"
    text = f"mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 5; mul.lo.s32 %j0, %j0, {item_bytes * count};"
    text += (
        f" @%p sust.p.{geometry}.v4.b32.zero [%h, {vector}], {{%f0, %lod, %f2, %l}}; bar.sync 0;"
    )
    text += f" suld.b.{geometry}.{size}.zero {into}, [%h, {vector}];"
    if item_bytes < 4:
        text += "".join(f" cvt.u32.u16 %r{n}, %q{n};" for n in range(count))
    return text
