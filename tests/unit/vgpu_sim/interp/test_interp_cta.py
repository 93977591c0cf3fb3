"""Threads that wait for each other: shared memory, barriers, and forward progress of every
thread.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from support.execution.isa_lanes import GPU, launch_golden
from vgpu_sim.exec import interp
from vgpu_sim.exec.errors import AddressFault, BarrierFault, MisalignedFault
from vgpu_sim.exec.interp import cta, engine
from vgpu_sim.isa import Space
from vgpu_sim.isa.asm import assemble

GOLDEN = Path(__file__).parents[3] / "golden" / "isa"
pytestmark = pytest.mark.timeout(60)

_PRELUDE = """
    LD.PARAM.U64 r8, [0]
    S2R.U32 r1, TID_X
    S2R.U32 r2, CTAID_X
    S2R.U32 r3, NTID_X
    MAD.LO.U32 r4, r2, r3, r1
    MAD.WIDE.U32 r9, r4, 4, r8
"""
"""r1 holds the thread, r2 the block, r3 the threads of a block, r4 the thread of the grid; r8 the
output, r9 the thread's word of it; r5 to r7 and r10 to r13 (64 bits) are free.
"""


def _text(body: str, shared: int = 0) -> str:
    return (
        ".isa 1\n.function k\n.parameter out offset 0 size 8 align 8\n.parameter_bytes 8\n"
        f".shared {shared}\n.registers r0-r7 32\n.registers r8-r13 64\n.predicates 3\n"
        f"{{{_PRELUDE}{body}\nRET\n}}\n"
    )


def _run(
    body: str, block: int, grid: int = 1, *, shared: int = 0, words: int | None = None
) -> NDArray[np.uint32]:
    size = 4 * (block * grid if words is None else words)
    _, data = launch_golden(_text(body, shared), size, (block, 1, 1), (grid, 1, 1))
    return np.frombuffer(data, "<u4")


_NEIGHBOUR = """
    SHL.B32 r5, r1, 2
    ST.SHARED.U32 [r5], r4
    BAR_SYNC 0, 0
    ADD.U32 r6, r1, 1
    REM.U32 r6, r6, r3
    SHL.B32 r6, r6, 2
    LD.SHARED.U32 r7, [r6]
    ST.GLOBAL.U32 [r9], r7
"""


@pytest.mark.parametrize("block", [1, 31, 32, 33, 80, 256])
def test_a_barrier_makes_earlier_stores_visible_to_the_block(block: int) -> None:
    grid = 2 * (16384 // max(block, 32)) + 3 if block >= 256 else 70
    found = _run(_NEIGHBOUR, block, grid, shared=4 * block).reshape(grid, block)
    want = np.arange(grid * block, dtype=np.uint32).reshape(grid, block)
    assert (found == np.roll(want, -1, axis=1)).all()


def test_shared_memory_is_zero_when_a_block_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_RUN_LANES", 32)  # one block after another, in one slot
    body = """
        SHL.B32 r5, r1, 2
        LD.SHARED.U32 r7, [r5]
        ST.SHARED.U32 [r5], -1
        ST.GLOBAL.U32 [r9], r7
    """
    assert not _run(body, 32, 3, shared=128).any()


_CHAIN = """
    // Each {0} waits for the one before it, then passes on.
    MOV.B32 r5, 0
    SETP.EQ.U32 p0, {1}, 0
@p0 BRA go
wait:
    LD.GLOBAL.VOLATILE.U32 r5, [r9-4]
    SETP.EQ.U32 p0, r5, 0
@p0 BRA wait
go:
    ADD.U32 r5, r5, 1
    ST.GLOBAL.VOLATILE.U32 [r9], r5
"""


@pytest.mark.parametrize(("block", "grid"), [(32, 1), (96, 1), (1, 5), (48, 3)])
def test_lanes_warps_and_blocks_may_wait_for_their_predecessor(block: int, grid: int) -> None:
    found = _run(_CHAIN.format("thread", "r4"), block, grid)
    assert (found == np.arange(1, block * grid + 1)).all()


def test_a_lane_may_wait_for_a_higher_one() -> None:
    """In both directions: if one path of a warp always ran first, one of these would never end."""
    body = """
        XOR.B32 r5, r1, 31
        MAD.WIDE.U32 r9, r5, 4, r8
        SETP.EQ.U32 p0, r1, 31
        MOV.B32 r6, 0
    """
    chain = body + _CHAIN.format("lane", "r5").replace("MOV.B32 r5, 0\n", "MOV.B32 r5, r5\n")
    found = _run(chain, 32)
    assert (found == np.arange(1, 33)).all()


_LATER = """
    // Each block waits for the next one; the last waits for none.
    S2R.U32 r5, NCTAID_X
    SUB.U32 r5, r5, 1
    SETP.EQ.U32 p0, r2, r5
@p0 BRA go
wait:
    LD.GLOBAL.VOLATILE.U32 r6, [r9+4]
    SETP.EQ.U32 p0, r6, 0
@p0 BRA wait
go:
    ST.GLOBAL.VOLATILE.U32 [r9], 1
"""


def test_a_block_may_wait_for_one_that_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_RUN_LANES", 64)
    monkeypatch.setattr(engine, "_PATIENCE_ROUNDS", 20)
    assert _run(_LATER, 1, 9).all()


def test_waiting_blocks_stay_within_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine blocks wait for the last: at most the three for which 64 bytes suffice are resident."""
    monkeypatch.setattr(engine, "_RUN_LANES", 32)
    monkeypatch.setattr(engine, "_PATIENCE_ROUNDS", 5)
    monkeypatch.setattr(engine, "_MAX_SHARED_BYTES", 64)
    made: list[cta.ResidentBlocks] = []

    class Counted(cta.ResidentBlocks):
        def run_round(self) -> int:
            if self not in made:
                made.append(self)
            rounds.append(1)
            if len(rounds) > 500:
                raise TimeoutError
            return super().run_round()

    rounds: list[int] = []
    monkeypatch.setattr(engine, "ResidentBlocks", Counted)
    with pytest.raises(TimeoutError):
        _run(_LATER, 1, 9, shared=20)
    assert len(made) == 3


def test_a_warp_produces_for_another_through_counted_barriers() -> None:
    """Warp 0 produces and only arrives, warp 1 consumes; warp 2 takes no part."""
    body = """
        SHR.U32 r5, r1, 5
        SETP.EQ.U32 p0, r5, 0
        SETP.EQ.U32 p1, r5, 1
        AND.B32 r6, r1, 31
        SHL.B32 r6, r6, 2
    @p0 BRA produce
    @!p1 BRA done
        BAR_SYNC 1, 64
        LD.SHARED.U32 r7, [r6]
        ST.GLOBAL.U32 [r9], r7
        BRA done
    produce:
        ADD.U32 r7, r1, 1000
        ST.SHARED.U32 [r6], r7
        BAR_ARRIVE 1, 64
        ST.GLOBAL.U32 [r9], 7
    done:
    """
    found = _run(
        body.replace("    done:\n    ", "done:\nRET").replace("    produce", "produce"),
        96,
        shared=128,
    )
    assert (found == [*[7] * 32, *range(1000, 1032), *[0] * 32]).all()


@pytest.mark.parametrize("stay", [1, 20, 32, 40, 64])
def test_ended_lanes_count_as_arrived(stay: int) -> None:
    body = f"""
        SETP.GE.U32 p0, r1, {stay}
    @p0 RET
        BAR_SYNC 0, 0
        ST.GLOBAL.U32 [r9], 5
        BAR_SYNC 0, 0
    """
    assert (_run(body, 96) == [*[5] * stay, *[0] * (96 - stay)]).all()


def test_divergent_lanes_may_meet_at_a_barrier_from_several_places() -> None:
    """Each lane arrives by itself, and a lane that bypasses a barrier may end (sm_70 and later)."""
    body = """
        SETP.LT.U32 p0, r1, 8
    @p0 BAR_SYNC 0, 0
        BAR_SYNC 0, 0
        ST.GLOBAL.U32 [r9], 3
        SETP.LT.U32 p1, r1, 40
    @p1 BAR_SYNC 0, 0
        ST.GLOBAL.U32 [r9], 4
    """
    assert (_run(body, 32) == 4).all()


def test_ending_lanes_release_waiting_ones() -> None:
    body = """
        SETP.GE.U32 p0, r1, 5
    @p0 BRA leave
        BAR_SYNC 3, 0
        ST.GLOBAL.U32 [r9], 5
        RET
    leave:
        ADD.U32 r5, r1, 1
        ADD.U32 r5, r5, 1
    """
    assert (_run(body, 64) == [*[5] * 5, *[0] * 59]).all()


def test_barriers_in_a_loop_with_divergent_work_between() -> None:
    body = """
        MOV.B32 r5, 0
        MOV.B32 r6, 0
        SHL.B32 r0, r1, 2
    again:
        MOV.B32 r7, r1
    work:
        SETP.EQ.U32 p0, r7, 0
    @p0 BRA meet
        SUB.U32 r7, r7, 1
        BRA work
    meet:
        ADD.U32 r6, r6, r1
        ST.SHARED.U32 [r0], r6
        BAR_SYNC 0, 0
        XOR.B32 r7, r0, 4
        LD.SHARED.U32 r6, [r7]
        BAR_SYNC.UNI 0, 0
        ADD.U32 r5, r5, 1
        SETP.LT.U32 p0, r5, 4
    @p0 BRA again
        ST.GLOBAL.U32 [r9], r6
    """
    thread = np.arange(70)
    value = np.zeros(70, dtype=int)
    for _ in range(4):
        value = (value + thread)[thread ^ 1]
    assert (_run(body, 70, 3, shared=280).reshape(3, 70) == value).all()


@pytest.mark.parametrize(
    ("body", "message", "word"),
    [
        ("BAR_SYNC 17, 0", "barrier 17 does not exist", 6),
        ("BAR_SYNC 16, 32", "the barrier of a warpgroup has neither count nor reduction", 6),
        ("BAR_ARRIVE 16, 32", "the barrier of a warpgroup has neither count nor reduction", 6),
        ("BAR_SYNC 0, 33", "33 threads are not a whole number of warps", 6),
        ("BAR_ARRIVE 0, 0", "0 threads are not a whole number", 6),
        ("BAR_SYNC 0, 128", "the block has fewer than 128 threads", 6),
        ("BAR_SYNC r1, 0", "lanes of a warp name different barriers", 6),
        (
            "SETP.LT.U32 p0, r1, 32\n@p0 BAR_SYNC 0, 64\nBAR_SYNC 0, 32",
            "expect different counts: 64 and 32",
            8,
        ),
    ],
)
def test_misused_barriers_end_the_kernel(body: str, message: str, word: int) -> None:
    with pytest.raises(BarrierFault, match=message) as caught:
        _run(body, 64)
    assert (caught.value.word, caught.value.block) == (word, (0, 0, 0))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("SETP.LT.U32 p0, r1, 32\n@p0 BAR_SYNC 0, 64", "barrier 0 has 32 of 64 threads"),
        (
            "SETP.LT.U32 p0, r1, 32\n@p0 BAR_SYNC 1, 0\n@!p0 BAR_SYNC 2, 0",
            "barrier 1 has 1 of 2 warps; barrier 2 has 1 of 2 warps",
        ),
        (
            "SETP.LT.U32 p0, r1, 8\n@p0 BAR_SYNC 0, 0\n@!p0 BAR_SYNC 1, 0",
            "barrier 0 has 8 of 32 lanes of a warp; barrier 1 has 24 of 32 lanes of a warp",
        ),
        (
            "SETP.LT.U32 p0, r1, 32\n@p0 BAR_SYNC 16, 0\n@!p0 BAR_SYNC 2, 0",
            "barrier 2 has 1 of 2 warps; the barrier of warpgroup 0 has 1 of 2 warps",
        ),
    ],
)
def test_a_deadlocked_block_ends_the_kernel_with_a_description(body: str, message: str) -> None:
    body = f"SETP.EQ.U32 p1, r2, 0\n@p1 RET\n{body}\nADD.U32 r5, r5, 1"
    with pytest.raises(
        BarrierFault, match=f"no thread of the block can make progress: {message}"
    ) as fault:
        _run(body, 64, 2)
    assert fault.value.block == (1, 0, 0)


@pytest.mark.parametrize("first", [0, 1, 2, 31, 32, 40, 63])
def test_the_first_deadlocked_thread_is_named(first: int) -> None:
    """Threads before it have ended, and so has the second half of the block."""
    ended = f"SETP.LT.U32 p0, r1, {first}\n@p0 RET\nSETP.GE.U32 p0, r1, 64\n@p0 RET"
    with pytest.raises(BarrierFault, match="no thread of the block can make progress") as fault:
        _run(f"{ended}\nBAR_SYNC 0, 128\nADD.U32 r5, r5, 1", 128)
    assert fault.value.thread == (first, 0, 0)


@pytest.mark.parametrize("offset", [-4, 252, 256, 1 << 20])
def test_shared_memory_has_bounds(offset: int) -> None:
    body = f"MOV.B32 r5, {offset}\nST.SHARED.V2.U32 [r5], {{r1, r1}}"
    with pytest.raises((AddressFault, MisalignedFault)) as caught:
        _run(body, 1, shared=256)
    if offset % 8 == 0:
        assert isinstance(caught.value, AddressFault)
        assert (caught.value.address, caught.value.space) == (offset, Space.SHARED)


def test_addresses_of_shared_memory_wrap_at_32_bits() -> None:
    body = "MOV.B64 r10, 0x1fffffffc\nST.SHARED.U32 [r10+8], 9\nLD.SHARED.U32 r5, [r10+8]"
    assert _run(f"{body}\nST.GLOBAL.U32 [r9], r5", 1, shared=16).tolist() == [9]


_GENERIC = """
    S2R.U32 r5, SHARED_WINDOW
    CVT.U64.U32 r10, r5
    SHL.B64 r10, r10, 32
    MAD.WIDE.U32 r11, r1, 4, r10
"""


def test_shared_memory_has_generic_addresses_beside_global_ones() -> None:
    """Even threads access shared memory, odd ones global memory, in the same instruction."""
    body = (
        _GENERIC
        + """
        AND.B32 r6, r1, 1
        SETP.EQ.U32 p0, r6, 0
        SELP.B64 r12, r11, r9, p0
        ADD.U32 r7, r1, 100
        ST.U32 [r12], r7
        LD.U32 r7, [r12]
        ADD.U32 r7, r7, 1
        ST.GLOBAL.U32 [r9], r7
    """
    )
    assert (_run(body, 64, 2, shared=256).reshape(2, 64) == np.arange(101, 165)).all()


def test_a_generic_address_past_shared_memory_faults_as_it_is() -> None:
    with pytest.raises(AddressFault) as caught:
        _run(_GENERIC + "LD.U32 r5, [r11+256]", 1, shared=256)
    assert caught.value.address == GPU + (768 << 30) + 256


def test_dynamic_shared_memory_is_accessible() -> None:
    module = assemble(_text("ST.SHARED.U32 [28], r1", 16))
    arguments = (module, module.functions[0], (1, 1, 1), (1, 1, 1), bytes(8))
    memory = interp.BufferMemory(0, bytearray(8))
    interp.run(*arguments, memory, 0, 16)
    with pytest.raises(AddressFault):
        interp.run(*arguments, memory, 0, 15)
    with pytest.raises(ValueError, match="232449 bytes of shared memory"):
        interp.run(*arguments, memory, 0, 232449 - 16)


def test_stepping_a_single_warp_stops_at_a_barrier() -> None:
    module = assemble(_text("BAR_SYNC 0, 0"))
    memory = interp.BufferMemory(0, bytearray(8))
    launch = interp.InterpretedLaunch(
        module, module.functions[0], (1, 1, 1), (64, 1, 1), bytes(8), memory
    )
    warp = interp.Warp(launch, 0)
    for _ in range(6):
        interp.step(warp)
    with pytest.raises(ValueError, match="cannot wait for other warps"):
        interp.step(warp)


def test_a_loop_that_lanes_leave_one_by_one_does_not_grow_the_tree() -> None:
    body = """
        MOV.B32 r5, 0
    again:
        ADD.U32 r5, r5, 1
        SETP.LE.U32 p0, r5, r1
    @p0 BRA again
        ST.GLOBAL.VOLATILE.U32 [r9], r5
    """
    module = assemble(_text(body))
    memory = interp.BufferMemory(0, bytearray(128))
    launch = interp.InterpretedLaunch(
        module, module.functions[0], (1, 1, 1), (32, 1, 1), bytes(8), memory
    )
    blocks = cta.ResidentBlocks(launch, [0], 1)
    deepest = 0
    while not blocks.done:
        blocks.run_round()
        for path in blocks._ready:
            depth = 0
            while path is not None:
                path, depth = path.below, depth + 1
            deepest = max(deepest, depth)
    assert deepest == 2


@pytest.mark.parametrize("name", ["collatz", "if_else", "nested_break", "predicated"])
@pytest.mark.parametrize("threads", [1, 31, 70, 128])
def test_blocks_compute_what_wide_warps_compute(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (GOLDEN / f"{name}.isa").read_text()
    _, wide = launch_golden(text, 4 * threads, (threads, 1, 1))
    monkeypatch.setattr(engine, "_meets", lambda _: True)
    assert launch_golden(text, 4 * threads, (threads, 1, 1))[1] == wide
