"""The layout of a tensor map, and PTX that reads it.

A tensor map is 128 bytes (PTX ISA 5.5.8); NVIDIA leaves their layout to the implementation. This
is Tessera's, which ``clients/libcuda/tensor/tensor_map.h`` declares for the driver:

=====  =======================  ==========================================================
bytes  field                    encoding
=====  =======================  ==========================================================
0      global address           64 bits
8      global strides           4 times 64 bits: bytes between elements of dimensions 1 to 4
40     global sizes             5 times 32 bits: the number of elements, minus 1
60     box                      5 times 16 bits: the number of elements
70     element strides          5 times 8 bits
75     rank                     8 bits: the number of dimensions, minus 1
76     element type             8 bits, as PTX's ``tensormap.replace`` numbers them
77     interleaved layout       8 bits, likewise
78     swizzle                  8 bits, likewise
79     fill of what is outside  8 bits, likewise
80     atomicity of the swizzle 8 bits, likewise
81     L2 promotion             8 bits: ignored by copies
=====  =======================  ==========================================================

The other bytes are zero. Every field may hold any number, because programs can write the bytes:
a copy whose map it cannot perform ends the kernel.
"""

from typing import Final

BYTES: Final = 128
ADDRESS, STRIDES, SIZES, BOX, ELEMENT_STRIDES = 0, 8, 40, 60, 70
RANK, TYPE, INTERLEAVE, SWIZZLE, FILL, ATOMICITY = 75, 76, 77, 78, 79, 80
MAX_BOX: Final = 256
MAX_ELEMENT_STRIDE: Final = 8
MAX_SHARED_BYTES: Final = 227 << 10
"""The most shared memory that a block has on any target: a box is no larger."""
TYPES: Final = (
    *("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32", "f64", "bf16", "f32", "f32"),
)
"""The PTX type of each element type's values: those of ``.ftz`` and ``.tf32`` are of ``.f32``."""
_SHIFTS: Final = sum(
    (int(t.lstrip("bfsu")) // 16).bit_length() << 4 * n for n, t in enumerate(TYPES)
)


def read_map(rank: int) -> str:
    """Return PTX that reads a map of ``rank`` dimensions at %map, and traps if it is not one.

    It sets, for each dimension n: %size<n> (64 bits, elements), %stride<n> (64 bits, bytes),
    %count<n> (elements in a box) and %step<n> (64 bits, the element stride); and %base, %type,
    %shift (the logarithm of an element's bytes), %row (bytes of a box in dimension 0), %pitch
    (bytes between them in shared memory), %chunks (which bits of an address are swizzled, shifted
    by 4) and %fill.
    """
    outer = range(1, rank)
    lines = [
        f"ld.u8 %k, [%map+{RANK}]; setp.ne.u32 %p, %k, {rank - 1}; @%p trap;",
        f"ld.u8 %type, [%map+{TYPE}]; setp.ge.u32 %p, %type, {len(TYPES)}; @%p trap;",
        f"shl.b32 %k, %type, 2; mov.b64 %wide, {_SHIFTS}; shr.u64 %wide, %wide, %k;",
        "cvt.u32.u64 %shift, %wide; and.b32 %shift, %shift, 15;",
        f"ld.u8 %k, [%map+{INTERLEAVE}]; setp.ne.u32 %p, %k, 0; @%p trap;",
        f"ld.u8 %k, [%map+{ATOMICITY}]; setp.ne.u32 %p, %k, 0; @%p trap;",
        f"ld.u8 %fill, [%map+{FILL}]; setp.gt.u32 %p, %fill, 1; @%p trap;",
        f"ld.u8 %k, [%map+{SWIZZLE}]; setp.gt.u32 %p, %k, 3; @%p trap;",
        "mov.b32 %chunks, 1; shl.b32 %chunks, %chunks, %k; sub.u32 %chunks, %chunks, 1;",
        f"ld.b64 %base, [%map+{ADDRESS}];",
    ]
    for n in range(rank):
        lines += [
            f"ld.u32 %k, [%map+{SIZES + 4 * n}]; cvt.u64.u32 %size{n}, %k;"
            f" add.u64 %size{n}, %size{n}, 1;",
            f"ld.u16 %count{n}, [%map+{BOX + 2 * n}]; sub.u32 %k, %count{n}, 1;"
            f" setp.ge.u32 %p, %k, {MAX_BOX}; @%p trap;",
        ]
        if n == 0:
            continue
        lines += [
            f"ld.b64 %stride{n}, [%map+{STRIDES + 8 * (n - 1)}];",
            f"ld.u8 %j, [%map+{ELEMENT_STRIDES + n}]; sub.u32 %k, %j, 1;"
            f" setp.ge.u32 %p, %k, {MAX_ELEMENT_STRIDE}; @%p trap;",
            f"add.u32 %count{n}, %count{n}, %k; div.u32 %count{n}, %count{n}, %j;"
            f" cvt.u64.u32 %step{n}, %j;",
        ]
    lines += [
        "shl.b32 %row, %count0, %shift; and.b32 %k, %row, 15; setp.ne.u32 %p, %k, 0; @%p trap;",
        "mov.b32 %pitch, %row; setp.eq.u32 %p, %chunks, 0; @%p bra PLAIN;",
        "add.u32 %pitch, %chunks, 1; shl.b32 %pitch, %pitch, 4;",
        "setp.gt.u32 %p, %row, %pitch; @%p trap;",
        "PLAIN: shl.b32 %chunks, %chunks, 4; cvt.u64.u32 %wide, %pitch;",
        *(f"cvt.u64.u32 %step0, %count{n}; mul.lo.u64 %wide, %wide, %step0;" for n in outer),
        f"setp.gt.u64 %p, %wide, {MAX_SHARED_BYTES}; @%p trap;",
    ]
    return "\n".join(lines)


def registers(rank: int) -> str:
    """Return the declarations of the registers that ``read_map`` uses."""
    dimensions = range(rank)
    names = [f"%{name}{n}" for name in ("size", "stride", "step") for n in dimensions]
    counts = [f"%count{n}" for n in dimensions]
    return (
        f".reg .b64 %wide, %base, {', '.join(names)}; .reg .pred %p;"
        f" .reg .b32 %k, %j, %type, %shift, %row, %pitch, %chunks, %fill, {', '.join(counts)};"
    )
