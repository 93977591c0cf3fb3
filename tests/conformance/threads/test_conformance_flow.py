"""Control flow of any shape: masks and joins under many plans agree with the interpreter."""

import random

import numpy as np
import pytest

from support.execution.both_backends import compare, compiler
from support.kernels import random_flow
from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec import cfg, jit
from vgpu_sim.isa import (
    Compare,
    DataType,
    Guard,
    Instruction,
    Literal,
    Module,
    Op,
    Predicate,
    SpecialRegister,
)

D = DataType
_BLOCKS = [(16, 1, 1), (8, 4, 1), (6, 2, 1), (7, 1, 1)]


def _agrees(module: Module, seed: int, plans_each: int) -> None:
    chance = random.Random(seed)
    block = chance.choice(_BLOCKS)
    plans = list(compiler().legal_plans(module, block))
    chosen = [None, *chance.sample(plans, plans_each)]
    for uniform in (0b0110, 0b1001):
        buffers = [bytes(random_flow.OUT_BYTES)]
        compare(module, buffers, (2, 1, 1), block, chosen, extra=[uniform])


@pytest.mark.parametrize("seed", range(8))
def test_joins_of_uniform_and_divergent_branches(seed: int) -> None:
    _agrees(random_flow.trees(seed), seed, plans_each=2)


@pytest.mark.parametrize("seed", range(8))
def test_jumps_forward_to_anywhere(seed: int) -> None:
    _agrees(random_flow.graph(seed, blocks=16, backwards=False), seed, plans_each=2)


@pytest.mark.parametrize("seed", [0, 8, 14, 17, 19, 20, 21, 32, 38])
def test_jumps_to_anywhere(seed: int) -> None:
    """The graphs include cycles with several entries, which masks cannot represent directly."""
    module = random_flow.graph(seed, blocks=8 + seed % 13, backwards=True)
    assert cfg.build(module.functions[0]).irreducible_edges
    _agrees(module, seed, plans_each=2)


def _test_bits(b: KernelBuilder, op: Op, value: object, operand: int) -> Predicate:
    number, flag = b.register(32), b.predicate()
    b.op(op, D.B32, number, value, Literal(operand))  # type: ignore[arg-type]
    b.add(Instruction(Op.SETP, D.U32, (flag, None), (number, Literal(0)), compare=Compare.NE))
    return flag


def test_a_uniform_branch_within_a_divergent_one() -> None:
    """``if (t & 1) y = 7; else if (n) x = 1000 + t;``: odd lanes keep their x."""
    b = KernelBuilder(8, 4)
    thread, n = b.linear_thread(), b.parameter(1)
    lane = b.special(SpecialRegister.TID_X)
    x, y = b.register(32), b.register(32)
    b.op(Op.MOV, D.B32, x, lane)
    b.branch("odd", Guard(_test_bits(b, Op.AND, lane, 1)))
    b.branch("met", Guard(_test_bits(b, Op.AND, n, 1), True))
    b.op(Op.ADD, D.U32, x, lane, Literal(1000))
    b.branch("met")
    b.place("odd")
    b.op(Op.MOV, D.B32, y, Literal(7))
    b.place("met")
    out = b.address(b.parameter(0), thread, 8)
    b.store(D.B32, out, x)
    b.store(D.B32, out, y, 4)
    module, block = b.module(), (32, 1, 1)
    plans = [None, *compiler().legal_plans(module, block)]
    found = compare(module, [bytes(8 * 32)], (1, 1, 1), block, plans, extra=[1])[0]
    expected = [[t, 7] if t % 2 else [1000 + t, 0] for t in range(32)]
    assert np.frombuffer(found, np.uint32).reshape(32, 2).tolist() == expected


def _nested_loops(depth: int) -> Module:
    """Return nested loops, of which only the innermost and the outermost iterate twice."""
    b = KernelBuilder(8, 4)
    total, out = b.register(32), b.address(b.parameter(0), b.linear_thread(), 4)
    counters = [b.register(32) for _ in range(depth)]
    for place, counter in enumerate(counters):
        b.op(Op.MOV, D.B32, counter, Literal(0))
        b.place(f"loop{place}")
    b.op(Op.ADD, D.U32, total, total, b.special(SpecialRegister.TID_X))
    for place in reversed(range(depth)):
        b.op(Op.ADD, D.U32, counters[place], counters[place], Literal(1))
        more = b.predicate()
        turns = Literal(2 if place in (0, depth - 1) else 1)
        b.add(
            Instruction(Op.SETP, D.U32, (more, None), (counters[place], turns), compare=Compare.LT)
        )
        b.branch(f"loop{place}", Guard(more))
    b.store(D.B32, out, total)
    return b.module()


def _nested_branches(depth: int) -> Module:
    """Return nested branches: a lane counts those that it enters, and the ends of those that it
    skips.
    """
    b = KernelBuilder(8, 4)
    total, lane = b.register(32), b.special(SpecialRegister.TID_X)
    for place in range(depth):
        skip = b.predicate()
        limit = (lane, Literal(place % 97))
        b.add(Instruction(Op.SETP, D.U32, (skip, None), limit, compare=Compare.LT))
        b.branch(f"end{place}", Guard(skip))
    for place in reversed(range(depth)):
        b.op(Op.ADD, D.U32, total, total, Literal(1))
        b.place(f"end{place}")
    b.store(D.B32, b.address(b.parameter(0), b.linear_thread(), 4), total)
    return b.module()


@pytest.mark.parametrize("depth", [40, 240])
def test_deeply_nested_loops(depth: int) -> None:
    plans = [jit.Plan(4, 2), None] if depth < 100 else [jit.Plan(4, 1, tier=0)]
    found = compare(_nested_loops(depth), [bytes(32)], (1, 1, 1), (8, 1, 1), plans, extra=[0])[0]
    assert np.frombuffer(found, np.uint32).tolist() == [4 * lane for lane in range(8)]


@pytest.mark.parametrize("depth", [300, 1_100])  # beyond the limit of Python's recursion
def test_deeply_nested_branches(depth: int) -> None:
    found = compare(_nested_branches(depth), [bytes(32)], (1, 1, 1), (8, 1, 1), [None], extra=[0])
    assert np.frombuffer(found[0], np.uint32).tolist() == [lane + 1 for lane in range(8)]
