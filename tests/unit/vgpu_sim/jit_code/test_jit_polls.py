"""The loops that wait for other threads, and the lane groups that may wait in them as one."""

import pytest

from support.kernels import ptx_kernels, waiting_kernels
from vgpu_sim import compiler
from vgpu_sim.exec import jit
from vgpu_sim.exec.jit.analysis.value_shapes import analyse
from vgpu_sim.exec.jit.ir import divergence, ssa
from vgpu_sim.exec.jit.planning import choose
from vgpu_sim.exec.jit.progress import lockstep, polling_loops, wait_points
from vgpu_sim.exec.jit.shapes.geometry import Geometry

_BLOCK = (64, 1, 1)
_PLACE = "mul.wide.u32 %d3, %r3, 4; add.u64 %d3, %d1, %d3;"
_WAIT = "ld.volatile.global.u32 %r9, [{}]; setp.eq.u32 %p9, %r9, 0; @%p9 bra W;"
_FIRST = "setp.ne.u32 %p0, %r0, 0; @%p0 bra E;"
_OWN = ".local .align 8 .b8 own[16]; mov.u64 %d4, own; cvta.local.u64 %d5, %d4;"
_READS = "ld.volatile.global.u32 %r9, [%d1];"
_REPEATS = "setp.eq.u32 %p1, %r8, 0; @%p1 bra L;"


def _form(body: str) -> ssa.SsaFunction:
    return ssa.build(waiting_kernels.kernel(body, 2).functions[0])


def _spans(body: str) -> set[int]:
    function = waiting_kernels.kernel(body, 2).functions[0]
    return {plan.width * plan.vectors for plan in jit.legal_plans(function, _BLOCK)}


@pytest.mark.parametrize(
    "body",
    [
        f"W: {_WAIT.format('%d1')}",
        # A bounded wait, and one with two exits.
        "mov.u32 %r8, 0; L: ld.volatile.global.u32 %r9, [%d1]; setp.ne.u32 %p1, %r9, 0; @%p1 bra X;"
        " add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 1000; @%p2 bra L; X:",
        # The value read decides only on a path to the end.
        "mov.u32 %r8, 0; L: ld.volatile.global.u32 %r9, [%d1]; setp.eq.u32 %p1, %r9, 0;"
        " @%p1 bra N; add.u32 %r8, %r8, 1; N: setp.lt.u32 %p2, %r8, 10; @%p2 bra L;",
        "L: ld.volatile.global.u32 %r9, [%d1]; setp.eq.u32 %p1, %r9, 0; selp.u32 %r8, 1, 0, %p1;"
        " xor.b32 %r8, %r8, 7; setp.eq.u32 %p2, %r8, 6; @%p2 bra L;",
        # Plain reads of memory that the loop does not change, and a loop without an end.
        "L: ld.global.u32 %r9, [%d1]; setp.eq.u32 %p1, %r9, 0; @%p1 bra L;",
        "L: bra L;",
        "L: ld.shared.u32 %r9, [tile]; setp.eq.u32 %p1, %r9, %r0; @%p1 bra L;",
        "L: mov.u64 %d5, %clock64; setp.lt.u64 %p1, %d5, %d2; @%p1 bra L;",
        # Atomic updates that do not change the value.
        "L: atom.add.global.u32 %r9, [%d1], 0; setp.eq.u32 %p1, %r9, 0; @%p1 bra L;",
        "L: atom.cas.global.b32 %r9, [%d1], 0, 1; setp.ne.u32 %p1, %r9, 0; @%p1 bra L;",
        "L: atom.exch.global.b32 %r9, [%d1], 1; setp.ne.u32 %p1, %r9, 0; @%p1 bra L;",
        "L: atom.add.global.u32 %r9, [%d1], %r0; setp.eq.u32 %p1, %r9, 0; @%p1 bra L;",
        # The value read is stored before it decides: in the thread's local memory, by either kind
        # of address, or with a pointer to it there; in shared memory, where one lane reads for its
        # warp.
        f"{_OWN} L: {_READS} st.local.u32 [own+4], %r9; ld.local.u32 %r8, [own+4]; {_REPEATS}",
        f"{_OWN} L: {_READS} st.u32 [%d5+4], %r9; add.u64 %d6, %d5, 4; ld.u32 %r8, [%d6];"
        f" {_REPEATS}",
        f"{_OWN} st.u64 [%d5+8], %d5; L: {_READS} ld.u64 %d6, [%d5+8]; st.u32 [%d6], %r9;"
        f" ld.u32 %r8, [%d5]; {_REPEATS}",
        f"{_OWN} st.u32 [%d5], 0; L: {_READS} setp.eq.u32 %p2, %r9, 0; @%p2 bra N;"
        f" st.u32 [%d5], 1; N: ld.u32 %r8, [%d5]; {_REPEATS}",
        f"L: setp.ne.u32 %p2, %r0, 0; @%p2 bra N; {_READS} st.shared.u32 [tile], %r9;"
        f" N: bar.warp.sync -1; ld.shared.u32 %r8, [tile]; {_REPEATS}",
        # Swaps of the value read, but not in each iteration, or of another value.
        "ld.global.u32 %r8, [%d1]; L: setp.eq.u32 %p2, %r8, 1; mov.u32 %r9, %r8; @%p2 bra N;"
        " atom.cas.global.b32 %r9, [%d1], %r8, 1; setp.eq.u32 %p3, %r9, %r8; @%p3 bra X;"
        " N: ld.volatile.global.u32 %r8, [%d1]; bra L; X:",
        "ld.global.u32 %r8, [%d1]; L: and.b32 %r7, %r8, 254;"
        " atom.cas.global.b32 %r9, [%d1], %r7, 1; setp.ne.u32 %p3, %r9, %r7; mov.u32 %r8, %r9;"
        " @%p3 bra L;",
    ],
)
def test_loops_that_poll(body: str) -> None:
    assert len(polling_loops.polling_headers(_form(body))) == 1


@pytest.mark.parametrize(
    "body",
    [
        "mov.u32 %r8, 0; L: add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, %r0; @%p1 bra L;",
        # The value read decides what is done, not how often.
        f"{_PLACE} mov.u32 %r8, 0; L: ld.volatile.global.u32 %r9, [%d1]; setp.lt.u32 %p1, %r9, 5;"
        " @%p1 bra N; st.global.u32 [%d3], %r9; N: add.u32 %r8, %r8, 1;"
        " setp.lt.u32 %p2, %r8, 10; @%p2 bra L;",
        # Plain reads of memory that changes, or that the loop itself may change.
        "mov.u32 %r8, 0; L: ld.global.u32 %r9, [%d1]; add.u32 %r8, %r8, %r9;"
        " setp.lt.u32 %p1, %r8, 1000; @%p1 bra L;",
        "L: ld.global.u32 %r9, [%d1]; sub.u32 %r9, %r9, 1; st.global.u32 [%d1], %r9;"
        " setp.ne.u32 %p1, %r9, 0; @%p1 bra L;",
        # Counting in memory, or swapping in a function of the value just read.
        "L: atom.add.global.u32 %r9, [%d1], 1; setp.lt.u32 %p1, %r9, 1000; @%p1 bra L;",
        "L: atom.inc.global.u32 %r9, [%d1], 99; setp.lt.u32 %p1, %r9, 50; @%p1 bra L;",
        "ld.global.u32 %r8, [%d1]; L: add.u32 %r7, %r8, %r0;"
        " atom.cas.global.b32 %r9, [%d1], %r8, %r7; setp.ne.u32 %p3, %r9, %r8; mov.u32 %r8, %r9;"
        " @%p3 bra L;",
        "L: ld.volatile.global.u32 %r8, [%d1]; add.u32 %r7, %r8, %r0;"
        " atom.cas.global.b32 %r9, [%d1], %r8, %r7; setp.eq.u32 %p3, %r9, %r8; @!%p3 bra L;",
        # It is stored elsewhere: in other bytes, another space, or through another pointer.
        f"{_OWN} L: {_READS} st.u32 [%d5+4], %r9; ld.u32 %r8, [%d5]; add.u32 %r8, %r8, 1;"
        f" st.u32 [%d5], %r8; setp.lt.u32 %p1, %r8, 9; @%p1 bra L;",
        f"{_OWN} L: {_READS} st.u32 [%d5+4], %r9; ld.shared.u32 %r8, [tile+4]; {_REPEATS}",
        f"L: {_READS} st.global.u32 [%d1+4], %r9; ld.global.u32 %r8, [%d2+4]; {_REPEATS}",
        # A barrier in each iteration yields to the block's other groups.
        "L: bar.sync 0; ld.volatile.shared.u32 %r9, [tile]; setp.eq.u32 %p1, %r9, 0; @%p1 bra L;",
    ],
)
def test_loops_that_do_not_poll(body: str) -> None:
    assert polling_loops.polling_headers(_form(body)) == frozenset()


@pytest.mark.parametrize(
    "body",
    [
        # All lanes read the same, and continue together.
        f"{_PLACE} W: {_WAIT.format('%d1')} st.global.u32 [%d3], %r0;",
        # Lanes that stop waiting do nothing that others can observe.
        f"{_PLACE} W: {_WAIT.format('%d3')}",
        f"{_PLACE} W: {_WAIT.format('%d3')} bar.sync 0; st.global.u32 [%d3], %r0;",
        # One thread waits; the others have nothing to do before it arrives.
        f"{_FIRST} W: {_WAIT.format('%d1')} st.global.u32 [%d1], 1; E: bar.sync 0;"
        f" {_PLACE} st.global.u32 [%d3], 1;",
        # A single thread leaves no other behind, whatever it waits for.
        f"{_PLACE} {_FIRST} W: {_WAIT.format('%d3')} st.global.u32 [%d1], 1; E:",
        # The same in each iteration of a loop with a barrier.
        f"{_PLACE} mov.u32 %r8, 0; L: {_FIRST} W: {_WAIT.format('%d3')} st.global.u32 [%d1], 1;"
        " E: bar.sync 0; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 9; @%p1 bra L;",
    ],
)
def test_groups_wait_as_one(body: str) -> None:
    assert max(_spans(body)) >= 32


@pytest.mark.parametrize(
    "body",
    [
        # Lanes that stop waiting do something for which others of their group may wait.
        f"{_PLACE} W: {_WAIT.format('%d3')} st.global.u32 [%d3], %r0;",
        f"{_PLACE} W: {_WAIT.format('%d3')} mov.u32 %r8, 0; L: add.u32 %r8, %r8, 1;"
        " setp.lt.u32 %p1, %r8, %r0; @%p1 bra L; st.global.u32 [%d3], %r0;",
        # The others have something to do, before or after the point where they rejoin.
        f"{_FIRST} W: {_WAIT.format('%d1')} bra X; E: st.global.u32 [%d1], 1; X:",
        f"{_FIRST} W: {_WAIT.format('%d1')} E: st.global.u32 [%d1], 1;",
        # In the next iteration of an enclosing loop.
        f"{_PLACE} mov.u32 %r8, 0; L: {_FIRST} W: {_WAIT.format('%d1')} E: add.u32 %r8, %r8, 1;"
        " setp.ge.u32 %p2, %r8, 9; @%p2 bra X; setp.ne.u32 %p3, %r8, 5; @%p3 bra L;"
        " st.global.u32 [%d3], 1; bra L; X:",
        # They have left an enclosing loop.
        f"{_PLACE} mov.u32 %r8, 0; L: W: {_WAIT.format('%d1')} add.u32 %r8, %r8, 1;"
        " setp.lt.u32 %p1, %r8, %r0; @%p1 bra L; st.global.u32 [%d3], 1;",
    ],
)
def test_lanes_that_may_be_awaited_are_groups_of_their_own(body: str) -> None:
    assert _spans(body) == {1}
    form = _form(body)
    assert choose.choose(form, _BLOCK, 512).geometry(_BLOCK).span == 1


def test_barriers_in_kernels_that_poll_are_counted() -> None:
    form = _form(f"{_FIRST} W: {_WAIT.format('%d1')} E: bar.sync 0;")
    warp = Geometry(_BLOCK, 16, 2)
    assert wait_points.needs_counting(form, warp)
    assert not wait_points.needs_counting(_form("bar.sync 0;"), warp)
    assert not wait_points.needs_counting(_form(f"W: {_WAIT.format('%d1')}"), warp)


def test_divergences_are_followed_once_however_many_loops_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, 256 nested loops, the maximum, took half a minute."""
    depth, followed = 24, []

    def blocks_until_join(*parting: object) -> set[int]:
        followed.append(parting)
        return divergence.blocks_until_join(*parting)  # type: ignore[arg-type]

    monkeypatch.setattr(lockstep, "blocks_until_join", blocks_until_join)
    text = ptx_kernels.nested_loops(depth).replace("%r0, 99;", "%r0, 9;")  # some lanes of 64
    module = compiler.compile_ptx(text, capability=(9, 0))
    form = ssa.build(module.functions[0])
    geometry = Geometry(_BLOCK, 4, 1)
    assert len(polling_loops.polling_headers(form)) == depth
    assert lockstep.can_wait_as_one(
        analyse(form, geometry, assume_guards=False)
    )  # no thread writes
    assert 0 < len(followed) <= 2 * depth


def test_each_store_is_followed_once_however_many_reads_may_observe_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, a loop of 1,300 reads and as many stores (76 calls of NRT_incref) took minutes."""
    count, followed = 30, []
    before = polling_loops._Loop._before

    def count_calls(loop: object, block: int, done: set[int]) -> set[int]:
        found = before(loop, block, done)  # type: ignore[arg-type]
        followed.append(len(found))
        return found

    monkeypatch.setattr(polling_loops._Loop, "_before", count_calls)
    steps = " ".join(
        f"@%p1 bra S{i}; st.u32 [%d5], %r9; S{i}: ld.u32 %r9, [%d5]; setp.eq.u32 %p1, %r9, {i};"
        for i in range(count)
    )
    form = _form(f"{_OWN} mov.u32 %r8, 0; L: {_READS} setp.eq.u32 %p1, %r9, 9; {steps} @%p1 bra L;")
    assert len(polling_loops.polling_headers(form)) == 1
    assert count <= len(followed) <= 3 * count
    assert sum(followed) <= 4 * count  # each block is returned to its successors, and no further
