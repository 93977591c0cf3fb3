"""Products of warp groups: shapes, types, sources of A and depths of the pipeline."""

from typing import Final

from benchmarks.silicon.times.chains import ARGUMENTS, PARAMETERS, timed_loop
from benchmarks.silicon.times.points import Point, entry

_SMS: Final = 132
LEFT_BYTES: Final = 64 * 128  # bytes of A: 64 rows of 128
# type: (types of D, A and B; depth k; kind of D's registers; flags after the predicate)
_TYPES: Final = {
    "f16": ("f32.f16.f16", 16, "f", ", 1, 1, 0, 0"),
    "f16 into f16": ("f16.f16.f16", 16, "h", ", 1, 1, 0, 0"),
    "bf16": ("f32.bf16.bf16", 16, "f", ", 1, 1, 0, 0"),
    "tf32": ("f32.tf32.tf32", 8, "f", ", 1, 1"),
    "e4m3": ("f32.e4m3.e4m3", 32, "f", ", 1, 1"),
    "s8": ("s32.s8.s8", 32, "r", ""),
}
# (type, n, warp groups, A in registers, products before a commit)
_SHAPES: Final = (
    *(("f16", n, 1, False, 4) for n in (16, 32, 96, 192)),
    *(("f16", n, 1, True, 4) for n in (8, 64, 128, 256)),
    *(("f16", 64, groups, False, 4) for groups in (2, 3)),
    *(("f16", 128, groups, False, 4) for groups in (3, 4)),
    ("f16", 128, 2, True, 4),
    *(("f16", 64, 1, False, products) for products in (1, 2, 8, 16)),
    ("f16", 256, 1, False, 1),
    *((kind, n, 1, False, 4) for kind in _TYPES if kind != "f16" for n in (64, 128)),
    *((kind, 128, 2, False, 4) for kind in ("tf32", "e4m3", "s8")),
    *((kind, 256, 2, False, 2) for kind in ("e4m3", "s8")),
)


def shared_factors(n: int, groups: int) -> str:
    """Return PTX that fills shared memory with factors of 128-byte rows, swizzled in 128 bytes.

    %l20 to %l23 are descriptors of four parts of the left factor of 64 rows, and %l30 to %l33 of
    the right one of n columns, behind it. Uses %r220 to %r224 and %p5.
    """
    return f"""  mov.u32 %r220, room; mov.u32 %r221, %r0;
  shl.b32 %r222, %r0, 2; add.u32 %r222, %r222, %r220;
FILL:
  and.b32 %r223, %r221, 127; or.b32 %r223, %r223, 0x3c003c00; st.shared.u32 [%r222], %r223;
  add.u32 %r222, %r222, {512 * groups}; add.u32 %r221, %r221, {128 * groups};
  setp.lt.u32 %p5, %r221, {(LEFT_BYTES + 128 * n) // 4}; @%p5 bra FILL;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r224, %r220, 4; and.b32 %r224, %r224, 0x3fff; cvt.u64.u32 %l20, %r224;
  or.b64 %l20, %l20, 0x4000004000010000; add.u64 %l30, %l20, {LEFT_BYTES >> 4};
""" + "".join(
        f"  add.u64 %l{20 + i}, %l20, {2 * i}; add.u64 %l{30 + i}, %l30, {2 * i};\n"
        for i in (1, 2, 3)
    )


def _point(kind: str, n: int, groups: int, registers: bool, products: int) -> Point:
    types, k, letter, flags = _TYPES[kind]
    count = n // 4 if letter == "h" else n // 2
    letter = "r" if letter == "h" else letter
    first = 10 if letter == "r" else 0
    if registers and flags.count(",") == 4:  # A in registers is never transposed
        flags = flags[:-3]
    prologue = shared_factors(n, groups)
    prologue += "".join(f"  mov.b32 %{letter}{first + i}, 0;\n" for i in range(count))
    prologue += "".join(f"  add.u32 %r{230 + i}, %r203, {i};\n" for i in range(4))
    result = "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"
    body = "  wgmma.fence.sync.aligned;\n"
    for i in range(products):
        a = "{%r230, %r231, %r232, %r233}" if registers else f"%l{20 + i % 4}"
        body += f"  wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types}\n"
        body += f"    {result}, {a}, %l{30 + i % 4}, 1{flags};\n"
    body += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n"
    epilogue = "".join(
        f"  mov.b32 %r210, %{letter}{first + i}; xor.b32 %r211, %r211, %r210;\n"
        for i in range(count)
    )
    iterations = 16 if products >= 4 else 32
    place = ", A in registers" if registers else ""
    return Point(
        f"wgmma {kind} m64n{n}k{k}, {groups} groups, {products} products{place}",
        "wgmma",
        entry(
            "groups",
            PARAMETERS,
            timed_loop(prologue, body, epilogue, iterations),
            head=".extern .shared .align 1024 .b8 room[];\n",
        ),
        "groups",
        (_SMS, 1, 1),
        (128 * groups, 1, 1),
        ARGUMENTS,
        shared=LEFT_BYTES + 128 * n,
        cycles=iterations * products,
    )


def points() -> list[Point]:
    """Return all kernels of this file."""
    return [_point(*shape) for shape in _SHAPES]
