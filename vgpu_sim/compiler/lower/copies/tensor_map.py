"""The layout of a tensor map, and PTX that reads it.

A tensor map is 128 bytes (PTX ISA 5.5.8); NVIDIA leaves their layout to the implementation. This
is Tessera's, which ``clients/libcuda/tensor/encoded_map.h`` declares for the driver:

=====  =======================  ==========================================================
bytes  field                    encoding
=====  =======================  ==========================================================
0      global address           64 bits
8      global strides           4 times 64 bits: bytes between elements of dimensions 1 to 4
40     global sizes             5 times 32 bits: the number of elements, minus 1
60     box                      5 times 16 bits: the number of elements; for im2col only the
                                first, the channels of a pixel
70     element strides          5 times 8 bits
75     rank                     8 bits: the number of dimensions, minus 1
76     element type             8 bits, as PTX's ``tensormap.replace`` numbers them
77     interleaved layout       8 bits, likewise
78     swizzle                  8 bits, likewise
79     fill of what is outside  8 bits, likewise
80     atomicity of the swizzle 8 bits, likewise
81     L2 promotion             8 bits: ignored by copies
82     access mode              8 bits: 0 tiled, 1 im2col, 2 im2col::w, 3 im2col::w::128
84     pixels of a column       16 bits
86     lower corner             3 times 16 bits, signed: of dimensions 1 to 3
92     upper corner             likewise
=====  =======================  ==========================================================

The other bytes are zero. Every field may hold any number, because programs can write the bytes:
a copy whose map it cannot perform ends the kernel.
"""

from enum import Enum
from typing import Final

BYTES: Final = 128
ADDRESS, STRIDES, SIZES, BOX, ELEMENT_STRIDES = 0, 8, 40, 60, 70
RANK, TYPE, INTERLEAVE, SWIZZLE, FILL, ATOMICITY = 75, 76, 77, 78, 79, 80
ACCESS, PIXELS, LOWER, UPPER = 82, 84, 86, 92
MAX_BOX: Final = 256
MAX_PIXELS: Final = 1024
MAX_ELEMENT_STRIDE: Final = 8
MAX_SHARED_BYTES: Final = 227 << 10
"""The most shared memory that a block has on any target: a box is no larger."""
SHARED_ALIGNMENT_BYTES: Final = 128
_ROW_ALIGNMENT_BYTES: Final = 16
TYPES: Final = (
    "u8",
    "u16",
    "u32",
    "s32",
    "u64",
    "s64",
    "f16",
    "f32",
    "f32",
    "f64",
    "bf16",
    "f32",
    "f32",
)
"""The PTX type of each element type's values: those of ``.ftz`` and ``.tf32`` are of ``.f32``."""
B4X16, B4X16_P64, B6X16 = 13, 14, 15
"""Packed types: 16 elements have 8, 8 and 12 bytes in global memory, and 8, 16 and 16 in shared
memory."""
PADDED_ELEMENTS: Final = 128
"""Boxes, sizes and coordinates of padded types are multiples of this number of elements."""
_SHIFTS: Final = sum(
    (int(t.lstrip("bfsu")) // 16).bit_length() << 4 * n for n, t in enumerate(TYPES)
)


class Mode(Enum):
    """How a copy selects the rows of a tensor: the values are the modes of maps."""

    TILE = 0
    ROWS = -1
    """Four rows of a map of tiles: gather4 and scatter4."""
    IM2COL = 1
    WIDE = 2
    WIDE_128 = 3

    @property
    def has_columns(self) -> bool:
        return self.value > 0

    @property
    def access(self) -> int:
        """The access mode that the map must have."""
        return max(self.value, 0)


def read_map(rank: int, mode: Mode) -> str:
    """Return PTX that reads a map of ``rank`` dimensions at %map; if it is none, branch to WRONG.

    It sets, for each dimension n: %size<n> (64 bits, elements), %stride<n> (64 bits, bytes), for
    tiles %count<n> (elements in a box), and %step<n> (64 bits, the element stride); and %base,
    %type, %shift (the logarithm of an element's bytes), %row (bytes of a box in dimension 0),
    %span (bytes in global memory of 16 bytes of it), %first and %length (the place of the row, and
    the bytes of the tensor, in dimension 0), %pitch (bytes between rows in shared memory), %chunks
    and %turn (which bits of an address are swizzled, shifted left by 4, and how far they are from
    those that they are combined with), %flip, %extra and %slice (``_INTERLEAVE``), %fill and
    %boxes (64 bits, the number of rows).
    """
    dimensions = range(rank)
    lines = [
        f"ld.u8 %k, [%map+{ACCESS}]; setp.ne.u32 %p, %k, {mode.access}; @%p bra WRONG;",
        f"ld.u8 %k, [%map+{RANK}]; setp.ne.u32 %p, %k, {rank - 1}; @%p bra WRONG;",
        f"ld.u8 %fill, [%map+{FILL}]; setp.gt.u32 %p, %fill, 1; @%p bra WRONG;",
        f"ld.b64 %base, [%map+{ADDRESS}];",
    ]
    lines += [
        f"ld.u32 %k, [%map+{SIZES + 4 * n}]; cvt.u64.u32 %size{n}, %k;"
        f" add.u64 %size{n}, %size{n}, 1;"
        for n in dimensions
    ]
    lines += [f"ld.b64 %stride{n}, [%map+{STRIDES + 8 * (n - 1)}];" for n in dimensions[1:]]
    lines += [_read_box(n) for n in (dimensions if mode is Mode.TILE else dimensions[:1])]
    if mode is Mode.TILE or mode.has_columns:
        lines += [_read_step(n) for n in dimensions[1:]]
    lines += [_read_rows(rank, mode), _read_type(mode), _SWIZZLE, _interleave(rank, mode), _EXTENT]
    return "\n".join(lines)


def _read_box(n: int) -> str:
    return f"""
      ld.u16 %count{n}, [%map+{BOX + 2 * n}]; sub.u32 %k, %count{n}, 1;
      setp.ge.u32 %p, %k, {MAX_BOX}; @%p bra WRONG;
    """


def _read_step(n: int) -> str:
    return f"""
      ld.u8 %j, [%map+{ELEMENT_STRIDES + n}]; sub.u32 %k, %j, 1;
      setp.ge.u32 %p, %k, {MAX_ELEMENT_STRIDE}; @%p bra WRONG; cvt.u64.u32 %step{n}, %j;
    """


def _read_rows(rank: int, mode: Mode) -> str:
    """Return PTX that sets %boxes, and %pixels for columns."""
    if mode is Mode.TILE:
        lines = ["mov.b64 %boxes, 1;"]
        for n in range(1, rank):
            lines += [
                f"cvt.u32.u64 %k, %step{n}; add.u32 %count{n}, %count{n}, %k;",
                f"sub.u32 %count{n}, %count{n}, 1; div.u32 %count{n}, %count{n}, %k;",
                f"cvt.u64.u32 %wide, %count{n}; mul.lo.u64 %boxes, %boxes, %wide;",
            ]
        return "\n".join(lines)
    if mode is Mode.ROWS:
        return f"""
          ld.u16 %k, [%map+{BOX + 2}]; setp.ne.u32 %p, %k, 1; @%p bra WRONG;
          mov.b64 %boxes, 4;
        """
    if mode is Mode.WIDE_128:
        return """
          mov.b32 %pixels, 128; shl.b32 %k, %halo, 2; add.u32 %k, %k, %pixels;
          cvt.u64.u32 %boxes, %k;
        """
    halo = "add.u32 %k, %k, %halo;" if mode is Mode.WIDE else ""
    return f"""
      ld.u16 %pixels, [%map+{PIXELS}]; sub.u32 %k, %pixels, 1;
      setp.ge.u32 %p, %k, {MAX_PIXELS}; @%p bra WRONG;
      mov.b32 %k, %pixels; {halo} cvt.u64.u32 %boxes, %k;
    """


# An H100 refuses rows that do not begin at a multiple of 16 bytes, although PTX ISA permits them.
_ALIGNED: Final = f"""
  and.b64 %wide, %first, {_ROW_ALIGNMENT_BYTES - 1}; setp.ne.u64 %p, %wide, 0; @%p bra WRONG;
"""


# Elements of 4 and 6 bits are not values that a box could begin inside of: 16 of them are a unit.
# Of padded types, a byte of shared memory belongs to one element.
def _read_type(mode: Mode) -> str:
    aligned = "" if mode is Mode.ROWS else _ALIGNED  # an H100 has no gather4
    return f"""
  ld.u8 %type, [%map+{TYPE}]; setp.gt.u32 %p, %type, {B6X16}; @%p bra WRONG;
  mov.b32 %span, 16; cvt.s64.s32 %first, %c0; mov.b64 %length, %size0; mov.b32 %shift, 0;
  setp.lt.u32 %p, %type, {B4X16}; @%p bra VALUES;
  setp.ne.u32 %p, %fill, 0; @%p bra WRONG;
  setp.eq.u32 %p, %type, {B4X16}; @%p bra HALVES;
  setp.eq.u32 %p, %type, {B4X16_P64}; selp.b32 %span, 8, 12, %p;
  setp.ne.u32 %p, %count0, {PADDED_ELEMENTS}; @%p bra WRONG;
  or.b64 %wide, %first, %length; and.b64 %wide, %wide, {PADDED_ELEMENTS - 1};
  setp.ne.u64 %p, %wide, 0; @%p bra WRONG;
  mov.b32 %row, {PADDED_ELEMENTS}; bra TYPED;
HALVES:
  or.b64 %wide, %first, %length; cvt.u64.u32 %boundary, %count0; or.b64 %wide, %wide, %boundary;
  and.b64 %wide, %wide, 1; setp.ne.u64 %p, %wide, 0; @%p bra WRONG;
  shr.s64 %first, %first, 1; shr.u64 %length, %length, 1; shr.u32 %row, %count0, 1;
  bra TYPED;
VALUES:
  shl.b32 %k, %type, 2; mov.b64 %wide, {_SHIFTS}; shr.u64 %wide, %wide, %k;
  cvt.u32.u64 %shift, %wide; and.b32 %shift, %shift, 15;
  shl.b64 %first, %first, %shift; shl.b64 %length, %length, %shift; shl.b32 %row, %count0, %shift;
  {aligned}
TYPED:
  and.b32 %k, %row, 15; setp.ne.u32 %p, %k, 0; @%p bra WRONG;
"""


# Atoms of 16, 32 and 64 bytes; of those of 32 bytes with a flip, the halves of 16 bytes are
# exchanged in every other line of 128 bytes.
_SWIZZLE: Final = f"""
  ld.u8 %k, [%map+{SWIZZLE}]; setp.gt.u32 %p, %k, 3; @%p bra WRONG;
  mov.b32 %chunks, 1; shl.b32 %chunks, %chunks, %k; sub.u32 %chunks, %chunks, 1;
  mov.b32 %pitch, %row; setp.eq.u32 %p, %chunks, 0; @%p bra PLAIN;
  add.u32 %pitch, %chunks, 1; shl.b32 %pitch, %pitch, 4;
  setp.gt.u32 %p, %row, %pitch; @%p bra WRONG;
PLAIN:
  ld.u8 %j, [%map+{ATOMICITY}]; setp.gt.u32 %p, %j, 3; @%p bra WRONG;
  setp.ne.u32 %p, %j, 0; setp.ne.u32.and %p, %k, 3, %p; @%p bra WRONG;
  setp.eq.u32 %p, %j, 2; selp.b32 %flip, 8, 0, %p;
  add.u32 %j, %j, 1; shr.u32 %j, %j, 1; sub.u32 %turn, 3, %j;
  shl.b32 %k, %chunks, %j; and.b32 %chunks, %chunks, %k; shl.b32 %chunks, %chunks, 4;
  setp.eq.u32 %whole, %span, 16; setp.eq.u32.and %whole, %flip, 0, %whole;
"""
_EXTENT: Final = f"""
  cvt.u64.u32 %wide, %pitch; mul.lo.u64 %wide, %wide, %boxes;
  setp.gt.u64 %p, %wide, {MAX_SHARED_BYTES}; @%p bra WRONG;
"""


def _interleave(rank: int, mode: Mode) -> str:
    """Return PTX that sets %extra, the bytes between the end of a slice of channels and the
    beginning of the next one, 0 without an interleaved layout, and %slice, the logarithm of a
    slice's bytes.

    A slice is a whole image, as large as the stride and the size of its outermost dimension state.
    """
    read = f"ld.u8 %k, [%map+{INTERLEAVE}]; mov.b64 %extra, 0; mov.b32 %slice, 4;"
    if rank < 3 or mode in (Mode.ROWS, Mode.WIDE, Mode.WIDE_128):
        return f"{read} setp.ne.u32 %p, %k, 0; @%p bra WRONG;"
    outer = rank - 2
    return f"""
      {read}
      setp.eq.u32 %p, %k, 0; @%p bra DENSE;
      setp.gt.u32 %p, %k, 2; setp.ge.u32.or %p, %type, {B4X16}, %p; @%p bra WRONG;
      ld.u8 %j, [%map+{ELEMENT_STRIDES}]; setp.ne.u32 %p, %j, 1; @%p bra WRONG;
      add.u32 %slice, %k, 3; shl.b32 %k, 8, %k; cvt.u64.u32 %wide, %k;
      mul.lo.u64 %extra, %stride{outer}, %size{outer}; sub.u64 %extra, %extra, %wide;
      or.b64 %wide, %extra, %first; and.b64 %wide, %wide, 15; setp.ne.u64 %p, %wide, 0;
      @%p bra WRONG;
    DENSE:
    """


def registers(rank: int) -> str:
    """Return the declarations of the registers that ``read_map`` uses."""
    dimensions = range(rank)
    names = [f"%{name}{n}" for name in ("size", "stride", "step") for n in dimensions]
    counts = [f"%count{n}" for n in dimensions]
    return (
        f".reg .b64 %wide, %base, %first, %length, %extra, %boxes, %boundary, {', '.join(names)};"
        " .reg .pred %p, %whole; .reg .b32 %k, %j, %type, %shift, %row, %pitch, %chunks, %fill,"
        f" %span, %turn, %flip, %slice, %pixels, {', '.join(counts)};"
    )
