"""Kernels that mix clusters, tensor copies, mbarriers, tensor memory and updates of peers, on both
executors against numpy.
"""

import dataclasses
import struct

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution.both_backends import Bench
from support.execution.interpreted_ptx import compile_verified
from support.oracles.tensor_boxes import TensorMap

_WORDS, _THREADS = 64, 128
_TX = "mbarrier::complete_tx::bytes"
_MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
_WAIT = "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [{bar}], {parity}; @!%q bra"
_DATA = np.arange(4096, dtype=np.uint32) * 2654435761 & 0xFFFFF


def _wait(label: str, bar: str = "bar", parity: object = 0) -> str:
    return f"{label}: {_WAIT.format(bar=bar, parity=parity)} {label};"


def _run(body: str, blocks: int, cluster: int, target: str = "sm_100a") -> NDArray[np.uint32]:
    """Return a row of words for each block. %g is a thread's word of the buffer; the map is of a
    vector of words, of which a box has 64.
    """
    text = f""".version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 po, .param .u64 pd)
  .reqnctapercluster {cluster}
{{
  .reg .b32 %r<24>, %t, %b, %rank, %k, %a, %c; .reg .b64 %d<8>, %o, %g, %m, %in; .reg .b16 %h;
  .reg .pred %p, %q, %s, %w; .reg .b128 %z; .reg .f32 %f<4>;
  .shared .align 1024 .b32 sm[1024]; .shared .align 16 .b64 bar; .shared .align 16 .b64 next;
  .shared .align 16 .b8 taken[16]; .shared .b32 base;
  mov.b64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %o, [po]; ld.param.u64 %in, [pd];
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %rank, %cluster_ctarank;
  shl.b32 %k, %t, 2; mov.u32 %a, sm; add.u32 %a, %a, %k;
  mad.lo.u32 %k, %b, {_THREADS}, %t; mul.wide.u32 %g, %k, 4; add.u64 %g, %g, %o;
  setp.eq.u32 %p, %t, 0; setp.lt.u32 %w, %t, 32;
  {body}
  ret;
}}
"""
    capability = (10, 0) if target == "sm_100a" else (9, 0)
    module = compile_verified(text, capability)
    bench = Bench(bytes(256), _DATA.tobytes(), bytes(4 * _THREADS * blocks))
    tensor = TensorMap(0, 2, (len(_DATA),), (), (_WORDS,), (1,))
    shapes = (blocks, 1, 1), (_THREADS, 1, 1)
    try:
        segment, data, out = bench.addresses()
        parameters = dataclasses.replace(tensor, address=data).encode()
        parameters += struct.pack("<QQ", out, data)
        size = (cluster, 1, 1)
        wanted = bench.interpret(module, *shapes, parameters, segment, cluster=size)
        found = bench.execute(module, *shapes, parameters, None, segment, cluster=size)
        assert found[2] == wanted[2]
        return np.frombuffer(wanted[2], np.uint32).reshape(blocks, _THREADS)
    finally:
        bench.close()


_BOX = f"cp.async.bulk.tensor.1d.shared::cluster.global.tile.{_TX}"


@pytest.mark.parametrize("group", [1, 2])
def test_a_multicast_box_signals_one_block_of_each_pair(group: int) -> None:
    """With two blocks in a group, the mbarriers of ranks 0 and 2 get the bytes of ranks 1 to 3."""
    bytes_ = ("0", "256", "256", "256") if group == 1 else ("256", "0", "512", "0")
    table = " ".join(
        f"setp.eq.u32 %s, %rank, {n}; selp.b32 %r1, {size}, %r1, %s;"
        for n, size in enumerate(bytes_)
    )
    body = f"""
      mov.u32 %r1, 0; {table} st.shared.u32 [%a], 7;
      @%p mbarrier.init.shared::cta.b64 [bar], 1; {_MEET}
      @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], %r1;
      mov.u32 %r2, bar; mapa.shared::cluster.u32 %r2, %r2, {2 if group == 2 else 3};
      mov.u16 %h, 14; mov.u32 %r3, 128; setp.eq.u32 %s, %rank, 3; and.pred %s, %s, %p;
      @%s {_BOX}.multicast::cluster.cta_group::{group} [sm], [%m, {{%r3}}], [%r2], %h;
      {_wait("more")} {_MEET}
      ld.shared.u32 %r4, [%a]; st.global.u32 [%g], %r4; {_MEET}
    """
    found = _run(body, 4, 4)
    assert (found[0] == 7).all()
    assert (found[1:, :_WORDS] == _DATA[128 : 128 + _WORDS]).all()
    assert (found[1:, _WORDS:] == 7).all()


@pytest.mark.parametrize(
    "even",
    [
        "mov.u32 %r2, bar; and.b32 %r5, %rank, 2; mapa.shared::cluster.u32 %r2, %r2, %r5;",
        "mov.u32 %r2, bar; and.b32 %r2, %r2, -16777217;",
        "mov.u64 %d0, bar; cvt.u32.u64 %r2, %d0; and.b32 %r2, %r2, 0xfefffff0;",
        """cvta.shared.u64 %d0, bar; and.b64 %d0, %d0, 0xfffffffffeffffff;
        cvta.to.shared.u64 %d0, %d0; cvt.u32.u64 %r2, %d0;""",
        """mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mov.u32 %r2, bar;
        mapa.shared::cluster.u32 %r2, %r2, %r5; and.b32 %r2, %r2, -16777217;""",
    ],
)
def test_a_box_for_a_block_signals_its_pairs_even_block(even: str) -> None:
    """The address of the even block's mbarrier comes from MAPA, or from clearing bit 24."""
    body = f"""
      @%p mbarrier.init.shared::cta.b64 [bar], 1; {_MEET}
      and.b32 %r5, %rank, 1; setp.eq.u32 %s, %r5, 0; and.pred %s, %s, %p;
      @%s mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
      {even} mul.lo.u32 %r3, %rank, 64;
      @%p {_BOX.replace(".1d", ".1d.cta_group::2")} [sm], [%m, {{%r3}}], [%r2];
      and.b32 %r5, %rank, 1; setp.ne.u32 %s, %r5, 0; @%s bra over; {_wait("more")} over: {_MEET}
      ld.shared.u32 %r4, [%a]; st.global.u32 [%g], %r4; {_MEET}
    """
    found = _run(body, 4, 4)
    for block in range(4):
        first = block * _WORDS
        assert (found[block, :_WORDS] == _DATA[first : first + _WORDS]).all()


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_addresses_of_a_pairs_kernel_have_the_blocks_rank(cluster: int) -> None:
    """An address of the own block is valid in its peers, and names the same bytes as without."""
    body = f"""
      setp.ne.u32 %s, %t, %t; @%s tcgen05.wait::ld.sync.aligned; @%s {_BOX.replace(".1d", ".1d.cta_group::2")}
        [sm], [%m, {{%r3}}], [bar];
      st.shared.u32 [%a], %t; mov.u32 %r1, sm; getctarank.shared::cluster.u32 %r2, %r1;
      @%p ld.shared.u32 %r3, [sm]; @%p add.u32 %r3, %r3, 100; @%p st.shared.u32 [%r1], %r3;
      @%p atom.shared.add.u32 %r4, [sm], %r2; @%p st.shared::cluster.u32 [base], %r1;
      cvta.shared.u64 %d0, sm; cvt.u64.u32 %d1, %k; bar.sync 0;
      and.b32 %r6, %t, 31; mul.wide.u32 %d1, %r6, 4; add.u64 %d0, %d0, %d1; ld.u32 %r5, [%d0];
      {_MEET}
      add.u32 %r6, %rank, 1; mov.u32 %r7, %cluster_nctarank; rem.u32 %r6, %r6, %r7;
      mov.u32 %r7, base; mapa.shared::cluster.u32 %r7, %r7, %r6;
      ld.shared::cluster.u32 %r7, [%r7]; ld.shared::cluster.u32 %r7, [%r7];
      mad.lo.u32 %r5, %r7, 1000, %r5; st.global.u32 [%g], %r5; {_MEET}
    """
    found = _run(body, 4, cluster)
    for block in range(4):
        rank = block % cluster
        wanted = np.arange(_THREADS) % 32
        wanted[::32] = 100 + rank
        assert (found[block] == wanted + 1000 * (100 + (rank + 1) % cluster)).all()


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_ring_of_boxes_and_stores_to_peers(target: str) -> None:
    """A producer warp copies boxes; consumers add them, and send sums to the next block."""
    body = f"""
      @%p mbarrier.init.shared::cta.b64 [bar], 1; @%p mbarrier.init.shared::cta.b64 [next], 1;
      {_MEET} mov.u32 %r5, 0; mov.u32 %r6, 0;
      @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [next], {4 * _THREADS};
    turn:
      mad.lo.u32 %r3, %b, 256, 0; mad.lo.u32 %r3, %r6, 64, %r3; and.b32 %r7, %r6, 1;
      @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
      @%p {_BOX} [sm], [%m, {{%r3}}], [bar];
      {_wait("more", parity="%r7")}
      and.b32 %r8, %t, 63; shl.b32 %r8, %r8, 2; mov.u32 %r9, sm; add.u32 %r9, %r9, %r8;
      ld.shared.u32 %r4, [%r9]; mad.lo.u32 %r5, %r5, 3, %r4; bar.sync 0;
      add.u32 %r6, %r6, 1; setp.lt.u32 %q, %r6, 4; @%q bra turn;
      add.u32 %r10, %rank, 1; and.b32 %r10, %r10, 3; add.u32 %r11, %a, 2048;
      mapa.shared::cluster.u32 %r11, %r11, %r10; mov.u32 %r12, next;
      mapa.shared::cluster.u32 %r12, %r12, %r10;
      st.async.shared::cluster.{_TX}.u32 [%r11], %r5, [%r12];
      {_wait("get", "next")}
      ld.shared.u32 %r4, [%a+2048]; st.global.u32 [%g], %r4; {_MEET}
    """
    found = _run(body, 8, 4, target)
    with np.errstate(over="ignore"):
        sums = np.zeros((8, _THREADS), np.uint32)
        for block in range(8):
            for turn in range(4):
                first = block * 256 + turn * 64
                sums[block] = sums[block] * np.uint32(3) + np.tile(_DATA[first : first + 64], 2)
    before = np.arange(8) // 4 * 4 + (np.arange(8) - 1) % 4
    np.testing.assert_array_equal(found, sums[before])


def test_boxes_of_a_changed_map_and_sums_in_one_block() -> None:
    """Each block moves its map's address by 1 KiB, and peers add their boxes to block 0."""
    body = f"""
      @%p mbarrier.init.shared::cta.b64 [bar], 1; @%p mbarrier.init.shared::cta.b64 [next], 1;
      st.shared.u32 [%a+2048], 0; add.u64 %d0, %in, 1024; {_MEET}
      shl.b32 %r8, %t, 2; cvt.u64.u32 %d1, %r8; add.u64 %d1, %d1, %m;
      @%w ld.u32 %r9, [%d1]; @%w st.shared.u32 [%a], %r9; bar.sync 0;
      @%p tensormap.replace.tile.global_address.shared::cta.b1024.b64 [sm], %d0; bar.sync 0;
      mad.lo.u32 %k, %b, {_THREADS}, 0; mul.wide.u32 %d3, %k, 4; add.u64 %d3, %d3, %o;
      @!%w bra copied;
      tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%d3], [sm], 128;
      fence.proxy.tensormap::generic.acquire.gpu [%d3], 128;
    copied:
      bar.sync 0; mul.lo.u32 %r3, %rank, 64;
      @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
      @%p {_BOX} [sm], [%d3, {{%r3}}], [bar];
      {_wait("more")}
      and.b32 %r8, %t, 63; shl.b32 %r8, %r8, 2; mov.u32 %r9, sm; add.u32 %r9, %r9, %r8;
      ld.shared.u32 %r1, [%r9]; add.u32 %r2, %a, 2048;
      mapa.shared::cluster.u32 %r2, %r2, 0; mov.u32 %r12, next;
      mapa.shared::cluster.u32 %r12, %r12, 0; setp.eq.u32 %s, %rank, 0; and.pred %s, %s, %p;
      @%s mbarrier.arrive.expect_tx.shared::cta.b64 _, [next], {4 * _THREADS * 3};
      setp.eq.u32 %s, %rank, 0;
      @!%s red.async.relaxed.cluster.shared::cluster.{_TX}.add.u32 [%r2], %r1, [%r12];
      @!%s bra over; {_wait("get", "next")} over: {_MEET}
      ld.shared.u32 %r4, [%a+2048]; st.global.u32 [%g], %r4; {_MEET}
    """
    found = _run(body, 4, 4)
    boxes = _DATA[256 + 64 : 256 + 256].reshape(3, 64)
    assert (found[0] == np.tile(boxes.sum(0), 2)).all()
    assert (found[1:] == 0).all()


def test_clusters_that_take_launches_and_hold_tensor_memory() -> None:
    """Each cluster keeps a pair's allocation while it computes for clusters that it cancels."""
    body = f"""
      @%p mbarrier.init.shared::cta.b64 [bar], 1; mov.u32 %r20, base; mov.u32 %r6, 0; {_MEET}
      @%w tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r20], 64;
      bar.sync 0; ld.shared.b32 %r21, [base]; shr.u32 %r22, %t, 5; shl.b32 %r22, %r22, 21;
      add.u32 %r21, %r21, %r22; mov.u32 %c, %b;
    turn:
      mad.lo.u32 %r1, %c, 1000, %t; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r21+5], {{%r1}};
      tcgen05.wait::st.sync.aligned; {_MEET}
      @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
      setp.eq.u32 %s, %rank, 0; and.pred %s, %s, %p; mov.u32 %r2, taken; mov.u32 %r3, bar;
      {_MEET}
      @%s clusterlaunchcontrol.try_cancel.async.shared::cta.{_TX}.multicast::cluster::all.b128
        [%r2], [%r3];
      and.b32 %r7, %r6, 1; {_wait("get", parity="%r7")}
      tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r4}}, [%r21+5]; tcgen05.wait::ld.sync.aligned;
      mad.lo.u32 %k, %c, {_THREADS}, %t; mul.wide.u32 %g, %k, 4; add.u64 %g, %g, %o;
      st.global.u32 [%g], %r4;
      ld.shared.b128 %z, [taken]; bar.sync 0;
      clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %q, %z; @!%q bra over;
      clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %c, %z;
      add.u32 %c, %c, %rank; add.u32 %r6, %r6, 1; bra turn;
    over:
      {_MEET} ld.shared.b32 %r21, [base];
      @%w tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r21, 64; {_MEET}
    """
    found = _run(body, 12, 2)
    wanted = np.arange(12)[:, None] * 1000 + np.arange(_THREADS)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("more", [24, 240])
def test_registers_and_dependent_launches_change_nothing(more: int) -> None:
    """setmaxnreg and griddepcontrol around a warpgroup's product of ones by wgmma."""
    body = f"""
      griddepcontrol.wait; mov.u32 %r1, 0x3c003c00; mov.u32 %r2, %t;
    fill:
      shl.b32 %r3, %r2, 2; mov.u32 %r4, sm; add.u32 %r4, %r4, %r3; st.shared.b32 [%r4], %r1;
      add.u32 %r2, %r2, {_THREADS}; setp.lt.u32 %q, %r2, 1024; @%q bra fill;
      fence.proxy.async; bar.sync 0; setmaxnreg.{"dec" if more == 24 else "inc"}.sync.aligned.u32 {more};
      mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
      mov.u32 %r5, sm; shr.u32 %r5, %r5, 4; cvt.u64.u32 %d0, %r5; or.b64 %d0, %d0, 0x0000001000080000;
      setp.eq.u32 %s, %r5, %r5;
      wgmma.fence.sync.aligned;
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d0, %d0, %s, 1, 1, 0, 0;
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
      griddepcontrol.launch_dependents;
      add.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %f2; add.f32 %f0, %f0, %f3;
      mov.b32 %r6, %f0; st.global.b32 [%g], %r6;
    """
    found = _run(body, 2, 2, "sm_90a")
    assert (found.view(np.float32) == 64).all()
