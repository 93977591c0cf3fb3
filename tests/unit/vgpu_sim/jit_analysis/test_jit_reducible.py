"""Cycles with several entries: the result has one entry each and is not much longer."""

import pytest

from support.kernels import random_flow
from vgpu_sim.exec import cfg
from vgpu_sim.exec.jit.ir.reducible import make_reducible
from vgpu_sim.isa import Function, Guard, Instruction, Op, Predicate

_WORDS_A_BLOCK = 7


@pytest.mark.parametrize("seed", range(40))
def test_any_graph_becomes_reducible_at_a_bounded_cost(seed: int) -> None:
    function = random_flow.graph(seed, blocks=30, backwards=True).functions[0]
    words = tuple(range(len(function.code)))
    found, origins = make_reducible(function, words)
    assert not cfg.build(found).irreducible_edges
    blocks = len(cfg.build(function).blocks)
    assert len(found.code) <= len(function.code) + _WORDS_A_BLOCK * blocks + 1
    kept = [word for place, word in enumerate(origins) if found.code[place].op is not Op.BRA]
    assert set(words) - set(kept) <= {w for w in words if function.code[w].op is Op.BRA}


def test_a_reducible_function_is_unchanged() -> None:
    function = random_flow.graph(3, blocks=30, backwards=False).functions[0]
    words = tuple(range(len(function.code)))
    assert make_reducible(function, words) == (function, words)


def test_instructions_keep_their_origins() -> None:
    guard = Guard(Predicate(0))
    code = (
        Instruction(Op.BRA, guard=guard, target=2),
        Instruction(Op.NOP),
        Instruction(Op.TRAP, guard=guard),
        Instruction(Op.BRA, guard=guard, target=1),
        Instruction(Op.RET),
    )
    function = Function("odd", (), 0, (), 1, code, (0,) * 5)
    found, origins = make_reducible(function, tuple(range(5)))
    assert [origins[w] for w, i in enumerate(found.code) if i.op is Op.TRAP] == [2]
    assert {origins[w] for w, i in enumerate(found.code) if i.op is Op.MOV} == {1, 2}


def test_the_first_word_may_be_in_the_cycle() -> None:
    guard = Guard(Predicate(0))
    code = (
        Instruction(Op.BRA, guard=guard, target=2),
        Instruction(Op.NOP),
        Instruction(Op.BRA, guard=guard, target=1),
        Instruction(Op.BRA, guard=guard, target=0),
        Instruction(Op.RET),
    )
    function = Function("odd", (), 0, (), 1, code, (0,) * 5)
    assert cfg.build(function).irreducible_edges
    found, _ = make_reducible(function, tuple(range(5)))
    assert not cfg.build(found).irreducible_edges


def test_a_cycle_with_two_entries_within_the_smallest_loop() -> None:
    guard = Guard(Predicate(0))
    code = (
        Instruction(Op.NOP),
        Instruction(Op.BRA, guard=guard, target=3),
        Instruction(Op.BRA, guard=guard, target=1),
        Instruction(Op.BRA, guard=guard, target=2),
        Instruction(Op.RET),
    )
    function = Function("odd", (), 0, (), 1, code, (0,) * 5)
    assert cfg.build(function).irreducible_edges
    found, _ = make_reducible(function, tuple(range(5)))
    assert not cfg.build(found).irreducible_edges
