"""Clusters on both backends: shared memory of peers, the cluster's barrier, and faults."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution import native_launch
from support.execution.both_backends import Bench, compare, compiler
from support.execution.interpreted_ptx import compile_verified, kernel
from vgpu_sim.exec import interp
from vgpu_sim.exec.errors import AddressFault, BarrierFault
from vgpu_sim.hal.compute import address_map
from vgpu_sim.isa import Module
from vgpu_sim.isa.families.move import CLUSTER_RANK_SHIFT, FIRST_RANK_FIELD

Shape = tuple[int, int, int]
_ILLEGAL, _FAILED = 700, 719
_REGISTERS = """
    .reg .b32 %r<16>, %t, %b, %rank, %size, %k, %a; .reg .b128 %wide; .reg .b64 %d<8>, %o, %g; .reg .pred %p, %q;
    .reg .b16 %h; .shared .align 128 .b32 sm[256]; .shared .b64 bar;
"""
# %t: thread, %b: block, %a: the thread's word in shared memory, %g: its word in the buffer.
_START = """
    ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
    mov.u32 %rank, %cluster_ctarank; mov.u32 %size, %cluster_nctarank;
    mov.u32 %a, sm; shl.b32 %k, %t, 2; add.u32 %a, %a, %k;
    mov.u32 %k, %ntid.x; mad.lo.u32 %k, %b, %k, %t; mul.wide.u32 %g, %k, 4; add.u64 %g, %g, %o;
"""
_MEET = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
_NEXT = "add.u32 %k, %rank, 1; rem.u32 %k, %k, %size;"
_ASK = "ask: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q, [bar], 0; @!%q bra ask;"


def _module(body: str, directives: str = "") -> Module:
    text = kernel(_START + body, ".param .u64 po", registers=_REGISTERS)
    return compile_verified(text.replace("(.param .u64 po)", f"(.param .u64 po) {directives}", 1))


def _run(
    body: str,
    *,
    cluster: Shape | None,
    blocks: int = 8,
    threads: int = 64,
    plans: int = 1,
) -> NDArray[np.uint32]:
    """Return the words of the buffer, a row for each block."""
    module = _module(body)
    block = (threads, 1, 1)
    legal = [None, *list(compiler().legal_plans(module, block))[: plans - 1]]
    grid = (blocks, 1, 1)
    (found,) = compare(module, [bytes(blocks * threads * 4)], grid, block, legal, cluster=cluster)
    return np.frombuffer(found, np.uint32).reshape(blocks, threads)


def _peers(blocks: int, size: int) -> NDArray[np.int64]:
    """Return the next block of the cluster, for each block."""
    each = np.arange(blocks)
    return each // size * size + (each + 1) % size


@pytest.mark.parametrize("size", [2, 8, 16])
@pytest.mark.parametrize(
    "load",
    [
        "mapa.shared::cluster.u32 %r1, %a, %k; ld.shared::cluster.u32 %r0, [%r1];",
        """cvt.u64.u32 %d0, %a; cvta.shared::cluster.u64 %d0, %d0; mapa.u64 %d1, %d0, %k;
        ld.u32 %r0, [%d1];""",
    ],
)
def test_blocks_read_the_memory_of_their_peers(size: int, load: str) -> None:
    body = f"""
        mad.lo.u32 %r0, %b, 1000, %t; st.shared.u32 [%a], %r0; {_MEET}
        {_NEXT} {load} st.global.u32 [%g], %r0; {_MEET}
    """
    found = _run(body, cluster=(size, 1, 1), blocks=16)
    assert np.array_equal(found, _peers(16, size)[:, None] * 1000 + np.arange(64))


def test_blocks_write_and_update_the_memory_of_their_peers() -> None:
    body = f"""
        st.shared.u32 [%a], 5; {_MEET}
        {_NEXT} mapa.shared::cluster.u32 %r1, %a, %k;
        add.u32 %r2, %b, 10; atom.shared::cluster.add.u32 %r3, [%r1], %r2;
        red.shared::cluster.max.u32 [%r1], 1; {_MEET}
        cvt.u64.u32 %d0, %r1; cvta.shared::cluster.u64 %d0, %d0; atom.add.u32 %r4, [%d0], 100;
        {_MEET} ld.shared.u32 %r5, [%a]; mad.lo.u32 %r5, %r3, 10000, %r5; st.global.u32 [%g], %r5;
    """
    found = _run(body, cluster=(4, 1, 1))
    previous = np.arange(8) // 4 * 4 + (np.arange(8) - 1) % 4
    assert np.array_equal(found, np.tile((previous + 115 + 50000)[:, None], 64))


def test_special_registers_and_ranks() -> None:
    names = [
        *(f"%{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid")
          for axis in "xyz"),
        "%cluster_ctarank", "%cluster_nctarank",
    ]  # fmt: skip
    stores = "".join(
        f"mov.u32 %r0, {name}; st.global.u32 [%g+{4 * n}], %r0;" for n, name in enumerate(names)
    )
    body = f"""
        mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y;
        mad.lo.u32 %r2, %r2, %r4, %r1; mad.lo.u32 %r2, %r2, %r3, %b;
        mul.wide.u32 %g, %r2, 64; add.u64 %g, %g, %o; {stores}
        mov.pred %p, %is_explicit_cluster; selp.u32 %r0, 7, 9, %p; st.global.u32 [%g+56], %r0;
        mapa.shared::cluster.u32 %r1, sm, 3; getctarank.shared::cluster.u32 %r5, %r1;
        getctarank.shared::cluster.u32 %r6, sm; mad.lo.u32 %r5, %r5, 100, %r6;
        st.global.u32 [%g+60], %r5;
    """
    grid, cluster = (4, 6, 2), (2, 3, 1)
    (found,) = compare(_module(body), [bytes(48 * 64)], grid, (1, 1, 1), [None], cluster=cluster)
    rows = np.frombuffer(found, np.uint32).reshape(2, 6, 4, 16)
    for z, y, x in np.ndindex(2, 6, 4):
        place = np.array((x, y, z))
        inside, number = place % cluster, place // cluster
        rank = inside[0] + 2 * (inside[1] + 3 * inside[2])
        wanted = [*inside, *cluster, *number, 2, 2, 2, rank, 6, 7, 300 + rank]
        assert rows[z, y, x].tolist() == wanted


@pytest.mark.parametrize("cluster", [None, (1, 1, 1)])
def test_a_block_alone_is_its_own_peer(cluster: Shape | None) -> None:
    body = f"""
        st.shared.u32 [%a], %t; {_MEET} mapa.shared::cluster.u32 %r1, %a, 0;
        ld.shared::cluster.u32 %r0, [%r1]; mov.pred %p, %is_explicit_cluster;
        selp.u32 %r2, 1000, 0, %p; add.u32 %r0, %r0, %r2; add.u32 %r0, %r0, %size;
        st.global.u32 [%g], %r0;
    """
    found = _run(body, cluster=cluster)
    assert np.array_equal(found[0], np.arange(64) + 1 + (1000 if cluster else 0))


def test_an_address_means_the_same_in_all_blocks() -> None:
    """Block 0 stores the address of block 2's memory where block 1 finds it."""
    body = f"""
        mad.lo.u32 %r0, %b, 100, %t; st.shared.u32 [%a+256], %r0; {_MEET}
        setp.eq.u32 %p, %rank, 0; mapa.shared::cluster.u32 %r1, %a, 1; add.u32 %r3, %a, 256;
        mapa.shared::cluster.u32 %r2, %r3, 2; @%p st.shared::cluster.u32 [%r1], %r2; {_MEET}
        setp.eq.u32 %p, %rank, 1; @%p ld.shared.u32 %r4, [%a]; @%p ld.shared::cluster.u32 %r0, [%r4];
        st.global.u32 [%g], %r0; {_MEET}
    """
    found = _run(body, cluster=(4, 1, 1))
    rows = np.arange(8)
    assert np.array_equal(found, (rows + (rows % 4 == 1))[:, None] * 100 + np.arange(64))


def test_own_memory_at_its_mapped_address_is_the_same_memory() -> None:
    body = """
        mapa.shared::cluster.u32 %r1, %a, %rank; st.shared.u32 [%a], 1; st.shared::cluster.u32 [%r1], %t;
        ld.shared.u32 %r0, [%a]; st.shared.u32 [%a], 9; ld.shared::cluster.u32 %r2, [%r1];
        mad.lo.u32 %r0, %r0, 10, %r2; st.global.u32 [%g], %r0;
    """
    found = _run(body, cluster=(2, 1, 1), plans=3)
    assert np.array_equal(found, np.tile(np.arange(64) * 10 + 9, (8, 1)))


def test_the_memory_of_a_block_that_has_ended_remains_until_its_cluster_ends() -> None:
    body = f"""
        mad.lo.u32 %r0, %b, 10, 3; st.shared.u32 [%a], %r0; {_MEET}
        setp.eq.u32 %p, %rank, 0; @%p ret; mov.u32 %r3, 0;
        more: add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 20; bar.sync 0; @%p bra more;
        mapa.shared::cluster.u32 %r1, %a, 0; ld.shared::cluster.u32 %r0, [%r1]; st.global.u32 [%g], %r0;
    """
    found = _run(body, cluster=(2, 1, 1), blocks=4)
    assert found[:, 0].tolist() == [0, 3, 0, 23]


def test_threads_that_end_count_as_arrived() -> None:
    body = """
        add.u32 %r0, %b, %t; st.shared.u32 [%a], %r0; setp.ge.u32 %p, %t, 40; @%p ret;
        barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
        mov.u32 %r1, 0; xor.b32 %k, %rank, 1; mapa.shared::cluster.u32 %r2, %a, %k;
        ld.shared::cluster.u32 %r0, [%r2]; st.global.u32 [%g], %r0;
        barrier.cluster.arrive.relaxed; barrier.cluster.wait;
    """
    found = _run(body, cluster=(2, 1, 1), blocks=4, plans=3)
    wanted = (np.arange(4) ^ 1)[:, None] + np.arange(64)
    assert np.array_equal(found, np.where(np.arange(64) < 40, wanted, 0))


def test_a_histogram_in_distributed_shared_memory() -> None:
    """Each block of 4 counts a quarter of the 256 bins; threads update the bins of all blocks."""
    rng = np.random.default_rng(7)
    values = rng.integers(0, 256, 8 * 64 * 16, np.uint32)
    text = kernel(
        _START
        + f"""
        st.shared.u32 [%a], 0; {_MEET}
        ld.param.u64 %d0, [pv]; mov.u32 %k, %ntid.x; mad.lo.u32 %k, %b, %k, %t;
        mul.wide.u32 %d1, %k, 64; add.u64 %d0, %d0, %d1; mov.u32 %r0, 0;
        more: ld.global.u32 %r1, [%d0]; shr.u32 %r2, %r1, 6; and.b32 %r3, %r1, 63; shl.b32 %r3, %r3, 2;
        mov.u32 %r4, sm; add.u32 %r4, %r4, %r3; mapa.shared::cluster.u32 %r5, %r4, %r2;
        red.shared::cluster.add.u32 [%r5], 1;
        add.u64 %d0, %d0, 4; add.u32 %r0, %r0, 1; setp.lt.u32 %p, %r0, 16; @%p bra more; {_MEET}
        ld.shared.u32 %r1, [%a]; st.global.u32 [%g], %r1;
        """,
        ".param .u64 po, .param .u64 pv",
        registers=_REGISTERS,
    )
    found, _ = compare(
        compile_verified(text),
        [bytes(8 * 64 * 4), values.tobytes()],
        (8, 1, 1),
        (64, 1, 1),
        [None],
        cluster=(4, 1, 1),
    )
    halves = values.reshape(2, -1)
    wanted = [np.bincount(half, minlength=256) for half in halves]
    assert np.array_equal(np.frombuffer(found, np.uint32).reshape(2, 256), wanted)


def test_threads_of_a_peer_arrive_at_an_mbarrier() -> None:
    body = f"""
        setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [bar], 64;
        fence.mbarrier_init.release.cluster; {_MEET}
        {_NEXT} mapa.shared::cluster.u32 %r1, %a, %k; mad.lo.u32 %r0, %b, 100, %t;
        st.shared::cluster.u32 [%r1], %r0; mov.u32 %r2, bar; mapa.shared::cluster.u32 %r2, %r2, %k;
        mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r2];
        {_ASK} ld.shared.u32 %r0, [%a]; st.global.u32 [%g], %r0; {_MEET}
    """
    found = _run(body, cluster=(4, 1, 1))
    previous = np.arange(8) // 4 * 4 + (np.arange(8) - 1) % 4
    assert np.array_equal(found, previous[:, None] * 100 + np.arange(64))


_TO_PEER = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
_FROM_GLOBAL = (
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
)
_COMPLETES = "shared::cluster.mbarrier::complete_tx::bytes"


@pytest.mark.parametrize(
    ("send", "wanted"),
    [
        ("st.async.release.gpu.global.u32 [%g], %r0;", 1),
        ("st.async.mmio.release.sys.global.u32 [%g], %r0;", 1),
        (
            "cvt.u64.u32 %d0, %r0; mov.b128 %wide, {%d0, %d0}; and.b64 %g, %g, -16;"
            " st.async.mmio.release.gpu.global.b128 [%g], %wide;",
            1,
        ),
        ("st.async.release.sys.u32 [%g], %r0;", 1),
        ("st.async.release.gpu.global.b8 [%g], %r0;", 1),
        ("red.async.release.gpu.global.add.u32 [%g], %r0;", 7),
        ("red.async.mmio.release.sys.global.add.s32 [%g], %r0;", 7),
        ("cvt.u64.u32 %d0, %r0; and.b64 %g, %g, -8; red.async.release.gpu.add.s64 [%g], %d0;", 8),
    ],
)
def test_asynchronous_stores_and_sums_in_global_memory(send: str, wanted: int) -> None:
    body = f"mov.u32 %r0, 6; st.global.u32 [%g], %r0; mov.u32 %r0, 1; bar.sync 0; {send}"
    found = _run(body, cluster=None, blocks=2)
    assert (found[:, ::2] == wanted).all()


@pytest.mark.parametrize(
    ("expected", "send"),
    [
        (256, f"@%p {_TO_PEER} [%r1], [%r3], 256, [%r2];"),
        (256, f"st.async.weak.{_COMPLETES}.u32 [%r5], %r0, [%r2];"),
        (256, f"red.async.relaxed.cluster.{_COMPLETES}.add.u32 [%r5], %r0, [%r2];"),
        (512, f"st.async.{_COMPLETES}.v2.u32 [%r6], {{%r0, %r0}}, [%r2];"),
    ],
)
def test_bytes_arrive_in_a_peer(expected: int, send: str) -> None:
    body = f"""
        setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [bar], 1;
        @%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {expected};
        mad.lo.u32 %r0, %b, 100, %t; st.shared.u32 [%a+512], %r0; {_MEET}
        {_NEXT} mov.u32 %r3, sm; add.u32 %r3, %r3, 512; mov.u32 %r1, sm;
        mapa.shared::cluster.u32 %r5, %a, %k; mapa.shared::cluster.u32 %r1, %r1, %k;
        shl.b32 %r6, %t, 3; add.u32 %r6, %r6, %r1;
        mov.u32 %r2, bar; mapa.shared::cluster.u32 %r2, %r2, %k; {send}
        {_ASK} {"add.u32 %a, %a, %a; mov.u32 %r7, sm; sub.u32 %a, %a, %r7;" * (expected == 512)}
        ld.shared.u32 %r0, [%a]; st.global.u32 [%g], %r0; {_MEET}
    """
    found = _run(body, cluster=(4, 1, 1))
    previous = np.arange(8) // 4 * 4 + (np.arange(8) - 1) % 4
    assert np.array_equal(found, previous[:, None] * 100 + np.arange(64))


def test_a_multicast_copy_arrives_in_the_blocks_that_its_mask_names() -> None:
    body = f"""
        setp.eq.u32 %p, %t, 0; @%p mbarrier.init.shared::cta.b64 [bar], 1;
        setp.ne.u32 %q, %rank, 1; and.pred %q, %p, %q;
        @%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256; st.shared.u32 [%a], 77; {_MEET}
        setp.eq.u32 %q, %rank, 0; and.pred %q, %p, %q; mov.u16 %h, 13; add.u64 %d0, %o, 4096;
        @%q {_FROM_GLOBAL} [sm], [%d0], 256, [bar], %h;
        setp.eq.u32 %p, %rank, 1; @%p bra done;
        {_ASK}
        done: ld.shared.u32 %r0, [%a]; st.global.u32 [%g], %r0; {_MEET}
    """
    data = np.arange(64, dtype=np.uint32) * 3
    (found,) = compare(
        _module(body),
        [bytes(4096) + data.tobytes()],
        (4, 1, 1),
        (64, 1, 1),
        [None],
        cluster=(4, 1, 1),
    )
    rows = np.frombuffer(found[:1024], np.uint32).reshape(4, 64)
    for rank in range(4):
        assert np.array_equal(rows[rank], [77] * 64 if rank == 1 else data)


def test_a_cluster_that_polls_between_barriers_waits_for_clusters_that_start_later() -> None:
    """Each block counts itself; all meet at their cluster's barrier until all have counted."""
    body = f"""
        setp.eq.u32 %p, %t, 0; mov.u32 %r1, %nctaid.x; @%p atom.global.add.u32 %r2, [%o], 1;
        more: @%p ld.acquire.gpu.global.u32 %r3, [%o]; @%p st.shared.u32 [sm], %r3;
        {_MEET} mapa.shared::cluster.u32 %r5, sm, 0; ld.shared::cluster.u32 %r4, [%r5]; {_MEET}
        setp.lt.u32 %q, %r4, %r1; @%q bra more;
    """
    (found,) = compare(_module(body), [bytes(64)], (8, 1, 1), (64, 1, 1), [None], cluster=(2, 1, 1))
    assert np.frombuffer(found, np.uint32)[0] == 8


def test_all_blocks_that_fit_on_a_device_read_the_memory_of_all_their_peers() -> None:
    """More mappings would be needed than a process may have, if all of them remained."""
    blocks, size = 2048, 16
    body = f"""
        add.u32 %r0, %b, 7; st.shared.u32 [%a], %r0; setp.eq.u32 %p, %t, 0; mov.u32 %r1, %nctaid.x;
        {_MEET} mov.u32 %r2, 0; mov.u32 %k, 0;
        next: mapa.shared::cluster.u32 %r3, %a, %k; ld.shared::cluster.u32 %r4, [%r3];
        add.u32 %r2, %r2, %r4; add.u32 %k, %k, 1; setp.lt.u32 %q, %k, %size; @%q bra next;
        @%p st.global.u32 [%g+1024], %r2; @!%p bra met; atom.global.add.u32 %r5, [%o], 1;
        wait: ld.acquire.gpu.global.u32 %r5, [%o]; setp.lt.u32 %q, %r5, %r1; @%q bra wait;
        met: {_MEET} sub.u32 %k, %size, 1; sub.u32 %k, %k, %rank; mapa.shared::cluster.u32 %r3, %a, %k;
        ld.shared::cluster.u32 %r4, [%r3]; @%p st.global.u32 [%g+1028], %r4; {_MEET}
    """
    module, bench = _module(body), Bench(bytes(1024 + blocks * 8))
    try:
        parameters = native_launch.pack(module.functions[0].parameters, 8, bench.addresses())
        (found,) = bench.execute(
            module, (blocks, 1, 1), (2, 1, 1), parameters, None, cluster=(size, 1, 1)
        )
    finally:
        bench.close()
    rows = np.frombuffer(found[1024:], np.uint32).reshape(blocks, 2)
    first = np.arange(blocks) // size * size
    assert np.array_equal(rows[:, 0], (first + 7) * size + size * (size - 1) // 2)
    assert np.array_equal(rows[:, 1], first + size - 1 - np.arange(blocks) % size + 7)


def _faults(body: str, wanted: type[Exception]) -> native_launch.Ended:
    """Run a body that faults on both backends; return how the native code ended."""
    module, bench = _module(body), Bench(bytes(4096))
    try:
        parameters = native_launch.pack(module.functions[0].parameters, 8, bench.addresses())
        with pytest.raises(wanted):
            bench.interpret(module, (4, 1, 1), (64, 1, 1), parameters, cluster=(2, 1, 1))
        ended: list[native_launch.Ended] = []

        def run(*arguments: object) -> native_launch.Ended:
            ended.append(plain(*arguments))  # type: ignore[arg-type]
            return native_launch.Ended(0, 0)

        plain = native_launch.run
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native_launch, "run", run)
            bench.execute(module, (4, 1, 1), (64, 1, 1), parameters, None, cluster=(2, 1, 1))
        return ended[0]
    finally:
        bench.close()


@pytest.mark.parametrize(
    "access",
    [
        "mapa.shared::cluster.u32 %r1, %a, 2; ld.shared::cluster.u32 %r0, [%r1];",
        "mapa.shared::cluster.u32 %r1, %a, 0xffffffff; st.shared::cluster.u32 [%r1], 1;",
        "mapa.shared::cluster.u32 %r1, %a, 1; ld.shared::cluster.u32 %r0, [%r1+65536];",
        "mapa.shared::cluster.u32 %r1, %a, 1; atom.shared::cluster.add.u32 %r0, [%r1+-4096], 1;",
        "cvt.u64.u32 %d0, %a; cvta.shared.u64 %d0, %d0; mapa.u64 %d0, %d0, 5; st.u32 [%d0], 1;",
    ],
)
def test_no_access_leaves_the_memory_of_the_cluster(access: str) -> None:
    ended = _faults(f"{_MEET} {access} st.global.u32 [%g], %r0; {_MEET}", AddressFault)
    assert ended.signal == 11


@pytest.mark.parametrize(
    "body",
    [
        "barrier.cluster.arrive; barrier.cluster.arrive;",
        "barrier.cluster.wait;",
        f"setp.eq.u32 %p, %rank, 0; @%p bra on; barrier.cluster.arrive; barrier.cluster.wait; on: {_MEET}"
        " @!%p bra out; barrier.cluster.arrive; bar.sync 1, 96; out: @%p barrier.cluster.wait;",
        "setp.eq.u32 %p, %rank, 0; @%p bar.sync 1, 96; barrier.cluster.arrive; barrier.cluster.wait;",
    ],
)
def test_misuse_of_the_clusters_barrier_ends_the_kernel(body: str) -> None:
    assert _faults(body, BarrierFault).status == _FAILED


def test_native_code_and_the_instruction_set_place_ranks_alike() -> None:
    assert address_map.CLUSTER_STEP_BYTES == 1 << CLUSTER_RANK_SHIFT
    assert address_map.CLUSTER_FIRST_STEP == FIRST_RANK_FIELD


def test_a_cluster_must_divide_the_grid() -> None:
    module = _module("ret;")
    for cluster in ((3, 1, 1), (0, 1, 1), (32, 1, 1)):
        with pytest.raises(ValueError, match="cluster"):
            interp.run(
                module, module.functions[0], (8, 1, 1), (1, 1, 1), bytes(8),
                interp.BufferMemory(0, bytearray(64)), cluster=cluster,
            )  # fmt: skip
    most = _module("ret;", ".maxclusterrank 2")
    with pytest.raises(ValueError, match="at most 2 blocks in a cluster"):
        interp.run(
            most, most.functions[0], (8, 1, 1), (1, 1, 1), bytes(8),
            interp.BufferMemory(0, bytearray(64)), cluster=(4, 1, 1),
        )  # fmt: skip
    required = _module("ret;", ".reqnctapercluster 2, 2 .explicitcluster").functions[0]
    assert required.required_cluster == (2, 2, 1)
    assert math.prod(required.required_cluster) == 4


@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_a_block_waits_for_its_cluster_as_one_group(barrier: str) -> None:
    """Values of a whole block are live across the barriers, whose threads are one fiber."""
    body = f"""
        mov.u32 %r0, 0; mad.lo.u32 %r1, %rank, 7, %t;
        again:
        mad.lo.u32 %r1, %r1, 3, 1; st.shared.u32 [%a], %r1; {barrier} {_MEET}
        {_NEXT} mapa.shared::cluster.u32 %r2, %a, %k; ld.shared::cluster.u32 %r3, [%r2];
        add.u32 %r1, %r1, %r3; {_MEET}
        add.u32 %r0, %r0, 1; setp.lt.u32 %q, %r0, 5; @%q bra again;
        st.global.u32 [%g], %r1;
    """
    block = (256, 1, 1)
    spans = {plan.width * plan.vectors for plan in compiler().legal_plans(_module(body), block)}
    assert 256 in spans
    assert 64 not in spans
    found = _run(body, cluster=(4, 1, 1), threads=256, plans=50)
    own = np.arange(8)[:, None] % 4 * 7 + np.arange(256)
    for _ in range(5):
        own = own * 3 + 1
        own = own + own[_peers(8, 4)]
    assert np.array_equal(found, own.astype(np.uint32))
