"""The changes of ``ssa.build`` to a function's code before values are named."""

from vgpu_sim.exec.jit.ir import ssa
from vgpu_sim.isa import Function, Guard, Instruction, Op, Predicate


def _build(*code: Instruction) -> ssa.SsaFunction:
    return ssa.build(Function("f", (), 0, (), 1, code, (0,) * len(code)))


def test_a_loop_may_begin_at_the_first_word() -> None:
    """A block is inserted before it, and the branch follows its target."""
    again = Instruction(Op.BRA, guard=Guard(Predicate(0)), target=0)
    graph = _build(Instruction(Op.NOP), again, Instruction(Op.RET)).graph
    entry = graph.reverse_post_order[0]
    ((header, body),) = graph.loops.items()
    assert body == {header}
    assert graph.blocks[entry].successors == (header,)
    assert not graph.blocks[entry].predecessors
