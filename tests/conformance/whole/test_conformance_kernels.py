"""The example kernels, module variables, traps: every legal plan, any split of the blocks."""

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest

from support.execution import native_launch
from support.execution.both_backends import Bench, compare, compiler
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.compiler import compile_ptx
from vgpu_sim.exec import jit
from vgpu_sim.exec.errors import Trap
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Predicate,
    Register,
    Rounding,
    Space,
    SpecialRegister,
    Symbol,
    Variable,
)

D = DataType
_EXAMPLES = Path(__file__).parents[3] / "examples"


def _example(name: str) -> Module:
    return compile_ptx((_EXAMPLES / f"{name}.ptx").read_text(), capability=(8, 0))


def _floats(count: int, seed: int) -> bytes:
    values = np.random.default_rng(seed).standard_normal(count).astype(np.float32)
    values[:: max(count // 7, 1)] = np.nan
    return values.tobytes()


@pytest.mark.parametrize("block", [(64, 1, 1), (24, 1, 1), (96, 1, 1), (7, 1, 1)], ids=str)
def test_vecadd_under_every_plan(block: tuple[int, int, int]) -> None:
    module, n = _example("vecadd"), 150
    buffers = [_floats(n, 1), _floats(n, 2), bytes(4 * n)]
    plans = compiler().legal_plans(module, block)
    grid = (-(-n // block[0]), 1, 1)
    out = compare(module, buffers, grid, block, [None, *plans], extra=[n])[2]
    a, b = (np.frombuffer(buffer, np.float32) for buffer in buffers[:2])
    np.testing.assert_array_equal(np.frombuffer(out, np.float32), a + b)


@pytest.mark.parametrize("block", [(32, 4, 1), (12, 2, 1), (8, 4, 2)], ids=str)
def test_sgemm_under_every_plan(block: tuple[int, int, int]) -> None:
    module, (m, n, k) = _example("sgemm"), (11, 37, 9)
    buffers = [_floats(m * k, 1), _floats(k * n, 2), bytes(4 * m * n)]
    plans = list(compiler().legal_plans(module, block))
    grid = (-(-n // block[0]), -(-m // block[1]), 1)
    compare(module, buffers, grid, block, [None, *plans[::3]], extra=[m, n, k])


def test_any_split_of_the_blocks_gives_the_same_bits() -> None:
    module, n, block = _example("saxpy"), 500, (32, 1, 1)
    function = module.functions[0]
    bench = Bench(_floats(n, 1), _floats(n, 2))
    try:
        scale = struct.pack("<f", 2.5)
        values = [scale, *bench.addresses(), n]
        parameters = native_launch.pack(function.parameters, function.parameter_bytes, values)
        grid = (16, 1, 1)
        expected = bench.interpret(module, grid, block, parameters)
        cuts = [[0, 16], [0, 1, 2, 9, 16], list(range(17)), [0, 5, 5, 16]]
        for plan, cut in itertools.product((None, jit.Plan(8, 2), jit.Plan(1, 4)), cuts):
            ranges = list(itertools.pairwise(cut))
            ranges.reverse()
            found = bench.execute(module, grid, block, parameters, plan, ranges=ranges)
            assert found == expected, (plan, cut)
    finally:
        bench.close()


def test_block_and_grid_indices_in_three_dimensions() -> None:
    grid = (3, 2, 2)
    for block in ((8, 2, 3), (16, 4, 2), (32, 2, 1), (5, 3, 2)):
        threads = int(np.prod(grid) * np.prod(block))
        b = KernelBuilder(8)
        out = b.address(b.parameter(0), b.linear_thread(), 4)
        for which in SpecialRegister:
            if which.is_clock:
                continue
            value = b.special(which)
            if which.bits == 64:
                high = b.register(64)
                b.op(Op.SHR, D.U64, high, value, Literal(32))
                b.op(Op.XOR, D.B64, value, value, high)
            b.store(D.B32, out, value, 4 * threads * which)
        module = b.module()
        plans = list(compiler().legal_plans(module, block))
        size = 4 * threads * len(SpecialRegister)
        (found,) = compare(module, [bytes(size)], grid, block, [None, *plans])
        rows = np.frombuffer(found, np.uint32).reshape(len(SpecialRegister), -1)
        assert set(rows[SpecialRegister.NSMID]) == {native_launch.MULTIPROCESSORS}
        assert set(rows[SpecialRegister.GRIDID]) == {
            native_launch.GRID_ID >> 32 ^ native_launch.GRID_ID & 0xFFFF_FFFF
        }


@pytest.mark.parametrize("which", [s for s in SpecialRegister if s.is_clock])
def test_clocks_never_run_backwards(which: SpecialRegister) -> None:
    """Each lane reads twice in a loop of three iterations."""
    grid, block, looks = (2, 1, 1), (64, 1, 1), 6
    b = KernelBuilder(8)
    out = b.address(b.parameter(0), b.linear_thread(), 8 * looks)
    turn, flag = b.register(32), b.predicate()
    b.op(Op.MOV, D.B32, turn, Literal(0))
    b.place("again")
    for _ in range(2):
        b.store(D.B64, out, b.special(which))
        b.op(Op.ADD, D.U64, out, out, Literal(8))
    b.op(Op.ADD, D.U32, turn, turn, Literal(1))
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (turn, Literal(3)), compare=Compare.LT))
    b.branch("again", Guard(flag))
    module = b.module()
    bench = Bench(bytes(8 * looks * 128))
    try:
        parameters = struct.pack("<Q", *bench.addresses())
        plans = (None, jit.Plan(16, 4), jit.Plan(1, 1))
        ran = [bench.execute(module, grid, block, parameters, plan)[0] for plan in plans]
        for found in (bench.interpret(module, grid, block, parameters)[0], *ran):
            seen = np.frombuffer(found, np.uint64).reshape(128, looks)
            assert (np.diff(seen.astype(np.int64)) >= 0).all()
            assert (seen[:, -1] > seen[:, 0]).all()
    finally:
        bench.close()


def test_module_variables_are_in_the_segment() -> None:
    b = KernelBuilder(8, 8)
    thread = b.special(SpecialRegister.TID_X)
    base = b.register(64)
    b.op(Op.MOV, D.B64, base, Symbol("table", 8))
    value = b.register(32)
    b.op(Op.LD, D.B32, value, b.address(base, thread, 4), space=Space.CONST)
    direct = b.register(32)
    b.op(Op.LD, D.B32, direct, Symbol("table"), space=Space.CONST, displacement=4)
    b.op(Op.ADD, D.B32, value, value, direct)
    b.store(D.B32, b.address(b.parameter(1), thread, 4), value)
    module = b.module(
        Variable("first", Space.GLOBAL, 4, 16, 0), Variable("table", Space.CONST, 4, 512, 64)
    )
    segment = np.arange(200, dtype=np.uint32).tobytes()
    out = compare(
        module,
        [segment, bytes(256)],
        (1, 1, 1),
        (64, 1, 1),
        [None, jit.Plan(16, 4), jit.Plan(1, 1)],
        symbols=0,
    )[1]
    assert np.frombuffer(out, np.uint32).tolist() == [16 + 2 + t + 17 for t in range(64)]


def _trapping(first_bad: int) -> tuple[Module, Register]:
    b = KernelBuilder(8)
    thread = b.linear_thread()
    flag = b.predicate()
    limit = Literal(first_bad)
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (thread, limit), compare=Compare.GE))
    b.add(Instruction(Op.TRAP, guard=Guard(flag)))
    b.store(D.B32, b.address(b.parameter(0), thread, 4), Literal(1))
    return b.module(), thread


@pytest.mark.parametrize("plan", [None, jit.Plan(16, 2), jit.Plan(1, 1)], ids=str)
def test_trap_stores_its_status_and_ends_the_launch(plan: jit.Plan | None) -> None:
    module, _ = _trapping(64 + 5)
    function, block, grid = module.functions[0], (32, 1, 1), (4, 1, 1)
    bench = Bench(bytes(4 * 128))
    try:
        parameters = struct.pack("<Q", bench.addresses()[0])
        with pytest.raises(Trap):
            bench.interpret(module, grid, block, parameters)
        loaded = compiler().load(compiler().compile(module, function, block, plan))
        launch = native_launch.context(bench.aperture, grid, block)
        ended = native_launch.run(loaded, launch, parameters, [(0, 4)])
        assert ended == native_launch.Ended(status=719, block=2)
        stored = np.frombuffer(bytes(bench.buffers[0].view), np.uint32)
        assert stored[:64].all()
        assert not stored[69:].any()
    finally:
        bench.close()


def _wrapping(type_: DataType, offset: int, *, stored_first: bool) -> Module:
    """Return out[t] = (64 bits) (t + offset), a 32-bit integer that wraps around within the
    block.
    """
    b = KernelBuilder(8)
    thread = b.linear_thread()
    out = b.address(b.parameter(0), thread, 16)
    if stored_first:
        b.store(D.B64, out, Literal(1), 8)
    narrow, wide = b.register(32), b.register(64)
    b.op(Op.ADD, D.B32, narrow, thread, Literal(offset))
    b.op(Op.CVT, D.S64 if type_ is D.S32 else D.U64, wide, narrow, source_type=type_)
    b.store(D.B64, out, wide)
    return b.module()


@pytest.mark.parametrize("stored_first", [False, True])
@pytest.mark.parametrize("type_", [D.U32, D.S32])
@pytest.mark.parametrize("offset", [0xFFFFFFFF, 0xFFFFFFE5, 0x7FFFFFF9, 3])
def test_widening_is_exact_where_lanes_wrap(
    type_: DataType, offset: int, stored_first: bool
) -> None:
    module, block = _wrapping(type_, offset, stored_first=stored_first), (64, 1, 1)
    plans = list(compiler().legal_plans(module, block))
    compare(module, [bytes(16 * 128)], (2, 1, 1), block, [None, *plans[::4]])


def test_two_latches_taken_by_different_lanes() -> None:
    """Lanes reach the block after the first latch in different iterations."""
    b = KernelBuilder(8)
    thread = b.linear_thread()
    counter, total = b.register(32), b.register(32)
    more, first, both = b.predicate(), b.predicate(), b.predicate()
    b.op(Op.AND, D.B32, counter, thread, Literal(7))
    odd = b.register(32)
    b.op(Op.AND, D.B32, odd, thread, Literal(16))
    b.add(Instruction(Op.SETP, D.U32, (first, None), (odd, Literal(0)), compare=Compare.EQ))
    b.place("again")
    b.op(Op.SUB, D.B32, counter, counter, Literal(1))
    b.add(Instruction(Op.SETP, D.S32, (more, None), (counter, Literal(0)), compare=Compare.GT))
    b.op(Op.AND, D.PRED, both, more, first)
    b.branch("again", Guard(both))
    b.op(Op.ADD, D.B32, total, total, Literal(1))
    b.branch("again", Guard(more))
    b.store(D.B32, b.address(b.parameter(0), thread, 4), total)
    module, block = b.module(), (32, 2, 1)
    plans = list(compiler().legal_plans(module, block))
    out = compare(module, [bytes(256)], (1, 1, 1), block, [None, *plans])[0]
    expected = [1 if t & 16 == 0 else max(t & 7, 1) for t in range(64)]
    assert np.frombuffer(out, np.uint32).tolist() == expected


def test_a_loaded_nan_keeps_its_bits_and_a_computed_one_is_canonical() -> None:
    b = KernelBuilder(8, 8)
    thread = b.linear_thread()
    loaded = b.load(D.F32, b.address(b.parameter(0), thread, 4))
    flag: Predicate = b.predicate()
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (thread, Literal(5)), compare=Compare.LT))
    b.branch("keep", Guard(flag))
    b.op(Op.FADD, D.F32, loaded, loaded, Literal(0))
    b.place("keep")
    out = b.address(b.parameter(1), thread, 8)
    b.store(D.F32, out, loaded)
    b.op(Op.FNEG, D.F32, loaded, loaded)
    b.store(D.F32, out, loaded, 4)
    module, block = b.module(), (16, 1, 1)
    data = np.full(16, 0xFFC01234, np.uint32).tobytes()
    plans = list(compiler().legal_plans(module, block))
    out_bytes = compare(module, [data, bytes(128)], (1, 1, 1), block, [None, *plans])[1]
    found = np.frombuffer(out_bytes, np.uint32).reshape(16, 2).tolist()
    assert found == [[0xFFC01234, 0x7FC01234]] * 5 + [[0x7FFFFFFF, 0xFFFFFFFF]] * 11


def test_interpreter_and_jit_have_one_memory_model_for_vectors() -> None:
    b = KernelBuilder(8, 8)
    thread = b.linear_thread()
    source, out = (b.address(b.parameter(i), thread, 16) for i in (0, 1))
    values = tuple(b.register(32) for _ in range(4))
    b.add(Instruction(Op.LD, D.B32, values, (source,), space=Space.GLOBAL, vector=4))
    b.op(Op.ADD, D.B32, values[1], values[1], thread)
    b.add(Instruction(Op.ST, D.B32, (), (out, *values[::-1]), space=Space.GLOBAL, vector=4))
    pair = tuple(b.register(64) for _ in range(2))
    b.add(Instruction(Op.LD, D.B64, pair, (source,), space=Space.GLOBAL, vector=2))
    module, block = b.module(), (48, 1, 1)
    data = np.random.default_rng(3).integers(0, 256, 16 * 48, dtype=np.uint8).tobytes()
    plans = list(compiler().legal_plans(module, block))
    compare(module, [data, bytes(16 * 48)], (1, 1, 1), block, [None, *plans])


def test_a_vector_load_without_all_its_elements_in_a_branch() -> None:
    """Its last element reaches a phi with another value."""
    b = KernelBuilder(8, 8)
    thread = b.linear_thread()
    table, skip = b.parameter(0), b.predicate()
    value, other = b.register(32), b.register(32)
    known = b.load(D.B32, table, 64)
    b.add(Instruction(Op.SETP, D.U32, (skip, None), (known, Literal(0)), compare=Compare.NE))
    b.op(Op.MOV, D.B32, value, known)
    b.branch("met", Guard(skip))
    places = (other, None, None, value)
    b.add(Instruction(Op.LD, D.B32, places, (table,), space=Space.GLOBAL, vector=4))
    b.place("met")
    b.op(Op.REM, D.U32, value, value, Literal(5))
    out = b.address(b.parameter(1), thread, 8)
    b.store(D.B32, out, value)
    b.store(D.B32, out, other, 4)
    module, block = b.module(), (32, 1, 1)
    plans = list(compiler().legal_plans(module, block))
    for chooser in (0, 8):
        data = np.array([*range(1, 17), chooser, 0, 0, 0], np.uint32).tobytes()  # 16 per vector
        compare(module, [data, bytes(8 * 32)], (1, 1, 1), block, [None, *plans[::6]])


@pytest.mark.parametrize("block", [(64, 1, 1), (32, 4, 1), (16, 2, 2), (24, 2, 1)], ids=str)
def test_bits_of_thread_indices(block: tuple[int, int, int]) -> None:
    """A shift or mask takes some bits from the lanes, and the others from the group's base."""
    b = KernelBuilder(8)
    s = SpecialRegister
    indices = [b.special(which) for which in (s.TID_X, s.TID_Y, s.TID_Z, s.LANEID, s.CTAID_X)]
    results = []
    for index, amount in itertools.product(indices, range(7)):
        mask = (1 << amount) - 1
        for op, type_, operand in (
            (Op.SHR, D.U32, amount),
            (Op.SHR, D.S32, amount),
            (Op.AND, D.B32, mask),
            (Op.AND, D.B32, ~mask & 0xFFFF_FFFF),
            (Op.OR, D.B32, mask),
            (Op.DIV, D.U32, max(mask, 1)),
        ):
            results.append(b.register(32))
            b.op(op, type_, results[-1], index, Literal(operand))
    threads = 2 * block[0] * block[1] * block[2]
    out = b.address(b.parameter(0), b.linear_thread(), 4)
    # By rows: a scatter for each would be most of the code.
    for place, result in enumerate(results):
        b.store(D.B32, out, result, 4 * threads * place)
    module = b.module()
    plans = list(compiler().legal_plans(module, block))
    chosen = [None, *(plan for plan in plans if plan.vectors in (1, 2, 4) and plan.versioned)]
    found = compare(module, [bytes(4 * threads * len(results))], (2, 1, 1), block, chosen)[0]
    first = np.frombuffer(found, np.uint32).reshape(len(results), threads)[6]
    assert first.tolist() == [t % block[0] >> 1 for t in range(threads)]


@pytest.mark.parametrize("op", [Op.FMIN, Op.FMAX])
def test_a_converted_integer_wins_over_a_nan(op: Op) -> None:
    """A compiler that knows one operand to be a number must not ignore the other."""
    b = KernelBuilder(8, 8)
    thread = b.linear_thread()
    loaded = b.load(D.F32, b.address(b.parameter(0), thread, 4))
    number = b.register(32)
    b.op(Op.CVT, D.F32, number, thread, source_type=D.U32, rounding=Rounding.RN)
    out = b.address(b.parameter(1), thread, 8)
    for place, operands in enumerate([(loaded, number), (number, loaded)]):
        result = b.register(32)
        b.op(op, D.F32, result, *operands)
        b.store(D.B32, out, result, 4 * place)
    data = np.array([0x7FC00001, 0xFF800001, 0x80000000, 0x7F800000] * 8, np.uint32).tobytes()
    plans = [None, jit.Plan(16, 1), jit.Plan(4, 2), jit.Plan(1, 1), jit.Plan(1, 4)]
    found = compare(b.module(), [data, bytes(256)], (1, 1, 1), (32, 1, 1), plans)[1]
    assert np.frombuffer(found, np.float32)[::8].tolist() == [4.0 * t for t in range(8)]


@pytest.mark.parametrize("far", [0, -(1 << 31), (1 << 31) - 512])
def test_a_large_displacement(far: int) -> None:
    """Bytes are loaded at a uniform place, in a row, and per lane, and stored back to the same
    places.
    """
    b = KernelBuilder(8)
    lane, row = b.special(SpecialRegister.TID_X), b.special(SpecialRegister.TID_Y)
    shifted = b.register(64)
    b.op(Op.SUB, D.B64, shifted, b.parameter(0), Literal(far & (1 << 64) - 1))
    own = b.address(shifted, b.linear_thread(), 4)
    values = [b.load(D.U8, shifted, far + 3), b.load(D.S8, b.address(shifted, row, 64), far + 66)]
    values.append(b.load(D.U8, b.address(shifted, lane, 1), far + 1))
    for place, value in enumerate(values):
        b.store(D.B8, own, value, far + 256 + place)
    data = np.random.default_rng(5).integers(0, 256, 256 + 4 * 30, dtype=np.uint8).tobytes()
    module = b.module()
    for block in ((15, 2, 1), (8, 2, 1)):
        plans = [None, *compiler().legal_plans(module, block)]
        compare(module, [data], (1, 1, 1), block, plans[::3])


@pytest.mark.parametrize("offset", [3, 0xFFFFFFF9])
def test_a_tested_extension_does_not_move_its_load_past_a_store(offset: int) -> None:
    """In one block, a store is followed by a uniform load of the same place and an extended index
    derived from it.
    """
    b = KernelBuilder(8, 8)
    cell, lane = b.parameter(0), b.linear_thread()
    base, index, wide = b.register(32), b.register(32), b.register(64)
    b.store(D.B32, cell, Literal(offset))
    b.op(Op.LD, D.B32, base, cell, space=Space.GLOBAL)
    b.op(Op.ADD, D.B32, index, base, lane)
    b.op(Op.CVT, D.U64, wide, index, source_type=D.U32)
    b.store(D.B64, b.address(b.parameter(1), lane, 8), wide)
    module, block = b.module(), (16, 1, 1)
    plans = [None, jit.Plan(16, 1), jit.Plan(4, 2), jit.Plan(1, 4)]
    data = (77).to_bytes(4, "little")
    found = compare(module, [data, bytes(8 * 16)], (1, 1, 1), block, plans)[1]
    expected = [(offset + lane) & 0xFFFFFFFF for lane in range(16)]
    assert np.frombuffer(found, np.uint64).tolist() == expected
