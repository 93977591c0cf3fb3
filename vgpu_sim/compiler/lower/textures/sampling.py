"""Functions in PTX that fetch from a texture, one for each form of ``tex`` and ``tld4``."""

import functools
from typing import Final

from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.textures import coordinates, layout, levels, texels
from vgpu_sim.compiler.lower.textures.layout import GEOMETRIES, Shape
from vgpu_sim.compiler.ptx import tree

RESULTS: Final = 4
COMPONENTS: Final = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 3, "acube": 3}
"""The number of coordinates of each geometry, without the layer."""
LAYERED: Final = frozenset({"a1d", "a2d", "acube"})
CUBES: Final = frozenset({"cube", "acube"})
_VOLUME: Final = 3
_RETURNS: Final = {
    "": ", ".join(f"b32 %s{n}" for n in range(RESULTS)),
    "f16": ", ".join(f"b16 %half{n}" for n in range(RESULTS)),
    "f16x2": "b32 %pair0, b32 %pair1",
}
_HALVES: Final = {
    "f16": " ".join(f"cvt.rn.f16.f32 %half{n}, %s{n};" for n in range(RESULTS)),
    "f16x2": "cvt.rn.f16x2.f32 %pair0, %s1, %s0; cvt.rn.f16x2.f32 %pair1, %s3, %s2;",
}


@functools.lru_cache(maxsize=128)
def function(
    geometry: str,
    *,
    integers: bool = False,
    choice: str = "",
    gathered: int | None = None,
    halves: str = "",
) -> tree.Function:
    """Return the code that fetches by coordinates that are floats, or ``integers``.

    Its parameters are the handle, the layer of a layered texture, the coordinates, and according
    to ``choice`` the ``level`` or the two gradients of ``grad``; its results are four registers of
    32 bits, or of ``halves`` (f16 or f16x2). With ``gathered``, they are that channel of the four
    texels of a linear filter.
    """
    count = COMPONENTS[geometry]
    parameters = "b64 %handle" + ", b32 %layer" * (geometry in LAYERED)
    parameters += "".join(f", b32 %c{n}" for n in range(count))
    parameters += ", b32 %given" * (choice == "level")
    if choice == "grad":
        parameters += "".join(f", b32 %g{a}{n}" for a in "xy" for n in range(count))
    body = "\n".join(
        (
            _begin(geometry, integers=integers),
            _choose(geometry, choice, integers=integers),
            _place(geometry, integers=integers),
            _plane(geometry, gathered, integers=integers),
            "FETCHED:",
            _end(geometry, choice, gathered, integers=integers),
            _HALVES.get(halves, ""),
        )
    )
    name = f"tessera.texture.{geometry}.{integers}.{choice}.{gathered}.{halves}"
    registers = _REGISTERS + (f".reg .b32 %s<{RESULTS}>;" if halves else "")
    return library.function(name, parameters, registers, body, _RETURNS[halves])


_REGISTERS: Final = f"""
  {layout.REGISTERS} {texels.REGISTERS} {coordinates.REGISTERS}
  {levels.REGISTERS}
  .reg .b32 %face, %major, %depth, %slab<4>, %lx, %ly, %dx<3>, %dy<3>; .reg .b64 %row<2>, %volume;
  .reg .pred %floats, %deep, %buffer, %beyond;
"""


def _begin(geometry: str, *, integers: bool) -> str:
    """Return PTX that reads the descriptor, and the coordinates to %x0 and so on."""
    shape, _ = GEOMETRIES[geometry]
    shapes: tuple[Shape, ...] = (shape,)
    if geometry == "1d":  # programs make tables for tex1D as arrays of height 1, too
        shapes = (Shape.LINE, Shape.PLANE, Shape.BUFFER) if integers else (Shape.LINE, Shape.PLANE)
    lines = [
        layout.read_kind(layout.TEXTURE, shapes),
        texels.READ_CONVERSION,
        *(f"mov.b32 %x{n}, %c{n};" for n in range(COMPONENTS[geometry])),
        "not.pred %floats, %raw;",
    ]
    if geometry in CUBES:
        lines += [coordinates.CUBE_MODES, coordinates.FACE]
    else:
        lines.append(coordinates.read_modes(COMPONENTS[geometry]))
    if integers and geometry == "1d":
        lines.append(
            f"bfe.u32 %k, %h0, 8, 8; setp.eq.u32 %buffer, %k, {int(Shape.BUFFER)};"
            " or.pred %edge0, %edge0, %buffer; or.pred %border, %border, %buffer;"
        )
    return "\n".join(lines)


def _choose(geometry: str, choice: str, *, integers: bool) -> str:
    """Return PTX that sets %level."""
    if not choice:
        return f"add.u64 %level, %handle, {layout.LEVEL};"
    if choice == "level":
        copies = "cvt.rn.f32.s32 %lod, %given;" if integers else "mov.b32 %lod, %given;"
        return f"{copies} {levels.CHOOSE}\nLEVEL:"
    count = COMPONENTS[geometry]
    copies = " ".join(f"mov.b32 %d{a}{n}, %g{a}{n};" for a in "xy" for n in range(count))
    lod = levels.of_gradients(count, cube=geometry in CUBES)
    return f"{copies}\n{lod}\n{levels.CHOOSE}\nLEVEL:"


def _place(geometry: str, *, integers: bool) -> str:
    """Return PTX that reads the level, and sets %base to the slice, and %low0 and so on to the
    coordinates in texels.
    """
    _, dimensions = GEOMETRIES[geometry]
    layered = geometry in LAYERED or geometry in CUBES
    lines = [layout.read_level(dimensions, layered=layered)]
    if geometry in CUBES:
        lines.append("div.u32 %k, %layers, 6; sub.u32 %k, %k, 1; setp.ge.s32 %p, %k, 0; @!%p trap;")
        lines.append("min.u32 %k, %layer, %k; mad.lo.u32 %n, %k, 6, %face;" if geometry == "acube"
                     else "mov.b32 %n, %face;")  # fmt: skip
    elif layered:
        lines.append("sub.u32 %k, %layers, 1; min.u32 %n, %layer, %k;")
    if layered:
        lines.append(_ADD_SLICE)
    if not integers:
        lines += [coordinates.scale(n, cube=geometry in CUBES) for n in range(dimensions)]
    return "\n".join(lines)


_ADD_SLICE: Final = "cvt.u64.u32 %wide, %n; mad.lo.u64 %base, %wide, %slice, %base;"


def _plane(geometry: str, gathered: int | None, *, integers: bool) -> str:
    """Return PTX that fetches, with or without a filter."""
    if gathered is not None:
        return _linear(geometry, gathered)
    point = _point(geometry, integers=integers)
    if integers:
        return point
    return f"@%linear bra LINEAR;\n{point}\nLINEAR:\n{_linear(geometry, None)}"


def _point(geometry: str, *, integers: bool) -> str:
    _, dimensions = GEOMETRIES[geometry]
    each = range(dimensions)
    cube = geometry in CUBES
    if integers:
        lines = [coordinates.integer_index(n) for n in each]
    else:
        lines = [coordinates.index(n, cube=cube) for n in each]
    if dimensions == _VOLUME:
        lines.append(f"mov.b32 %n, %low2; {_ADD_SLICE}")
    if dimensions > 1:
        lines.append("mul.wide.u32 %wide, %low1, %pitch; add.u64 %base, %base, %wide;")
    lines.append("mad.wide.u32 %a0, %low0, %bytes, %base;")
    if not cube:
        lines.append("mov.pred %o0, %out0;")
        lines += [f"or.pred %o0, %o0, %out{n};" for n in each[1:]]
    if dimensions == _VOLUME and not integers:
        lines.append("mov.b32 %part2, 0; setp.ne.u32 %deep, 0, 0;")
    return "\n".join((*lines, texels.fetch("POINT", 1)))


def _linear(geometry: str, gathered: int | None) -> str:
    _, dimensions = GEOMETRIES[geometry]
    cube = geometry in CUBES
    lines = [coordinates.indices(n, cube=cube) for n in range(dimensions)]
    if dimensions == _VOLUME:
        lines.append(
            "mov.b64 %volume, %base; mov.b32 %depth, %low2; mov.pred %beyond, %out2;"
            " setp.ne.u32 %deep, 0, 0;\nSLAB:\n"
            "mov.b32 %n, %depth; cvt.u64.u32 %wide, %n; mad.lo.u64 %base, %wide, %slice, %volume;"
        )
    complement = "mov.b32 %f, 0f3F800000; sub.f32 %g, %f, %part0;"
    if dimensions == 1:
        lines += [
            f"{complement} mov.b32 %w0, %g; mov.b32 %w1, %part0;",
            "mad.wide.u32 %a0, %low0, %bytes, %base; mad.wide.u32 %a1, %high0, %bytes, %base;",
            "mov.pred %o0, %out0; mov.pred %o1, %out3;",
        ]
        return "\n".join((*lines, texels.fetch("LINEAR", 2)))
    lines += [
        f"{complement} sub.f32 %f, %f, %part1;",
        "mul.rn.f32 %w0, %g, %f; mul.rn.f32 %w1, %part0, %f;",
        "mul.rn.f32 %w2, %g, %part1; mul.rn.f32 %w3, %part0, %part1;",
        "mul.wide.u32 %wide, %low1, %pitch; add.u64 %row0, %base, %wide;",
        "mul.wide.u32 %wide, %high1, %pitch; add.u64 %row1, %base, %wide;",
        "mad.wide.u32 %a0, %low0, %bytes, %row0; mad.wide.u32 %a1, %high0, %bytes, %row0;",
        "mad.wide.u32 %a2, %low0, %bytes, %row1; mad.wide.u32 %a3, %high0, %bytes, %row1;",
    ]
    if not cube:
        lines += [
            "or.pred %o0, %out0, %out1; or.pred %o1, %out3, %out1;",
            "or.pred %o2, %out0, %out4; or.pred %o3, %out3, %out4;",
        ]
    if dimensions == _VOLUME:
        lines += [f"or.pred %o{n}, %o{n}, %beyond;" for n in range(texels.TAPS)]
    return "\n".join((*lines, texels.fetch("LINEAR", texels.TAPS, gathered)))


def _end(geometry: str, choice: str, gathered: int | None, *, integers: bool) -> str:
    """Return PTX that repeats the fetch for the next slice of a volume and the next level."""
    lines = []
    if geometry == "3d" and not integers and gathered is None:
        lines += [
            "@!%linear bra SLABS;",
            levels.accumulate(
                "slab",
                "SLAB",
                "mov.b32 %depth, %high2; mov.pred %beyond, %out5;",
                "%part2",
                "%deep",
            ),
            "SLABS:",
        ]
    if choice:
        lines += [
            "@%second bra AGAIN; setp.eq.f32 %p, %delta, 0f00000000; @%p bra OUT;\nAGAIN:",
            levels.accumulate(
                "acc", "LEVEL", f"add.u64 %level, %level, {layout.LEVEL_BYTES};", "%delta",
                "%second",
            ),
            "OUT:",
        ]  # fmt: skip
    if integers and geometry == "1d":
        lines.append("and.pred %p, %buffer, %out0;")
        lines += [f"selp.b32 %s{n}, 0, %s{n}, %p;" for n in range(RESULTS)]
    return "\n".join(lines)
