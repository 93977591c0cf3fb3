"""Divergence and reconvergence: assembled programs compared with plain Python."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.execution.isa_lanes import launch_golden
from vgpu_sim.exec import interp
from vgpu_sim.exec.errors import Trap
from vgpu_sim.isa.asm import assemble
from vgpu_sim.isa.errors import InvalidFunction

GOLDEN = Path(__file__).parents[3] / "golden" / "isa"
NO_MEMORY = interp.BufferMemory(0, bytearray())


def _if_else(tid: int) -> int:
    return (tid // 2 if tid % 2 == 0 else tid * 3 + 1) + 100


def _collatz(tid: int) -> int:
    steps, value = 0, tid + 1
    while value != 1:
        steps += 1
        value = value // 2 if value % 2 == 0 else value * 3 + 1
    return steps


def _nested_break(tid: int) -> int:
    total = 0
    for i in range(6):
        j = 0
        while j < tid:
            product = i * j
            if product == 12:
                return total
            skip = j % 3 == 2
            j += 1
            if not skip:
                total += product + 1
    return total


def _with_guard(tid: int) -> int:
    p0 = tid < 10
    p2 = tid > 3 and p0
    p3 = not tid > 3 and p0
    return 7 + (1 if p0 else 10) + (0 if p0 else 100) + 1000 * p2 + 10000 * p3


@pytest.mark.parametrize("threads", [1, 31, 32, 70, 128])
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("if_else", _if_else),
        ("collatz", _collatz),
        ("nested_break", _nested_break),
        ("predicated", _with_guard),
    ],
)
def test_programs_agree_with_their_models(
    name: str, model: Callable[[int], int], threads: int
) -> None:
    text = (GOLDEN / f"{name}.isa").read_text()
    _, data = launch_golden(text, 4 * threads, (threads, 1, 1))
    assert np.frombuffer(data, np.uint32).tolist() == [model(tid) for tid in range(threads)]


def _trace(name: str, threads: int = 32) -> list[interp.StepRecord]:
    module = assemble((GOLDEN / f"{name}.isa").read_text())
    memory = interp.BufferMemory(0, bytearray(4 * threads))
    launch = interp.InterpretedLaunch(
        module, module.functions[0], (1, 1, 1), (threads, 1, 1), bytes(8), memory
    )
    warp = interp.Warp(launch, 0)
    records = []
    while not warp.done:
        records.append(interp.step(warp))
        # A divergent loop must not leave an entry behind for every lane that leaves it.
        assert len(warp.stack) <= 8
    return records


def test_lanes_reconverge_at_the_immediate_post_dominator() -> None:
    records = _trace("if_else")
    function = assemble((GOLDEN / "if_else.isa").read_text()).functions[0]
    branch = next(i for i, ins in enumerate(function.code) if ins.guard is not None)
    target = function.code[branch].target
    assert target is not None
    masks = {record.word: record.mask for record in records}
    # Each instruction once: no side ran twice.
    assert len(records) == len(masks) == len(function.code)
    even = np.arange(32) % 2 == 0
    assert (masks[target] == even).all()
    assert (masks[branch + 1] == ~even).all()
    assert masks[target + 1].all()


@pytest.mark.parametrize("name", ["collatz", "nested_break"])
def test_all_lanes_are_back_after_a_divergent_loop(name: str) -> None:
    records = _trace(name)
    assert records[-1].mask.all()
    store = next(record for record in records if record.addresses is not None)
    assert store.mask.all()
    assert store.addresses is not None
    assert store.addresses.tolist() == [4 * lane for lane in range(32)]


def test_a_wide_warp_shows_each_warp_its_own_masks() -> None:
    """``run`` steps many warps in lockstep; the state of one of them must be as if it ran alone."""
    module = assemble((GOLDEN / "collatz.isa").read_text())
    memory = interp.BufferMemory(0, bytearray(4 * 96))
    launch = interp.InterpretedLaunch(
        module, module.functions[0], (1, 1, 1), (96, 1, 1), bytes(8), memory
    )

    def trace(warp: interp.Warp, lanes: slice) -> list[tuple[int, tuple[bool, ...]]]:
        result = []
        while not warp.done:
            record = interp.step(warp)
            if record.mask[lanes].any():
                result.append((record.word, tuple(record.mask[lanes].tolist())))
        return result

    for index in range(3):
        wide = trace(interp.Warp(launch, 0, 3), slice(32 * index, 32 * index + 32))
        # An instruction with a false guard leaves no trace in the wide view; it must not here
        # either.
        alone = trace(interp.Warp(launch, index), slice(0, 32))
        assert wide == alone


def test_threads_and_blocks_have_three_dimensions() -> None:
    text = """.isa 1
.function where
    .parameter_bytes 8
    .registers r0-r15 32
    .registers r16-r17 64
{
    S2R.B32 r0, TID_X
    S2R.B32 r1, TID_Y
    S2R.B32 r2, TID_Z
    S2R.B32 r3, CTAID_X
    S2R.B32 r4, CTAID_Y
    S2R.B32 r5, CTAID_Z
    S2R.B32 r6, NTID_X
    S2R.B32 r7, NTID_Y
    S2R.B32 r8, NTID_Z
    S2R.B32 r9, NCTAID_X
    S2R.B32 r10, NCTAID_Y
    S2R.B32 r11, LANEID
    MAD.LO.U32 r12, r5, r10, r4
    MAD.LO.U32 r12, r12, r9, r3
    MAD.LO.U32 r12, r12, r8, r2
    MAD.LO.U32 r12, r12, r7, r1
    MAD.LO.U32 r12, r12, r6, r0
    LD.PARAM.U64 r16, [0]
    MUL.WIDE.U32 r17, r12, 32
    ADD.U64 r16, r16, r17
    ST.GLOBAL.V4.B32 [r16], {r0, r1, r2, r11}
    ST.GLOBAL.V4.B32 [r16+16], {r3, r4, r5, r12}
    RET
}
"""
    block, grid = (5, 3, 4), (2, 3, 2)
    threads = 60 * 12
    _, data = launch_golden(text, 32 * threads, block, grid)
    rows = np.frombuffer(data, np.uint32).reshape(-1, 8).tolist()
    expected = [
        [x, y, z, (x + 5 * (y + 3 * z)) % 32, bx, by, bz]
        for bz in range(2)
        for by in range(3)
        for bx in range(2)
        for z in range(4)
        for y in range(3)
        for x in range(5)
    ]
    assert [row[:7] for row in rows] == expected
    assert [row[7] for row in rows] == list(range(threads))


_ENDINGS = """.isa 1
.function endings
    .parameter_bytes 8
    .registers r0-r1 32
    .registers r2-r3 64
    .predicates 2
{{
    S2R.B32 r0, TID_X
    LD.PARAM.U64 r2, [0]
    MUL.WIDE.U32 r3, r0, 4
    ADD.U64 r2, r2, r3
    ST.GLOBAL.B32 [r2], 1
    SETP.LT.U32 p0, r0, 5
@p0 {ending}
    SETP.LT.U32 p1, r0, 20
@p1 BRA low
    ST.GLOBAL.B32 [r2], 3
    RET
low:
    ST.GLOBAL.B32 [r2], 2
    RET
}}
"""


def test_a_guarded_return_ends_its_lanes_only() -> None:
    _, data = launch_golden(_ENDINGS.format(ending="RET"), 4 * 32, (32, 1, 1))
    assert np.frombuffer(data, np.uint32).tolist() == [1] * 5 + [2] * 15 + [3] * 12


def test_a_trap_names_instruction_and_block() -> None:
    with pytest.raises(Trap) as caught:
        launch_golden(_ENDINGS.format(ending="TRAP"), 4 * 32, (32, 1, 1), (1, 2, 3))
    assert (caught.value.word, caught.value.block) == (6, (0, 0, 0))


def test_a_trap_that_no_lane_reaches_does_nothing() -> None:
    text = _ENDINGS.format(ending="TRAP").replace("r0, 5", "r0, 0")
    _, data = launch_golden(text, 4 * 32, (32, 1, 1))
    assert np.frombuffer(data, np.uint32).tolist() == [2] * 20 + [3] * 12


@pytest.mark.parametrize(("grid", "block"), [((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (1025, 1, 1))])
def test_an_invalid_block_shape_is_rejected(
    grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    module = assemble(".isa 1\n.function f\n{\n RET\n}\n")
    with pytest.raises(ValueError, match=r"(grid|block)"):
        interp.InterpretedLaunch(module, module.functions[0], grid, block, b"", NO_MEMORY)


def test_stepping_a_finished_warp_is_an_error() -> None:
    module = assemble(".isa 1\n.function f\n{\n RET\n}\n")
    launch = interp.InterpretedLaunch(
        module, module.functions[0], (1, 1, 1), (1, 1, 1), b"", NO_MEMORY
    )
    warp = interp.Warp(launch, 0)
    record = interp.step(warp)
    assert (record.word, record.mask.tolist()) == (0, [True] + [False] * 31)
    assert warp.done
    with pytest.raises(ValueError, match="the warp has ended"):
        interp.step(warp)


@pytest.mark.parametrize(
    ("header", "grid", "block", "parameters", "reason"),
    [
        ("", (0, 1, 1), (1, 1, 1), b"", "must be at least 1"),
        ("", (1, 1, 1), (1, 1, 1), b"x", "takes 0 bytes of parameters, not 1"),
        (".required_block 2 1 1", (1, 1, 1), (1, 1, 1), b"", "requires block"),
        (".maximum_block 2 2 1", (1, 1, 1), (5, 1, 1), b"", "allows at most 4 threads"),
        (".maximum_block 2 3 2", (1, 1, 1), (4, 4, 1), b"", "allows at most 12 threads"),
        (".maximum_block 2 3 2", (1, 1, 1), (1, 4, 4), b"", "allows at most 12 threads"),
    ],
)
def test_an_invalid_launch_is_rejected(
    header: str,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    parameters: bytes,
    reason: str,
) -> None:
    module = assemble(f".isa 1\n.function f\n{header}\n{{\n RET\n}}\n")
    with pytest.raises(ValueError, match=reason):
        interp.run(module, module.functions[0], grid, block, parameters, NO_MEMORY)


def test_invalid_code_is_rejected_before_anything_runs() -> None:
    from vgpu_sim import isa

    function = isa.Function("f", (), 0, (), 0, (isa.Instruction(isa.Op.NOP),), (0,))
    with pytest.raises(InvalidFunction):
        interp.run(isa.Module((function,)), function, (1, 1, 1), (1, 1, 1), b"", NO_MEMORY)
