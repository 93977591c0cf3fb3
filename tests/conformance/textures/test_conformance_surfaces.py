"""suld, sust and sured on both backends, against numpy."""

import random
import struct

import numpy as np
import pytest

from support.execution import both_backends, native_launch
from support.execution.texture_kernels import DESCRIPTOR_BYTES, THREADS, WORDS, kernel_of
from support.oracles import random_textures
from support.oracles.textures import DTYPES, LAYERED, SURFACE, Shape, Texture
from vgpu_sim.exec.errors import KernelError
from vgpu_sim.isa import Module

GEOMETRIES = {
    "1d": ("{%j0}", (Shape.LINE, Shape.PLANE), 1),
    "2d": ("{%j0, %j1}", (Shape.PLANE,), 2),
    "3d": ("{%j0, %j1, %j2, %j2}", (Shape.SPACE,), 3),
    "a1d": ("{%l, %j0}", (Shape.LAYERED_LINE,), 1),
    "a2d": ("{%l, %j0, %j1, %j1}", (Shape.LAYERED_PLANE, Shape.CUBE, Shape.LAYERED_CUBE), 2),
}
_COORDINATES = "mov.b32 %j0, %f0; mov.b32 %j1, %f1; mov.b32 %j2, %f2;"


def _surface(draw: random.Random, geometry: str, **fixed: object) -> Texture:
    shape = draw.choice(GEOMETRIES[geometry][1])
    return random_textures.texture(draw, shape, kind=SURFACE, **fixed)


def _run(module: Module, made: Texture, given: bytes) -> tuple[bytes, bytes]:
    """Return the image of the surface and the output, as both backends leave them."""
    bench = both_backends.Bench(
        bytes(256), bytes(DESCRIPTOR_BYTES), made.image(), given, bytes(16 * THREADS)
    )
    try:
        segment, place, address, *rest = bench.addresses()
        bench.begin_with(1, made.encode(address).ljust(DESCRIPTOR_BYTES, b"\0"))
        function = module.functions[0]
        parameters = native_launch.pack(
            function.parameters, function.parameter_bytes, [place, *rest]
        )
        shapes = ((1, 1, 1), (THREADS, 1, 1))
        expected = bench.interpret(module, *shapes, parameters, segment)
        found = bench.execute(module, *shapes, parameters, None, segment)
        assert found[2:] == expected[2:]
        return expected[2], expected[4]
    finally:
        bench.close()


def _places(
    draw: random.Random, geometry: str, made: Texture, step: int, *, inside: bool
) -> list[tuple[int, int, int, int]]:
    """Return different coordinates x, y, z and layers, x in units of which one has ``step``."""
    slices, height, width, channels = made.levels[0].shape
    dimensions = GEOMETRIES[geometry][2]
    across = width * channels * made.levels[0].itemsize // step if step else width
    seen: dict[tuple[int, int, int, int], None] = {}
    for _ in range(400):
        layered = made.shape in LAYERED
        x = draw.randrange(across) if across else 0
        y = draw.randrange(height) if dimensions > 1 else 0
        z = draw.randrange(slices) if dimensions > 2 else 0
        layer = draw.randrange(slices) if layered else 0
        place = [x, y, z, layer]
        if not inside and draw.random() < 0.4:
            used = [0, *range(1, dimensions), *([3] if layered else [])]
            place[draw.choice(used)] = draw.choice((-1, 1 << 20, -(2**26), 2**26))
        seen[tuple(place)] = None  # type: ignore[index]
        if len(seen) == THREADS:
            break
    return list(seen)


def _given(places: list[tuple[int, int, int, int]], step: int, values: list[bytes]) -> bytes:
    data = b""
    for n in range(THREADS):
        x, y, z, layer = places[n % len(places)]
        value = values[n % len(places)]
        data += struct.pack("<4i", x * step, y, z, layer) + value.ljust(4 * WORDS - 16, b"\0")
    return data


def _offset(made: Texture, place: tuple[int, int, int, int], step: int) -> tuple[int, bool]:
    """Return where an access of ``step`` bytes is in the image, and whether it is outside."""
    slices, height, width, channels = made.levels[0].shape
    row = width * channels * made.levels[0].itemsize
    pitch = row + made.padding
    x, y, z, layer = place
    limits = ((x * step, row - step), (y, height - 1), (z + layer, slices - 1))
    outside = any(not 0 <= at <= limit for at, limit in limits)
    at, line, slice_ = (min(max(at, 0), limit) for at, limit in limits)
    return at + line * pitch + slice_ * (pitch * height + made.padding), outside


_BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8}
_FORMS = [("b8", 1), ("b8", 4), ("b16", 1), ("b16", 2), ("b32", 1), ("b32", 4), ("b64", 2)]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("outside", ["trap", "clamp", "zero"])
def test_bytes_are_loaded_and_stored(geometry: str, outside: str) -> None:
    draw = random.Random(geometry + outside)
    vector = GEOMETRIES[geometry][0]
    for type_, count in draw.sample(_FORMS, 3):
        step = _BYTES[type_] * count
        made = _surface(draw, geometry, sizes=(8, 3, 2), format_=7)
        places = _places(draw, geometry, made, step, inside=outside == "trap")
        name = {"b8": "%q", "b16": "%q", "b32": "%r", "b64": "%w"}[type_]
        registers = [f"{name}{n}" for n in range(count)]
        one = registers[0] if count == 1 else f"{{{', '.join(registers)}}}"
        form = f"{geometry}{f'.v{count}' if count > 1 else ''}.{type_}.{outside}"
        each = {"b8": "b8", "b16": "b16", "b32": "b32", "b64": "b64"}[type_]
        out = " ".join(
            f"st.global.{each} [%o+{n * _BYTES[type_]}], {register};"
            for n, register in enumerate(registers)
        )
        load = kernel_of(f"{_COORDINATES} suld.b.{form} {one}, [%h, {vector}]; {out}", plain=True)
        values = [draw.randbytes(step) for _ in places]
        image, found = _run(load, made, _given(places, step, values))
        for n in range(THREADS):
            at, is_out = _offset(made, places[n % len(places)], step)
            wanted = bytes(step) if is_out and outside == "zero" else image[at : at + step]
            assert found[16 * n : 16 * n + step] == wanted, (n, made)
        reads = " ".join(
            f"ld.global.{each} {register}, [%i+{16 + n * _BYTES[type_]}];"
            for n, register in enumerate(registers)
        )
        store = kernel_of(
            f"{_COORDINATES} {reads} sust.b.{form} [%h, {vector}], {one};", plain=True
        )
        kept = dict[int, bytes]()
        for place, value in zip(places, values, strict=True):
            at, is_out = _offset(made, place, step)
            if at in kept:  # two threads would store different bytes
                continue
            if not is_out or outside == "clamp":
                kept[at] = value
        chosen = [
            (place, value)
            for place, value in zip(places, values, strict=True)
            if kept.get(_offset(made, place, step)[0]) == value
            or (_offset(made, place, step)[1] and outside == "zero")
        ]
        before = bytearray(made.image())
        after, _ = _run(store, made, _given([p for p, _ in chosen], step, [v for _, v in chosen]))
        for at, value in kept.items():
            before[at : at + step] = value
        assert after[: len(before)] == before


@pytest.mark.parametrize("format_", range(8))
def test_elements_are_stored_in_their_format(format_: int) -> None:
    draw = random.Random(format_)
    store = kernel_of(
        f"{_COORDINATES} ld.global.v4.b32 {{%r0, %r1, %r2, %r3}}, [%i+16];"
        f"sust.p.2d.v4.b32.zero [%h, {{%j0, %j1}}], {{%r0, %r1, %r2, %r3}};",
        plain=True,
    )
    for channels in (1, 2, 4):
        made = _surface(draw, "2d", sizes=(5, 5, 1), format_=format_)
        shape = (*made.levels[0].shape[:3], channels)
        dtype = np.dtype(DTYPES[format_])
        made.levels[0] = np.zeros(shape, dtype)
        places = _places(draw, "2d", made, 0, inside=False)
        item = channels * dtype.itemsize
        numbers, values = [], []
        for _ in places:
            if dtype.kind == "f":
                texel = [draw.uniform(-7e4, 7e4) for _ in range(4)]
                values.append(struct.pack("<4f", *texel))
            else:
                texel = [draw.choice((0, 1, -1, 127, 200, -200, 70000)) for _ in range(4)]
                if dtype.kind == "u":
                    texel = [one & 0xFFFF_FFFF for one in texel]
                values.append(struct.pack("<4I", *(one & 0xFFFF_FFFF for one in texel)))
            numbers.append(texel)
        before = bytearray(made.image())
        after, _ = _run(store, made, _given(places, 1, values))
        with np.errstate(over="ignore"):
            for place, texel in zip(places, numbers, strict=True):
                at, is_out = _offset(made, place, item)
                stored = np.array(texel[:channels], np.float32)
                if dtype.kind != "f":
                    limits = np.iinfo(dtype)
                    stored = np.clip(np.array(texel[:channels], "i8"), limits.min, limits.max)
                if not is_out:
                    before[at : at + item] = stored.astype(dtype).tobytes()
        assert after[: len(before)] == before


@pytest.mark.parametrize(
    "form",
    [
        *("b.add.2d.u32", "b.add.2d.s32", "b.add.2d.u64", "b.min.2d.s32", "b.max.2d.u32"),
        *("b.and.2d.b32", "b.or.2d.b32", "p.add.2d.b32", "p.min.2d.b32", "p.or.2d.b32"),
    ],
)
def test_reductions(form: str) -> None:
    draw = random.Random(form)
    unit, operation, _, type_ = form.split(".")
    width = int(type_[1:]) // 8
    signed = type_[0] == "s" or (unit == "p" and operation == "min")
    made = _surface(draw, "2d", sizes=(6, 2, 1), format_=5 if signed else 2)
    made.levels[0] = np.ascontiguousarray(made.levels[0][..., :1].repeat(1 if width == 4 else 2, 3))
    register = "%r0" if width == 4 else "%w0"
    update = kernel_of(
        f"{_COORDINATES} ld.global.b{8 * width} {register}, [%i+16];"
        f"sured.{form}.zero [%h, {{%j0, %j1}}], {register};",
        plain=True,
    )
    places = [draw.choice(_places(draw, "2d", made, width, inside=False)) for _ in range(THREADS)]
    values = [draw.randbytes(width) for _ in places]
    expected = bytearray(made.image())
    kind = "<i" if signed else "<u"
    for place, value in zip(places, values, strict=True):
        at, is_out = _offset(made, place, width)
        if is_out:
            continue
        a = int(np.frombuffer(bytes(expected[at : at + width]), f"{kind}{width}")[0])
        b = int(np.frombuffer(value, f"{kind}{width}")[0])
        combined = {"add": a + b, "min": min(a, b), "max": max(a, b), "and": a & b, "or": a | b}
        bits = combined[operation] & (1 << 8 * width) - 1
        expected[at : at + width] = bits.to_bytes(width, "little")
    after, _ = _run(update, made, _given(places, width if unit == "b" else 1, values))
    assert after[: len(expected)] == expected


@pytest.mark.parametrize("place", [(-1, 0), (0, 3), (29, 0), (0, -1)])
def test_trap_outside(place: tuple[int, int]) -> None:
    made = _surface(random.Random(1), "2d", sizes=(8, 3, 1), format_=7)
    made.levels[0] = np.ascontiguousarray(made.levels[0][..., :1])
    load = kernel_of(f"{_COORDINATES} suld.b.2d.b32.trap %r0, [%h, {{%j0, %j1}}];")
    with pytest.raises(KernelError, match="trap"):
        _run(load, made, _given([(*place, 0, 0)], 1, [b""]))
