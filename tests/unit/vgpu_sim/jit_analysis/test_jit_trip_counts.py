"""The origins of addresses, and bounds on the trip counts of loops that advance them."""

import pytest
from hypothesis import given, settings, strategies as st

from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.exec.jit.numbers.known_values import Pointer, known_values
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    MulMode,
    Op,
    Operand,
    SpecialRegister,
)

D = DataType
_ALL = 1 << 32
_HOW = {
    Compare.EQ: lambda a, b: a == b,
    Compare.NE: lambda a, b: a != b,
    Compare.LT: lambda a, b: a < b,
    Compare.LE: lambda a, b: a <= b,
    Compare.GT: lambda a, b: a > b,
    Compare.GE: lambda a, b: a >= b,
}


def _turns(
    start: Operand | None,
    step: int,
    type_: DataType,
    how: Compare,
    limit: int | str,
    *,
    negated: bool = False,
    swapped: bool = False,
    inverse: bool = False,
) -> int | None:
    """Return the bound for ``do counter += step while (counter how limit)``; a named limit is
    unknown.
    """
    b = KernelBuilder(8, 4)
    counter, flag, other = b.register(32), b.predicate(), b.predicate()
    unknown = b.parameter(1)
    b.op(Op.MOV, D.B32, counter, unknown if start is None else start)
    bound: Operand = unknown
    if limit == "multiple of 4":
        bound = b.register(32)
        b.op(Op.AND, D.B32, bound, unknown, Literal(_ALL - 4))
    elif isinstance(limit, int):
        bound = Literal(limit)
    b.place("again")
    b.op(Op.ADD, D.B32, counter, counter, Literal(step % _ALL))
    compared = (bound, counter) if swapped else (counter, bound)
    flags = (other, flag) if inverse else (flag, None)
    b.add(Instruction(Op.SETP, type_, flags, compared, compare=how))
    b.branch("again", Guard(flag, negated))
    form = ssa.build(b.module().functions[0])
    (header,) = form.graph.loops
    return known_values(form).most_trips(header)


@pytest.mark.parametrize(
    ("start", "step", "type_", "how", "limit", "expected"),
    [
        (0, 1, D.S32, Compare.NE, "unknown", _ALL),
        (None, -1, D.S32, Compare.NE, 0, _ALL),
        (None, 3, D.U32, Compare.LT, "unknown", _ALL),
        (None, 1, D.U32, Compare.LE, "unknown", None),  # endless if the limit is the last number
        (None, -1, D.S32, Compare.GE, 0, _ALL),
        (0, 4, D.S32, Compare.NE, "multiple of 4", _ALL // 4),
        (0, 4, D.U32, Compare.LT, "multiple of 4", _ALL // 4),
        (0, 4, D.U32, Compare.LT, "unknown", None),
        (0, 4, D.U32, Compare.NE, "unknown", None),
        (None, 4, D.U32, Compare.NE, "multiple of 4", None),
        (2, 4, D.U32, Compare.NE, "multiple of 4", None),
        (None, 1 << 30, D.U32, Compare.NE, 1, None),
        (None, 1 << 30, D.U32, Compare.LT, 1 << 30, 4),
        (None, 1 << 30, D.U32, Compare.LT, _ALL - 1, None),
        (None, 0, D.U32, Compare.NE, 7, None),
        (None, 8, D.S32, Compare.EQ, "unknown", _ALL // 8),
    ],
)
def test_loops_as_compilers_write_them(
    start: int | None,
    step: int,
    type_: DataType,
    how: Compare,
    limit: int | str,
    expected: int | None,
) -> None:
    first = None if start is None else Literal(start)
    assert _turns(first, step, type_, how, limit) == expected


@settings(max_examples=300, deadline=None)
@given(
    start=st.integers(0, _ALL - 1),
    step=st.integers(1, 255).map(lambda n: n << 24),
    limit=st.sampled_from([0, 1, _ALL - 1, 1 << 31, (1 << 31) - 1, 1 << 24, 5 << 24])
    | st.integers(0, _ALL - 1),
    how=st.sampled_from(sorted(_HOW)),
    type_=st.sampled_from([D.U32, D.S32]),
    negated=st.booleans(),
    swapped=st.booleans(),
    inverse=st.booleans(),
)
def test_no_loop_exceeds_its_trip_bound(
    start: int,
    step: int,
    limit: int,
    how: Compare,
    type_: DataType,
    negated: bool,
    swapped: bool,
    inverse: bool,
) -> None:
    trip_bound = _turns(
        Literal(start),
        step,
        type_,
        how,
        limit,
        negated=negated,
        swapped=swapped,
        inverse=inverse,
    )

    def number(pattern: int) -> int:
        return pattern - _ALL if type_ is D.S32 and pattern >> 31 else pattern

    counter, turns = start, 0
    while turns <= 256:
        turns += 1
        counter = (counter + step) % _ALL
        pair = (limit, counter) if swapped else (counter, limit)
        again = _HOW[how](*map(number, pair)) != (negated != inverse)
        if not again:
            break
    assert trip_bound is None or turns <= trip_bound
    if how in (Compare.EQ, Compare.NE) and trip_bound is None:
        assert turns > 256 or limit % (step & -step) or start % (step & -step)


@pytest.mark.parametrize("op", [Op.ADD, Op.SUB])
def test_a_long_chain_leads_to_its_pointer(op: Op) -> None:
    """The chains are those of unrolled loops: each pointer is computed from the previous one."""
    b = KernelBuilder(8)
    pointer, index = b.parameter(0), b.register(64)
    b.op(Op.CVT, D.U64, index, b.special(SpecialRegister.TID_X), source_type=D.U32)
    for _ in range(3000):
        b.op(op, D.U64, pointer, pointer, Literal(4))
        b.op(op, D.U64, index, index, Literal(1))
    b.op(Op.ADD, D.U64, pointer, pointer, index)
    form = ssa.build(b.module().functions[0])
    (last,) = [n for n in next(iter(form.blocks.values())).nodes if n.word == 6003]
    most = (1 << 32) - 1 + (15_000 if op is Op.ADD else -15_000)
    assert known_values(form).trace(last.results[0]) == Pointer(0, most, 1)


@pytest.mark.parametrize(
    ("factors", "step", "expected"),
    [
        ((4, 8), 32, _ALL // 32),
        ((4, 8), 64, None),  # may step over a limit of 32 forever
        ((4, 1), 4, _ALL // 4),
        ((4, 1), 8, None),
        ((1, 1), 2, None),
        ((1 << 20, 1 << 20), 1 << 31, 2),  # the product is 0
    ],
)
def test_a_limit_that_is_a_product(
    factors: tuple[int, int], step: int, expected: int | None
) -> None:
    """``do counter += step while (counter != n * m)``; n and m are multiples of the factors."""
    b = KernelBuilder(8, 4, 4)
    counter, bound, flag = b.register(32), b.register(32), b.predicate()
    parts = [b.register(32) for _ in factors]
    for place, factor in enumerate(factors):
        b.op(Op.AND, D.B32, parts[place], b.parameter(1 + place), Literal(_ALL - factor))
    b.op(Op.MUL, D.U32, bound, *parts, mode=MulMode.LO)
    b.op(Op.MOV, D.B32, counter, Literal(0))
    b.place("again")
    b.op(Op.ADD, D.B32, counter, counter, Literal(step))
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (counter, bound), compare=Compare.NE))
    b.branch("again", Guard(flag))
    form = ssa.build(b.module().functions[0])
    (header,) = form.graph.loops
    assert known_values(form).most_trips(header) == expected
