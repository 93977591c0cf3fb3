"""The control-flow graph: blocks, dominators, reconvergence and loops."""

import itertools

import pytest
from hypothesis import given, strategies as st

from vgpu_sim.exec import cfg
from vgpu_sim.exec.jit.ir import support
from vgpu_sim.isa import DataType, Function, Guard, Instruction, Op, Predicate

P0 = Guard(Predicate(0))


def bra(target: int, *, guarded: bool = True) -> Instruction:
    return Instruction(Op.BRA, target=target, guard=P0 if guarded else None)


NOP = Instruction(Op.NOP)
RET = Instruction(Op.RET)


def function(*code: Instruction) -> Function:
    return Function("k", (), 0, (), 1, code, (0,) * len(code))


def test_diamond_meets_at_its_post_dominator() -> None:
    graph = cfg.build(function(bra(3), NOP, bra(4, guarded=False), NOP, RET))
    assert [(b.start, b.end) for b in graph.blocks] == [(0, 1), (1, 3), (3, 4), (4, 5)]
    assert graph.blocks[0].successors == (2, 1)
    assert graph.ipdom == (3, 3, 3, graph.exit)
    assert graph.idom == (0, 0, 0, 0)
    assert graph.block_of_word == (0, 1, 1, 2, 3)
    assert not graph.loops


def _nested_loops(depth: int) -> Function:
    heads = [NOP] * depth
    return function(*heads, *(bra(head) for head in reversed(range(depth))), RET)


def test_the_innermost_loop_of_deep_nests() -> None:
    graph = cfg.build(_nested_loops(400))
    assert len(graph.loops) == 400
    assert graph.innermost_loop[:400] == tuple(range(400))
    assert graph.innermost_loop[400:799] == tuple(reversed(range(399)))


def test_unlimited_nesting_of_loops_is_rejected_by_name() -> None:
    with pytest.raises(cfg.LoopNestError, match=r"loops nest too deeply .*1048576 blocks"):
        cfg.build(_nested_loops(10_000))
    (refusal,) = support.refusals(_nested_loops(10_000))
    assert "loops nest too deeply" in str(refusal)


def test_an_early_return_moves_reconvergence_to_the_exit() -> None:
    graph = cfg.build(function(Instruction(Op.RET, guard=P0), NOP, RET))
    assert graph.blocks[0].successors == (graph.exit, 1)
    assert graph.ipdom[0] == graph.exit


def test_nested_loops_and_innermost() -> None:
    graph = cfg.build(function(NOP, NOP, NOP, bra(2), bra(1), RET))
    outer, inner = graph.block_of_word[1], graph.block_of_word[2]
    assert set(graph.loops) == {outer, inner}
    assert graph.loops[inner] < graph.loops[outer]
    assert graph.innermost_loop[inner] == inner
    assert graph.innermost_loop[outer] == outer
    assert graph.innermost_loop[0] == -1
    assert graph.dominates(outer, inner)
    assert not graph.dominates(inner, outer)


def test_irreducible_edge_is_reported() -> None:
    graph = cfg.build(function(bra(3), NOP, NOP, NOP, bra(1), RET))
    assert graph.irreducible_edges
    assert cfg.build(function(NOP, bra(0), RET)).irreducible_edges == ()


def test_endless_loop_has_a_post_dominator() -> None:
    graph = cfg.build(function(bra(3), NOP, bra(1, guarded=False), RET))
    assert graph.ipdom[graph.block_of_word[1]] == graph.exit
    assert graph.ipdom[0] == graph.exit


def test_unreachable_instructions_are_not_in_the_order() -> None:
    graph = cfg.build(function(bra(2, guarded=False), NOP, RET))
    assert graph.reverse_post_order == (0, 2)
    assert graph.idom[1] == -1
    assert graph.ipdom[1] == -1
    assert graph.blocks[2].predecessors == (0,)


def test_falling_off_the_end_and_guarded_trap() -> None:
    graph = cfg.build(function(Instruction(Op.TRAP, guard=P0), NOP))
    assert len(graph.blocks) == 1
    assert graph.blocks[0].successors == (graph.exit,)
    graph = cfg.build(function(Instruction(Op.TRAP), NOP))
    assert [b.successors for b in graph.blocks] == [(graph.exit,), ()]


@pytest.mark.parametrize("target", [-1, 2, None])
def test_a_branch_out_of_the_function_is_rejected(target: int | None) -> None:
    with pytest.raises(cfg.ControlFlowError, match="k: instruction 0"):
        cfg.build(function(Instruction(Op.BRA, DataType.B32, target=target), RET))


def test_a_function_without_code_is_rejected() -> None:
    with pytest.raises(cfg.ControlFlowError):
        cfg.build(function())


@given(st.lists(st.tuples(st.sampled_from("nbgr"), st.integers(0, 11)), min_size=1, max_size=12))
def test_dominators_agree_with_path_search(words: list[tuple[str, int]]) -> None:
    code = []
    for kind, target in words:
        if kind == "n":
            code.append(NOP)
        elif kind == "r":
            code.append(RET)
        else:
            code.append(bra(target % len(words), guarded=kind == "g"))
    graph = cfg.build(function(*code))
    nodes = graph.reverse_post_order
    edges = {b: graph.blocks[b].successors for b in nodes}

    def reaches(start: int, goal: int, without: int | None) -> bool:
        seen, pending = set(), [start]
        while pending:
            node = pending.pop()
            if node in seen or node == without:
                continue
            seen.add(node)
            pending += edges.get(node, ())
        return goal in seen

    for a, b in itertools.product(nodes, nodes):
        assert graph.dominates(a, b) == (a == b or not reaches(0, b, a))
        if reaches(b, graph.exit, None) and all(reaches(n, graph.exit, None) for n in nodes):
            assert graph.post_dominates(a, b) == (a == b or not reaches(b, graph.exit, a))
