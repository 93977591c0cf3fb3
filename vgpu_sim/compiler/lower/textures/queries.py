"""Functions in PTX that read a field of a descriptor, for ``txq``, ``suq`` and ``istypep``."""

import functools
from typing import Final

from vgpu_sim.compiler.lower.copies import library
from vgpu_sim.compiler.lower.textures import layout
from vgpu_sim.compiler.lower.textures.layout import Mode, Shape
from vgpu_sim.compiler.ptx import tree

_REGISTERS: Final = ".reg .b32 %k, %shape, %v, %h; .reg .b64 %level; .reg .pred %p;"
_LAYERED: Final = (Shape.LAYERED_LINE, Shape.LAYERED_PLANE, Shape.LAYERED_CUBE)
_FLAT: Final = (Shape.LINE, Shape.LAYERED_LINE, Shape.BUFFER)
_SIZES: Final = {"width": layout.WIDTH, "height": layout.HEIGHT, "depth": layout.DEPTH}
_BYTES: Final = {
    "num_mipmap_levels": layout.LEVELS,
    "normalized_coords": layout.NORMALIZED,
    "filter_mode": layout.FILTER,
}
_CONSTANTS: Final = {"force_unnormalized_coords": 0, "num_samples": 0, "memory_layout": 0}
# OpenCL's numbers (cl.h), which PTX ISA names for programs in that language. Read as floats,
# integers of 8 and 16 bits are normalized.
_READ: Final = (0x10DA, 0x10DB, 0x10DC, 0x10D7, 0x10D8, 0x10D9, 0x10DD, 0x10DE)
_NORMALIZED: Final = (0x10D2, 0x10D3, 0x10DC, 0x10D0, 0x10D1, 0x10D9, 0x10DD, 0x10DE)
_ORDERS: Final = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}
# Wrap, mirror, clamp_ogl, clamp_to_edge and clamp_to_border, in the order of PTX ISA.
_MODES: Final = {Mode.WRAP: 0, Mode.CLAMP: 3, Mode.MIRROR: 1, Mode.BORDER: 4}


@functools.lru_cache(maxsize=64)
def function(query: str, kind: int, *, of_level: bool = False) -> tree.Function:
    """Return the code that reads what ``query`` names, with ``of_level`` that of a level."""
    level = ", b32 %number" * of_level
    body = f"""
  ld.global.u8 %k, [%handle+{layout.KIND}]; setp.ne.u32 %p, %k, {kind}; @%p trap;
  ld.global.u8 %shape, [%handle+{layout.SHAPE}]; mov.b64 %level, %handle;
"""
    if of_level:
        body += f"""
  ld.global.u8 %k, [%handle+{layout.LEVELS}]; min.u32 %k, %k, {layout.MAX_LEVELS};
  setp.ge.u32 %p, %number, %k; @%p trap;
  mad.wide.u32 %level, %number, {layout.LEVEL_BYTES}, %handle;
"""
    name = f"tessera.query.{query}.{kind}.{of_level}"
    body += _read(query)
    return library.function(name, f"b64 %handle{level}", _REGISTERS, body, "b32 %result")


def _read(query: str) -> str:
    if query in _SIZES:
        read = f"ld.global.b32 %result, [%level+{layout.LEVEL + _SIZES[query]}];"
        return read + {"width": "", "height": _zero(_FLAT), "depth": _zero(_NOT_DEEP)}[query]
    if query in _BYTES:
        return f"ld.global.u8 %result, [%handle+{_BYTES[query]}];"
    if query in _CONSTANTS:
        return f"mov.b32 %result, {_CONSTANTS[query]};"
    if query == "array_size":
        other_shapes = tuple(shape for shape in Shape if shape not in _LAYERED)
        return (
            f"ld.global.b32 %result, [%handle+{layout.LAYERS}]; div.u32 %v, %result, 6;"
            f" setp.eq.u32 %p, %shape, {int(Shape.LAYERED_CUBE)};"
            f" selp.b32 %result, %v, %result, %p;{_zero(other_shapes)}"
        )
    if query == "channel_order":
        return _choose(layout.CHANNELS, "%result", _ORDERS)
    if query.startswith("addr_mode_"):
        at = layout.MODES + int(query[-1])
        return _choose(at, "%result", {int(mode): n for mode, n in _MODES.items()})
    return (
        _choose(layout.FORMAT, "%h", dict(enumerate(_READ)))
        + _choose(layout.FORMAT, "%v", dict(enumerate(_NORMALIZED)))
        + f" ld.global.u8 %k, [%handle+{layout.AS_INTEGER}]; setp.ne.u32 %p, %k, 0;"
        " selp.b32 %result, %h, %v, %p;"
    )


_NOT_DEEP: Final = tuple(shape for shape in Shape if shape is not Shape.SPACE)


def _zero(shapes: tuple[Shape, ...]) -> str:
    """Return PTX that makes the result 0 for these shapes."""
    return "".join(
        f" setp.eq.u32 %p, %shape, {int(shape)}; selp.b32 %result, 0, %result, %p;"
        for shape in shapes
    )


def _choose(at: int, to: str, numbers: dict[int, int]) -> str:
    """Return PTX that reads a byte, and sets ``to`` to the number for it, or to 0."""
    chosen = "".join(
        f" setp.eq.u32 %p, %k, {value}; selp.b32 {to}, {number}, {to}, %p;"
        for value, number in numbers.items()
    )
    return f"ld.global.u8 %k, [%handle+{at}]; mov.b32 {to}, 0;{chosen}"


@functools.cache
def kind_of() -> tree.Function:
    """Return the code that reads the kind of a descriptor; a null handle has none."""
    body = f"""
  mov.b32 %result, 0; setp.eq.u64 %p, %handle, 0; @%p bra NULL;
  ld.global.u8 %result, [%handle+{layout.KIND}];
NULL:
"""
    return library.function("tessera.query.kind", "b64 %handle", _REGISTERS, body, "b32 %result")
