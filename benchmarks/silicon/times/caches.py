"""Sectors, L2 and bulk copies: strided reads, repeated reads of L2, pipelines of bulk copies."""

from typing import Final

from benchmarks.silicon.times.chains import ARGUMENTS, PARAMETERS, timed_loop
from benchmarks.silicon.times.points import INDEX, Argument, Point, entry, pointers

_MIB: Final = 1 << 20
_SMS: Final = 132


def _strided(width: int, stride: int, write: bool) -> Point:
    """Return accesses of ``width`` bytes, ``stride`` bytes apart, over 2^20 to 2^22 lanes."""
    lanes = min(4 << 20, (256 << 20) // stride)
    names = {4: ("u32", "%r10"), 16: ("v4.u32", "{%r10, %r11, %r12, %r13}")}
    kind, value = names[width]
    code = f"{pointers(0, 1)}{INDEX}  mul.wide.u32 %l2, %r4, {stride}; add.u64 %l3, %l0, %l2;\n"
    if write:
        code += "".join(f"  mov.u32 %r{10 + i}, %r4;\n" for i in range(4))
        code += f"  st.global.{kind} [%l3], {value};"
    else:
        code += f"""  ld.global.{kind} {value}, [%l3];
  setp.eq.u32 %p0, %r10, 0x12345679;
  @%p0 st.global.u32 [%l1], %r10;"""
    return Point(
        f"{'write' if write else 'read'} {width} B, stride {stride} B",
        "strides",
        entry("stride", ("u64", "u64"), code),
        "stride",
        (lanes // 256, 1, 1),
        (256, 1, 1),
        (("buffer", "zeros" if write else "bytes", lanes * stride), ("buffer", "zeros", 256)),
    )


def _repeated(size: int, rounds: int, blocks: int, spread: int) -> Point:
    """Return reads of a buffer, ``rounds`` times, where each round starts at another block."""
    step = blocks * 256 * 16
    code = f"""{pointers(0, 1)}{INDEX}  mov.u32 %r21, 0; mov.u32 %r22, 0; mul.lo.u32 %r23, %r4, 16;
ROUND:
  and.b32 %r24, %r23, {size - 1}; mov.u32 %r25, 0;
L:
  cvt.u64.u32 %l3, %r24; add.u64 %l3, %l0, %l3;
  ld.global.cg.v4.u32 {{%r10, %r11, %r12, %r13}}, [%l3];
  xor.b32 %r10, %r10, %r11; xor.b32 %r12, %r12, %r13; xor.b32 %r21, %r21, %r10;
  xor.b32 %r21, %r21, %r12; add.u32 %r24, %r24, {step}; and.b32 %r24, %r24, {size - 1};
  add.u32 %r25, %r25, {step}; setp.lt.u32 %p0, %r25, {size}; @%p0 bra L;
  add.u32 %r23, %r23, {spread}; add.u32 %r22, %r22, 1; setp.lt.u32 %p0, %r22, {rounds};
  @%p0 bra ROUND;
  setp.eq.u32 %p0, %r21, 0x12345679; @%p0 st.global.u32 [%l1], %r21;"""
    return Point(
        f"read {size >> 20} MiB {rounds} times by {blocks} blocks",
        "L2",
        entry("rounds", ("u64", "u64"), code.replace("; @", ";\n  @")),
        "rounds",
        (blocks, 1, 1),
        (256, 1, 1),
        (("buffer", "bytes", size), ("buffer", "zeros", 256)),
    )


def _bulk(tile: int, stages: int, size: int, *, rounds: int = 1, map_: bool = False) -> Point:
    """Return a pipeline of bulk copies to shared memory: each multiprocessor reads its tiles.

    The first thread waits for a tile and starts the copy that is ``stages`` tiles later. With
    ``map_`` the tiles are boxes of a tensor map, 64 half words wide.
    """
    tiles = size // _SMS // tile
    code = pointers(0) if not map_ else "  mov.b64 %l0, p0;\n  cvta.param.u64 %l0, %l0;\n"
    code += """  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, room; mov.u32 %r4, bars;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra END;
"""
    code += "".join(f"  mbarrier.init.shared.b64 [%r4+{8 * s}], 1;\n" for s in range(stages))
    code += f"""  fence.proxy.async.shared::cta;
  mul.lo.u32 %r5, %r1, {tiles}; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0; mov.u32 %r9, 0;
"""
    source = (
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes\n"
        f"    [%r20], [%l8], {tile}, [%r21];"
    )
    place = f"mul.wide.u32 %l8, %r22, {tile}; add.u64 %l8, %l0, %l8;"
    if map_:
        source = (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\n"
            "    [%r20], [%l0, {%r24, %r25}], [%r21];"
        )
        place = f"mov.u32 %r24, 0; mul.lo.u32 %r25, %r22, {tile // 128};"
    # %r6: tiles started; %r7: their slot; %r8: tiles waited for; %r9: their slot; %r10: parity.
    start = f"""  mul.lo.u32 %r20, %r7, {tile}; add.u32 %r20, %r20, %r2;
  shl.b32 %r21, %r7, 3; add.u32 %r21, %r21, %r4; add.u32 %r22, %r5, %r6;
  {place}
  mbarrier.arrive.expect_tx.shared.b64 %l9, [%r21], {tile};
  {source}
  add.u32 %r6, %r6, 1; add.u32 %r7, %r7, 1; setp.eq.u32 %p2, %r7, {stages};
  selp.u32 %r7, 0, %r7, %p2;
"""
    for _ in range(min(stages, tiles)):
        code += start
    code += f"""  mov.u32 %r10, 0;
WAIT:
  shl.b32 %r23, %r9, 3; add.u32 %r23, %r23, %r4;
TRY:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r23], %r10;
  @!%p3 bra TRY;
  add.u32 %r9, %r9, 1; setp.eq.u32 %p2, %r9, {stages}; selp.u32 %r9, 0, %r9, %p2;
  @%p2 xor.b32 %r10, %r10, 1;
  setp.ge.u32 %p4, %r6, {tiles};
  @%p4 bra NEXT;
{start}NEXT:
  add.u32 %r8, %r8, 1; setp.lt.u32 %p5, %r8, {tiles};
  @%p5 bra WAIT;
END:
"""
    head = f".extern .shared .align 1024 .b8 room[];\n.shared .align 8 .b8 bars[{8 * stages}];\n"
    name = "tensor copy" if map_ else "bulk copy"
    ptx = entry("bulk", ("u64",), code, head=head)
    argument: Argument = ("buffer", "bytes", size)
    if map_:
        ptx = ptx.replace(".param .u64 p0", ".param .align 64 .b8 p0[128]")
        argument = ("map", size, tile // 128)
    return Point(
        f"{name} of {tile} B, {stages} stages, {size >> 20} MiB",
        "bulk copies",
        ptx,
        "bulk",
        (_SMS, 1, 1),
        (32, 1, 1),
        (argument,),
        shared=tile * stages,
    )


def _wide_loads() -> list[Point]:
    kernels = []
    address = """  mov.u32 %r20, 0; mov.u32 %r30, room; and.b32 %r31, %r0, 255;
  shl.b32 %r31, %r31, 4; add.u32 %r30, %r30, %r31;
"""
    for name, code in (
        ("ld.shared.v4", "ld.volatile.shared.v4.u32 {%r21, %r22, %r23, %r24}, [%r30];"),
        ("st.shared.v4", "st.volatile.shared.v4.u32 [%r30], {%r0, %r0, %r0, %r0};"),
        (
            "ldmatrix.x4",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r21, %r22, %r23, %r24}, [%r30];",
        ),
        (
            "ldmatrix.x1",
            "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r21}, [%r30];",
        ),
        (
            "stmatrix.x4",
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r30], {%r0, %r0, %r0, %r0};",
        ),
        ("ld.shared.u8", "ld.volatile.shared.u8 %r21, [%r30];"),
    ):
        body = ("  " + code + "  xor.b32 %r20, %r20, %r21;\n") * 16
        kernels.append(
            Point(
                name,
                "shared memory",
                entry(
                    "wide",
                    PARAMETERS,
                    timed_loop(
                        address + "  mov.u32 %r21, 0;\n",
                        body.replace(";  ", ";\n  "),
                        "  xor.b32 %r211, %r211, %r20;\n",
                        16,
                    ),
                    head=".shared .align 1024 .b8 room[8192];\n",
                ),
                "wide",
                (_SMS, 1, 1),
                (256, 1, 1),
                ARGUMENTS,
                cycles=256,
            )
        )
    return kernels


def points() -> list[Point]:
    """Return all kernels of this file."""
    kernels = [_strided(4, stride, False) for stride in (4, 8, 16, 32, 64, 96, 128, 256, 1024)]
    kernels += [_strided(16, stride, False) for stride in (16, 32, 64, 128)]
    kernels += [_strided(4, stride, True) for stride in (4, 8, 32, 64, 128)]
    for size in (1, 4, 16, 32):
        kernels.append(_repeated(size * _MIB, 64 // size, 528, 4096 * 33))
    kernels.append(_repeated(4 * _MIB, 16, 128, 4096 * 33))
    big = _SMS * 8 * 65536  # 66 MiB
    small = _SMS * 65536  # 8.25 MiB
    for tile in (1024, 4096, 16384, 65536):
        for stages in (1, 2, 4, 8):
            if tile * stages <= 128 << 10:
                kernels.append(_bulk(tile, stages, big))
    kernels += [_bulk(8192, stages, small) for stages in (1, 2, 4, 8)]
    for tile in (4096, 16384):
        kernels += [_bulk(tile, stages, big, map_=True) for stages in (1, 2, 4)]
    return [*kernels, *_wide_loads()]
