"""Cases that fail: the error codes of kernels' faults and of launches that the driver rejects."""

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

from benchmarks.silicon.values import fetches
from benchmarks.silicon.values.bundle import Store
from benchmarks.silicon.values.warps import kernel
from support.oracles import random_textures
from support.oracles.textures import SURFACE, Shape

_TILE = ".shared .align 16 .b8 tile[1024];"
_ONE = "setp.ne.u32 %p, %t, 0; @%p bra L;"

_BODIES = {
    "load.null": "mov.u64 %A, 0; ld.global.u32 %a, [%A];",
    "load.small": "mov.u64 %A, 64; ld.global.u32 %a, [%A];",
    "load.page": "mov.u64 %A, 4096; ld.u32 %a, [%A];",
    "load.ones": "mov.u64 %A, -4; ld.global.u32 %a, [%A];",
    "load.far": "mov.u64 %A, 0x7fff00000000; ld.global.u32 %a, [%A];",
    "load.middle": "mov.u64 %A, 0x123456789000; ld.global.u32 %a, [%A];",
    "load.noncanonical": "mov.u64 %A, 0x8000000000000000; ld.global.u32 %a, [%A];",
    "store.null": "mov.u64 %A, 0; st.global.u32 [%A], %a;",
    "store.generic.null": "mov.u64 %A, 0; st.u32 [%A], %a;",
    "store.far": "mov.u64 %A, 0x7fff00000000; st.u32 [%A], %a;",
    "atom.null": "mov.u64 %A, 0; atom.global.add.u32 %a, [%A], 1;",
    "red.null": "mov.u64 %A, 0; red.global.add.u32 [%A], 1;",
    "atom.float.null": "mov.u64 %A, 0; atom.global.add.f32 %a, [%A], 0f3f800000;",
    **{
        f"load.odd.{kind}": f"add.u64 %A, %g, {step}; ld.global.{kind} {to}, [%A];"
        for kind, step, to in (
            ("u16", 1, "%s0"),
            ("u32", 1, "%a"),
            ("u32", 2, "%a"),
            ("u64", 4, "%B"),
            ("v2.u32", 4, "{%a, %b}"),
            ("v4.u32", 8, "{%a, %b, %c, %d}"),
            ("v2.u16", 2, "{%s0, %s1}"),
        )
    },
    "store.odd": "add.u64 %A, %g, 2; st.global.u32 [%A], %a;",
    "atom.odd": "add.u64 %A, %g, 2; atom.global.add.u32 %a, [%A], 1;",
    "atom.odd64": "add.u64 %A, %g, 4; atom.global.add.u64 %A, [%A], 1;",
    "red.odd": "add.u64 %A, %g, 2; red.global.add.u32 [%A], 1;",
    "generic.odd": "add.u64 %A, %g, 2; ld.u32 %a, [%A];",
    "odd.and.null": "mov.u64 %A, 2; ld.global.u32 %a, [%A];",
    "shared.odd": "mov.u32 %e, tile; add.u32 %e, %e, 2; ld.shared.u32 %a, [%e];",
    "shared.odd.store": "mov.u32 %e, tile; add.u32 %e, %e, 2; st.shared.u32 [%e], %a;",
    "shared.odd.atom": "mov.u32 %e, tile; add.u32 %e, %e, 2; atom.shared.add.u32 %a, [%e], 1;",
    "shared.past.little": "ld.shared.u32 %a, [tile+1024];",
    "shared.past.page": "ld.shared.u32 %a, [tile+8192];",
    "shared.past.48k": "mov.u32 %e, 50000; ld.shared.u32 %a, [%e];",
    "shared.past.100k": "mov.u32 %e, 100000; ld.shared.u32 %a, [%e];",
    "shared.past.228k": "mov.u32 %e, 233472; ld.shared.u32 %a, [%e];",
    "shared.past.1m": "mov.u32 %e, 1048576; ld.shared.u32 %a, [%e];",
    "shared.past.15m": "mov.u32 %e, 15728640; ld.shared.u32 %a, [%e];",
    "shared.past.16m": "mov.u32 %e, 16777216; ld.shared.u32 %a, [%e];",
    "shared.past.end": "mov.u32 %e, -4; ld.shared.u32 %a, [%e];",
    "shared.past.store": "mov.u32 %e, 1048576; st.shared.u32 [%e], %a;",
    "shared.past.atom": "mov.u32 %e, 1048576; atom.shared.add.u32 %a, [%e], 1;",
    "shared.generic.past": "cvta.shared.u64 %A, 0; add.u64 %A, %A, 1048576; ld.u32 %a, [%A];",
    "shared.generic.odd": "cvta.shared.u64 %A, 0; add.u64 %A, %A, 2; ld.u32 %a, [%A];",
    "local.odd": ".local .align 16 .b8 l[64]; mov.u64 %A, l; add.u64 %A, %A, 2; st.local.u32 [%A], %t; ld.local.u32 %a, [%A];",
    "local.past.little": ".local .align 16 .b8 l[64]; mov.u64 %A, l; cvt.u64.u32 %B, %u; add.u64 %A, %A, 1024; add.u64 %A, %A, %B; ld.local.u32 %a, [%A];",
    "local.past.1m": ".local .align 16 .b8 l[64]; mov.u64 %A, l; cvt.u64.u32 %B, %u; add.u64 %A, %A, 1048576; add.u64 %A, %A, %B; ld.local.u32 %a, [%A];",
    "local.past.16m": ".local .align 16 .b8 l[64]; mov.u64 %A, l; cvt.u64.u32 %B, %u; add.u64 %A, %A, 16777216; add.u64 %A, %A, %B; ld.local.u32 %a, [%A];",
    "local.past.store": ".local .align 16 .b8 l[64]; mov.u64 %A, l; cvt.u64.u32 %B, %u; add.u64 %A, %A, 1048576; add.u64 %A, %A, %B; st.local.u32 [%A], %a;",
    "local.generic.past": ".local .align 16 .b8 l[64]; mov.u64 %A, l; cvta.local.u64 %A, %A; add.u64 %A, %A, 1048576; ld.u32 %a, [%A];",
    "const.past": "mov.u64 %A, c; add.u64 %A, %A, 65536; ld.const.u32 %a, [%A];",
    "const.past.more": "mov.u64 %A, c; cvt.u64.u32 %B, %u; add.u64 %A, %A, 1048576; add.u64 %A, %A, %B; ld.const.u32 %a, [%A];",
    "const.odd": "mov.u64 %A, c; cvt.u64.u32 %B, %u; add.u64 %A, %A, 2; add.u64 %A, %A, %B; ld.const.u32 %a, [%A];",
    "param.generic.store": "mov.u64 %A, pg; cvta.param.u64 %A, %A; st.u32 [%A], %t;",
    "trap": "trap;",
    "trap.one.lane": "setp.eq.u32 %p, %t, 5; @%p trap;",
    "brkpt": "brkpt;",
    "exit": "exit;",
    "nanosleep": "nanosleep.u32 10;",
    "bar.partial": "setp.lt.u32 %p, %t, 16; @!%p exit; bar.sync 0; mov.u32 %a, 7;",
    "bar.count.32.of.64": "bar.sync 1, 32; mov.u32 %a, 7;",
    "bar.reuse.other.count": "setp.lt.u32 %p, %t, 32; @%p bra X; bar.arrive 1, 64; bra Y; X: bar.sync 1, 64; Y: mov.u32 %a, 7;",
    "call.null": "mov.u64 %A, 0; cvt.u64.u32 %B, %u; add.u64 %A, %A, %B; P: .callprototype _ (); call %A, (), P;",
    "call.wild": "mov.u64 %A, 0x123456789000; cvt.u64.u32 %B, %u; add.u64 %A, %A, %B; P: .callprototype _ (); call %A, (), P;",
    "call.odd": "add.u64 %A, %g, 4; P: .callprototype _ (); call %A, (), P;",
    "recursion": "call.uni (%a), deep, (%t);",
    "alloca.much": "mov.u64 %A, 1048576; alloca.u64 %B, %A; st.local.u32 [%B], %t; ld.local.u32 %a, [%B];",
    "ldmatrix.odd": "mov.u32 %e, tile; add.u32 %e, %e, 8; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a}, [%e];",
    "mbarrier.odd": "mov.u32 %e, tile; add.u32 %e, %e, 4; mbarrier.init.shared.b64 [%e], 1;",
    "mbarrier.count.zero": "mov.u32 %e, 0; mbarrier.init.shared.b64 [tile], %e; ld.shared.b64 %A, [tile]; mov.b64 {%a, %b}, %A;",
    "mbarrier.count.much": "mov.u32 %e, 1048576; mbarrier.init.shared.b64 [tile], %e; ld.shared.b64 %A, [tile]; mov.b64 {%a, %b}, %A;",
    "mbarrier.uninitialised": f"{_ONE} mbarrier.arrive.shared.b64 %A, [tile]; mov.b64 {{%a, %b}}, %A; L:",
    "mbarrier.overflow": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; mbarrier.arrive.noComplete.shared.b64 %A, [tile], 5; mov.b64 {{%a, %b}}, %A; L:",
    "mbarrier.peer.absent": "mov.u32 %e, tile; mapa.shared::cluster.u32 %e, %e, 5; mbarrier.arrive.shared::cluster.b64 _, [%e];",
    "mapa.absent.load": "mov.u32 %e, tile; mapa.shared::cluster.u32 %e, %e, 5; ld.shared::cluster.u32 %a, [%e];",
    "mapa.absent.store": "mov.u32 %e, tile; mapa.shared::cluster.u32 %e, %e, 9; st.shared::cluster.u32 [%e], %a;",
    "bulk.size.odd": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; mov.u32 %e, 24; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+16], [%g], %e, [tile]; L:",
    "bulk.source.odd": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; add.u64 %A, %g, 8; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+16], [%A], 32, [tile]; L:",
    "bulk.target.odd": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+24], [%g], 32, [tile]; L:",
    "bulk.null": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; mbarrier.arrive.expect_tx.shared.b64 _, [tile], 32; mov.u64 %A, 0; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+16], [%A], 32, [tile];"
    " W: mbarrier.try_wait.parity.shared.b64 %q, [tile], 0; @!%q bra W; L:",
    "bulk.store.null": f"{_ONE} mov.u64 %A, 0; cp.async.bulk.global.shared::cta.bulk_group [%A], [tile], 32; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; L:",
    "bulk.past.shared": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; mbarrier.arrive.expect_tx.shared.b64 _, [tile], 32; mov.u32 %e, 1048576; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%e], [%g], 32, [tile];"
    " W: mbarrier.try_wait.parity.shared.b64 %q, [tile], 0; @!%q bra W; L:",
    "cp.async.odd": "add.u64 %A, %g, 4; cp.async.ca.shared.global [tile], [%A], 8; cp.async.wait_all;",
    "cp.async.null": "mov.u64 %A, 0; cp.async.ca.shared.global [tile], [%A], 8; cp.async.wait_all;",
    "tensor.map.zero": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; mbarrier.arrive.expect_tx.shared.b64 _, [tile], 32; cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile+128], [%g, {{%a}}], [tile];"
    " W: mbarrier.try_wait.parity.shared.b64 %q, [tile], 0; @!%q bra W; L:",
    "tensor.map.odd": f"{_ONE} mbarrier.init.shared.b64 [tile], 1; add.u64 %A, %g, 8; cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [tile+128], [%A, {{%a}}], [tile]; L:",
    "wgmma.fewer.threads": "wgmma.fence.sync.aligned;",
    "setmaxnreg": "setmaxnreg.dec.sync.aligned.u32 24;",
    "texture.null": "mov.u64 %A, 0; tex.1d.v4.f32.s32 {%a, %b, %c, %d}, [%A, {%t}];",
    "texture.wild": "mov.u64 %A, 0x123456789000; tex.1d.v4.f32.s32 {%a, %b, %c, %d}, [%A, {%t}];",
    "surface.null": "mov.u64 %A, 0; suld.b.1d.b32.zero %a, [%A, {%t}];",
    "shfl.absent.lane": "setp.lt.u32 %p, %t, 4; @!%p bra L; shfl.sync.idx.b32 %a, %t, 9, 31, 0xf; L:",
    "shfl.not.in.mask": "setp.lt.u32 %p, %t, 4; @!%p bra L; shfl.sync.idx.b32 %a, %t, 1, 31, 0x7; L:",
    "match.not.in.mask": "match.any.sync.b32 %a, %t, 0x0000fffe;",
}
_DEEP = """.func (.reg .b32 r) deep(.reg .b32 n)
{ .reg .b32 %v; .local .align 16 .b8 l[512]; .reg .b64 %z; .reg .pred %p; mov.u64 %z, l; st.local.u32 [%z], n;
  add.u32 %v, n, 1; setp.eq.u32 %p, %v, 1000000; @%p bra E; call (%v), deep, (%v); E: ld.local.u32 r, [%z]; add.u32 r, r, %v; ret; }"""


@dataclasses.dataclass(frozen=True)
class _Launch:
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (32, 1, 1)
    directives: str = ""
    cluster: tuple[int, int, int] | None = None
    shared: int = 0


_LAUNCHES = {
    "threads.1024": _Launch(block=(1024, 1, 1)),
    "threads.1025": _Launch(block=(1025, 1, 1)),
    "threads.product": _Launch(block=(32, 32, 2)),
    "block.z.64": _Launch(block=(1, 1, 64)),
    "block.z.65": _Launch(block=(1, 1, 65)),
    "block.zero": _Launch(block=(0, 1, 1)),
    "grid.zero": _Launch(grid=(0, 1, 1)),
    "grid.y.65536": _Launch(grid=(1, 65536, 1)),
    "grid.z.65536": _Launch(grid=(1, 1, 65536)),
    "maxntid.exceeded": _Launch(block=(64, 1, 1), directives=".maxntid 32"),
    "maxntid.shape": _Launch(block=(1, 32, 1), directives=".maxntid 32, 1, 1"),
    "reqntid.fewer": _Launch(block=(32, 1, 1), directives=".reqntid 64"),
    "reqntid.more": _Launch(block=(64, 1, 1), directives=".reqntid 32"),
    "reqntid.shape": _Launch(block=(1, 64, 1), directives=".reqntid 64, 1, 1"),
    "shared.227k": _Launch(shared=232448),
    "shared.more": _Launch(shared=232449),
    "shared.much": _Launch(shared=1 << 20),
    "cluster.3.of.4": _Launch(grid=(4, 1, 1), cluster=(3, 1, 1)),
    "cluster.8": _Launch(grid=(8, 1, 1), cluster=(8, 1, 1)),
    "cluster.16": _Launch(grid=(16, 1, 1), cluster=(16, 1, 1)),
    "cluster.32": _Launch(grid=(32, 1, 1), cluster=(32, 1, 1)),
    "cluster.zero": _Launch(grid=(4, 1, 1), cluster=(2, 0, 1)),
    "cluster.required": _Launch(grid=(4, 1, 1), directives=".reqnctapercluster 2"),
    "cluster.required.other": _Launch(grid=(4, 1, 1), cluster=(4, 1, 1), directives=".reqnctapercluster 2"),
    "cluster.required.not.divided": _Launch(grid=(3, 1, 1), directives=".reqnctapercluster 2"),
    "cluster.maximum": _Launch(grid=(4, 1, 1), cluster=(4, 1, 1), directives=".maxclusterrank 2"),
    "cluster.explicit.without": _Launch(grid=(4, 1, 1), directives=".explicitcluster"),
    "cluster.required.zero.grid": _Launch(grid=(2, 2, 1), directives=".explicitcluster .reqnctapercluster 1, 2"),
}  # fmt: skip


def cases(store: Store) -> Iterator[dict[str, Any]]:
    """Return all of them, each of which may end its context."""
    for name, body in _BODIES.items():
        header = f"{_TILE} .const .align 16 .u32 c[4] = {{1, 2, 3, 4}}; {_DEEP if name == 'recursion' else ''}"
        block = (64, 1, 1) if name.startswith("bar.") else (32, 1, 1)
        case = kernel(f"fault/{name}", body, header=header, block=block, store=store)
        if name in ("recursion", "alloca.much"):
            case["block"] = [32, 1, 1]
        yield case
    for name, launch in _LAUNCHES.items():
        how = dataclasses.asdict(launch)
        case = kernel(f"launch/{name}", "mov.u32 %a, 9;", store=store, **how)
        case["buffers"][0][0] = 1 << 20
        case["out"] = []
        if max(launch.grid) > 1000:
            case["ptx"] = case["ptx"].replace(
                "st.global.v4.b32 [%o]", "mul.lo.u32 %t, %t, 0; @%p st.global.v4.b32 [%o]"
            )
        yield case
    draw = random.Random(3)
    texture = random_textures.texture(
        draw, Shape.PLANE, format_=7, kind=SURFACE, padding=0, sizes=(8, 4, 1)
    )
    inputs = fetches._inputs(draw, [texture], whole=True)
    inputs[0, :, :2] = 77
    for name, text in {
        "suld": "suld.b.2d.b32.trap %r0, [%h, {%j0, %j1}];",
        "sust": "sust.b.2d.b32.trap [%h, {%j0, %j1}], %r0;",
        "suld.odd": "mov.b32 %j0, 2; mov.b32 %j1, 0; suld.b.2d.b32.zero %r0, [%h, {%j0, %j1}];",
        "suld.odd.trap": "mov.b32 %j0, 2; mov.b32 %j1, 0; suld.b.2d.b32.trap %r0, [%h, {%j0, %j1}];",
    }.items():
        yield from fetches._case(f"fault/surface.{name}", text, [texture], inputs, store)
