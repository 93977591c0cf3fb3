"""Kernels that are limited by memory: copies, strides, gathers, transposes, chases of pointers."""

from typing import Final

from benchmarks.silicon.times.points import INDEX, Argument, Point, Shape, entry, pointers

_MIB: Final = 1 << 20
_VECTOR: Final = {
    1: ("u8", "%h0", "%h0"),
    2: ("u16", "%h0", "%h0"),
    4: ("u32", "%r10", "%r10"),
    8: ("v2.u32", "{%r10, %r11}", "{%r10, %r11}"),
    16: ("v4.u32", "{%r10, %r11, %r12, %r13}", "{%r10, %r11, %r12, %r13}"),
}


def _point(
    name: str,
    kind: str,
    code: str,
    arguments: tuple[Argument, ...],
    threads: int,
    *,
    block: int = 256,
    shared: int = 0,
    head: str = "",
    grid: Shape | None = None,
) -> Point:
    types = ["u64" if argument[0] == "buffer" else "u32" for argument in arguments]
    return Point(
        name,
        kind,
        entry("stream", types, code, head=head),
        "stream",
        grid or (threads // block, 1, 1),
        (block, 1, 1),
        arguments,
        shared,
    )


def _copy(width: int, size: int, *, stride: int = 1, offset: int = 0, cache: str = "") -> str:
    kind, value, _ = _VECTOR[width]
    return f"""{pointers(0, 1)}{INDEX}  mul.wide.u32 %l2, %r4, {width * stride};
  add.u64 %l3, %l0, %l2; mul.wide.u32 %l2, %r4, {width}; add.u64 %l4, %l1, %l2;
  ld.global{cache}.{kind} {value}, [%l3+{offset}];
  st.global.{kind} [%l4], {value};"""


def _copies() -> list[Point]:
    kernels = []
    for width in _VECTOR:
        for size in (4 * _MIB, 64 * _MIB):
            if width < 4 and size > 4 * _MIB:
                size = 16 * _MIB
            buffers = (("buffer", "bytes", size), ("buffer", "zeros", size))
            kernels.append(
                _point(
                    f"copy {width} B a lane, {size >> 20} MiB",
                    "stream",
                    _copy(width, size),
                    buffers,
                    size // width,
                )
            )
    for stride in (2, 4, 8, 32):
        lanes = 2 << 20
        buffers = (("buffer", "bytes", 4 * lanes * stride), ("buffer", "zeros", 4 * lanes))
        kernels.append(
            _point(
                f"copy stride {stride} words",
                "strided or misaligned",
                _copy(4, 0, stride=stride),
                buffers,
                lanes,
            )
        )
    for offset in (4, 16, 64):
        size = 64 * _MIB
        buffers = (("buffer", "bytes", size + 256), ("buffer", "zeros", size))
        kernels.append(
            _point(
                f"copy misaligned by {offset}",
                "strided or misaligned",
                _copy(4, 0, offset=offset),
                buffers,
                size // 4,
            )
        )
    for block in (32, 64, 1024):
        size = 32 * _MIB
        buffers = (("buffer", "bytes", size), ("buffer", "zeros", size))
        kernels.append(
            _point(
                f"copy 4 B, blocks of {block}",
                "stream",
                _copy(4, 0),
                buffers,
                size // 4,
                block=block,
            )
        )
    return kernels


def _writes_and_reads() -> list[Point]:
    size = 64 * _MIB
    write = f"""{pointers(0)}{INDEX}  mul.wide.u32 %l2, %r4, 16; add.u64 %l3, %l0, %l2;
  st.global.v4.u32 [%l3], {{%r4, %r4, %r4, %r4}};"""
    loop = f"""{pointers(0, 1)}{INDEX}  mul.wide.u32 %l2, %r4, 16; add.u64 %l3, %l0, %l2;
  mul.wide.u32 %l5, %r5, 16; ld.param.u32 %r20, [p2]; mov.u32 %r21, 0;
L:
  ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%l3];
  xor.b32 %r10, %r10, %r11; xor.b32 %r12, %r12, %r13; xor.b32 %r21, %r21, %r10;
  xor.b32 %r21, %r21, %r12; add.u64 %l3, %l3, %l5;
  sub.u32 %r20, %r20, 1; setp.ne.u32 %p0, %r20, 0; @%p0 bra L;
  mul.wide.u32 %l2, %r4, 4; add.u64 %l4, %l1, %l2; st.global.u32 [%l4], %r21;"""
    kernels = [
        _point("write 64 MiB", "stream", write, (("buffer", "zeros", size),), size // 16),
        _point("write 8 MiB", "stream", write, (("buffer", "zeros", size >> 3),), size // 128),
    ]
    for total in (8 * _MIB, 128 * _MIB):
        for blocks in (132, 1056):
            threads = blocks * 256
            rounds = total // 16 // threads
            buffers: tuple[Argument, ...] = (
                ("buffer", "bytes", total),
                ("buffer", "zeros", threads * 4),
                ("u32", rounds),
            )
            kernels.append(
                _point(
                    f"read {total >> 20} MiB by {blocks} blocks", "stream", loop, buffers, threads
                )
            )
    return kernels


def _gathers() -> list[Point]:
    code = f"""{pointers(0, 1, 2)}{INDEX}  mul.wide.u32 %l3, %r4, 4; add.u64 %l4, %l0, %l3;
  ld.global.u32 %r10, [%l4]; mul.wide.u32 %l5, %r10, 4; add.u64 %l5, %l1, %l5;
  ld.global.u32 %r11, [%l5]; add.u64 %l6, %l2, %l3; st.global.u32 [%l6], %r11;"""
    kernels = []
    lanes = 1 << 22
    for table in (64 << 10, 4 * _MIB, 256 * _MIB):
        buffers = (
            ("buffer", f"indices:{table // 4}", 4 * lanes),
            ("buffer", "bytes", table),
            ("buffer", "zeros", 4 * lanes),
        )
        kernels.append(_point(f"gather from {table >> 10} KiB", "gather", code, buffers, lanes))
    for shared in (28 << 10, 56 << 10, 112 << 10, 200 << 10):
        buffers = (
            ("buffer", f"indices:{16 * _MIB}", 4 * lanes),
            ("buffer", "bytes", 64 * _MIB),
            ("buffer", "zeros", 4 * lanes),
        )
        kernels.append(
            _point(
                f"gather from 64 MiB with {shared >> 10} KiB of shared memory",
                "occupancy",
                code,
                buffers,
                lanes,
                shared=shared,
                head=".extern .shared .align 16 .b8 room[];\n",
            )
        )
    return kernels


_TILE_READ: Final = """\
  mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 31; shr.u32 %r2, %r0, 5;
  mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; ld.param.u32 %r5, [p2];
  shl.b32 %r6, %r3, 5; shl.b32 %r7, %r4, 5; add.u32 %r8, %r6, %r1; add.u32 %r9, %r7, %r2;
  mad.lo.u32 %r10, %r9, %r5, %r8; mul.wide.u32 %l2, %r10, 4; add.u64 %l2, %l0, %l2;
  shl.b32 %r11, %r5, 5; cvt.u64.u32 %l5, %r11;
"""  # 256 threads: 8 rows of 32; a step of 8 rows is 32 n bytes


def _transposes() -> list[Point]:
    n = 4096
    buffers: tuple[Argument, ...] = (
        ("buffer", "bytes", 4 * n * n),
        ("buffer", "zeros", 4 * n * n),
        ("u32", n),
    )
    grid = (n // 32, n // 32, 1)
    naive = f"""{pointers(0, 1)}{_TILE_READ}  mad.lo.u32 %r12, %r8, %r5, %r9;
  mul.wide.u32 %l3, %r12, 4; add.u64 %l3, %l1, %l3;
"""
    for i in range(4):
        naive += "  ld.global.u32 %r20, [%l2]; add.u64 %l2, %l2, %l5;\n"
        naive += f"  st.global.u32 [%l3+{32 * i}], %r20;\n"
    kernels = [_point(f"transpose {n}, naive", "transpose", naive, buffers, 0, grid=grid)]
    for pad in (0, 1):
        pitch = 4 * (32 + pad)
        tiled = f"""{pointers(0, 1)}{_TILE_READ}  mov.u32 %r30, tile; shl.b32 %r31, %r1, 2;
  mad.lo.u32 %r32, %r2, {pitch}, %r31; add.u32 %r32, %r32, %r30;
  mad.lo.u32 %r33, %r1, {pitch}, %r30; shl.b32 %r34, %r2, 2; add.u32 %r33, %r33, %r34;
  add.u32 %r12, %r7, %r1; add.u32 %r13, %r6, %r2; mad.lo.u32 %r14, %r13, %r5, %r12;
  mul.wide.u32 %l3, %r14, 4; add.u64 %l3, %l1, %l3;
"""
        for i in range(4):
            tiled += f"  ld.global.u32 %r{20 + i}, [%l2]; add.u64 %l2, %l2, %l5;\n"
        for i in range(4):
            tiled += f"  st.shared.u32 [%r32+{8 * pitch * i}], %r{20 + i};\n"
        tiled += "  bar.sync 0;\n"
        for i in range(4):
            tiled += f"  ld.shared.u32 %r{20 + i}, [%r33+{32 * i}];\n"
            tiled += f"  st.global.u32 [%l3], %r{20 + i}; add.u64 %l3, %l3, %l5;\n"
        kernels.append(
            _point(
                f"transpose {n}, tiles{' with padding' if pad else ''}",
                "transpose",
                tiled,
                buffers,
                0,
                grid=grid,
                head=f".shared .align 16 .b8 tile[{32 * pitch}];\n",
            )
        )
    return kernels


def _chases() -> list[Point]:
    kernels = []
    for size, stride, name in (
        (16 << 10, 128, "L1"),
        (512 << 10, 128, "L2, 512 KiB"),
        (8 * _MIB, 128, "L2, 8 MiB"),
        (256 * _MIB, 1024, "DRAM, 256 MiB"),
    ):
        steps = 2048 if name == "L1" else 1024
        code = f"""{pointers(0, 1)}  ld.global.u64 %l3, [%l0+8]; mov.u32 %r20, {steps // 16};
  mov.u64 %l90, %clock64;
L:
{"  add.u64 %l4, %l1, %l3; ld.global.u64 %l3, [%l4];" * 16}
  sub.u32 %r20, %r20, 1; setp.ne.u32 %p0, %r20, 0; @%p0 bra L;
  st.global.u64 [%l0+8], %l3; mov.u64 %l91, %clock64; sub.u64 %l91, %l91, %l90;
  st.global.u64 [%l0], %l91;"""
        point = _point(
            f"chase in {name}",
            "chase",
            code.replace(";  ", ";\n  "),
            (("buffer", "zeros", 4096), ("buffer", f"ring:{stride}", size)),
            1,
            block=1,
        )
        kernels.append(
            Point(
                point.name,
                point.kind,
                point.ptx,
                point.entry,
                point.grid,
                point.block,
                point.arguments,
                cycles=steps,
            )
        )
    return kernels


def points() -> list[Point]:
    """Return all kernels of this file."""
    return [*_copies(), *_writes_and_reads(), *_gathers(), *_transposes(), *_chases()]
