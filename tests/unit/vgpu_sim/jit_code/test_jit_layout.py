"""The points at which all lanes of a block rejoin within an iteration, and the cost of a plan."""

from support.kernels.kernel_builder import KernelBuilder
from vgpu_sim.exec import cfg
from vgpu_sim.exec.jit import Plan
from vgpu_sim.exec.jit.ir import block_order, ssa
from vgpu_sim.exec.jit.planning import choose
from vgpu_sim.isa import DataType, Function, Guard, Instruction, Op, Predicate

_GUARD = Guard(Predicate(0))


def _level(*code: Instruction) -> block_order.Level:
    return block_order.build(cfg.build(Function("f", (), 0, (), 1, code, (0,) * len(code))))


def _to(target: int) -> Instruction:
    return Instruction(Op.BRA, guard=_GUARD, target=target)


def test_all_lanes_reach_the_join_of_both_paths() -> None:
    level = _level(_to(2), Instruction(Op.NOP), Instruction(Op.NOP), Instruction(Op.RET))
    assert level.all_lanes_reach(0, 2)
    assert not level.all_lanes_reach(0, 1)
    assert not level.all_lanes_reach(1, 0)


def test_a_block_before_which_lanes_end_is_not_reached_by_all() -> None:
    end = Instruction(Op.RET, guard=_GUARD)
    level = _level(_to(2), end, Instruction(Op.NOP), Instruction(Op.RET))
    assert not level.all_lanes_reach(0, 2)
    assert not level.all_lanes_reach(1, 2)


def test_a_block_before_which_lanes_iterate_is_not_reached_by_all() -> None:
    level = _level(Instruction(Op.NOP), _to(3), _to(1), Instruction(Op.NOP), _to(1))
    (loop,) = [unit for unit in level.units if isinstance(unit, block_order.Level)]
    assert loop.header == 1
    assert not loop.all_lanes_reach(1, 3)


def test_paths_that_never_join_have_no_meeting() -> None:
    end = Instruction(Op.RET)
    level = _level(_to(3), Instruction(Op.NOP), end, Instruction(Op.NOP), end)
    assert not level.meeting


def test_expanded_arithmetic_counts_at_its_cost() -> None:
    def choose_plan(op: Op) -> Plan:
        b = KernelBuilder(8)
        value = b.load(DataType.F32, b.parameter(0))
        for _ in range(300):
            b.op(op, DataType.F32, value, value)
        b.store(DataType.F32, b.parameter(0), value)
        return choose.choose(ssa.build(b.module().functions[0]), (256, 1, 1), 512)

    assert choose_plan(Op.FNEG).tier == 1
    assert choose_plan(Op.FSIN).tier == 0
