"""Kernels of shared memory, atomics, barriers, launches, waves, occupancy, spills and clusters."""

from dataclasses import replace
from typing import Final

from benchmarks.silicon.times.chains import ARGUMENTS, PARAMETERS, timed_loop
from benchmarks.silicon.times.points import Point, Shape, entry

_ROOM: Final = ".shared .align 1024 .b8 room[32768];\n"
_SMS: Final = 132


def _loop(
    name: str,
    kind: str,
    prologue: str,
    each: str,
    *,
    repeats: int = 16,
    iterations: int = 32,
    grid: Shape = (_SMS, 1, 1),
    block: int = 1024,
    epilogue: str = "  xor.b32 %r211, %r211, %r20;\n",
    head: str = _ROOM,
    limits: str = "",
    extra: int = 0,
) -> Point:
    body = "".join("  " + each.replace("{i}", str(i)) + "\n" for i in range(repeats))
    arguments = ARGUMENTS
    if extra:
        arguments = (("buffer", "zeros", extra), *ARGUMENTS[1:])
    return Point(
        name,
        kind,
        entry(
            "loop",
            PARAMETERS,
            timed_loop(prologue, body, epilogue, iterations),
            head=head,
            limits=limits,
        ),
        "loop",
        grid,
        (block, 1, 1),
        arguments,
        cycles=repeats * iterations,
    )


_ADDRESS: Final = """\
  mov.u32 %r20, 0; mov.u32 %r30, room; mul.lo.u32 %r31, %r0, {step}; and.b32 %r31, %r31, 32764;
  add.u32 %r30, %r30, %r31;
"""


def _shared() -> list[Point]:
    kernels = []
    for ways in (1, 2, 4, 8, 16, 32):
        kernels.append(
            _loop(
                f"ld.shared, {ways} ways",
                "shared memory",
                _ADDRESS.format(step=4 * ways),
                "ld.shared.u32 %r21, [%r30]; xor.b32 %r20, %r20, %r21;".replace(
                    "ld.shared", "ld.volatile.shared"
                ),
                iterations=16,
            )
        )
    for ways in (1, 8, 32):
        kernels.append(
            _loop(
                f"st.shared, {ways} ways",
                "shared memory",
                _ADDRESS.format(step=4 * ways),
                "st.volatile.shared.u32 [%r30], %r0;",
                iterations=16,
            )
        )
    for width, kind in ((8, "v2"), (16, "v4")):
        names = ", ".join(f"%r{21 + i}" for i in range(width // 4))
        kernels.append(
            _loop(
                f"ld.shared.{kind}",
                "shared memory",
                _ADDRESS.format(step=width).replace("32764", str(32768 - width)),
                f"ld.volatile.shared.{kind}.u32 {{{names}}}, [%r30]; xor.b32 %r20, %r20, %r21;",
                repeats=32 // width * 4,
                limits=".maxntid 1024, 1, 1",
                iterations=16,
            )
        )
    chase = """  mov.u32 %r30, room; mov.u32 %r31, 0;
S:
  add.u32 %r32, %r31, 132; and.b32 %r32, %r32, 32764; add.u32 %r33, %r30, %r31;
  add.u32 %r34, %r30, %r32; st.shared.u32 [%r33], %r34; add.u32 %r31, %r31, 4;
  setp.lt.u32 %p5, %r31, 32768; @%p5 bra S;
  mov.u32 %r20, %r30;
"""
    kernels.append(
        _loop(
            "chase in shared memory",
            "chase",
            chase,
            "ld.shared.u32 %r20, [%r20];",
            iterations=256,
            grid=(1, 1, 1),
            block=1,
        )
    )
    for name, address in (("own word", "%r30"), ("one word", "%r29")):
        prologue = _ADDRESS.format(step=4) + "  mov.u32 %r29, room;\n"
        kernels.append(
            _loop(
                f"atom.shared.add, {name}",
                "atomics",
                prologue,
                f"atom.shared.add.u32 %r21, [{address}], 1; xor.b32 %r20, %r20, %r21;",
                iterations=4,
                block=256,
            )
        )
    return kernels


def _atomics() -> list[Point]:
    index = "  mov.u32 %r20, 0; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
    index += "  mad.lo.u32 %r4, %r1, %r2, %r0;\n"
    kernels = []
    for name, shift in (
        ("one address", "mov.u32 %r5, 64"),
        ("an address a warp", "shr.u32 %r5, %r4, 5; mad.lo.u32 %r5, %r5, 4, 128"),
        ("an address a lane", "mad.lo.u32 %r5, %r4, 4, 128"),
        ("64 addresses", "and.b32 %r5, %r4, 63; mad.lo.u32 %r5, %r5, 4, 128"),
    ):
        for operation in ("atom", "red"):
            code = (
                "red.global.add.u32 [%l5], 1;"
                if operation == "red"
                else "atom.global.add.u32 %r21, [%l5], %r202; xor.b32 %r20, %r20, %r21;"
            )
            prologue = index + f"  {shift};\n  cvt.u64.u32 %l5, %r5; add.u64 %l5, %l0, %l5;\n"
            kernels.append(
                _loop(
                    f"{operation}.global.add, {name}",
                    "atomics",
                    prologue,
                    code,
                    repeats=8,
                    iterations=2,
                    block=256,
                    head="",
                    extra=1 << 20,
                )
            )
    return kernels


def _barriers() -> list[Point]:
    none = "  mov.u32 %r20, 0;\n"
    kernels = [
        _loop(f"bar.sync, {block} threads", "barrier", none, "bar.sync 0;", block=block, head="")
        for block in (32, 256, 1024)
    ]
    kernels.append(
        _loop(
            "bar.sync, 8 blocks of 256",
            "barrier",
            none,
            "bar.sync 0;",
            block=256,
            head="",
            grid=(8 * _SMS, 1, 1),
        )
    )
    kernels.append(_loop("bar.warp.sync", "barrier", none, "bar.warp.sync 0xffffffff;", head=""))
    kernels.append(_loop("membar.cta", "barrier", none, "membar.cta;", head="", iterations=8))
    cluster = ".reqnctapercluster 4 .explicitcluster"
    kernels.append(
        _loop(
            "barrier.cluster",
            "cluster",
            none,
            "barrier.cluster.arrive; barrier.cluster.wait;",
            block=256,
            head="",
            limits=cluster,
            iterations=8,
        )
    )
    remote = _ADDRESS.format(step=4) + (
        "  mov.u32 %r40, %cluster_ctarank; xor.b32 %r40, %r40, 1;\n"
        "  mapa.shared::cluster.u32 %r41, %r30, %r40;\n"
        "  barrier.cluster.arrive; barrier.cluster.wait;\n"
    )
    kernels.append(
        _loop(
            "ld.shared::cluster of a neighbour",
            "cluster",
            remote,
            "ld.volatile.shared::cluster.u32 %r21, [%r41]; xor.b32 %r20, %r20, %r21;",
            block=256,
            limits=cluster,
            epilogue="  barrier.cluster.arrive; barrier.cluster.wait;\n"
            "  xor.b32 %r211, %r211, %r20;\n",
            iterations=4,
        )
    )
    return kernels


def _launches() -> list[Point]:
    kernels = []
    empty = entry("empty", ("u64",), "")
    for blocks in (1, 132, 1056, 10000, 100000, 1000000):
        for block in (32, 256, 1024):
            if blocks * block > 300e6:
                continue
            kernels.append(
                Point(
                    f"empty, {blocks} blocks of {block}",
                    "launch",
                    empty,
                    "empty",
                    (blocks, 1, 1),
                    (block, 1, 1),
                    (("buffer", "zeros", 64),),
                )
            )
    fma = "  mov.u32 %r20, 0; mov.f32 %f20, %f200;\n"
    for blocks in (1, 66, 131, 132, 133, 264, 265, 528, 1056):
        kernels.append(
            replace(
                _loop(
                    f"fma chain, {blocks} blocks of 1024",
                    "waves",
                    fma,
                    "fma.rn.f32 %f20, %f20, %f200, %f201;",
                    grid=(blocks, 1, 1),
                    epilogue="  mov.b32 %r211, %f20;\n",
                    head="",
                    iterations=128,
                )
            )
        )
    return kernels


def _occupancy() -> list[Point]:
    kernels = []
    for warps in (1, 2, 4, 8, 16, 32):
        kernels.append(
            _loop(
                f"fma chain, {warps} warps on each multiprocessor",
                "waves",
                "  mov.u32 %r20, 0; mov.f32 %f20, %f200;\n",
                "fma.rn.f32 %f20, %f20, %f200, %f201;",
                block=32 * warps,
                epilogue="  mov.b32 %r211, %f20;\n",
                head="",
                iterations=256,
            )
        )
    # An array in local memory, indexed by data.
    for words in (16, 64):
        code = "mul.lo.u32 %r22, %r22, 1664525; add.u32 %r22, %r22, 1013904223; "
        code += f"shr.u32 %r23, %r22, 8; and.b32 %r23, %r23, {4 * words - 4}; "
        code += "add.u32 %r24, %r25, %r23; ld.local.u32 %r26, [%r24]; "
        code += "add.u32 %r26, %r26, %r22; st.local.u32 [%r24], %r26; xor.b32 %r20, %r20, %r26;"
        fill = "  mov.u32 %r20, 0; mov.u32 %r22, %r202; mov.u32 %r25, own;\n"
        fill += "".join(f"  st.local.u32 [own+{4 * i}], %r202;\n" for i in range(words))
        point = _loop(
            f"array of {words} words in local memory",
            "local memory",
            fill,
            code,
            repeats=4,
            iterations=32,
            block=256,
            head="",
        )
        local = f"  .local .align 16 .b8 own[{4 * words}];\n  .reg .pred"
        kernels.append(replace(point, ptx=point.ptx.replace("  .reg .pred", local, 1)))
    return kernels


def points() -> list[Point]:
    """Return all kernels of this file."""
    return [*_shared(), *_atomics(), *_barriers(), *_launches(), *_occupancy()]
