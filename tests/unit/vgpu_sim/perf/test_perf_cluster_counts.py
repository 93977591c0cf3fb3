"""Counts of bulk copies and of accesses to other blocks of a cluster, of kernels with known counts."""

import struct

import pytest

from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec.interp import BufferMemory
from vgpu_sim.hal.compute.ports import Launch
from vgpu_sim.perf.kernels.chip import chip_of
from vgpu_sim.worker.modelling.sampler import Place, predict_counts

BASE, BLOCKS, THREADS, COPIED = 1 << 33, 8, 64, 512
KERNEL = f"""
.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 po) .explicitcluster .reqnctapercluster 2
{{
  .reg .b32 %t, %a, %k, %v; .reg .b64 %o; .reg .pred %p, %q;
  .shared .align 128 .b32 sm[{COPIED // 4}]; .shared .b64 bar;
  ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; setp.eq.u32 %p, %t, 0;
  @%p mbarrier.init.shared.b64 [bar], 1; bar.sync 0;
  @%p mbarrier.arrive.expect_tx.shared.b64 _, [bar], {COPIED};
  @%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%o], {COPIED}, [bar];
  ask: mbarrier.try_wait.parity.shared.b64 %q, [bar], 0; @!%q bra ask;
  barrier.cluster.arrive; barrier.cluster.wait;
  mov.u32 %k, %cluster_ctarank; xor.b32 %k, %k, 1; mov.u32 %a, sm; mad.lo.u32 %a, %t, 4, %a;
  mapa.shared::cluster.u32 %a, %a, %k; PEER
  barrier.cluster.arrive; barrier.cluster.wait; ret;
}}
"""


def _counts(peer: str):
    module = compile_ptx(KERNEL.replace("PEER", peer), capability=(9, 0))
    launch = Launch("k", (BLOCKS, 1, 1), (THREADS, 1, 1), struct.pack("<Q", BASE), 0)
    memory = BufferMemory(BASE, bytearray(1 << 12))
    place = Place(0, 132, [(BASE, BASE + (1 << 12))])
    chip = chip_of("h100-80gb")
    return predict_counts(chip, module, module.functions[0], launch, place, memory)


def test_bulk_copies_and_accesses_of_peers_are_counted() -> None:
    found = _counts("ld.shared::cluster.u32 %v, [%a];")
    assert (found.bulk_bytes, found.cluster_bytes) == (COPIED, 4 * THREADS)


@pytest.mark.parametrize(
    "address",
    [
        "mov.u32 %a, sm;",
        "mov.u32 %k, %cluster_ctarank; mapa.shared::cluster.u32 %a, %a, %k;",
    ],
)
def test_an_access_of_the_block_itself_is_no_traffic_of_the_cluster(address: str) -> None:
    found = _counts(f"{address} ld.shared.u32 %v, [%a];")
    assert (found.bulk_bytes, found.cluster_bytes) == (COPIED, 0)
