"""Rows of the binding that no other test executes: one thread, both executors, all legal plans."""

import numpy as np

from support.execution.both_backends import compare, compiler
from vgpu_sim.compiler import compile_ptx


def _run(body: str, words: int) -> list[int]:
    """Return what a thread has stored to ``out``; ``in`` holds the bytes 0, 1, 2 and so on."""
    module = compile_ptx(
        f""".version 8.6\n.target sm_90\n.address_size 64
        .visible .entry k(.param .u64 out, .param .u64 in)
        {{ .reg .b64 %out, %in, %policy, %s<4>; .reg .b32 %r<9>; .reg .pred %p<6>;
        .shared .align 16 .b8 tile[64]; .shared .align 8 .b64 m;
        ld.param.u64 %out, [out]; ld.param.u64 %in, [in];
        createpolicy.fractional.L2::evict_last.b64 %policy, 1.0;
        {body} ret; }}""",
        capability=(9, 0),
    )
    assert module.refused == ()
    plans = [None, *compiler().legal_plans(module, (1, 1, 1))]
    buffers = [bytes(4 * words), bytes(range(64))]
    out, _ = compare(module, buffers, (1, 1, 1), (1, 1, 1), plans)
    found: list[int] = np.frombuffer(out, "<u4").tolist()
    return found


def _flags(count: int) -> str:
    return "".join(
        f"selp.b32 %r{n}, 1, 0, %p{n}; st.global.b32 [%out+{4 * n}], %r{n};" for n in range(count)
    )


def test_arrivals_without_completion_and_with_drop() -> None:
    """Of three expected arrivals one drops out, so the next phase expects two."""
    body = """mbarrier.init.shared.b64 [m], 3;
        mbarrier.arrive.noComplete.release.cta.shared.b64 %s0, [m], 1;
        mbarrier.test_wait.shared.b64 %p0, [m], %s0;
        mbarrier.arrive_drop.release.cta.shared.b64 %s1, [m];
        mbarrier.test_wait.shared.b64 %p1, [m], %s0;
        mbarrier.arrive.shared.b64 %s1, [m];
        mbarrier.try_wait.acquire.cta.shared::cta.b64 %p2, [m], %s0;
        mbarrier.arrive.shared.b64 %s2, [m]; mbarrier.test_wait.shared.b64 %p3, [m], %s2;
        mbarrier.arrive_drop.shared.b64 %s3, [m], 1; mbarrier.test_wait.shared.b64 %p4, [m], %s2;"""
    assert _run(body + _flags(5), 5) == [0, 0, 1, 0, 1]


def test_fences_of_one_proxy_change_no_value() -> None:
    body = """st.global.b32 [%out], 7; membar.proxy.alias;
        fence.release.sync_restrict::shared::cta.cluster;
        fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;
        ld.global.b32 %r0, [%out]; st.global.b32 [%out+4], %r0;"""
    assert _run(body, 2) == [7, 7]


def test_asynchronous_copies_with_sizes_and_a_policy() -> None:
    body = """st.shared.v4.b32 [tile], {-1, -1, -1, -1}; mov.b32 %r4, 4;
        cp.async.ca.shared.global.L2::cache_hint [tile], [%in+8], 8, %policy;
        cp.async.ca.shared.global.L2::cache_hint.L2::128B [tile+8], [%in+16], 8, %r4, %policy;
        cp.async.wait_all; ld.shared.v4.b32 {%r0, %r1, %r2, %r3}, [tile];
        st.global.v4.b32 [%out], {%r0, %r1, %r2, %r3};"""
    assert _run(body, 4) == [0x0B0A0908, 0x0F0E0D0C, 0x13121110, 0]
