"""Lanes at known distances: records, fields, overlapping stores, and reordered vectors."""

import numpy as np
import pytest

from support.execution.both_backends import compare, compiler
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit

_THREADS = 128


def _agree(body: str, words: int) -> None:
    """Run ``body`` in a block under both executors and some plans: ``%p`` is the thread's place in
    ``in`` times ``stride`` bytes.
    """
    module = compile_ptx(
        f""".version 8.6\n.target sm_90\n.address_size 64
        .visible .entry k(.param .u64 out, .param .u64 in)
        {{ .reg .b64 %out, %in, %p, %q, %w; .reg .b32 %t, %i, %j, %r<40>; .reg .f32 %f<8>;
        .shared .align 16 .b8 tile[8192];
        ld.param.u64 %out, [out]; ld.param.u64 %in, [in]; mov.u32 %t, %tid.x;
        {body} ret; }}""",
        capability=(9, 0),
    )
    assert module.refused == ()
    block = (_THREADS, 1, 1)
    data = np.random.default_rng(7).integers(0, 1 << 32, words, np.uint32).tobytes()
    wide = [jit.Plan(16, 8), jit.Plan(4, 1), jit.Plan(1, 1)]
    legal = set(compiler().legal_plans(module, block))
    plans = [None, *(plan for plan in wide if plan in legal)]
    compare(module, [bytes(4 * words), data], (1, 1, 1), block, plans)


@pytest.mark.parametrize("fields", [3, 8])
def test_records_are_read_and_written_field_by_field(fields: int) -> None:
    """The last field is stored twice, and one that is loaded is stored in between."""
    reads = "".join(f"ld.global.u32 %r{n}, [%p+{4 * n}];" for n in range(fields))
    writes = "".join(
        f"add.u32 %r{n}, %r{n}, %t; st.global.u32 [%q+{4 * n}], %r{n};" for n in range(fields)
    )
    body = f"""mul.wide.u32 %p, %t, {4 * fields}; add.u64 %q, %out, %p; add.u64 %p, %in, %p;
        {reads} {writes} st.global.u32 [%q+{4 * fields - 4}], %t;
        ld.global.u32 %r30, [%q]; add.u32 %r30, %r30, 3; st.global.u32 [%q], %r30;"""
    _agree(body, fields * _THREADS)


def test_fields_with_gaps_and_pairs() -> None:
    body = """mul.wide.u32 %p, %t, 24; add.u64 %q, %out, %p; add.u64 %p, %in, %p;
        ld.global.v2.u32 {%r0, %r1}, [%p+8]; ld.global.u32 %r2, [%p+20];
        st.global.u32 [%q+4], %r2; st.global.v2.u32 [%q+16], {%r1, %r0};"""
    _agree(body, 6 * _THREADS)


@pytest.mark.parametrize("combined", ["or", "xor"])
def test_places_composed_of_bits_of_the_thread_index(combined: str) -> None:
    """As in an FFT: groups of four threads write every fourth group, through shared memory."""
    body = f"""and.b32 %i, %t, 3; shl.b32 %j, %t, 2; and.b32 %j, %j, -16; {combined}.b32 %i, %i, %j;
        mul.wide.u32 %p, %t, 16; add.u64 %p, %in, %p; mul.wide.u32 %q, %i, 4;
        mov.u64 %w, tile; add.u64 %q, %w, %q;
        ld.global.u32 %r0, [%p]; ld.global.u32 %r1, [%p+4]; ld.global.u32 %r2, [%p+8];
        ld.global.u32 %r3, [%p+12];
        st.shared.u32 [%q], %r0; st.shared.u32 [%q+16], %r1; st.shared.u32 [%q+32], %r2;
        st.shared.u32 [%q+48], %r3; bar.sync 0;
        and.b32 %i, %t, -4; mul.wide.u32 %p, %i, 4; add.u64 %p, %in, %p;
        ld.global.u32 %r4, [%p+4];
        xor.b32 %i, %t, 5; mul.wide.u32 %q, %i, 16; add.u64 %q, %w, %q;
        ld.shared.u32 %r5, [%q]; ld.shared.u32 %r6, [%q+12]; add.u32 %r5, %r5, %r4;
        mul.wide.u32 %q, %t, 8; add.u64 %q, %out, %q;
        st.global.u32 [%q], %r5; st.global.u32 [%q+4], %r6;"""
    _agree(body, 4 * _THREADS)


def test_each_thread_reads_its_own_stores_where_vectors_are_reordered() -> None:
    """Many values are live between accesses of a thread; one access has a uniform address."""
    turns = "".join(
        f"""ld.shared.u32 %r{n}, [%q+{512 * n}]; mad.lo.u32 %r{n}, %r{n}, {2 * n + 3}, %t;
        st.shared.u32 [%q+{512 * n}], %r{n}; ld.global.u32 %r{16 + n}, [%in+{4 * n}];
        add.u32 %r{16 + n}, %r{16 + n}, %r{n};"""
        for n in range(14)
    )
    sums = "".join(f"xor.b32 %r0, %r0, %r{n};" for n in range(1, 30) if n not in (14, 15))
    body = f"""mul.wide.u32 %p, %t, 4; mov.u64 %w, tile; add.u64 %q, %w, %p; {turns} {sums}
        ld.shared.u32 %r1, [%q+512]; add.u32 %r0, %r0, %r1; add.u64 %p, %out, %p;
        st.global.u32 [%p], %r0;"""
    _agree(body, 16 * _THREADS)


@pytest.mark.parametrize("mask", [0x8100_00F1, 0x3_FFFF])
def test_lanes_that_match_in_a_field(mask: int) -> None:
    body = f"""mul.wide.u32 %p, %t, 4; add.u64 %q, %in, %p; add.u64 %p, %out, %p;
        ld.global.u32 %r0, [%q]; and.b32 %r0, %r0, {mask}; mov.u32 %r1, %laneid;
        match.any.sync.b32 %r2, %r0, -1; shr.u32 %r3, %r0, 5; or.b32 %r3, %r3, 16;
        match.any.sync.b32 %r4, %r3, -1; add.u32 %r2, %r2, %r4; st.global.u32 [%p], %r2;"""
    _agree(body, _THREADS)
