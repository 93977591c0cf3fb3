"""Atomics by type, scope and contention; barriers and shared memory of clusters."""

from typing import Final

from benchmarks.silicon.times.chains import ARGUMENTS, PARAMETERS, timed_loop
from benchmarks.silicon.times.points import Point, entry

_SMS: Final = 132
_ROOM: Final = ".shared .align 1024 .b8 room[32768];\n"
# Operations: name, code with {p} for the prefix and the space, and {a} for the address.
_SHARED: Final = {
    "add.u32": "atom.shared.add.u32 %r21, [{a}], %r202; xor.b32 %r20, %r20, %r21;",
    "exch.b32": "atom.shared.exch.b32 %r21, [{a}], %r202; xor.b32 %r20, %r20, %r21;",
    "cas.b32": "atom.shared.cas.b32 %r21, [{a}], %r202, %r201; xor.b32 %r20, %r20, %r21;",
    "max.u32": "atom.shared.max.u32 %r21, [{a}], %r202; xor.b32 %r20, %r20, %r21;",
    "add.f32": "atom.shared.add.f32 %f21, [{a}], %f200; mov.b32 %r21, %f21; "
    "xor.b32 %r20, %r20, %r21;",
    "add.u64": "atom.shared.add.u64 %l21, [{a}], %l100; cvt.u32.u64 %r21, %l21; "
    "xor.b32 %r20, %r20, %r21;",
}
_GLOBAL: Final = {
    "red add.u32": "red.global.add.u32 [%l5], %r202;",
    "red cta add.u32": "red.relaxed.cta.global.add.u32 [%l5], %r202;",
    "red sys add.u32": "red.relaxed.sys.global.add.u32 [%l5], %r202;",
    "red add.u64": "red.global.add.u64 [%l5], %l100;",
    "red add.f32": "red.global.add.f32 [%l5], %f200;",
    "red add.f64": "red.global.add.f64 [%l5], %d50;",
    "red add.f16x2": "red.global.add.noftz.f16x2 [%l5], %r203;",
    "atom add.u32": "atom.global.add.u32 %r21, [%l5], %r202; xor.b32 %r20, %r20, %r21;",
    "atom exch.b32": "atom.global.exch.b32 %r21, [%l5], %r202; xor.b32 %r20, %r20, %r21;",
    "atom cas.b32": "atom.global.cas.b32 %r21, [%l5], %r202, %r201; xor.b32 %r20, %r20, %r21;",
}
# Where the lanes of the grid (%r4), of the warp (%r7) and the warps of the grid (%r6) point to.
_PLACES: Final = {
    "own words": "shl.b32 %r5, %r4, 3",
    "a line a warp": "shl.b32 %r5, %r6, 7",
    "two lanes a word": "shr.u32 %r5, %r4, 1; shl.b32 %r5, %r5, 3",
    "eight lanes a word": "shr.u32 %r5, %r4, 3; shl.b32 %r5, %r5, 3",
    "own sectors": "shl.b32 %r5, %r4, 5",
    "32 words for all": "shl.b32 %r5, %r7, 3",
    "1024 words for all": "and.b32 %r5, %r4, 1023; shl.b32 %r5, %r5, 3",
    "one word": "and.b32 %r5, %r202, 0",
}
_SOME: Final = ("red add.u32", "atom add.u32")


def _loop(
    name: str,
    kind: str,
    prologue: str,
    each: str,
    *,
    repeats: int,
    iterations: int,
    block: int = 256,
    head: str = "",
    limits: str = "",
    epilogue: str = "",
    room: int = 4096,
    cluster: int = 1,
) -> Point:
    body = ("  " + each.replace("; ", ";\n  ") + "\n") * repeats
    epilogue += "  xor.b32 %r211, %r211, %r20;\n"
    code = timed_loop(prologue, body, epilogue, iterations)
    return Point(
        name,
        kind,
        entry("loop", PARAMETERS, code, head=head, limits=limits),
        "loop",
        (_SMS // cluster * cluster, 1, 1),
        (block, 1, 1),
        (("buffer", "zeros", room), *ARGUMENTS[1:]),
        cycles=repeats * iterations,
    )


def _shared() -> list[Point]:
    kernels = []
    for operation, code in _SHARED.items():
        wide = 3 if "64" in operation else 2
        for lanes in (1, 2, 8, 32) if operation in ("add.u32", "cas.b32", "add.f32") else (1, 32):
            # ``lanes`` lanes of a warp share a word; warps have their own words.
            prologue = f"""  mov.u32 %r20, 0; and.b32 %r7, %r0, 31; shr.u32 %r6, %r0, 5;
  and.b32 %r7, %r7, {32 - lanes}; shl.b32 %r6, %r6, 5; or.b32 %r7, %r7, %r6;
  shl.b32 %r7, %r7, {wide}; mov.u32 %r30, room; add.u32 %r30, %r30, %r7;
"""
            kernels.append(
                _loop(
                    f"atom.shared {operation}, {lanes} lanes a word",
                    "atomics in shared memory",
                    prologue,
                    code.format(a="%r30"),
                    repeats=8,
                    iterations=8,
                    head=_ROOM,
                )
            )
    return kernels


def _global() -> list[Point]:
    kernels = []
    for operation, code in _GLOBAL.items():
        for place, address in _PLACES.items():
            if operation not in _SOME and place not in ("own words", "a line a warp", "one word"):
                continue
            prologue = f"""  mov.u32 %r20, 0; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
  mad.lo.u32 %r4, %r1, %r2, %r0; shr.u32 %r6, %r4, 5; and.b32 %r7, %r4, 31;
  {address}; add.u32 %r5, %r5, 256; cvt.u64.u32 %l5, %r5; add.u64 %l5, %l0, %l5;
"""
            kernels.append(
                _loop(
                    f"{operation}, {place}",
                    "atomics in global memory",
                    prologue,
                    code,
                    repeats=8,
                    iterations=4,
                    room=2 << 20,
                )
            )
    return kernels


def _clusters() -> list[Point]:
    kernels = []
    none = "  mov.u32 %r20, 0;\n"
    barrier = "barrier.cluster.arrive; barrier.cluster.wait;"
    for size, block in ((2, 256), (4, 64), (4, 1024), (8, 256)):
        kernels.append(
            _loop(
                f"barrier.cluster, {size} blocks of {block}",
                "cluster",
                none,
                barrier,
                repeats=8,
                iterations=8,
                block=block,
                limits=f".reqnctapercluster {size} .explicitcluster",
                cluster=size,
            )
        )
    kernels.append(
        _loop(
            "barrier.cluster relaxed, 4 blocks of 256",
            "cluster",
            none,
            "barrier.cluster.arrive.relaxed; barrier.cluster.wait;",
            repeats=8,
            iterations=8,
            limits=".reqnctapercluster 4 .explicitcluster",
        )
    )
    remote = f"""  mov.u32 %r20, 0; mov.u32 %r30, room; shl.b32 %r31, %r0, {{shift}};
  add.u32 %r30, %r30, %r31; mov.u32 %r40, %cluster_ctarank; xor.b32 %r40, %r40, {{mask}};
  mov.u32 %r43, %cluster_ctarank; mapa.shared::cluster.u32 %r43, %r30, %r43;
  mapa.shared::cluster.u32 %r41, %r30, %r40; st.shared.u32 [%r30], %r43;
  {barrier}
  mov.u32 %r42, %r41;
"""
    cases = (
        ("chase, 1 thread", 32, 2, "ld.volatile.shared::cluster.u32 %r42, [%r42];"),
        (
            "ld, 256 threads",
            256,
            2,
            "ld.volatile.shared::cluster.u32 %r21, [%r41]; xor.b32 %r20, %r20, %r21;",
        ),
        (
            "ld, 1024 threads",
            1024,
            2,
            "ld.volatile.shared::cluster.u32 %r21, [%r41]; xor.b32 %r20, %r20, %r21;",
        ),
        (
            "ld.v4, 256 threads",
            256,
            4,
            "ld.volatile.shared::cluster.v4.u32 {%r21, %r22, %r23, %r24}, [%r41];"
            " xor.b32 %r20, %r20, %r21;",
        ),
        ("st, 256 threads", 256, 2, "st.volatile.shared::cluster.u32 [%r41], %r0;"),
        (
            "atom, 256 threads",
            256,
            2,
            "atom.shared::cluster.add.u32 %r21, [%r41], 1; xor.b32 %r20, %r20, %r21;",
        ),
    )
    for size in (2, 8):
        for name, block, shift, code in cases:
            kernels.append(
                _loop(
                    f"shared::cluster {name}, clusters of {size}",
                    "cluster",
                    # A chase stays in the neighbour: each word holds its own address.
                    remote.format(shift=shift, mask=1 if "chase" in name else size - 1),
                    code,
                    repeats=8,
                    iterations=4,
                    block=block,
                    head=_ROOM,
                    limits=f".reqnctapercluster {size} .explicitcluster",
                    cluster=size,
                    epilogue=f"  {barrier}\n  xor.b32 %r211, %r211, %r42;\n",
                )
            )
    return kernels


def points() -> list[Point]:
    """Return all kernels of this file."""
    return [*_shared(), *_global(), *_clusters()]
