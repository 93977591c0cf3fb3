"""Tensor cores and asynchronous copies: mma.sync, wgmma, cp.async and bulk copies."""

from typing import Final

from benchmarks.silicon.times.chains import ARGUMENTS, PARAMETERS, timed_loop
from benchmarks.silicon.times.points import Point, entry, pointers
from benchmarks.silicon.times.warp_groups import LEFT_BYTES, shared_factors

_SMS: Final = 132
# name: (instruction, registers of A, B and C, kind of C)
_MMA: Final = {
    "f16 m16n8k16": ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, 2, 4, "f"),
    "f16 m16n8k8": ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 2, 1, 4, "f"),
    "bf16 m16n8k16": ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4, "f"),
    "tf32 m16n8k8": ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4, "f"),
    "s8 m16n8k32": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4, "r"),
    "f64 m8n8k4": ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 1, 1, 2, "d"),
}


def _list(kind: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{kind}{first + i}" for i in range(count)) + "}"


def _mma(name: str, chains: int, iterations: int, repeats: int) -> str:
    code, a, b, c, kind = _MMA[name]
    source = "d" if kind == "d" else "r"
    start = 40 if kind == "d" else 220
    prologue = "".join(
        f"  cvt.rn.f64.s32 %d{start + i}, %r0;\n"
        if kind == "d"
        else f"  mov.u32 %r{start + i}, %r203;\n"
        for i in range(a + b)
    )
    begin = {
        "f": "cvt.rn.f32.u32 %f{}, %r212;",
        "r": "mov.u32 %r{}, %r212;",
        "d": "cvt.rn.f64.u32 %d{}, %r212;",
    }
    first = 60 if kind == "r" else 0
    # Equal chains would be one chain to ptxas.
    prologue += "".join(
        f"  add.u32 %r212, %r202, {i}; " + begin[kind].format(first + i) + "\n"
        for i in range(c * chains)
    )
    body = "".join(
        f"  {code} {_list(kind, first + c * i, c)}, {_list(source, start, a)},"
        f" {_list(source, start + a, b)}, {_list(kind, first + c * i, c)};\n"
        for i in range(chains)
    )
    collect = {
        "f": "  mov.b32 %r210, %f{}; xor.b32 %r211, %r211, %r210;\n",
        "r": "  xor.b32 %r211, %r211, %r{};\n",
        "d": "  mov.b64 %l110, %d{}; cvt.u32.u64 %r210, %l110; xor.b32 %r211, %r211, %r210;\n",
    }
    epilogue = "".join(collect[kind].format(first + i) for i in range(c * chains))
    return entry("mma", PARAMETERS, timed_loop(prologue, body * repeats, epilogue, iterations))


def _products() -> list[Point]:
    kernels = []
    for name in _MMA:
        ptx = _mma(name, 1, 32, 16)
        kernels.append(
            Point(
                f"latency mma {name}",
                "tensor cores",
                ptx,
                "mma",
                (1, 1, 1),
                (32, 1, 1),
                ARGUMENTS,
                cycles=512,
            )
        )
        for warps in (4, 16) if name == "f16 m16n8k16" else (8,):
            ptx = _mma(name, 8, 16, 4)
            kernels.append(
                Point(
                    f"throughput mma {name}, {warps} warps",
                    "tensor cores",
                    ptx,
                    "mma",
                    (_SMS, 1, 1),
                    (32 * warps, 1, 1),
                    ARGUMENTS,
                    cycles=512,
                )
            )
    return kernels


def _warp_groups(n: int, groups: int) -> Point:
    """Return repeated products of 64 x n x 64 from shared memory with 128-byte swizzling."""
    registers = n // 2
    prologue = shared_factors(n, groups)
    prologue += "".join(f"  mov.f32 %f{i}, 0f00000000;\n" for i in range(registers))
    body = "  wgmma.fence.sync.aligned;\n"
    for i in range(4):
        body += (
            f"  wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16"
            f" {_list('f', 0, registers)}, %l{20 + i}, %l{30 + i}, 1, 1, 1, 0, 0;\n"
        )
    body += "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n"
    epilogue = "".join(
        f"  mov.b32 %r210, %f{i}; xor.b32 %r211, %r211, %r210;\n" for i in range(registers)
    )
    return Point(
        f"wgmma m64n{n}k16, {groups} groups",
        "wgmma",
        entry(
            "groups",
            PARAMETERS,
            timed_loop(prologue, body * 2, epilogue, 16),
            head=".extern .shared .align 1024 .b8 room[];\n",
        ),
        "groups",
        (_SMS, 1, 1),
        (128 * groups, 1, 1),
        ARGUMENTS,
        shared=LEFT_BYTES + 128 * n,
        cycles=128,
    )


def _async_copy(stages: int, size: int) -> Point:
    """Return a copy through cp.async: each block moves 16 tiles of 4 KiB."""
    tiles = 16
    code = f"""{pointers(0, 1)}  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %l2, %r1, {4096 * tiles}; mul.wide.u32 %l3, %r0, 16; add.u64 %l2, %l2, %l3;
  add.u64 %l0, %l0, %l2; add.u64 %l1, %l1, %l2;
  mov.u32 %r2, room; shl.b32 %r3, %r0, 4; add.u32 %r2, %r2, %r3;
"""

    def fetch(tile: int) -> str:
        if tile >= tiles:
            return "  cp.async.commit_group;\n"
        place = 4096 * (tile % stages)
        return (
            f"  cp.async.cg.shared.global [%r2+{place}], [%l0+{4096 * tile}], 16;\n"
            "  cp.async.commit_group;\n"
        )

    for tile in range(stages):
        code += fetch(tile)
    for tile in range(tiles):
        code += f"  cp.async.wait_group {stages - 1};\n"
        code += f"  ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r2+{4096 * (tile % stages)}];\n"
        code += f"  st.global.v4.u32 [%l1+{4096 * tile}], {{%r10, %r11, %r12, %r13}};\n"
        code += fetch(tile + stages)
    return Point(
        f"cp.async copy {size >> 20} MiB, {stages} stages",
        "asynchronous copies",
        entry(
            "copy", ("u64", "u64"), code, head=f".shared .align 128 .b8 room[{4096 * stages}];\n"
        ),
        "copy",
        (size // 4096 // tiles, 1, 1),
        (256, 1, 1),
        (("buffer", "bytes", size), ("buffer", "zeros", size)),
    )


def _bulk_copy(stages: int, size: int) -> Point:
    """Return a copy by bulk copies to shared memory: each block moves 8 tiles of 8 KiB."""
    tiles, tile_bytes = 8, 8192
    code = f"""{pointers(0, 1)}  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %l2, %r1, {tile_bytes * tiles}; mul.wide.u32 %l3, %r0, 16;
  add.u64 %l0, %l0, %l2; add.u64 %l1, %l1, %l2; add.u64 %l1, %l1, %l3;
  mov.u32 %r2, room; shl.b32 %r3, %r0, 4; add.u32 %r3, %r2, %r3; mov.u32 %r4, bars;
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra READY;
"""
    code += "".join(f"  mbarrier.init.shared.b64 [%r4+{8 * s}], 1;\n" for s in range(stages))
    code += "  fence.proxy.async.shared::cta;\nREADY:\n  bar.sync 0;\n"

    def fetch(tile: int) -> str:
        if tile >= tiles:
            return ""
        place, bar = tile_bytes * (tile % stages), 8 * (tile % stages)
        return f"""  @%p1 bra F{tile};
  mbarrier.arrive.expect_tx.shared.b64 %l9, [%r4+{bar}], {tile_bytes};
  add.u32 %r20, %r2, {place}; add.u64 %l8, %l0, {tile_bytes * tile}; add.u32 %r21, %r4, {bar};
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r20], [%l8], {tile_bytes}, [%r21];
F{tile}:
"""

    for tile in range(stages):
        code += fetch(tile)
    for tile in range(tiles):
        place, bar, phase = tile_bytes * (tile % stages), 8 * (tile % stages), tile // stages & 1
        code += f"""W{tile}:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r4+{bar}], {phase};
  @!%p3 bra W{tile};
  ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r3+{place}];
  ld.shared.v4.u32 {{%r14, %r15, %r16, %r17}}, [%r3+{place + 4096}];
  st.global.v4.u32 [%l1+{tile_bytes * tile}], {{%r10, %r11, %r12, %r13}};
  st.global.v4.u32 [%l1+{tile_bytes * tile + 4096}], {{%r14, %r15, %r16, %r17}};
  bar.sync 0;
"""
        code += fetch(tile + stages)
    head = f".shared .align 128 .b8 room[{tile_bytes * stages}];\n.shared .align 8 .b8 bars[64];\n"
    return Point(
        f"bulk copy {size >> 20} MiB, {stages} stages",
        "asynchronous copies",
        entry("copy", ("u64", "u64"), code, head=head),
        "copy",
        (size // tile_bytes // tiles, 1, 1),
        (256, 1, 1),
        (("buffer", "bytes", size), ("buffer", "zeros", size)),
    )


def points() -> list[Point]:
    """Return all kernels of this file."""
    kernels = _products()
    for n, groups in ((8, 1), (64, 1), (128, 1), (256, 1), (128, 2), (256, 2), (64, 4)):
        kernels.append(_warp_groups(n, groups))
    for stages in (1, 2, 4):
        kernels.append(_async_copy(stages, 64 << 20))
    kernels.append(_async_copy(4, 8 << 20))
    for stages in (1, 2, 4):
        kernels.append(_bulk_copy(stages, 64 << 20))
    return kernels
