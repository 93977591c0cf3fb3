"""cp.async and mbarrier: supported forms, and their effects on the interpreter."""

import numpy as np
import pytest

from support.execution.interpreted_ptx import compile_verified, kernel, run
from vgpu_sim.compiler.errors import InvalidPtxError, UnsupportedPtxError
from vgpu_sim.exec.errors import AddressFault, MisalignedFault
from vgpu_sim.isa import Instruction, Literal, Op, Space, Update

_REGISTERS = """
    .reg .b64 %a, %o, %g, %d<9>, %policy; .reg .b32 %t, %s, %r<9>; .reg .pred %p, %q;
    .shared .align 16 .b8 sm[1024]; .shared .b64 bar;
"""


def _words(line: str) -> tuple[Instruction, ...]:
    text = kernel(line, registers=_REGISTERS).replace("sm_80", "sm_90")
    return compile_verified(text).functions[0].code[:-1]


@pytest.mark.parametrize(
    ("line", "ops", "count"),
    [
        ("cp.async.ca.shared.global [%s], [%a], 4;", "LD ST", 1),
        ("cp.async.ca.shared::cta.global.L2::128B [%s+8], [%a+8], 8;", "LD ST", 2),
        ("cp.async.cg.shared.global [sm], [%a], 16;", "LD ST", 4),
        ("cp.async.cg.shared.global.L2::cache_hint [%s], [%a], 16, %policy;", "LD ST", 4),
        ("cp.async.cg.shared.global [%s], [%a], 16, 16;", "LD ST", 4),
        ("cp.async.cg.shared.global [%s], [%a], 16, %r1;", "LD_ZFILL ST", 4),
        ("cp.async.ca.shared.global [%s], [%a+4], 8, 3;", "ADD LD_ZFILL ST", 2),
        ("cp.async.cg.shared.global [%s], [%a], 16, %p;", "SELP LD_ZFILL ST", 4),
        ("cp.async.cg.shared.global [%s], [%a], 16, !%p;", "NOT SELP LD_ZFILL ST", 4),
        ("cp.async.cg.shared.global.L2::cache_hint [%s], [%a], 16, %r1, %policy;",
         "LD_ZFILL ST", 4),
    ],
)  # fmt: skip
def test_a_copy_is_a_load_and_a_store(line: str, ops: str, count: int) -> None:
    code = _words(line)
    assert [word.op.name for word in code] == ops.split()
    store = code[-1]
    assert (store.space, store.vector, store.srcs[1:]) == (Space.SHARED, count, code[-2].dsts)
    assert code[-2].space is Space.GLOBAL


@pytest.mark.parametrize("line", ["commit_group;", "wait_all;", "wait_group 3;"])
def test_there_is_nothing_to_wait_for(line: str) -> None:
    assert _words(f"cp.async.{line}") == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cp.async.cg.shared.global [%s], [%a], 8;", "the size of cp.async.cg must be 16 bytes"),
        (
            "cp.async.ca.shared.global [%s], [%a], 12;",
            "the size of cp.async.ca must be 4 or 8 or 16 bytes",
        ),
        ("cp.async.ca.shared.global [%s], [%a], %r1;", "must be 4 or 8 or 16 bytes"),
        ("cp.async.wait_group %r1;", "the number of groups must be a constant of at least 0"),
        (
            "mbarrier.init.shared.b64 [bar], 0;",
            "the count of an mbarrier must be 1 to 1048575, not 0",
        ),
        ("mbarrier.arrive.shared.b64 %d1, [bar], 1048576;", "the count of an mbarrier"),
        ("mbarrier.arrive.shared::cluster.b64 %d1, [bar];", "cannot return a state"),
        ("mbarrier.test_wait.shared.b64 %r1, [bar], %d1;", "not a predicate"),
        ("mbarrier.arrive.shared.b64 %r1, [bar];", "32 bits"),
        (
            "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 1048576;",
            "transactions must be 0 to 1048575, not 1048576",
        ),
        (
            "mbarrier.arrive.expect_tx.shared::cluster.b64 %d1, [%s], 4;",
            "cannot return a state",
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%a], [%s], 24;",
            "must be a multiple of 16 bytes, not 24",
        ),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%a], [%s], 16;",
            ".add.f16 needs .noftz",
        ),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.and.u32 [%a], [%s], 16;",
            ".and of .u32 does not exist in .global memory",
        ),
        ("cp.async.bulk.wait_group %r1;", "the number of groups must be a constant of at least 0"),
    ],
)
def test_invalid_forms_are_rejected(line: str, message: str) -> None:
    with pytest.raises((InvalidPtxError, UnsupportedPtxError), match=message):
        _words(line)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_bytes_behind_the_source_size_are_zeros(size: int) -> None:
    """An address from which no byte is read may have any value."""
    text = kernel(
        f"""
        ld.param.u64 %a, [pa]; ld.param.u64 %o, [po]; mov.u32 %t, %tid.x;
        mad.wide.u32 %a, %t, {size}, %a;
        mov.u32 %s, sm; mad.lo.u32 %s, %t, {size}, %s;
        setp.eq.u32 %p, %t, 0; @%p mov.b64 %a, 3;
        cp.async.ca.shared.global [%s], [%a], {size}, %t;
        cp.async.wait_all;
        mad.wide.u32 %o, %t, {size}, %o;
        mov.u32 %r1, 0;
        again: ld.shared.u8 %r0, [%s]; st.global.u8 [%o], %r0;
        add.u32 %s, %s, 1; add.u64 %o, %o, 1; add.u32 %r1, %r1, 1;
        setp.lt.u32 %p, %r1, {size}; @%p bra again;
        """,
        ".param .u64 pa, .param .u64 po",
        registers=_REGISTERS,
    )
    data = np.arange(1, 24 * size + 1, dtype=np.uint8)
    _, out = run(text, [data, np.full(24 * size, 0xEE, np.uint8)], block=(24, 1, 1))
    rows = data.reshape(24, size).copy()
    for t in range(24):
        rows[t, t:] = 0
    assert out.reshape(24, size).tolist() == rows.tolist()


def test_a_copy_faults_as_an_access_does() -> None:
    text = kernel(
        "ld.param.u64 %a, [p]; add.u64 %a, %a, OFFSET;"
        " cp.async.ca.shared.global [sm], [%a], 8, SIZE;",
        ".param .u64 p",
        registers=_REGISTERS,
    )
    for offset, size, fault in (
        (4, "%t", None),
        (4, "4", MisalignedFault),
        (64, "1", AddressFault),
    ):
        changed = text.replace("OFFSET", str(offset)).replace("SIZE", size)
        if fault is None:
            run(changed, [np.zeros(4, np.uint64)])
            continue
        with pytest.raises(fault):
            run(changed, [np.zeros(4, np.uint64)])


class _Barrier:
    """An mbarrier object as PTX describes it."""

    def __init__(self, count: int) -> None:
        self.expected = self.pending = count
        self.phase = 0

    def arrive(self, count: int, drop: bool) -> tuple[int, int]:
        before = (self.phase, self.pending)
        self.pending -= count
        if drop:
            self.expected -= count
        if self.pending == 0:
            self.phase += 1
            self.pending = self.expected
        return before


@pytest.mark.parametrize("space", [".shared", ".shared::cta", ""])
def test_arrivals_complete_phases(space: str) -> None:
    """Every seventh thread uses arrive_drop, before the other threads; all arrive with count 2."""
    where = "[bar]" if space else "[%g]"
    text = kernel(
        f"""
        ld.param.u64 %o, [po]; mov.u32 %t, %tid.x; mad.wide.u32 %o, %t, 16, %o;
        mov.u64 %g, bar; cvta.shared.u64 %g, %g;
        setp.eq.u32 %p, %t, 0; mov.u32 %r1, 200;
        @%p mbarrier.init{space}.b64 {where}, %r1;
        bar.sync 0;
        mov.u32 %r1, 2;
        rem.u32 %r2, %t, 7; setp.eq.u32 %q, %r2, 0;
        @%q mbarrier.arrive_drop{space}.b64 %d0, {where}, %r1;
        @!%q mbarrier.arrive.release.cta{space}.b64 %d0, {where}, %r1;
        bar.sync 0;
        mbarrier.pending_count.b64 %r3, %d0;
        st.global.u32 [%o], %r3;
        mbarrier.test_wait{space}.b64 %p, {where}, %d0; selp.u32 %r4, 1, 0, %p;
        st.global.u32 [%o+4], %r4;
        mbarrier.try_wait.parity.acquire.cta{space}.b64 %p, {where}, 0, 1000;
        selp.u32 %r4, 1, 0, %p; st.global.u32 [%o+8], %r4;
        mbarrier.test_wait.parity{space}.b64 %p, {where}, 1;
        selp.u32 %r4, 1, 0, %p; st.global.u32 [%o+12], %r4;
        """,
        ".param .u64 po",
        registers=_REGISTERS,
    )
    (out,) = run(text, [np.zeros((128, 4), "<u4")], block=(128, 1, 1))
    barrier, olds = _Barrier(200), {}
    for drops in (True, False):
        for t in range(128):
            if (t % 7 == 0) == drops:
                olds[t] = barrier.arrive(2, drops)
    assert barrier.phase == 1
    assert any(phase for phase, _ in olds.values())
    for t in range(128):
        phase, pending = olds[t]
        assert out[t].tolist() == [pending, phase != barrier.phase, 1, 0], t


def test_states_and_sinks() -> None:
    (word,) = _words("mbarrier.arrive.shared.b64 %d1, [bar];")
    assert (word.op, word.update, word.srcs[1]) == (Op.ATOM, Update.ARRIVE, Literal(1))
    (word,) = _words("mbarrier.arrive.shared::cluster.b64 _, [%s], 2;")
    assert (word.op, word.update, word.srcs[1]) == (Op.RED, Update.ARRIVE, Literal(2))
    (word,) = _words("mbarrier.arrive_drop.noComplete.shared.b64 %d1, [bar], 2;")
    assert (word.op, word.update) == (Op.ATOM, Update.DROP)
    (word,) = _words("mbarrier.inval.shared.b64 [bar];")
    assert (word.op, word.volatile, word.srcs[1]) == (Op.ST, True, Literal(0))
    (word,) = _words("cp.async.mbarrier.arrive.noinc.shared.b64 [bar];")
    assert (word.op, word.update, word.srcs[1]) == (Op.RED, Update.ARRIVE, Literal(1))
    (word,) = _words("cp.async.mbarrier.arrive.shared.b64 [bar];")
    assert (word.op, word.update, word.srcs[1]) == (Op.RED, Update.OR, Literal(0))
