"""Pairs of kernels as PTX, of which textbooks state which one is faster, and why.

Both variants do the same work on the same bytes. Compute capability 8.0, no library.
"""

from dataclasses import dataclass

Shape = tuple[int, int, int]
_HEAD = ".version 8.5\n.target sm_80\n.address_size 64\n"


@dataclass(frozen=True)
class Variant:
    """A kernel and its launch: ``buffers`` in bytes, then 32-bit ``numbers``."""

    source: str
    buffers: tuple[int, ...]
    numbers: tuple[int, ...]
    grid: Shape
    block: Shape


def _kernel(body: str, pointers: int, numbers: int, head: str = "") -> str:
    parameters = [f".param .u64 p{i}" for i in range(pointers)]
    parameters += [f".param .u32 n{i}" for i in range(numbers)]
    loads = [f"ld.param.u64 %rd{i}, [p{i}];" for i in range(pointers)]
    loads += [f"ld.param.u32 %n{i}, [n{i}];" for i in range(numbers)]
    return (
        f"{_HEAD}.visible .entry k({', '.join(parameters)})\n{{\n{head}\n"
        ".reg .pred %p<9>;\n.reg .b32 %r<40>;\n.reg .b32 %n<4>;\n.reg .f32 %f<60>;\n"
        ".reg .b64 %rd<40>;\n.reg .f64 %d<20>;\n"
        + "\n".join(loads)
        + "\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\n"
        + "mad.lo.u32 %r3, %r1, %r2, %r0;\n"
        + body
        + "\nret;\n}\n"
    )


COUNT = 1 << 20


def copy(stride: int = 1, offset: int = 0, width: int = 1) -> Variant:
    """Copy COUNT floats; neighbouring threads are ``stride`` elements apart and copy ``width``
    each.
    """
    vector = {1: "", 2: ".v2", 4: ".v4"}[width]
    values = ", ".join(f"%f{i}" for i in range(width))
    values = f"{{{values}}}" if width > 1 else values
    body = f"""
mul.lo.u32 %r4, %r3, {stride * width};
and.b32 %r5, %r4, {COUNT - 1};
shr.u32 %r6, %r4, 20;
add.u32 %r5, %r5, %r6;
mul.wide.u32 %rd3, %r5, 4;
add.u64 %rd4, %rd0, %rd3;
add.u64 %rd5, %rd1, %rd3;
ld.global{vector}.f32 {values}, [%rd4+{4 * offset}];
st.global{vector}.f32 [%rd5+{4 * offset}], {values};
"""
    size = 4 * COUNT + 4096
    return Variant(
        _kernel(body, 2, 0), (size, size), (), (COUNT // width // 256, 1, 1), (256, 1, 1)
    )


def gather(structure: bool) -> Variant:
    """Read one of four fields, from a structure of arrays or (``structure``) an array of
    structures.
    """
    step = 16 if structure else 4
    body = f"""
mul.wide.u32 %rd3, %r3, {step};
add.u64 %rd4, %rd0, %rd3;
mul.wide.u32 %rd5, %r3, 4;
add.u64 %rd6, %rd1, %rd5;
ld.global.f32 %f0, [%rd4];
st.global.f32 [%rd6], %f0;
"""
    return Variant(
        _kernel(body, 2, 0), (16 * COUNT, 4 * COUNT), (), (COUNT // 256, 1, 1), (256, 1, 1)
    )


def transpose(tile_row: int = 0) -> Variant:
    """Transpose 1024 x 1024 floats, with tiles whose rows have ``tile_row`` words; 0: without
    tiles.
    """
    load = """
mov.u32 %r4, %tid.y;
mov.u32 %r5, %ctaid.y;
shl.b32 %r6, %r1, 5;
shl.b32 %r7, %r5, 5;
add.u32 %r8, %r6, %r0;
add.u32 %r9, %r7, %r4;
mad.lo.u32 %r10, %r9, 1024, %r8;
mul.wide.u32 %rd3, %r10, 4;
add.u64 %rd4, %rd0, %rd3;
"""
    rows = "".join(f"ld.global.f32 %f{i}, [%rd4+{i * 8 * 4096}];\n" for i in range(4))
    if not tile_row:
        store = "mad.lo.u32 %r11, %r8, 1024, %r9;\nmul.wide.u32 %rd5, %r11, 4;\n"
        store += "add.u64 %rd6, %rd1, %rd5;\n"
        store += "".join(f"st.global.f32 [%rd6+{i * 32}], %f{i};\n" for i in range(4))
        body, head = load + rows + store, ""
    else:
        head = f".shared .align 16 .b8 tile[{32 * tile_row * 4}];"
        fill = f"mov.u32 %r12, tile;\nmad.lo.u32 %r13, %r4, {tile_row * 4}, %r12;\n"
        fill += "shl.b32 %r14, %r0, 2;\nadd.u32 %r13, %r13, %r14;\n"
        fill += "".join(f"st.shared.f32 [%r13+{i * 8 * tile_row * 4}], %f{i};\n" for i in range(4))
        read = f"bar.sync 0;\nmad.lo.u32 %r15, %r0, {tile_row * 4}, %r12;\n"
        read += "shl.b32 %r16, %r4, 2;\nadd.u32 %r15, %r15, %r16;\n"
        read += "add.u32 %r17, %r7, %r0;\nadd.u32 %r18, %r6, %r4;\n"
        read += "mad.lo.u32 %r19, %r18, 1024, %r17;\nmul.wide.u32 %rd5, %r19, 4;\n"
        read += "add.u64 %rd6, %rd1, %rd5;\n"
        for i in range(4):
            read += f"ld.shared.f32 %f{8 + i}, [%r15+{i * 32}];\n"
            read += f"st.global.f32 [%rd6+{i * 8 * 4096}], %f{8 + i};\n"
        body = load + rows + fill + read
    size = 4 << 20
    return Variant(_kernel(body, 2, 0, head), (size, size), (), (32, 32, 1), (32, 8, 1))


def banks(stride: int) -> Variant:
    """Read shared memory many times; neighbouring threads are ``stride`` words apart."""
    body = f"""
mov.u32 %r4, tile;
mul.lo.u32 %r5, %r0, {stride * 4};
and.b32 %r5, %r5, 16383;
add.u32 %r4, %r4, %r5;
mov.u32 %r6, 0;
mov.f32 %f1, 0f00000000;
LOOP:
ld.shared.f32 %f0, [%r4];
add.f32 %f1, %f1, %f0;
add.u32 %r6, %r6, 1;
setp.lt.u32 %p1, %r6, 32;
@%p1 bra LOOP;
mul.wide.u32 %rd3, %r3, 4;
add.u64 %rd4, %rd0, %rd3;
st.global.f32 [%rd4], %f1;
"""
    head = ".shared .align 16 .b8 tile[16384];"
    return Variant(_kernel(body, 1, 0, head), (4 << 19,), (), (2048, 1, 1), (256, 1, 1))


def branches(apart: bool) -> Variant:
    """Make half of the threads take another branch: whole warps, or (``apart``) every other
    lane.
    """
    bit = 1 if apart else 32
    halves = "fma.rn.f32 %f0, %f0, %f0, %f1;\n" * 48
    others = "fma.rn.f32 %f0, %f0, %f1, %f0;\n" * 48
    body = f"""
mul.wide.u32 %rd3, %r3, 4;
add.u64 %rd4, %rd0, %rd3;
cvt.rn.f32.u32 %f0, %r3;
mov.f32 %f1, 0f3F000000;
mov.u32 %r6, 0;
LOOP:
and.b32 %r4, %r0, {bit};
setp.eq.u32 %p1, %r4, 0;
@%p1 bra ELSE;
{halves}
bra JOIN;
ELSE:
{others}
JOIN:
add.u32 %r6, %r6, 1;
setp.lt.u32 %p2, %r6, 3;
@%p2 bra LOOP;
st.global.f32 [%rd4], %f0;
"""
    return Variant(_kernel(body, 1, 0), (4 << 20,), (), (4096, 1, 1), (256, 1, 1))


def chains(independent: int) -> Variant:
    """Compute the same additions of floats as ``independent`` chains, in few threads."""
    steps = 240 // independent
    body = "cvt.rn.f32.u32 %f0, %r3;\nmov.f32 %f40, 0f3F000000;\n"
    body += "".join(f"mov.f32 %f{i}, %f0;\n" for i in range(1, independent))
    body += "mov.u32 %r6, 0;\nLOOP:\n"
    for _ in range(steps):
        body += "".join(f"fma.rn.f32 %f{i}, %f{i}, %f40, %f40;\n" for i in range(independent))
    body += "add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, 4;\n@%p2 bra LOOP;\n"
    body += "".join(f"add.f32 %f0, %f0, %f{i};\n" for i in range(1, independent))
    body += "mul.wide.u32 %rd3, %r3, 4;\nadd.u64 %rd4, %rd0, %rd3;\nst.global.f32 [%rd4], %f0;\n"
    return Variant(_kernel(body, 1, 0), (4 << 14,), (), (108, 1, 1), (128, 1, 1))


def histogram(privately: bool) -> Variant:
    """Count into one cell: atomically in global memory, or first in shared memory
    (``privately``).
    """
    where = "red.shared.add.u32 [tile], 1;" if privately else "red.global.add.u32 [%rd0], 1;"
    rest = (
        "bar.sync 0;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra END;\nld.shared.u32 %r5, [tile];\n"
        "red.global.add.u32 [%rd0], %r5;\nEND:"
        if privately
        else ""
    )
    body = "mov.u32 %r6, 0;\nLOOP:\n" + where
    body += "\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, 16;\n@%p2 bra LOOP;\n" + rest
    head = ".shared .align 16 .b8 tile[16];"
    return Variant(_kernel(body, 1, 0, head), (4096,), (), (2048, 1, 1), (256, 1, 1))


def product(wanted: str) -> Variant:
    """C = A B of 1024 x 64 x 1024. Neighbouring threads are in different rows of A ("rows") or in
    different columns of B ("columns"); "blocked": columns, with four results per thread.
    """
    n, depth, results = 1024, 64, 4 if wanted == "blocked" else 1
    across = wanted != "rows"
    x, y = ("%r0", "%r4") if across else ("%r4", "%r0")
    axes = "mov.u32 %r4, %tid.y;\nmov.u32 %r5, %ctaid.y;\n"
    axes += f"mad.lo.u32 %r6, %r1, {32 if across else 8}, {x};\n"
    axes += f"mad.lo.u32 %r7, %r5, {8 if across else 32}, {y};\n"
    axes += f"mul.lo.u32 %r7, %r7, {results};\n"
    axes += f"mul.wide.u32 %rd3, %r7, {4 * depth};\nadd.u64 %rd4, %rd0, %rd3;\n"
    axes += "mul.wide.u32 %rd5, %r6, 4;\nadd.u64 %rd6, %rd1, %rd5;\nmov.u32 %r8, 0;\n"
    axes += "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(results))
    loop = "LOOP:\nld.global.f32 %f10, [%rd6];\n"
    for i in range(results):
        loop += f"ld.global.f32 %f{20 + i}, [%rd4+{4 * depth * i}];\n"
    for i in range(results):
        loop += f"fma.rn.f32 %f{i}, %f10, %f{20 + i}, %f{i};\n"
    loop += f"add.u64 %rd4, %rd4, 4;\nadd.u64 %rd6, %rd6, {4 * n};\nadd.u32 %r8, %r8, 1;\n"
    loop += f"setp.lt.u32 %p1, %r8, {depth};\n@%p1 bra LOOP;\n"
    end = f"mad.lo.u32 %r9, %r7, {n}, %r6;\nmul.wide.u32 %rd7, %r9, 4;\nadd.u64 %rd8, %rd2, %rd7;\n"
    end += "".join(f"st.global.f32 [%rd8+{4 * n * i}], %f{i};\n" for i in range(results))
    grid = (n // 32, n // 8 // results, 1) if across else (n // 8, n // 32, 1)
    sizes = (4 * n * depth, 4 * n * depth, 4 * n * n)
    return Variant(_kernel(axes + loop + end, 3, 0), sizes, (), grid, (32, 8, 1))


def doubles(wide: bool) -> Variant:
    """Compute the same chain of operations in binary64 (``wide``) or binary32."""
    kind, register = ("f64", "%d") if wide else ("f32", "%f")
    body = f"cvt.rn.{kind}.u32 {register}0, %r3;\ncvt.rn.{kind}.u32 {register}1, %r0;\n"
    body += "mov.u32 %r6, 0;\nLOOP:\n"
    body += f"fma.rn.{kind} {register}0, {register}0, {register}1, {register}1;\n" * 24
    body += "add.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, 2;\n@%p2 bra LOOP;\n"
    body += "cvt.rn.f32.f64 %f5, %d0;\n" if wide else "mov.f32 %f5, %f0;\n"
    body += "mul.wide.u32 %rd3, %r3, 4;\nadd.u64 %rd4, %rd0, %rd3;\nst.global.f32 [%rd4], %f5;\n"
    return Variant(_kernel(body, 1, 0), (4 << 20,), (), (4096, 1, 1), (256, 1, 1))


PAIRS = {
    "coalesced and strided": (copy(), copy(stride=32)),
    "coalesced and every second": (copy(), copy(stride=2)),
    "strides of 2 and 8": (copy(stride=2), copy(stride=8)),
    "aligned and not": (copy(), copy(offset=1)),
    "arrays and structures": (gather(False), gather(True)),
    "transposed by a tile and without": (transpose(33), transpose()),
    "tile with padding and without": (transpose(33), transpose(32)),
    "no conflicts and two ways": (banks(1), banks(2)),
    "two ways and eight": (banks(2), banks(8)),
    "odd stride and 32": (banks(33), banks(32)),
    "whole warps and lanes apart": (branches(False), branches(True)),
    "four chains and one": (chains(4), chains(1)),
    "private and shared counters": (histogram(True), histogram(False)),
    "neighbours in columns and in rows": (product("columns"), product("rows")),
    "four results a thread and one": (product("blocked"), product("columns")),
    "binary32 and binary64": (doubles(False), doubles(True)),
}
