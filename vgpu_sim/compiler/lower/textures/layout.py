"""The layout of the descriptor of a texture or surface, and PTX that reads it.

A texture object, a surface object and the value of a ``.texref``, ``.samplerref`` or ``.surfref``
is the address of a descriptor, which the driver writes. NVIDIA documents no layout; this is
Tessera's:

==================  =============================  ===============================================
bytes               field                          encoding
==================  =============================  ===============================================
0                   kind                           8 bits: 0 none, 1 texture, 2 surface
1                   shape                          8 bits: ``Shape``
2                   format of a channel            8 bits: an index into ``FORMATS``
3                   channels                       8 bits: 1, 2 or 4
4, 5, 6             address modes of x, y and z    8 bits each: ``Mode``
7                   filter                         8 bits: 0 point, 1 linear
8                   filter between levels          8 bits, likewise
9                   normalized coordinates         8 bits: 0 or 1
10                  read as integers               8 bits: 0 or 1
11                  sRGB                           8 bits: 0 or 1
12                  levels                         8 bits: 1 to 17
13                  maximum anisotropy             8 bits: ignored by fetches
14                  seamless cube map              8 bits: ignored by fetches
15                  no trilinear optimization      8 bits: ignored by fetches
16, 20, 24          bias, least and greatest       32 bits each: ``.f32``
                    level
28                  layers                         32 bits: layers or faces; 1 without layers
32                  border colour                  four times 32 bits: ``.f32``
64 + 32 level       address                        64 bits
72, 76, 80 + ...    width, height, depth           32 bits each: elements
84 + ...            bytes between rows             32 bits
88 + ...            bytes between slices           64 bits: between depths, layers or faces
==================  =============================  ===============================================

The other bytes are zero. Every field may hold any number, because programs can write the bytes: a
fetch checks the fields that it uses, and ends the kernel if one is out of range.
"""

from enum import IntEnum
from typing import Final

ALIGNMENT_BYTES: Final = 128
KIND, SHAPE, FORMAT, CHANNELS, MODES, FILTER = 0, 1, 2, 3, 4, 7
LEVEL_FILTER, NORMALIZED, AS_INTEGER, SRGB = 8, 9, 10, 11
LEVELS, ANISOTROPY, SEAMLESS, NO_TRILINEAR = 12, 13, 14, 15
BIAS, LEAST_LEVEL, GREATEST_LEVEL, LAYERS, BORDER = 16, 20, 24, 28, 32
LEVEL, LEVEL_BYTES = 64, 32
ADDRESS, WIDTH, HEIGHT, DEPTH, PITCH, SLICE = 0, 8, 12, 16, 20, 24
"""Bytes from the beginning of a level's part."""

TEXTURE: Final = 1
SURFACE: Final = 2
MAX_LEVELS: Final = 17
MAX_SIZE: Final = 1 << 28
"""The most elements in a dimension, and the most layers: such numbers are exact enough in .f32."""

FORMATS: Final = ("u8", "u16", "u32", "s8", "s16", "s32", "f16", "f32")
_SHIFTS: Final = sum((int(name[1:]) // 16).bit_length() << 4 * n for n, name in enumerate(FORMATS))


class Shape(IntEnum):
    """The shape of what a descriptor describes."""

    LINE = 0
    PLANE = 1
    SPACE = 2
    LAYERED_LINE = 3
    LAYERED_PLANE = 4
    CUBE = 5
    LAYERED_CUBE = 6
    BUFFER = 7


class Mode(IntEnum):
    """How coordinates outside of a texture are addressed, with the numbers of CUaddress_mode."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


GEOMETRIES: Final = {
    "1d": (Shape.LINE, 1),
    "2d": (Shape.PLANE, 2),
    "3d": (Shape.SPACE, 3),
    "a1d": (Shape.LAYERED_LINE, 1),
    "a2d": (Shape.LAYERED_PLANE, 2),
    "cube": (Shape.CUBE, 2),
    "acube": (Shape.LAYERED_CUBE, 2),
}
"""For each geometry of PTX, its shape, and the number of dimensions of one of its slices."""

REGISTERS: Final = """
  .reg .b64 %level, %base, %slice, %wide; .reg .pred %p, %q;
  .reg .b32 %h0, %h1, %h2, %h3, %k, %format, %channels, %shift, %bytes, %size0, %size1, %size2;
  .reg .b32 %pitch, %layers;
"""
"""Declarations of the registers that ``read_kind`` and ``read_level`` use."""


def read_kind(kind: int, shapes: tuple[Shape, ...]) -> str:
    """Return PTX that reads the first 16 bytes of the descriptor at %handle to %h0 to %h3, and
    traps unless it is of this kind and has one of these shapes.

    It sets %format, %channels, %shift (the logarithm of the bytes of a channel) and %bytes (of an
    element).
    """
    allowed = sum(1 << shape for shape in shapes)
    return f"""
  ld.global.v4.b32 {{%h0, %h1, %h2, %h3}}, [%handle];
  and.b32 %k, %h0, 0xff; setp.ne.u32 %p, %k, {kind};
  bfe.u32 %k, %h0, 8, 8; min.u32 %k, %k, 31; mov.b32 %shift, {allowed};
  shr.u32 %k, %shift, %k; and.b32 %k, %k, 1; setp.eq.u32.or %p, %k, 0, %p;
  bfe.u32 %format, %h0, 16, 8; setp.ge.u32.or %p, %format, {len(FORMATS)}, %p;
  shr.u32 %channels, %h0, 24; min.u32 %k, %channels, 31; mov.b32 %shift, 0x16;
  shr.u32 %k, %shift, %k; and.b32 %k, %k, 1; setp.eq.u32.or %p, %k, 0, %p;
  @%p trap;
  shl.b32 %k, %format, 2; mov.b32 %shift, {_SHIFTS}; shr.u32 %shift, %shift, %k;
  and.b32 %shift, %shift, 15; shl.b32 %bytes, %channels, %shift;
"""


def read_level(dimensions: int, *, layered: bool) -> str:
    """Return PTX that reads the part of a level at %level, and traps if a size is out of range.

    It sets %base, %size0 and so on, %pitch, %slice, and with ``layered`` %layers.
    """
    lines = [
        f"ld.global.b64 %base, [%level+{ADDRESS}];",
        f"ld.global.v2.b32 {{%size0, %size1}}, [%level+{WIDTH}];",
        f"sub.u32 %k, %size0, 1; setp.ge.u32 %p, %k, {MAX_SIZE};",
    ]
    if dimensions > 1:
        lines += [
            f"ld.global.v2.b32 {{%size2, %pitch}}, [%level+{DEPTH}];",
            f"sub.u32 %k, %size1, 1; setp.ge.u32.or %p, %k, {MAX_SIZE}, %p;",
        ]
    if dimensions > 2:
        lines.append(f"sub.u32 %k, %size2, 1; setp.ge.u32.or %p, %k, {MAX_SIZE}, %p;")
    if dimensions > 2 or layered:
        lines.append(f"ld.global.b64 %slice, [%level+{SLICE}];")
    if layered:
        lines += [
            f"ld.global.b32 %layers, [%handle+{LAYERS}];",
            f"sub.u32 %k, %layers, 1; setp.ge.u32.or %p, %k, {MAX_SIZE}, %p;",
        ]
    return "\n".join((*lines, "@%p trap;"))
