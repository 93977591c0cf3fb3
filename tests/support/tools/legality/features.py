"""Tensor features by architecture: one line of PTX each, on every target that the assembler has.

Their operands are not in the compiler's tables, so that ``forms`` generates none of them.
"""

import itertools
from collections.abc import Iterator

from support.tools.legality.assembler import Kernel
from support.tools.legality.compare import Case
from support.tools.legality.forms import LATEST

TARGETS = (
    *("75", "80", "86", "89", "90", "90a", "100", "100a", "100f", "103a", "103f", "107a", "110a"),
    *("110f", "120", "120a", "120f", "121a", "121f"),
)
HOW = "target"
_FAMILY = "tensor features"
_DONE = "mbarrier::complete_tx::bytes"
_INTO = "[%a], [%m, {%r1, %r2}], [%b]"
_OUT = "[%m, {%r1, %r2}], [%a]"
_FACTORS = "{%r0, %r1, %r2, %r3}, {%r4, %r5}"
_SUMS = "{%f0, %f1, %f2, %f3}"
_SCALED = f"{_SUMS}, {_FACTORS}, {_SUMS}, %r6, {{0, 0}}, %r7, {{0, 0}};"
_SPARSE = "{%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}"
_SPARSE_SCALED = f"{_SUMS}, {_SPARSE}, {_SUMS}, %r8, 0, %r9, {{0, 0}}, %r10, {{0, 0}};"
_REGISTERS = """
.reg .b8 %c<2>; .reg .b16 %h<8>; .reg .b32 %r<16>, %a, %b; .reg .b64 %m, %x, %y; .reg .b128 %q;
.reg .f32 %f<8>; .reg .pred %p; .shared .align 128 .b8 sm[1024];
"""


_SCALES = {
    ("mxf8f6f4", "", "ue8m0"),
    ("mxf8f6f4", ".scale_vec::1X", "ue8m0"),
    ("mxf4", "", "ue8m0"),
    ("mxf4", ".scale_vec::2X", "ue8m0"),
    ("mxf4nvf4", ".scale_vec::2X", "ue8m0"),
    ("mxf4nvf4", ".scale_vec::4X", "ue8m0"),
    ("mxf4nvf4", ".scale_vec::4X", "ue4m3"),
}


def _scaled(*, legal: bool) -> Iterator[str]:
    """Yield products with block scales: kinds, sizes of vectors and types of scales that go
    together, or all others.
    """
    for sparse, kind, vector, scale in itertools.product(
        (False, True),
        ("mxf4", "mxf4nvf4", "mxf8f6f4"),
        ("", ".scale_vec::1X", ".scale_vec::2X", ".scale_vec::4X"),
        ("ue8m0", "ue4m3"),
    ):
        if ((kind, vector, scale) in _SCALES) is legal:
            types, depth = ("e4m3.e2m1", 32) if kind == "mxf8f6f4" else ("e2m1.e2m1", 64)
            shape = f"m16n8k{depth << sparse}.row.col.kind::{kind}.block_scale{vector}"
            name = "mma.sp::ordered_metadata" if sparse else "mma"
            rest = _SPARSE_SCALED if sparse else _SCALED
            yield f"{name}.sync.aligned.{shape}.f32.{types}.f32.{scale} {rest}"


LINES = (
    # Hopper
    "wgmma.fence.sync.aligned;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {_SUMS}, %x, %y, %p, 1, 1, 0, 0;",
    f"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {_SUMS}, %x, %y, %p, 1, 1, 0, 0;",
    f"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {_SUMS}, %x, %y, %p, 1, 1;",
    f"wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {_SUMS}, %x, %y, %p, 1, 1;",
    "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%r0, %r1, %r2, %r3}, %x, %y, %p;",
    f"wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {_SUMS}, %x, %y, %r4, 0, %p, 1, 1, 0, 0;",
    "setmaxnreg.inc.sync.aligned.u32 64;",
    "elect.sync %r0|%p, -1;",
    "griddepcontrol.wait;",
    "griddepcontrol.launch_dependents;",
    f"cp.async.bulk.shared::cluster.global.{_DONE} [%a], [%m], 16, [%b];",
    f"cp.async.bulk.shared::cta.global.{_DONE} [%a], [%m], 16, [%b];",
    f"cp.async.bulk.shared::cluster.shared::cta.{_DONE} [%a], [%r0], 16, [%b];",
    "cp.async.bulk.global.shared::cta.bulk_group [%m], [%a], 16;",
    "cp.async.bulk.prefetch.L2.global [%m], 16;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%m], [%a], 16;",
    "cp.async.bulk.commit_group;",
    f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{_DONE} {_INTO};",
    f"cp.async.bulk.tensor.2d.shared::cta.global.tile.{_DONE} {_INTO};",
    f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{_DONE}.multicast::cluster {_INTO}, %h0;",
    f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.{_DONE}.cta_group::2 {_INTO};",
    f"cp.async.bulk.tensor.3d.shared::cluster.global.im2col.{_DONE}"
    " [%a], [%m, {%r1, %r2, %r3}], [%b], {%h0};",
    f"cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.{_DONE}"
    " [%a], [%m, {%r1, %r2, %r3}], [%b], {%h0, %h1};",
    f"cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.{_DONE}"
    " [%a], [%m, {%r1, %r2, %r3, %r4, %r5}], [%b];",
    f"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group {_OUT};",
    "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"
    " [%m, {%r1, %r2, %r3, %r4, %r5}], [%a];",
    f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group {_OUT};",
    "tensormap.replace.tile.global_address.global.b1024.b64 [%m], %x;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 %x, [%a], 16;",
    "mbarrier.try_wait.parity.shared::cta.b64 %p, [%a], 0;",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%a];",
    "barrier.cluster.arrive.aligned;",
    "barrier.cluster.wait.aligned;",
    "mapa.shared::cluster.u32 %r0, %a, 1;",
    "getctarank.shared::cluster.u32 %r0, %a;",
    f"st.async.shared::cluster.{_DONE}.u32 [%a], %r0, [%b];",
    f"red.async.relaxed.cluster.shared::cluster.{_DONE}.add.u32 [%a], %r0, [%b];",
    "fence.proxy.async;",
    "multimem.red.relaxed.gpu.global.add.u32 [%m], %r0;",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%a], {%r0};",
    f"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {_SUMS}, {_FACTORS}, {_SUMS};",
    f"mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {_SUMS}, {_SPARSE}, {_SUMS}, %r8, 0;",
    f"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {_SUMS}, {_SPARSE},"
    f" {_SUMS}, %r8, 0;",
    # Blackwell
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%a], 32;",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05.mma.cta_group::1.kind::f16 [%r0], %x, %y, %r1, %p;",
    "tcgen05.mma.cta_group::1.kind::tf32 [%r0], %x, %y, %r1, %p;",
    "tcgen05.mma.cta_group::1.kind::f8f6f4 [%r0], %x, %y, %r1, %p;",
    "tcgen05.mma.cta_group::1.kind::i8 [%r0], %x, %y, %r1, %p;",
    "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.block16"
    " [%r0], %x, %y, %r1, [%r2], [%r3], %p;",
    "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r0], %x, %y, %r1, [%r2], [%r3], %p;",
    "tcgen05.mma.sp.cta_group::1.kind::f16 [%r0], %x, %y, [%r2], %r1, %p;",
    "tcgen05.mma.ws.cta_group::1.kind::f16 [%r0], %x, %y, %r1, %p;",
    "tcgen05.mma.sp.cta_group::1.kind::i8 [%r0], %x, %y, [%r2], %r1, %p;",
    "tcgen05.mma.ws.cta_group::1.kind::i8 [%r0], %x, %y, %r1, %p;",
    "tcgen05.mma.cta_group::1.kind::f16.ashift [%r0], [%r2], %y, %r1, %p;",
    "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%r0], %x, %y, %r1, %p;",
    "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.block32 [%r0], %x, %y, %r1, [%r2], [%r3], %p;",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X"
    " [%r0], %x, %y, %r1, [%r2], [%r3], %p;",
    "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale"
    " [%r0], %x, %y, [%r4], %r1, [%r2], [%r3], %p;",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%r1];",
    "tcgen05.ld.sync.aligned.16x64b.x1.pack::16b.b32 {%r0}, [%r1];",
    "tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {%r0, %r2}, %r3, [%r1];",
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r0};",
    "tcgen05.cp.cta_group::1.128x256b [%r0], %x;",
    "tcgen05.cp.cta_group::1.4x256b [%r0], %x;",
    "tcgen05.cp.cta_group::1.32x128b.warpx4.b8x16.b6x16_p32 [%r0], %x;",
    "tcgen05.cp.cta_group::1.64x128b.warpx2::02_13.b8x16.b4x16_p64 [%r0], %x;",
    "tcgen05.shift.cta_group::1.down [%r0];",
    "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.fence::before_thread_sync;",
    "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r0, 32;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64"
    " [%a], %h0;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%x];",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128"
    " [%a], [%b];",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %q;",
    f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32 {_SUMS}, {_FACTORS}, {_SUMS};",
    "cvt.rn.satfinite.e2m1x2.f32 %c0, %f0, %f1;",
    "cvt.rn.satfinite.e2m3x2.f32 %h0, %f0, %f1;",
    "cvt.rn.satfinite.e4m3x2.f32 %h0, %f0, %f1;",
    "cvt.rp.satfinite.ue8m0x2.f32 %h0, %f0, %f1;",
    "cvt.rs.satfinite.e2m1x4.f32 %h0, {%f0, %f1, %f2, %f3}, %r0;",
    "cvt.rn.satfinite.e3m2x2.f32 %h0, %f0, %f1;",
    "cvt.rn.f16x2.e4m3x2 %r0, %h0;",
    "cvt.rn.f16x2.e2m1x2 %r0, %c0;",
    "cvt.rn.bf16x2.ue8m0x2 %r0, %h0;",
    "cvt.rna.tf32.f32 %r0, %f0;",
    "cvt.rn.satfinite.tf32.f32 %r0, %f0;",
    "cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r0}, [%a];",
    "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%a];",
    "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%a], {%r0};",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    ".multicast::cluster::all.b128 [%a], [%b];",
    "add.rn.f32x2 %x, %x, %y;",
    "fma.rn.f32x2 %x, %x, %y, %x;",
    "redux.sync.max.f32 %f0, %f1, -1;",
    *_scaled(legal=True),
)
NOWHERE = (
    f"mma.sp.sync.aligned.m16n8k128.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32"
    f".ue8m0 {_SPARSE_SCALED}",
    f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.f32.e4m3.e2m1.f32 {_SUMS}, {_FACTORS},"
    f" {_SUMS};",
    f"mma.sync.aligned.m16n8k32.row.col.block_scale.f32.e4m3.e2m1.f32.ue8m0 {_SCALED}",
    f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.block_scale.f32.e4m3.e2m1.f32.ue8m0 {_SCALED}",
    f"mma.sync.aligned.m16n8k32.row.col.kind::f16.f32.e4m3.e4m3.f32 {_SUMS}, {_FACTORS}, {_SUMS};",
    f"mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f16.e2m1.e2m1.f16.ue8m0 {_SCALED}",
    f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.f16.f32.ue8m0 {_SCALED}",
    *_scaled(legal=False),
)
"""Products that no target has."""
_NEAREST = ("120a", "120f", "121a", "121f")


def cases() -> Iterator[Case]:
    """Yield every line on every target, in the latest version of PTX; those that no target has on
    the targets with other products of their kind.
    """
    everywhere = itertools.product(LINES, TARGETS)
    for line, target in itertools.chain(everywhere, itertools.product(NOWHERE, _NEAREST)):
        text = f".visible .entry KERNEL()\n{{{_REGISTERS}\n{line}\nret;\n}}\n"
        spelling = line.split(" ", 1)[0].rstrip(";")
        yield Case(_FAMILY, spelling, HOW, line, Kernel(target, LATEST, text))
